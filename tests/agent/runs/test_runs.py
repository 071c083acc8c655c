"""Runs on a real agent: what callers see of them, and what becomes of children that misbehave."""

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

import grpc
import pytest
from agent_process import ENDLESS_MS, Client, is_alive, make_spec, refused
from grpc_health.v1 import health_pb2

from agent_server import AgentProcess
from enginebench_proto.v1 import run_pb2

pytestmark = pytest.mark.slow

SERVING = health_pb2.HealthCheckResponse.SERVING


async def test_a_run_is_measured_and_its_result_says_what_was_asked(shared: Client, model: bytes) -> None:
    spec = make_spec(model, "a-run-is-measured")
    outcome = await shared.run(spec)
    assert outcome.result.outcome == run_pb2.OUTCOME_OK
    assert outcome.result.spec == spec
    assert outcome.result.run_id == spec.run_id
    assert outcome.result.started_at_unix_ns > 0
    assert len(outcome.samples_ns) == outcome.result.measurement.iterations >= 3
    assert [block.index for block in outcome.blocks] == list(range(outcome.result.measurement.blocks))
    assert sum(block.iterations for block in outcome.blocks) == len(outcome.samples_ns)
    assert min(outcome.samples_ns) >= 500_000


async def test_watch_tells_queued_running_phases_and_the_end_in_order(shared: Client, model: bytes) -> None:
    await shared.start(make_spec(model, "watch-tells"))
    events = await shared.watch("watch-tells")
    assert [event.sequence for event in events] == list(range(len(events)))
    assert [event.state.state for event in events if event.HasField("state")] == [
        run_pb2.RUN_STATE_QUEUED,
        run_pb2.RUN_STATE_RUNNING,
        run_pb2.RUN_STATE_FINISHED,
    ]
    assert events[-1].state.outcome == run_pb2.OUTCOME_OK
    phases = [event.phase.name for event in events if event.HasField("phase")]
    assert phases.index("compile") < phases.index("steady_state")


async def test_watch_resumes_from_a_sequence_number(shared: Client, model: bytes) -> None:
    await shared.start(make_spec(model, "watch-resumes"))
    events = await shared.watch("watch-resumes")
    assert await shared.watch("watch-resumes", from_sequence=3) == events[3:]
    assert await shared.watch("watch-resumes", from_sequence=len(events)) == []


async def test_start_is_idempotent_by_run_id_and_refuses_another_specification(shared: Client, model: bytes) -> None:
    spec = make_spec(model, "start-is-idem")
    await shared.start(spec)
    await shared.watch("start-is-idem")
    assert await shared.start(spec) == run_pb2.RUN_STATE_FINISHED
    async with refused(grpc.StatusCode.ALREADY_EXISTS, "start-is-idem"):
        await shared.start(make_spec(model, "start-is-idem", options={"latency_us": "501"}))


async def test_simultaneous_starts_of_one_run_make_one_run(ready: Client, agent: AgentProcess, model: bytes) -> None:
    spec = make_spec(model, options={"fault": "hang"})
    await asyncio.gather(*(ready.start(spec) for _ in range(8)))
    await ready.wait_for_phase("run-1", "compile")
    assert len(agent.children()) == 1
    await ready.cancel("run-1")


@pytest.mark.fault(15)
@pytest.mark.parametrize("fault_phase", ["compile", "inference"])
async def test_cancel_ends_the_child_within_two_seconds(
    ready: Client, agent: AgentProcess, model: bytes, fault_phase: str
) -> None:
    await ready.start(make_spec(model, options={"fault": "hang", "fault_phase": fault_phase}))
    await ready.wait_for_phase("run-1", "compile")
    (child,) = agent.children()
    began = time.monotonic()
    await ready.cancel("run-1")
    assert time.monotonic() - began < 2
    assert not is_alive(child)
    result = (await ready.outcome("run-1")).result
    assert result.outcome == run_pb2.OUTCOME_CANCELLED
    assert result.failure.kind == run_pb2.FAILURE_KIND_CANCELLED
    assert not list((agent.data_dir / "runs").glob("run-1*"))
    await ready.cancel("run-1")  # harmless on a finished run


async def test_a_queued_run_can_be_cancelled_and_frees_its_place(ready: Client, model: bytes) -> None:
    await ready.start(make_spec(model, "first", options={"fault": "hang"}))
    await ready.start(make_spec(model, "second"))
    await ready.cancel("second")
    await ready.start(make_spec(model, "third"))
    await ready.cancel("first")
    await ready.watch("third")
    runs = await ready.list_runs()
    assert runs["second"].outcome == run_pb2.OUTCOME_CANCELLED
    assert runs["third"].outcome == run_pb2.OUTCOME_OK


@pytest.mark.fault(11)
async def test_a_child_killed_by_a_signal_is_a_typed_failure_and_the_agent_stays_healthy(
    ready: Client, agent: AgentProcess, model: bytes
) -> None:
    await ready.start(make_spec(model, duration_ms=ENDLESS_MS))
    await ready.wait_for_phase("run-1", "steady_state")
    os.kill(agent.children()[0], signal.SIGSEGV)
    await ready.watch("run-1")
    failure = (await ready.outcome("run-1")).result.failure
    assert (failure.kind, failure.signal) == (run_pb2.FAILURE_KIND_CRASHED, "SIGSEGV")
    assert failure.phase == "steady_state"
    assert "SIGSEGV" in failure.message
    assert await ready.health_status() == SERVING
    assert (await ready.run(make_spec(model, "next"))).result.outcome == run_pb2.OUTCOME_OK


@pytest.mark.fault(11)
@pytest.mark.parametrize(
    ("fault", "kind", "signal_name", "exit_code"),
    [
        ("segfault", run_pb2.FAILURE_KIND_CRASHED, "SIGSEGV", None),
        ("abort", run_pb2.FAILURE_KIND_CRASHED, "SIGABRT", None),
        ("exit", run_pb2.FAILURE_KIND_CRASHED, "", 7),
        ("out_of_memory", run_pb2.FAILURE_KIND_OUT_OF_MEMORY, "", None),
        ("compile_error", run_pb2.FAILURE_KIND_COMPILE_FAILED, "", None),
        ("inference_error", run_pb2.FAILURE_KIND_INFERENCE_FAILED, "", None),
    ],
)
async def test_every_fault_has_its_kind(
    shared: Client, model: bytes, fault: str, kind: int, signal_name: str, exit_code: int | None
) -> None:
    result = (await shared.run(make_spec(model, fault, options={"fault": fault}))).result
    failure = result.failure
    assert result.outcome == run_pb2.OUTCOME_FAILED
    assert (failure.kind, failure.signal) == (kind, signal_name)
    assert (failure.exit_code if failure.HasField("exit_code") else None) == exit_code
    assert result.spec.run_id == fault


async def test_what_an_engine_prints_does_not_disturb_the_result(shared: Client, model: bytes) -> None:
    assert (
        await shared.run(make_spec(model, "what-an-engine-prints", options={"fault": "garbage_stdout"}))
    ).result.outcome == run_pb2.OUTCOME_OK


@pytest.mark.fault(11)
async def test_a_child_that_hangs_is_killed_at_its_limit(ready: Client, agent: AgentProcess, model: bytes) -> None:
    spec = make_spec(model, options={"fault": "hang", "fault_phase": "compile"}, timeout_ns=8_000_000_000)
    await ready.start(spec)
    await ready.wait_for_phase("run-1", "compile")
    (child,) = agent.children()
    assert await ready.health_status() == SERVING
    await ready.watch("run-1")
    failure = (await ready.outcome("run-1")).result.failure
    assert (failure.kind, failure.phase) == (run_pb2.FAILURE_KIND_TIMED_OUT, "compile")
    assert "8 s" in failure.message
    assert not is_alive(child)


@pytest.mark.parametrize(("longest_s", "told_s"), [(3, 3), (60, 6), (0, 6)])
async def test_a_steady_state_is_to_end_well_before_its_child_would_be_killed(
    ready: Client, agent: AgentProcess, model: bytes, longest_s: int, told_s: int
) -> None:
    spec = make_spec(model, options={"fault": "hang"}, timeout_ns=8_000_000_000)
    spec.configuration.stop.max_duration_ns = longest_s * 1_000_000_000
    await ready.start(spec)
    told = run_pb2.RunSpec.FromString((agent.data_dir / "runs" / "run-1" / "spec").read_bytes())
    assert told.configuration.stop.max_duration_ns == told_s * 1_000_000_000
    told.configuration.stop.max_duration_ns = spec.configuration.stop.max_duration_ns
    assert told == spec
    await ready.cancel("run-1")


@pytest.mark.fault(13)
async def test_runs_never_overlap_whatever_they_run_on(ready: Client, agent: AgentProcess, model: bytes) -> None:
    names = ("a0", "b1", "a2", "b3")
    for name in names:
        await ready.start(make_spec(model, name, duration_ms=100, device=f"FAKE:{int(name[1]) % 2}"))
    seen: set[frozenset[str]] = set()
    while (await ready.list_runs())["b3"].state != run_pb2.RUN_STATE_FINISHED:
        seen.add(frozenset(path.parent.name for path in _run_folders_in_use(agent)))
    assert {frozenset({name}) for name in names} <= seen
    assert all(len(together) <= 1 for together in seen), seen


def _run_folders_in_use(agent: AgentProcess) -> list[Path]:
    """The model folders of the live children, from their command lines."""
    commands = []
    for pid in agent.children():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            commands.append(Path(f"/proc/{pid}/cmdline").read_text().split("\0"))
    return [Path(words[-2]).parent for words in commands if len(words) > 2 and words[-3] == "run"]


async def test_an_unfinished_run_has_no_result_and_cannot_be_acknowledged(ready: Client, model: bytes) -> None:
    await ready.start(make_spec(model, options={"fault": "hang"}))
    async with refused(grpc.StatusCode.FAILED_PRECONDITION, "run-1"):
        await ready.outcome("run-1")
    async with refused(grpc.StatusCode.FAILED_PRECONDITION, "run-1"):
        await ready.acknowledge("run-1")
    await ready.cancel("run-1")
