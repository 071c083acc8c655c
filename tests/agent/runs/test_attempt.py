"""What becomes of blocks and results of children that are sound, crash, lie, hang, or measure too much."""

import errno
import hashlib
import time
from pathlib import Path

import pytest
from agent_process import eventually, is_alive
from scripted_runs import Bench, finished

from enginebench_agent.runs import attempt, child, spool
from enginebench_agent.runs.limits import ResidentSet
from enginebench_proto.v1 import configuration_pb2, run_pb2

TWO_BLOCKS = "block(0)\nblock(1, 5)\n"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_blocks_are_on_disk_while_measured_and_come_after_the_result(bench: Bench, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"{TWO_BLOCKS}\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\nresult(2, 15)"
    run = bench.start(script)
    blocks = bench.spool_folder / "run-1.blocks"
    await eventually(lambda: blocks.exists() and blocks.stat().st_size > 60)
    assert bench.spooled_files() == {"run-1.blocks"}
    gate.touch()
    await finished(run)
    parts = await bench.parts()
    assert [part.WhichOneof("part") for part in parts] == ["result", "block", "samples", "block", "samples"]
    assert parts[0].result.run_id == "run-1"
    assert [part.block.index for part in parts[1::2]] == [0, 1]
    assert [len(part.samples.latency_ns) for part in parts[2::2]] == [10, 5]
    assert bench.spooled_files() == {"run-1", "run-1.blocks"}
    bench.spool.remove("run-1")
    assert bench.spooled_files() == set()


async def test_a_crash_in_the_middle_leaves_a_failure_without_blocks(bench: Bench) -> None:
    result = await bench.run(f"phase('steady_state')\n{TWO_BLOCKS}\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert (result.failure.kind, result.failure.signal) == (run_pb2.FAILURE_KIND_CRASHED, "SIGSEGV")
    assert result.failure.phase == "steady_state"
    assert bench.spooled_files() == {"run-1"}


async def test_a_failure_with_a_measurement_keeps_its_blocks(bench: Bench) -> None:
    await bench.run(f"{TWO_BLOCKS}\nresult(2, 15, run_pb2.OUTCOME_FAILED)")
    assert len(await bench.parts()) == 5


@pytest.mark.parametrize("told", ["result(2, 14)", "result(3, 15)", "result(2, 15); block(2)"])
async def test_a_result_that_does_not_fit_its_blocks_is_a_defect(bench: Bench, told: str) -> None:
    result = await bench.run(f"{TWO_BLOCKS}\n{told}")
    assert (result.outcome, result.failure.kind) == (run_pb2.OUTCOME_FAILED, run_pb2.FAILURE_KIND_INTERNAL)
    assert bench.spooled_files() == {"run-1"}


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGABRT)", "sys.exit(3)", "time.sleep(60)"])
async def test_an_end_with_a_bang_after_the_result_takes_nothing_from_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(attempt, "EXIT_GRACE_SECONDS", 0.3)
    result = await bench.run(f"{TWO_BLOCKS}\nresult(2, 15)\n{end}")
    assert result.outcome == run_pb2.OUTCOME_OK
    assert len(await bench.parts()) == 5


@pytest.mark.slow
async def test_what_a_child_has_said_is_heard_however_slow_the_disk_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk takes longer over the first block than the pipe of a child that is gone stays open."""
    add = spool.SpoolWriter.add
    seconds = iter([2.0])

    def add_slowly(writer: spool.SpoolWriter, part: run_pb2.ResultPart) -> None:
        time.sleep(next(seconds, 0))
        add(writer, part)

    monkeypatch.setattr(spool.SpoolWriter, "add", add_slowly)
    monkeypatch.setattr(child, "DRAIN_SECONDS", 0.1)
    # Some 180 KB: more than asyncio takes in while nobody listens, and less than that and what a pipe holds.
    result = await bench.run("for index in range(64): block(index, 1_000)\nresult(64, 64_000)")
    assert result.outcome == run_pb2.OUTCOME_OK, result.failure
    assert len(await bench.parts()) == 1 + 2 * 64


@pytest.mark.slow
async def test_a_child_that_hangs_between_blocks_is_stopped_at_its_limit(bench: Bench) -> None:
    result = await bench.run(f"{TWO_BLOCKS}\ntime.sleep(60)", limit_seconds=1.5)
    assert result.failure.kind == run_pb2.FAILURE_KIND_TIMED_OUT
    assert bench.spooled_files() == {"run-1"}


async def test_more_samples_than_an_agent_keeps_are_refused_in_a_sentence(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_result_bytes=10_000)
    result = await bench.run("for index in range(10_000): block(index, 1_000)\nresult(10_000, 10_000_000)")
    assert result.failure.kind == run_pb2.FAILURE_KIND_REFUSED
    assert "raw samples" in result.failure.message
    assert bench.spooled_files() == {"run-1"}


async def test_a_disk_that_fills_up_ends_the_run_in_a_sentence(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MIN_FREE_BYTES", 2**62)
    result = await bench.run(f"{TWO_BLOCKS}\nresult(2, 15)")
    assert (result.outcome, result.failure.kind) == (run_pb2.OUTCOME_FAILED, run_pb2.FAILURE_KIND_SHORTAGE)
    assert "disk is full" in result.failure.message
    assert bench.spooled_files() == {"run-1"}


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (OSError(errno.ENOSPC, "No space left"), run_pb2.FAILURE_KIND_SHORTAGE, "the agent's disk is full"),
        (OSError(errno.EMFILE, "Too many open files"), run_pb2.FAILURE_KIND_SHORTAGE, "may not have more files open"),
        (PermissionError(errno.EACCES, "Permission denied"), run_pb2.FAILURE_KIND_SHORTAGE, "folder (Permission"),
        (TypeError("a defect of ours"), run_pb2.FAILURE_KIND_INTERNAL, "its log on standard error tells why"),
    ],
)
async def test_a_failure_that_cannot_be_kept_either_is_told_with_what_that_is_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: run_pb2.FailureKind, told: str
) -> None:
    def fail(_: str) -> None:
        raise error

    monkeypatch.setattr(bench.spool, "begin", fail)
    run = bench.start("os._exit(3)")
    await finished(run)
    assert run.unspooled is not None
    failure = run.unspooled.failure
    assert (failure.kind, told in failure.message) == (kind, True), failure


async def test_peaks_of_memory_are_told_by_the_agent_where_the_child_cannot(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child goes on when the agent has looked, however long that takes on a busy machine."""
    hold = 64 * 1024 * 1024
    held, seen = tmp_path / "held", tmp_path / "seen"
    sample = ResidentSet.sample

    def sample_and_tell(resident: ResidentSet) -> bool:
        is_held, is_within = held.exists(), sample(resident)
        if is_held:
            seen.touch()
        return is_within

    monkeypatch.setattr(ResidentSet, "sample", sample_and_tell)
    run = bench.start(
        "from enginebench_proto.v1.measurement_pb2 import Phase\n"
        "def wait_for(name):\n"
        f"    while not os.path.exists(os.path.join({str(tmp_path)!r}, name)): time.sleep(0.01)\n"
        "phase('read'); phase('compile'); wait_for('compile')\n"
        f"held = b'x' * {hold}; open({str(held)!r}, 'w').close(); wait_for('seen'); del held\n"
        "phase('teardown'); wait_for('teardown')\n"
        "result(phases=[Phase(name='read', peak_rss_bytes=7), Phase(name='compile'), Phase(name='teardown')])\n"
    )
    await eventually(lambda: run.phase == "compile")
    (tmp_path / "compile").touch()
    await eventually(lambda: run.phase == "teardown")
    (tmp_path / "teardown").touch()
    await finished(run)
    result = (await bench.parts())[0].result
    read, compiled, teardown = result.measurement.phases
    assert read.peak_rss_bytes == 7
    assert compiled.peak_rss_bytes > hold
    assert 0 < teardown.peak_rss_bytes < compiled.peak_rss_bytes


async def test_given_inputs_lie_in_a_folder_of_their_own_and_are_handed_over(bench: Bench) -> None:
    contents = (b"first", b"second")
    digests = [hashlib.sha256(content).hexdigest() for content in contents]
    for sha256, content in zip(digests, contents, strict=True):
        (bench.files / sha256).write_bytes(content)
    files = [configuration_pb2.InputFile(input="x", sha256=sha256) for sha256 in (*digests, digests[0])]
    items = tuple(configuration_pb2.InputItem(files=[file]) for file in files)
    await bench.run(
        "print(sorted(open(os.path.join(argument('--inputs'), name)).read() for name in "
        "os.listdir(argument('--inputs'))), file=sys.stderr)\nsys.exit(1)",
        items=items,
    )
    (part,) = await bench.parts()
    assert part.result.failure.stderr_tail.strip() == "['first', 'second']"


async def test_without_given_inputs_the_child_is_told_of_none(bench: Bench) -> None:
    result = await bench.run("print('--inputs' in sys.argv, '--turns' in sys.argv, file=sys.stderr); sys.exit(1)")
    assert result.failure.stderr_tail.strip() == "False False"


async def test_a_cancelled_run_leaves_no_blocks(bench: Bench) -> None:
    run = bench.start(f"{TWO_BLOCKS}\ntime.sleep(60)")
    await eventually((bench.spool_folder / "run-1.blocks").exists)
    await run.cancel()
    assert bench.spooled_files() == {"run-1"}
    assert (await bench.parts())[0].result.outcome == run_pb2.OUTCOME_CANCELLED


async def test_a_reader_gets_the_rest_after_the_run_was_forgotten(bench: Bench) -> None:
    await bench.run(f"{TWO_BLOCKS}\nresult(2, 15)")
    reading = bench.spool.read("run-1")
    await anext(reading)
    bench.spool.remove("run-1")
    assert len([part async for part in reading]) == 4


@pytest.mark.parametrize("phase", ["read", "compile", "first_inference", "steady_state", "teardown"])
async def test_a_child_that_ends_as_if_all_were_well_has_a_sentence(bench: Bench, phase: str) -> None:
    failure = (await bench.run(f"phase({phase!r})\nblock(0)\nos._exit(0)")).failure
    assert failure.message == f"the engine ended its process with exit code 0 in phase {phase}, without a result"


@pytest.mark.slow
async def test_a_child_that_cannot_be_bound_is_not_left_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def refuse(pid: int, limits: object) -> None:
        started.append(pid)
        raise PermissionError("no prlimit here")

    monkeypatch.setattr(child, "impose", refuse)
    failure = (await bench.run("time.sleep(60)")).failure
    assert "no prlimit here" in failure.detail
    assert len(started) == 1 and not is_alive(started[0])


async def test_a_child_whose_memory_cannot_be_watched_did_not_run_out_of_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: ResidentSet) -> None:
        raise RuntimeError("no /proc here")

    monkeypatch.setattr(ResidentSet, "sample_until_exceeded", fail)
    failure = (await bench.run("time.sleep(60)")).failure
    assert failure.kind == run_pb2.FAILURE_KIND_INTERNAL
    assert "could not watch how much memory" in failure.message and "no /proc here" in failure.detail
