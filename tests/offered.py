"""Targets that say everything a planner asks of them; nothing here was seen."""

from dataclasses import replace

import invented


def engine(name, environment="default", *, version="1.0", hidden=False, devices=("CPU",), options=(), **changes):
    """An engine that is available, as in a snapshot."""
    available = {
        "version": version,
        "formats": ["onnx"],
        "loads": ["async", "sync"],
        "hints": ["none"],
        "multiple_streams": False,
        "profiling": True,
        "options": [{"name": one, "type": "str", "choices": [], "help": ""} for one in options],
        "devices": [
            {"name": one, "full_name": f"invented {one}", "precisions": ["f32"], "resources": [one], "properties": {}}
            for one in devices
        ],
    }
    common = {"environment": environment, "python_version": "3.11", "distribution": "d", "unavailable": None}
    return common | {"name": name, "hidden": hidden, "available": available | changes}


def missing(name, reason="it is not installed"):
    """An engine that is not available."""
    why = {"kind": "not_installed", "reason": reason, "detail": ""}
    return engine(name) | {"available": None, "unavailable": why}


def target(*engines, name="local", cores=2):
    """A target with these engines."""
    host = replace(invented.snapshot().host, physical_cores=cores)
    return replace(invented.snapshot(name), host=host, engines=tuple(engines))
