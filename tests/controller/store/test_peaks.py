"""Peaks in a real store: every calibration is kept, the last one is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from enginebench_controller.records import EngineRef, Peak, PeakKind, Rate
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


def test_peaks_are_told_by_target(store: Store) -> None:
    other = replace(PEAK, target="pi")
    store.add_peaks([PEAK, other])
    assert store.peaks("pi") == (other,)
    assert store.peaks("nobody") == ()
