"""DeepSparse, imported or refused with a remedy – its last release needs an old Python – and the processor it finds."""

import os
import sys
from typing import Any

from enginebench_plugins import spec

FIRST_PYTHON_TOO_NEW = (3, 12)
REMEDY = "enginebench-agent environment add deepsparse --engine deepsparse"


def import_deepsparse() -> Any:
    """The `deepsparse` module, told to send no usage statistics. Raises `EngineUnavailableError` with the remedy."""
    os.environ["NM_DISABLE_ANALYTICS"] = "1"  # read while the package is imported
    try:
        import deepsparse
    except ModuleNotFoundError as error:
        if error.name != "deepsparse":
            raise _broken(error) from error
        raise spec.EngineUnavailableError(missing(sys.version_info[:2]), installed=False) from error
    except (ImportError, OSError) as error:  # OSError: a processor or an operating system it does not know
        raise _broken(error) from error
    if not hasattr(deepsparse, "Engine"):
        raise spec.EngineUnavailableError(
            f"this release of DeepSparse is empty; 1.8 is the last one with an engine: {REMEDY}"
        )
    return deepsparse


def missing(python: tuple[int, int]) -> str:
    """What to do where the package is absent, by the version of the Python that lacks it."""
    if python < FIRST_PYTHON_TOO_NEW:
        return f"DeepSparse is not installed here: {REMEDY}"
    return (
        f"DeepSparse 1.8 supports Python < 3.12, and this is {python[0]}.{python[1]}: "
        f"{REMEDY} --python PATH, with the path of a Python 3.11"
    )


def _broken(error: Exception) -> spec.EngineUnavailableError:
    return spec.EngineUnavailableError(
        f"DeepSparse is installed but does not load ({error}): give it an environment of its own with {REMEDY}"
    )


def instruction_set(deepsparse: Any) -> str:
    """The vector instructions DeepSparse found, such as "avx2" or "avx512 vnni"."""
    architecture = deepsparse.cpu.cpu_architecture()
    return f"{architecture.isa} vnni" if architecture.vnni else str(architecture.isa)
