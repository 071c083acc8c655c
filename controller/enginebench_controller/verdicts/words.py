"""How figures, ratios and remarks are written, the same in terminals, pages, reports and charts; unknown is –."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from enginebench_controller.records import Configuration, Failure, Measurement, Profile
from enginebench_controller.records.cause import cause, last_words
from enginebench_controller.verdicts.parity import engine_label

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_WHERE_A_REASON_BEGINS = re.compile(r": | \(|; ")

_WHICH_PROCESS = re.compile(r" \(process \d+ of \d+\)")
"""Of many remarks the number of a process tells nothing, and it is no measure of which is the worst."""

_OF_ONE_PROCESS = re.compile(r"process \d+ of \d+: ")
"""How `runs.outcome` begins what failed in another process than the first."""

MOST_NAMED = 2
MOST_WHOLE = 4
"""So many are named with all that was asked of them."""


@dataclass(frozen=True)
class Remark:
    """A sentence on something, such as "resnet50 on torch (local, batch 1)"; `names` in it do not tell kinds apart.

    `of` tells those apart that have the same name: an id, or those of a pair.
    """

    about: str
    sentence: str
    names: tuple[str, ...] = ()
    of: str = ""

    def __str__(self) -> str:
        """As it stands alone."""
        return f"{self.about}: {self.sentence}"

    @property
    def kind(self) -> str:
        """The sentence without its numbers, and without what follows as the reason."""
        sentence = self.sentence
        for name in self.names:
            sentence = sentence.replace(name, "one")
        return _NUMBER.sub("#", _WHERE_A_REASON_BEGINS.split(sentence, maxsplit=1)[0])


def condensed(remarks: Iterable[Remark], total: int, *, names: bool = False) -> list[str]:
    """A line for each kind, in the order they came up; `total` is of how many things there might be one.

    With `names` the first of those that it is said of are named, as it must not be missed of whom.
    """
    kinds: dict[str, list[Remark]] = {}
    for one in dict.fromkeys(remarks):
        kinds.setdefault(one.kind, []).append(one)
    return [_line(alike, total, names=names) for alike in kinds.values()]


def _line(alike: Sequence[Remark], total: int, *, names: bool) -> str:
    whom = list({one.of or one.about: one.about for one in alike}.values())
    if len(alike) == 1:
        return str(alike[0])
    sentences = {_WHICH_PROCESS.sub("", one.sentence): None for one in alike}
    worst = max(sentences, key=_largest)
    at_worst = ", at worst" if len(sentences) > 1 else ""
    if names:
        named = ", ".join(whom[:MOST_NAMED]) + (f" and {len(whom) - MOST_NAMED} more" if len(whom) > MOST_NAMED else "")
        return f"{named}{at_worst}: {worst}"
    return f"{len(whom)} of {total}{at_worst}: {worst}"


def _largest(sentence: str) -> float:
    """The first number of a sentence, by which those of a kind are compared."""
    found = _NUMBER.search(sentence)
    return float(found[0].replace(",", "")) if found else 0.0


MUCH = 10.0
"""From this factor on, or its inverse, per cent tell nothing any more: "+29524.6 %" is ×296."""


def change_words(ratio: float) -> str:
    """What became of 1: "+12.3 %", "−4.0 %", "+176.6 %", "×29.5", "×296", "×0.03"."""
    if 1 / MUCH < ratio < MUCH:
        return f"{100 * (ratio - 1):+.1f} %".replace("-", "−")
    return factor_words(ratio)


def factor_words(ratio: float) -> str:
    """A ratio as a factor: "×1.05", "×29.5", "×1,250", "×0.0031"."""
    if ratio < 0.1:
        return f"×{ratio:.2g}"
    return f"×{ratio:.2f}" if ratio < 10 else f"×{ratio:,.1f}" if ratio < 100 else f"×{ratio:,.0f}"


UNKNOWN = "–"
"""How an unknown value is written."""


def milliseconds(value_ns: float | None) -> str:
    """Nanoseconds as milliseconds with three decimals."""
    return UNKNOWN if value_ns is None else f"{value_ns / 1e6:.3f}"


def rate(value: float | None) -> str:
    """Items a second with one decimal; fewer than ten with four digits, as a language model may do 0.04123 of them."""
    if value is None:
        return UNKNOWN
    return f"{value:,.1f}" if value >= 10 else f"{value:.4g}"


def percent(share: float | None) -> str:
    """A share as per cent, without the sign."""
    return UNKNOWN if share is None else f"{100 * share:.1f}"


def number(value: float | None) -> str:
    """A ratio with two decimals."""
    return UNKNOWN if value is None else f"{value:.2f}"


def short(value: float | None) -> str:
    """Three digits and a prefix: 4.09 G; – for unknown."""
    if value is None:
        return UNKNOWN
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 0.9995 * size:
            return f"{value / size:#.3g}".rstrip(".") + f" {prefix}"
    return f"{value:.0f}"


class _Both(Protocol):
    """Two measurements that are compared."""

    @property
    def first(self) -> Measurement: ...
    @property
    def second(self) -> Measurement: ...


class _Lacking(Protocol):
    """A measurement without a like in the benchmark that is called so."""

    @property
    def measurement(self) -> Measurement: ...
    @property
    def called(self) -> str: ...


def model_words(compared: _Both) -> str:
    """The model of both sides, or the version of each: `squeezenet → squeezenet-int8`."""
    return _of_both(compared.first.model_name, compared.second.model_name)


def asked_words(compared: _Both, told: Callable[[Configuration], object]) -> str:
    """What was asked of both sides, or of each: `batch 1, 2 cores → batch 8, 2 cores`."""
    return _of_both(told(compared.first.configuration), told(compared.second.configuration))


def _of_both(first: object, second: object) -> str:
    return " → ".join(dict.fromkeys((str(first), str(second))))


def side_words(measurement: Measurement) -> str:
    """Engine and precision, the effective one: an INT8 version that was asked for in f32 runs u8."""
    got = measurement.effective.precision
    asked = f"({measurement.configuration.precision} asked for)"
    return f"{engine_label(measurement)} {got.value if got else asked}"


def sides_words(compared: _Both) -> tuple[str, str]:
    """The same of both sides, each with its target where they are of two."""
    first, second = compared.first, compared.second
    words = side_words(first), side_words(second)
    if first.target == second.target:
        return words
    return f"{words[0]} on {first.target}", f"{words[1]} on {second.target}"


def unmatched_lines(unmatched: Iterable[_Lacking], most: int = MOST_WHOLE) -> Iterator[str]:
    """A line for each benchmark that lacks something of the first, of which so many are named at most."""
    lacking: dict[str, list[Measurement]] = {}
    for one in unmatched:
        lacking.setdefault(one.called, []).append(one.measurement)
    for called, found in lacking.items():
        yield f"{called} has nothing to compare with {named(found, most)}"


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as the kernel lists processors: "0-3,6"."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ",".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)


def failure_sentence(failure: Failure) -> str:
    """What happened; `show --failures` prints the engine's own words whole."""
    why = failure.cause or cause(failure.detail) or last_words(failure.stderr_tail)
    known = not why or failure.cause or why in failure.message  # what older versions stored has no cause of its own
    return f"{failure.kind}: {failure.message if known else failure.message.rstrip('.') + ': ' + why}"


def whichever_process(reason: str) -> str:
    """Why something failed, without the process of it: what fails alike in the second and the third has one reason."""
    return _OF_ONE_PROCESS.sub("", reason, count=1)


def first_failures(outcomes: Iterable[Measurement | Profile]) -> list[str]:
    """A line for each that has no numbers, with the reason."""
    return [
        f"  {one.status}: {whose(one)}: {failure_sentence(one.failure) if one.failure else 'no reason was kept'}"
        for one in outcomes
        if not one.status.has_numbers
    ]


def named(found: Iterable[Measurement | Profile], most: int = MOST_WHOLE) -> str:
    """Whose these are: "net on fake 1.0 (local, batch 1, 2 cores) and 3 more"; each once, `most` at most."""
    unlike = list(dict.fromkeys(map(whose, found)))
    more = f" and {len(unlike) - most} more" if len(unlike) > most else ""
    return ", ".join(unlike[:most]) + more


def whose(one: Measurement | Profile) -> str:
    """What was measured, with all that was asked but defaults: "net on fake 1.0 (local, batch 1, async 4)"."""
    asked = one.configuration
    precision = "" if asked.precision == "f32" else f", {asked.precision}"
    return f"{one.model_name} on {engine_label(one)} ({one.target}, {asked.in_words}{precision})"
