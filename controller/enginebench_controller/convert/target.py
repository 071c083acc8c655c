"""What a target says of itself: host facts and engines, as plain data."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from enginebench_controller.convert.presence import optional
from enginebench_proto.v1 import engine_pb2, host_pb2

MAX_NAME_CHARS = 100
MAX_REASON_CHARS = 500
MAX_DETAIL_CHARS = 16_384
MAX_LISTED = 64
"""What a sound agent tells at most, of texts and of lists. Others are cut here, and what is left out is counted."""


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
        "name": _short(message.name),
        "environment": _short(message.environment.name),
        "python_version": _short(message.environment.python_version),
        "distribution": _short(message.distribution, MAX_REASON_CHARS),
        "hidden": message.hidden,
        **state,
    }


def _from_available(message: engine_pb2.AvailableEngine) -> Any:
    options = [
        {
            "name": _short(option.name),
            "type": _short(option.type),
            "choices": _shorts(option.choices),
            "help": _short(option.help, MAX_REASON_CHARS),
            "profile_only": option.profile_only,
        }
        for option in message.options[:MAX_LISTED]
    ]
    devices = [
        {
            "name": _short(device.name),
            "full_name": _short(device.full_name),
            "precisions": _shorts(device.precisions),
            "resources": _shorts(device.resources),
            "properties": {_short(k): _short(v) for k, v in islice(device.properties.items(), MAX_LISTED)},
        }
        for device in message.devices[:MAX_LISTED]
    ]
    return {
        "version": _short(message.version),
        "formats": _shorts(message.formats),
        "loads": _shorts(message.loads),
        "hints": _shorts(message.hints),
        "multiple_streams": message.multiple_streams,
        "profiling": message.profiling,
        "options": options,
        "devices": devices,
        "more_devices": message.more_devices + len(message.devices) - len(devices),
    }


def _from_unavailable(message: engine_pb2.UnavailableEngine) -> Any:
    known = message.kind in engine_pb2.UnavailableKind.values()  # a newer agent may have more of them
    kind = engine_pb2.UnavailableKind.Name(message.kind if known else 0).removeprefix("UNAVAILABLE_KIND_").lower()
    reason, detail = _short(message.reason, MAX_REASON_CHARS), _short(message.detail, MAX_DETAIL_CHARS)
    return {"kind": kind, "reason": reason, "detail": detail}


def _shorts(texts: Sequence[str]) -> list[str]:
    return list(map(_short, texts[:MAX_LISTED]))


def _short(text: str, most: int = MAX_NAME_CHARS) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
