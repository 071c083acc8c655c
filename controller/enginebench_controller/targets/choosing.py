"""Which targets are meant by what a person typed: their names, or the labels that they are to have."""

import asyncio
import difflib
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from enginebench_controller.errors import EnginebenchError, InputError, UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.records import NOISE_AGE_NS, Noise, Target, TargetSnapshot
from enginebench_controller.targets.client import AgentClient
from enginebench_proto.agreed.names import as_name
from enginebench_proto.v1 import run_pb2

LABEL = "label:"
_AT_ONCE = 64
_MOST_NAMED = 5
_SEE = "`enginebench targets check` says why"


def parse_label(text: str) -> tuple[str, str]:
    """A label of "KEY=VALUE". Raises `InputError`."""
    key, separator, value = (part.strip() for part in as_name(text).partition("="))
    allowed = all(one.isalnum() or one in "-_./+" for one in key + value)
    if not (separator and key and value and allowed):
        raise InputError(f"{text!r} is no label: write KEY=VALUE in letters, digits and -_./+, such as site=lab2")
    return key, value


def meant(home: Home, words: Sequence[str]) -> tuple[str, ...]:
    """The names of the targets that `words` mean: a name or an address itself, "label:KEY=VALUE,…" all that have these.

    What a comma has cut off a list of labels is put back. Raises `InputError` for a label that nobody has.
    """
    return tuple(dict.fromkeys(name for one in _groups(home, words) for name in one.names))


def to_measure(
    home: Home, words: Sequence[str], any_of: int | None = None, say: Callable[[str], object] = lambda _: None
) -> tuple[str, ...]:
    """The targets `meant`, and of those that labels chose only the quiet ones that answer.

    `say` is told who is left out; a target that is named is not. With `any_of`, so many of them are taken: such as
    answer, and of these first those that nobody else has reserved, then those with the fewest runs before one, then
    the least noisy.

    Raises `InputError` also for too few targets, or where all with the labels are noisy, and `UnreachableError` where
    too few answer, or none of those with the labels.
    """
    groups = _groups(home, words)
    noise = home.store.noise(time.time_ns() - NOISE_AGE_NS) if any_of or any(one.labels for one in groups) else {}
    quiet = [replace(one, names=_quiet(one, noise, say)) if one.labels else one for one in groups]
    names = tuple(dict.fromkeys(name for one in quiet for name in one.names))
    for group, left in zip(groups, quiet, strict=True):
        if not (left.names or (any_of and names)):
            raise InputError(
                f"all targets with {_told(group.labels)} are noisy ({_noisy(group, noise)}): name one to measure there "
                "anyway"
            )
    groups = quiet
    if any_of is not None:
        return _some(home, names, any_of, noise)
    named = {name for one in groups if not one.labels for name in one.names}
    asked = tuple(name for name in names if name not in named)
    silent = set(asked) - set(_runs(home, asked)) if asked else set()
    for one in groups:
        if one.labels and silent.issuperset(one.names):
            raise UnreachableError(f"no target with {_told(one.labels)} answers: {_SEE}")
    if silent:
        say(f"left out, as they do not answer: {_listed([name for name in asked if name in silent])} ({_SEE})")
    return tuple(name for name in names if name not in silent)


@dataclass(frozen=True)
class _Group:
    """What one word means: a target by its name, or those that have its labels."""

    names: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


def _groups(home: Home, words: Sequence[str]) -> list[_Group]:
    words = list(map(as_name, words))
    if not any(LABEL in word for word in words):
        return [_Group((word,)) for word in words]
    wanted, offered = _selections(words), _offered(home)
    return [_Group((one,)) if isinstance(one, str) else _Group(_having(one, offered), one) for one in wanted]


def _selections(words: Iterable[str]) -> list[str | dict[str, str]]:
    """What was typed, each a name or labels by key."""
    found: list[str | dict[str, str]] = []
    for part in (part.strip() for word in words for part in word.split(",")):
        if part.startswith(LABEL):
            found.append(dict([parse_label(part.removeprefix(LABEL))]))
        elif "=" in part and found and isinstance(found[-1], dict):
            key, value = parse_label(part)
            found[-1][key] = value
        elif part:
            found.append(part)
    return found


def labels_of(target: Target, seen: TargetSnapshot | None) -> Mapping[str, frozenset[str]]:
    """All that a target can be chosen by: what is known of it, unless the labels that a person gave say otherwise."""
    facts = {"name": frozenset({target.name})}
    if seen is not None:
        engines = frozenset(one.name for one in seen.available if not one.hidden)
        facts |= {"arch": frozenset({seen.host.architecture}), "engine": engines}
    return facts | {key: frozenset({value}) for key, value in target.labels.items()}


def _offered(home: Home) -> Mapping[str, Mapping[str, frozenset[str]]]:
    seen = {one.target: one for one in home.store.snapshots()}
    return {one.name: labels_of(one, seen.get(one.name)) for one in home.store.targets()}


def _having(wanted: Mapping[str, str], offered: Mapping[str, Mapping[str, frozenset[str]]]) -> tuple[str, ...]:
    found = [name for name, has in offered.items() if all(value in has.get(key, ()) for key, value in wanted.items())]
    if found:
        return tuple(found)
    known = {f"{key}={value}" for has in offered.values() for key, values in has.items() for value in values}
    for label in (f"{key}={value}" for key, value in wanted.items()):
        if label not in known:
            near = difflib.get_close_matches(label, sorted(known), n=1, cutoff=0.5)
            hint = (
                f"did you mean {near[0]!r}?" if near else "give it one with `enginebench targets label NAME KEY=VALUE`"
            )
            raise InputError(f"no target has the label {label!r}; {hint}")
    raise InputError(f"no target has all of {_told(wanted)}; see `enginebench targets list`")


def _quiet(group: _Group, noise: Mapping[str, Noise], say: Callable[[str], object]) -> tuple[str, ...]:
    """Those that are not noisy."""
    quiet = tuple(name for name in group.names if name not in noise or not noise[name].is_noisy)
    if quiet and len(quiet) < len(group.names):
        say(f"left out as noisy, until they are quiet or a day has passed: {_noisy(group, noise)}")
    return quiet


def _noisy(group: _Group, noise: Mapping[str, Noise]) -> str:
    return _listed(
        [f"{one}: {noise[one].sentence}" for one in group.names if one in noise and noise[one].is_noisy], "; "
    )


def _listed(parts: Sequence[str], separator: str = ", ") -> str:
    """The first few, and how many more there are."""
    more = f"{separator}and {len(parts) - _MOST_NAMED} more" if len(parts) > _MOST_NAMED else ""
    return separator.join(parts[:_MOST_NAMED]) + more


def _told(wanted: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in wanted.items())


def _some(home: Home, names: Sequence[str], count: int, noise: Mapping[str, Noise]) -> tuple[str, ...]:
    if count > len(names):
        raise InputError(f"--any {count} of {len(names)} targets: there are too few")
    names = random.sample(names, len(names))  # of equals not always the same
    runs = _runs(home, names, with_reservations=True)
    ready = sorted(runs, key=lambda name: (*runs[name], _noise_rank(noise.get(name))))
    if len(ready) < count:
        silent = _listed([name for name in names if name not in runs])
        many = f"only {len(ready)} of the {len(names)} targets answer" if ready else "none of the targets answers"
        raise UnreachableError(f"{many} (not {silent}): {_SEE}")
    return tuple(ready[:count])


def _noise_rank(noise: Noise | None) -> float:
    """What is not known lies between quiet and noisy."""
    return NOISE_UNKNOWN if noise is None or noise.disturbed is None else noise.disturbed


NOISE_UNKNOWN = 0.1


def _runs(home: Home, names: Sequence[str], *, with_reservations: bool = False) -> dict[str, tuple[bool, int]]:
    """Of those that answer, by name and in the order of `names`: whether somebody else has reserved it, as far as that
    was asked, and how many runs are queued or going on.
    """
    addresses = {one.name: one.address for one in home.store.targets()}

    async def ask(name: str, at_once: asyncio.Semaphore) -> tuple[bool, int] | None:
        with suppress(EnginebenchError):
            async with at_once, AgentClient(name, addresses.get(name, name), home.tls) as client:
                runs = sum(one.state != run_pb2.RUN_STATE_FINISHED for one in await client.runs())
                if with_reservations:
                    await client.host()
                reserved = client.reservation
                return reserved is not None and not reserved.yours, runs
        return None

    async def ask_all() -> list[tuple[bool, int] | None]:
        at_once = asyncio.Semaphore(_AT_ONCE)
        return await asyncio.gather(*(ask(name, at_once) for name in names))

    answers = zip(names, asyncio.run(ask_all()), strict=True)
    return {name: found for name, found in answers if found is not None}
