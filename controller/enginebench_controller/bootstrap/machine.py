"""What another machine is, before anything is put on it."""

import json
from dataclasses import dataclass
from typing import Any

from enginebench_controller.bootstrap.remote import Remote, RemoteError

OLDEST_PYTHON = (3, 11)
ARCHITECTURES = ("x86_64", "aarch64", "armv7l")
"""Those for which the base of enginebench has wheels; `make wheels-check` looks."""

# Runs on any Python 3, so that one that is too old can say so.
_LOOK = """
import json, os, platform, subprocess, sys
def works(*command):
    with open(os.devnull, "r+") as nothing:
        try:
            return subprocess.call(command, stdin=nothing, stdout=nothing, stderr=nothing) == 0
        except OSError:
            return False
try:
    import ensurepip
except ImportError:
    ensurepip = None
print(json.dumps({
    "python": sys.version_info[:2],
    "can_make_environments": ensurepip is not None,
    "system": platform.system(),
    "architecture": platform.machine(),
    "home": os.path.expanduser("~"),
    "has_systemd": works("systemctl", "--user", "show-environment"),
}))
"""


@dataclass(frozen=True)
class Machine:
    """A machine that an agent can live on. `has_systemd` is whether a systemd looks after this user's services."""

    python_version: str
    architecture: str
    home: str
    has_systemd: bool


def look_at(remote: Remote, python: str) -> Machine:
    """Ask a machine for what it is, with an interpreter of its own.

    Raises `RemoteError` that says what to do where no agent can live, and `SshError`.
    """
    said = remote.run(python, "-c", _LOOK, to=f"run {python} (Python 3.11 or newer is needed; name one with --python)")
    try:
        facts = json.loads(said)
        reason = _unfit(facts, python)
    except (ValueError, LookupError, TypeError):
        raise RemoteError(
            f"{python} on {remote.place.destination} is no Python: asked for facts it says {said[:80]!r}; "
            "name another with --python"
        ) from None
    if reason:
        raise RemoteError(f"{remote.place.destination} cannot run an agent: {reason}")
    version = ".".join(map(str, facts["python"]))
    return Machine(version, facts["architecture"], facts["home"], facts["has_systemd"])


def _unfit(facts: dict[str, Any], python: str) -> str:
    if facts["system"] != "Linux":
        return f"it runs {facts['system']}, and agents run on Linux"
    if facts["architecture"] not in ARCHITECTURES:
        return f"it is of the architecture {facts['architecture']}, and agents run on {', '.join(ARCHITECTURES)}"
    if tuple(facts["python"]) < OLDEST_PYTHON:
        version = ".".join(map(str, facts["python"]))
        return f"{python} there is Python {version}, and 3.11 or newer is needed; name another with --python"
    if not facts["can_make_environments"]:
        return f"{python} there cannot make virtual environments; install its venv package (python3-venv on Debian)"
    return ""
