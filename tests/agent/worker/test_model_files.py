"""A model that reaches beyond its own files, or claims what it does not have, is refused before an engine opens it."""

import codecs
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from enginebench_agent.worker.model_files import refuse_unconfined
from enginebench_plugins import spec
from enginebench_plugins.spec import UnsupportedSettingsError
from enginebench_proto.agreed.onnx_wire import MalformedModelError, declared_tensors
from enginebench_proto.v1 import run_pb2

SECRET = b"planted-Q7hJx2-secret".ljust(64, b"!")
ELEMENTS = len(SECRET) // 4
ADDRESS = "*/_ORT_MEM_ADDR_/*"
IR = b'<?xml version="1.0"?><net name="n" version="11"></net>'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder, with a secret beside it that is none of the model's business."""
    (tmp_path / "secret.bin").write_bytes(SECRET)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "w.bin").write_bytes(SECRET)
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


def weight(location: str, /, dims: tuple[int, ...] = (ELEMENTS,), **place: object) -> onnx.TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **place}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def adding(tensor: onnx.TensorProto) -> onnx.ModelProto:
    """y = x + the tensor."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], "add")],
        "adding",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", ELEMENTS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", ELEMENTS])],
        [tensor],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def saved(folder: Path, model: onnx.ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def linked(kind: str, folder: Path) -> str:
    """A link in the model's folder to the secret outside; returns the location that leads through it."""
    secret = folder.parent / "secret.bin"
    match kind:
        case "file symlink":
            (folder / "w.bin").symlink_to(secret)
        case "hard link":
            (folder / "w.bin").hardlink_to(secret)
        case "directory symlink":
            (folder / "deep").symlink_to(folder.parent / "secrets")
            return "deep/w.bin"
        case "pipe":
            os.mkfifo(folder / "w.bin")
    return "w.bin"


@pytest.mark.fault(9)
@pytest.mark.parametrize("kind", ["file symlink", "hard link", "directory symlink", "pipe"])
def test_what_is_no_plain_file_of_the_model_is_not_read(folder: Path, kind: str) -> None:
    path = saved(folder, adding(weight(linked(kind, folder))))
    with pytest.raises(UnsupportedSettingsError, match=r"'w' lies in .*(link|plain file)"):
        refuse_unconfined(path, "onnx")


@pytest.mark.fault(9)
@pytest.mark.parametrize(
    "location",
    ["../secret.bin", "{parent}/secret.bin", "a/../../secret.bin", "", ".", "..", "\0", "w.bin", "..\\w.bin", ADDRESS],
)
def test_what_lies_outside_of_the_model_is_not_read(folder: Path, location: str) -> None:
    named = folder / "*" / "_ORT_MEM_ADDR_" / "*"  # even where a file has that name: engines take it for an address
    named.parent.mkdir(parents=True)
    named.write_bytes(SECRET)
    path = saved(folder, adding(weight(location.format(parent=folder.parent))))
    with pytest.raises(UnsupportedSettingsError, match=r"the weight 'w' .*; export the model again"):
        refuse_unconfined(path, "onnx")


@pytest.mark.fault(9)
@pytest.mark.parametrize(
    ("place", "dims"),
    [
        ({"offset": len(SECRET) + 1}, (0,)),
        ({"offset": 4, "length": len(SECRET)}, (ELEMENTS,)),
        ({"length": -1}, (ELEMENTS,)),
        ({"offset": -64}, (ELEMENTS,)),
        ({"offset": 2**63, "length": 2**63}, (ELEMENTS,)),
        ({"offset": "0x10"}, (ELEMENTS,)),
        ({"offset": ""}, (ELEMENTS,)),
        ({}, (2**40,)),
        ({}, (2**20, 2**20)),
        ({}, (-1,)),
        ({}, (1,) * 65),
        ({"length": 4}, (ELEMENTS * 8,)),
    ],
)
def test_a_place_beyond_its_file_and_impossible_sizes_are_refused(
    folder: Path, place: dict[str, object], dims: tuple[int, ...]
) -> None:
    (folder / "w.bin").write_bytes(SECRET)
    path = saved(folder, adding(weight("w.bin", dims, **place)))
    with pytest.raises(UnsupportedSettingsError, match="the weight 'w'"):
        refuse_unconfined(path, "onnx")


@pytest.mark.fault(9)
@pytest.mark.parametrize("dims", [(2**40,), (2**62, 2**62), (-5,), (2**40, 0, 2**40)])
def test_a_weight_within_the_model_has_as_many_elements_as_it_brings(folder: Path, dims: tuple[int, ...]) -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=SECRET)
    path = saved(folder, adding(tensor))
    if 0 in dims:
        return refuse_unconfined(path, "onnx")
    with pytest.raises(UnsupportedSettingsError, match="more elements than"):
        refuse_unconfined(path, "onnx")
    return None


def hidden_in_a_branch(tensor: onnx.TensorProto, model: onnx.ModelProto) -> None:
    branch = onnx.GraphProto(name="branch", initializer=[tensor])
    model.graph.node.append(helper.make_node("If", ["c"], ["z"], then_branch=branch))


def hidden_in_a_sparse_weight(tensor: onnx.TensorProto, model: onnx.ModelProto) -> None:
    model.graph.sparse_initializer.add(values=tensor)


def hidden_in_a_function(tensor: onnx.TensorProto, model: onnx.ModelProto) -> None:
    model.functions.add(name="f").node.append(helper.make_node("Constant", [], ["c"], value=tensor))


def hidden_in_a_default(tensor: onnx.TensorProto, model: onnx.ModelProto) -> None:
    model.functions.add(name="f").attribute_proto.add(name="a", type=onnx.AttributeProto.TENSOR, t=tensor)


def hidden_in_training(tensor: onnx.TensorProto, model: onnx.ModelProto) -> None:
    model.training_info.add(algorithm=onnx.GraphProto(initializer=[tensor]))


def without_saying_so(tensor: onnx.TensorProto, model: onnx.ModelProto) -> None:
    tensor.data_location = TensorProto.DEFAULT
    model.graph.initializer.append(tensor)


def told_twice(tensor: onnx.TensorProto, model: onnx.ModelProto) -> None:
    tensor.external_data.insert(0, onnx.StringStringEntryProto(key="location", value="w.bin"))
    model.graph.initializer.append(tensor)


@pytest.mark.fault(9)
@pytest.mark.parametrize(
    "hide",
    [
        *(hidden_in_a_branch, hidden_in_a_sparse_weight, hidden_in_a_function, hidden_in_a_default),
        *(hidden_in_training, without_saying_so, told_twice),
    ],
)
def test_a_weight_is_found_wherever_it_hides(folder: Path, hide: Callable[[Any, Any], None]) -> None:
    (folder / "w.bin").write_bytes(SECRET)
    model = adding(weight("w.bin"))
    refuse_unconfined(saved(folder, model), "onnx")
    hide(weight("../secret.bin"), model)
    with pytest.raises(UnsupportedSettingsError, match="the weight 'w'"):
        refuse_unconfined(saved(folder, model), "onnx")


@pytest.mark.fault(9)
def test_a_field_that_comes_twice_hides_nothing(folder: Path) -> None:
    """Loaders merge the two halves into one tensor, which neither of them seems to be."""
    said = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[ELEMENTS], data_location=TensorProto.EXTERNAL)
    where = weight("../secret.bin")
    where.ClearField("data_location")
    halves = b"".join(
        onnx.ModelProto(graph=onnx.GraphProto(initializer=[tensor])).SerializeToString() for tensor in (where, said)
    )
    (folder / "model.onnx").write_bytes(halves)
    with pytest.raises(UnsupportedSettingsError, match="the weight 'w'"):
        refuse_unconfined(folder / "model.onnx", "onnx")


def test_weights_beside_the_model_and_within_it_are_as_before(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "w.bin").write_bytes(b"...." + SECRET)
    refuse_unconfined(saved(folder, adding(weight("data/w.bin", offset=4, length=64))), "onnx")
    refuse_unconfined(saved(folder, adding(weight("./data/w.bin", offset=4))), "onnx")
    strings = helper.make_tensor("w", TensorProto.STRING, [ELEMENTS], [b""] * ELEMENTS)
    refuse_unconfined(saved(folder, adding(strings)), "onnx")
    for name in ("FLOAT", "INT4", "UINT2", "BOOL", "INT64", "DOUBLE", "FLOAT16"):
        if kind := TensorProto.DataType.DESCRIPTOR.values_by_name.get(name):
            tensor = helper.make_tensor("w", kind.number, [64], [1] * 64)
            refuse_unconfined(saved(folder, adding(tensor)), "onnx")


def test_every_tensor_of_a_model_is_declared_as_it_is(folder: Path) -> None:
    tensor = helper.make_tensor("long/name.0", TensorProto.INT64, [2, 3], list(range(6)))
    path = saved(folder, adding(tensor))
    (found,) = declared_tensors(path)
    assert (found.name, found.dims, found.is_external, found.external_data) == ("long/name.0", (2, 3), False, ())
    assert found.content_bytes >= 6


@pytest.mark.parametrize("content", [b"", b"\xff\xff\xff", b"\x3a\xff\x7f", b"TFL3", b"\x0b" * 4])
def test_what_is_no_onnx_file_is_said_to_be_none(folder: Path, content: bytes) -> None:
    (folder / "model.onnx").write_bytes(content)
    with pytest.raises(MalformedModelError):
        refuse_unconfined(folder / "model.onnx", "onnx")


@pytest.mark.fault(9)
@pytest.mark.parametrize(
    "before",
    [b"", b" <", b"\n<" + bytes(60), b"\t<" + bytes(7), codecs.BOM_UTF8],
    ids=["nothing", "space", "line feed", "tab", "byte order mark"],
)
def test_no_onnx_model_passes_for_an_ir(folder: Path, before: bytes) -> None:
    """White space and `<` are fields like others in protobuf: what they begin can be a whole model."""
    (folder / "model.xml").write_bytes(before + adding(weight("../secret.bin")).SerializeToString())
    with pytest.raises(MalformedModelError, match="no OpenVINO IR"):
        refuse_unconfined(folder / "model.xml", "openvino_ir")


@pytest.mark.parametrize("before", [b"", codecs.BOM_UTF8])
def test_an_ir_is_as_before(folder: Path, before: bytes) -> None:
    (folder / "model.xml").write_bytes(before + IR)
    refuse_unconfined(folder / "model.xml", "openvino_ir")


@pytest.mark.fault(9)
@pytest.mark.parametrize(
    ("name", "model_format"),
    [
        *((f"model.{ending}", "onnx") for ending in ("json", "onnxtxt", "ort", "pbtxt", "pdmodel", "xml")),
        *(("model", "onnx"), ("model.onnx", "openvino_ir"), ("model.pdmodel", "openvino_ir")),
    ],
)
def test_no_engine_is_led_by_a_name_to_read_another_format(folder: Path, name: str, model_format: str) -> None:
    (folder / name).write_bytes(
        IR if model_format == "openvino_ir" else saved(folder, adding(weight("w"))).read_bytes()
    )
    with pytest.raises(UnsupportedSettingsError, match=f"in the format {model_format} has a name"):
        refuse_unconfined(folder / name, model_format)


@pytest.mark.fault(9)
def test_openvino_does_not_get_to_read_an_onnx_model_that_is_called_an_ir(
    folder: Path, run_worker: Any, make_spec: Callable[..., run_pb2.RunSpec]
) -> None:
    path = saved(folder, adding(weight(linked("hard link", folder)))).rename(folder / "model.xml")
    spec = make_spec("openvino")
    spec.model.format = "openvino_ir"
    child = run_worker("run", str(path), spec=spec)
    assert child.result.failure.kind == run_pb2.FAILURE_KIND_COMPILE_FAILED
    assert "no OpenVINO IR" in child.result.failure.detail
    assert child.phases == [], "refused before the model was read"


@pytest.mark.slow
@pytest.mark.fault(9)
@pytest.mark.parametrize("engine", ["onnxruntime", "openvino", "fake"])
@pytest.mark.parametrize("escape", ["hard link", "address", "huge"])
def test_no_engine_gets_to_read_it(
    folder: Path, run_worker: Any, make_spec: Callable[..., run_pb2.RunSpec], engine: str, escape: str
) -> None:
    match escape:
        case "hard link":
            tensor = weight(linked(escape, folder))
        case "address":
            tensor = weight(ADDRESS, offset=2**20, length=64)
        case _:
            tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**40], raw_data=SECRET)
    path = saved(folder, adding(tensor))
    spec = make_spec(engine, device="FAKE:0" if engine == "fake" else "CPU")
    child = run_worker("run", str(path), spec=spec)
    assert (child.result.outcome, child.result.failure.kind) == (
        run_pb2.OUTCOME_FAILED,
        run_pb2.FAILURE_KIND_REFUSED,
    )
    assert "the weight 'w'" in child.result.failure.message
    assert child.phases == [], "refused before the model was read"
    assert SECRET not in child.result.SerializeToString()


NET = spec.FileFormat("net", (".net",), (".bin",), ((2, b"NET"), (0, b"net")))


@pytest.mark.parametrize("content", [b"..NET rest", b"net"])
def test_a_file_that_begins_as_its_plugin_says_is_let_pass(folder: Path, content: bytes) -> None:
    (folder / "model.net").write_bytes(content)
    (folder / "model.bin").write_bytes(b"")
    refuse_unconfined(folder / "model.net", "net", (NET,))


@pytest.mark.parametrize("content", [b"", b".NET", b"..NE", b"<net>"])
def test_a_file_that_begins_otherwise_is_none_of_that_format(folder: Path, content: bytes) -> None:
    (folder / "model.net").write_bytes(content)
    (folder / "model.bin").write_bytes(b"")
    with pytest.raises(MalformedModelError, match="does not begin as a file of the format net"):
        refuse_unconfined(folder / "model.net", "net", (NET,))


def test_what_belongs_to_such_a_file_lies_beside_it_and_is_no_link(folder: Path) -> None:
    (folder / "model.net").write_bytes(b"net")
    with pytest.raises(UnsupportedSettingsError, match="is not among the model's files"):
        refuse_unconfined(folder / "model.net", "net", (NET,))
    (folder / "model.bin").symlink_to("/etc/hostname")
    with pytest.raises(UnsupportedSettingsError, match="no plain file"):
        refuse_unconfined(folder / "model.net", "net", (NET,))
    with pytest.raises(UnsupportedSettingsError, match=r"ends in \.net"):
        refuse_unconfined(folder / "model.bin", "net", (NET,))
