"""What a command is about to do is on the disk before it begins, and nobody else's while it lives."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from enginebench_controller.errors import AgentError, InputError
from enginebench_controller.home import Home
from enginebench_controller.plan.expand import Case, Interleave
from enginebench_controller.records import (
    Arrivals,
    Configuration,
    Derivation,
    DerivationKind,
    EngineRef,
    Hint,
    HostFacts,
    InputFile,
    InputSet,
    InputTensor,
    Load,
    ModelFile,
    ModelVersion,
    PassOrder,
    StopRule,
    Target,
)
from enginebench_controller.runs import resuming
from enginebench_controller.runs.groups import groups_of
from enginebench_controller.runs.outcome import run_spec
from enginebench_controller.runs.remote_run import Unreported
from enginebench_controller.runs.resuming import ResumeOrder, look, resume
from enginebench_controller.runs.undertaking import (
    Pending,
    Undertaking,
    claimed,
    missing_outcomes,
    plans,
    sweep_inputs,
    written,
)
from enginebench_proto.v1 import run_pb2

CONFIGURATION = Configuration(
    "CPU",
    batch=2,
    cores=1,
    hint=Hint.LATENCY,
    load=Load.OPEN_LOOP,
    arrivals=Arrivals(33.3),
    inputs=(InputTensor("x", "float32", (2, 8)),),
    input_set=InputSet(items=((InputFile("x", "c" * 64, 10),),)),
    options={"latency_us": "10"},
    stop=StopRule(target_relative_half_width=0.1),
)
BATCH_2 = Derivation(DerivationKind.REBATCHED, batch=2)
MODEL = ModelVersion("a" * 64, "net", "onnx", (ModelFile("net.onnx", "a" * 64, 10),), 1, "b" * 64, BATCH_2)
JOB = Case("edge", EngineRef("fake", "default", "1.0"), MODEL, CONFIGURATION, ("fake:0",), {"c" * 64: Path("/x.npy")})
PASSES = PassOrder("p1", None, 5, {"models": ["net"]}, {"edge": HostFacts(physical_cores=4)})
PENDING = Pending(
    "b1", "net", 10**9, (replace(JOB, outcome_id="m1"), replace(JOB, outcome_id="m2")), Interleave(7), PASSES
)


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    with written(tmp_path, PENDING):
        (path,) = plans(tmp_path)
        content = path.read_bytes()
    with claimed(path) as claim:
        assert claim is not None and claim.pending == PENDING
        before, after = PENDING.cases[0], claim.pending.cases[0]
    assert content == path.read_bytes()
    kind = run_pb2.RUN_KIND_MEASURE
    assert run_spec(before, "r", kind, 1) == run_spec(after, "r", kind, 1), "an agent takes them for the same run"


def test_given_inputs_go_a_week_after_a_plan_has_named_them_last(tmp_path: Path) -> None:
    named, forgotten, prepared, draft = (
        tmp_path / "inputs" / one for one in ("c" * 64, "d" * 64, "e" * 64, ".incoming-1")
    )
    named.parent.mkdir()
    for file in (named, forgotten, prepared, draft):
        file.touch()
    for file in (named, forgotten, draft):
        os.utime(file, (0, time.time() - 8 * 86_400))

    with written(tmp_path, PENDING):
        sweep_inputs(named.parent, tmp_path)
        assert set(named.parent.iterdir()) == {named, prepared}
    for path in plans(tmp_path):
        path.unlink()
    with written(tmp_path, replace(PENDING, cases=(replace(JOB, configuration=Configuration("CPU", 1, 1)),))):
        sweep_inputs(named.parent, tmp_path)
        assert set(named.parent.iterdir()) == {named, prepared}, "it was named a moment ago"


def test_a_plan_of_before_has_derivations_in_sentences(tmp_path: Path) -> None:
    with written(tmp_path, PENDING):
        (path,) = plans(tmp_path)
    plan = json.loads(path.read_text())
    for case in plan["jobs"]:
        case["job"]["model"]["derivation"] = "batch=2"
    path.write_text(json.dumps(plan))
    with claimed(path) as claim:
        assert claim is not None and claim.pending == PENDING


def test_a_plan_of_before_there_were_groups_takes_turns_as_it_said(tmp_path: Path) -> None:
    with written(tmp_path, PENDING):
        (path,) = plans(tmp_path)
    content = path.read_bytes().replace(b',"of_device":true', b"").replace(b',"turns":""', b"")
    path.write_bytes(content)
    assert b"of_device" not in content and b"turns" not in content
    with claimed(path) as claim:
        assert claim is not None and claim.pending == PENDING
        groups = groups_of(claim.pending.undertakings(), "b1", claim.pending.interleave)
        assert [len(group.members) for group in groups] == [2]


def test_a_plan_is_its_commands_alone_while_that_lives(tmp_path: Path) -> None:
    with written(tmp_path, PENDING):
        (path,) = plans(tmp_path)
        with claimed(path) as claim:
            assert claim is None
    with claimed(path) as first, claimed(path) as second:
        assert first is not None and second is None
        first.drop()
    with claimed(path) as gone:
        assert gone is None
    assert plans(tmp_path) == ()


def test_a_plan_is_not_taken_for_another_that_was_there_when_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with written(tmp_path, PENDING):
        (path,) = plans(tmp_path)
    lock, rest = fcntl.flock, replace(PENDING, cases=PENDING.cases[:1])

    def late(stream: Any, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        path.unlink()
        with written(tmp_path, rest):
            pass
        lock(stream, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with claimed(path) as claim:
        assert claim is None
    with claimed(path) as claim:
        assert claim is not None and claim.pending == rest


def test_a_plan_is_claimed_where_only_what_was_opened_for_writing_can_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def of_nfs(stream: Any, operation: int) -> None:
        if fcntl.fcntl(stream, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        lock(stream, operation)

    monkeypatch.setattr(fcntl, "flock", of_nfs)
    with written(tmp_path, PENDING):
        (path,) = plans(tmp_path)
        with claimed(path) as claim:
            assert claim is None
    with claimed(path) as claim:
        assert claim is not None


@pytest.mark.parametrize("looker", ["look", "missing_outcomes"])
async def test_whoever_merely_looks_keeps_a_plan_from_nobody(
    tmp_path: Path, looker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with written(tmp_path, PENDING):
        (path,) = plans(tmp_path)
    home, free = Home(tmp_path), []

    def asked_slowly(_: Sequence[str]) -> tuple[str, ...]:
        with claimed(path) as claim:
            free.append(claim is not None)
        return ()

    monkeypatch.setattr(home.store, "stored_ids", asked_slowly)
    if looker == "look":
        (found,) = await look(home, ResumeOrder())
        assert found.missing == 2
    else:
        assert missing_outcomes(tmp_path, home.store.stored_ids) == 2
    assert free == [True]


@pytest.mark.slow
def test_a_killed_command_leaves_its_plan_to_others(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[2]]
from controller.runs.test_pending import PENDING
from enginebench_controller.runs.undertaking import written
with written(Path(sys.argv[1]), PENDING):
    print("written", flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", program, str(tmp_path), str(Path(__file__).parents[2])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ)) as killed:
        assert killed.stdout is not None and killed.stdout.readline() == b"written\n"
        killed.kill()
    (path,) = plans(tmp_path)
    with claimed(path) as claim:
        assert claim is not None and claim.pending.outcome_ids == ("m1", "m2")


def test_a_plan_of_another_version_is_told_and_kept(tmp_path: Path) -> None:
    with written(tmp_path, PENDING):
        (path,) = plans(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"form":1', b'"form":9'))
    with pytest.raises(InputError, match=r"no plan that this version .* remove the file"), claimed(path):
        pass
    assert path.exists()


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home whose target answers, and lets nobody ask for runs."""

    @asynccontextmanager
    async def refuse(*_: Any, **__: Any) -> AsyncIterator[None]:
        raise AgentError("you may look, and not ask for runs")
        yield

    monkeypatch.setattr(resuming, "open_client", refuse)
    home = Home(tmp_path)
    home.store.add_target(Target("edge", "edge:50051", 1))
    return home


async def test_a_plan_of_another_version_is_told_beside_the_others_by_who_looks_and_by_who_resumes(
    tmp_path: Path, refused: Home
) -> None:
    for pending in (PENDING, replace(PENDING, cases=(replace(JOB, outcome_id="m3"),))):
        with written(tmp_path, pending):
            pass
    strange = tmp_path / "pending" / "m1.json"
    strange.write_bytes(strange.read_bytes().replace(b'"form":1', b'"form":9'))

    order = ResumeOrder()
    for found in (await look(refused, order), await resume(refused, order, lambda *_: Unreported())):
        reasons = {one.id: one.reasons[0] for one in found}
        assert set(reasons) == {"m1", "b1"} and "no plan that this version" in reasons["m1"]


async def test_a_target_that_refuses_to_tell_is_a_reason_and_not_the_end(tmp_path: Path, refused: Home) -> None:
    with written(tmp_path, PENDING):
        pass
    (found,) = await look(refused, ResumeOrder())
    assert found.reasons == ("you may look, and not ask for runs",)


def test_a_plan_that_cannot_be_written_stops_the_command(tmp_path: Path) -> None:
    (tmp_path / "pending").write_text("")
    with pytest.raises(InputError, match="the plan cannot be written"), written(tmp_path, PENDING):
        pass


def test_each_attempt_is_a_run_of_its_own_and_known_again() -> None:
    (one, other) = PENDING.undertakings()
    assert [one.begin(0), one.begin(0), one.begin(1)] == ["m1-0-0", "m1-0-1", "m1-1-0"]
    again = Undertaking(PENDING.cases[0])
    again.recognize(["m1-0-1", "m1-1-0", "m2-0-0", "m1", "m1-0-1.blocks", "xm1-2-0"])
    assert (again.run_ids, again.run_id(0)) == (one.run_ids, "m1-0-1")
    assert other.run_ids == []
