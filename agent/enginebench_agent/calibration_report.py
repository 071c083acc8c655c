"""What a person sees of `calibrate`: how far it is, and the best of each precision and working set, or JSON."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence

from enginebench_agent.calibrating import Outcome
from enginebench_agent.peak_file import peak_document
from enginebench_proto.v1.peaks_pb2 import PEAK_KIND_FLOPS, Peak
from enginebench_proto.v1.run_pb2 import RunSpec


class Progress:
    """A line on standard error that is written over; none where nobody watches."""

    def running(self, spec: RunSpec, share: float) -> None:
        """See `calibrating.Report`."""
        if sys.stderr.isatty():
            what = f"{spec.engine}, {_cores(spec.configuration.cores)}: {100 * share:.0f} %"
            print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


def print_calibrations(outcomes: Sequence[Outcome], *, as_json: bool) -> None:
    """Print the best peaks of each outcome or why there are none; as JSON, every peak as the agent's file has them."""
    if as_json:
        document = peak_document(peak for outcome in outcomes for peak in outcome.peaks)
        failures = [_failure(outcome) for outcome in outcomes if outcome.failure is not None]
        json.dump(document | {"failures": failures}, sys.stdout, indent=2)
        print()
        return
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    for outcome in outcomes:
        print("\n".join(_lines(outcome)))


def _failure(outcome: Outcome) -> dict[str, object]:
    named = {"engine": outcome.engine, "environment": outcome.environment, "device": outcome.device}
    return named | {"cores": outcome.cores, "reason": outcome.failure}


def _lines(outcome: Outcome) -> Iterator[str]:
    version = f" {outcome.peaks[0].engine_version}" if outcome.peaks else ""
    yield f"{outcome.engine}{version} ({outcome.environment}), {outcome.device}, {_cores(outcome.cores)}"
    if outcome.failure is not None:
        yield f"  {outcome.failure}"
    yield from map(_line, best_peaks(outcome.peaks))
    if any(peak.rate.disturbed for peak in outcome.peaks):
        yield "  * the machine did something else meanwhile: the true peak is higher; calibrate again when it is quiet"
    yield ""


def best_peaks(peaks: Iterable[Peak]) -> list[Peak]:
    """The fastest of each precision and of each working set, or the reason where none has a rate.

    What an engine may compute by Winograd's trick stands apart.
    """
    best: dict[tuple[str, int, bool], Peak] = {}
    for peak in peaks:
        apart = peak.may_be_winograd and peak.HasField("rate")
        key = (peak.precision, peak.working_set_bytes, apart)
        if key not in best or peak.rate.median_per_s > best[key].rate.median_per_s:
            best[key] = peak
    return list(best.values())


def _line(peak: Peak) -> str:
    is_flops = peak.kind == PEAK_KIND_FLOPS
    subject = peak.precision if is_flops else _size(peak.working_set_bytes)
    if peak.HasField("failure"):
        return f"  {subject:>8}  –  {peak.failure}"
    rate, unit = peak.rate, "Gop/s" if is_flops else "GB/s"
    numbers = f"{rate.median_per_s / 1e9:8.1f} {unit:5} ({rate.low_per_s / 1e9:.1f} to {rate.high_per_s / 1e9:.1f})"
    winograd = " (may be Winograd)" if peak.may_be_winograd else ""
    return f"  {subject:>8}{numbers}{'*' if rate.disturbed else ''}  {peak.what}{winograd}"


def _size(size_bytes: int) -> str:
    if not size_bytes:
        return "memory"
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} KiB"


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"
