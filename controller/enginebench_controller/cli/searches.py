"""Which module of `commands` goes on with the searches of a kind, and shows them."""

from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

from enginebench_controller.cli import commands
from enginebench_controller.home import Home
from enginebench_controller.records import Search, SearchKind


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
