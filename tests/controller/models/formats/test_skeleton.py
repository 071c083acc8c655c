"""A model is described without its weights, and damage is told in a sentence."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tiny_models import make_model, save, tiny_classifier, tiny_embedding

from enginebench_controller.errors import ModelError
from enginebench_controller.models.formats.skeleton import KEPT_PAYLOAD_BYTES, has_payload, load_skeleton

BIG = KEPT_PAYLOAD_BYTES // 4 + 1


def without_big_payloads(model: onnx.ModelProto) -> onnx.ModelProto:
    expected = onnx.ModelProto()
    expected.CopyFrom(model)
    for tensor in expected.graph.initializer:
        if len(tensor.raw_data) > KEPT_PAYLOAD_BYTES - 16:
            tensor.ClearField("raw_data")
    return expected


def test_a_small_model_is_read_whole(tmp_path: Path) -> None:
    model = tiny_classifier()
    assert load_skeleton(save(model, tmp_path / "m.onnx")) == model


def test_a_big_weight_keeps_its_name_type_and_dims_but_not_its_content(tmp_path: Path) -> None:
    weights = {"big": np.ones((BIG, 1), "f"), "shape": np.array([0, -1], np.int64)}
    model = make_model([helper.make_node("MatMul", ["x", "big"], ["y"])], [("x", [1, BIG])], [("y", [1, 1])], weights)
    skeleton = load_skeleton(save(model, tmp_path / "m.onnx"))
    big, shape = skeleton.graph.initializer
    assert (big.name, list(big.dims), big.data_type) == ("big", [BIG, 1], TensorProto.FLOAT)
    assert not has_payload(big)
    assert numpy_helper.to_array(shape).tolist() == [0, -1]
    assert skeleton == without_big_payloads(model)


@pytest.mark.parametrize("field", ["float_data", "raw_data"])
def test_big_tensors_inside_subgraphs_and_constants_are_left_out_too(tmp_path: Path, field: str) -> None:
    tensor = onnx.TensorProto(name="t", dims=[BIG], data_type=TensorProto.FLOAT)
    if field == "raw_data":
        tensor.raw_data = bytes(4 * BIG)
    else:
        tensor.float_data.extend([1.0] * BIG)
    branch = helper.make_graph(
        [helper.make_node("Constant", [], ["z"], value=tensor)], "b", [], [helper.make_tensor_value_info("z", 1, [BIG])]
    )
    node = helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)
    model = make_model([node], [("flag", [], TensorProto.BOOL)], [("y", [BIG])])
    path = save(model, tmp_path / "m.onnx")
    skeleton = load_skeleton(path)
    assert path.stat().st_size > 8 * BIG
    assert skeleton.ByteSize() < 1000
    inner = skeleton.graph.node[0].attribute[0].g.node[0].attribute[0].t
    assert (list(inner.dims), has_payload(inner)) == ([BIG], False)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=5, unique=True),
    sizes=st.lists(st.sampled_from([0, 1, 7, BIG - 8, BIG, 2 * BIG]), min_size=5, max_size=5),
    doc=st.text(max_size=40),
)
def test_any_model_equals_itself_without_its_big_payloads(
    tmp_path: Path, names: list[str], sizes: list[int], doc: str
) -> None:
    weights = {name: np.arange(size, dtype="f") for name, size in zip(names, sizes, strict=False)}
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"], doc_string=doc) for name in names]
    model = make_model(nodes, [("x", ["n", None, 3])], [(f"{names[0]}_out", None)], weights)
    assert load_skeleton(save(model, tmp_path / "m.onnx")) == without_big_payloads(model)


@pytest.mark.slow
@pytest.mark.parametrize("model", [tiny_classifier(), tiny_embedding()], ids=["classifier", "embedding"])
def test_a_model_cut_off_anywhere_is_refused_with_its_path(tmp_path: Path, model: onnx.ModelProto) -> None:
    content = model.SerializeToString()
    path = tmp_path / "cut.onnx"
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(ModelError, match=r"cut\.onnx is not a whole ONNX model: .*again"):
            load_skeleton(path)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200), place=st.integers(0, 3000))
def test_garbage_never_raises_anything_but_a_model_error(tmp_path: Path, content: bytes, place: int) -> None:
    whole = tiny_classifier().SerializeToString()
    path = tmp_path / "m.onnx"
    for damaged in (content, whole[:place] + content + whole[place + len(content) :]):
        path.write_bytes(damaged)
        try:
            load_skeleton(path)
        except ModelError as error:
            assert str(path) in str(error)


def test_a_missing_file_a_folder_and_a_git_lfs_pointer_are_refused(tmp_path: Path) -> None:
    pointer = tmp_path / "pointer.onnx"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 102\n")
    with pytest.raises(ModelError, match="Git LFS"):
        load_skeleton(pointer)
    for path in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(ModelError, match="check the path"):
            load_skeleton(path)


def test_nested_graphs_end_somewhere(tmp_path: Path) -> None:
    """A file of a few megabytes must not exhaust the stack."""
    content = bytes(KEPT_PAYLOAD_BYTES + 1)
    for _ in range(400):
        for field in (6, 5, 1):  # AttributeProto.g, NodeProto.attribute, GraphProto.node
            content = bytes([field << 3 | 2]) + varint(len(content)) + content
    path = tmp_path / "deep.onnx"
    path.write_bytes(bytes([7 << 3 | 2]) + varint(len(content)) + content)
    with pytest.raises(ModelError, match="nested"):
        load_skeleton(path)


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def test_memory_stays_flat_for_a_big_model(tmp_path: Path) -> None:
    """200 MB of weights inside the file, described with a few megabytes."""
    size = 200 * 1000 * 1000
    payload_field = bytes([9 << 3 | 2]) + varint(size)
    head = onnx.TensorProto(name="w", dims=[size // 4], data_type=1).SerializeToString() + payload_field
    tensor = bytes([5 << 3 | 2]) + varint(len(head) + size) + head
    shell = make_model([helper.make_node("Identity", ["w"], ["y"])], [], [("y", [size // 4])])
    graph = shell.graph.SerializeToString()
    shell.ClearField("graph")
    path = tmp_path / "big.onnx"
    with path.open("wb") as file:
        file.write(bytes([7 << 3 | 2]) + varint(len(graph) + len(tensor) + size) + graph + tensor)
        file.seek(size, os.SEEK_CUR)
        file.write(shell.SerializeToString())
    program = """
        import resource, sys
        from pathlib import Path
        from enginebench_controller.models.formats.skeleton import load_skeleton
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        model = load_skeleton(Path(sys.argv[1]))
        print(list(model.graph.initializer[0].dims), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    dims, grown_kib = answer.rsplit(" ", 1)
    assert dims == f"[{size // 4}]"
    assert int(grown_kib) < 10 * 1024
