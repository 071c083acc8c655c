"""Arms with invented process pairs: one block of them each as many as wanted."""

import random
from dataclasses import replace
from types import MappingProxyType

import numpy as np

import invented
from enginebench_controller.plan.plan import BASE, CONTROL, HEAD, ROLES
from enginebench_controller.records import Block, BlockSamples, Evidence, Phase, Process
from enginebench_controller.store.store import BenchmarkBundle
from enginebench_controller.verdicts.gate.results import Arm

SECOND_NS = 1_000_000_000


def arm(medians_ns, *, pair_s=2, size_bytes=1000, energy_uj=None, compile_ns=10**8, peak_bytes=10**8, disturbed=()):
    """One process for each median, which all of its four blocks have."""
    processes = tuple(
        Process(
            index,
            started_at_unix_ns=10**18 + index * pair_s * SECOND_NS,
            phases=(
                Phase("compile", round(compile_ns), round(peak_bytes)),
                Phase("first_inference", round(median_ns * 2), 1),
            ),
        )
        for index, median_ns in enumerate(medians_ns)
    )
    blocks = tuple(
        Block(index, block, 0, 10 * round(median_ns), 10, Evidence(energy_uj=energy_uj), disturbances=(invented.STEAL,))
        if (index, block) in disturbed
        else Block(index, block, 0, 10 * round(median_ns), 10, Evidence(energy_uj=energy_uj))
        for index, median_ns in enumerate(medians_ns)
        for block in range(4)
    )
    medians = {(one.process, one.index): float(medians_ns[one.process]) for one in blocks}
    return Arm(processes, blocks, medians, 1, size_bytes)


def arms(ratio, *, pairs=20, scatter=0.01, base_ns=2e6, seed=1, head=None, **changes):
    """Base, head that takes `ratio` as long, and the control, each process a little luckier or less than another."""
    luck = random.Random(seed)

    def drawn(middle_ns):
        return [middle_ns * (1 + luck.gauss(0, scatter)) for _ in range(pairs)]

    return {
        BASE: arm(drawn(base_ns), **changes),
        HEAD: arm(drawn(base_ns * ratio), **(changes | (head or {}))),
        CONTROL: arm(drawn(base_ns), **changes),
    }


def keep_gate(
    store, identity, model_digest, *, ratio=1.0, scatter=0.01, imported=False, measured=MappingProxyType({}), **plan
):
    """Put a gate of `fake` into a store, with twenty process pairs, as if it had run here or elsewhere.

    `measured` are fields of its measurements, which are on `local` otherwise.
    """
    members = {role: f"{identity}-{role}" for role in ROLES}
    planned = {"schema_version": 1, "gate": {"budget": "40s", **plan}, "members": members}
    benchmark = replace(invented.benchmark(identity, imported=imported), plan=planned)
    made = arms(ratio, scatter=scatter)
    kept = [
        replace(
            invented.measured(members[role], identity, model_digest=model_digest, captured_outputs=(), **measured),
            processes=arm.processes,
            blocks=arm.blocks,
        )
        for role, arm in made.items()
    ]
    samples = {
        members[role]: tuple(BlockSamples(*block, np.full(10, round(ns))) for block, ns in arm.medians.items())
        for role, arm in made.items()
    }
    store.add_bundles(
        [BenchmarkBundle(benchmark, tuple(kept), (invented.snapshot(measured.get("target", "local")),), samples)]
    )
