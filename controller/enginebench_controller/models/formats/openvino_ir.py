"""Reads inputs and outputs out of an OpenVINO IR (.xml), with a parser that expands nothing and keeps no tree."""

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from enginebench_controller.errors import ModelError
from enginebench_controller.models.formats.signature import (
    Dims,
    InputDescription,
    ModelDescription,
    Operation,
    OutputDescription,
    integer_bounds,
)
from enginebench_proto.agreed.words import ModelFormat

_MAX_XML_BYTES = 512 * 1024 * 1024
_ELEMENT_TYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "boolean": "bool",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bool": "bool", "string": "str",
}  # fmt: skip

_RESULT = "/sink_port_0"
"""What OpenVINO adds to an output's name to call the layer that hands it out."""


class _RefusedMarkupError(Exception):
    """The document declares a type or an entity, which no IR does."""


@dataclass
class _Port:
    id: str
    element_type: str
    names: str
    dims: list[int | None] = field(default_factory=list)


@dataclass
class _Layer:
    id: str
    name: str
    type: str
    data: dict[str, str] = field(default_factory=dict)
    inputs: list[_Port] = field(default_factory=list)
    outputs: list[_Port] = field(default_factory=list)


def describe_ir(path: Path) -> ModelDescription:
    """Describe the IR whose .xml is `path`; its weights must lie beside it. Raises `ModelError`."""
    weights = path.with_suffix(".bin")
    if not weights.is_file():
        raise ModelError(f"{path} needs its weights beside it: there is no {weights.name}; copy both files")
    if path.stat().st_size > _MAX_XML_BYTES:
        raise ModelError(f"{path} is too big for an OpenVINO IR: an .xml holds no weights")
    try:
        return _describe(path, weights)
    except _RefusedMarkupError:
        raise ModelError(f"{path} declares a document type or entities, as no OpenVINO IR does; not read") from None
    except (expat.ExpatError, ArithmeticError, LookupError, ValueError) as error:
        raise ModelError(f"{path} is not a whole OpenVINO IR ({error}); convert the model again with ovc") from error


def _describe(path: Path, weights: Path) -> ModelDescription:
    reader = _Reader()
    with path.open("rb") as file:
        reader.parser().ParseFile(file)
    if not reader.layers:
        raise ValueError("it holds no layers")
    bounds = _bounds(reader, weights)
    inputs = _inputs([layer for layer in reader.layers.values() if layer.type == "Parameter"], bounds)
    return ModelDescription(ModelFormat.OPENVINO_IR, inputs, _outputs(reader), producer=reader.producer)


class _Reader:
    """Collects layers and edges at the top level of the document; bodies of loops and branches are passed over."""

    def __init__(self) -> None:
        self.layers: dict[str, _Layer] = {}
        self.edges: dict[tuple[str, str], tuple[str, str]] = {}
        self.producer: str | None = None
        self._path: list[str] = []
        self._layer: _Layer | None = None
        self._ports: list[_Port] = []
        self._text = ""

    def parser(self) -> expat.XMLParserType:
        """An expat parser that feeds this reader."""
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = _refuse
        parser.EntityDeclHandler = _refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        return parser

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._path.append(tag)
        self._text = ""
        match self._path:
            case ["net"]:
                self.producer = attributes.get("name")
            case ["net", "layers", "layer"]:
                self._layer = _Layer(attributes["id"], attributes["name"], attributes["type"])
                self.layers[self._layer.id] = self._layer
            case ["net", "layers", "layer", "data"] if self._layer:
                self._layer.data.update(attributes)
            case ["net", "layers", "layer", "input" | "output" as side, "port"] if self._layer:
                self._ports = self._layer.inputs if side == "input" else self._layer.outputs
                kind, names = attributes.get("precision", ""), attributes.get("names", "")
                self._ports.append(_Port(attributes["id"], kind, names))
            case ["net", "edges", "edge"]:
                source = (attributes["from-layer"], attributes["from-port"])
                self.edges[attributes["to-layer"], attributes["to-port"]] = source

    def _characters(self, text: str) -> None:
        if self._path[-1:] == ["dim"]:
            self._text += text

    def _end(self, tag: str) -> None:
        if self._path[:3] == ["net", "layers", "layer"] and self._path[4:] == ["port", "dim"]:
            size = int(self._text)
            self._ports[-1].dims.append(size if size > 0 else None)
        self._path.pop()


def _refuse(*_: object) -> None:
    raise _RefusedMarkupError


def _inputs(layers: Iterable[_Layer], bounds: dict[str, int]) -> tuple[InputDescription, ...]:
    found: dict[str, InputDescription] = {}
    for layer in layers:
        name = _port_name(layer.name, layer.outputs[0].names if layer.outputs else "", found)
        dtype = _ELEMENT_TYPES.get(layer.data.get("element_type", "").lower(), "unknown")
        found[name] = InputDescription(name, dtype, _dims(layer.data.get("shape", "")), bounds.get(layer.id))
    return tuple(found.values())


def _dims(shape: str) -> Dims | None:
    """`shape` as OpenVINO prints it: "1,3,?,1..8", "" for a scalar, "..." for an unknown rank."""
    if "..." in shape:
        return None
    parts = [part.strip() for part in shape.split(",") if part.strip()]
    return tuple(int(part) if part.isdecimal() else None for part in parts)


def _outputs(reader: _Reader) -> tuple[OutputDescription, ...]:
    found: list[OutputDescription] = []
    for result in (layer for layer in reader.layers.values() if layer.type == "Result" and layer.inputs):
        source_layer, source_port = reader.edges[result.id, result.inputs[0].id]
        source = reader.layers[source_layer]
        port = next((port for port in source.outputs if port.id == source_port), result.inputs[0])
        dtype = _ELEMENT_TYPES.get(port.element_type.lower(), "unknown")
        name = _port_name(result.name.removesuffix(_RESULT), port.names, [output.name for output in found])
        found.append(OutputDescription(name, dtype, tuple(port.dims)))
    return tuple(found)


def _port_name(own: str, names: str, taken: Collection[str]) -> str:
    """The name by which OpenVINO's plugin feeds and reads a port; `own` is that of its layer, which is for tools.

    Of several tensor names (comma-separated; commas within a name are escaped) the one that the layer bears, else the
    first by order that no other port has.
    """
    parts = names.replace("\\,", "\0").split(",")
    known = sorted(part.replace("\0", ",") for part in parts if part)
    choice = [own, *known] if own in known or not known else known
    return next((name for name in choice if name not in taken), choice[0])


def _bounds(reader: _Reader, weights: Path) -> dict[str, int]:
    """Bounds of the integer inputs, by layer id."""
    rows: dict[Hashable, int] = {}
    for layer in reader.layers.values():
        if layer.type == "Const" and (dims := _dims(layer.data.get("shape", ""))) and isinstance(dims[0], int):
            rows[layer.id, layer.outputs[0].id] = dims[0]
    operations = [_operation(reader, layer, weights) for layer in reader.layers.values()]
    inputs = [layer for layer in reader.layers.values() if layer.type == "Parameter" and layer.outputs]
    starts = [Operation("Identity", [layer.id], [(layer.id, layer.outputs[0].id)]) for layer in inputs]
    integers = [layer.id for layer in inputs if layer.data.get("element_type", "")[:1] in {"i", "u"}]
    return integer_bounds(integers, [*starts, *operations], rows)


def _operation(reader: _Reader, layer: _Layer, weights: Path) -> Operation:
    sources: list[Hashable] = [reader.edges.get((layer.id, port.id), ("", "")) for port in layer.inputs]
    outputs: list[Hashable] = [(layer.id, port.id) for port in layer.outputs]
    gathers = layer.type == "Gather" and len(layer.inputs) > 2 and _gather_axis(reader, layer, weights) == 0
    return Operation(layer.type, sources, outputs, gathers)


def _gather_axis(reader: _Reader, gather: _Layer, weights: Path) -> int | None:
    """The axis is a constant, so it lies in the weights file."""
    source = reader.layers.get(reader.edges.get((gather.id, gather.inputs[2].id), ("", ""))[0])
    if source is None or source.type != "Const":
        return None
    offset, size = int(source.data["offset"]), int(source.data["size"])
    if offset < 0 or size < 0:
        raise ValueError("a constant lies before its file, or ends before it begins")
    with weights.open("rb") as file:
        file.seek(offset)
        return int.from_bytes(file.read(min(size, 8)), "little", signed=True)
