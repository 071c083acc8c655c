"""An agent on this machine that lives as long as a command, and the lock that keeps two such commands apart."""

import asyncio
import contextlib
import logging
import platform
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextvars import ContextVar
from pathlib import Path

from filelock import FileLock, Timeout

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.records import LOCAL_TARGET, Target
from enginebench_proto.agreed.durable import make_private_folder
from enginebench_proto.agreed.logs import format_of
from enginebench_proto.agreed.meeting import READY
from enginebench_proto.agreed.wheels import why_no_agent_on

START_SECONDS = 30
STOP_SECONDS = 10
LOCK_POLL_SECONDS = 0.1


def _print(sentence: str) -> None:
    print(sentence, file=sys.stderr)


remark: ContextVar[Callable[[str], object]] = ContextVar("remark", default=_print)
"""Who is told what a person should know before anything runs. A script has somebody of its own, or nobody."""


@contextlib.asynccontextmanager
async def only_command(home: Path) -> AsyncIterator[None]:
    """Have this machine for as long as the block lasts: two benchmarks on one machine would disturb each other.

    A second command waits. Raises `EnginebenchError` where agents do not run.
    """
    _refuse_elsewhere()
    make_private_folder(home)
    lock = FileLock(home / "local-agent.lock", thread_local=False)
    await _acquire(lock)
    try:
        yield
    finally:
        lock.release()


@contextlib.asynccontextmanager
async def local_agent(home: Path, data: Path, *, trusted_models: Iterable[str] = ()) -> AsyncIterator[Target]:
    """Start the agent of this machine, yield it as a target, and stop it afterwards.

    `trusted_models` are digests of models that may run although their format can execute code. The permission is for
    these files only: whoever else reaches the agent's port while it lives can have it load nothing but them.

    Only one at a time, see `only_command`. Raises `EnginebenchError` with the agent's own words when it does not start.
    """
    async with only_command(home), started_agent(data, trusted_models=trusted_models) as address:
        yield Target(LOCAL_TARGET, address, added_at_unix_ns=0)


@contextlib.asynccontextmanager
async def started_agent(
    data_dir: Path,
    *options: str,
    trusted_models: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
    within_s: float | None = START_SECONDS,
) -> AsyncIterator[str]:
    """Start an agent of this data folder on this machine's loopback, yield its address, and stop it afterwards.

    `options` are words for `enginebench-agent serve`, and `environment` is what it has in the place of this process's.
    Raises `EnginebenchError` with the agent's own words when it does not start, or not `within_s`.
    """
    _refuse_elsewhere()
    trusted = (argument for digest in trusted_models for argument in ("--trust-model", digest))
    process = await _start(data_dir, (*options, *trusted), environment)
    try:
        yield await _address(process, within_s)
    finally:
        await _stop(process)


def _refuse_elsewhere() -> None:
    if reason := why_no_agent_on(platform.system()):
        raise EnginebenchError(f"{reason}: measure a target elsewhere, with --target")


async def _acquire(lock: FileLock) -> None:
    if not _is_ours(lock):
        remark.get()("another enginebench command uses this machine; waiting for it to finish")
        # A thread that waits for the lock could not be interrupted: Ctrl-C would hang until the other is done.
        while not _is_ours(lock):
            await asyncio.sleep(LOCK_POLL_SECONDS)


def _is_ours(lock: FileLock) -> bool:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    return True


async def _start(
    data_dir: Path, options: Iterable[str], environment: Mapping[str, str] | None
) -> asyncio.subprocess.Process:
    # The agent leaves when its standard input closes, so that it never outlives a killed controller.
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "enginebench_agent", "serve", "--port", "0", "--exit-with-stdin"),
        *("--data-dir", str(data_dir), "--plain-text"),
        *_logging_as_here(),
        *options,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is the controller's to handle: it cancels runs before it stops the agent
    )


def _logging_as_here() -> tuple[str, ...]:
    """The options that make the agent log as this process does."""
    logger = logging.getLogger("enginebench_controller")
    if not (logger.isEnabledFor(logging.INFO) and logger.handlers):
        return ()
    return ("--verbose", "--log-format", format_of(logger.handlers[0]))


async def _address(process: asyncio.subprocess.Process, within_s: float | None) -> str:
    assert process.stdout is not None  # noqa: S101  # asked for a pipe above
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), within_s)).decode().strip()
    except TimeoutError:
        raise EnginebenchError(f"the local agent did not start within {within_s:g} s; run it again") from None
    if not line.startswith(READY):
        raise EnginebenchError("the local agent did not start; its own message stands above")
    return line.removeprefix(READY)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGINT)  # SIGTERM would let runs go on for a while
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
