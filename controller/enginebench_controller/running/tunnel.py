"""The way to an agent that listens on the loopback of another machine: an `ssh` that forwards a socket to it."""

import asyncio
import contextlib
import os
import signal
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

from enginebench_controller.running.ssh import SshError, SshPlace, is_ssh, last_words
from enginebench_controller.running.target_address import UNIX_PREFIX

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
    "-oExitOnForwardFailure=yes",
    "-oStreamLocalBindUnlink=yes",
    # A connection shared with others would keep the forwarding after this ssh has ended.
    "-oControlPath=none",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
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


async def _open(place: SshPlace, socket: Path, limit_s: float) -> Process:
    forwarding = ("-L", f"{socket}:127.0.0.1:{place.agent_port}")
    command = place.command(_REMOTE, (*_OPTIONS, *forwarding))
    try:
        # Ctrl-C is the controller's to handle: it still needs the tunnel to cancel runs.
        ssh = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
    except OSError as error:
        raise SshError(place, f"ssh cannot be started: {error.strerror}") from error
    try:
        await asyncio.wait_for(_await_ready(ssh, place), limit_s)
    except TimeoutError:
        await _close(ssh)
        raise SshError(place, f"nothing within {limit_s:g} s") from None
    except BaseException:
        await _close(ssh)
        raise
    return ssh


async def _await_ready(ssh: Process, place: SshPlace) -> None:
    assert ssh.stdout is not None and ssh.stderr is not None  # noqa: S101  # pipes, as asked for
    async for line in ssh.stdout:
        if line.decode(errors="replace").strip() == _READY:
            return
    raise SshError(place, last_words((await ssh.stderr.read()).decode(errors="replace")))


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
