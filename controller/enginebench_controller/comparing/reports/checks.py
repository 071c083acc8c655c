"""What came of `--fail-if`, in Markdown."""

from collections.abc import Iterator, Sequence

from enginebench_controller.comparing.gate import Check, Outcome
from enginebench_controller.comparing.reports.markdown import cell, table

_MOST = 30


def checks_markdown(checks: Sequence[Check]) -> Iterator[str]:
    """A sentence with the numbers, and a table of what did not pass, failures first; nothing without checks."""
    if not checks:
        return
    failed, unsure = (
        [one for one in checks if one.outcome is outcome] for outcome in (Outcome.FAILED, Outcome.INCONCLUSIVE)
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
