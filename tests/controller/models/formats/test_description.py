"""What a model asks for is read from the file, whatever its format, without trusting it."""

import re
import zipfile
from pathlib import Path

import numpy as np
import openvino
import pytest
import torch
from onnx import TensorProto, helper
from openvino import opset15 as opset
from tiny_models import make_model, save, tiny_classifier, tiny_embedding

from enginebench_controller.errors import ModelError
from enginebench_controller.models.formats.description import describe
from enginebench_controller.models.formats.signature import InputDescription
from enginebench_proto.agreed.words import ModelFormat


def test_onnx_inputs_outputs_and_opset(tmp_path: Path) -> None:
    found = describe(save(tiny_classifier(), tmp_path / "m.onnx"))
    assert found.format is ModelFormat.ONNX
    assert found.inputs == (InputDescription("x", "float32", ("batch", 3, 4, 4)),)
    assert [(one.name, one.dtype, one.dims) for one in found.outputs] == [("y", "float32", ("batch", 5))]
    assert found.opset == 13


def test_integers_are_bounded_by_the_smallest_table_they_select_from(tmp_path: Path) -> None:
    ids, flags = describe(save(tiny_embedding(), tmp_path / "m.onnx")).inputs
    assert (ids.dtype, ids.integer_bound) == ("int32", 7)
    assert (flags.dtype, flags.integer_bound) == ("int64", None)


def test_a_gather_of_columns_and_one_behind_arithmetic_set_no_bound(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "columns"], ["a"], axis=1),
        helper.make_node("Add", ["moved", "one"], ["next"]),
        helper.make_node("Gather", ["table", "next"], ["b"]),
    ]
    inputs = [("columns", [2], TensorProto.INT64), ("moved", [2], TensorProto.INT64)]
    weights = {"table": np.ones((9, 3), "f"), "one": np.array(1, np.int64)}
    model = make_model(nodes, inputs, [("a", [9, 2]), ("b", [2, 3])], weights)
    assert [one.integer_bound for one in describe(save(model, tmp_path / "m.onnx")).inputs] == [None, None]


def test_weights_that_are_listed_as_inputs_are_no_inputs(tmp_path: Path) -> None:
    model = tiny_classifier()
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3, 3, 3]))
    assert [one.name for one in describe(save(model, tmp_path / "m.onnx")).inputs] == ["x"]


def test_open_dimensions_come_as_names_or_none_and_an_unknown_rank_as_none(tmp_path: Path) -> None:
    nodes = [helper.make_node("Identity", ["a"], ["b"]), helper.make_node("Identity", ["c"], ["d"])]
    model = make_model(nodes, [("a", ["n", None, -1, 4]), ("c", None)], [("b", None), ("d", None)])
    assert [one.dims for one in describe(save(model, tmp_path / "m.onnx")).inputs] == [("n", None, None, 4), None]


@pytest.fixture
def ir(tmp_path: Path) -> Path:
    model = openvino.convert_model(save(tiny_embedding(), tmp_path / "m.onnx"))
    openvino.save_model(model, tmp_path / "ir.xml", compress_to_fp16=True)
    return tmp_path / "ir.xml"


@pytest.mark.slow
def test_openvino_ir_is_described_like_the_onnx_it_came_from(ir: Path) -> None:
    found = describe(ir)
    assert found.format is ModelFormat.OPENVINO_IR
    assert [(one.name, one.dtype, one.dims, one.integer_bound) for one in found.inputs] == [
        ("ids", "int32", (None, None), 7),
        ("flags", "int64", (None, None), None),
    ]
    assert [(one.name, one.dtype, one.dims) for one in found.outputs] == [("y", "float32", (None, None, 4))]


def test_a_port_with_several_names_is_called_as_its_layer(tmp_path: Path) -> None:
    """OpenVINO itself picks the first by order, which may be another tensor's: "a" for the input "x"."""
    given = opset.parameter([2, 3], np.float32, name="x")
    given.output(0).get_tensor().set_names({"x", "a"})
    made = opset.relu(given, name="relu")
    made.output(0).get_tensor().set_names({"y", "z,1", "b"})
    results = [opset.result(made, name=f"{name}/sink_port_0") for name in ("z,1", "y")]
    openvino.save_model(openvino.Model(results, [given]), tmp_path / "ir.xml")
    found = describe(tmp_path / "ir.xml")
    assert [item.name for item in found.inputs] == ["x"]
    assert [item.name for item in found.outputs] == ["z,1", "y"]


@pytest.mark.slow
def test_an_ir_without_its_weights_is_refused(ir: Path) -> None:
    ir.with_suffix(".bin").unlink()
    with pytest.raises(ModelError, match=r"there is no ir\.bin; copy both files"):
        describe(ir)


@pytest.mark.slow
def test_an_ir_with_entities_is_refused_before_they_expand(ir: Path) -> None:
    ir.write_text('<!DOCTYPE net [<!ENTITY a "aaaa">]><net name="&a;"><layers/></net>')
    with pytest.raises(ModelError, match="entities"):
        describe(ir)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_truncated_ir_is_refused(ir: Path, share: float) -> None:
    content = ir.read_bytes()
    ir.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ModelError, match=r"ir\.xml is not a whole OpenVINO IR"):
        describe(ir)


@pytest.mark.slow
def test_an_ir_with_layers_that_do_not_connect_is_refused(ir: Path) -> None:
    ir.write_text(ir.read_text().replace("to-layer", "to-nowhere"))
    with pytest.raises(ModelError, match="not a whole OpenVINO IR"):
        describe(ir)


@pytest.mark.slow
@pytest.mark.parametrize(("place", "odd"), [("offset", "-4"), ("size", "-1")])
def test_a_constant_outside_of_the_weights_is_refused(ir: Path, place: str, odd: str) -> None:
    """The axis of a Gather is read from the weights, at the place that the IR names."""
    ir.write_text(re.sub(rf'{place}="\d+"', f'{place}="{odd}"', ir.read_text()))
    with pytest.raises(ModelError, match=r"not a whole OpenVINO IR \(a constant lies before its file"):
        describe(ir)


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.mark.fault(10)
@pytest.mark.slow
def test_torchscript_and_export_archives_are_recognized_without_being_loaded(tmp_path: Path) -> None:
    torch.jit.trace(Double(), torch.ones(1, 3)).save(tmp_path / "m.pt")
    torch.export.save(torch.export.export(Double(), (torch.ones(1, 3),)), tmp_path / "m.pt2")
    assert describe(tmp_path / "m.pt").format is ModelFormat.TORCHSCRIPT
    assert describe(tmp_path / "m.pt2").format is ModelFormat.TORCH_EXPORT
    assert not describe(tmp_path / "m.pt").inputs_known


def test_weights_alone_and_broken_archives_are_refused(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(3)}, tmp_path / "weights.pt")
    with pytest.raises(ModelError, match=r"weights only; write the model with torch\.jit\.save"):
        describe(tmp_path / "weights.pt")
    (tmp_path / "text.pt2").write_text("no archive")
    with pytest.raises(ModelError, match="not a whole torch_export file"):
        describe(tmp_path / "text.pt2")
    with zipfile.ZipFile(tmp_path / "zip.pt2", "w") as archive:
        archive.writestr("readme", "nothing")
    with pytest.raises(ModelError, match="no torch_export program"):
        describe(tmp_path / "zip.pt2")


def test_other_files_are_refused_with_the_suffixes_known(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(b"TFL3")
    with pytest.raises(ModelError, match=r"must end in \.onnx, \.xml"):
        describe(tmp_path / "model.tflite")
    with pytest.raises(ModelError, match=r"no model file .*absent\.onnx"):
        describe(tmp_path / "absent.onnx")


@pytest.mark.parametrize("name", ["?", "", " ", "-1", "None", "unk", "dynamic"])
def test_what_is_written_for_no_name_is_no_name(tmp_path: Path, name: str) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    model = make_model(nodes, [("x", [name, 3, name, "unk__12"])], [("y", [None] * 4)])
    assert describe(save(model, tmp_path / "x.onnx")).inputs[0].dims == (None, 3, None, "unk__12")


def test_a_size_of_0_is_no_open_dimension(tmp_path: Path) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], [("x", [1, 0, 4])], [("y", [1, 0, 4])])
    assert describe(save(model, tmp_path / "x.onnx")).inputs[0].dims == (1, 0, 4)
