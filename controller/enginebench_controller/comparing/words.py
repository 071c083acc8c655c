"""How figures of a comparison are written, the same in tables, reports and summaries; unknown is –."""

from collections.abc import Iterator, Sequence

from enginebench_controller.comparing.pairing import Compared
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
        about = f"{side_words(one.first)} and {side_words(one.second)}, {one.first.configuration.size}"
        names = tuple(f"{side.model_name} on {engine_label(side)}" for side in (one.first, one.second))
        for sentence in filter(None, (*one.remarks, one.comparison.note)):
            yield Remark(about, sentence, names)
