"""What a target says of itself: host facts and engines, as plain data."""

from typing import Any

from enginebench_controller.convert.presence import optional
from enginebench_proto.v1 import engine_pb2, host_pb2


def from_host(message: host_pb2.HostFacts) -> dict[str, Any]:
    """Host facts as plain data; unknown ones are None."""
    facts = {name: optional(message, name) for name in ("cpu_model", "physical_cores", "logical_cores")}
    facts |= {name: optional(message, name) for name in ("cpu_quota_cores", "memory_bytes")}
    texts = ("hostname", "os", "kernel", "architecture", "agent_version", "python_version")
    return (
        {name: getattr(message, name) for name in texts}
        | facts
        | {"isa": list(message.isa), "tuned": list(message.tuned), "wire_revision": message.wire_revision or None}
    )


def from_engine(message: engine_pb2.Engine) -> dict[str, Any]:
    """One engine in one environment as plain data, in the form of `TargetSnapshot.engines`."""
    state = {"available": None, "unavailable": None}
    if message.HasField("available"):
        state["available"] = _from_available(message.available)
    else:
        state["unavailable"] = _from_unavailable(message.unavailable)
    return {
        "name": message.name,
        "environment": message.environment.name,
        "python_version": message.environment.python_version,
        "distribution": message.distribution,
        "hidden": message.hidden,
        **state,
    }


def _from_available(message: engine_pb2.AvailableEngine) -> Any:
    options = [{"name": o.name, "type": o.type, "choices": list(o.choices), "help": o.help} for o in message.options]
    devices = [
        {
            "name": device.name,
            "full_name": device.full_name,
            "precisions": list(device.precisions),
            "resources": list(device.resources),
            "properties": dict(device.properties),
        }
        for device in message.devices
    ]
    return {
        "version": message.version,
        "formats": list(message.formats),
        "loads": list(message.loads),
        "hints": list(message.hints),
        "multiple_streams": message.multiple_streams,
        "profiling": message.profiling,
        "options": options,
        "devices": devices,
    }


def _from_unavailable(message: engine_pb2.UnavailableEngine) -> Any:
    known = message.kind in engine_pb2.UnavailableKind.values()  # a newer agent may have more of them
    kind = engine_pb2.UnavailableKind.Name(message.kind if known else 0).removeprefix("UNAVAILABLE_KIND_").lower()
    return {"kind": kind, "reason": message.reason, "detail": message.detail}
