"""What a child was started for: cores confined, the engine loaded, the configuration checked against it."""

from dataclasses import dataclass
from pathlib import Path

from enginebench_agent import wire
from enginebench_agent.worker import plugins
from enginebench_agent.worker.confine import confine_to_cores
from enginebench_agent.worker.failures import UnavailableError
from enginebench_plugins.spec import (
    Device,
    Engine,
    EngineInfo,
    Load,
    ModelSource,
    Settings,
    UnsupportedSettingsError,
)
from enginebench_plugins.toolkit.engine import refuse_unsupported
from enginebench_proto.v1.configuration_pb2 import Configuration
from enginebench_proto.v1.engine_pb2 import UNAVAILABLE_KIND_UNSUPPORTED
from enginebench_proto.v1.run_pb2 import RUN_KIND_MEASURE, RUN_KIND_PEAKS, RUN_KIND_PROFILE, RunSpec


@dataclass(frozen=True)
class Assignment:
    """One engine, one model and one configuration that fit together."""

    engine: Engine
    info: EngineInfo
    device: Device
    source: ModelSource
    settings: Settings
    configuration: Configuration


def check_known(spec: RunSpec) -> None:
    """Raises `UnavailableError` for what only the agent knows: until its release, one version has many builds."""
    if unknown := wire.unknown_part(spec):
        raise UnavailableError(
            UNAVAILABLE_KIND_UNSUPPORTED,
            f"The environment '{spec.environment}' has an older enginebench than its agent, which does not know "
            f"{unknown}: `enginebench-agent environment upgrade` brings it to that.",
        )


def load_engine(spec: RunSpec) -> tuple[Engine, EngineInfo, tuple[Device, ...]]:
    """Confine the process, then load the engine of a run: thread pools take their size at import.

    Raises `UnsupportedSettingsError` for cores that are not here, `UnavailableError` for an engine that cannot be used.
    """
    confine_to_cores(spec.configuration.cores, spec.configuration.cluster)
    engine = plugins.load(spec.engine)
    return engine, *plugins.abilities(engine, spec.engine)


def check_job(spec: RunSpec, path: Path, engine: Engine, info: EngineInfo, devices: tuple[Device, ...]) -> Assignment:
    """Bring engine, model and configuration together.

    Raises `UnsupportedSettingsError` for anything this engine, device or kind of run does not offer.
    """
    profiling = spec.kind == RUN_KIND_PROFILE
    source = wire.from_model(spec, path)
    settings = wire.from_configuration(spec.configuration, info.options, profiling=profiling)
    _check_kind(spec, info)
    _check_load(settings)
    if source.format not in info.reads:
        known = ", ".join(sorted(info.reads))
        raise UnsupportedSettingsError(f"{spec.engine} does not read the format {source.format}; it reads {known}.")
    device = refuse_unsupported(spec.engine, info, devices, settings)
    return Assignment(engine, info, device, source, settings, spec.configuration)


def _check_kind(spec: RunSpec, info: EngineInfo) -> None:
    if spec.kind not in (RUN_KIND_MEASURE, RUN_KIND_PROFILE, RUN_KIND_PEAKS):
        raise UnsupportedSettingsError(
            "The run names no kind this version knows; it is a measurement, a profile or a calibration."
        )
    if spec.kind == RUN_KIND_PROFILE and not info.profiling:
        raise UnsupportedSettingsError(f"{spec.engine} has no layer profile.")


def _check_load(settings: Settings) -> None:
    if settings.load is Load.SYNC and settings.requests != 1:
        raise UnsupportedSettingsError(
            f"A synchronous load has 1 request in flight, not {settings.requests}; use the load async."
        )
