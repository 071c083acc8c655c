"""Raw samples on their way into the store: whole, in order, as often as wanted, and on disk."""

import os
from pathlib import Path

import numpy as np
import psutil
import pytest

from enginebench_controller.errors import AgentError
from enginebench_controller.records import Block, BlockSamples
from enginebench_controller.runs import sample_file
from enginebench_controller.runs.sample_file import SampleFile


@pytest.fixture(autouse=True, params=[0, 64, sample_file.MOST_IN_MEMORY_BYTES])
def most_in_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it on disk, most in the middle of it, and in memory as long as it is little."""
    monkeypatch.setattr(sample_file, "MOST_IN_MEMORY_BYTES", request.param)


def part(process: int, block: int, values: list[int], *, instants: bool = False) -> BlockSamples:
    series = [np.array(values, dtype=np.int64) + shift for shift in range(4 if instants else 1)]
    return BlockSamples(process, block, *series)


def block(process: int, index: int) -> Block:
    return Block(process, index, begin_ns=0, duration_ns=1, iterations=1)


def read(samples: SampleFile) -> list[tuple[int, int, list[int]]]:
    return [(one.process, one.block, one.latency_ns.tolist()) for one in samples]


def test_parts_of_a_block_are_joined_and_every_pass_reads_the_same(tmp_path: Path) -> None:
    with SampleFile(tmp_path) as samples:
        samples.add_block(block(0, 0))
        samples.add_samples(part(0, 0, [3, 1]))
        samples.add_samples(part(0, 0, [2**40]))
        samples.add_block(block(0, 1))
        assert read(samples) == read(samples) == [(0, 0, [3, 1, 2**40]), (0, 1, [])]
        assert samples.blocks == (block(0, 0), block(0, 1))


def test_two_passes_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    with SampleFile(tmp_path) as samples:
        for index in range(3):
            samples.add_block(block(0, index))
            samples.add_samples(part(0, index, [index]))
        pairs = [(a.latency_ns.tolist(), b.latency_ns.tolist()) for a, b in zip(samples, samples, strict=True)]
        assert pairs == [([0], [0]), ([1], [1]), ([2], [2])]


def test_an_open_loop_keeps_its_instants(tmp_path: Path) -> None:
    with SampleFile(tmp_path) as samples:
        samples.add_block(block(0, 0))
        samples.add_samples(part(0, 0, [10, 20], instants=True))
        samples.add_samples(part(0, 0, [30], instants=True))
        (one,) = samples
    assert one.scheduled_ns is not None and one.scheduled_ns.tolist() == [11, 21, 31]
    assert one.completed_ns is not None and one.completed_ns.tolist() == [13, 23, 33]


def test_a_result_that_comes_again_replaces_what_came_of_the_process_and_nothing_else(tmp_path: Path) -> None:
    with SampleFile(tmp_path) as samples:
        for process in (0, 1):
            samples.begin(process)
            samples.add_block(block(process, 0))
            samples.add_samples(part(process, 0, [process, 7]))
        samples.begin(1)
        samples.add_block(block(1, 0))
        samples.add_samples(part(1, 0, [9]))
        assert read(samples) == [(0, 0, [0, 7]), (1, 0, [9])]


def test_samples_of_no_block_are_refused(tmp_path: Path) -> None:
    with SampleFile(tmp_path) as samples, pytest.raises(AgentError, match="block 3"):
        samples.add_samples(part(0, 3, [1]))


def test_nothing_is_left_in_the_folder_even_while_it_is_used(tmp_path: Path) -> None:
    with SampleFile(tmp_path / "home") as samples:
        samples.add_block(block(0, 0))
        samples.add_samples(part(0, 0, [1]))
        assert list((tmp_path / "home").iterdir()) == []


def test_few_samples_are_no_file(tmp_path: Path) -> None:
    before = psutil.Process().num_fds()
    with SampleFile(tmp_path) as samples:
        samples.add_block(block(0, 0))
        samples.add_samples(part(0, 0, [1] * 4))
        few = psutil.Process().num_fds() - before
        samples.add_samples(part(0, 0, [2] * 5000))
        many = psutil.Process().num_fds() - before
        assert read(samples) == [(0, 0, [1] * 4 + [2] * 5000)]
    assert (few, many) == (int(sample_file.MOST_IN_MEMORY_BYTES < 4 * sample_file.ITEM_BYTES), 1)


def test_memory_stays_flat_over_ten_million_samples(tmp_path: Path) -> None:
    process = psutil.Process(os.getpid())
    values = np.arange(50_000, dtype=np.int64)
    with SampleFile(tmp_path) as samples:
        before_bytes = process.memory_info().rss
        for index in range(200):
            samples.add_block(block(0, index))
            samples.add_samples(BlockSamples(0, index, values))
        total = sum(one.latency_ns.size for one in samples)
        grown_bytes = process.memory_info().rss - before_bytes
    assert total == 10_000_000 and grown_bytes < 10_000_000
