"""Targets and their engines as a person looks at them: which there are, whether they answer, what machine each is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from enginebench_controller.records import (
    LOCAL_TARGET,
    AvailableEngine,
    Device,
    Engine,
    HostFacts,
    Target,
    TargetSnapshot,
    UnavailableEngine,
)
from enginebench_controller.records.cause import cause
from enginebench_controller.records.target import in_environment
from enginebench_controller.targets.health import Health, HealthAnswer
from enginebench_controller.verdicts.host_words import caches_of, kinds_of_cores, memory_of, processor_of
from enginebench_proto.agreed.words import DEFAULT_ENVIRONMENT
from enginebench_ui.shared.text import UNKNOWN, Row, cells, instant
from enginebench_ui.shared.versions import format_name


def visible(engines: Iterable[Engine]) -> tuple[Engine, ...]:
    """Return the engines that do not exist for testing only."""
    return tuple(engine for engine in engines if not engine.hidden)


def engine_rows(engines: Iterable[Engine]) -> tuple[Row, ...]:
    """Return a row an engine that can be used, with what it can do; hidden ones are left out.

    Those of one environment stand together, the default one first.
    """
    found = (engine for engine in sorted(visible(engines), key=_place) if isinstance(engine, AvailableEngine))
    return tuple(cells(_available_row(engine)) for engine in found)


def unavailable_rows(engines: Iterable[Engine]) -> tuple[Row, ...]:
    """Return a row an engine that cannot be used, with the reason; hidden ones are left out."""
    found = (engine for engine in sorted(visible(engines), key=_place) if isinstance(engine, UnavailableEngine))
    return tuple(cells(_start(engine) | {"Why": _known(cause(engine.reason)), **_origin(engine)}) for engine in found)


def device_rows(engines: Iterable[Engine]) -> tuple[Row, ...]:
    """Return a row a device of an engine that is available, with what it can do; hidden engines are left out.

    A last row of an engine tells how many more devices it has than its agent lists.
    """
    return tuple(
        cells(_device_row(engine, device))
        for engine in sorted(visible(engines), key=_place)
        if isinstance(engine, AvailableEngine)
        for device in (*engine.devices, *_more_devices(engine))
    )


def available_names(engines: Iterable[Engine]) -> tuple[str, ...]:
    """Return the engines that can be used, as a command names them: NAME, or NAME@ENVIRONMENT outside the default."""
    found = (engine for engine in visible(engines) if isinstance(engine, AvailableEngine))
    return tuple(in_environment(engine.name, engine.environment) for engine in found)


def _place(engine: Engine) -> tuple[bool, str, str]:
    return engine.environment not in ("", DEFAULT_ENVIRONMENT), engine.environment, engine.name


def _start(engine: Engine) -> Row:
    return {"Environment": _known(engine.environment), "Engine": _known(engine.name)}


def _origin(engine: Engine) -> Row:
    return {"Python": engine.python_version, "Plugin": engine.distribution}


def _available_row(engine: AvailableEngine) -> Row:
    return {
        **_start(engine),
        "Version": engine.version,
        "Devices": _list([*(_known(device.name) for device in engine.devices), *_more(engine)]) or "none found",
        "Formats": _list(map(format_name, engine.formats)),
        "Loads": _list(engine.loads),
        "Hints": _list(engine.hints),
        "Streams": _yes(engine.multiple_streams),
        "Layer times": _yes(engine.profiling),
        **_origin(engine),
    }


def _more(engine: AvailableEngine) -> tuple[str, ...]:
    """How many devices an engine has besides those that are listed, in words; nothing where all are."""
    return (f"and {engine.more_devices:,} more",) if engine.more_devices else ()


def _more_devices(engine: AvailableEngine) -> Iterable[Device]:
    return (Device("…", words) for words in _more(engine))


def _device_row(engine: AvailableEngine, device: Device) -> Row:
    properties = (f"{name.replace('_', ' ')}: {value}" for name, value in device.properties.items())
    return {
        "Device": _known(device.name),
        "Full name": device.full_name or None,
        "Engine": _known(engine.name),
        "Environment": _known(engine.environment),
        "Precisions": _list(device.precisions),
        "Shares": _list(device.resources),
        "Properties": "; ".join(properties) or None,
    }


def _list(values: Iterable[str]) -> str | None:
    return ", ".join(values) or None


def _yes(value: bool) -> str:
    return "yes" if value else "no"


NOT_YET_SEEN = "not yet seen"
ASKING = "asking …"
LOCAL_HEALTH = "started when needed"
"""Of the embedded target: its agent lives as long as a command, so there is nobody to ask."""

SIGNS = {Health.SERVING: "● serving", Health.NOT_SERVING: "◐ not serving", Health.UNREACHABLE: "○ unreachable"}


@dataclass(frozen=True)
class TargetView:
    """One target on the page, with what it said last; None where it has said nothing yet.

    `is_added`: a person added it, so that it can be removed. The tables of its engines are made when they are asked
    for: of a thousand targets one is looked at.
    """

    name: str
    address: str
    snapshot: TargetSnapshot | None = None
    is_added: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether it is the embedded target."""
        return self.name == LOCAL_TARGET and not self.is_added

    @property
    def was_seen(self) -> bool:
        """Whether it has told what it is."""
        return self.snapshot is not None

    @property
    def last_seen(self) -> str:
        """When it told that."""
        return NOT_YET_SEEN if self.snapshot is None else instant(self.snapshot.seen_at_unix_ns)

    @property
    def cpu_model(self) -> str | None:
        """The processor that it has, None where that is unknown."""
        return None if self.snapshot is None else self.snapshot.host.cpu_model

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What is known of the machine, each with its heading."""
        return () if self.snapshot is None else host_facts(self.snapshot.host)

    @property
    def engines(self) -> tuple[Row, ...]:
        """A table row an engine that can be used."""
        return engine_rows(self._told)

    @property
    def unavailable(self) -> tuple[Row, ...]:
        """A table row an engine that cannot be used."""
        return unavailable_rows(self._told)

    @property
    def devices(self) -> tuple[Row, ...]:
        """A table row a device."""
        return device_rows(self._told)

    @property
    def names(self) -> tuple[str, ...]:
        """The engines that can be used."""
        return available_names(self._told)

    @property
    def _told(self) -> tuple[Engine, ...]:
        return () if self.snapshot is None else self.snapshot.engines


def target_views(targets: Iterable[Target], snapshots: Iterable[TargetSnapshot]) -> tuple[TargetView, ...]:
    """Return every target that was added or has been seen, by name; the embedded one is only ever seen."""
    seen = {snapshot.target: snapshot for snapshot in snapshots}
    views = {name: TargetView(name, one.address, one) for name, one in seen.items()}
    views |= {one.name: TargetView(one.name, one.address, seen.get(one.name), True, one.labels) for one in targets}
    return tuple(views[name] for name in sorted(views))


def overview_rows(views: Sequence[TargetView], answers: Mapping[str, HealthAnswer]) -> tuple[Row, ...]:
    """Return a row a target; `answers` are those that came so far, by name. Labels where any has some."""
    labelled = any(view.labels for view in views)
    return tuple(cells(_overview_row(view, answers.get(view.name), labelled=labelled)) for view in views)


def askable(views: Iterable[TargetView]) -> tuple[Target, ...]:
    """Return the targets that have an agent to ask."""
    return tuple(Target(view.name, view.address, 0) for view in views if not view.is_local)


def host_facts(host: HostFacts) -> tuple[tuple[str, str], ...]:
    """Return what is known of a machine as (heading, value) pairs; what is unknown says so."""
    return (
        ("Processor", _known(processor_of(host))),
        ("Cores", _cores(host)),
        ("Memory", memory_of(host) or UNKNOWN),
        *((("Caches", caches),) if (caches := caches_of(host)) else ()),
        *((("Emulated", host.emulation),) if host.emulation else ()),
        *((("Virtual", host.virtualization),) if host.virtualization else ()),
        ("Instruction sets", ", ".join(host.isa) or UNKNOWN),
        ("System", f"{_known(host.os)}, kernel {_known(host.kernel)}"),
        ("Agent", f"{_known(host.agent_version)}, Python {_known(host.python_version)}"),
        *((("Tuned", "; ".join(host.tuned)),) if host.tuned else ()),
    )


def _overview_row(view: TargetView, answer: HealthAnswer | None, *, labelled: bool) -> Row:
    snapshot = view.snapshot
    host = snapshot.host if snapshot else HostFacts()
    return {
        "Target": view.name,
        "Health": LOCAL_HEALTH if view.is_local else SIGNS[answer.health] if answer else ASKING,
        **({"Labels": _list(f"{key}={value}" for key, value in view.labels.items())} if labelled else {}),
        "Answer (ms)": answer.seconds * 1000 if answer and answer.health is Health.SERVING else None,
        "Why": answer.cause or None if answer else None,
        "Reserved": answer.reservation.words if answer and answer.reservation else None,
        "Address": None if view.is_local else view.address,
        "Processor": processor_of(host),
        "Cores": host.physical_cores,
        "Memory": memory_of(host) or None,
        "Engines": f"{len(view.names)} of {len(visible(snapshot.engines))}" if snapshot else None,
        "Last seen": view.last_seen,
    }


def _cores(host: HostFacts) -> str:
    limit = f", limited to {host.cpu_quota_cores:g}" if host.cpu_quota_cores else ""
    limit += f": {kinds}" if (kinds := kinds_of_cores(host)) else ""
    return f"{_known(host.physical_cores)} physical, {_known(host.logical_cores)} logical{limit}"


def _known(value: Any) -> str:
    return UNKNOWN if value in (None, "") else str(value)
