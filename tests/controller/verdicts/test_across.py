"""Many targets: a row a kind of machine and configuration, and those that stand out are named."""

from dataclasses import replace

import numpy as np
import pytest

import invented
from enginebench_controller.records import Failure, FailureKind, Hint, Status
from enginebench_controller.verdicts.across import across_targets, kind_of, work_of

GENERATOR = np.random.default_rng(7)


def boards(count, *, latency_ms=4.0, spread=0.02, batches=(1, 2), name="board", **host):
    """What so many targets of one kind measured, each a little faster or slower than the others."""
    measurements, snapshots = [], []
    for number in range(count):
        target = f"{name}-{number:03}"
        speed = latency_ms * float(np.exp(GENERATOR.normal(0, spread)))
        measurements += [
            invented.measured(f"{target}-{batch}", target=target, latency_ms=batch * speed, batch=batch)
            for batch in batches
        ]
        snapshot = invented.snapshot(target)
        snapshots.append(replace(snapshot, host=replace(snapshot.host, **host)))
    return measurements, snapshots


def slowed(measurements, target, factor):
    """The same, but this target takes so much longer."""
    found = []
    for one in measurements:
        latency = one.latency
        is_it = one.target == target
        found.append(replace(one, latency=replace(latency, median_ns=latency.median_ns * factor)) if is_it else one)
    return found


def test_a_configuration_is_a_row_whatever_the_number_of_targets():
    measurements, snapshots = boards(200)
    found = across_targets(measurements, snapshots, ())

    assert found.targets == 200
    assert [(row.targets, row.failed) for row in found.rows] == [(200, ()), (200, ())]
    for row, batch in zip(found.rows, (1, 2), strict=True):
        assert f"batch {batch}" in row.configuration
        assert row.low_ns < row.median_ns < row.high_ns
        assert row.median_ns == pytest.approx(4e6 * batch, rel=0.05)
    assert found.odd == ()


def test_configurations_come_along_the_axes_of_the_grid_in_whatever_order_they_ran():
    measurements, snapshots = boards(3, batches=(10, 1, 2))
    rows = across_targets(measurements, snapshots, []).rows
    assert [one.configuration.split(", ")[1] for one in rows] == ["batch 1", "batch 2", "batch 10"]


@pytest.mark.parametrize("factor", [1.3, 0.7])
def test_a_target_that_is_unlike_its_kind_is_named_with_by_how_much(factor):
    measurements, snapshots = boards(40)
    (odd,) = across_targets(slowed(measurements, "board-007", factor), snapshots, ()).odd
    assert odd.target == "board-007"
    assert odd.ratio == pytest.approx(factor, rel=0.1)


def test_a_target_that_is_unlike_its_kind_in_one_configuration_is_named_with_that():
    measurements, snapshots = boards(40, batches=(1, 2, 4))
    (at,) = [place for place, one in enumerate(measurements) if one.id == "board-007-2"]
    measurements[at : at + 1] = slowed([measurements[at]], "board-007", 3.0)
    found = across_targets(measurements, snapshots, ())
    assert found.odd == ()
    (odd,) = found.odd_once
    assert odd.target == "board-007"
    assert odd.ratio == pytest.approx(3.0, rel=0.2)
    assert odd.work == work_of(measurements[at])
    assert "none is unlike" not in " ".join(found.sentences)
    assert f"in single configurations only: board-007 ({odd.ratio:.2f}× in {odd.work}" in found.sentences[-1]
    as_a_whole = across_targets(slowed(measurements, "board-007", 2.0), snapshots, ())
    assert [one.target for one in as_a_whole.odd] == ["board-007"]
    assert as_a_whole.odd_once == (), "whoever stands out as a whole is not named once more"


def test_a_difference_that_the_kind_itself_has_is_no_reason_to_be_named():
    measurements, snapshots = boards(40, spread=0.1)
    assert across_targets(slowed(measurements, "board-007", 1.15), snapshots, ()).odd == ()


def test_alike_to_the_last_digit_one_percent_is_still_nothing():
    measurements, snapshots = boards(40, spread=0.0)
    assert across_targets(slowed(measurements, "board-007", 1.02), snapshots, ()).odd == ()


def test_kinds_of_machines_are_not_held_against_each_other():
    slow, slow_snapshots = boards(20, latency_ms=40.0, name="pi", cpu_model="Cortex-A76", physical_cores=4)
    fast, fast_snapshots = boards(20, name="server", cpu_model="EPYC", physical_cores=64)
    snapshots = [*slow_snapshots, *fast_snapshots]
    found = across_targets([*slow, *fast], snapshots, ())

    assert found.odd == ()
    assert {row.group for row in found.rows} == {kind_of(one.host) for one in snapshots}
    assert len(found.rows) == 4


def test_they_are_put_together_by_whatever_is_wanted_and_held_to_their_kind_all_the_same():
    measurements, snapshots = boards(40, batches=(1,))
    sites = {one.target: f"lab{number % 2}" for number, one in enumerate(snapshots)}
    found = across_targets(slowed(measurements, "board-007", 2.0), snapshots, (), sites)
    assert [(row.group, row.targets) for row in found.rows] == [("lab0", 20), ("lab1", 20)]
    assert found.groups == ("lab0", "lab1")
    assert [odd.target for odd in found.odd] == ["board-007"]
    assert found.sentences[-1].startswith("unlike their kind, latency ÷ that of the others: board-007 (")


def test_few_of_a_kind_are_no_kind():
    measurements, snapshots = boards(4)
    found = across_targets(slowed(measurements, "board-001", 3.0), snapshots, ())
    assert (found.odd, found.held_to_their_kind) == ((), 0), "and it is not said that none is unlike"


def test_failures_are_told_by_target_and_leave_no_numbers():
    measurements, snapshots = boards(6, batches=(1,))
    failure = Failure(FailureKind.CRASHED, "it crashed")
    failed = [
        replace(one, status=Status.FAILED, failure=failure, latency=None) if one.target < "board-002" else one
        for one in measurements
    ]
    (row,) = across_targets(failed, snapshots, ()).rows
    assert (row.targets, row.failed) == (6, ("board-000", "board-001"))
    assert across_targets(failed[:2], snapshots, ()).rows[0].median_ns is None


def test_a_target_of_which_nothing_is_known_is_shown_as_well():
    measurements, _ = boards(6, batches=(1,))
    (row,) = across_targets(measurements, (), ()).rows
    assert (row.group, row.targets) == ("", 6)


def test_what_is_doubtful_or_computes_something_else_is_named():
    measurements, snapshots = boards(30, batches=(1,))
    measurements[3] = replace(measurements[3], captured_outputs=(invented.outputs(shift=5.0),))
    measurements[7] = replace(measurements[7], status=Status.INCONCLUSIVE)
    (row,) = across_targets(measurements, snapshots, (invented.model(),)).rows
    assert row.doubtful == ("board-007",)
    assert row.unlike == ("board-003",)
    assert row.failed == ()


@pytest.mark.parametrize("setting", [{"streams": 4}, {"hint": Hint.THROUGHPUT}, {"options": {"level": "low"}}])
def test_what_was_asked_of_the_engine_makes_rows_of_their_own(setting):
    few, snapshots = boards(21, batches=(1,))
    others = [
        replace(one, id=f"{one.id}-other", configuration=replace(one.configuration, **setting))
        for one in slowed(few, "board-003", 1.0)
    ]
    others = [replace(one, latency=replace(one.latency, median_ns=2.5 * one.latency.median_ns)) for one in others]
    others[3] = replace(others[3], latency=None, status=Status.FAILED)
    found = across_targets([*few, *others], snapshots, ())
    assert [row.targets for row in found.rows] == [21, 21]
    assert found.odd == () and found.odd_once == ()


def taking(*latencies_ms):
    """One configuration on a board for each of these latencies, to the last digit."""
    measurements, snapshots = boards(len(latencies_ms), batches=(1,))
    exactly = [
        replace(one, latency=replace(one.latency, median_ns=latency_ms * 1e6))
        for one, latency_ms in zip(measurements, latencies_ms, strict=True)
    ]
    return across_targets(exactly, snapshots, ())


def test_a_row_has_what_a_tenth_and_what_nine_tenths_of_the_targets_take_at_most():
    (row,) = taking(*range(1, 12)).rows
    assert (row.low_ns, row.median_ns, row.high_ns) == (2e6, 6e6, 10e6)


@pytest.mark.parametrize(("ratio", "stands_out"), [(1.08, False), (1.12, True), (0.92, False), (0.89, True)])
def test_of_targets_that_are_all_alike_those_stand_out_that_are_more_than_a_tenth_away(ratio, stands_out):
    assert bool(taking(ratio, *[1.0] * 10).odd) is stands_out


@pytest.mark.parametrize(("deviations", "stands_out"), [(4.5, False), (5.5, True), (-4.5, False), (-5.5, True)])
def test_of_targets_that_differ_those_stand_out_that_are_more_than_five_deviations_away(deviations, stands_out):
    differing = (0.95, 1.05) * 10  # normal values half of which are so far from the middle deviate by 0.05 × 1.4826
    assert bool(taking(1 + deviations * 0.05 * 1.4826, 1.0, *differing).odd) is stands_out
