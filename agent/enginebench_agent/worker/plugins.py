"""Finding plugins by their entry points and loading one of them, with every misbehaviour turned into a reason."""

import platform
import traceback
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import get_args

import pluggy

from enginebench_agent import convert
from enginebench_agent.worker.failures import UnavailableError, exception_text
from enginebench_plugins import spec
from enginebench_proto.v1 import engine_pb2

GROUP = "enginebench"


def installed() -> dict[str, list[EntryPoint]]:
    """The entry points of every engine name, by name; more than one where distributions claim the same name.

    Reads package metadata only; no plugin is imported.
    """
    by_name: dict[str, list[EntryPoint]] = {}
    for entry_point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, _distribution(point))):
        by_name.setdefault(entry_point.name, []).append(entry_point)
    return by_name


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
        message.available.CopyFrom(convert.to_available_engine(*abilities(engine, name)))
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
    return engine


def abilities(engine: spec.Engine, name: str) -> tuple[spec.EngineInfo, tuple[spec.Device, ...]]:
    """What an engine says of itself, checked. Raises `UnavailableError` with the reason where it cannot say."""
    try:
        info, devices = engine.info(), tuple(engine.devices())
        _check_abilities(info, devices)
        convert.to_available_engine(info, devices)
    except spec.EngineUnavailableError as error:
        kind = engine_pb2.UNAVAILABLE_KIND_UNSUPPORTED if error.installed else _NOT_INSTALLED
        raise UnavailableError(kind, exception_text(error), _cause_text(error)) from error
    except BaseException as error:
        raise _broken(f"The engine '{name}' could not tell its version and devices", error) from error
    return info, devices


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
    return engine_pb2.UnavailableEngine(kind=error.kind, reason=str(error), detail=error.detail)


def _cause_text(error: BaseException) -> str:
    cause = error.__cause__ or error.__context__
    return exception_text(cause) if cause is not None else ""


def _listed(name: str, points: Sequence[EntryPoint]) -> engine_pb2.Engine:
    return engine_pb2.Engine(
        name=name,
        environment=engine_pb2.Environment(python_version=platform.python_version()),
        distribution=", ".join(map(_distribution, points)),
    )


def _distribution(entry_point: EntryPoint) -> str:
    return f"{entry_point.dist.name} {entry_point.dist.version}" if entry_point.dist else "unknown"
