"""The spool after an agent that was killed: what is whole is served, what is not is removed or set aside."""

import re
from pathlib import Path

import pytest

from enginebench_agent.errors import NotReadyError
from enginebench_agent.runs.spool import Spool
from enginebench_proto.v1 import measurement_pb2, run_pb2

BLOCK = run_pb2.ResultPart(block=measurement_pb2.Block(index=0, iterations=1))
SAMPLES = run_pb2.ResultPart(samples=measurement_pb2.Samples(latency_ns=[5]))
MEASURED = run_pb2.RunResult(
    run_id="r", outcome=run_pb2.OUTCOME_OK, measurement=measurement_pb2.Measurement(blocks=1, iterations=1)
)
FAILED = run_pb2.RunResult(run_id="r", outcome=run_pb2.OUTCOME_FAILED)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path)


def _write(spool: Spool, result: run_pb2.RunResult = MEASURED) -> None:
    with spool.begin(result.run_id) as writer:
        writer.add(BLOCK)
        writer.add(SAMPLES)
        writer.commit(result)


def test_results_are_only_visible_once_they_are_whole(spool: Spool, tmp_path: Path) -> None:
    with spool.begin("r") as writer:
        writer.add(BLOCK)
        assert not (tmp_path / "r").exists()
    assert list(tmp_path.iterdir()) == []
    _write(spool)
    assert list(spool.recover()) == [MEASURED]


async def test_a_recovered_result_has_its_blocks(spool: Spool, tmp_path: Path) -> None:
    _write(spool)
    later = Spool(tmp_path)
    assert list(later.recover()) == [MEASURED]
    assert [part async for part in later.read("r")] == [run_pb2.ResultPart(result=MEASURED), BLOCK, SAMPLES]


def test_blocks_without_a_result_and_unfinished_results_are_removed(spool: Spool, tmp_path: Path) -> None:
    _write(spool)
    for name in ("lost.blocks", "half.unfinished", "r2.blocks"):
        (tmp_path / name).write_bytes(b"x")
    assert list(spool.recover()) == [MEASURED]
    assert {path.name for path in tmp_path.iterdir()} == {"r", "r.blocks"}


@pytest.mark.fault(21)
@pytest.mark.parametrize("left", [b"\xff" * 20, b"", b"EBS2"], ids=["garbage", "nothing", "only how it begins"])
def test_a_damaged_result_is_set_aside_with_its_blocks_and_told_as_damaged(
    spool: Spool, tmp_path: Path, left: bytes
) -> None:
    _write(spool)
    (tmp_path / "r").write_bytes(left)
    (tmp_path / "no run's name!").write_bytes(b"\xff" * 20)
    for _ in range(2):
        (result,) = spool.recover()
        assert (result.run_id, result.spec.run_id, result.outcome) == ("r", "r", run_pb2.OUTCOME_FAILED)
        assert f"damaged on its disk; it lies in {tmp_path / 'damaged'}" in result.failure.message
    assert {path.name for path in tmp_path.iterdir()} == {"r", "damaged"}
    assert {path.name for path in (tmp_path / "damaged").iterdir()} == {"r", "r.blocks", "no run's name!"}


@pytest.mark.fault(21)
def test_a_result_on_a_bad_sector_is_set_aside_and_told_as_damaged(spool: Spool, tmp_path: Path) -> None:
    _write(spool)
    (tmp_path / "r").unlink()
    (tmp_path / "r").symlink_to("/proc/self/mem")  # whose first bytes cannot be read: EIO, as of a bad sector
    for _ in range(2):
        (result,) = spool.recover()
        assert (result.run_id, result.outcome) == ("r", run_pb2.OUTCOME_FAILED)
        assert "damaged" in result.failure.message and "Input/output error" in result.failure.detail
    assert {path.name for path in (tmp_path / "damaged").iterdir()} == {"r", "r.blocks"}


async def test_a_result_that_only_others_may_read_stays_where_it_is_and_keeps_none_back(
    spool: Spool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _write(spool)
    for name in ("q", "no run's name!"):
        (tmp_path / name).symlink_to("/proc/sys/vm/compact_memory")  # which not even root can read: EACCES
    assert [one.run_id for one in spool.recover()] == ["q", "r"], "the run is known: it has a result"
    sentence = f"Permission denied: '{tmp_path / 'q'}'): let the agent's account read it"
    assert sentence in caplog.text
    with pytest.raises(NotReadyError, match=re.escape(sentence)):
        await anext(spool.read("q"))
    spool.remove("q")  # by whoever could not have it
    assert {path.name for path in tmp_path.iterdir()} == {"no run's name!", "q", "r", "r.blocks"}


def _flip(content: bytes, bit: int) -> bytes:
    return content[: bit // 8] + bytes([content[bit // 8] ^ 1 << bit % 8]) + content[bit // 8 + 1 :]


@pytest.mark.slow
@pytest.mark.fault(21)
async def test_any_bit_that_turned_and_any_end_that_is_missing_is_found_and_other_runs_are_served(
    spool: Spool, tmp_path: Path
) -> None:
    other = run_pb2.RunResult(run_id="other", outcome=run_pb2.OUTCOME_OK)
    _write(spool)
    whole = (tmp_path / "r.blocks").read_bytes()
    # The first four bytes say that there are checksums; without them the rest is no length of an earlier version.
    broken = [_flip(whole, bit) for bit in range(8 * len(whole))] + [whole[:size] for size in range(len(whole))]
    for content in broken:
        _write(spool)
        _write(spool, other)
        (tmp_path / "r.blocks").write_bytes(content)
        for _ in range(2):
            (part,) = [part async for part in spool.read("r")]
            assert part.result.failure.kind == run_pb2.FAILURE_KIND_INTERNAL, content
            assert not part.result.HasField("measurement")
        assert [part.result.outcome async for part in spool.read("other")] == [run_pb2.OUTCOME_OK]
        assert (tmp_path / "damaged" / "r.blocks").read_bytes() == content
    assert {result.outcome for result in spool.recover()} == {run_pb2.OUTCOME_OK, run_pb2.OUTCOME_FAILED}


@pytest.mark.fault(21)
async def test_blocks_that_are_gone_are_told_as_damage_too(spool: Spool, tmp_path: Path) -> None:
    _write(spool)
    (tmp_path / "r.blocks").unlink()
    (part,) = [part async for part in spool.read("r")]
    assert "damaged" in part.result.failure.message and "No such file" in part.result.failure.detail


async def test_a_failure_that_replaces_a_measurement_takes_its_blocks_away(spool: Spool, tmp_path: Path) -> None:
    _write(spool)
    with spool.begin("r") as writer:
        writer.commit(FAILED)
    assert [part.result async for part in spool.read("r")] == [FAILED]
    assert {path.name for path in tmp_path.iterdir()} == {"r"}


def test_a_result_that_cannot_be_written_leaves_nothing(spool: Spool, tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()  # renaming a file to it fails
    with pytest.raises(OSError, match="directory"):
        _write(spool)
    assert {path.name for path in tmp_path.iterdir()} == {"r"}
