"""The nouns of a model seen from the outside: its format, inputs and outputs."""

from dataclasses import dataclass

from enginebench_proto.agreed.words import ModelFormat

Dims = tuple[int | str | None, ...]
"""Sizes; a name where the model names an open dimension, None where it leaves it open without one."""


@dataclass(frozen=True)
class InputDescription:
    """One input. `dims` is None where not even the rank is known; integers stay below `integer_bound` if any."""

    name: str
    dtype: str
    dims: Dims | None
    integer_bound: int | None = None


@dataclass(frozen=True)
class OutputDescription:
    """One output; `dims` is None where not even the rank is known."""

    name: str
    dtype: str
    dims: Dims | None


@dataclass(frozen=True)
class ModelDescription:
    """A model from the outside. Formats that only their engine can read have no inputs here."""

    format: ModelFormat
    inputs: tuple[InputDescription, ...] = ()
    outputs: tuple[OutputDescription, ...] = ()
    opset: int | None = None
    producer: str | None = None

    @property
    def inputs_known(self) -> bool:
        """False where `inputs` is empty because nobody could look inside."""
        return self.format in {ModelFormat.ONNX, ModelFormat.OPENVINO_IR}
