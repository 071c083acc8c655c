"""Speed as a test: the fixture `enginebench`, whose `gate` fails a test where head is worse than base.

A module of its own that imports nothing of ours until a test asks for a gate: pytest loads it in every project of an
environment that has enginebench, and those that do not use it are not to wait. docs/reference/library.md
"""

import warnings
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from enginebench.results import Gate


class SpeedTest:
    """What the fixture gives."""

    def gate(self, base: str, head: str, model: str | None = None, *, strict: bool = False, **asked: Any) -> "Gate":
        """Measure as `enginebench.gate` does, which also says what may be `asked`, and judge the test by the verdict.

        As with the command, the test fails where head is worse, outputs are wrong or a side came to no numbers. Where
        it cannot be told the test passes with a warning that says why; with `strict` it fails. Raises as
        `enginebench.gate` does, before anything is measured.
        """
        import enginebench as library  # noqa: PLC0415  # see above

        found = library.gate(base, head, model, **{"progress": print, **asked})
        cannot_tell = found.outcome == "cannot_tell"
        if found.outcome == "worse" or found.problem or (strict and cannot_tell):
            pytest.fail(str(found), pytrace=False)
        if cannot_tell:
            warnings.warn(found.answers[0], stacklevel=2)
        return found


@pytest.fixture(scope="session")
def enginebench() -> SpeedTest:
    """Gates of inference engines: `enginebench.gate(base, head, model, …)` fails the test where head is worse."""
    return SpeedTest()
