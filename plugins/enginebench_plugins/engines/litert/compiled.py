"""From the bytes of a .tflite file to interpreters of LiteRT: what they run, and what they tell about themselves."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from enginebench_plugins import spec
from enginebench_plugins.toolkit.engine import own_inputs

DELEGATED = "DELEGATE"
"""What the operator is called that stands for all that XNNPACK took over."""

FIRST = 0
"""Interpreters number the subgraphs; inferences run the first."""


class CompiledLiteRt(spec.CompiledModel):
    """A model of which each request has an interpreter of its own: one interpreter runs one inference at a time."""

    def __init__(self, interpreter: Any, model: bytes, source: spec.ModelSource, settings: spec.Settings) -> None:
        self._interpreter, self._model = interpreter, model
        self._threads = max(1, settings.cores // settings.requests)
        first = self._made()
        self._names = signed_names(first)
        declared = [_input(told, self._names) for told in first.get_input_details()]
        self._inputs = own_inputs(declared, source, settings.batch)
        _shape(first, self._inputs)
        self._kernels = _kernels(first)
        self._precision = _precision(first)
        self._spare = [first]

    @property
    def inputs(self) -> Sequence[spec.TensorSpec]:
        """The inputs with the shapes of this run."""
        return self._inputs

    def effective(self) -> spec.Effective:
        """The interpreter tells what a delegate took; the rest follows from the file, or is observed."""
        return spec.Effective(
            streams=spec.Readback(1, spec.Source.ASSUMED),
            precision=spec.Readback(self._precision, spec.Source.ASSUMED),
            provider=spec.Readback(self._kernels, spec.Source.ENGINE_API),
        )

    def create_request(self) -> spec.InferRequest:
        """A request that runs in the caller's thread and those of its interpreter."""
        if self._spare:
            return LiteRtRequest(self._spare.pop(), self._names)
        another = self._made()
        _shape(another, self._inputs)
        return LiteRtRequest(another, self._names)

    def close(self) -> None:
        """Drop the model."""
        self._spare.clear()
        del self._model

    def _made(self) -> Any:
        return self._interpreter(model_content=self._model, num_threads=self._threads)


class LiteRtRequest(spec.InferRequest):
    """One interpreter."""

    def __init__(self, interpreter: Any, names: Mapping[int, str]) -> None:
        self._interpreter = interpreter
        inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
        self._places = {names.get(told["index"], told["name"]): told["index"] for told in inputs}
        self._outputs = output_places(outputs, names)

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        """Run the model from the state that it begins with; the outputs are copied into new arrays."""
        self._interpreter.reset_all_variables()
        for name, array in inputs.items():
            self._interpreter.set_tensor(self._places[name], array)
        self._interpreter.invoke()
        return {name: self._interpreter.get_tensor(place) for name, place in self._outputs.items()}

    def close(self) -> None:
        """End the request's thread and let go of the interpreter."""
        super().close()
        del self._interpreter


def signed_names(interpreter: Any) -> dict[int, str]:
    """The names of inputs and outputs in the file's signature, by the place of the tensor.

    These are what whoever exported the model called them, where tensors have names such as "PartitionedCall:0". A file
    without a signature has none, and one of several is not chosen.
    """
    signatures = interpreter._get_full_signature_list()
    if len(signatures) != 1:
        return {}
    (signature,) = signatures.values()
    return {place: name for part in ("inputs", "outputs") for name, place in signature[part].items()}


def output_places(details: Sequence[Mapping[str, Any]], names: Mapping[int, str]) -> dict[str, int]:
    """Where each output's tensor is, by name; a file may call two alike, and the later ones get a number behind."""
    seen: Counter[str] = Counter()
    places = {}
    for told in details:
        name = names.get(told["index"], told["name"])
        seen[name] += 1
        places[name if seen[name] == 1 else f"{name}:{seen[name]}"] = told["index"]
    return places


def _input(told: Mapping[str, Any], names: Mapping[int, str]) -> spec.TensorSpec:
    """An input as the file has it: sizes of -1 in the signature are open.

    Raises `UnsupportedSettingsError` for a text.
    """
    dtype = np.dtype(told["dtype"])
    if dtype.kind not in "biuf":
        raise spec.UnsupportedSettingsError(f"input {told['name']} holds {dtype.name}; inputs are numbers here")
    sizes = told["shape_signature"] if len(told["shape_signature"]) else told["shape"]
    name = names.get(told["index"], told["name"])
    return spec.TensorSpec(name, dtype.name, tuple(None if size < 0 else int(size) for size in sizes))


def _shape(interpreter: Any, inputs: Sequence[spec.TensorSpec]) -> None:
    """Give the inputs the shapes of this run. Raises `UnsupportedSettingsError` where the model has no such shape."""
    details = interpreter.get_input_details()
    resized = [(told, each) for told, each in zip(details, inputs, strict=True) if tuple(told["shape"]) != each.shape]
    try:
        for told, each in resized:
            interpreter.resize_tensor_input(told["index"], each.shape)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        if not resized:
            raise
        shapes = ", ".join(f"{each.name}={'x'.join(map(str, each.shape))}" for _, each in resized)
        reason = " ".join(str(error).split())
        raise spec.UnsupportedSettingsError(f"this model does not run with {shapes}: {reason}") from error


def _kernels(interpreter: Any) -> str:
    """Whose kernels run: XNNPACK's alone where one delegate leads from the model's inputs to its outputs."""
    taken = [each for each in interpreter._get_ops_details() if each["op_name"] == DELEGATED]
    if not taken:
        return "built-in"
    begin = {told["index"] for told in interpreter.get_input_details()}
    end = {told["index"] for told in interpreter.get_output_details()}
    whole = len(taken) == 1 and begin <= set(taken[0]["inputs"]) and end <= set(taken[0]["outputs"])
    return "XNNPACK" if whole else "XNNPACK and built-in"


def _precision(interpreter: Any) -> str:
    """What most of its arithmetic is in, by the tensors of the file: LiteRT computes in the types of these."""
    kinds = {np.dtype(each["dtype"]).name for each in interpreter.get_tensor_details(FIRST) if each["shape"].size}
    quantized = any(
        np.dtype(each["dtype"]).kind in "iu" and each["quantization_parameters"]["scales"].size
        for each in interpreter.get_tensor_details(FIRST)
    )
    if quantized:
        return "mixed" if "float32" in kinds else "int8"
    return "f32"
