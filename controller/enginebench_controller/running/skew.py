"""Controller and agent of different versions: what both know works, and a sentence says which of them to upgrade."""

import importlib.metadata
from collections.abc import Mapping
from typing import Any

from enginebench_proto.v1 import host_pb2

OWN_VERSION = importlib.metadata.version("enginebench")
OWN_REVISION = max(host_pb2.WireRevision.values())
_MOST_CHARACTERS = 40


def skew_sentence(target: str, host: Mapping[str, Any]) -> str | None:
    """Who should be upgraded, where agent and controller speak different revisions of the wire; else None.

    `host` is what the target said of itself. Agents from before there were revisions tell none.
    """
    theirs = host["wire_revision"] or 0
    if theirs == OWN_REVISION:
        return None
    older = theirs < OWN_REVISION
    versions = f"it has enginebench {shown_version(host['agent_version'])}, this is {OWN_VERSION}"
    remedy = f"upgrade the agent on {target}" if older else "upgrade enginebench here"
    age = "an older" if older else "a newer"
    return f"target {target!r} has {age} agent ({versions}): what both know works; for the rest {remedy}"


def shown_version(told: str) -> str:
    """A version as an agent told it, fit for a sentence."""
    shown = "".join(character for character in told[:_MOST_CHARACTERS] if character.isprintable())
    return shown or "of unknown version"
