"""How figures of a comparison are written, the same in tables, reports and summaries; unknown is –."""

from collections.abc import Iterator, Mapping, Sequence

from enginebench_controller.comparing.layer_rows import Verdict
from enginebench_controller.comparing.pairing import Compared
from enginebench_controller.comparing.profiles import ProfilePair
from enginebench_controller.records import Measurement
from enginebench_controller.trust.condensing import Remark
from enginebench_controller.trust.parity import engine_label

UNKNOWN = "–"


def milliseconds(value_ns: float | None) -> str:
    """Nanoseconds as milliseconds with three decimals."""
    return UNKNOWN if value_ns is None else f"{value_ns / 1e6:.3f}"


def percent(share: float | None) -> str:
    """A share as per cent, without the sign."""
    return UNKNOWN if share is None else f"{100 * share:.1f}"


def number(value: float | None) -> str:
    """A ratio with two decimals."""
    return UNKNOWN if value is None else f"{value:.2f}"


def model_words(compared: Compared) -> str:
    """The model of both sides, or the version of each: `squeezenet → squeezenet-int8`."""
    return " → ".join(dict.fromkeys((compared.first.model_name, compared.second.model_name)))


def side_words(measurement: Measurement) -> str:
    """Engine and precision, the effective one: an INT8 version that was asked for in f32 runs u8."""
    got = measurement.effective.precision
    asked = f"({measurement.configuration.precision} asked for)"
    return f"{engine_label(measurement)} {got.value if got else asked}"


def pair_remarks(compared: Sequence[Compared]) -> Iterator[Remark]:
    """What limits the verdicts, each with the pair it is of."""
    for one in compared:
        about = f"{side_words(one.first)} and {side_words(one.second)}, batch {one.first.configuration.batch}"
        for sentence in filter(None, (*one.remarks, one.comparison.note)):
            yield Remark(about, sentence)


def precisions(counts: Mapping[str, int]) -> str:
    """Layers by precision: `f32 ×53`."""
    return ", ".join(f"{name or UNKNOWN} ×{count}" for name, count in sorted(counts.items()))


def verdicts(pair: ProfilePair) -> str:
    """How many rows are what: "3 better, 1 worse, 50 within noise"."""
    rest = sum(row.verdict is None for row in pair.rows if row.slowest_ns)
    counted = [f"{pair.count(verdict)} {verdict}" for verdict in Verdict]
    return ", ".join([*counted, *([f"{rest} on one side only or untold"] if rest else [])])


def joined_sentence(pair: ProfilePair, other: str) -> str:
    """How much of the time stands in joined rows, and that nothing is lost."""
    coverage = pair.coverage
    parts = [
        f"{percent(share)} % of {side}'s {milliseconds(total)} ms"
        for side, share, total in zip(("A", other), coverage.shares, coverage.total_ns, strict=True)
    ]
    return (
        f"{' and '.join(parts)} stand in {coverage.joined_rows} joined rows ({coverage.exact_rows} of the very same "
        f"nodes, the largest of {percent(coverage.largest_share)} % of them); all rows add up to the totals exactly"
    )


def how_sure(pair: ProfilePair) -> str:
    """What the verdicts know and what they do not."""
    first, second = pair.first.iterations, pair.second.iterations
    seen = f"{first} and {second} inferences" if first and second else "the inferences"
    return (
        f"verdicts are over {seen} of one process each, corrected for {pair.coverage.joined_rows} rows: "
        "equal processes can differ by more"
    )
