"""Targets: machines that run an agent, and what they said of themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LOCAL_TARGET = "local"
"""Name of the embedded target: an agent the controller starts for one benchmark and stops afterwards."""


@dataclass(frozen=True)
class Target:
    """A machine that runs an agent; `address` is "host:port", or "tls://host:port" on loopback by mutual TLS."""

    name: str
    address: str
    added_at_unix_ns: int


@dataclass(frozen=True)
class TargetSnapshot:
    """What a target said of itself when last seen: host facts and engines as plain JSON-able data.

    `engines` entries have: name, environment, python_version, distribution, hidden, and either `available`
    (version, formats, loads, hints, multiple_streams, profiling, options, devices) or `unavailable`
    (kind, reason, detail).
    """

    target: str
    address: str
    seen_at_unix_ns: int
    host: Mapping[str, Any]
    engines: tuple[Mapping[str, Any], ...]
