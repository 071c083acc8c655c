"""What every engine owes the bench, as statements that hold for each of them.

An engine's test module subclasses `EngineContract`, names the plugin and, where it must, loosens a tolerance or
replaces a model:

    class TestMine(EngineContract):
        plugin = "my_package.plugin"
"""

import importlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import contract_models
import numpy as np
import pluggy
import pytest
from contract_models import Arrays, ContractModel
from in_flight import Results, copied, run_rotating

from enginebench_agent.machine.cores import physical_cores
from enginebench_plugins import spec

ABSURD = 64
PRECISION_WORDS = {"f32", "bf16", "f16", "int8", "mixed"}
OPTION_TYPES = (bool, int, float, str)
FILE_WORDS = ("path", "file", "dir", "folder", "cache", "library", "prefix")
RELEASE_CYCLES = 4
CORE_USE = Path(__file__).parent / "core_use.py"
CORE_USE_S = 0.5
CORE_USE_ALLOWANCE = 1.05


def load_engine(plugin: Any) -> spec.Engine:
    """The engine of a plugin module (or of its dotted name), through pluggy as a worker gets it."""
    module = importlib.import_module(plugin) if isinstance(plugin, str) else plugin
    manager = pluggy.PluginManager("enginebench")
    manager.add_hookspecs(spec)
    manager.register(module)
    manager.check_pending()
    return manager.hook.enginebench_engine()


def compiled(engine: spec.Engine, source: spec.ModelSource, **settings: Any) -> spec.CompiledModel:
    """A model compiled as a worker does it, under `Settings` of which these differ from the defaults."""
    return engine.compile(engine.convert(engine.read(source), source), source, spec.Settings(**settings))


class EngineContract:
    """Subclass as `TestSomething` and set `plugin`; the other attributes have defaults that most engines meet."""

    plugin: Any = None
    """The plugin's module, or its dotted name."""
    device = "CPU"
    rtol = 1e-3
    atol = 1e-4
    options: ClassVar[Mapping[str, spec.OptionValue]] = {}
    """Options every compile gets."""
    layer_sum_bounds = (0.02, 10.0)
    """Σ layers ÷ latency of a profiled inference; a wrong unit is off by a thousand."""

    @pytest.fixture
    def engine(self) -> spec.Engine:
        return load_engine(self.plugin)

    # What the statements below are made of; an engine that reads no ONNX replaces the models.

    def classifier(self, folder: Path) -> ContractModel:
        """A model with one float32 input and an open batch."""
        return contract_models.classifier(folder)

    def fixed_classifier(self, folder: Path) -> ContractModel:
        """The same model with its batch fixed to 2."""
        return contract_models.classifier(folder, batch=2)

    def embedding(self, folder: Path) -> ContractModel:
        """A model with an int64 and a float32 input, two outputs and an open batch."""
        return contract_models.embedding(folder)

    def settings(self, **changes: Any) -> spec.Settings:
        return replace(spec.Settings(device=self.device, options=dict(self.options)), **changes)

    @contextmanager
    def compiled(
        self, engine: spec.Engine, source: spec.ModelSource, settings: spec.Settings
    ) -> Iterator[spec.CompiledModel]:
        model = engine.compile(engine.convert(engine.read(source), source), source, settings)
        try:
            yield model
        finally:
            model.close()

    @contextmanager
    def requests(
        self, engine: spec.Engine, model: ContractModel, batch: int, count: int = 1, **changes: Any
    ) -> Iterator[list[spec.InferRequest]]:
        load = spec.Load.SYNC if count == 1 else spec.Load.ASYNC
        settings = self.settings(batch=batch, requests=count, load=load, **changes)
        with self.compiled(engine, model.source(batch), settings) as compiled:
            requests = [compiled.create_request() for _ in range(count)]
            try:
                yield requests
            finally:
                for request in requests:
                    request.close()

    def infer(self, engine: spec.Engine, model: ContractModel, batch: int, *inputs: Arrays) -> list[Arrays]:
        """The outputs for each of the inputs, by one request, copied before the request is used again."""
        with self.requests(engine, model, batch) as (request,):
            return [copied(request.infer(each)) for each in inputs]

    def assert_same(self, outputs: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
        assert set(outputs) == set(expected)
        for name, array in expected.items():
            assert outputs[name].shape == array.shape, f"{name} has another shape"
            np.testing.assert_allclose(outputs[name], array, rtol=self.rtol, atol=self.atol, err_msg=name)

    def assert_refused(self, engine: spec.Engine, folder: Path, **changes: Any) -> None:
        source = self.classifier(folder).source(1)
        with (
            pytest.raises(spec.UnsupportedSettingsError, match=r"\w+ \w+"),
            self.compiled(engine, source, self.settings(**changes)),
        ):
            pass

    # What an engine tells about itself.

    def test_it_tells_its_version_and_what_it_can_do(self, engine: spec.Engine) -> None:
        info = engine.info()
        assert info.version
        assert info.version == info.version.strip()
        assert info.formats
        assert info.formats <= set(spec.ModelFormat)
        assert spec.Load.SYNC in info.loads
        assert spec.Hint.NONE in info.hints

    def test_its_options_are_typed_and_name_no_file(self, engine: spec.Engine) -> None:
        options = engine.info().options
        assert len({option.name for option in options}) == len(options)
        for option in options:
            assert option.type in OPTION_TYPES
            assert option.help
            assert all(type(choice) is option.type for choice in option.choices)
            assert not any(word in option.name.lower() for word in FILE_WORDS), option.name

    def test_its_devices_have_unique_names_and_say_what_they_occupy(self, engine: spec.Engine) -> None:
        devices = engine.devices()
        names = [device.name for device in devices]
        assert self.device in names
        assert len(set(names)) == len(names)
        for device in devices:
            assert device.full_name
            assert device.precisions
            assert device.resources
            assert all(resource == resource.lower() for resource in device.resources)
            assert all(isinstance(value, str) for value in device.properties.values())

    def test_the_processor_occupies_the_processor(self, engine: spec.Engine) -> None:
        assert "cpu" in {d.name: d.resources for d in engine.devices()}["CPU"]

    # What it computes.

    @pytest.mark.parametrize("batch", [1, 4])
    def test_outputs_equal_the_reference(self, engine: spec.Engine, tmp_path: Path, batch: int) -> None:
        model = self.classifier(tmp_path)
        inputs = model.inputs_for(batch, seed=batch)
        (outputs,) = self.infer(engine, model, batch, inputs)
        self.assert_same(outputs, model.reference(inputs))

    @pytest.mark.parametrize("batch", [1, 4])
    def test_inputs_of_several_types_and_every_output_are_served(
        self, engine: spec.Engine, tmp_path: Path, batch: int
    ) -> None:
        model = self.embedding(tmp_path)
        inputs = model.inputs_for(batch, seed=batch)
        (outputs,) = self.infer(engine, model, batch, inputs)
        self.assert_same(outputs, model.reference(inputs))

    def test_weights_beside_the_model_file_are_found(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        if model.format is not spec.ModelFormat.ONNX:
            return  # only ONNX keeps weights in files that the model names
        inputs = model.inputs_for(1, seed=3)
        external = contract_models.with_external_data(model, tmp_path / "external")
        (outputs,) = self.infer(engine, external, 1, inputs)
        self.assert_same(outputs, model.reference(inputs))

    def test_different_inputs_give_different_outputs(self, engine: spec.Engine, tmp_path: Path) -> None:
        for model in (self.classifier(tmp_path), self.embedding(tmp_path)):
            one, other, again = self.infer(engine, model, 2, *(model.inputs_for(2, seed=seed) for seed in (1, 2, 1)))
            for name in model.outputs:
                assert not np.allclose(one[name], other[name], rtol=0.01, atol=0.01), f"{name} ignores the input"
            self.assert_same(again, one)

    def test_the_batch_axis_is_kept(self, engine: spec.Engine, tmp_path: Path) -> None:
        for model in (self.classifier(tmp_path), self.embedding(tmp_path)):
            for batch in (1, 3):
                (outputs,) = self.infer(engine, model, batch, model.inputs_for(batch, seed=1))
                for name in model.outputs:
                    assert outputs[name].ndim == 2
                    assert len(outputs[name]) == batch

    def test_every_item_of_a_batch_is_computed_on_its_own(self, engine: spec.Engine, tmp_path: Path) -> None:
        order = [2, 0, 3, 1]
        for model in (self.classifier(tmp_path), self.embedding(tmp_path)):
            inputs = model.inputs_for(4, seed=5)
            permuted = {name: np.ascontiguousarray(array[order]) for name, array in inputs.items()}
            straight, turned = self.infer(engine, model, 4, inputs, permuted)
            self.assert_same(turned, {name: array[order] for name, array in straight.items()})

    def test_inputs_are_left_as_they_were(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        inputs = model.inputs_for(2, seed=6)
        before = copied(inputs)
        self.infer(engine, model, 2, inputs, inputs)
        for name, array in before.items():
            np.testing.assert_array_equal(inputs[name], array)

    def test_compiled_inputs_are_the_models_without_open_dimensions(self, engine: spec.Engine, tmp_path: Path) -> None:
        for model in (self.classifier(tmp_path), self.embedding(tmp_path)):
            with self.compiled(engine, model.source(4), self.settings(batch=4)) as compiled:
                assert tuple(compiled.inputs) == model.at(4)

    def test_a_model_with_fixed_shapes_needs_none_given(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.fixed_classifier(tmp_path)
        source = spec.ModelSource(model.path, model.format)
        inputs = model.inputs_for(2, seed=7)
        with self.compiled(engine, source, self.settings(batch=2)) as compiled:
            assert tuple(compiled.inputs) == model.inputs
            request = compiled.create_request()
            self.assert_same(request.infer(inputs), model.reference(inputs))
            request.close()

    # Several requests.

    def test_a_second_request_leaves_the_first_ones_outputs_alone(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        inputs = [model.inputs_for(2, seed) for seed in (1, 2)]
        with self.requests(engine, model, 2, count=2) as requests:
            outputs = [request.infer(each_inputs) for request, each_inputs in zip(requests, inputs, strict=True)]
            for each_outputs, each_inputs in zip(outputs, inputs, strict=True):
                self.assert_same(each_outputs, model.reference(each_inputs))

    def test_requests_in_flight_join_each_output_to_its_own_input(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        inputs = [model.inputs_for(2, seed) for seed in range(12)]
        with self.requests(engine, model, 2, count=3) as requests:
            outputs = run_rotating(requests, inputs)
        for each_outputs, each_inputs in zip(outputs, inputs, strict=True):
            self.assert_same(each_outputs, model.reference(each_inputs))

    def test_an_error_of_a_started_inference_arrives_through_on_done(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        good = model.inputs_for(1, seed=1)
        wrong = {name: np.ascontiguousarray(array[:, :-1]) for name, array in good.items()}
        results = Results(expected=1)
        with self.requests(engine, model, 1) as (request,):
            request.start(wrong, lambda outputs, error: results.add(0, outputs, error))
            results.wait()
            assert isinstance(results.errors[0], Exception)
            assert results.outputs[0] is None
            self.assert_same(request.infer(good), model.reference(good))

    # What it refuses.

    def test_an_unknown_option_is_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        self.assert_refused(engine, tmp_path, options={**self.options, "no_such_option": 1})

    def test_an_option_of_another_type_or_choice_is_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        for option in engine.info().options:
            wrong: list[spec.OptionValue] = [1.5 if option.type is str else "no such value"]
            if option.choices and option.type is str:
                wrong.append("no such choice")
            for value in wrong:
                self.assert_refused(engine, tmp_path, options={**self.options, option.name: value})

    def test_a_hint_it_does_not_offer_is_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        for hint in set(spec.Hint) - engine.info().hints:
            self.assert_refused(engine, tmp_path, hint=hint)

    def test_a_precision_the_device_lacks_is_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        offered = {d.name: d.precisions for d in engine.devices()}[self.device]
        for precision in set(spec.Precision) - set(offered) - {spec.Precision.DEFAULT}:
            self.assert_refused(engine, tmp_path, precision=precision)

    def test_streams_are_refused_where_there_is_only_one(self, engine: spec.Engine, tmp_path: Path) -> None:
        if not engine.info().multiple_streams:
            self.assert_refused(engine, tmp_path, streams=2)

    def test_an_unknown_device_is_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        self.assert_refused(engine, tmp_path, device="ABACUS:7")

    @pytest.mark.parametrize("damage", ["garbage", "truncated", "empty"])
    def test_a_broken_model_file_raises(self, engine: spec.Engine, tmp_path: Path, damage: str) -> None:
        model = self.classifier(tmp_path)
        content = model.path.read_bytes()
        kept = {"garbage": b"this is no model\n" * 99, "truncated": content[: len(content) // 2], "empty": b""}
        model.path.write_bytes(kept[damage])
        with (
            pytest.raises(Exception, match=r"\w"),
            self.compiled(engine, model.source(1), self.settings()),
        ):
            pass

    # What it says it really used.

    def test_effective_values_are_well_formed_before_and_after_inferring(
        self, engine: spec.Engine, tmp_path: Path
    ) -> None:
        model = self.classifier(tmp_path)
        with self.compiled(engine, model.source(1), self.settings()) as compiled:
            _assert_well_formed(compiled.effective())
            request = compiled.create_request()
            request.infer(model.inputs_for(1, seed=1))
            _assert_well_formed(compiled.effective())
            request.close()

    def test_the_requested_precision_is_the_effective_one(self, engine: spec.Engine, tmp_path: Path) -> None:
        source = self.classifier(tmp_path).source(1)
        with self.compiled(engine, source, self.settings(precision=spec.Precision.F32)) as compiled:
            precision = compiled.effective().precision
            assert precision is None or precision.value == "f32"

    def test_threads_are_not_an_echo_of_the_request(self, engine: spec.Engine, tmp_path: Path) -> None:
        usable = len(os.sched_getaffinity(0))
        assert usable < ABSURD, "ask for more threads than this machine has"
        source = self.classifier(tmp_path).source(1)
        try:
            with self.compiled(engine, source, self.settings(cores=ABSURD)) as compiled:
                threads = compiled.effective().threads
        except spec.UnsupportedSettingsError:
            return  # a refusal is honest, too
        assert threads is None or threads.value <= usable, f"{threads} on {usable} processors is an echo"

    # The cores it uses.

    @pytest.mark.parametrize("cores", [1, 2])
    def test_processor_time_stays_within_the_cores(self, tmp_path: Path, cores: int) -> None:
        for use in self.core_use(tmp_path, cores):
            used = use["cpu_ns"] / use["wall_ns"]
            assert used <= cores * CORE_USE_ALLOWANCE, f"{used:.2f} cores busy under the load {use['load']}"
            assert used > 0.01, "the processor time is not that of the work"
            # A busy machine gives nobody more than a share; what the threads may use shows there, too.
            assert len(use["processors"]) <= cores, f"threads may run on {use['processors']} under {use['load']}"

    def core_use(self, folder: Path, cores: int) -> list[dict[str, Any]]:
        """What the engine used under each of its loads, in a process confined to these cores (see core_use.py)."""
        if cores > len(physical_cores(os.sched_getaffinity(0))):
            pytest.skip(f"this machine has fewer than {cores} cores")
        model = self.classifier(folder)
        case = {
            "path": str(model.path),
            "format": model.format,
            "inputs": [(each.name, each.dtype, each.shape) for each in model.at(4)],
            "settings": {"device": self.device, "batch": 4, "cores": cores, "options": dict(self.options)},
            "seconds": CORE_USE_S,
        }
        plugin = self.plugin if isinstance(self.plugin, str) else self.plugin.__file__
        command = [sys.executable, str(CORE_USE), plugin, json.dumps(case)]
        variables = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    # Layers.

    def test_a_profile_has_distinct_layers_with_one_time_an_iteration(
        self, engine: spec.Engine, tmp_path: Path
    ) -> None:
        if not engine.info().profiling:
            return
        profile, _ = self.profile(engine, tmp_path, iterations=5)
        layers = profile.layers
        assert layers
        assert len(profile.latency_ns) in (0, 5)
        assert len({layer.name for layer in layers}) == len(layers)
        assert len({layer.order for layer in layers}) == len(layers)
        for layer in layers:
            executed = layer.state is spec.LayerState.EXECUTED
            assert len(layer.time_ns) == (5 if executed else 0)
            assert all(isinstance(time_ns, int) and time_ns >= 0 for time_ns in layer.time_ns)
            assert layer.calls >= 1
            assert layer.type

    def test_layers_tell_their_origin_and_tensors_by_name(self, engine: spec.Engine, tmp_path: Path) -> None:
        if not engine.info().profiling:
            return
        profile, _ = self.profile(engine, tmp_path, iterations=2)
        for layer in profile.layers:
            for names in (layer.source_nodes, layer.inputs, layer.outputs):
                assert all(isinstance(name, str) and name for name in names), layer
                assert isinstance(names, tuple)
            assert all(isinstance(each, str) for pair in layer.parameters.items() for each in pair), layer
            assert len(set(layer.source_nodes)) == len(layer.source_nodes)
        model = self.classifier(tmp_path)
        if model.format is spec.ModelFormat.ONNX:
            known = contract_models.names(model)
            assert {source for layer in profile.layers for source in layer.source_nodes} <= known

    def test_others_get_a_turn_after_each_profiled_inference(self, engine: spec.Engine, tmp_path: Path) -> None:
        if not engine.info().profiling:
            return
        turns: list[float] = []
        profile, _ = self.profile(engine, tmp_path, iterations=3, between=lambda: turns.append(time.perf_counter()))
        assert len(turns) == 3
        # Every turn comes after an inference, and none between two layers of one.
        gaps_ns = [round((later - earlier) * 1e9) for earlier, later in pairwise(turns)]
        assert all(gap_ns >= latency_ns for gap_ns, latency_ns in zip(gaps_ns, profile.latency_ns[1:], strict=False))

    def test_layer_times_add_up_to_about_the_latency(self, engine: spec.Engine, tmp_path: Path) -> None:
        if not engine.info().profiling:
            return
        profile, latency_ns = self.profile(engine, tmp_path, iterations=7)
        executed = [layer.time_ns for layer in profile.layers if layer.state is spec.LayerState.EXECUTED]
        sum_ns = statistics.median(map(sum, zip(*executed, strict=True)))
        low, high = self.layer_sum_bounds
        assert low * latency_ns < sum_ns < high * latency_ns
        if profile.latency_ns:
            assert low * latency_ns < statistics.median(profile.latency_ns) < 10 * high * latency_ns

    def profile(
        self, engine: spec.Engine, folder: Path, iterations: int, between: spec.Between = spec.nothing
    ) -> tuple[spec.ModelProfile, int]:
        """The profile of a warm model, and the wall clock of one inference of it in nanoseconds."""
        model = self.classifier(folder)
        inputs = [model.inputs_for(4, seed) for seed in (1, 2)]
        with self.compiled(engine, model.source(4), self.settings(batch=4, profiling=True)) as compiled:
            request = compiled.create_request()
            latencies_ns = [_infer_ns(request, inputs[0]) for _ in range(5)]
            profile = compiled.profile(inputs, iterations, between)
            request.close()
        return profile, int(statistics.median(latencies_ns))

    # The end.

    def test_closing_gives_back_what_was_taken(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        inputs = [model.inputs_for(1, seed) for seed in range(2)]
        before, counts = _request_threads(), []
        for _ in range(2 * RELEASE_CYCLES):
            with self.requests(engine, model, 1, count=2, cores=2) as requests:
                run_rotating(requests, inputs)
            counts.append(_settled_thread_count(before))
        assert counts[-1] < counts[RELEASE_CYCLES - 1] + RELEASE_CYCLES, f"threads stay: {counts}"


def _infer_ns(request: spec.InferRequest, inputs: Arrays) -> int:
    begin_ns = time.perf_counter_ns()
    request.infer(inputs)
    return time.perf_counter_ns() - begin_ns


def _assert_well_formed(effective: spec.Effective) -> None:
    for count in (effective.threads, effective.streams):
        if count is not None:
            assert isinstance(count.value, int)
            assert count.value >= 1
    for readback in (effective.precision, effective.provider, effective.isa):
        if readback is not None:
            assert isinstance(readback.value, str)
            assert readback.value
    readbacks = {name: value for name, value in vars(effective).items() if name != "prepared"}
    for readback in readbacks.values():
        assert readback is None or readback.source in set(spec.Source)
    assert isinstance(effective.prepared, tuple)
    assert all(isinstance(words, str) and words.strip() for words in effective.prepared)
    assert effective.precision is None or effective.precision.value in PRECISION_WORDS


def _request_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "infer-request"}


def _settled_thread_count(before: set[threading.Thread]) -> int:
    """Threads of this process, once those of closed requests have had the time to end."""
    deadline = time.monotonic() + 2.0
    while _request_threads() - before:
        assert time.monotonic() < deadline, "a closed request keeps its thread"
        time.sleep(0.005)
    return len(list(Path("/proc/self/task").iterdir()))
