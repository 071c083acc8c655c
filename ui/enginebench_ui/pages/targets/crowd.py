"""Many targets at a glance: what is wrong with some of them, those that a person looks for, and a map of all."""

import html
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

from enginebench_controller.records import Noise
from enginebench_controller.targets.health import Health, HealthAnswer
from enginebench_ui.shared.targets import TargetView
from enginebench_ui.shared.text import UNKNOWN, isolated

MOST_IN_A_TABLE = 30
"""With more targets than these a person looks for some of them, and not at each."""

STALE_NS = 7 * 24 * 3600 * 10**9


class State(StrEnum):
    """How a target is, worst first: one of these, the first that holds."""

    SILENT = "does not answer"
    NOISY = "noisy"
    OLD = "of another version"
    UNSEEN = "not yet seen"
    STALE = "not seen for a week"
    FINE = "fine"


COLOURS = {
    State.SILENT: "#AD215F",
    State.NOISY: "#DD8736",
    State.OLD: "#853FD8",
    State.UNSEEN: "#A586A7",
    State.STALE: "#8A691B",
    State.FINE: "#356D73",
}
TROUBLE = tuple(one for one in State if one is not State.FINE)
BY_STATE = "state"


@dataclass(frozen=True)
class TargetSeen:
    """A target with its state, and with what it can be looked for by."""

    view: TargetView
    state: State

    @property
    def groups(self) -> Mapping[str, str]:
        """What targets can be put together by, with what this one has of it."""
        snapshot = self.view.snapshot
        host = None if snapshot is None else snapshot.host
        facts = {
            BY_STATE: self.state.value,
            "agent": host.agent_version if host else "",
            "arch": host.architecture if host else "",
            "processor": (host.cpu_model or "") if host else "",
        }
        return {**facts, **self.view.labels}

    def has(self, words: Sequence[str]) -> bool:
        """Whether each word is in its name, its address, or what it has."""
        text = " ".join([self.view.name, self.view.address, *(f"{k}={v}" for k, v in self.groups.items())]).lower()
        return all(word.lower() in text for word in words)


def crowd(
    views: Iterable[TargetView], answers: Mapping[str, HealthAnswer], noise: Mapping[str, Noise], own_version: str
) -> tuple[TargetSeen, ...]:
    """Give each target its state; `answers` are those there are, and who has not been asked is not silent."""
    now_ns = time.time_ns()
    return tuple(
        TargetSeen(view, _state(view, answers.get(view.name), noise.get(view.name), own_version, now_ns))
        for view in views
    )


def _state(view: TargetView, answer: HealthAnswer | None, noise: Noise | None, own_version: str, now_ns: int) -> State:
    if answer is not None and answer.health is not Health.SERVING:
        return State.SILENT
    if noise is not None and noise.is_noisy:
        return State.NOISY
    if view.snapshot is None:
        return State.UNSEEN
    if view.snapshot.host.agent_version != own_version:
        return State.OLD
    return State.STALE if now_ns - view.snapshot.seen_at_unix_ns > STALE_NS else State.FINE


def trouble(seen: Iterable[TargetSeen]) -> str:
    """Say in one line what is wrong with how many."""
    count = Counter(one.state for one in seen)
    told = [f"{count[state]:,} {state}" for state in TROUBLE if count[state]]
    every = f"{count.total():,} targets"
    return f"{every}: {', '.join(told)}" if told else f"{every}, all fine"


def groupings(seen: Iterable[TargetSeen]) -> tuple[str, ...]:
    """Return what the targets can be put together by: the state, and what some of them differ in."""
    values: dict[str, set[str]] = {}
    for one in seen:
        for key, value in one.groups.items():
            values.setdefault(key, set()).add(value)
    return (BY_STATE, *(key for key, found in values.items() if key != BY_STATE and len(found) > 1))


def map_html(seen: Sequence[TargetSeen], by: str) -> str:
    """Return a tile a target, a link to it, coloured by state, in groups of what they have of `by`; names are escaped.

    Plain boxes: as a chart a thousand of them take a browser ten seconds.
    """
    groups: dict[str, list[TargetSeen]] = {}
    for one in sorted(seen, key=lambda one: (list(State).index(one.state), one.view.name)):
        groups.setdefault(one.groups.get(by, "") or UNKNOWN, []).append(one)
    states = Counter(one.state for one in seen)
    told = () if by == BY_STATE else (state for state in State if states[state])
    legend = "".join(f"<li>{_tile(state)} {state} ({states[state]:,})</li>" for state in told)
    largest_first = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    parts = "".join(
        f"<section><b>{html.escape(isolated(name))} ({len(found):,})</b>"
        f"<div>{''.join(map(_link, found))}</div></section>"
        for name, found in largest_first
    )
    return f'<div class="eb-map"><ul>{legend}</ul>{parts}</div>'


def _link(one: TargetSeen) -> str:
    told = html.escape(f"{isolated(one.view.name)}: {one.state}, last seen {one.view.last_seen}")
    where = html.escape(f"?target={quote(one.view.name)}")
    return f'<a href="{where}" target="_self" title="{told}" aria-label="{told}">{_tile(one.state)}</a>'


def _tile(state: State) -> str:
    return f'<i style="background:{COLOURS[state]}"></i>'
