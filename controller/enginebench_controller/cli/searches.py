"""Which module of `commands` goes on with the searches of a kind, and shows them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from enginebench_controller.cli import commands
from enginebench_controller.errors import InputError, plainly
from enginebench_controller.home import Home
from enginebench_controller.records import Search, SearchKind
from enginebench_controller.runs.searches.holding import orders_file
from enginebench_proto.agreed.durable import write_whole


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
        """Go on with an interrupted search, print its answer, or nothing where `as_json` is None, and write what was
        asked for.

        Returns the exit code. Raises `InputError` where the answer is there and a file cannot be written.
        """

    def print_search(self, home: Home, search: Search, *, as_json: bool) -> None:
        """Print the answer, or how far a search without one has come."""


MODULES: Mapping[SearchKind, str] = {SearchKind.BISECT: "bisect", SearchKind.RECOMMEND: "recommend"}


def commands_of(search: Search) -> SearchCommands:
    """The module for a search."""
    return cast(SearchCommands, import_module(f"{commands.__name__}.{MODULES[search.kind]}"))


@dataclass(frozen=True)
class AskedFiles:
    """What a command was to write, which `resume` does where it was interrupted."""

    plan: Path | None = None
    markdown: Path | None = None
    html: Path | None = None
    chart: Path | None = None
    force: bool = False


def keep_asked(home: Home, asked: AskedFiles, search: Search) -> None:
    """Write down what to write, by whole paths: `resume` may be called in another folder."""
    whole = {name: str(path.absolute()) for name, path in asdict(asked).items() if isinstance(path, Path)}
    if whole:
        write_whole(orders_file(home, search.id), json.dumps(whole | {"force": asked.force}).encode())


def asked_of(home: Home, search: Search) -> AskedFiles:
    """What `keep_asked` has written down. Raises `InputError` where that is damaged."""
    path = orders_file(home, search.id)
    try:
        told = json.loads(path.read_bytes())
        force = bool(told.pop("force"))
        return AskedFiles(**{name: Path(one) for name, one in told.items()}, force=force)
    except FileNotFoundError:
        return AskedFiles()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}, which says what files {search.id} was to write, cannot be read ({plainly(error)}): "
            "remove it to go on without them"
        ) from None


@contextmanager
def writing(home: Home, search: Search) -> Iterator[None]:
    """Write what was asked for, which is asked for no longer then. Of what cannot be written it is said that the answer
    is there all the same.
    """
    try:
        yield
    except InputError as error:
        raise InputError(f"{search.id} has its answer, but what was asked for is not written: {error}") from None
    finally:
        orders_file(home, search.id).unlink(missing_ok=True)


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
