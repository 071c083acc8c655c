"""Which module of `commands` goes on with the searches of a kind, and shows them."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from enginebench_controller.cli import commands
from enginebench_controller.cli.console import remark
from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.home import Home
from enginebench_controller.records import Search, SearchKind
from enginebench_controller.runs.searches.holding import as_stored, held, orders_file
from enginebench_controller.typed_values import plainly
from enginebench_proto.agreed.durable import write_whole

_PATIENCE_S, _AGAIN_S = 5.0, 0.05
"""How long to wait for one who writes the same files, or only looks whether anybody has the search, and how often to
ask."""


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


@dataclass(frozen=True)
class AskedFiles:
    """What a command was to write, which `resume` does where it was interrupted."""

    plan: Path | None = None
    markdown: Path | None = None
    html: Path | None = None
    chart: Path | None = None
    force: bool = False

    @property
    def paths(self) -> dict[str, Path]:
        """The files by their name here."""
        named = {"plan": self.plan, "markdown": self.markdown, "html": self.html, "chart": self.chart}
        return {name: path for name, path in named.items() if path is not None}


class SearchCommands(Protocol):
    """What such a module has."""

    def carry_on(self, home: Home, search: Search, *, as_json: bool | None, trusted: bool) -> int:
        """Go on with an interrupted search as far as that is needed, and `conclude` it."""

    def print_search(self, home: Home, search: Search, *, as_json: bool) -> None:
        """Print the answer, or how far a search without one has come."""

    def tell(self, search: Search, *, as_json: bool | None) -> int:
        """Print the answer, or nothing where `as_json` is None, and return the exit code that it makes."""

    def write(self, search: Search, asked: AskedFiles) -> None:
        """Write of the answer what was asked for. Raises `EnginebenchError` for the first that cannot be written."""


MODULES: Mapping[SearchKind, str] = {SearchKind.BISECT: "bisect", SearchKind.RECOMMEND: "recommend"}


def commands_of(search: Search) -> SearchCommands:
    """The module for a search."""
    return cast(SearchCommands, import_module(f"{commands.__name__}.{MODULES[search.kind]}"))


def keep_asked(home: Home, asked: AskedFiles, search: Search) -> None:
    """Write down what is to be written yet, by whole paths: `resume` may be called in another folder.

    Raises `InputError` where that cannot be kept.
    """
    path, whole = orders_file(home, search.id), {name: str(one.absolute()) for name, one in asked.paths.items()}
    try:
        if whole:
            write_whole(path, json.dumps(whole | {"force": asked.force}).encode())
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot keep {path}, which says what files {search.id} is to write: {error}") from None


def insist(home: Home, search: Search) -> None:
    """Have what a search was to write replace files that are there, as far as it is still asked for.

    Raises `InputError` as the others do, and where the search is gone or stays under way in another command.
    """
    with _held_in_time(home, search):
        as_stored(home, search)
        keep_asked(home, replace(asked_of(home, search), force=True), search)


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


def conclude(home: Home, search: Search, *, as_json: bool | None) -> int:
    """Write what was asked for, tell the answer, as `tell` does, and return its exit code.

    Files come first: who reads what is printed may go away. Raises `InputError` in the end where one is not written:
    it stays asked for, and the sentence says how it is had, or done without.
    """
    problem = _write_all(home, search)
    code = commands_of(search).tell(search, as_json=as_json)
    if problem:
        raise InputError(f"{search.id} has its answer, but what was asked for is not written: {problem}")
    return code


def _write_all(home: Home, search: Search) -> str:
    """Write what is asked for, as the only command that does; returns what is wrong, nothing where all is written.

    Between the answer and this anybody may have taken the search up: what they write is not asked for any longer.
    """
    path = orders_file(home, search.id)
    if not path.exists():
        return ""
    try:
        with _held_in_time(home, search):
            problems = _write_each(home, search)
    except EnginebenchError as error:
        return str(error) if path.exists() else ""
    except KeyboardInterrupt:
        remark(f"`enginebench resume {search.id}` writes what was asked for")
        raise
    way_out = (
        f"`enginebench resume {search.id}` tries it again, with --force in the place of what is there; "
        f"remove {path} to do without"
    )
    return "\n".join([*problems, way_out]) if problems else ""


@contextmanager
def _held_in_time(home: Home, search: Search) -> Iterator[None]:
    """Be the only one at a search, once others who are only briefly at it are through.

    Raises `InputError` where they take longer.
    """
    until = time.monotonic() + _PATIENCE_S
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(held(home, search.id))
                break
            except InputError:
                if time.monotonic() >= until:
                    raise
                time.sleep(_AGAIN_S)
        yield


def _write_each(home: Home, search: Search) -> list[str]:
    """Write each file, whatever came of the others; what is written is asked for no longer. Returns what went wrong."""
    asked, problems = asked_of(home, search), []
    left = asked.paths
    for name, path in asked.paths.items():
        try:
            commands_of(search).write(search, AskedFiles(**{name: path}, force=asked.force))
            del left[name]
            keep_asked(home, AskedFiles(**left, force=asked.force), search)
        except EnginebenchError as error:
            problems.append(str(error))
    return list(dict.fromkeys(problems))


def gone_on(home: Home, search: Search, error: str | None) -> GoneOn:
    """What came of a search, as it is stored now; of one that was removed, or cannot be read, why."""
    try:
        outcome, sentence = _told(as_stored(home, search))
    except EnginebenchError as why:
        return GoneOn(search.id, search.name, search.kind, None, None, error or str(why))
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
