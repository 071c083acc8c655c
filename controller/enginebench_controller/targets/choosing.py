"""Which targets are meant by what a person typed: their names, or the labels that they are to have."""

import asyncio
import difflib
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from enginebench_controller.errors import EnginebenchError, InputError, UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.records import NOISE_AGE_NS, Noise, Target, TargetSnapshot
from enginebench_controller.targets.client import AgentClient
from enginebench_proto.v1 import run_pb2

LABEL = "label:"
FACTS = ("arch", "engine", "name")
"""What a target says of itself stands beside the labels that a person gave, unless these say otherwise."""
_AT_ONCE = 32
_MOST_NAMED = 5


def parse_label(text: str) -> tuple[str, str]:
    """A label of "KEY=VALUE". Raises `InputError`."""
    key, separator, value = (part.strip() for part in text.partition("="))
    allowed = all(one.isalnum() or one in "-_./+" for one in key + value)
    if not (separator and key and value and allowed):
        raise InputError(f"{text!r} is no label: write KEY=VALUE in letters, digits and -_./+, such as site=lab2")
    return key, value


def meant(
    home: Home, words: Sequence[str], any_of: int | None = None, say: Callable[[str], None] = lambda _: None
) -> tuple[str, ...]:
    """The names of the targets that `words` mean: a name or an address itself, "label:KEY=VALUE,…" all that have these.

    What a comma has cut off a list of labels is put back. Noisy targets are left out where labels chose them, and `say`
    is told; those that are named are meant. With `any_of`, so many of them are taken: such as answer, and of these
    first those with the fewest runs before one, then the least noisy.

    Raises `InputError` for a label that nobody has, for too few targets, or where all with the labels are noisy, and
    `UnreachableError` where too few answer.
    """
    wanted = _selections(words)
    if any_of is None and not any(isinstance(one, dict) for one in wanted):
        return tuple(words)
    noise = home.store.noise(time.time_ns() - NOISE_AGE_NS)
    offered = _offered(home) if any(isinstance(one, dict) for one in wanted) else {}
    names: dict[str, None] = {}
    for one in wanted:
        names.update(dict.fromkeys([one] if isinstance(one, str) else _quiet(_having(one, offered), noise, one, say)))
    return tuple(names) if any_of is None else _some(home, list(names), any_of, noise)


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
    """All that a target can be chosen by: what is known of it, and over that what a person said."""
    facts = {"name": frozenset({target.name})}
    if seen is not None:
        engines = frozenset(one.name for one in seen.available if not one.hidden)
        facts |= {"arch": frozenset({seen.host.architecture}), "engine": engines}
    return facts | {key: frozenset({value}) for key, value in target.labels.items()}


def _offered(home: Home) -> Mapping[str, Mapping[str, frozenset[str]]]:
    seen = {one.target: one for one in home.store.snapshots()}
    return {one.name: labels_of(one, seen.get(one.name)) for one in home.store.targets()}


def _having(wanted: Mapping[str, str], offered: Mapping[str, Mapping[str, frozenset[str]]]) -> list[str]:
    found = [name for name, has in offered.items() if all(value in has.get(key, ()) for key, value in wanted.items())]
    if found:
        return found
    known = {f"{key}={value}" for has in offered.values() for key, values in has.items() for value in values}
    for label in (f"{key}={value}" for key, value in wanted.items()):
        if label not in known:
            near = difflib.get_close_matches(label, sorted(known), n=1, cutoff=0.5)
            hint = (
                f"did you mean {near[0]!r}?" if near else "give it one with `enginebench targets label NAME KEY=VALUE`"
            )
            raise InputError(f"no target has the label {label!r}; {hint}")
    raise InputError(f"no target has all of {_told(wanted)}; see `enginebench targets list`")


def _quiet(
    names: Sequence[str], noise: Mapping[str, Noise], wanted: Mapping[str, str], say: Callable[[str], None]
) -> list[str]:
    """Those that are not noisy."""
    noisy = {name: noise[name].sentence for name in names if name in noise and noise[name].is_noisy}
    quiet = [name for name in names if name not in noisy]
    told = "; ".join(f"{name}: {sentence}" for name, sentence in list(noisy.items())[:_MOST_NAMED])
    more = f"; and {len(noisy) - _MOST_NAMED} more" if len(noisy) > _MOST_NAMED else ""
    if noisy and not quiet:
        raise InputError(f"all targets with {_told(wanted)} are noisy ({told}{more}): name one to measure there anyway")
    if noisy:
        say(f"left out as noisy, until they are quiet or a day has passed: {told}{more}")
    return quiet


def _told(wanted: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in wanted.items())


def _some(home: Home, names: list[str], count: int, noise: Mapping[str, Noise]) -> tuple[str, ...]:
    if count > len(names):
        raise InputError(f"--any {count} of {len(names)} targets: there are too few")
    random.shuffle(names)  # of equals not always the same
    runs = asyncio.run(_runs_of(home, names))
    ready = sorted(runs, key=lambda name: (runs[name], _noise_rank(noise.get(name))))
    if len(ready) < count:
        silent = [name for name in names if name not in runs][:_MOST_NAMED]
        many = f"only {len(ready)} of the {len(names)} targets answer" if ready else "none of the targets answers"
        raise UnreachableError(f"{many} (not {', '.join(silent)}): `enginebench targets check` says why")
    return tuple(ready[:count])


def _noise_rank(noise: Noise | None) -> float:
    """What is not known lies between quiet and noisy."""
    return NOISE_UNKNOWN if noise is None or noise.disturbed is None else noise.disturbed


NOISE_UNKNOWN = 0.1


async def _runs_of(home: Home, names: Sequence[str]) -> dict[str, int]:
    """How many runs are queued or going on at those that answer, by name."""
    addresses = {one.name: one.address for one in home.store.targets()}
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def ask(name: str) -> Iterator[tuple[str, int]]:
        with suppress(EnginebenchError):
            async with at_once, AgentClient(name, addresses.get(name, name), home.tls) as client:
                going_on = [one for one in await client.runs() if one.state != run_pb2.RUN_STATE_FINISHED]
                return iter([(name, len(going_on))])
        return iter(())

    return {name: count for found in await asyncio.gather(*map(ask, names)) for name, count in found}
