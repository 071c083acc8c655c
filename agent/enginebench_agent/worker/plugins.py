"""Finding plugins by their entry points and loading one of them, with every misbehaviour turned into a reason."""

import contextlib
import platform
import re
import traceback
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from importlib.metadata import EntryPoint, distributions, entry_points
from itertools import islice
from typing import TypeVar, get_args

import pluggy

from enginebench_agent import wire
from enginebench_agent.worker.failures import (
    MAX_DETAIL_CHARS,
    MAX_NAME_CHARS,
    MAX_REASON_CHARS,
    UnavailableError,
    exception_text,
    shortened,
)
from enginebench_plugins import spec
from enginebench_proto.agreed.words import SUFFIXES
from enginebench_proto.v1 import engine_pb2

T = TypeVar("T")

GROUP = "enginebench"

MAX_BATCHES = 4096
MAX_LISTED = 64
"""Of devices, options, choices and properties: a list that somebody reads."""

_FORMAT_NAME = re.compile(r"[a-z0-9_]{1,32}")
_ENDING = re.compile(r"\.[a-z0-9_]{1,16}")
_MOST_ENDINGS, _BEGINNING_BYTES = 8, 256


def installed() -> dict[str, list[EntryPoint]]:
    """The entry points of every engine name, by name; more than one where distributions claim the same name.

    Reads package metadata only; no plugin is imported.
    """
    by_name: dict[str, list[EntryPoint]] = {}
    for entry_point in sorted(_readable(), key=lambda point: (point.name, _distribution(point))):
        by_name.setdefault(entry_point.name, []).append(entry_point)
    return by_name


def _readable() -> Iterable[EntryPoint]:
    try:
        return entry_points(group=GROUP)
    except Exception as error:  # of one distribution whose metadata is damaged: no reason to leave the others out
        traceback.print_exception(error)
        return list(_of_each_distribution())


def _of_each_distribution() -> Iterator[EntryPoint]:
    """Those of all whose metadata can be read; of two copies of one, the first on the path counts."""
    seen = set()
    for distribution in distributions():
        with contextlib.suppress(Exception):
            if (name := distribution.metadata["Name"]) not in seen:
                seen.add(name)
                yield from distribution.entry_points.select(group=GROUP)


def listing() -> list[engine_pb2.Engine]:
    """Every engine installed here, as far as package metadata tells."""
    return [_listed(name, points) for name, points in installed().items()]


def describe(name: str) -> engine_pb2.Engine:
    """One engine with its abilities and devices, or the reason why it cannot be used. Never raises."""
    points = installed().get(name, [])
    message = _listed(name, points)
    try:
        engine = load(name, points)
        message.hidden = engine.hidden
        info, devices, more = _asked(engine, name)
        message.available.CopyFrom(wire.to_available_engine(info, devices))
        message.available.more_devices = more
    except BaseException as error:  # whatever a plugin does is data
        message.unavailable.CopyFrom(_to_message(error, name))
    return message


def load(name: str, points: Sequence[EntryPoint] | None = None) -> spec.Engine:
    """Import the plugin of this name and make its engine. Raises `UnavailableError` with the reason."""
    points = installed().get(name, []) if points is None else points
    entry_point = _only(name, points)
    manager = pluggy.PluginManager(spec.PROJECT_NAME)
    manager.add_hookspecs(spec)
    try:
        manager.register(entry_point.load(), name=name)
        manager.check_pending()
        engine = manager.hook.enginebench_engine()
    except BaseException as error:  # SystemExit and panics of native modules included
        raise _broken(f"The plugin '{name}' could not be loaded", error) from error
    if not isinstance(engine, spec.Engine):
        raise UnavailableError(
            engine_pb2.UNAVAILABLE_KIND_BROKEN,
            f"The plugin '{name}' returned {type(engine).__name__} where its hook enginebench_engine should return "
            "an Engine.",
        )
    if engine.spec_version > spec.SPEC_VERSION:
        raise UnavailableError(
            engine_pb2.UNAVAILABLE_KIND_UNSUPPORTED,
            f"The plugin '{name}' is written for version {engine.spec_version} of the contract, and this enginebench "
            f"knows those up to {spec.SPEC_VERSION}: install a newer enginebench.",
        )
    return engine


def abilities(engine: spec.Engine, name: str) -> tuple[spec.EngineInfo, tuple[spec.Device, ...]]:
    """What an engine says of itself, checked. Raises `UnavailableError` with the reason where it cannot say."""
    info, devices, _ = _asked(engine, name)
    return info, devices


def _asked(engine: spec.Engine, name: str) -> tuple[spec.EngineInfo, tuple[spec.Device, ...], int]:
    """What it says of itself, its first devices, and how many more it has."""
    try:
        info = engine.info()
        devices, more = _first(engine.devices())
        _check_abilities(info, devices)
        info, devices = _bounded_info(info), tuple(map(_bounded_device, devices))
        wire.to_available_engine(info, devices)
    except spec.EngineUnavailableError as error:
        kind = engine_pb2.UNAVAILABLE_KIND_UNSUPPORTED if error.installed else _NOT_INSTALLED
        raise UnavailableError(kind, exception_text(error), _cause_text(error)) from error
    except BaseException as error:
        raise _broken(f"The engine '{name}' could not tell its version and devices", error) from error
    return info, devices, more


def _first(devices: Sequence[spec.Device]) -> tuple[tuple[spec.Device, ...], int]:
    """As many as are listed, and how many there are besides; plugins also give generators."""
    rest = iter(devices)
    first = tuple(islice(rest, MAX_LISTED))
    return first, len(devices) - len(first) if isinstance(devices, Sized) else sum(1 for _ in rest)


def _bounded_info(info: spec.EngineInfo) -> spec.EngineInfo:
    options = tuple(_bounded_option(option) for option in islice(info.options, MAX_LISTED))
    own = tuple(islice(info.own_formats, MAX_LISTED))
    batches = tuple(islice(info.batches, MAX_BATCHES))
    return replace(info, version=_bounded(info.version), options=options, own_formats=own, batches=batches)


def _bounded_option(option: spec.OptionSpec) -> spec.OptionSpec:
    choices = tuple(map(_bounded, islice(option.choices, MAX_LISTED)))
    return replace(option, name=_bounded(option.name), help=_bounded(option.help, MAX_REASON_CHARS), choices=choices)


def _bounded_device(device: spec.Device) -> spec.Device:
    properties = islice(device.properties.items(), MAX_LISTED)
    return replace(
        device,
        name=_bounded(device.name),
        full_name=_bounded(device.full_name),
        precisions=tuple(islice(device.precisions, MAX_LISTED)),
        resources=tuple(map(_bounded, islice(device.resources, MAX_LISTED))),
        properties={_bounded(name): _bounded(value) for name, value in properties},
    )


def _bounded(value: T, most: int = MAX_NAME_CHARS) -> T:
    """A text that is not too long; what is no text is told from one elsewhere."""
    return shortened(value, most) if isinstance(value, str) else value  # type: ignore[return-value]  # a str is one


_NOT_INSTALLED = engine_pb2.UNAVAILABLE_KIND_NOT_INSTALLED


def _only(name: str, points: Sequence[EntryPoint]) -> EntryPoint:
    if not points:
        raise UnavailableError(_NOT_INSTALLED, f"No engine named '{name}' is installed in this environment.")
    if len(points) > 1:
        raise UnavailableError(
            engine_pb2.UNAVAILABLE_KIND_BROKEN,
            f"More than one distribution brings an engine named '{name}': "
            f"{', '.join(map(_distribution, points))}; uninstall all but one.",
        )
    return points[0]


def _check_abilities(info: spec.EngineInfo, devices: Sequence[spec.Device]) -> None:
    if not isinstance(info, spec.EngineInfo):
        raise TypeError(f"info() returned {type(info).__name__} instead of EngineInfo")
    if strangers := [type(device).__name__ for device in devices if not isinstance(device, spec.Device)]:
        raise TypeError(f"devices() returned {strangers[0]} instead of Device")
    names = [device.name for device in devices]
    if len(set(names)) < len(names):
        raise ValueError(f"devices() returned one name twice: {', '.join(names)}")
    for option in info.options:
        _check_option(option)
    for own in info.own_formats:
        _check_own_format(own)


def _check_own_format(own: spec.FileFormat) -> None:
    """Refuse a format that would stand for another one, or that no file could be found by."""
    if not isinstance(own, spec.FileFormat):
        raise TypeError(f"info() has {type(own).__name__} among its own formats instead of FileFormat")
    if not _FORMAT_NAME.fullmatch(own.name) or own.name in frozenset(spec.ModelFormat):
        raise ValueError(
            f"a format of its own cannot be called {own.name!r}: use 1 to 32 small letters, digits or '_', and none of "
            + ", ".join(spec.ModelFormat)
        )
    if not own.suffixes or len(own.suffixes) + len(own.companions) > _MOST_ENDINGS:
        raise ValueError(f"the format {own.name} needs a suffix, and has up to {_MOST_ENDINGS} with its companions")
    for ending in (*own.suffixes, *own.companions):
        if not _ENDING.fullmatch(ending):
            raise ValueError(f"the format {own.name} has {ending!r} where an ending such as '.net' should be")
    if taken := SUFFIXES.keys() & set(own.suffixes):
        raise ValueError(f"the format {own.name} cannot take {', '.join(sorted(taken))}, which are enginebench's")
    if len(own.begins) > _MOST_ENDINGS:
        raise ValueError(f"the format {own.name} begins in more than {_MOST_ENDINGS} ways")
    for offset, content in own.begins:
        if not (isinstance(content, bytes) and content and offset >= 0 and offset + len(content) <= _BEGINNING_BYTES):
            raise ValueError(f"the format {own.name} begins beyond the first {_BEGINNING_BYTES} bytes, or with nothing")


def _check_option(option: spec.OptionSpec) -> None:
    """Refuse what an agent would otherwise stumble over at each start of a run."""
    if not isinstance(option, spec.OptionSpec):
        raise TypeError(f"info() has {type(option).__name__} among its options instead of OptionSpec")
    if option.type not in get_args(spec.OptionValue):
        raise TypeError(
            f"the option {option.name!r} has the type {option.type!r}, which is not bool, int, float or str"
        )
    if strangers := [choice for choice in option.choices if type(choice) is not option.type]:
        raise TypeError(f"the option {option.name!r} has a choice {strangers[0]!r}, which is no {option.type.__name__}")


def _broken(what: str, error: BaseException) -> UnavailableError:
    traceback.print_exception(error)
    text = exception_text(error)
    named = text if text == type(error).__name__ else f"{type(error).__name__}: {text}"
    return UnavailableError(engine_pb2.UNAVAILABLE_KIND_BROKEN, f"{what}: {named}", text)


def _to_message(error: BaseException, name: str) -> engine_pb2.UnavailableEngine:
    if not isinstance(error, UnavailableError):
        error = _broken(f"The engine '{name}' could not be described", error)
    reason, detail = shortened(str(error), MAX_REASON_CHARS), shortened(error.detail, MAX_DETAIL_CHARS)
    return engine_pb2.UnavailableEngine(kind=error.kind, reason=reason, detail=detail)


def _cause_text(error: BaseException) -> str:
    cause = error.__cause__ or error.__context__
    return exception_text(cause) if cause is not None else ""


def _listed(name: str, points: Sequence[EntryPoint]) -> engine_pb2.Engine:
    return engine_pb2.Engine(
        name=shortened(name),
        environment=engine_pb2.Environment(python_version=platform.python_version()),
        distribution=", ".join(map(_distribution, points[:MAX_LISTED])),
    )


def _distribution(entry_point: EntryPoint) -> str:
    return shortened(f"{entry_point.dist.name} {entry_point.dist.version}") if entry_point.dist else "unknown"
