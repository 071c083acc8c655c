"""The fake engine: exact outputs, latencies of a known distribution, and mistakes and faults on request."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from enginebench_plugins import spec
from enginebench_plugins.engines.fake.distributions import (
    TABLE_SIZE,
    Latency,
    LatencyDistribution,
    latencies_ns,
    quantile_ns,
)
from enginebench_plugins.engines.fake.mishaps import EXIT_CODE, Fault, FaultPhase
from enginebench_plugins.engines.fake.plugin import FakeEngine
from enginebench_plugins.testing import EngineContract, contract_models


class TestFake(EngineContract):
    plugin = "enginebench_plugins.engines.fake.plugin"
    device = "FAKE:0"

    def test_the_processor_occupies_the_processor(self, engine: spec.Engine) -> None:
        occupied = [resource for device in engine.devices() for resource in device.resources]
        assert sorted(occupied) == ["fake:0", "fake:1"], "two runs on the two devices would wait for each other"

    def test_an_input_that_was_changed_in_one_place_is_another(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        inputs = model.inputs_for(1, seed=8)
        with self.requests(engine, model, 1) as (request,):
            before = dict(request.infer(inputs))
            inputs["image"][...] = 0
            self.assert_same(request.infer(inputs), before)  # it knows inputs again, so that its time is known, too

    def test_each_choice_of_an_option_works_or_is_refused(self) -> None:
        """Faults are among what its options choose: see those below."""

    def test_a_provider_that_is_told_does_the_work(self) -> None:
        """It has one."""

    def test_it_is_hidden(self, engine: spec.Engine) -> None:
        assert engine.hidden

    @pytest.mark.parametrize("wait", ["spin", "sleep"])
    def test_an_inference_takes_the_chosen_time(self, engine: spec.Engine, tmp_path: Path, wait: str) -> None:
        model = self.classifier(tmp_path)
        inputs = model.inputs_for(1, seed=1)
        with self.requests(engine, model, 1, options={"latency_us": 20_000, "wait": wait}) as (request,):
            request.infer(inputs)
            begin_ns, begin_cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
            request.infer(inputs)
            latency_ns, cpu_ns = time.perf_counter_ns() - begin_ns, time.thread_time_ns() - begin_cpu_ns
        assert latency_ns >= 20_000_000
        if wait == "sleep":
            assert cpu_ns < latency_ns / 2

    def test_outputs_are_computed_once_for_each_array(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        inputs = model.inputs_for(1, seed=1)
        copy = {name: np.array(array) for name, array in inputs.items()}
        with self.requests(engine, model, 1, options={"latency_us": 0}) as (request,):
            first = request.infer(inputs)
            assert request.infer(inputs) is first
            assert request.infer(copy) is not first

    def test_an_inference_of_no_duration_costs_less_than_a_microsecond(
        self, engine: spec.Engine, tmp_path: Path
    ) -> None:
        model = self.classifier(tmp_path)
        inputs = model.inputs_for(1, seed=1)
        with self.requests(engine, model, 1, options={"latency_us": 0}) as (request,):
            infer = request.infer
            infer(inputs)
            costs_ns = []
            for _ in range(20):
                begin_ns = time.thread_time_ns()
                for _ in range(1000):
                    infer(inputs)
                costs_ns.append((time.thread_time_ns() - begin_ns) / 1000)
        assert min(costs_ns) < 1000

    @pytest.mark.parametrize("options", [{"latency_us": 0}, {"latency_us": 50_000, "wait": "sleep"}])
    def test_several_requests_are_in_flight_at_once(
        self, engine: spec.Engine, tmp_path: Path, options: dict[str, spec.OptionValue]
    ) -> None:
        model = self.classifier(tmp_path)
        inputs = [model.inputs_for(1, seed=seed) for seed in range(4)]
        with self.requests(engine, model, 1, count=4, options=options) as requests:
            expected = [requests[0].infer(each) for each in inputs]
            begin_ns = time.perf_counter_ns()
            outputs = all_at_once(requests, inputs)
            took_ns = time.perf_counter_ns() - begin_ns
        assert outputs == expected, "outputs belong to the inputs of their own request"
        assert took_ns < 2 * 50_000_000, "one after the other would take longer"

    def test_latencies_are_those_of_the_distribution_and_the_seed(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        options = {"latency_us": 300, "distribution": "bimodal", "jitter": 0.1, "seed": 5}
        expected_ns = list(islice(latencies_ns(Latency(300_000, LatencyDistribution.BIMODAL, 0.1), "5/0"), 50))
        inputs = model.inputs_for(1, seed=1)
        taken_ns = []
        with self.requests(engine, model, 1, options={"latency_us": 0}) as (request,):
            request.infer(inputs)
        with self.requests(engine, model, 1, options=options) as (request,):
            for _ in range(50):
                begin_ns = time.perf_counter_ns()
                request.infer(inputs)
                taken_ns.append(time.perf_counter_ns() - begin_ns)
        late_ns = [taken - expected for taken, expected in zip(taken_ns, expected_ns, strict=True)][1:]
        assert min(late_ns) >= 0
        assert sorted(late_ns)[len(late_ns) // 2] < 30_000

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"jitter": 0.5}, "option jitter of the fake engine lies between 0.0 and 0.3, not at 0.5"),
            ({"latency_us": -1}, "latency_us"),
            ({"stall_every": 1}, "stall_every"),
            ({"drift_iterations": 0}, "drift_iterations"),
            ({"process_spread": 1.0}, "process_spread"),
            ({"distribution": "normal"}, "distribution"),
        ],
    )
    def test_an_option_out_of_its_range_is_refused(
        self, engine: spec.Engine, tmp_path: Path, options: dict[str, spec.OptionValue], words: str
    ) -> None:
        source = self.classifier(tmp_path).source(1)
        settings = spec.Settings(device=self.device, options=options)
        with pytest.raises(spec.UnsupportedSettingsError, match=words):
            engine.compile(engine.read(source), source, settings)

    def test_processes_differ_on_request_whatever_the_seed(self, engine: spec.Engine, tmp_path: Path) -> None:
        source = self.classifier(tmp_path).source(1)
        settings = spec.Settings(device=self.device, profiling=True, options={"process_spread": 0.2, "seed": 1})
        totals = set()
        for _ in range(4):
            compiled = engine.compile(engine.read(source), source, settings)
            profile = compiled.profile([self.classifier(tmp_path).inputs_for(1, seed=1)], 1)
            totals.add(sum(layer.time_ns[0] for layer in profile.layers))
        assert len(totals) > 1
        assert all(800_000 <= total_ns <= 1_200_000 for total_ns in totals)

    def test_layer_times_are_the_same_every_time_and_add_up(self, engine: spec.Engine, tmp_path: Path) -> None:
        layers = self.profile(engine, tmp_path, iterations=3)[0].layers
        assert layers == self.profile(engine, tmp_path, iterations=3)[0].layers
        assert [sum(times) for times in zip(*(layer.time_ns for layer in layers), strict=True)] == [1_000_000] * 3
        assert layers[0].source_nodes == ("conv1",)


def all_at_once(requests: Sequence[spec.InferRequest], inputs: Sequence[spec.Tensors]) -> list[spec.Outputs | None]:
    """Start all requests and wait for them; the outputs in the order of the requests."""
    outputs: list[spec.Outputs | None] = [None] * len(requests)
    done = threading.Semaphore(0)

    def keep(index: int, result: spec.Outputs | None) -> None:
        outputs[index] = result
        done.release()

    for index, (request, each) in enumerate(zip(requests, inputs, strict=True)):
        request.start(each, lambda result, _, index=index: keep(index, result))
    for _ in requests:
        assert done.acquire(timeout=10)
    return outputs


STATIONARY = [each for each in LatencyDistribution if each is not LatencyDistribution.DRIFT]


@pytest.mark.parametrize("jitter", [0.0, 0.2])
@pytest.mark.parametrize("distribution", STATIONARY)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.65, 0.9, 0.98, 0.995])
def test_latencies_come_to_the_documented_truth(distribution: LatencyDistribution, jitter: float, share: float) -> None:
    latency = Latency(1_000_000, distribution, jitter)
    drawn = sorted(islice(latencies_ns(latency, seed=1), TABLE_SIZE))
    # Four standard errors of the share below a quantile: the truth lies between these order statistics.
    margin = 4 * (share * (1 - share) / TABLE_SIZE) ** 0.5
    low, high = (drawn[int((share + sign * margin) * TABLE_SIZE)] for sign in (-1, 1))
    assert low <= quantile_ns(latency, share) <= high


@pytest.mark.parametrize("distribution", LatencyDistribution)
def test_the_median_lies_near_the_typical_latency(distribution: LatencyDistribution) -> None:
    assert quantile_ns(Latency(1_000_000, distribution), 0.5) == pytest.approx(1_000_000)
    assert quantile_ns(Latency(1_000_000, distribution, jitter=0.3), 0.5) == pytest.approx(1_000_000, rel=0.15)


@pytest.mark.parametrize("distribution", LatencyDistribution)
def test_a_seed_gives_the_same_latencies_and_another_seed_others(distribution: LatencyDistribution) -> None:
    one, again, other = (
        list(islice(latencies_ns(Latency(10_000, distribution, jitter=0.1), seed), 3000)) for seed in (1, 1, 2)
    )
    assert one == again != other


def test_stalls_come_exactly_at_every_nth() -> None:
    drawn = list(islice(latencies_ns(Latency(1000, LatencyDistribution.STALLS, stall_every=7), 0), TABLE_SIZE * 2))
    assert [index for index, each in enumerate(drawn) if each > 1000] == list(range(6, len(drawn), 7))
    assert set(drawn) == {1000, 20_000}


def test_drift_falls_from_twice_the_latency_and_then_stays() -> None:
    drawn = list(islice(latencies_ns(Latency(1000, LatencyDistribution.DRIFT, drift_iterations=100), 0), 300))
    assert (drawn[0], drawn[50], drawn[99], set(drawn[100:])) == (2000, 1500, 1010, {1000})


def test_the_tail_is_heavy() -> None:
    latency = Latency(1000, LatencyDistribution.HEAVY_TAIL)
    assert quantile_ns(latency, 0.999) == pytest.approx(12_011, rel=1e-3)  # (2 · 0.001)^(-1/2.5) · 1000


BATCH = 3


def outputs_of(folder: Path, wrong: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What comes out for two inputs, and what should."""
    model = contract_models.classifier(folder)
    inputs = [model.inputs_for(BATCH, seed=seed) for seed in (1, 2)]
    found = []
    for each in (wrong, "none"):
        engine = FakeEngine()
        settings = spec.Settings(device="FAKE:0", batch=BATCH, options={"wrong": each, "latency_us": 0})
        source = model.source(BATCH)
        request = engine.compile(engine.read(source), source, settings).create_request()
        found.append([next(iter(request.infer(tensors).values())) for tensors in inputs])
    return found[0], found[1]


def test_outputs_are_scaled_on_request(tmp_path: Path) -> None:
    wrong, right = outputs_of(tmp_path, "scaled")
    for each, expected in zip(wrong, right, strict=True):
        np.testing.assert_allclose(each, expected * 1.1, rtol=1e-5)


def test_inputs_are_ignored_on_request(tmp_path: Path) -> None:
    wrong, right = outputs_of(tmp_path, "ignored_input")
    np.testing.assert_array_equal(wrong[0], right[0])
    np.testing.assert_array_equal(wrong[1], right[0])
    assert not np.array_equal(right[0], right[1])


def test_items_of_the_batch_are_lost_or_repeated_on_request(tmp_path: Path) -> None:
    lost, right = outputs_of(tmp_path, "lost_batch")
    np.testing.assert_array_equal(lost[0], right[0][:1])
    repeated, _ = outputs_of(tmp_path, "repeated_item")
    assert repeated[0].shape == right[0].shape
    np.testing.assert_array_equal(repeated[0], np.repeat(right[0][:1], BATCH, axis=0))


def compile_and_infer(folder: Path, fault: str, phase: str) -> None:
    """Run in a child by the tests below."""
    model = contract_models.classifier(folder)
    engine = FakeEngine()
    settings = spec.Settings(device="FAKE:1", options={"fault": fault, "fault_phase": phase, "latency_us": 0})
    compiled = engine.compile(engine.read(model.source(1)), model.source(1), settings)
    os.write(2, b"<compiled>\n")
    compiled.create_request().infer(model.inputs_for(1, seed=1))
    os.write(2, b"<inferred>\n")


def in_a_child(folder: Path, fault: Fault, phase: FaultPhase, timeout_s: float = 60) -> subprocess.CompletedProcess:
    here = Path(__file__)
    code = f"from {here.stem} import *; compile_and_infer(Path({str(folder)!r}), {fault.value!r}, {phase.value!r})"
    environment = os.environ | {"PYTHONPATH": str(here.parent)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, timeout=timeout_s, check=False)


@pytest.mark.parametrize("phase", list(FaultPhase))
@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (Fault.SEGFAULT, -signal.SIGSEGV, b""),
        (Fault.ABORT, -signal.SIGABRT, b""),
        (Fault.EXIT, EXIT_CODE, b""),
        (Fault.OUT_OF_MEMORY, 1, b"MemoryError"),
        (Fault.GARBAGE_STDOUT, 0, b"<inferred>"),
    ],
)
def test_a_fault_strikes_in_its_phase(tmp_path: Path, fault: Fault, phase: FaultPhase, code: int, words: bytes) -> None:
    child = in_a_child(tmp_path, fault, phase)
    assert child.returncode == code
    assert words in child.stderr
    assert (b"<compiled>" in child.stderr) == (phase is FaultPhase.INFERENCE or fault is Fault.GARBAGE_STDOUT)
    assert (b"\xff" in child.stdout) == (fault is Fault.GARBAGE_STDOUT)


def test_a_hang_never_ends(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        in_a_child(tmp_path, Fault.HANG, FaultPhase.COMPILE, timeout_s=3)
    assert b"<compiled>" not in (caught.value.stderr or b"")


@pytest.mark.parametrize("phase", list(FaultPhase))
def test_an_error_comes_in_the_phase_it_is_named_after(tmp_path: Path, phase: FaultPhase) -> None:
    with pytest.raises(RuntimeError, match="cannot compile"):
        compile_and_infer(tmp_path, Fault.COMPILE_ERROR.value, phase.value)
    with pytest.raises(RuntimeError, match="inference went wrong"):
        compile_and_infer(tmp_path, Fault.INFERENCE_ERROR.value, phase.value)
