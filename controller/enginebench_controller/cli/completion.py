"""What a shell offers for a word that is being typed: ids and names of what this machine has, and nothing on any error.

Only what no shell would act on is offered, as names come from models and from other people's exports.
"""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING

from enginebench_controller.home import Home, default_home

if TYPE_CHECKING:
    from enginebench_controller.store.store import Store

_HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+/-]{0,99}")
_BREAK, _REPLACED = re.compile(r"[:=@]+"), re.compile(r"@?[^:=@]*$")
"""Where bash breaks words, and what of a word it replaces then; an @ it does replace, as of a host's name."""
_WAIT_S = 0.3
"""So long is waited for others who have the results open; commands wait longer."""


def benchmarks(incomplete: str) -> list[str]:
    """Ids and names of benchmarks."""
    return _offered(incomplete, lambda home: _store(home).begun_with(incomplete, ("benchmark",)))


def profiles(incomplete: str) -> list[str]:
    """Ids and names of profiles."""
    return _offered(incomplete, lambda home: _store(home).begun_with(incomplete, ("profile",)))


def searches(incomplete: str) -> list[str]:
    """Ids of searches."""
    return _offered(incomplete, lambda home: (one.id for one in _store(home).searches()))


def results(incomplete: str) -> list[str]:
    """Ids and names of benchmarks and of profiles."""
    return _offered(incomplete, lambda home: _store(home).begun_with(incomplete, ("benchmark", "profile")))


def jobs(incomplete: str) -> list[str]:
    """Ids of jobs."""
    return _offered(incomplete, _jobs)


def models(incomplete: str) -> list[str]:
    """Names and digests of models; where none fits, shells offer files."""
    return _offered(incomplete, _models)


def engines(incomplete: str) -> list[str]:
    """Engines, the last of a list, as targets told of them last."""
    return _offered_last(incomplete, _engines)


def targets(incomplete: str) -> list[str]:
    """Targets, the last of a list."""
    return _offered_last(incomplete, _targets)


Offer = Callable[[str], list[str]]

_OF_TARGETS = tuple(
    f"targets {word}" for word in ("calibrate", "check", "label", "release", "remove", "reserve", "upgrade")
)

ARGUMENTS: Mapping[str, Offer] = {
    **dict.fromkeys(("run", "gate", "recommend", "bisect", "profile", "flops", "trend"), models),
    "resume": searches,
    **dict.fromkeys(("models remove", "models quantize", "models prune", "models convert"), models),
    **dict.fromkeys(("ladder throughput", "ladder latency", "prospects pruning"), models),
    **dict.fromkeys(("rerun", "show", "remove", "ladder show"), benchmarks),
    **dict.fromkeys(("compare", "export"), results),
    **dict.fromkeys(("advise", "profiles show", "profiles remove", "profiles export", "prospects show"), profiles),
    **dict.fromkeys(("jobs show", "jobs cancel", "jobs remove"), jobs),
    **dict.fromkeys(_OF_TARGETS, targets),
}
"""What is offered for the arguments of each command, as its own module says, too: a test holds one to the other.

A shell that asks for one of these need not wait for that module, which loads all that the command works with.
"""

OPTIONS: Mapping[str, Offer] = {"--engine": engines, "--target": targets}
"""And behind options."""


@dataclass(frozen=True)
class Typed:
    """A line as a shell hands it over: the words that are whole, without the program's name, and the one begun."""

    before: tuple[str, ...]
    begun: str


def typed() -> Typed:
    """What was typed so far: bash tells the words and which is the last, zsh and fish the line."""
    if words := os.environ.get("COMP_WORDS", "").split():
        place = int(os.environ.get("COMP_CWORD") or len(words))
        return Typed(tuple(words[1:place]), words[place] if place < len(words) else "")
    line = os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = line.split()
    return Typed(tuple(words[1:]), "") if line[-1:].isspace() or not words else Typed(tuple(words[1:-1]), words[-1])


@contextmanager
def words_made_whole() -> Iterator[None]:
    """Offer bash what it can use: it breaks words at `:`, `=` and `@`, and replaces only what is behind the last mark.

    Typer reads the words of the environment, too, which are whole there from now on. Other shells break no words.
    """
    if "COMP_WORDS" not in os.environ:
        yield
        return
    words = os.environ["COMP_WORDS"].split()
    place = int(os.environ.get("COMP_CWORD") or len(words))
    whole: list[str] = []
    for before, word in pairwise(["", *words[: place + 1]]):
        if whole and (_BREAK.fullmatch(before) or _BREAK.fullmatch(word)):
            whole[-1] += word
        else:
            whole.append(word)
    begun = whole.pop() if place < len(words) else ""
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join([*whole, begun]), str(len(whole))
    value = begun.partition("=")[2] if begun.startswith("-") else begun  # Typer offers values without their option
    standing = value.removesuffix(_REPLACED.findall(value)[0])
    said = StringIO()
    try:
        with redirect_stdout(said):
            yield
    finally:
        sys.stdout.writelines(line.removeprefix(standing) for line in said.getvalue().splitlines(keepends=True))


def quick_offer(line: Typed, command: str) -> Offer | None:
    """What is offered next on a line of this command; None where only the command itself knows."""
    last = line.before[-1] if line.before else ""
    if line.begun.startswith("-") or command not in ARGUMENTS or (last.startswith("-") and last not in OPTIONS):
        return None
    return OPTIONS.get(last) or ARGUMENTS[command]


def _offered_last(incomplete: str, words: Callable[[Home], Iterable[str]]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{word}" for word in _offered(last, words)]


def _offered(incomplete: str, words: Callable[[Home], Iterable[str]]) -> list[str]:
    """Those that go on what is typed. Of what goes wrong nothing is said: it would land in the line that is typed."""
    logging.disable()
    try:
        found = [word for word in words(default_home()) if word.startswith(incomplete) and _HARMLESS.fullmatch(word)]
    except Exception:
        return []
    finally:
        logging.disable(logging.NOTSET)
    return list(dict.fromkeys(found))


def _store(home: Home) -> "Store":
    from enginebench_controller.store.store import Store  # noqa: PLC0415  # brings DuckDB

    return Store(home.store.path, _WAIT_S)


def _jobs(home: Home) -> Iterator[str]:
    from enginebench_controller.jobs.control import job_ids  # noqa: PLC0415

    yield from job_ids(home)


def _models(home: Home) -> Iterator[str]:
    from enginebench_controller.models.library import ModelLibrary  # noqa: PLC0415  # brings onnx
    from enginebench_controller.models.zoo import PREFIX, ZOO  # noqa: PLC0415

    yield from (f"{PREFIX}{name}" for name in ZOO)
    for version in ModelLibrary(home.path / "models").versions():
        yield from (version.name, version.digest[:12])


def _engines(home: Home) -> Iterator[str]:
    yield "all"
    known = [one for snapshot in _store(home).snapshots() for one in snapshot.engines if not one.hidden]
    yield from (one.name for one in known)
    yield from (f"{one.name}@{one.environment}" for one in known)


def _targets(home: Home) -> Iterator[str]:
    store = _store(home)
    yield from (one.name for one in store.targets())
    yield from (one.target for one in store.snapshots())
