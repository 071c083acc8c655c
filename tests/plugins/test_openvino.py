"""OpenVINO under the engine contract, and what is particular to it."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import contract_models
import numpy as np
import onnx
import openvino
import pytest
from contract import EngineContract, Results, run_rotating
from contract_models import ContractModel
from onnx import TensorProto, helper

from enginebench_plugins import spec
from enginebench_plugins.openvino.counters import single_times_ns
from enginebench_plugins.openvino.devices import find_devices
from enginebench_plugins.openvino.network import CompiledNetwork
from enginebench_plugins.openvino.plugin import OpenVino
from enginebench_plugins.openvino.runtime_model import RuntimeLayer, executed_isa, executed_precision

USABLE_PROCESSORS = len(os.sched_getaffinity(0))
BF16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
"""How /proc/cpuinfo spells it on x86-64 and on ARM."""
HAS_BF16 = bool(BF16_FLAGS & set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split()))


class TestOpenVino(EngineContract):
    plugin = "enginebench_plugins.openvino.plugin"


class TestOpenVinoAuto(EngineContract):
    plugin = "enginebench_plugins.openvino.plugin"
    device = "AUTO"


class TestOpenVinoWithEveryOption(EngineContract):
    plugin = "enginebench_plugins.openvino.plugin"
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


def compiled(engine: spec.Engine, source: spec.ModelSource, **settings: Any) -> spec.CompiledModel:
    return engine.compile(engine.convert(engine.read(source), source), source, spec.Settings(**settings))


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


def layer(kind: str, precision: str, kernel: str = "ref") -> RuntimeLayer:
    return RuntimeLayer("name", kind, kernel, precision, (), ())


def test_the_layers_that_take_the_time_decide_the_precision() -> None:
    assert executed_precision([layer("Convolution", "bf16"), layer("Softmax", "f32")]) == "bf16"
    assert executed_precision([layer("Convolution", "bf16"), layer("FullyConnected", "f32")]) == "mixed"
    assert executed_precision([layer("Eltwise", "f32"), layer("Reorder", "bf16")]) == "f32"
    assert executed_precision([layer("Convolution", "u8"), layer("FullyConnected", "f32")]) == "f32"
    assert executed_precision([layer("Gather", "i32")]) is None


def test_weights_stored_in_f16_that_are_widened_on_the_way_are_not_taken_for_the_precision() -> None:
    assert executed_precision([layer("FullyConnected", "f16", "brgemm_avx2_f32")]) == "f32"
    assert executed_precision([layer("FullyConnected", "f16", "brgemm_avx512_amx_f16")]) == "f16"
    assert executed_precision([layer("Convolution", "u8", "brgconv_avx2_i8"), layer("MatMul", "f32")]) == "f32"


@pytest.mark.skipif(not HAS_BF16, reason="this processor has no bf16")
@pytest.mark.parametrize("precision", [spec.Precision.DEFAULT, spec.Precision.BF16])
def test_bf16_is_told_whether_asked_for_or_chosen(
    engine: OpenVino, model: ContractModel, precision: spec.Precision
) -> None:
    effective = compiled(engine, model.source(1), precision=precision).effective()
    assert effective.precision == spec.Readback("bf16", spec.Source.ENGINE_API)


def test_the_instruction_set_is_the_highest_that_a_kernel_names() -> None:
    kernels = [layer("Convolution", "f32", kernel) for kernel in ("jit_avx2_f32", "brgconv_avx512_f32")]
    assert executed_isa(kernels) == "avx512"
    assert executed_isa([layer("Convolution", "f32")]) is None


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
    network = CompiledNetwork(lambda _: core.compile_model(network_model, "BATCH:CPU(4)"), settings)
    effective = network.effective()
    assert effective.provider == spec.Readback("BATCH:CPU(4)", spec.Source.ENGINE_API)
    assert effective.streams == spec.Readback(1, spec.Source.ENGINE_API)
    rotating(network, model, 8, 16)
    network.close()


@pytest.mark.parametrize("load", list(spec.Load))
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


def test_an_option_reaches_the_device(engine: OpenVino, model: ContractModel) -> None:
    class Core:
        def __init__(self, core: Any) -> None:
            self.core, self.seen = core, {}

        def __getattr__(self, name: str) -> Any:
            return getattr(self.core, name)

        def compile_model(self, network: Any, device: str, properties: dict[str, Any]) -> Any:
            self.seen[device] = properties
            return self.core.compile_model(network, device, properties)

    core = Core(openvino.Core())
    engine.__dict__["_core"] = core
    for device in ("CPU", "AUTO"):
        compiled(engine, model.source(1), device=device, options={"enable_cpu_pinning": False})
    assert core.seen["CPU"]["ENABLE_CPU_PINNING"] is False
    assert core.seen["AUTO"]["DEVICE_PROPERTIES"]["CPU"]["ENABLE_CPU_PINNING"] is False


# Models.


def test_openvinos_own_format_is_read(engine: OpenVino, model: ContractModel, tmp_path: Path) -> None:
    path = tmp_path / "converted.xml"
    openvino.save_model(openvino.Core().read_model(str(model.path)), str(path), compress_to_fp16=False)
    source = spec.ModelSource(path, spec.ModelFormat.OPENVINO_IR, model.at(3))
    inputs = model.inputs_for(3, seed=1)
    outputs = compiled(engine, source, batch=3).create_request().infer(inputs)
    np.testing.assert_allclose(outputs["logits"], model.reference(inputs)["logits"], rtol=1e-3, atol=1e-4)


def test_an_open_dimension_without_a_size_is_refused(engine: OpenVino, model: ContractModel) -> None:
    with pytest.raises(spec.UnsupportedSettingsError, match="image has open dimensions"):
        compiled(engine, replace(model.source(1), inputs=()))


def test_an_input_the_model_does_not_have_is_refused(engine: OpenVino, model: ContractModel) -> None:
    stray = spec.TensorSpec("stray", "float32", (1,))
    with pytest.raises(spec.UnsupportedSettingsError, match="no input named stray"):
        compiled(engine, replace(model.source(1), inputs=(*model.at(1), stray)))


@pytest.mark.parametrize("load", list(spec.Load))
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


# Layers.


def profile(engine: OpenVino, model: ContractModel, device: str = "CPU") -> dict[str, spec.LayerProfile]:
    network = compiled(engine, model.source(2), device=device, profiling=True)
    layers = network.profile([model.inputs_for(2, seed=1)], 4).layers
    network.close()
    return {layer.name: layer for layer in layers}


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
def test_a_fused_node_is_a_source_of_the_layer_it_went_into(
    engine: OpenVino, model: ContractModel, device: str
) -> None:
    layers = profile(engine, model, device)
    assert layers["conv1"].source_nodes == ("conv1", "relu1")
    assert layers["conv1"].state is spec.LayerState.EXECUTED
    assert layers["conv1"].precision == "f32"
    assert layers["conv1"].output_shapes == ((2, contract_models.CHANNELS, 24, 24),)
    assert layers["relu1"].state is spec.LayerState.OPTIMIZED_AWAY
    assert layers["relu1"].source_nodes == ()


@pytest.mark.skipif(USABLE_PROCESSORS < 2, reason="one processor carries one stream")
@pytest.mark.parametrize("device", ["CPU", "AUTO"])
def test_a_profile_of_several_streams_is_of_one_of_them(engine: OpenVino, model: ContractModel, device: str) -> None:
    settings = {"device": device, "cores": 2, "streams": 2, "profiling": True}
    network = compiled(engine, model.source(4), batch=4, **settings)
    seen: list[Any] = []
    compile_with = network._compile_with  # type: ignore[attr-defined]
    network._compile_with = lambda changed: seen.append(changed) or compile_with(changed)  # type: ignore[attr-defined]
    layers = network.profile([model.inputs_for(4, seed=1)], 4).layers
    assert [(each.streams, each.cores) for each in seen] == [(1, 1)]
    assert any(layer.state is spec.LayerState.EXECUTED for layer in layers)


def test_no_source_node_belongs_to_two_executed_layers(engine: OpenVino, model: ContractModel) -> None:
    executed = [each for each in profile(engine, model).values() if each.state is spec.LayerState.EXECUTED]
    sources = [source for each in executed for source in each.source_nodes]
    assert len(set(sources)) == len(sources)


def test_profiling_needs_a_network_compiled_for_it(engine: OpenVino, model: ContractModel) -> None:
    with pytest.raises(spec.UnsupportedSettingsError, match="compiled for profiling"):
        compiled(engine, model.source(1)).profile([model.inputs_for(1, seed=1)], 1)


def running_averages(times_ns: Sequence[int]) -> list[int]:
    """What the counters would read: total ÷ inferences, cut to whole microseconds."""
    return [total // number // 1000 for number, total in enumerate(accumulate(times_ns), start=1)]


def test_running_averages_of_a_steady_layer_give_its_time_below_the_microsecond() -> None:
    times_ns = single_times_ns(running_averages([5_300] * 50))
    assert times_ns is not None
    assert len(times_ns) == 50
    assert all(abs(time_ns - 5_300) < 350 for time_ns in times_ns[5:])


def test_running_averages_give_a_slow_first_inference_and_an_outlier_back() -> None:
    true_ns = [90_000, *[10_000] * 19, 400_000, *[10_000] * 20]
    times_ns = single_times_ns(running_averages(true_ns))
    assert times_ns is not None
    assert abs(times_ns[0] - 90_000) < 1_000
    assert abs(times_ns[20] - 400_000) < 45_000
    assert abs(sorted(times_ns)[len(times_ns) // 2] - 10_000) < 500
    assert abs(sum(times_ns) - sum(true_ns)) <= 1_000 * len(true_ns)


def test_running_averages_never_give_a_negative_time() -> None:
    random = np.random.default_rng(1)
    for scale_ns in (300, 3_000, 300_000):
        true_ns = [int(each) for each in random.exponential(scale_ns, size=60)]
        times_ns = single_times_ns(running_averages(true_ns))
        assert times_ns is not None
        assert min(times_ns) >= 0
        assert abs(sum(times_ns) - sum(true_ns)) <= 1_000 * len(true_ns)


def test_readings_that_are_no_running_averages_are_recognized() -> None:
    assert single_times_ns([500, 500, 100, 500]) is None


def test_without_the_package_the_reason_names_the_remedy(engine: OpenVino, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(spec.EngineUnavailableError, match=r"pip install .*\[openvino\]") as caught:
        engine.info()
    assert not caught.value.installed
