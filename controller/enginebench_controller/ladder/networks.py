"""The forms a ladder takes its model in: as given, as ONNX, as OpenVINO IR with FP16 weights."""

from collections.abc import Mapping

from enginebench_controller.errors import ModelError
from enginebench_controller.ladder.steps import Network
from enginebench_controller.model.ir_conversion import convert_to_ir, refuse_untrusted
from enginebench_controller.model.library import ModelLibrary
from enginebench_controller.model.shapes import GivenShape
from enginebench_controller.planning.binder import Binder
from enginebench_controller.records import ModelVersion
from enginebench_proto.agreed.words import ModelFormat


class Networks:
    """Finds or makes the exact version a rung runs, fit for its batch.

    `trusted` allows loading a saved program, which can run code of its own.
    """

    def __init__(
        self,
        library: ModelLibrary,
        source: ModelVersion,
        binder: Binder,
        shapes: Mapping[str, GivenShape],
        *,
        trusted: bool,
    ) -> None:
        self._library = library
        self._source = source
        self._binder = binder
        self._shapes = shapes
        self._trusted = trusted

    def version(self, network: Network, batch: int) -> ModelVersion:
        """The version to run. Raises `ModelError` with the reason where the model has no such form."""
        refuse_untrusted(self._source, trusted=self._trusted)
        kind = self._source.format
        if network is Network.ONNX and kind != ModelFormat.ONNX:
            raise ModelError(f"{self._source.name} is {kind}, and there is no ONNX file of it")
        fit = self._binder(self._source.digest, batch).version
        if network is not Network.IR or kind == ModelFormat.OPENVINO_IR:
            return fit
        return convert_to_ir(self._library, fit, self._shapes, trusted=self._trusted)
