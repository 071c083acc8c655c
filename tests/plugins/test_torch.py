"""PyTorch under the engine contract, and what is particular to it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from enginebench_plugins import spec
from enginebench_plugins.engines.torch import compiled as compiling
from enginebench_plugins.engines.torch.plugin import Torch
from enginebench_plugins.engines.torch.profile import DeviceClock
from enginebench_plugins.testing import EngineContract, compiled

INPUT = spec.TensorSpec("x", "float32", (2, 3))
TENSORS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}


class TestTorch(EngineContract):
    plugin = "enginebench_plugins.engines.torch.plugin"


class Twice(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.linear(x)
        return y, 2 * y


@pytest.fixture
def network() -> Twice:
    torch.manual_seed(0)
    return Twice().eval()


def _saved(network: torch.nn.Module, folder: Path, kind: spec.ModelFormat) -> Path:
    example = (torch.from_numpy(TENSORS["x"]),)
    if kind is spec.ModelFormat.TORCHSCRIPT:
        path = folder / "net.pt"
        torch.jit.save(torch.jit.trace(network, example), str(path))
    else:
        path = folder / "net.pt2"
        torch.export.save(torch.export.export(network, example), str(path))
    return path


@pytest.mark.parametrize("kind", [spec.ModelFormat.TORCHSCRIPT, spec.ModelFormat.TORCH_EXPORT])
def test_saved_programs_run_with_the_inputs_given(network: Twice, tmp_path: Path, kind: spec.ModelFormat) -> None:
    source = spec.ModelSource(_saved(network, tmp_path, kind), kind, (INPUT,))
    program = compiled(Torch(), source)
    request = program.create_request()
    outputs = request.infer(TENSORS)
    expected = network(torch.from_numpy(TENSORS["x"]))[0].detach().numpy()
    np.testing.assert_allclose(outputs["output_0"], expected, rtol=1e-5)
    np.testing.assert_allclose(outputs["output_1"], 2 * expected, rtol=1e-5)
    precision = program.effective().precision
    assert precision is not None and precision.value == "f32"
    request.close()
    program.close()


class Nested(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, tuple[torch.Tensor]]]:
        return x + 1, (x * 2, (x * 3,))


class Cached(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"scores": x + 1, "past": [{"key": x * 2}, None], "length": 3}


class Counting(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> int:
        return x.shape[0]


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor, past: dict[str, Any], cache: bool = True) -> torch.Tensor:
        return (x + past["seen"]) * mask if cache else x * mask


def _by_keyword(folder: Path) -> Path:
    """As language models are exported."""
    mask, x, seen = (torch.zeros(2, 3) for _ in range(3))
    keywords = {"mask": mask, "x": x, "past": {"seen": seen, "none": None}, "cache": True}
    program = torch.export.export(Masked(), (), keywords)
    torch.export.save(program, folder / "net.pt2")
    return folder / "net.pt2"


@pytest.mark.parametrize(
    "added", [{"x": 0, "past_seen": 1, "mask": 2}, {"a": 2, "b": 0, "c": 1}], ids=["by its names", "in its order"]
)
def test_a_program_is_called_in_the_form_it_was_exported_with(tmp_path: Path, added: dict[str, int]) -> None:
    """By keyword, with tensors within dicts, and beside what is no tensor."""
    given = {name: TENSORS["x"] + number for name, number in added.items()}
    inputs = tuple(spec.TensorSpec(name, "float32", (2, 3)) for name in given)
    program = compiled(Torch(), spec.ModelSource(_by_keyword(tmp_path), spec.ModelFormat.TORCH_EXPORT, inputs))
    (found,) = program.create_request().infer(given).values()
    x = TENSORS["x"]
    np.testing.assert_array_equal(found, (x + x + 1) * (x + 2))
    assert program.profile([given], 2).layers, "a profile runs it in another way"


def test_a_program_says_which_inputs_it_takes_where_others_are_given(tmp_path: Path) -> None:
    source = spec.ModelSource(_by_keyword(tmp_path), spec.ModelFormat.TORCH_EXPORT, (INPUT,))
    with pytest.raises(spec.UnsupportedSettingsError, match=r"takes 3 inputs \(mask, x, past_seen\), and 1 are given"):
        compiled(Torch(), source)


class Scaled(torch.nn.Module):
    def forward(self, input: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:  # noqa: A002  # as PyTorch's own do
        return input + 2 * mask


def test_an_argument_named_as_one_of_pythons_own_functions_keeps_its_name(tmp_path: Path) -> None:
    """PyTorch calls its node `input_1`."""
    torch.export.save(torch.export.export(Scaled(), (torch.zeros(2, 3), torch.zeros(2, 3))), tmp_path / "net.pt2")

    def network(*names: str) -> spec.CompiledModel:
        inputs = tuple(spec.TensorSpec(name, "float32", (2, 3)) for name in names)
        return compiled(Torch(), spec.ModelSource(tmp_path / "net.pt2", spec.ModelFormat.TORCH_EXPORT, inputs))

    given = {"mask": TENSORS["x"], "input": TENSORS["x"] + 1}
    (found,) = network("mask", "input").create_request().infer(given).values()
    np.testing.assert_array_equal(found, given["input"] + 2 * given["mask"])
    with pytest.raises(spec.UnsupportedSettingsError, match="takes input, mask, and of the names given only mask is"):
        network("mask", "x")


@pytest.mark.parametrize("kind", [spec.ModelFormat.TORCHSCRIPT, spec.ModelFormat.TORCH_EXPORT])
def test_outputs_within_outputs_are_named_by_their_place(tmp_path: Path, kind: spec.ModelFormat) -> None:
    program = compiled(Torch(), spec.ModelSource(_saved(Nested(), tmp_path, kind), kind, (INPUT,)))
    outputs = program.create_request().infer(TENSORS)
    x = TENSORS["x"]
    assert {name: array.tolist() for name, array in outputs.items()} == {
        "output_0": (x + 1).tolist(),
        "output_1_0": (x * 2).tolist(),
        "output_1_1_0": (x * 3).tolist(),
    }


def test_outputs_within_dicts_have_the_keys_in_their_names_and_what_is_no_tensor_is_left_out(tmp_path: Path) -> None:
    kind = spec.ModelFormat.TORCH_EXPORT
    program = compiled(Torch(), spec.ModelSource(_saved(Cached(), tmp_path, kind), kind, (INPUT,)))
    outputs = program.create_request().infer(TENSORS)
    assert set(outputs) == {"scores", "past_0_key"}
    np.testing.assert_array_equal(outputs["past_0_key"], TENSORS["x"] * 2)
    assert program.profile([TENSORS], 2).layers, "a profile runs it in another way"


def test_a_program_that_returns_no_tensor_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.jit.save(torch.jit.script(Counting()), str(path))
    program = compiled(Torch(), spec.ModelSource(path, spec.ModelFormat.TORCHSCRIPT, (INPUT,)))
    with pytest.raises(spec.UnsupportedSettingsError, match="returns no tensor"):
        program.create_request().infer(TENSORS)


def test_a_script_has_no_layers_and_says_so(network: Twice, tmp_path: Path) -> None:
    kind = spec.ModelFormat.TORCHSCRIPT
    program = compiled(Torch(), spec.ModelSource(_saved(network, tmp_path, kind), kind, (INPUT,)))
    with pytest.raises(spec.UnsupportedSettingsError, match=r"TorchScript .* without layers"):
        program.profile([TENSORS], 1)


def test_the_layers_of_an_exported_program_are_its_operators(network: Twice, tmp_path: Path) -> None:
    kind = spec.ModelFormat.TORCH_EXPORT
    program = compiled(Torch(), spec.ModelSource(_saved(network, tmp_path, kind), kind, (INPUT,)))
    profile = program.profile([TENSORS], 3)
    assert all(len(layer.time_ns) == 3 and min(layer.time_ns) > 0 for layer in profile.layers)
    totals_ns = map(sum, zip(*(layer.time_ns for layer in profile.layers), strict=True))
    assert all(total <= latency for total, latency in zip(totals_ns, profile.latency_ns, strict=True))
    first, *_, last = profile.layers
    assert first.type.startswith("aten.")
    assert first.source_nodes == (first.name,) == first.outputs
    assert last.inputs, "an operator reads what others make"


class PretendEvent:
    """An event of a device that takes 1.5 ms from each to the next, and is behind its caller until it is waited for."""

    made = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.place, self.reached = -1, False

    def record(self) -> None:
        PretendEvent.made += 1
        self.place = PretendEvent.made

    def synchronize(self) -> None:
        self.reached = True

    def elapsed_time(self, end: "PretendEvent") -> float:
        assert end.reached, "the device has not come by yet"
        return 1.5 * (end.place - self.place)


def test_layers_of_another_device_take_what_that_device_says(
    network: Twice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretended = SimpleNamespace(pretended=SimpleNamespace(Event=PretendEvent))
    clock = DeviceClock(pretended, SimpleNamespace(type="pretended"))
    monkeypatch.setattr(compiling, "Clock", lambda: clock)
    kind = spec.ModelFormat.TORCH_EXPORT
    program = compiled(Torch(), spec.ModelSource(_saved(network, tmp_path, kind), kind, (INPUT,)))
    layers = program.profile([TENSORS], 3).layers
    assert len(layers) >= 2
    assert {layer.time_ns for layer in layers} == {(1_500_000,) * 3}


def test_a_saved_program_without_inputs_asks_for_them(network: Twice, tmp_path: Path) -> None:
    source = spec.ModelSource(_saved(network, tmp_path, spec.ModelFormat.TORCHSCRIPT), spec.ModelFormat.TORCHSCRIPT)
    with pytest.raises(spec.UnsupportedSettingsError, match="--shape"):
        compiled(Torch(), source)


def test_onednn_can_be_left_out_and_the_provider_tells(network: Twice, tmp_path: Path) -> None:
    path = _saved(network, tmp_path, spec.ModelFormat.TORCHSCRIPT)
    source = spec.ModelSource(path, spec.ModelFormat.TORCHSCRIPT, (INPUT,))
    providers = []
    for mkldnn in (True, False):
        provider = compiled(Torch(), source, options={"mkldnn": mkldnn}).effective().provider
        providers.append(provider.value if provider else None)
    assert providers == ["cpu (oneDNN)", "cpu"]


def test_precision_is_observed_once_an_inference_has_run(tmp_path: Path) -> None:
    contract = TestTorch()
    model = contract.classifier(tmp_path)
    with contract.compiled(Torch(), model.source(1), contract.settings()) as program:
        before = program.effective().precision
        program.create_request().infer(model.inputs_for(1, seed=1))
        after = program.effective().precision
    assert before is not None and before.source is spec.Source.ASSUMED
    assert after == spec.Readback("f32", spec.Source.OBSERVED)


@pytest.fixture
def bf16_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch computes bf16 on every processor, only slowly on most."""
    monkeypatch.setattr("enginebench_plugins.engines.torch.devices.has_fast_bf16", lambda _torch: True)


@pytest.mark.usefixtures("bf16_processor")
def test_bf16_is_what_the_layers_compute_in(tmp_path: Path) -> None:
    contract = TestTorch()
    model = contract.classifier(tmp_path)
    inputs = model.inputs_for(2, seed=1)
    settings = contract.settings(batch=2, precision=spec.Precision.BF16)
    with contract.compiled(Torch(), model.source(2), settings) as program:
        assert program.effective().precision is None, "the weights of mixed precision prove nothing"
        (logits,) = program.create_request().infer(inputs).values()
        assert program.effective().precision == spec.Readback("bf16", spec.Source.OBSERVED)
    expected = model.reference(inputs)["logits"]
    assert logits.dtype == np.float32
    assert 1e-5 < np.abs(logits - expected).max() / np.abs(expected).max() < 0.05


def _with_odd_names(folder: Path, outputs: list[str]) -> spec.ModelSource:
    """Dots in a name, no name at all, and an operator with a second output."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "layer1.0.relu"),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Dropout", ["b"], ["c", "mask"], "drop"),
        helper.make_node("Add", ["a", "c"], ["d"], "add"),
        helper.make_node("Split", ["x"], ["s1", "s2"], "split", axis=0),
    ]
    types = {"mask": TensorProto.BOOL}
    declared = [helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), None) for name in outputs]
    graph = helper.make_graph(
        nodes, "odd", [helper.make_tensor_value_info("x", TensorProto.FLOAT, INPUT.shape)], declared
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(folder / "odd.onnx"))
    return spec.ModelSource(folder / "odd.onnx", spec.ModelFormat.ONNX)


def test_outputs_of_nodes_with_several_are_told_apart(tmp_path: Path) -> None:
    names = ["s2", "c", "d"]
    source = _with_odd_names(tmp_path, names)
    outputs = compiled(Torch(), source).create_request().infer(TENSORS)
    for name, expected in zip(names, ReferenceEvaluator(str(source.path)).run(names, TENSORS), strict=True):
        np.testing.assert_array_equal(outputs[name], expected, err_msg=name)


def test_further_outputs_are_computed_too(tmp_path: Path) -> None:
    outputs = compiled(Torch(), _with_odd_names(tmp_path, ["d", "mask"])).create_request().infer(TENSORS)
    assert outputs["mask"].dtype == np.bool_ and outputs["mask"].all()


def test_a_layer_names_its_node_or_the_output_of_one_without_a_name(tmp_path: Path) -> None:
    layers = compiled(Torch(), _with_odd_names(tmp_path, ["d", "s1"])).profile([TENSORS], 2).layers
    assert [layer.source_nodes for layer in layers] == [("layer1.0.relu",), ("b",), ("drop",), ("add",), ("split",)]
    assert all(layer.state is spec.LayerState.EXECUTED for layer in layers)


def _prepared_model(folder: Path) -> spec.ModelSource:
    """A weight that nodes make, a reshape that follows from sizes, uneven padding, a branch, a loop and a function."""
    declare = helper.make_tensor_value_info
    half = helper.make_graph(
        [helper.make_node("Mul", ["n", "two"], ["grown"]), helper.make_node("Identity", ["go"], ["going"])],
        "body",
        [declare(name, *kind) for name, kind in {"i": (7, []), "go": (9, []), "n": (1, None)}.items()],
        [declare("going", TensorProto.BOOL, []), declare("grown", TensorProto.FLOAT, None)],
    )
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op, ["summed"], [f"{name}_out"])],
            name,
            [],
            [declare(f"{name}_out", TensorProto.FLOAT, None)],
        )
        for name, op in {"then": "Neg", "else": "Abs"}.items()
    }
    constant = helper.make_node("Constant", [], ["weight"], "kernel", value=_ones((2, 1, 2, 2)))
    nodes = [
        constant,
        helper.make_node("Conv", ["x", "weight"], ["c"], "conv", auto_pad="SAME_UPPER"),
        helper.make_node("Shape", ["c"], ["sizes"], "sizes"),
        helper.make_node("Gather", ["sizes", "zero"], ["batch"], "gather"),
        helper.make_node("Concat", ["batch", "rest"], ["target"], "target", axis=0),
        helper.make_node("Reshape", ["c", "target"], ["flat"], "reshape"),
        helper.make_node("Loop", ["three", "", "flat"], ["doubled"], "loop", body=half),
        helper.make_node("twice", ["doubled"], ["summed"], "called", domain="ours"),
        helper.make_node("ReduceSum", ["x"], ["total"], "total", keepdims=0),
        helper.make_node("Greater", ["total", "nothing"], ["positive"], "positive"),
        helper.make_node("If", ["positive"], ["y"], "branch", **branches),
    ]
    weights = {"zero": [0], "rest": [-1], "three": 3, "two": np.float32(2), "nothing": np.float32(0)}
    graph = helper.make_graph(
        nodes,
        "prepared",
        [declare("x", TensorProto.FLOAT, ["n", 1, 4, 4])],
        [declare("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ours", 1)]
    twice = helper.make_function(
        "ours", "twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=[twice]), folder / "prepared.onnx")
    inputs = (spec.TensorSpec("x", "float32", (2, 1, 4, 4)),)
    return spec.ModelSource(folder / "prepared.onnx", spec.ModelFormat.ONNX, inputs)


def _ones(shape: tuple[int, ...]) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.ones(shape, dtype=np.float32))


@pytest.mark.parametrize("sign", [1, -1])
def test_what_other_engines_fold_and_nest_is_run_too(tmp_path: Path, sign: int) -> None:
    source = _prepared_model(tmp_path)
    x = sign * np.arange(32, dtype=np.float32).reshape(2, 1, 4, 4)
    (got,) = compiled(Torch(), source).create_request().infer({"x": x}).values()
    padded = np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)))
    windows = padded[..., :-1, :-1] + padded[..., 1:, :-1] + padded[..., :-1, 1:] + padded[..., 1:, 1:]
    expected = 16 * np.repeat(windows, 2, axis=1).reshape(2, -1)
    np.testing.assert_allclose(got, -expected if sign > 0 else np.abs(expected), rtol=1e-5)


def test_executed_modules_stand_for_nodes_and_the_rest_was_optimized_away(tmp_path: Path) -> None:
    program = compiled(Torch(), _prepared_model(tmp_path))
    layers = program.profile([{"x": np.ones((2, 1, 4, 4), dtype=np.float32)}], 2).layers
    by_state: dict[spec.LayerState, list[str]] = {}
    for layer in layers:
        by_state.setdefault(layer.state, []).extend(layer.source_nodes)
    executed = ["conv", "reshape", "loop", "called", "total", "positive", "branch"]
    assert by_state[spec.LayerState.EXECUTED] == executed
    assert by_state[spec.LayerState.OPTIMIZED_AWAY] == ["kernel", "sizes", "gather", "target"]
    prepared = "; ".join(program.effective().prepared)
    for words in ("weights made by Constant nodes", "sizes of tensors", "uneven padding of Conv", "functions"):
        assert words in prepared


@pytest.mark.parametrize("dtype", ["float16", "uint16", "uint32", "uint64", "int8", "bool", "bfloat16"])
def test_inputs_of_every_type_are_taken(tmp_path: Path, dtype: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=1), helper.make_node("Concat", ["x", "x"], ["y"], axis=0)]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", kind, [3])], [value("f", 1, [3]), value("y", kind, [6])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    source = spec.ModelSource(tmp_path / "m.onnx", spec.ModelFormat.ONNX)
    outputs = compiled(Torch(), source).create_request().infer({"x": np.array([0, 1, 1]).astype(dtype)})
    assert outputs["f"].tolist() == [0, 1, 1] and outputs["y"].astype(np.float32).tolist() == [0, 1, 1, 0, 1, 1]
