"""The way to an agent: plain text to this machine, mutual TLS to any other, or a tunnel through `ssh`.

Where there is none, `find_obstacle` tells a person what stands in it: a cause and a remedy.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from enginebench_controller.errors import InputError
from enginebench_controller.targets.addresses import (
    TLS_PREFIX,
    UNIX_PREFIX,
    SshError,
    SshPlace,
    host_and_port,
    is_ssh,
    last_line,
    refuse_unknown_host,
    uses_tls,
    uses_tunnel,
)
from enginebench_proto.agreed.meeting import CA_CERTIFICATE, certificate_name, key_name
from enginebench_proto.agreed.roles import CertificateKind

if TYPE_CHECKING:
    from cryptography import x509

FILE_NAMES = (CA_CERTIFICATE, key_name(CertificateKind.CLIENT), certificate_name(CertificateKind.CLIENT))


def client_credentials(folder: Path) -> Any:
    """gRPC's credentials of the files in a folder. Raises `InputError` where one is missing, damaged or has ended."""
    root, key, certificate = (_read(folder / name) for name in FILE_NAMES)
    _check_in_force(certificate, root, folder)
    return grpc.ssl_channel_credentials(root, key, certificate)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"there is no certificate to show, as {path} is missing: make one with `enginebench ca issue client NAME "
            "--install` where the certificate authority is, or put the three files of yours there"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}): make it readable for you") from error


def _parsed(pem: bytes, path: Path) -> "x509.Certificate":
    # Here, since plain text to this machine should not wait for it.
    from cryptography import x509  # noqa: PLC0415

    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): copy it again") from error


def _check_in_force(pem: bytes, root: bytes, folder: Path) -> None:
    certificate, ca = _parsed(pem, folder / FILE_NAMES[-1]), _parsed(root, folder / CA_CERTIFICATE)
    begin = max(certificate.not_valid_before_utc, ca.not_valid_before_utc)
    if (now := datetime.now(UTC)) < begin:
        is_own = begin > ca.not_valid_before_utc
        which = "your certificate" if is_own else "the authority of your certificate"
        remedy = "renew it with `enginebench ca renew NAME --install`" if is_own else "make another authority"
        raise InputError(
            f"{which} in {folder} is valid from {begin:%Y-%m-%d %H:%M} UTC on, and the clock of this machine says "
            f"{now:%Y-%m-%d %H:%M} UTC: set the clock; or, where it was wrong when that was made, {remedy}"
        )
    if now >= certificate.not_valid_after_utc:
        raise InputError(
            f"your certificate in {folder} ended at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, and the "
            f"clock of this machine says {now:%Y-%m-%d %H:%M} UTC: renew it with `enginebench ca renew NAME --install` "
            "where the certificate authority is, or set the clock"
        )


OPEN_SECONDS = 20.0
"""How long ssh may take until it forwards."""
REOPEN_SECONDS = 1.0
"""Pause between attempts to open a tunnel again that broke."""
CLOSE_SECONDS = 2.0

_READY = "enginebench-tunnel-open"
# ssh forwards before it runs a command, so the command's first word says that the tunnel is open. The command ends with
# its input, and ssh with it: a controller that is killed leaves no tunnel behind.
_REMOTE = f"echo {_READY}; exec cat"
_OPTIONS = (
    # A forwarding of the user's own configuration may fail, as where another session has it: only the tunnel must not.
    "-oExitOnForwardFailure=no",
    # A connection shared with others would keep the forwarding after this ssh has ended.
    "-oControlPath=none",
)


@contextlib.asynccontextmanager
async def reachable(address: str, limit_s: float = OPEN_SECONDS) -> AsyncIterator[str]:
    """Give the address under which gRPC finds the agent of a target, as long as the block lasts.

    An ssh:// address gets a tunnel, from a socket in a folder that only this user may enter; should it break, it is
    opened again. Any other address is its own. Raises `SshError` when ssh is not there within `limit_s` seconds.
    """
    if not is_ssh(address):
        yield address
        return
    place = SshPlace.parse(address)
    with tempfile.TemporaryDirectory(prefix="enginebench-") as folder:
        socket = Path(folder) / "agent"
        ssh = await _open(place, socket, limit_s)
        keeper = asyncio.create_task(_keep_open(ssh, place, socket))
        try:
            yield f"{UNIX_PREFIX}{socket}"
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])
            await _close(ssh)  # a keeper that was cancelled before its first step has not


async def _open(place: SshPlace, socket: Path, limit_s: float) -> Process:
    forwarding = ("-L", f"{socket}:127.0.0.1:{place.agent_port}")
    command = place.command(_REMOTE, (*_OPTIONS, *forwarding))
    socket.unlink(missing_ok=True)  # of a tunnel that broke
    try:
        # Ctrl-C is the controller's to handle: it still needs the tunnel to cancel runs.
        ssh = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
    except OSError as error:
        raise SshError(place, f"ssh cannot be started: {error.strerror}") from error
    try:
        await asyncio.wait_for(_await_ready(ssh, place, socket), limit_s)
    except TimeoutError:
        await _close(ssh)
        raise SshError(place, f"nothing within {limit_s:g} s") from None
    except BaseException:
        await _close(ssh)
        raise
    return ssh


async def _await_ready(ssh: Process, place: SshPlace, socket: Path) -> None:
    assert ssh.stdin and ssh.stdout and ssh.stderr  # noqa: S101  # pipes, as asked for
    async for line in ssh.stdout:
        if line.decode(errors="replace").strip().endswith(_READY):  # what a login prints may end without a newline
            if socket.exists():
                return
            ssh.stdin.close()  # so that it ends, having said why
    raise SshError(place, last_line((await ssh.stderr.read()).decode(errors="replace")))


async def _keep_open(ssh: Process, place: SshPlace, socket: Path) -> None:
    try:
        while True:
            await ssh.wait()
            await asyncio.sleep(REOPEN_SECONDS)
            with contextlib.suppress(SshError):
                ssh = await _open(place, socket, OPEN_SECONDS)
    finally:
        await _close(ssh)


async def _close(ssh: Process) -> None:
    if ssh.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(ssh.pid, signal.SIGTERM)  # terminate() looks for its end first, and asyncio then misses it
    try:
        await asyncio.wait_for(ssh.wait(), CLOSE_SECONDS)
    except TimeoutError:
        ssh.kill()
        await ssh.wait()


# keepalive_timeout_ms alone leaves a stopped peer unnoticed for a minute: the transport's own ping timer decides.
CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    # The probe widens what may be under way to megabytes, and its pings wait behind them: on a slow line for longer
    # than they may, and a result would never be fetched.
    ("grpc.http2.bdp_probe", 0),
    # Closed where nothing is asked for so long, and opened by the next call, as it was by the first.
    ("grpc.client_idle_timeout_ms", 30_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.enable_http_proxy", 0),
    # The profile of a large network comes in one message.
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
)


def open_channel(library: Any, address: str, tls: Path | None = None) -> Any:
    """Make a channel of `grpc` or of `grpc.aio`, whichever `library` is, to a target's address.

    `tls` is the folder of the client's certificate; None where only agents on this machine are called. The agent must
    show a certificate of the same authority for the host in the address. Raises `InputError` where TLS is needed and
    the client's certificate is missing or of no use any more.
    """
    if not uses_tls(address):
        return library.insecure_channel(host_and_port(address), options=CHANNEL_OPTIONS)
    if tls is None:
        raise InputError(f"{address} is reached by TLS, which takes a certificate: see `enginebench ca`")
    try:
        credentials = client_credentials(tls)
    except InputError:
        refuse_unknown_host(address)  # which no certificate would help
        raise
    return library.secure_channel(host_and_port(address), credentials, options=CHANNEL_OPTIONS)


START = "start `enginebench-agent serve` there, or correct the address"
SEE_TO_THE_LINE = "see whether the line is up"


@dataclass(frozen=True)
class Obstacle:
    """Why a target cannot be spoken to, and what to do about it."""

    cause: str
    remedy: str = START

    @property
    def because(self) -> str:
        """The cause in brackets, where it says more than that there is no connection."""
        return "" if self == FAILED else f" ({self.cause})"

    @property
    def is_passing(self) -> bool:
        """Whether a machine that is just starting gets over it by itself."""
        return self in _PASSING or self.remedy == SEE_TO_THE_LINE


NOTHING_LISTENS = Obstacle("nothing listens on this port")
NOTHING_BEHIND_SSH = Obstacle("nothing that speaks plain text listens on this port of that machine's loopback")
UNKNOWN_NAME = Obstacle(
    "no machine of this name is known", "correct the address, or make the name known in DNS or /etc/hosts"
)
NO_DESCRIPTORS = Obstacle(
    "this process may not have more files open", "allow it more (`ulimit -n` shows how many), or ask fewer at once"
)
NO_WAY = Obstacle("there is no way to this machine", "see to the network between, or correct the address")
FAILED = Obstacle("the connection failed")
_PASSING = frozenset({NOTHING_LISTENS, NOTHING_BEHIND_SSH, NO_WAY, FAILED})
HUNG_UP_ON_TLS = Obstacle(
    "it hung up on your certificate",
    "have it issued by the authority of that agent, and look whether an agent listens there at all, and what its clock "
    "says",
)
HUNG_UP_ON_PLAIN_TEXT = Obstacle(
    "it hung up on plain text", f"where that agent has TLS files, write {TLS_PREFIX} before the address"
)

# What gRPC's core says, in lower case, the more telling first.
_OBSTACLES = {
    "certificate has expired": Obstacle(
        "its certificate has ended by the clock of this machine",
        "renew it with `enginebench ca renew NAME` and copy the files there, or set the clock of this machine",
    ),
    "certificate is not yet valid": Obstacle(
        "its certificate is not valid yet by the clock of this machine",
        "set the clock of this machine, or that of the machine where it was issued and issue it anew",
    ),
    "hostname verification": Obstacle(
        "its certificate names another host",
        "use the address it was issued for, or issue it anew with `enginebench ca issue agent NAME --host HOST`",
    ),
    "certificate_verify_failed": Obstacle(
        "its certificate is not from your authority",
        "issue it with `enginebench ca issue agent NAME --host HOST`, and copy the files there",
    ),
    "wrong_version_number": Obstacle(
        "it speaks plain text",
        "start that agent with TLS files, or reach it through an SSH tunnel at 127.0.0.1",
    ),
    # c-ares and the system's resolver say it in their own words each.
    "errors resolving": UNKNOWN_NAME,
    "dns resolution failed": UNKNOWN_NAME,
    "name resolution": UNKNOWN_NAME,
    "too many open files": NO_DESCRIPTORS,
    "connection refused": NOTHING_LISTENS,
    "no route to host": NO_WAY,
    "network is unreachable": NO_WAY,
}
# Only while connecting: a connection that was there and broke tells nothing about certificates.
_CONNECTING = "failed to connect"
_HUNG_UP = ("socket closed", "connection reset", "alert")


def find_obstacle(error: Any, address: str, limit_s: float) -> Obstacle:
    """What stands in the way, by gRPC's own words about a call, of `limit_s` at most, that found no connection."""
    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return Obstacle(f"nothing within {limit_s:g} s", SEE_TO_THE_LINE)
    said = (error.details() or "").lower()
    for part, obstacle in _OBSTACLES.items():
        if part in said:
            return obstacle
    if uses_tunnel(address):  # the near end was there; what it says is how the far end went
        return NOTHING_BEHIND_SSH
    if _CONNECTING in said and any(part in said for part in _HUNG_UP):
        return HUNG_UP_ON_TLS if uses_tls(address) else HUNG_UP_ON_PLAIN_TEXT
    return FAILED
