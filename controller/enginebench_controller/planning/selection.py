"""Which engines of a target a user's words mean."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

Engine = Mapping[str, Any]
"""One entry of `TargetSnapshot.engines`."""

DEFAULT_ENVIRONMENT = "default"

_NEAR = 0.8
"""How like a name must be to be meant: at less, "ort" means torch, and so does "nosuch"."""


def select_engines(names: Sequence[str], engines: Sequence[Engine], target: str) -> tuple[list[Engine], list[str]]:
    """The engines a selection means on one target, and a sentence for each name that means none.

    `name` prefers the environment "default", `name@environment` is exact, `name@*` takes every environment and `all`
    every available engine that is not hidden.
    """
    chosen: dict[tuple[str, str], Engine] = {}
    problems = []
    for name in names:
        found = _matching(name, engines)
        usable = [engine for engine in found if engine["available"]]
        if not usable:
            problems.append(_why_not(name, found, engines, target))
        chosen |= {(engine["name"], engine["environment"]): engine for engine in usable}
    return list(chosen.values()), problems


def _matching(selection: str, engines: Sequence[Engine]) -> list[Engine]:
    if selection == "all":
        return _one_environment_each([e for e in engines if not e["hidden"] and e["available"]])
    name, _, environment = selection.partition("@")
    named = [engine for engine in engines if engine["name"] == name]
    if environment == "*":
        return named
    if environment:
        return [engine for engine in named if engine["environment"] == environment]
    usable = [engine for engine in named if engine["available"]]
    return sorted(usable or named, key=_default_first)[:1]


def _one_environment_each(engines: list[Engine]) -> list[Engine]:
    """One of each name and version: the same engine in two environments would only measure itself twice."""
    chosen: dict[tuple[str, str], Engine] = {}
    for engine in sorted(engines, key=_default_first):
        chosen.setdefault((engine["name"], engine["available"]["version"]), engine)
    return sorted(chosen.values(), key=lambda engine: (engine["name"], engine["environment"]))


def _default_first(engine: Engine) -> tuple[bool, str]:
    return engine["environment"] != DEFAULT_ENVIRONMENT, engine["environment"]


def _why_not(selection: str, found: Sequence[Engine], engines: Sequence[Engine], target: str) -> str:
    if found:
        return f"engine {selection!r} is unavailable on target {target!r}: {found[0]['unavailable']['reason']}"
    if selection == "all":
        return f"target {target!r} has no available engine; see `enginebench devices`"
    known = sorted({engine["name"] for engine in engines if not engine["hidden"]})
    near = difflib.get_close_matches(selection.partition("@")[0], known, n=1, cutoff=_NEAR)
    environments = sorted({e["environment"] for e in engines if e["name"] == selection.partition("@")[0]})
    if environments:
        return f"target {target!r} has engine {selection.partition('@')[0]!r} only in: {', '.join(environments)}"
    hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(known) or 'none'}"
    return f"target {target!r} has no engine {selection!r}; {hint}"
