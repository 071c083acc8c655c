"""Targets in a real store, with what they said last; of their peaks every calibration is kept, the last one is told."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

import invented
from enginebench_controller.errors import InputError
from enginebench_controller.records import EngineRef, Peak, PeakKind, Rate, Target, TargetSnapshot
from enginebench_controller.store.store import Store

PEAK = Peak(
    target="nuc",
    engine=EngineRef("openvino", "default", "2026.4"),
    device="CPU",
    cores=2,
    kind=PeakKind.FLOPS,
    what="MatMul 384×384×384",
    measured_at_unix_ns=10,
    precision="f32",
    provider="CPU",
    rate=Rate(9e10, 8e10, 9.5e10, 9, 2, disturbed=False),
)
FAILED = replace(PEAK, precision="int8", rate=None, failure="cannot", may_be_winograd=True)
MEMORY = replace(PEAK, kind=PeakKind.BANDWIDTH, what="read", precision=None, working_set_bytes=1 << 20)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results.duckdb")


def test_an_older_word_of_a_target_does_not_replace_a_newer_one(store: Store) -> None:
    newer = invented.snapshot(seen_at_unix_ns=invented.CREATED_NS + 5)
    store.save_snapshot(newer)
    store.save_snapshot(invented.snapshot())

    assert store.snapshots() == (newer,)


def test_what_was_seen_while_this_machines_clock_was_ahead_gives_way_to_any_word(store: Store) -> None:
    store.save_snapshot(invented.snapshot(seen_at_unix_ns=time.time_ns() + 3600 * 10**9))
    now = invented.snapshot(seen_at_unix_ns=time.time_ns())
    store.save_snapshot(now)

    assert store.snapshots() == (now,)


@pytest.mark.slow
def test_targets_are_added_listed_and_removed_with_what_they_said(store: Store) -> None:
    store.add_target(Target("nuc", "nuc:50051", 2))
    store.add_target(Target("arm", "arm:50051", 1))
    store.save_snapshot(invented.snapshot("nuc"))

    assert [target.name for target in store.targets()] == ["arm", "nuc"]
    store.remove_target("nuc")
    assert store.targets() == (Target("arm", "arm:50051", 1),)
    assert store.snapshots() == ()


def test_a_target_name_is_taken_once_and_unknown_ones_are_refused(store: Store) -> None:
    store.add_target(Target("nuc", "nuc:50051", 2))

    with pytest.raises(InputError, match="a target 'nuc' already"):
        store.add_target(Target("nuc", "elsewhere:50051", 3))
    with pytest.raises(InputError, match="no target 'arm'"):
        store.remove_target("arm")
    assert store.targets()[0].address == "nuc:50051"


def test_peaks_come_back_as_they_were(store: Store) -> None:
    assert store.peaks() == ()
    assert store.add_peaks([PEAK, FAILED, MEMORY])
    assert set(store.peaks()) == {PEAK, FAILED, MEMORY}


def test_the_same_calibration_again_changes_nothing(store: Store) -> None:
    store.add_peaks([PEAK, MEMORY])
    assert not store.add_peaks([PEAK, MEMORY])
    assert len(store.peaks()) == 2


def test_the_last_calibration_of_each_engine_and_cores_counts(store: Store) -> None:
    newer = replace(PEAK, measured_at_unix_ns=20, rate=Rate(1e11, 1e11, 1e11, 9))
    one_core = replace(PEAK, cores=1)
    other_version = replace(PEAK, engine=EngineRef("openvino", "default", None))
    store.add_peaks([PEAK, FAILED, one_core, other_version])
    store.add_peaks([newer])
    assert set(store.peaks()) == {newer, one_core, other_version}
    store.add_peaks([PEAK])  # an old calibration that an agent still tells of
    assert newer in store.peaks()


def test_a_calibration_counts_although_the_targets_clock_was_set_back_before_it(store: Store) -> None:
    after_it = replace(PEAK, measured_at_unix_ns=5, rate=Rate(1e11, 1e11, 1e11, 9))
    store.add_peaks([PEAK, FAILED, MEMORY])
    store.add_peaks([after_it])
    assert store.peaks() == (after_it,)


def test_a_calibration_is_of_the_processor_that_its_target_had_when_it_told_of_it(store: Store) -> None:
    store.save_snapshot(invented.snapshot("nuc"))
    store.add_peaks([PEAK, replace(PEAK, target="pi")])
    assert [(one.target, one.cpu_model) for one in store.peaks()] == [("nuc", "Invented CPU"), ("pi", None)]

    store.save_snapshot(replaced("nuc", "Another CPU"))
    assert not store.add_peaks([PEAK]), "as of an agent's files that came to another machine with its disk"
    newer = replace(PEAK, measured_at_unix_ns=20, rate=Rate(1e11, 1e11, 1e11, 9))
    store.add_peaks([newer])
    assert {(one.rate, one.cpu_model) for one in store.peaks("nuc")} == {
        (PEAK.rate, "Invented CPU"),
        (newer.rate, "Another CPU"),
    }, "what was measured on the machine before keeps its roofs"


def test_a_calibration_of_an_unknown_processor_is_known_once_its_agent_tells_of_it_again(store: Store) -> None:
    store.add_peaks([PEAK])
    store.save_snapshot(invented.snapshot("nuc"))
    assert not store.add_peaks([PEAK])
    assert [one.cpu_model for one in store.peaks("nuc")] == ["Invented CPU"]


def test_a_targets_peaks_go_with_it(store: Store) -> None:
    store.add_target(Target("nuc", "nuc:50051", 2))
    store.add_peaks([PEAK, replace(PEAK, target="pi")])
    store.remove_target("nuc")
    store.add_target(Target("nuc", "another:50051", 3))
    assert [one.target for one in store.peaks()] == ["pi"]
    assert store.add_peaks([PEAK]), "where it is the same machine, it tells of them again"


def replaced(name: str, cpu_model: str) -> TargetSnapshot:
    """What a target says after its machine was replaced by another."""
    seen = invented.snapshot(name, seen_at_unix_ns=invented.CREATED_NS + 5)
    return replace(seen, host=replace(seen.host, cpu_model=cpu_model))


def test_a_target_that_was_added_again_is_not_noisy_for_what_its_name_measured_before(store: Store) -> None:
    store.add_target(Target("nuc", "nuc:50051", invented.CREATED_NS - 10))
    store.add_benchmark(invented.benchmark(), [invented.snapshot("nuc")])
    for place in range(4):
        noisy = replace(invented.measured(f"m{place}"), target="nuc", process_spread=0.9)
        store.add_measurement(replace(noisy, started_at_unix_ns=invented.CREATED_NS + place))
    assert (store.noise(0)["nuc"].measurements, store.noise(0)["nuc"].is_noisy) == (4, True)

    store.remove_target("nuc")
    store.add_target(Target("nuc", "another:50051", invented.CREATED_NS + 3))
    assert store.noise(0)["nuc"].measurements == 1, "only what was begun since"
    assert not store.noise(0)["nuc"].is_noisy
    assert store.noise(invented.CREATED_NS + 4) == {}, "and no longer ago than asked for"


def test_peaks_are_told_by_target(store: Store) -> None:
    other = replace(PEAK, target="pi")
    store.add_peaks([PEAK, other])
    assert store.peaks("pi") == (other,)
    assert store.peaks("nobody") == ()
