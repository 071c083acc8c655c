"""Which module of `commands` goes on with the searches of a kind, and shows them."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from enginebench_controller.cli import commands
from enginebench_controller.home import Home
from enginebench_controller.records import Search, SearchKind


@dataclass(frozen=True)
class GoneOn:
    """What came of an interrupted search: outcome and sentence of its answer, null without one, and what went wrong.

    The outcome of a bisect is its finding.
    """

    id: str
    name: str
    kind: SearchKind
    outcome: str | None
    sentence: str | None
    error: str | None


class SearchCommands(Protocol):
    """What such a module has."""

    def carry_on(self, home: Home, search: Search, *, as_json: bool | None, trusted: bool) -> int:
        """Go on with an interrupted search and print its answer, or nothing where `as_json` is None.

        Returns the exit code.
        """

    def print_search(self, home: Home, search: Search, *, as_json: bool) -> None:
        """Print the answer, or how far a search without one has come."""


MODULES: Mapping[SearchKind, str] = {SearchKind.BISECT: "bisect", SearchKind.RECOMMEND: "recommend"}


def commands_of(search: Search) -> SearchCommands:
    """The module for a search."""
    return cast(SearchCommands, import_module(f"{commands.__name__}.{MODULES[search.kind]}"))


def gone_on(home: Home, search_id: str, error: str | None) -> GoneOn:
    """What came of a search, as it is stored now."""
    search = home.store.search(search_id)
    outcome, sentence = _told(search)
    return GoneOn(search.id, search.name, search.kind, outcome, sentence, error)


def _told(search: Search) -> tuple[str, str] | tuple[None, None]:
    from enginebench_controller.verdicts.bisect.answer import stored_answer  # noqa: PLC0415  # these bring SciPy
    from enginebench_controller.verdicts.bisect.words import headline  # noqa: PLC0415
    from enginebench_controller.verdicts.recommend.answer import read_answer  # noqa: PLC0415

    if search.answer is None:
        return None, None
    if search.kind is SearchKind.RECOMMEND:
        found = read_answer(search.answer)
        return found.outcome.value, found.sentence
    answer = stored_answer(search)
    return (None, None) if answer is None else (answer.finding.value, headline(answer))
