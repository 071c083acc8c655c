"""The best of what a calibration found."""

from collections.abc import Iterable

from enginebench_controller.records import Peak


def best_peaks(peaks: Iterable[Peak]) -> list[Peak]:
    """The fastest of each precision and of each working set, or the reason where none has a rate.

    All are to be of one engine, device and number of cores. What may be computed by Winograd's trick stands apart.
    """
    best: dict[tuple[object, ...], Peak] = {}
    for peak in peaks:
        key = (peak.kind, peak.precision, peak.working_set_bytes, peak.may_be_winograd and peak.rate is not None)
        if key not in best or _rate(peak) > _rate(best[key]):
            best[key] = peak
    return list(best.values())


def _rate(peak: Peak) -> float:
    return 0.0 if peak.rate is None else peak.rate.median_per_s
