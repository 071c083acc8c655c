"""Targets that say everything a planner asks of them, and what is planned for one; nothing here was seen."""

from dataclasses import replace

import invented
from enginebench_controller.plan.expand import Case
from enginebench_controller.records import (
    AvailableEngine,
    Configuration,
    Device,
    EngineOption,
    EngineRef,
    ModelVersion,
    UnavailableEngine,
    UnavailableKind,
)

CASE = Case(
    "edge",
    EngineRef("fake", "default", "1.0"),
    ModelVersion("a" * 64, "net", "onnx", (), 1),
    Configuration("CPU", batch=1, cores=1),
    ("fake:0",),
)


def engine(name, environment="default", *, version="1.0", hidden=False, devices=("CPU",), options=(), **changes):
    """An engine that is available, as in a snapshot."""
    available = {
        "version": version,
        "formats": ("onnx",),
        "loads": ("async", "sync"),
        "hints": ("none",),
        "profiling": True,
        "options": tuple(map(EngineOption, options)),
        "devices": tuple(Device(one, f"invented {one}", ("f32",), (one,)) for one in devices),
    }
    return AvailableEngine(name=name, environment=environment, hidden=hidden, **available | changes)


def missing(name, reason="it is not installed", environment="default"):
    """An engine that is not available."""
    return UnavailableEngine(name=name, environment=environment, kind=UnavailableKind.NOT_INSTALLED, reason=reason)


def target(*engines, name="local", cores=2):
    """A target with these engines."""
    host = replace(invented.snapshot().host, physical_cores=cores)
    return replace(invented.snapshot(name), host=host, engines=tuple(engines))
