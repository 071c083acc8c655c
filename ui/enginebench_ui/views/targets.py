"""Targets as a person looks at them: which there are, whether they answer, and what kind of machine each is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from enginebench_controller.records import LOCAL_TARGET, Target, TargetSnapshot
from enginebench_controller.running.health import Health, HealthAnswer
from enginebench_ui.views.engines import available_names, device_rows, engine_rows, visible
from enginebench_ui.views.text import UNKNOWN, Row, cells, instant

NOT_YET_SEEN = "not yet seen"
ASKING = "asking …"
LOCAL_HEALTH = "started when needed"
"""Of the embedded target: its agent lives as long as a command, so there is nobody to ask."""

_SIGNS = {Health.SERVING: "● serving", Health.NOT_SERVING: "◐ not serving", Health.UNREACHABLE: "○ unreachable"}


@dataclass(frozen=True)
class TargetView:
    """One target on the page; `engines` and `devices` are table rows, `names` the engines that can be used.

    `is_added`: a person added it, so that it can be removed. `was_seen`: it has told what it is.
    """

    name: str
    address: str
    last_seen: str
    facts: tuple[tuple[str, str], ...]
    engines: tuple[Row, ...]
    devices: tuple[Row, ...] = ()
    names: tuple[str, ...] = ()
    is_added: bool = False
    was_seen: bool = False

    @property
    def is_local(self) -> bool:
        """Whether it is the embedded target."""
        return self.name == LOCAL_TARGET and not self.is_added


def target_views(targets: Iterable[Target], snapshots: Iterable[TargetSnapshot]) -> tuple[TargetView, ...]:
    """Return every target that was added or has been seen, by name; the embedded one is only ever seen."""
    seen = {snapshot.target: snapshot for snapshot in snapshots}
    added = {target.name: target.address for target in targets}
    addresses = {name: snapshot.address for name, snapshot in seen.items()} | added
    return tuple(_view(name, addresses[name], seen.get(name), is_added=name in added) for name in sorted(addresses))


def overview_rows(
    views: Iterable[TargetView], snapshots: Iterable[TargetSnapshot], answers: Mapping[str, HealthAnswer]
) -> tuple[Row, ...]:
    """Return a row a target; `answers` are those that came so far, by name."""
    seen = {snapshot.target: snapshot for snapshot in snapshots}
    return tuple(cells(_overview_row(view, seen.get(view.name), answers.get(view.name))) for view in views)


def askable(views: Iterable[TargetView]) -> tuple[Target, ...]:
    """Return the targets that have an agent to ask."""
    return tuple(Target(view.name, view.address, 0) for view in views if not view.is_local)


def host_facts(host: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return what is known of a machine as (heading, value) pairs; what is unknown says so."""
    tuned = host.get("tuned") or ()
    return (
        ("Processor", _known(host.get("cpu_model"))),
        ("Cores", _cores(host)),
        ("Memory", _memory(host)),
        ("Instruction sets", ", ".join(map(str, host.get("isa") or ())) or UNKNOWN),
        ("System", f"{_known(host.get('os'))}, kernel {_known(host.get('kernel'))}"),
        ("Agent", f"{_known(host.get('agent_version'))}, Python {_known(host.get('python_version'))}"),
        *((("Tuned", "; ".join(map(str, tuned))),) if tuned else ()),
    )


def _view(name: str, address: str, snapshot: TargetSnapshot | None, *, is_added: bool) -> TargetView:
    if snapshot is None:
        return TargetView(name, address, NOT_YET_SEEN, (), (), is_added=is_added)
    return TargetView(
        name,
        address,
        instant(snapshot.seen_at_unix_ns),
        host_facts(snapshot.host),
        engine_rows(snapshot.engines),
        device_rows(snapshot.engines),
        available_names(snapshot.engines),
        is_added=is_added,
        was_seen=True,
    )


def _overview_row(view: TargetView, snapshot: TargetSnapshot | None, answer: HealthAnswer | None) -> Row:
    host = snapshot.host if snapshot else {}
    return {
        "Target": view.name,
        "Health": LOCAL_HEALTH if view.is_local else _SIGNS[answer.health] if answer else ASKING,
        "Answer (ms)": answer.seconds * 1000 if answer and answer.health is Health.SERVING else None,
        "Why": answer.cause or None if answer else None,
        "Address": None if view.is_local else view.address,
        "Processor": host.get("cpu_model") or None,
        "Cores": host.get("physical_cores"),
        "Memory": _memory(host) if host.get("memory_bytes") else None,
        "Engines": f"{len(view.names)} of {len(visible(snapshot.engines))}" if snapshot else None,
        "Last seen": view.last_seen,
    }


def _memory(host: Mapping[str, Any]) -> str:
    memory = host.get("memory_bytes")
    return f"{memory / 2**30:.1f} GiB" if memory else UNKNOWN


def _cores(host: Mapping[str, Any]) -> str:
    quota = host.get("cpu_quota_cores")
    limit = f", limited to {quota:g}" if quota else ""
    return f"{_known(host.get('physical_cores'))} physical, {_known(host.get('logical_cores'))} logical{limit}"


def _known(value: Any) -> str:
    return UNKNOWN if value in (None, "") else str(value)
