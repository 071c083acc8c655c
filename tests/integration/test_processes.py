"""One measurement from several fresh processes: merged, interleaved, shuffled, overloaded, and failing alone."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import torch

from agent_server import AgentProcess, only
from enginebench_controller.home import Home
from enginebench_controller.records import StopReason
from enginebench_proto.v1 import run_pb2
from integration.bench import QUICK, Bench, started, wait_until

THREE = (*QUICK, "--processes", "3", "--duration", "300ms")
SLEEPING = ("--option", "fake.wait=sleep")


def test_three_fresh_processes_are_one_measurement(bench: Bench, model: Path, shared_agent: AgentProcess) -> None:
    document = bench.json("run", model, "--engine", "fake", "--target", shared_agent.address, *THREE)
    (measurement,) = bench.measurements(document)
    assert [process.index for process in measurement.processes] == [0, 1, 2]
    assert {process.stop_reason for process in measurement.processes} == {StopReason.TARGET_MET}
    assert len({process.started_at_unix_ns for process in measurement.processes}) == 3
    assert {block.process for block in measurement.blocks} == {0, 1, 2}
    assert measurement.steady_state_ns is not None and measurement.steady_state_ns >= 300_000_000
    assert measurement.iterations == sum(block.iterations for block in measurement.blocks) >= 30
    samples = Home(bench.home).store.block_samples(measurement.id)
    assert sum(one.latency_ns.size for one in samples) == measurement.iterations
    assert list((shared_agent.data_dir / "spool").iterdir()) == [], "every process's run is acknowledged"


def test_a_process_that_may_measure_for_long_has_the_time_for_it(
    bench: Bench, model: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    agent = start_agent()
    order = ("run", model, "--engine", "fake", "--option", "fake.fault=hang", "--target", agent.address)
    with started(bench, *order, *QUICK, "--max-duration", "50m"):
        wait_until(lambda: any(path.read_bytes() for path in agent.data_dir.glob("runs/*/spec")))
        (spec,) = (run_pb2.RunSpec.FromString(path.read_bytes()) for path in agent.data_dir.glob("runs/*/spec"))
    assert spec.timeout_ns > 2 * 50 * 60 * 10**9


def test_processes_that_differ_are_inconclusive_and_the_spread_is_told(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    arguments = ("--engine", "fake", "--option", "fake.process_spread=0.5", "--target", shared_agent.address)
    document = bench.json("run", model, *arguments, *THREE, "--interval", "1%")
    (measurement,) = bench.measurements(document)
    assert measurement.status == "inconclusive"
    assert measurement.process_spread is not None and measurement.process_spread > 0.01


def test_configurations_are_run_in_a_random_order_that_is_recorded(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    arguments = ("run", model, "--engine", "fake", "--target", shared_agent.address, "--batch", "1,2,3,4,5", *QUICK)
    first = bench.json(*arguments)
    again = bench.json("rerun", first["benchmark"]["id"])
    other = bench.json(*arguments, "--order-seed", "1")
    assert _order(bench, first) == _order(bench, again) != _order(bench, other)
    assert isinstance(first["benchmark"]["plan"]["order_seed"], int)
    assert other["benchmark"]["plan"]["order_seed"] == 1


def test_interleaved_configurations_take_turns_and_end_with_equally_many_blocks(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    arguments = ("--engine", "fake", "--target", shared_agent.address, "--batch", "1,2", "--interleave")
    document = bench.json("run", model, *arguments, *QUICK, "--processes", "2", "--block", "20ms")
    measurements = bench.measurements(document)
    assert [m.status for m in measurements] == ["ok", "ok"]
    assert len({m.interleaving_group for m in measurements}) == 1 and measurements[0].interleaving_group
    blocks = [[(block.process, block.index) for block in m.blocks] for m in measurements]
    assert blocks[0] == blocks[1] and {process for process, _ in blocks[0]} == {0, 1}
    assert list((shared_agent.data_dir / "spool").iterdir()) == []


def test_a_member_of_an_interleaved_group_that_dies_fails_alone(
    bench: Bench, model: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    agent = start_agent()
    killer = threading.Thread(target=_kill_first_of_two, args=(agent,))
    killer.start()
    arguments = ("--engine", "fake", "--target", agent.address, "--batch", "1,2", "--interleave", *SLEEPING)
    measuring = (*QUICK, "--processes", "2", "--duration", "4s")
    document = bench.json("run", model, *arguments, *measuring, expect=1)
    killer.join()
    by_status = {m.status.value: m for m in bench.measurements(document)}
    assert set(by_status) == {"failed", "ok"}
    assert by_status["failed"].failure is not None and by_status["failed"].failure.kind == "crashed"
    assert {block.process for block in by_status["ok"].blocks} == {0, 1}


def test_a_member_that_the_target_refuses_leaves_the_turns_to_the_others(
    bench: Bench, model: Path, tmp_path: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    forbidden = tmp_path / "net.pt"
    torch.jit.save(torch.jit.trace(torch.nn.Linear(8, 4).eval(), torch.zeros(1, 8)), forbidden)
    target = ("--target", start_agent(config=f"allow_executable_formats = false\n{only('torch')}").address)
    arguments = ("--engine", "torch", "--shape", "x=1x8", "--cores", "1", "--interleave", "--processes", "2")
    document = bench.json("run", forbidden, model, *target, *QUICK, *arguments, expect=1)
    by_model = {m.model_name: m for m in bench.measurements(document)}
    refused = by_model["net"].failure
    assert refused is not None and refused.kind == "refused" and "allow_executable_formats" in refused.message
    assert by_model["tiny"].status == "ok"
    assert {block.process for block in by_model["tiny"].blocks} == {0, 1}


def test_a_process_that_fails_late_fails_its_measurement_alone(
    bench: Bench, model: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    agent = start_agent()
    killer = threading.Thread(target=_kill_second_process, args=(agent,))
    killer.start()
    arguments = ("--engine", "fake", "--target", agent.address, "--batch", "1,2", *SLEEPING)
    document = bench.json("run", model, *arguments, *QUICK, "--processes", "2", "--duration", "6s", expect=1)
    killer.join()
    by_status = {m.status.value: m for m in bench.measurements(document)}
    assert set(by_status) == {"failed", "ok"}
    failure = by_status["failed"].failure
    assert failure is not None and failure.kind == "crashed" and failure.message.startswith("process 2 of 2: ")


def test_the_overload_of_an_open_loop_shows_as_latency_and_is_told(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    # Two requests of 10 ms each are 200 a second at most; a tenth of that a busy machine can serve, too.
    service = ("--option", "fake.latency_us=10000", *SLEEPING, "--requests", "2", "--arrivals", "constant")
    load = ("--load", "open-loop", "--rate", "20,400", "--max-duration", "3s", "--iterations", "1")
    arguments = ("--engine", "fake", "--target", shared_agent.address, *service, *QUICK, *load, "--duration", "1s")
    document = bench.json("run", model, *arguments)
    by_rate = {m.configuration.arrivals.rate_per_s: m for m in bench.measurements(document) if m.configuration.arrivals}
    calm, overloaded = by_rate[20].latency, by_rate[400].latency
    assert calm is not None and overloaded is not None
    # At twice the capacity, what arrives last within a second waits for about as long again.
    assert calm.median_ns < 100_000_000 < 250_000_000 < overloaded.max_ns
    flags = {m["configuration"]["arrivals"]["rate_per_s"]: m["flags"] for m in document["measurements"]}
    assert any("overloaded" in flag for flag in flags[400])
    assert not any("overloaded" in flag for flag in flags[20])
    (samples, *_) = Home(bench.home).store.block_samples(by_rate[400].id)
    assert samples.scheduled_ns is not None and samples.completed_ns is not None
    assert np.array_equal(samples.completed_ns - samples.scheduled_ns, samples.latency_ns)


def test_compare_tells_the_slower_configuration_and_that_equal_ones_do_not_differ(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    arguments = ("run", model, "--engine", "fake", "--target", shared_agent.address, *THREE, *SLEEPING)
    quick = bench.json(*arguments, "--option", "fake.latency_us=10000")["benchmark"]["id"]
    slow = bench.json(*arguments, "--option", "fake.latency_us=30000")["benchmark"]["id"]
    (compared,) = bench.json("compare", quick, slow)["comparisons"]
    assert compared["verdict"] == "slower" and 2 < compared["ratio_low"] < compared["ratio"] < compared["ratio_high"]
    (same,) = bench.json("compare", quick, quick)["comparisons"]
    assert same["verdict"] != "faster" and same["verdict"] != "slower"
    assert "slower" in bench.cli("compare", quick, slow).stdout
    assert "nothing to compare" in bench.cli("compare", quick, expect=2).stderr


def test_given_inputs_travel_to_the_target_and_are_named(
    bench: Bench, model: Path, tmp_path: Path, shared_agent: AgentProcess
) -> None:
    folder = tmp_path / "vectors"
    folder.mkdir()
    for number in range(3):
        np.save(folder / f"{number}.npy", np.full(8, number, dtype=np.float32))
    arguments = ("--engine", "fake", "--target", shared_agent.address, "--inputs", folder, *QUICK)
    given = bench.json("run", model, *arguments)["measurements"][0]
    assert given["configuration"]["input_set"]["name"] == "vectors"
    assert given["configuration"]["input_set"]["count"] == 3
    random = bench.json("run", model, *arguments, "--inputs", "3")["measurements"][0]
    assert random["input_set_sha256"] != given["input_set_sha256"]


def _order(bench: Bench, document: dict[str, object]) -> list[int]:
    """The batches of a benchmark in the order they were run in."""
    started = sorted(bench.measurements(document), key=lambda m: m.started_at_unix_ns or 0)
    return [m.configuration.batch for m in started]


def _runs(agent: AgentProcess) -> set[int]:
    """The process ids of the children that carry out runs, without those that keep them."""
    found = set()
    children = {*agent.children()}
    keepers = {child.pid for child in psutil.Process(agent.process.pid).children()}  # and those that keep nothing yet
    for pid in children - keepers:
        command = Path(f"/proc/{pid}/cmdline")
        if command.exists() and b"\0run\0" in command.read_bytes():
            found.add(pid)
    return found


def _wait_for(agent: AgentProcess, enough: Callable[[set[int]], bool], seconds: float = 60) -> set[int]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if enough(runs := _runs(agent)):
            return runs
        time.sleep(0.02)
    raise AssertionError("the agent did not start what was waited for")


def _kill_first_of_two(agent: AgentProcess) -> None:
    runs = _wait_for(agent, lambda runs: len(runs) == 2)
    time.sleep(0.5)
    os.kill(min(runs), signal.SIGSEGV)


def _kill_second_process(agent: AgentProcess) -> None:
    first = _wait_for(agent, bool)
    second = _wait_for(agent, lambda runs: bool(runs - first)) - first
    time.sleep(0.3)
    os.kill(min(second), signal.SIGSEGV)
