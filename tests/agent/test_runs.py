"""Runs on a real agent: what callers see of them, and what becomes of children that misbehave."""

import asyncio
import io
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from agent_process import (
    AgentProcess,
    Client,
    connected,
    digest,
    eventually,
    given_inputs,
    is_alive,
    make_spec,
    refused,
)
from grpc_health.v1 import health_pb2

from enginebench_proto.v1 import configuration_pb2, model_pb2, run_pb2

SERVING = health_pb2.HealthCheckResponse.SERVING
ENDLESS_MS = 60_000


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


async def test_a_child_that_hangs_is_killed_at_its_limit(ready: Client, agent: AgentProcess, model: bytes) -> None:
    spec = make_spec(model, options={"fault": "hang", "fault_phase": "compile"}, timeout_ns=2_500_000_000)
    await ready.start(spec)
    await ready.wait_for_phase("run-1", "compile")
    (child,) = agent.children()
    assert await ready.health_status() == SERVING
    await ready.watch("run-1")
    failure = (await ready.outcome("run-1")).result.failure
    assert (failure.kind, failure.phase) == (run_pb2.FAILURE_KIND_TIMED_OUT, "compile")
    assert "2.5 s" in failure.message
    assert not is_alive(child)


async def test_runs_that_share_a_device_never_overlap_and_others_do(
    ready: Client, agent: AgentProcess, model: bytes
) -> None:
    await ready.start(make_spec(model, "other", duration_ms=ENDLESS_MS, device="FAKE:1"))
    for name in ("a1", "a2", "a3"):
        await ready.start(make_spec(model, name, duration_ms=100))
    seen: set[frozenset[str]] = set()
    while (await ready.list_runs())["a3"].state != run_pb2.RUN_STATE_FINISHED:
        seen.add(frozenset(path.parent.name for path in _run_folders_in_use(agent)))
    assert {frozenset({name, "other"}) for name in ("a1", "a2", "a3")} <= seen
    assert all(len(names - {"other"}) <= 1 for names in seen), seen
    await ready.cancel("other")


def _run_folders_in_use(agent: AgentProcess) -> list[Path]:
    """The model folders of the live children, from their command lines."""
    commands = [Path(f"/proc/{pid}/cmdline") for pid in agent.children()]
    arguments = [path.read_text().split("\0") for path in commands if path.exists()]
    return [Path(words[-2]).parent for words in arguments if len(words) > 2 and words[-3] == "run"]


async def test_a_result_survives_the_agent_until_it_is_acknowledged(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    agent = start_agent()
    spec = make_spec(model)
    async with connected(agent) as client:
        await client.upload(model)
        before = await client.run(spec)
        seen = await client.watch("run-1")
    agent.kill()
    agent.restart()
    async with connected(agent) as client:
        assert await client.outcome("run-1") == before
        assert await client.start(spec) == run_pb2.RUN_STATE_FINISHED
        async with refused(grpc.StatusCode.ALREADY_EXISTS):
            await client.start(make_spec(model, duration_ms=21))
        (last,) = await client.watch("run-1", from_sequence=len(seen))
        assert (last.sequence, last.state.outcome) == (len(seen), run_pb2.OUTCOME_OK)
        await client.acknowledge("run-1")
        await client.acknowledge("run-1")  # harmless when repeated
        assert await client.list_runs() == {}
        async with refused(grpc.StatusCode.NOT_FOUND, "run-1"):
            await client.outcome("run-1")
    assert list((agent.data_dir / "spool").iterdir()) == []


async def test_a_run_dies_with_its_agent_and_is_unknown_to_the_next(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    agent = start_agent()
    async with connected(agent) as client:
        await client.upload(model)
        await client.start(make_spec(model, duration_ms=ENDLESS_MS))
        await client.wait_for_phase("run-1", "steady_state")
        (child,) = agent.children()
        spool = agent.data_dir / "spool"
        await eventually((spool / "run-1.blocks").exists)
    agent.kill()
    await eventually(lambda: not is_alive(child))
    agent.restart()
    async with connected(agent) as client:
        async with refused(grpc.StatusCode.NOT_FOUND):
            await client.watch("run-1")
        assert list((agent.data_dir / "runs").glob("run-1*")) == []
    assert list(spool.iterdir()) == [], "blocks without a result are nobody's"


async def test_sigterm_cancels_runs_spools_their_outcome_and_exits_with_zero(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    agent = start_agent()
    async with connected(agent) as client:
        await client.upload(model)
        await client.start(make_spec(model, duration_ms=ENDLESS_MS))
        await client.wait_for_phase("run-1", "steady_state")
        (child,) = agent.children()
        assert await asyncio.to_thread(agent.stop) == 0
    assert not is_alive(child)
    agent.restart()
    async with connected(agent) as client:
        assert (await client.list_runs())["run-1"].outcome == run_pb2.OUTCOME_CANCELLED


async def test_a_damaged_spool_file_is_set_aside_and_the_others_are_served(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    agent = start_agent()
    async with connected(agent) as client:
        await client.upload(model)
        await client.run(make_spec(model))
    agent.stop()
    (agent.data_dir / "spool" / "broken").write_bytes(b"\xff" * 20)
    (agent.data_dir / "spool" / "half.unfinished").write_bytes(b"")
    agent.restart()
    async with connected(agent) as client:
        assert set(await client.list_runs()) == {"run-1"}
    spooled = {path.name for path in (agent.data_dir / "spool").iterdir()}
    assert spooled == {"run-1", "run-1.blocks", "broken.damaged"}


async def test_an_unfinished_run_has_no_result_and_cannot_be_acknowledged(ready: Client, model: bytes) -> None:
    await ready.start(make_spec(model, options={"fault": "hang"}))
    async with refused(grpc.StatusCode.FAILED_PRECONDITION, "run-1"):
        await ready.outcome("run-1")
    async with refused(grpc.StatusCode.FAILED_PRECONDITION, "run-1"):
        await ready.acknowledge("run-1")
    await ready.cancel("run-1")


@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        ({"run_id": "../escape"}, grpc.StatusCode.INVALID_ARGUMENT, "run id"),
        ({"run_id": ""}, grpc.StatusCode.INVALID_ARGUMENT, "run id"),
        ({"kind": run_pb2.RUN_KIND_UNSPECIFIED}, grpc.StatusCode.INVALID_ARGUMENT, "kind"),
        ({"engine": "unknown"}, grpc.StatusCode.NOT_FOUND, "unknown"),
        ({"environment": "unknown"}, grpc.StatusCode.NOT_FOUND, "unknown"),
        ({"device": "FAKE:9"}, grpc.StatusCode.NOT_FOUND, "FAKE:0"),
        ({"options": {"cache_dir": "/etc"}}, grpc.StatusCode.INVALID_ARGUMENT, "cache_dir"),
        ({"options": {"fault": "unheard-of"}}, grpc.StatusCode.INVALID_ARGUMENT, "fault"),
        ({"interleaving": run_pb2.Interleaving(group="g")}, grpc.StatusCode.INVALID_ARGUMENT, "1 to 64 members"),
        ({"interleaving": run_pb2.Interleaving(group="../g", members=2)}, grpc.StatusCode.INVALID_ARGUMENT, "group"),
        (
            {"interleaving": run_pb2.Interleaving(group="g", members=2), "kind": run_pb2.RUN_KIND_PROFILE},
            grpc.StatusCode.INVALID_ARGUMENT,
            "only measurements",
        ),
    ],
)
async def test_what_cannot_run_is_refused_before_anything_starts(
    shared: Client,
    shared_agent: AgentProcess,
    model: bytes,
    changes: dict[str, object],
    status: grpc.StatusCode,
    text: str,
) -> None:
    async with refused(status, text):
        await shared.start(make_spec(model, "refused", **changes))
    assert "refused" not in await shared.list_runs()
    assert not (shared_agent.data_dir / "runs" / "refused").exists()


async def test_a_model_that_was_not_uploaded_is_refused_by_name(client: Client, model: bytes) -> None:
    async with refused(grpc.StatusCode.FAILED_PRECONDITION, "tiny.onnx"):
        await client.start(make_spec(model))


STOP, INPUTS, POISSON = (
    configuration_pb2.StopRule,
    configuration_pb2.InputSet,
    configuration_pb2.ARRIVAL_PROCESS_POISSON,
)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"stop": STOP(min_duration_ns=2, max_duration_ns=1)}, "longest duration"),
        ({"stop": STOP(warmup_ns=2, max_warmup_ns=1)}, "longest warm-up"),
        ({"stop": STOP(target_relative_half_width=float("nan"))}, "target"),
        ({"input_set": INPUTS(count=2, items=[configuration_pb2.InputItem()])}, "1 items, but says 2"),
        ({"input_set": INPUTS(count=1, items=[configuration_pb2.InputItem()])}, "no file"),
        ({"input_set": given_inputs("../etc")}, "not a sha256"),
        ({"load": configuration_pb2.LOAD_OPEN_LOOP}, "needs arrivals"),
        ({"arrivals": configuration_pb2.Arrivals(process=POISSON, rate_per_s=1)}, "only the load open-loop"),
    ],
)
async def test_a_configuration_that_makes_no_sense_is_refused_with_the_reason(
    shared: Client, model: bytes, changes: dict[str, Any], text: str
) -> None:
    spec = make_spec(model, "makes-no-sense")
    for field, value in changes.items():
        spec.configuration.ClearField(field)
        spec.configuration.MergeFrom(configuration_pb2.Configuration(**{field: value}))
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, text):
        await shared.start(spec)


async def test_a_longest_duration_of_zero_is_no_bound(shared: Client, model: bytes) -> None:
    spec = make_spec(model, "no-bound")
    spec.configuration.stop.max_duration_ns = 0
    assert (await shared.run(spec)).result.outcome == run_pb2.OUTCOME_OK


async def test_inputs_that_were_not_uploaded_are_refused_by_name(shared: Client, model: bytes) -> None:
    spec = make_spec(model, "inputs-not-uploaded")
    spec.configuration.input_set.CopyFrom(given_inputs("1" * 64))
    async with refused(grpc.StatusCode.FAILED_PRECONDITION, "'x'"):
        await shared.start(spec)


async def test_given_inputs_are_measured_with_and_kept_while_in_use(
    ready: Client, agent: AgentProcess, model: bytes
) -> None:
    content = io.BytesIO()
    np.save(content, np.ones((1, 4), np.float32))
    await ready.upload(content.getvalue())
    sha256 = digest(content.getvalue())
    spec = make_spec(model, duration_ms=ENDLESS_MS)
    spec.configuration.input_set.CopyFrom(given_inputs(sha256))
    await ready.start(spec)
    await ready.wait_for_phase("run-1", "steady_state")
    assert [path.name for path in (agent.data_dir / "runs" / "run-1" / "inputs").iterdir()] == [sha256]
    async with refused(grpc.StatusCode.FAILED_PRECONDITION, "in use"):
        await ready.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=sha256))
    await ready.cancel("run-1")
    await ready.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=sha256))


@pytest.mark.parametrize(
    "name", ["../x.onnx", "/etc/passwd", "a/../../x", "a\0b", "", ".", "x" * 10_000, "a\\b", "./a"]
)
async def test_file_names_that_could_leave_the_run_folder_are_refused(shared: Client, model: bytes, name: str) -> None:
    file = model_pb2.ModelFile(name=name, sha256=digest(model), size_bytes=len(model))
    version = model_pb2.ModelVersion(digest=digest(model), format="onnx", files=[file])
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await shared.start(make_spec(model, "file-names-that", model=version))


async def test_executable_formats_need_the_owners_consent(shared: Client, model: bytes) -> None:
    file = model_pb2.ModelFile(name="m.pt2", sha256=digest(model), size_bytes=len(model))
    version = model_pb2.ModelVersion(digest=digest(model), format="torch_export", files=[file])
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, "allow_executable_formats"):
        await shared.start(make_spec(model, "executable-formats", model=version))


async def test_several_files_lie_beside_each_other_as_copies(ready: Client, agent: AgentProcess, model: bytes) -> None:
    weights = b"weights" * 1000
    await ready.upload(weights)
    files = [
        model_pb2.ModelFile(name="net/tiny.onnx", sha256=digest(model), size_bytes=len(model)),
        model_pb2.ModelFile(name="net/data/w.bin", sha256=digest(weights), size_bytes=len(weights)),
    ]
    lines = sorted(f"{file.sha256}  {file.name}\n" for file in files)
    version = model_pb2.ModelVersion(digest=digest("".join(lines).encode()), format="onnx", files=files)
    await ready.start(make_spec(model, model=version, duration_ms=ENDLESS_MS))
    await ready.wait_for_phase("run-1", "steady_state")
    copy = agent.data_dir / "runs" / "run-1" / "model" / "net" / "data" / "w.bin"
    assert copy.read_bytes() == weights
    assert copy.stat().st_nlink == 1
    async with refused(grpc.StatusCode.FAILED_PRECONDITION, "in use"):
        await ready.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=digest(weights)))
    await ready.cancel("run-1")
    assert not copy.exists()
    await ready.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=digest(weights)))
