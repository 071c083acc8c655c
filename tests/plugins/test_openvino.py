"""OpenVINO under the engine contract, and what is particular to it."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
from onnx import TensorProto, helper, numpy_helper
from openvino import opset13

from enginebench_plugins import spec
from enginebench_plugins.engines.openvino.compiled import CompiledOpenVino
from enginebench_plugins.engines.openvino.devices import find_devices
from enginebench_plugins.engines.openvino.plugin import OpenVino
from enginebench_plugins.testing import EngineContract, compiled, contract_models
from enginebench_plugins.testing.contract_models import ContractModel
from enginebench_plugins.testing.in_flight import Results, run_rotating

USABLE_PROCESSORS = len(os.sched_getaffinity(0))
F32 = {"INFERENCE_PRECISION_HINT": "f32"}
"""Left to itself, OpenVINO computes in bf16 where the processor can."""
BF16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
"""How /proc/cpuinfo spells it on x86-64 and on ARM."""
HAS_BF16 = bool(BF16_FLAGS & set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split()))


class TestOpenVino(EngineContract):
    plugin = "enginebench_plugins.engines.openvino.plugin"


class TestOpenVinoAuto(EngineContract):
    plugin = "enginebench_plugins.engines.openvino.plugin"
    device = "AUTO"


class TestOpenVinoWithEveryOption(EngineContract):
    plugin = "enginebench_plugins.engines.openvino.plugin"
    options: ClassVar = {
        "shared_memory": False,
        "execution_mode_hint": "ACCURACY",
        "enable_cpu_pinning": False,
        "enable_hyper_threading": False,
        "scheduling_core_type": "ANY_CORE",
        "cpu_denormals_optimization": True,
        "cpu_sparse_weights_decompression_rate": 0.9,
        "dynamic_quantization_group_size": 0,
    }

    def test_these_are_all_options(self, engine: spec.Engine) -> None:
        assert {option.name for option in engine.info().options} == set(self.options)


@pytest.fixture
def engine() -> OpenVino:
    return OpenVino()


@pytest.fixture
def model(tmp_path: Path) -> ContractModel:
    return contract_models.classifier(tmp_path)


# What it says it really used.


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
def test_everything_effective_is_read_back(engine: OpenVino, model: ContractModel, device: str) -> None:
    effective = compiled(engine, model.source(1), device=device).effective()
    read_back = spec.Source.ENGINE_API
    assert effective.precision == spec.Readback("f32", read_back)
    assert effective.threads == spec.Readback(1, read_back)
    assert effective.streams == spec.Readback(1, read_back)
    assert effective.provider == spec.Readback("CPU", read_back)


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
def test_threads_and_streams_are_what_the_device_settled_on(
    engine: OpenVino, model: ContractModel, device: str
) -> None:
    effective = compiled(engine, model.source(1), device=device, cores=64, streams=64).effective()
    for readback in (effective.threads, effective.streams):
        assert readback is not None
        assert 1 <= readback.value <= USABLE_PROCESSORS


@pytest.mark.skipif(not HAS_BF16, reason="this processor has no bf16")
@pytest.mark.parametrize("precision", [spec.Precision.DEFAULT, spec.Precision.BF16])
def test_bf16_is_told_whether_asked_for_or_chosen(
    engine: OpenVino, model: ContractModel, precision: spec.Precision
) -> None:
    effective = compiled(engine, model.source(1), precision=precision).effective()
    assert effective.precision == spec.Readback("bf16", spec.Source.ENGINE_API)


# Devices and hints.


class CoreWithEverything:
    """Answers as the core of a machine with a processor, two GPUs and an NPU; the tests run where there is none."""

    available_devices = ("CPU", "GPU.0", "GPU.1", "NPU")
    capabilities: ClassVar = {
        "CPU": ["FP32", "BF16", "INT8"],
        "GPU.0": ["FP32", "FP16"],
        "GPU.1": ["FP32", "FP16"],
        "NPU": ["FP16", "INT8"],
        "AUTO": ["FP32", "FP16", "BF16"],
    }

    def get_property(self, device: str, name: str) -> Any:
        facts = {"FULL_DEVICE_NAME": f"the {device}", "OPTIMIZATION_CAPABILITIES": self.capabilities[device]}
        return dict.fromkeys(facts, "RO") if name == "SUPPORTED_PROPERTIES" else facts[name]


def test_devices_occupy_themselves_and_auto_occupies_them_all() -> None:
    devices = {device.name: device for device in find_devices(CoreWithEverything())}
    assert {name: device.resources for name, device in devices.items()} == {
        "CPU": ("cpu",),
        "GPU.0": ("gpu:0",),
        "GPU.1": ("gpu:1",),
        "NPU": ("npu",),
        "AUTO": ("cpu", "gpu:0", "gpu:1", "npu"),
    }
    assert devices["CPU"].precisions == (spec.Precision.F32, spec.Precision.BF16)
    assert devices["NPU"].precisions == (spec.Precision.F16,)
    assert devices["GPU.1"].properties == {"OPTIMIZATION_CAPABILITIES": "FP32, FP16"}
    assert devices["GPU.1"].full_name == "the GPU.1"


class CoreWithHalfADriver(CoreWithEverything):
    """Lists an NPU that it cannot ask."""

    def get_property(self, device: str, name: str) -> Any:
        if device == "NPU":
            raise RuntimeError(f"Exception from src/core.cpp:268:\nUnsupported configuration key: {name}\n\n")
        return super().get_property(device, name)


def test_a_device_that_cannot_be_asked_is_told_and_takes_none_of_the_others() -> None:
    with pytest.warns(RuntimeWarning, match="the device NPU is missing, .*: Unsupported configuration key"):
        devices = find_devices(CoreWithHalfADriver())
    assert [device.name for device in devices] == ["CPU", "GPU.0", "GPU.1", "AUTO"]
    assert devices[-1].resources == ("cpu", "gpu:0", "gpu:1")


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
def test_under_the_throughput_hint_the_engine_chooses_its_streams(
    engine: OpenVino, model: ContractModel, device: str
) -> None:
    settings = {"device": device, "cores": USABLE_PROCESSORS, "requests": USABLE_PROCESSORS}
    latency, throughput = (
        compiled(engine, model.source(1), hint=hint, load=spec.Load.ASYNC, **settings).effective().streams
        for hint in (spec.Hint.LATENCY, spec.Hint.THROUGHPUT)
    )
    assert latency == spec.Readback(1, spec.Source.ENGINE_API)
    assert throughput is not None
    assert (throughput.value > 1) == (USABLE_PROCESSORS > 1)


def rotating(network: spec.CompiledModel, model: ContractModel, requests: int, inferences: int) -> None:
    """Keep requests in flight and hold every output against the reference of its own input."""
    inputs = [model.inputs_for(1, seed) for seed in range(inferences)]
    slots = [network.create_request() for _ in range(requests)]
    outputs = run_rotating(slots, inputs)
    for slot in slots:
        slot.close()
    for each_outputs, each_inputs in zip(outputs, inputs, strict=True):
        np.testing.assert_allclose(each_outputs["logits"], model.reference(each_inputs)["logits"], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("device", "hint"),
    [
        ("CPU", spec.Hint.LATENCY),
        ("CPU", spec.Hint.THROUGHPUT),
        ("AUTO", spec.Hint.THROUGHPUT),
        ("AUTO", spec.Hint.CUMULATIVE_THROUGHPUT),
    ],
)
def test_more_requests_than_streams_wait_their_turn(
    engine: OpenVino, model: ContractModel, device: str, hint: spec.Hint
) -> None:
    requests = 2 * USABLE_PROCESSORS + 1
    settings = {"device": device, "hint": hint, "cores": USABLE_PROCESSORS, "requests": requests}
    network = compiled(engine, model.source(1), load=spec.Load.ASYNC, **settings)
    streams = network.effective().streams
    assert streams is not None
    assert streams.value < requests
    rotating(network, model, requests, 4 * requests)
    network.close()


def test_automatic_batching_is_told_with_the_number_it_joins(engine: OpenVino, model: ContractModel) -> None:
    """Only a GPU does so by itself; BATCH around the processor is the same thing, asked for."""
    core, source = openvino.Core(), model.source(1)
    network_model = engine.convert(engine.read(source), source)
    settings = spec.Settings(load=spec.Load.ASYNC, requests=8)

    def compile_with(_: spec.Settings) -> openvino.CompiledModel:
        return core.compile_model(network_model, "BATCH:CPU(4)", F32)

    network = CompiledOpenVino(compile_with, network_model, settings)
    effective = network.effective()
    assert effective.provider == spec.Readback("BATCH:CPU(4)", spec.Source.ENGINE_API)
    assert effective.streams == spec.Readback(1, spec.Source.ENGINE_API)
    rotating(network, model, 8, 16)
    network.close()


def _named(folder: Path, nodes: list[onnx.NodeProto], inputs: list[str], outputs: list[str]) -> Path:
    values = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in names]
              for names in (inputs, outputs)]  # fmt: skip
    model = helper.make_model(
        helper.make_graph(nodes, "named", *values), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def _alias_of_inputs(folder: Path) -> Path:
    """Optimizing puts "a" in the place of "x", so that the compiled port has both names, "a" first."""
    nodes = [("Identity", ["x"], ["a"]), ("Identity", ["w"], ["v"]), ("Sub", ["a", "v"], ["y"])]
    return _named(folder, [helper.make_node(*node) for node in nodes], ["x", "w", "unused"], ["y"])


def _alias_of_outputs(folder: Path) -> Path:
    nodes = [("Relu", ["x"], ["r"]), ("Identity", ["r"], ["z"]), ("Dropout", ["r"], ["b"]), ("Neg", ["x"], ["n"])]
    return _named(folder, [helper.make_node(*node) for node in nodes], ["x"], ["z", "n", "r", "b"])


def _inputs_as_outputs(folder: Path) -> Path:
    nodes = [("Relu", ["x,1"], ["y:0/sink"]), ("Identity", ["x,1"], ["an output"])]
    return _named(folder, [helper.make_node(*node) for node in nodes], ["x,1", "k"], ["an output", "k", "y:0/sink"])


@pytest.mark.parametrize("form", ["onnx", "xml"])
@pytest.mark.parametrize("make", [_alias_of_inputs, _alias_of_outputs, _inputs_as_outputs])
def test_ports_have_the_names_of_the_model_as_read(
    engine: OpenVino, tmp_path: Path, make: Callable[[Path], Path], form: str
) -> None:
    path = make(tmp_path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    source = spec.ModelSource(path, spec.ModelFormat.ONNX)
    if form == "xml":
        openvino.save_model(openvino.Core().read_model(path), tmp_path / "model.xml", compress_to_fp16=False)
        source = spec.ModelSource(tmp_path / "model.xml", spec.ModelFormat.OPENVINO_IR)
    network = engine.compile(engine.convert(engine.read(source), source), source, spec.Settings())
    inputs = {
        name: np.random.default_rng(len(name)).standard_normal((2, 3), np.float32)
        for name in (value.name for value in session.get_inputs())
    }
    names = [value.name for value in session.get_outputs()]
    expected = dict(zip(names, session.run(names, inputs), strict=True))
    request = network.create_request()
    found = request.infer(inputs)
    assert [tensor.name for tensor in network.inputs] == list(inputs)
    assert list(found) == names
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, err_msg=name)
    request.close()
    network.close()


def test_a_branch_that_only_the_runs_sizes_decide_is_read_with_them(engine: OpenVino, tmp_path: Path) -> None:
    """As exporters write a squeeze: with open sizes either branch may run, and nobody knows the rank behind."""

    def one(operator: str, made: str) -> onnx.GraphProto:
        inputs = ["x", "zero"] if operator == "Squeeze" else ["x"]
        value = helper.make_tensor_value_info(made, TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(operator, inputs, [made])], made, [], [value])

    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "zero"], ["first"]),
        helper.make_node("Equal", ["first", "one"], ["single"]),
        helper.make_node("If", ["single"], ["a"], then_branch=one("Squeeze", "s"), else_branch=one("Identity", "i")),
        helper.make_node("Conv", ["a", "w"], ["y"]),
    ]
    weights = {"zero": np.array([0]), "one": np.array([1]), "w": np.ones((2, 3, 1), "f")}
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["a", "b", "c", "d"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "squeezed", [x], [y], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    open_source = spec.ModelSource(tmp_path / "m.onnx", spec.ModelFormat.ONNX)
    with pytest.raises(RuntimeError, match="Conv"):
        engine.read(open_source)
    source = replace(open_source, inputs=(spec.TensorSpec("x", "float32", (1, 4, 3, 5)),))
    network = engine.compile(engine.convert(engine.read(source), source), source, spec.Settings())
    outputs = network.create_request().infer({"x": np.ones((1, 4, 3, 5), "f")})
    np.testing.assert_allclose(outputs["y"], np.full((4, 2, 5), 3, "f"))
    assert network.effective().prepared == ("read with the sizes of this run",)


def saved(path: Path, nodes: list[onnx.NodeProto], inputs: dict[str, list[object]], **weights: np.ndarray) -> Path:
    """A model of opset 17 with the output y."""
    given = [
        helper.make_tensor_value_info(name, TensorProto.BOOL if not shape else TensorProto.FLOAT, shape)
        for name, shape in inputs.items()
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "made", given, [y], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_branch_within_a_branch_is_decided_by_the_runs_sizes_and_what_cannot_run_gives_no_number(
    engine: OpenVino, tmp_path: Path
) -> None:
    """As a voice model has them: a branch a sample rate, the frames of the other of which have another length."""

    def chosen(prefix: str, size: str) -> onnx.GraphProto:
        def one(operator: str, made: str) -> onnx.GraphProto:
            inputs = ["x", "zero"] if operator == "Squeeze" else ["x"]
            value = helper.make_tensor_value_info(made, TensorProto.FLOAT, None)
            return helper.make_graph([helper.make_node(operator, inputs, [made])], made, [], [value])

        squeezed, kept = one("Squeeze", f"{prefix}s"), one("Identity", f"{prefix}i")
        nodes = [
            helper.make_node("Shape", ["x"], [f"{prefix}sizes"]),
            helper.make_node("Gather", [f"{prefix}sizes", "zero"], [f"{prefix}first"]),
            helper.make_node("Equal", [f"{prefix}first", size], [f"{prefix}single"]),
            helper.make_node("If", [f"{prefix}single"], [f"{prefix}a"], then_branch=squeezed, else_branch=kept),
            helper.make_node("Conv", [f"{prefix}a", "w"], [f"{prefix}y"]),
        ]
        return helper.make_graph(
            nodes, prefix, [], [helper.make_tensor_value_info(f"{prefix}y", TensorProto.FLOAT, None)]
        )

    nodes = [helper.make_node("If", ["rate"], ["y"], then_branch=chosen("t", "one"), else_branch=chosen("e", "two"))]
    weights = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "w": np.ones((2, 3, 1), "f")}
    path = saved(tmp_path / "m.onnx", nodes, {"x": ["a", "b", "c", "d"], "rate": []}, **weights)
    inputs = (spec.TensorSpec("x", "float32", (1, 4, 3, 5)), spec.TensorSpec("rate", "bool", ()))
    source = spec.ModelSource(path, spec.ModelFormat.ONNX, inputs)
    network = engine.compile(engine.convert(engine.read(source), source), source, spec.Settings())
    request = network.create_request()
    x = np.ones((1, 4, 3, 5), "f")
    np.testing.assert_allclose(request.infer({"x": x, "rate": np.array(True)})["y"], np.full((4, 2, 5), 3, "f"))
    assert np.isnan(request.infer({"x": x, "rate": np.array(False)})["y"]).all()
    assert network.effective().prepared == (
        "read with the sizes of this run, 8 nodes that follow from them computed ahead, "
        "not-a-number for 1 branches that cannot run in them",
    )


def test_a_spectrum_is_read_without_the_axis_and_the_length_that_its_exporter_left_out(
    engine: OpenVino, tmp_path: Path
) -> None:
    nodes = [
        helper.make_node("STFT", ["x", "hop", "window"], ["parts"]),
        helper.make_node("ReduceSumSquare", ["parts"], ["power"], axes=[-1], keepdims=0),
        helper.make_node("Shape", ["power"], ["sizes"]),
        helper.make_node("Expand", ["two", "sizes"], ["twice"]),
        helper.make_node("Mul", ["power", "twice"], ["y"]),
    ]
    window, two = np.hanning(16).astype("f"), np.array(2, "f")
    path = saved(tmp_path / "m.onnx", nodes, {"x": ["batch", "samples"]}, hop=np.array(8), window=window, two=two)
    source = spec.ModelSource(path, spec.ModelFormat.ONNX, (spec.TensorSpec("x", "float32", (1, 64)),))
    network = engine.compile(engine.convert(engine.read(source), source), source, spec.Settings())
    x = np.random.default_rng(1).standard_normal((1, 64)).astype("f")
    frames = np.stack([x[0, start : start + 16] * window for start in range(0, 49, 8)])
    expected = np.abs(np.fft.rfft(frames)) ** 2
    found = network.create_request().infer({"x": x})["y"][0]
    np.testing.assert_allclose(found, 2 * expected, rtol=0.05, atol=0.1)
    (prepared,) = network.effective().prepared
    assert prepared.startswith("read with the sizes of this run, ")
    assert prepared.endswith(", 1 STFT with its axis and frame length written out")


@pytest.mark.parametrize("load", [spec.Load.SYNC, spec.Load.ASYNC])
def test_memory_is_shared_unless_it_is_not_to_be(engine: OpenVino, model: ContractModel, load: spec.Load) -> None:
    one, other = (model.inputs_for(1, seed) for seed in (1, 2))
    for options, shared in (({}, True), ({"shared_memory": True}, True), ({"shared_memory": False}, False)):
        network = compiled(engine, model.source(1), load=load, options=options)
        request = network.create_request()
        first = request.infer(one)["logits"]
        kept = first.copy()
        second = request.infer(other)["logits"]
        assert np.shares_memory(first, second) == shared
        assert np.array_equal(first, kept) == (not shared)
        request.close()
        network.close()


def test_cumulative_throughput_is_for_auto_only(engine: OpenVino, model: ContractModel) -> None:
    with pytest.raises(spec.UnsupportedSettingsError, match="needs the device AUTO"):
        compiled(engine, model.source(1), hint=spec.Hint.CUMULATIVE_THROUGHPUT)
    inputs = model.inputs_for(1, seed=1)
    on_auto = compiled(engine, model.source(1), device="AUTO", hint=spec.Hint.CUMULATIVE_THROUGHPUT)
    outputs = on_auto.create_request().infer(inputs)
    np.testing.assert_allclose(outputs["logits"], model.reference(inputs)["logits"], rtol=1e-3, atol=1e-4)


def test_streams_beside_a_hint_are_refused(engine: OpenVino, model: ContractModel) -> None:
    with pytest.raises(spec.UnsupportedSettingsError, match="leave streams at 1"):
        compiled(engine, model.source(1), hint=spec.Hint.THROUGHPUT, streams=2)


class Core:
    """OpenVINO's core, which notes what it compiles for, and passes on what `change` makes of that."""

    def __init__(self, change: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> None:
        self.core, self.change, self.seen = openvino.Core(), change, {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.core, name)

    def compile_model(self, network: Any, device: str, properties: dict[str, Any]) -> Any:
        self.seen[device] = properties
        return self.core.compile_model(network, device, self.change(properties))


def test_an_option_reaches_the_device(engine: OpenVino, model: ContractModel) -> None:
    core = engine.__dict__["_core"] = Core()
    for device in ("CPU", "AUTO"):
        compiled(engine, model.source(1), device=device, options={"enable_cpu_pinning": False})
    assert core.seen["CPU"]["ENABLE_CPU_PINNING"] is False
    assert core.seen["AUTO"]["DEVICE_PROPERTIES"]["CPU"]["ENABLE_CPU_PINNING"] is False


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
@pytest.mark.parametrize(
    ("option", "value", "kept"),
    [
        ("cpu_denormals_optimization", True, False),
        ("scheduling_core_type", "ECORE_ONLY", "ANY_CORE"),
        ("cpu_sparse_weights_decompression_rate", 0.7, 1.0),
    ],
)
def test_an_option_that_the_device_takes_and_does_not_heed_is_refused(
    engine: OpenVino, model: ContractModel, device: str, option: str, value: spec.OptionValue, kept: object
) -> None:
    def left_as_it_was(properties: dict[str, Any]) -> dict[str, Any]:
        own = {key: left_as_it_was(value) if isinstance(value, dict) else value for key, value in properties.items()}
        return own | ({option.upper(): kept} if option.upper() in own else {})

    engine.__dict__["_core"] = Core(left_as_it_was)
    with pytest.raises(spec.UnsupportedSettingsError, match=f"keeps {option} at {kept}, .*: {value} has no effect"):
        compiled(engine, model.source(1), device=device, options={option: value})


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
def test_a_fraction_of_which_the_device_keeps_fewer_digits_is_heeded(
    engine: OpenVino, model: ContractModel, device: str
) -> None:
    compiled(engine, model.source(1), device=device, options={"cpu_sparse_weights_decompression_rate": 0.7})


# Models.


def test_openvinos_own_format_is_read(engine: OpenVino, model: ContractModel, tmp_path: Path) -> None:
    path = tmp_path / "converted.xml"
    openvino.save_model(openvino.Core().read_model(str(model.path)), str(path), compress_to_fp16=False)
    source = spec.ModelSource(path, spec.ModelFormat.OPENVINO_IR, model.at(3))
    inputs = model.inputs_for(3, seed=1)
    outputs = compiled(engine, source, batch=3).create_request().infer(inputs)
    np.testing.assert_allclose(outputs["logits"], model.reference(inputs)["logits"], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
@pytest.mark.parametrize("load", [spec.Load.SYNC, spec.Load.ASYNC])
def test_a_network_with_a_state_begins_anew_with_each_inference(
    engine: OpenVino, tmp_path: Path, load: spec.Load, device: str
) -> None:
    """As decoders are exported: what one inference leaves behind would be where the next begins."""
    x = opset13.parameter([1, 3], np.float32, name="x")
    kept = opset13.read_value(opset13.constant(np.zeros((1, 3), "f")), "sum", np.float32, [1, 3])
    total = opset13.add(kept, x)
    network = openvino.Model([opset13.result(total)], [opset13.assign(total, "sum")], [x], "summing")
    openvino.save_model(network, tmp_path / "m.xml", compress_to_fp16=False)
    source = spec.ModelSource(tmp_path / "m.xml", spec.ModelFormat.OPENVINO_IR)
    summing = compiled(engine, source, device=device, load=load)
    assert summing.effective().prepared == ("its state is reset before each inference, within its latency",)
    request = summing.create_request()
    for _ in range(2):
        (found,) = request.infer({"x": np.ones((1, 3), "f")}).values()
        np.testing.assert_array_equal(found, np.ones((1, 3), "f"))
    request.close()


def test_an_open_dimension_without_a_size_is_refused(engine: OpenVino, model: ContractModel) -> None:
    with pytest.raises(spec.UnsupportedSettingsError, match="image has open dimensions"):
        compiled(engine, replace(model.source(1), inputs=()))


def test_an_input_the_model_does_not_have_is_refused(engine: OpenVino, model: ContractModel) -> None:
    stray = spec.TensorSpec("stray", "float32", (1,))
    with pytest.raises(spec.UnsupportedSettingsError, match="no input named stray"):
        compiled(engine, replace(model.source(1), inputs=(*model.at(1), stray)))


@pytest.mark.parametrize("load", [spec.Load.SYNC, spec.Load.ASYNC])
def test_a_failure_on_the_way_arrives_through_on_done(engine: OpenVino, tmp_path: Path, load: spec.Load) -> None:
    """The inputs' shapes are right; it is the data that the network cannot work with."""
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6])
    shape = helper.make_tensor_value_info("shape", TensorProto.INT64, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])
    graph = helper.make_graph([node], "reshape", [x, shape], [y])
    opset = [helper.make_opsetid("", contract_models.OPSET)]
    path = tmp_path / "reshape.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=contract_models.IR_VERSION), path)

    network = compiled(engine, spec.ModelSource(path, spec.ModelFormat.ONNX), load=load)
    request = network.create_request()
    results = Results(expected=2)
    for key, sizes in enumerate(([5, 7], [3, 8])):
        inputs = {"x": np.zeros((4, 6), np.float32), "shape": np.array(sizes)}
        done = SimpleNamespace(results=Results(expected=1))

        def on_done(outputs: Any, error: Any, key: int = key, done: Any = done) -> None:
            done.results.add(key, outputs, error)
            results.add(key, outputs, error)

        request.start(inputs, on_done)
        done.results.wait()
    request.close()
    network.close()
    assert "(4.6) conflicts with the reshape pattern (5.7)" in str(results.errors[0])
    assert results.errors[1] is None


def test_without_the_package_the_reason_names_the_remedy(engine: OpenVino, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(spec.EngineUnavailableError, match=r"pip install .*\[openvino\]") as caught:
        engine.info()
    assert not caught.value.installed
