"""The hook, and what DeepSparse offers as an engine."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from enginebench_plugins import spec
from enginebench_plugins.processor import processor_name
from enginebench_plugins.refusal import refuse_unsupported

if TYPE_CHECKING:
    from enginebench_plugins.deepsparse.closed_shapes import ClosedModel

FIRST_UNSUPPORTED_PYTHON = (3, 12)
OWN_ENVIRONMENT = "enginebench-agent environment add deepsparse --engine deepsparse"


class DeepSparse(spec.Engine):
    """Runs ONNX files in f32 on the processor; what it cannot run itself goes to an ONNX Runtime inside it."""

    def info(self) -> spec.EngineInfo:
        """Version and abilities. Raises `EngineUnavailableError` where the package is missing or does not load."""
        import_engine()
        return spec.EngineInfo(
            version=version("deepsparse"),
            formats=frozenset({spec.ModelFormat.ONNX}),
            multiple_streams=True,
            profiling=True,
        )

    def devices(self) -> Sequence[spec.Device]:
        """The processor, with what DeepSparse found out about it."""
        import_engine()
        from deepsparse.cpu import cpu_architecture

        properties = {name: str(value) for name, value in sorted(cpu_architecture().items())}
        return [spec.Device("CPU", processor_name(), properties=properties)]

    def read(self, source: spec.ModelSource) -> Any:
        """Read the graph, to close its shapes; DeepSparse itself takes graph and weights from the file again."""
        from enginebench_plugins.onnx_model import read_onnx

        return read_onnx(source.path, weights=False)

    def convert(self, model: Any, source: spec.ModelSource) -> "ClosedModel":
        """Close open dimensions: DeepSparse compiles for one batch and one shape."""
        from enginebench_plugins.deepsparse.closed_shapes import close_shapes

        return close_shapes(model, source)

    def compile(self, model: "ClosedModel", source: spec.ModelSource, settings: spec.Settings) -> spec.CompiledModel:
        """Raises `UnsupportedSettingsError` also for more streams than DeepSparse gives, which depends on the cores."""
        from enginebench_plugins.deepsparse.compile import compile_engine

        refuse_unsupported("deepsparse", self.info(), self.devices(), settings)
        return compile_engine(import_engine(), model, settings)


def import_engine() -> Any:
    """The module `deepsparse.engine`. Raises `EngineUnavailableError` with the remedy."""
    if sys.version_info >= FIRST_UNSUPPORTED_PYTHON:
        raise spec.EngineUnavailableError(
            f"DeepSparse 1.8 supports Python < 3.12 and this is {sys.version_info.major}.{sys.version_info.minor}: "
            f"with a Python 3.11, {OWN_ENVIRONMENT}",
            installed=False,
        )
    os.environ["NM_DISABLE_ANALYTICS"] = "1"  # read at import; it reports to its maker otherwise
    try:
        import deepsparse.engine
    except ModuleNotFoundError as error:
        if error.name != "deepsparse":
            raise spec.EngineUnavailableError(_not_loading(error)) from error
        raise spec.EngineUnavailableError(
            f"DeepSparse is not installed here; it wants an environment of its own: {OWN_ENVIRONMENT}", installed=False
        ) from error
    except (ImportError, OSError) as error:  # OSError: a processor or system it does not support
        raise spec.EngineUnavailableError(_not_loading(error)) from error
    return deepsparse.engine


def _not_loading(error: Exception) -> str:
    return f"DeepSparse is installed but does not load ({error}): it wants deepsparse==1.8.*, {OWN_ENVIRONMENT}"


@spec.hookimpl
def enginebench_engine() -> spec.Engine:
    """The engine."""
    return DeepSparse()
