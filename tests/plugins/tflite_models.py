"""The models of the contract as .tflite files, in the layout of TensorFlow: channels last.

They are put together by the schema that LiteRT's package brings, with the weights of the ONNX files, by which the
reference is computed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as schema
from onnx import numpy_helper

from enginebench_plugins import spec
from enginebench_plugins.testing import contract_models
from enginebench_plugins.testing.contract_models import Arrays, ContractModel

FORMAT = "tflite"
TYPES = {"float32": schema.TensorType.FLOAT32, "int32": schema.TensorType.INT32, "int64": schema.TensorType.INT64}
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Where channels go: an image's of ONNX last, and one's of TensorFlow first."""


@dataclass(frozen=True)
class TensorFlowModel(ContractModel):
    """A .tflite file with the ONNX model that it was made of."""

    original: ContractModel = None  # type: ignore[assignment]  # always given

    def inputs_for(self, batch: int, seed: int) -> Arrays:
        return {
            name: np.ascontiguousarray(array.transpose(LAST)) if array.ndim == 4 else array
            for name, array in self.original.inputs_for(batch, seed).items()
        }

    def reference(self, inputs: Mapping[str, Any]) -> Arrays:
        given = {name: array.transpose(FIRST) if array.ndim == 4 else array for name, array in inputs.items()}
        return self.original.reference(given)


def classifier(folder: Path, batch: int | None = None) -> ContractModel:
    original = contract_models.classifier(folder, batch)
    weights, channels, classes = _weights(original), contract_models.CHANNELS, contract_models.CLASSES
    _, height, width = contract_models.IMAGE
    image = spec.TensorSpec("image", "float32", (batch, height, width, contract_models.IMAGE[0]))
    maps = (batch, height, width, channels)
    made = Graph()
    made.add("CONV_2D", ["image", made.weight("stem", _last(weights["stem"])), made.zeros(channels)], "r1", maps, CONV)
    made.add("CONV_2D", ["r1", made.weight("body", _last(weights["body"])), made.zeros(channels)], "r2", maps, CONV)
    pooled = (batch, channels)
    made.add(
        "MEAN", ["r2", made.weight("places", np.array([1, 2], np.int32))], "pooled", pooled, schema.ReducerOptionsT()
    )
    linear = ["pooled", made.weight("head", weights["head"]), made.weight("bias", weights["bias"])]
    made.add("FULLY_CONNECTED", linear, "logits", (batch, classes), schema.FullyConnectedOptionsT())
    return made.saved(folder / "classifier.tflite", original, (image,))


def embedding(folder: Path) -> ContractModel:
    original = contract_models.embedding(folder)
    weights, tokens, hidden = _weights(original), contract_models.TOKENS, contract_models.HIDDEN
    made = Graph()
    looked_up = (None, tokens, hidden)
    made.add(
        "GATHER", [made.weight("table", weights["table"]), "tokens"], "looked_up", looked_up, schema.GatherOptionsT()
    )
    made.add("MUL", ["looked_up", "token_weights"], "weighted", looked_up, schema.MulOptionsT())
    place = made.weight("place", np.array([1], np.int32))
    made.add("MEAN", ["weighted", place], "embedding", (None, hidden), schema.ReducerOptionsT())
    projection = made.weight("projection", np.ascontiguousarray(weights["projection"].T))
    linear = ["embedding", projection, made.zeros(4)]
    made.add("FULLY_CONNECTED", linear, "scores", (None, 4), schema.FullyConnectedOptionsT())
    return made.saved(folder / "embedding.tflite", original, original.inputs)


class Graph:
    """Tensors and operators of a .tflite file, each of which may name tensors that come later."""

    def __init__(self) -> None:
        self._model = schema.ModelT()
        self._model.version = 3
        self._model.buffers = [schema.BufferT()]
        self._model.operatorCodes = []
        self._part = schema.SubGraphT()
        self._part.tensors, self._part.operators = [], []
        self._places: dict[str, int] = {}

    def weight(self, name: str, values: Any) -> str:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        self._model.buffers.append(buffer)
        self._tensor(name, str(values.dtype), values.shape, len(self._model.buffers) - 1)
        return name

    def zeros(self, size: int) -> str:
        return self.weight(f"zeros{len(self._places)}", np.zeros(size, np.float32))

    def add(self, kind: str, reads: Sequence[str], makes: str, shape: Sequence[int | None], options: Any) -> None:
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, kind)
        code.version = 1
        self._model.operatorCodes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self._model.operatorCodes) - 1
        operator.builtinOptions = options
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__.removesuffix("T"))
        operator.inputs, operator.outputs = list(reads), [makes]
        self._part.operators.append(operator)
        self._tensor(makes, "float32", shape)

    def saved(self, path: Path, original: ContractModel, inputs: tuple[spec.TensorSpec, ...]) -> ContractModel:
        for one in inputs:
            self._tensor(one.name, one.dtype, one.shape)
        for operator in self._part.operators:
            operator.inputs = [self._places[name] for name in operator.inputs]
            operator.outputs = [self._places[name] for name in operator.outputs]
        self._part.inputs = [self._places[one.name] for one in inputs]
        self._part.outputs = [self._places[name] for name in original.outputs]
        self._model.subgraphs = [self._part]
        builder = flatbuffers.Builder(1024)
        builder.Finish(self._model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))
        return TensorFlowModel(path, FORMAT, inputs, original.outputs, original)

    def _tensor(self, name: str, dtype: str, shape: Sequence[int | None], buffer: int = 0) -> None:
        tensor = schema.TensorT()
        tensor.name, tensor.type, tensor.buffer = name.encode(), TYPES[dtype], buffer
        tensor.shape = [1 if size is None else size for size in shape]
        if None in shape:
            tensor.shapeSignature = [-1 if size is None else size for size in shape]
        self._places[name] = len(self._part.tensors)
        self._part.tensors.append(tensor)


def _conv() -> Any:
    options = schema.Conv2DOptionsT()
    options.strideH = options.strideW = options.dilationHFactor = options.dilationWFactor = 1
    options.padding, options.fusedActivationFunction = schema.Padding.SAME, schema.ActivationFunctionType.RELU
    return options


CONV = _conv()


def _weights(model: ContractModel) -> dict[str, Any]:
    return {one.name: numpy_helper.to_array(one) for one in onnx.load(str(model.path)).graph.initializer}


def _last(weights: Any) -> Any:
    """A convolution's weights as TensorFlow has them: outputs, height, width, inputs."""
    return np.ascontiguousarray(weights.transpose(0, 2, 3, 1))
