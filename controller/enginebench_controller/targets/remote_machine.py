"""Another machine over the system's `ssh`: commands there, what it is, and the agent as its user's service."""

import json
import shlex
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from enginebench_controller.errors import RemoteError
from enginebench_controller.targets.addresses import SshError, SshPlace, failed_itself, last_line
from enginebench_proto.agreed.wheels import why_no_agent_on

_BEGIN = "enginebench begins"
"""Said before each command, because a login may print things of its own, and what a command prints is read."""


class Remote:
    """A machine to run commands on. Every method raises `SshError` when ssh does not get there."""

    def __init__(self, place: SshPlace) -> None:
        self.place = place

    def run(self, *words: str, to: str) -> str:
        """Run a command and return what it printed. `to` says what for. Raises `RemoteError` when it fails."""
        return self._checked(self._ended(shlex.join(words)), to)

    def succeeds(self, *words: str) -> bool:
        """Whether a command ends with exit code 0."""
        return self._ended(shlex.join(words)).returncode == 0

    def read(self, path: str) -> str | None:
        """The text of a file there; None where there is none that can be read."""
        done = self._ended(f"cat {shlex.quote(path)}")
        return done.stdout if done.returncode == 0 else None

    def write(self, path: str, content: bytes, sha256: str) -> None:
        """Put a file there, whole or not at all, and its folder. Raises `RemoteError`."""
        folder, part, whole = (shlex.quote(each) for each in (str(Path(path).parent), path + ".part", path))
        # A connection that breaks looks like the end of the file to `cat`: only the digest tells.
        check = f"printf '%s  %s\\n' {sha256} {part} | sha256sum -c - >/dev/null"
        line = f"mkdir -p {folder} && cat > {part} && {check} && mv {part} {whole}"
        self._checked(self._ended(line, content), f"write {path}")

    def _ended(self, line: str, content: bytes = b"") -> "subprocess.CompletedProcess[str]":
        try:
            words = self.place.command(f"echo {shlex.quote(_BEGIN)}; {line}")
            done = subprocess.run(words, input=content, capture_output=True, check=False)
        except OSError as error:
            raise SshError(self.place, f"ssh cannot be started: {error.strerror}") from error
        out, err = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
        if failed_itself(done.returncode):
            raise SshError(self.place, last_line(err, "the connection broke"))  # of which it says nothing
        return subprocess.CompletedProcess(done.args, done.returncode, out.partition(f"{_BEGIN}\n")[2], err)

    def _checked(self, done: "subprocess.CompletedProcess[str]", to: str) -> str:
        if done.returncode != 0:
            said = last_line(done.stderr) if done.stderr.strip() else last_line(done.stdout)
            raise RemoteError(f"could not {to} on {self.place.destination}: it says {said!r}")
        return done.stdout


OLDEST_PYTHON = (3, 11)
ARCHITECTURES = ("x86_64", "aarch64", "armv7l")
"""Those for which the base of enginebench has wheels; `make wheels-check` looks."""

# Runs on any Python 3, so that one that is too old can say so.
_LOOK = """
import json, os, platform, subprocess, sys, sysconfig
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
    "built_for": sysconfig.get_config_var("HOST_GNU_TYPE") or "",
    "home": os.path.expanduser("~"),
    "has_systemd": works("systemctl", "--user", "show-environment"),
}))
"""


@dataclass(frozen=True)
class RemoteMachine:
    """A machine that an agent can live on.

    `built_for` is what its Python was built for; `has_systemd` whether a systemd looks after this user's services.
    """

    python_version: str
    architecture: str
    built_for: str
    home: str
    has_systemd: bool


def look_at(remote: Remote, python: str) -> RemoteMachine:
    """Ask a machine for what it is, with an interpreter of its own.

    Raises `RemoteError` that says what to do where no agent can live, and `SshError`.
    """
    look = f"exec({_LOOK!r})"  # in one line, as csh takes no other
    said = remote.run(python, "-c", look, to=f"run {python} (Python 3.11 or newer is needed; name one with --python)")
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
    return RemoteMachine(version, facts["architecture"], facts["built_for"], facts["home"], facts["has_systemd"])


def _unfit(facts: dict[str, Any], python: str) -> str:
    if reason := why_no_agent_on(facts["system"]):
        return reason
    if facts["architecture"] not in ARCHITECTURES:
        return f"it is of the architecture {facts['architecture']}, and agents run on {', '.join(ARCHITECTURES)}"
    if tuple(facts["python"]) < OLDEST_PYTHON:
        version = ".".join(map(str, facts["python"]))
        return f"{python} there is Python {version}, and 3.11 or newer is needed; name another with --python"
    if not facts["can_make_environments"]:
        return f"{python} there cannot make virtual environments; install its venv package (python3-venv on Debian)"
    return ""


UNIT = "enginebench-agent.service"
UNIT_FOLDER = ".config/systemd/user"


class UserService:
    """What systemd there is asked. Every method raises `SshError`, and `RemoteError` with systemd's own words."""

    def __init__(self, remote: Remote, home: str) -> None:
        self._remote = remote
        self._path = f"{home}/{UNIT_FOLDER}/{UNIT}"

    def is_active(self) -> bool:
        """Whether the agent runs."""
        return self._remote.succeeds("systemctl", "--user", "is-active", "--quiet", UNIT)

    def has(self, unit: str) -> bool:
        """Whether this is the text of the unit file; systemd may have loaded another."""
        return self._remote.read(self._path) == unit

    def keep(self, unit: str) -> None:
        """Have this text as the unit file, loaded, and the service enabled."""
        self._remote.write(self._path, unit.encode(), sha256(unit.encode()).hexdigest())
        self._remote.run("systemctl", "--user", "daemon-reload", to="load the unit file")
        self._remote.run("systemctl", "--user", "enable", "--quiet", UNIT, to="enable the service")

    def start(self) -> None:
        """Have the agent running, as it is where it runs already."""
        self._remote.run("systemctl", "--user", "start", UNIT, to="start the agent")

    def restart(self) -> None:
        """Have an agent running that was started now."""
        self._remote.run("systemctl", "--user", "restart", UNIT, to="restart the agent")

    def stop(self) -> None:
        """End the agent, its runs and its children; their outcomes are spooled then."""
        self._remote.run("systemctl", "--user", "stop", UNIT, to="stop the agent")

    def lingers(self) -> bool:
        """Ask that this user's services run while nobody is logged in; whether that is allowed."""
        return self._remote.succeeds("loginctl", "enable-linger")
