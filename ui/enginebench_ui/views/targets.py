"""Targets as a person looks at them: what kind of machine, which engines, and why one is missing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from enginebench_controller.records import Target, TargetSnapshot
from enginebench_ui.views.text import UNKNOWN, Row, cells, instant

NOT_YET_SEEN = "not yet seen"


@dataclass(frozen=True)
class TargetView:
    """One target on the page; `engines` are table rows, empty as long as the target was never asked."""

    name: str
    address: str
    last_seen: str
    facts: tuple[tuple[str, str], ...]
    engines: tuple[Row, ...]


def target_views(targets: Iterable[Target], snapshots: Iterable[TargetSnapshot]) -> tuple[TargetView, ...]:
    """Return every target that was added or has been seen, by name; the embedded one is only ever seen."""
    seen = {snapshot.target: snapshot for snapshot in snapshots}
    addresses = {name: snapshot.address for name, snapshot in seen.items()}
    addresses |= {target.name: target.address for target in targets}
    return tuple(_view(name, addresses[name], seen.get(name)) for name in sorted(addresses))


def host_facts(host: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return what is known of a machine as (heading, value) pairs; what is unknown says so."""
    memory = host.get("memory_bytes")
    return (
        ("Processor", _known(host.get("cpu_model"))),
        ("Cores", _cores(host)),
        ("Memory", f"{memory / 2**30:.1f} GiB" if memory else UNKNOWN),
        ("Instruction sets", ", ".join(map(str, host.get("isa") or ())) or UNKNOWN),
        ("System", f"{_known(host.get('os'))}, kernel {_known(host.get('kernel'))}"),
        ("Agent", f"{_known(host.get('agent_version'))}, Python {_known(host.get('python_version'))}"),
    )


def engine_rows(engines: Sequence[Mapping[str, Any]]) -> tuple[Row, ...]:
    """Return a row a device, or one with the reason where an engine is unavailable; hidden engines are left out."""
    return tuple(cells(row) for engine in engines if not engine.get("hidden") for row in _rows(engine))


def _view(name: str, address: str, snapshot: TargetSnapshot | None) -> TargetView:
    if snapshot is None:
        return TargetView(name, address, NOT_YET_SEEN, (), ())
    return TargetView(
        name, address, instant(snapshot.seen_at_unix_ns), host_facts(snapshot.host), engine_rows(snapshot.engines)
    )


def _rows(engine: Mapping[str, Any]) -> list[Row]:
    available = engine.get("available")
    if not available:
        reason = (engine.get("unavailable") or {}).get("reason")
        return [_row(engine, status=f"unavailable: {_known(reason)}")]
    devices = available.get("devices") or ()
    if not devices:
        return [_row(engine, version=available.get("version"), status="available, no device found")]
    return [_row(engine, version=available.get("version"), device=device, status="available") for device in devices]


def _row(
    engine: Mapping[str, Any], *, status: str, version: str | None = None, device: Mapping[str, Any] | None = None
) -> Row:
    device = device or {}
    return {
        "Engine": _known(engine.get("name")),
        "Version": version,
        "Environment": _known(engine.get("environment")),
        "Device": device.get("name"),
        "Full name": device.get("full_name") or None,
        "Precisions": ", ".join(map(str, device.get("precisions") or ())) or None,
        "Status": status,
    }


def _cores(host: Mapping[str, Any]) -> str:
    quota = host.get("cpu_quota_cores")
    limit = f", limited to {quota:g}" if quota else ""
    return f"{_known(host.get('physical_cores'))} physical, {_known(host.get('logical_cores'))} logical{limit}"


def _known(value: Any) -> str:
    return UNKNOWN if value in (None, "") else str(value)
