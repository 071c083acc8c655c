"""The spool after an agent that was killed: what is whole is served, what is not is removed or set aside."""

from pathlib import Path

import pytest

from enginebench_agent.spool import Spool
from enginebench_proto.v1 import measurement_pb2, run_pb2

BLOCK = run_pb2.ResultPart(block=measurement_pb2.Block(index=0, iterations=1))
SAMPLES = run_pb2.ResultPart(samples=measurement_pb2.Samples(latency_ns=[5]))
MEASURED = run_pb2.RunResult(run_id="r", measurement=measurement_pb2.Measurement(blocks=1, iterations=1))
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


def test_a_damaged_result_is_set_aside_with_its_blocks(spool: Spool, tmp_path: Path) -> None:
    _write(spool)
    (tmp_path / "r").write_bytes(b"\xff" * 20)
    assert list(spool.recover()) == []
    assert list(spool.recover()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"r.damaged", "r.blocks.damaged"}


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
