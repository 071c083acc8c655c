"""The forms of reports: tables in GitHub's Markdown with safe names, and HTML pages that need nothing else."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from enginebench_controller.verdicts.conditions import Check, ConditionOutcome
from enginebench_controller.verdicts.layers.profiles import precisions
from enginebench_controller.verdicts.words import UNKNOWN, milliseconds, number, percent

if TYPE_CHECKING:
    from jinja2 import Environment

_MARKUP = frozenset("\\`*_{}[]<>#|~!&@")


def cell(text: object) -> str:
    """Text as it is: markup escaped, and on one line."""
    plain = "".join(one if one.isprintable() else " " for one in str(text))
    return "".join(f"&#{ord(one)};" if one in _MARKUP else one for one in plain)


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()) -> str:
    """A table; the columns at the places `numbers` are aligned to the right. Headings are ours, cells anybody's."""
    rule = ["--:" if place in numbers else "---" for place in range(len(headings))]
    lines = [headings, rule, *([cell(one) for one in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def folded(summary: str, parts: Iterable[str]) -> Iterator[str]:
    """Parts that GitHub and GitLab show once their summary, a sentence of ours, is pressed."""
    yield f"<details><summary>{summary}</summary>"
    yield from parts
    yield "</details>"


_MOST = 30


def checks_markdown(checks: Sequence[Check]) -> Iterator[str]:
    """A sentence with the numbers, and a table of what did not pass, failures first; nothing without checks."""
    if not checks:
        return
    failed, unsure = (
        [one for one in checks if one.outcome is outcome]
        for outcome in (ConditionOutcome.FAILED, ConditionOutcome.INCONCLUSIVE)
    )
    headline = "**Failed.**" if failed else "**Passed.**" if not unsure else "**Inconclusive.**"
    passed = len(checks) - len(failed) - len(unsure)
    yield f"{headline} Of {len(checks)} checks {len(failed)} failed, {passed} passed, {len(unsure)} were inconclusive."
    bad = [*failed, *unsure]
    if bad:
        rows = [[one.outcome, one.condition, one.pair, one.subject, one.sentence] for one in bad[:_MOST]]
        yield table(["outcome", "condition", "pair", "what", "found"], rows)
    if len(bad) > _MOST:
        yield cell(f"{len(bad) - _MOST} more")


def render(template: str, **values: Any) -> str:
    """Fill a template of this folder. Everything is escaped, since names are other people's."""
    return _environment().get_template(template).render(**values)


def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  # only where a page is written

    environment = Environment(
        loader=PackageLoader("enginebench_controller.files", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        ms=milliseconds, percent=percent, ratio=_ratio, number=number, precisions=precisions, signed_ms=_signed_ms
    )
    environment.globals["UNKNOWN"] = UNKNOWN
    return environment


def _ratio(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def _signed_ms(value_ns: float | None) -> str:
    return UNKNOWN if value_ns is None else f"{value_ns / 1e6:+.3f}"
