"""Members of an answer, whose processes scatter as a test says. Nothing here was measured."""

from dataclasses import replace

import numpy as np

import invented
from enginebench_controller.records import Configuration
from enginebench_controller.records.run import BlockLatency
from enginebench_controller.verdicts.answers import answers_within

PROCESSES, BLOCKS = 6, 8
ASKED = Configuration("CPU", 1, cores=2)


def member(name, ms, *, spread=0.002, group="b1-0", processes=PROCESSES, seed=0, **fields):
    """A measurement on an engine of this name, of processes whose medians scatter around `ms`, and its blocks.

    All members share what the machine did meanwhile, which moves each process by far more than they differ.
    """
    shared = np.random.default_rng(7).lognormal(0, 0.1, (100, BLOCKS))
    own = np.random.default_rng([seed, *name.encode()]).lognormal(0, spread, 100)
    medians_ns = ms * 1e6 * own[:processes, None] * shared[:processes]
    base = invented.measured(name, engine=name, latency_ms=ms, interleaving_group=group)
    whole = tuple(
        replace(
            base.processes[0], index=index, median_ns=float(np.median(row)), throughput_items_per_s=1e9 / row.mean()
        )
        for index, row in enumerate(medians_ns)
    )
    template = base.blocks[0]
    blocks = tuple(
        replace(template, process=process, index=place, iterations=10, duration_ns=int(10 * median))
        for process, row in enumerate(medians_ns)
        for place, median in enumerate(row)
    )
    told = tuple(
        BlockLatency(process, place, 10, int(10 * median), float(median))
        for process, row in enumerate(medians_ns)
        for place, median in enumerate(row)
    )
    return replace(base, processes=whole, blocks=blocks, **fields), told


def answered(*members, models=(), plan=None):
    """The answers of these members alone."""
    measurements = [measurement for measurement, _ in members]
    return answers_within(measurements, {one.id: blocks for one, blocks in members}, models, plan)
