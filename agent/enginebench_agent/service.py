"""The agent as a service: its systemd unit, printed; its word that it serves; and the question whether one does."""

import contextlib
import os
import re
import socket
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from enginebench_proto.agreed.meeting import CA_CERTIFICATE, certificate_name, key_name
from enginebench_proto.agreed.roles import CertificateKind

SERVING = "READY=1"
ENDING_SECONDS = 60
"""How long an agent may take, when its runs have had their time, to end them and to spool what came of them."""


def stopping(drain_seconds: int) -> str:
    """The state of an agent that lets runs go on for so long; systemd waits for it, whatever the unit says."""
    return f"STOPPING=1\nEXTEND_TIMEOUT_USEC={(drain_seconds + ENDING_SECONDS) * 1_000_000}"


def notify(state: str) -> None:
    """Send a state to the socket that `NOTIFY_SOCKET` names, as sd_notify(3) does. Never raises."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # a name of the abstract kind, which lies in no folder
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(state.encode(), address)


# A proxy is for the world outside; the agent of this machine is not behind it.
_OPTIONS = (("grpc.enable_http_proxy", 0),)
_CLIENT_FILES = (CA_CERTIFICATE, key_name(CertificateKind.CLIENT), certificate_name(CertificateKind.CLIENT))


class UnhealthyError(Exception):
    """The agent does not answer, or says that it is not serving; the text is one sentence."""


def check_health(address: str, limit_seconds: float, tls: Path | None = None) -> None:
    """Ask the standard health service; over mutual TLS with the client's certificate of the folder `tls`, where given.

    Raises `UnhealthyError`.
    """
    with _channel(address, tls) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=limit_seconds)
        except grpc.RpcError as error:
            raise UnhealthyError(_unanswered(address, error, limit_seconds, tls)) from error
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise UnhealthyError(f"the agent at {address} answers that it is not serving: look at its output")


def _channel(address: str, tls: Path | None) -> Any:
    if tls is None:
        return grpc.insecure_channel(address, options=_OPTIONS)
    credentials = grpc.ssl_channel_credentials(*(_read(tls / name) for name in _CLIENT_FILES))
    return grpc.secure_channel(address, credentials, options=_OPTIONS)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnhealthyError(
            f"cannot read {path} ({error.strerror}): --tls takes a folder that `enginebench ca issue client NAME "
            "--read-only --out DIR` made"
        ) from error


_REASONS = {
    "hostname verification": "its certificate names another host",
    "certificate_verify_failed": "its certificate is not from the authority whose files --tls names",
    "wrong_version_number": "it speaks plain text: leave --tls out",
    "errors resolving": "no machine is known by this name",
    "dns resolution failed": "no machine is known by this name",
    "name resolution": "no machine is known by this name",
    "connection refused": "nothing listens on this port",
}
"""By what gRPC says while it connects, in lower case."""


def _unanswered(address: str, error: grpc.RpcError, limit_seconds: float, tls: Path | None) -> str:
    certificates = "" if tls else "; one that wants certificates is asked with --tls DIR"
    return (
        f"no agent answers at {address or repr(address)} ({_reason(error, limit_seconds)}): "
        f"start `enginebench-agent serve`, or look at its output{certificates}"
    )


def _reason(error: grpc.RpcError, limit_seconds: float) -> str:
    said = error.details() or ""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"nothing within {limit_seconds:g} s"
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return "what listens there is no agent"
    if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return said or "it does not let you in"
    return next((reason for part, reason in _REASONS.items() if part in said.lower()), "it cannot be reached")


SYSTEM_DATA_DIR = Path("/var/lib/enginebench/agent")
ACCOUNT = "enginebench"
"""The account a system service runs as."""

_HOMES = (Path("/home"), Path("/root"))
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:@,+=-]+")

_UNIT = """\
# {file}, made by `enginebench-agent service unit --{manager}`.
[Unit]
Description=enginebench agent
{ordering}StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=notify
ExecStart={command}
{place}Restart=on-failure
RestartSec=5
# Only the agent is asked to stop: it ends its children itself and spools their outcomes. What is left is killed.
KillMode=mixed
TimeoutStopSec=60
# A child that the kernel kills for its memory is one failed run, and no reason to end the agent.
OOMPolicy=continue
UMask=0077

NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
# @mount is for bubblewrap, which shuts children in where it is installed, and mounts in a namespace of its own only.
SystemCallFilter=@system-service @mount
SystemCallErrorNumber=EPERM
# Engines write machine code and run it.
MemoryDenyWriteExecute=no
{confinement}
[Install]
WantedBy={target}
"""

_SYSTEM_CONFINEMENT = """\

CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome={protect_home}
PrivateTmp=yes
# /sys and /proc/sys stay readable: frequency, temperature and energy are among the evidence.
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RemoveIPC=yes
# Engines find graphics cards and NPUs in /dev, some of them once a driver was loaded; groups decide who may open them.
PrivateDevices=no
"""

_USER_CONFINEMENT = """\
# A user's own manager can hide folders from a service only where the kernel lets users make namespaces, and refuses to
# start it elsewhere. So only a system service (`--system`) has ProtectSystem, ProtectHome, PrivateTmp and their kind.
"""


class Manager(Enum):
    """Whose systemd runs the agent: the machine's, or that of one user."""

    SYSTEM = "system"
    USER = "user"


@dataclass(frozen=True)
class UnitOptions:
    """What the agent is started with, as `serve` takes it. `python` is its interpreter."""

    manager: Manager
    data_dir: Path
    host: str
    port: int
    tls: Path | None = None
    plain_text: bool = False
    announce: bool = False
    python: Path = Path(sys.executable)


def unit_text(options: UnitOptions) -> str:
    """The unit file, to be kept as enginebench-agent.service."""
    is_system = options.manager is Manager.SYSTEM
    needed = [options.python, options.data_dir, *([options.tls] if options.tls else [])]
    protect_home = "read-only" if any(_lives_in_a_home(place) for place in needed) else "yes"
    return _UNIT.format(
        file="/etc/systemd/system/enginebench-agent.service"
        if is_system
        else "~/.config/systemd/user/enginebench-agent.service",
        manager=options.manager.value,
        ordering="Wants=network-online.target\nAfter=network-online.target\n" if is_system else "",
        command=" ".join(_word(word.replace("$", "$$")) for word in _command(options)),
        place=_place(options.data_dir) if is_system else "",
        confinement=_SYSTEM_CONFINEMENT.format(protect_home=protect_home) if is_system else _USER_CONFINEMENT,
        target="multi-user.target" if is_system else "default.target",
    )


def _command(options: UnitOptions) -> list[str]:
    # -P keeps the folder the service starts in, a home mostly, off the import path.
    serve = [str(options.python), "-P", "-m", "enginebench_agent", "serve"]
    access = ["--tls", str(options.tls)] if options.tls else ["--plain-text"] if options.plain_text else []
    told = ["--announce"] if options.announce else []
    listening = ["--host", options.host, "--port", str(options.port), *access, *told]
    return [*serve, *listening, "--data-dir", str(options.data_dir)]


def _place(data_dir: Path) -> str:
    state = SYSTEM_DATA_DIR.parent
    if data_dir.is_relative_to(state):  # systemd makes that folder, and gives it to the account
        return f"User={ACCOUNT}\nStateDirectory={state.name}\nStateDirectoryMode=0700\n"
    return f"User={ACCOUNT}\nReadWritePaths={_word(str(data_dir))}\n"


def _lives_in_a_home(place: Path) -> bool:
    """Whether a service that may not look into homes does not see this place, or the one it is a link to."""
    places = (place, place.resolve())
    return any(place.is_relative_to(home) for place in places for home in _HOMES)


def _word(text: str) -> str:
    """One word of a unit file: spaces, quotes and % mean themselves."""
    if _PLAIN_WORD.fullmatch(text):
        return text
    return '"' + text.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"') + '"'
