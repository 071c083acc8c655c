"""The fake engine: exact outputs, a chosen latency, and faults on request."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import contract_models
import numpy as np
import pytest
from contract import EngineContract

from enginebench_plugins import spec
from enginebench_plugins.fake.faults import EXIT_CODE, Fault, FaultPhase
from enginebench_plugins.fake.plugin import FakeEngine


class TestFake(EngineContract):
    plugin = "enginebench_plugins.fake.plugin"
    device = "FAKE:0"

    def test_the_processor_occupies_the_processor(self, engine: spec.Engine) -> None:
        occupied = [resource for device in engine.devices() for resource in device.resources]
        assert sorted(occupied) == ["fake:0", "fake:1"], "two runs on the two devices would wait for each other"

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

    def test_layer_times_are_the_same_every_time_and_add_up(self, engine: spec.Engine, tmp_path: Path) -> None:
        layers = self.profile(engine, tmp_path, iterations=3)[0].layers
        assert layers == self.profile(engine, tmp_path, iterations=3)[0].layers
        assert [sum(times) for times in zip(*(layer.time_ns for layer in layers), strict=True)] == [1_000_000] * 3
        assert layers[0].source_nodes == ("conv1",)


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
