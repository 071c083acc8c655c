"""Peaks of memory from a proc file system of the test's own."""

import asyncio
import os
from pathlib import Path

import pytest

from enginebench_agent.runs.limits import SAMPLE_SECONDS, TIMED_PHASE, ResidentSet
from enginebench_proto.v1.measurement_pb2 import Phase

PAGE = os.sysconf("SC_PAGE_SIZE")


def _hold(proc: Path, pages: int) -> None:
    (proc / "7").mkdir(exist_ok=True)
    (proc / "7" / "statm").write_text(f"9999 {pages} 3 1 0 5 0\n")


def test_each_phase_has_the_highest_reading_in_it_and_at_its_borders(tmp_path: Path) -> None:
    resident = ResidentSet(7, asyncio.sleep, tmp_path)
    for phase, readings in (("read", [10, 40]), ("compile", [90, 20]), ("teardown", [15])):
        resident.enter(phase)
        for pages in readings:
            _hold(tmp_path, pages)
            resident.sample()
    phases = [Phase(name=name) for name in ("read", "compile", "teardown", "warm_up")]
    resident.fill(phases)
    assert [phase.peak_rss_bytes for phase in phases[:3]] == [40 * PAGE, 90 * PAGE, 20 * PAGE]
    assert not phases[3].HasField("peak_rss_bytes")


def test_what_the_child_knows_itself_stands(tmp_path: Path) -> None:
    _hold(tmp_path, 10)
    resident = ResidentSet(7, asyncio.sleep, tmp_path)
    resident.enter("read")
    phase = Phase(name="read", peak_rss_bytes=3)
    resident.fill([phase])
    assert phase.peak_rss_bytes == 3


def test_a_process_that_is_gone_has_no_reading(tmp_path: Path) -> None:
    resident = ResidentSet(7, asyncio.sleep, tmp_path)
    resident.enter("read")
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "statm").write_text("")
    resident.sample()
    phase = Phase(name="read")
    resident.fill([phase])
    assert not phase.HasField("peak_rss_bytes")


@pytest.mark.parametrize(("swaps", "is_fine"), [("/dev/zram0 partition 900000 600000 100\n", False), ("", True)])
def test_what_is_swapped_out_is_held_too(tmp_path: Path, swaps: str, is_fine: bool) -> None:
    (tmp_path / "swaps").write_text(f"Filename Type Size Used Priority\n{swaps}")
    _hold(tmp_path, 40)
    status = f"RssAnon: {40 * PAGE // 1024} kB\nRssShmem: 0 kB\nVmSwap: {20 * PAGE // 1024} kB\n"
    (tmp_path / "7" / "status").write_text(status)
    assert ResidentSet(7, asyncio.sleep, tmp_path, max_bytes=60 * PAGE).sample()
    assert ResidentSet(7, asyncio.sleep, tmp_path, max_bytes=50 * PAGE).sample() is is_fine


@pytest.mark.slow
async def test_a_timed_process_is_looked_at_rarely_and_one_that_exceeds_is_seen_all_the_same(tmp_path: Path) -> None:
    _hold(tmp_path, 10)
    readings: dict[str, int] = {}
    for phase in ("compile", TIMED_PHASE):
        resident = _Counted(7, asyncio.sleep, tmp_path, max_bytes=50 * PAGE)
        resident.enter(phase)
        sampling = asyncio.create_task(resident.sample_until_exceeded())
        await asyncio.sleep(2.5 * SAMPLE_SECONDS)
        readings[phase] = resident.readings
        _hold(tmp_path, 60)
        (tmp_path / "7" / "status").write_text(f"RssAnon: {60 * PAGE // 1024} kB\nRssShmem: 0 kB\n")
        await asyncio.wait_for(sampling, 10)
        _hold(tmp_path, 10)
    assert readings[TIMED_PHASE] < readings["compile"]


class _Counted(ResidentSet):
    readings = 0

    def sample(self) -> bool:
        self.readings += 1
        return super().sample()
