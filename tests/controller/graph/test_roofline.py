"""Where layers stand under their roofs; expected values are worked out by hand."""

import pytest

from enginebench_controller.graph.roofline import (
    Bound,
    LayerWork,
    Note,
    Roofs,
    place,
    resolution_ns,
    roof_precision,
    roofs_of,
)
from enginebench_controller.records import EngineRef, Peak, PeakKind, Rate

ENGINE = EngineRef("onnxruntime", "default", "1.31.1")
MIB = 1 << 20
ROOFS = Roofs("f32", 100e9, ((MIB, 80e9), (16 * MIB, 40e9), (64 * MIB, 10e9)))


def _peak(kind: PeakKind = PeakKind.FLOPS, median: float | None = 1e9, **changes: object) -> Peak:
    """A peak with an interval of ± 1 %."""
    fields: dict = {"target": "local", "engine": ENGINE, "device": "CPU", "cores": 1, "what": "MatMul"}
    fields |= {"measured_at_unix_ns": 1, "precision": "f32" if kind is PeakKind.FLOPS else None}
    fields["rate"] = None if median is None else Rate(median, 0.99 * median, 1.01 * median, 9)
    return Peak(kind=kind, **fields | changes)


def test_a_layer_of_high_intensity_is_bound_by_computing() -> None:
    # 1 GFLOP on 1 MiB: 10 ms of computing, 13 µs of memory.
    found = place(LayerWork(flops=10**9, data_bytes=MIB), 20_000_000, ROOFS)
    assert found.bound is Bound.COMPUTE
    assert found.share == pytest.approx(0.5)
    assert found.flops_per_s == pytest.approx(50e9)
    assert found.attainable_flops_per_s == pytest.approx(100e9)
    assert found.intensity == pytest.approx(10**9 / MIB)
    assert found.notes == () and not found.dense_equivalent


def test_a_layer_of_low_intensity_is_bound_by_the_memory_its_data_lie_in() -> None:
    # A quarter of an operation a byte: at 10 GB/s 2.5 GFLOP/s are attainable, at a cache's 80 GB/s 20.
    for data_bytes, bandwidth in ((256 * MIB, 10e9), (64 * MIB, 10e9), (20 * MIB, 40e9), (MIB, 80e9), (100, 80e9)):
        seconds = data_bytes / bandwidth
        found = place(LayerWork(data_bytes // 4, data_bytes), 2e9 * seconds, ROOFS)
        assert found.bound is Bound.MEMORY
        assert found.attainable_flops_per_s == pytest.approx(bandwidth / 4)
        assert found.share == pytest.approx(0.5)
        assert found.bytes_per_s == pytest.approx(bandwidth / 2)


def test_a_layer_without_operations_is_held_against_the_bandwidth() -> None:
    found = place(LayerWork(flops=0, data_bytes=64 * MIB), 64 * MIB / 10e9 * 1e9 * 4, ROOFS)
    assert (found.bound, found.share, found.flops_per_s) == (Bound.MEMORY, pytest.approx(0.25), 0)
    assert found.attainable_flops_per_s is None


@pytest.mark.parametrize(
    ("work", "roofs"),
    [
        (LayerWork(None, MIB), ROOFS),
        (LayerWork(10**9, None), ROOFS),
        (LayerWork(10**9, MIB), None),
        (LayerWork(10**9, MIB), Roofs("f32", None, ROOFS.bandwidths)),
        (LayerWork(10**9, MIB), Roofs("f32", 1e9, ())),
    ],
)
def test_what_is_unknown_makes_the_share_unknown(work: LayerWork, roofs: Roofs | None) -> None:
    found = place(work, 1_000_000, roofs)
    assert (found.share, found.bound, found.attainable_flops_per_s, found.notes) == (None, None, None, ())
    assert (found.flops_per_s is None) == (work.flops is None)


@pytest.mark.parametrize("time_ns", [None, 0])
def test_a_layer_without_a_time_has_no_rates(time_ns: int | None) -> None:
    found = place(LayerWork(10**9, MIB), time_ns, ROOFS)
    assert (found.flops_per_s, found.bytes_per_s, found.share) == (None, None, None)
    assert found.intensity is not None


def test_winograd_is_told_by_the_kernel_and_never_capped() -> None:
    found = place(LayerWork(10**9, MIB, kernel="jit_avx512_winograd"), 5_000_000, ROOFS)
    assert found.share == pytest.approx(2.0)
    assert found.notes == (Note.WINOGRAD,) and found.dense_equivalent


def test_winograd_is_told_by_the_calibration() -> None:
    fast = LayerWork(10**9, MIB, plain_3x3=True)
    with_winograd = Roofs("f32", 100e9, ROOFS.bandwidths, winograd_flops_per_s=180e9)
    assert place(fast, 6_000_000, with_winograd).notes == (Note.WINOGRAD,)
    assert place(fast, 12_000_000, with_winograd).notes == ()
    assert place(LayerWork(10**9, MIB), 6_000_000, with_winograd).notes == (Note.UNEXPLAINED,)
    assert place(fast, 6_000_000, ROOFS).notes == (Note.UNEXPLAINED,)


def test_a_sparse_layer_counts_as_dense_and_says_so() -> None:
    found = place(LayerWork(10**9, MIB, sparse=True), 2_000_000, ROOFS)
    assert found.share == pytest.approx(5.0)
    assert found.notes == (Note.SPARSE,) and found.dense_equivalent


def test_data_in_a_nearer_cache_explain_a_bandwidth_up_to_the_fastest() -> None:
    work = LayerWork(0, 64 * MIB)  # 10 GB/s by its size
    assert place(work, work.data_bytes / 60e9 * 1e9, ROOFS).notes == (Note.IN_CACHE,)
    assert place(work, work.data_bytes / 200e9 * 1e9, ROOFS).notes == (Note.UNEXPLAINED,)


def test_a_few_steps_of_the_counter_explain_anything() -> None:
    work = LayerWork(10**6, 1000)
    assert place(work, 1000, ROOFS, resolution_ns=1000).notes == (Note.TOO_SHORT,)
    assert place(work, 1000, ROOFS, resolution_ns=1).notes == (Note.UNEXPLAINED,)


def test_a_busy_calibration_explains_a_plausible_excess_that_nothing_else_does() -> None:
    busy = Roofs("f32", 100e9, ROOFS.bandwidths, disturbed=True)
    assert place(LayerWork(10**9, MIB), 8_000_000, busy).notes == (Note.BUSY_CALIBRATION,)
    unexplained = (Note.UNEXPLAINED, Note.BUSY_CALIBRATION)
    assert place(LayerWork(10**9, MIB), 5_000_000, busy).notes == unexplained, "no machine is twice as busy unseen"


def test_a_busy_calibration_is_told_of_layers_only_whose_roof_it_made() -> None:
    in_memory = LayerWork(0, 64 * MIB)
    computing = LayerWork(10**9, MIB)
    busy_memory = Roofs("f32", 100e9, ROOFS.bandwidths, disturbed_sets=frozenset({64 * MIB}))
    assert place(in_memory, 500_000_000, busy_memory).notes == (Note.BUSY_CALIBRATION,)
    assert place(LayerWork(0, 16 * MIB), 500_000_000, busy_memory).notes == ()
    assert place(computing, 500_000_000, busy_memory).notes == ()
    busy_products = Roofs("f32", 100e9, ROOFS.bandwidths, disturbed=True)
    assert place(in_memory, 500_000_000, busy_products).notes == ()


def test_peaks_of_other_precisions_and_sets_do_not_disturb_a_roof() -> None:
    busy, memory = Rate(1e9, 0.9e9, 1.1e9, 9, disturbed=True), PeakKind.BANDWIDTH
    peaks = [
        _peak(),
        _peak(rate=busy, precision="int8"),
        _peak(memory, 20e9, working_set_bytes=MIB),
        _peak(memory, rate=busy, working_set_bytes=4 * MIB),
    ]
    f32, int8 = (roofs_of(peaks, ENGINE, "CPU", 1, precision) for precision in ("f32", "int8"))
    assert (f32.disturbed, int8.disturbed) == (False, True)
    assert f32.disturbed_sets == int8.disturbed_sets == {4 * MIB}


def test_a_busy_calibration_is_told_of_at_any_share_since_all_shares_are_too_high() -> None:
    busy = Roofs("f32", 100e9, ROOFS.bandwidths, disturbed=True)
    assert place(LayerWork(10**9, MIB), 500_000_000, busy).notes == (Note.BUSY_CALIBRATION,)
    assert place(LayerWork(10**9, MIB), 500_000_000, ROOFS).notes == ()
    assert place(LayerWork(None, MIB), 500_000_000, busy).notes == ()


def test_a_calibration_at_changing_speeds_explains_operations_but_no_bytes() -> None:
    unsteady = Roofs("f32", 100e9, ROOFS.bandwidths, unsteady=True)
    assert place(LayerWork(10**9, MIB), 8_000_000, unsteady).notes == (Note.UNSTEADY_CALIBRATION,)
    assert place(LayerWork(10**9, MIB), 12_000_000, unsteady).notes == ()
    work = LayerWork(0, 64 * MIB)
    assert place(work, work.data_bytes / 200e9 * 1e9, unsteady).notes == (Note.UNEXPLAINED,)


@pytest.mark.parametrize(("low", "is_unsteady"), [(92e9, False), (90e9, True)])
def test_a_wide_interval_makes_an_unsteady_roof_at_its_upper_end(low: float, is_unsteady: bool) -> None:
    rate = Rate(95e9, low, 100e9, 9)
    roofs = roofs_of([_peak(rate=rate), _peak(median=50e9, what="Conv 1×1")], ENGINE, "CPU", 1, "f32")
    assert (roofs.flops_per_s, roofs.unsteady) == (100e9, is_unsteady)


def test_the_step_of_a_counter_is_what_divides_all_its_times() -> None:
    assert resolution_ns([12_000, 15_000, 7_000]) == 1000
    assert resolution_ns([12_345, 15_001]) == 1
    assert resolution_ns([0, 0]) is None
    assert resolution_ns([]) is None


@pytest.mark.parametrize(
    ("words", "precision"),
    [("FP32", "f32"), ("float", "f32"), ("bf16", "bf16"), ("U8", "int8"), ("int64", None), ("", None)],
)
def test_engines_words_for_precisions(words: str, precision: str | None) -> None:
    assert roof_precision(words) == precision


def test_roofs_are_the_best_of_the_run_s_own_engine_and_cores() -> None:
    memory = PeakKind.BANDWIDTH
    peaks = [
        _peak(median=50e9),
        _peak(median=70e9, what="Conv 1×1"),
        _peak(median=120e9, what="Conv 3×3", may_be_winograd=True),
        _peak(median=200e9, precision="int8"),
        _peak(median=None, failure="cannot", precision="bf16"),
        _peak(median=140e9, cores=2),
        _peak(median=900e9, engine=EngineRef("onnxruntime", "default", "1.30")),
        _peak(memory, 20e9, working_set_bytes=MIB, what="read"),
        _peak(memory, 30e9, working_set_bytes=MIB, what="update"),
        _peak(memory, 10e9, working_set_bytes=4 * MIB, what="copy"),
    ]
    roofs = roofs_of(peaks, ENGINE, "CPU", 1, "f32")
    assert (roofs.flops_per_s, roofs.winograd_flops_per_s) == pytest.approx((1.01 * 70e9, 1.01 * 120e9))
    assert dict(roofs.bandwidths) == pytest.approx({MIB: 1.01 * 30e9, 4 * MIB: 1.01 * 10e9})
    assert not roofs.unsteady and not roofs.disturbed
    assert roofs_of(peaks, ENGINE, "CPU", 1, "bf16").flops_per_s is None
    assert roofs_of(peaks, ENGINE, "CPU", 8, "f32") is None
    assert roofs_of(peaks, ENGINE, "GPU", 1, "f32") is None


def test_a_plain_convolution_that_is_just_good_is_a_roof_like_others() -> None:
    peaks = [_peak(median=80e9), _peak(median=90e9, what="Conv 3×3", may_be_winograd=True)]
    roofs = roofs_of(peaks, ENGINE, "CPU", 1, "f32")
    assert roofs.flops_per_s == pytest.approx(1.01 * 90e9)
    assert roofs.winograd_flops_per_s is None


def test_a_larger_set_that_was_faster_raises_the_roof_of_smaller_ones() -> None:
    roofs = Roofs("f32", 1e9, ((MIB, 30e9), (4 * MIB, 50e9), (16 * MIB, 20e9)))
    assert [roofs.bandwidth(size * MIB) for size in (1, 4, 15, 16, 99)] == [50e9, 50e9, 50e9, 20e9, 20e9]
