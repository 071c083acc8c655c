"""The agent's process: one data folder, one port, four services, health and reflection, until it is told to stop."""

import asyncio
import contextlib
import logging
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from enginebench_agent.config import AgentConfig, load_config
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.door.audit import AuditLog
from enginebench_agent.door.entrance import Entrance, make_entrance
from enginebench_agent.door.interceptors import Counting, EndedCall, interceptors
from enginebench_agent.environments.discovery import Discovery
from enginebench_agent.errors import SetupError
from enginebench_agent.files.cache import FileCache
from enginebench_agent.runs.block_clock import IdleLoop
from enginebench_agent.runs.calibrations import PeakFile
from enginebench_agent.runs.queue import Lease
from enginebench_agent.runs.reservations import Reservations
from enginebench_agent.runs.supervisor import Supervisor
from enginebench_agent.service import SERVING, notify, stopping
from enginebench_agent.servicers import AgentServicer, ModelServicer, ReservationServicer, RunServicer
from enginebench_agent.starter import check_stdin
from enginebench_proto.agreed import logs, meeting
from enginebench_proto.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    model_pb2,
    model_pb2_grpc,
    reservation_pb2,
    reservation_pb2_grpc,
    run_pb2,
    run_pb2_grpc,
)


class Stop:
    """What was asked of this process. SIGTERM asks gently; a second one, SIGINT, or a starter that is gone do not.

    Make one in the event loop that is to hear of it.
    """

    def __init__(self, *, with_stdin: bool) -> None:
        """`with_stdin`: the end of standard input means that the starter is gone."""
        self._loop = asyncio.get_running_loop()
        self._asked = asyncio.Event()
        self._at_once = asyncio.Event()
        self._loop.add_signal_handler(signal.SIGTERM, self._ask)
        self._loop.add_signal_handler(signal.SIGINT, self._insist)
        if with_stdin:
            self._loop.add_reader(sys.stdin.fileno(), self._read_away)

    async def asked(self) -> None:
        """Wait until somebody asks, in whatever way."""
        await self._asked.wait()

    async def at_once(self) -> None:
        """Wait until somebody insists."""
        await self._at_once.wait()

    def _ask(self) -> None:
        if self._asked.is_set():
            self._at_once.set()
        self._asked.set()

    def _insist(self) -> None:
        self._at_once.set()
        self._asked.set()

    def _read_away(self) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            self._loop.remove_reader(sys.stdin.fileno())
            self._insist()


STOP_GRACE_SECONDS = 1.0
COLLECT_SECONDS = 1.0
"""How long callers have after the last run to fetch its result; who comes later finds it in the next agent's spool."""
SERVICE_NAMES = (
    agent_pb2.DESCRIPTOR.services_by_name["AgentService"].full_name,
    model_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name,
    run_pb2.DESCRIPTOR.services_by_name["RunService"].full_name,
    reservation_pb2.DESCRIPTOR.services_by_name["ReservationService"].full_name,
)
SERVER_OPTIONS = (
    # Without this a second server binds the same port in silence, and each gets some of the calls.
    ("grpc.so_reuseport", 0),
    # A watcher pings to notice a stopped agent; by default the server takes that for an attack and hangs up.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 500),
    # And the agent notices a stopped caller, whose upload would otherwise block the next one.
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Whoever connects and says nothing, or half of it, is gone after this long; by default it would be two minutes.
    ("grpc.server_handshake_timeout_ms", 10_000),
    # The defaults, said aloud: what one caller can make the agent hold in memory before it is looked at.
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.absolute_max_metadata_size", 16 * 1024),
    ("grpc.max_concurrent_streams", 256),
)

ALONE = "\0enginebench-alone"
"""The name of the socket of whoever has this machine alone. Without a place in the file system: all processes share it
that share a network."""
ALONE_POLL_SECONDS = 0.2

Announcing = Callable[[int], AbstractAsyncContextManager[None]]
"""Announces the agent that listens at this port while a block lasts."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServeOptions:
    """Where to listen and live. Port 0 lets the system choose; `exit_with_stdin` ends the agent with its starter.

    `trusted_models` are digests of models that may run although their format can execute code. Metrics are served at
    `metrics_host` where there is a `metrics_port`. `tls` is the folder of the TLS files, by default the one in the data
    folder; `plain_text` leaves them aside. `announce` tells the local network, where callers need a certificate. Of all
    agents that are started `alone`, one at a time is on a machine, and the others wait.
    """

    host: str
    port: int
    folder: DataFolder
    exit_with_stdin: bool = False
    trusted_models: frozenset[str] = frozenset()
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    tls: Path | None = None
    plain_text: bool = False
    announce: bool = False
    alone: bool = False


@dataclass(frozen=True)
class Servicers:
    """What answers each of our services."""

    agent: AgentServicer
    models: ModelServicer
    runs: RunServicer
    reservations: ReservationServicer


def serve(options: ServeOptions) -> None:
    """Serve until a signal says otherwise. Raises `SetupError` when that cannot begin."""
    entrance = make_entrance(
        options.host,
        options.tls or options.folder.tls,
        is_tls_asked=options.tls is not None,
        is_plain_asked=options.plain_text,
    )
    announcing = _announcing(options, entrance)
    if options.exit_with_stdin:
        check_stdin()
    options.folder.prepare()
    alone = _alone_here(with_stdin=options.exit_with_stdin) if options.alone else contextlib.nullcontext()
    lock = options.folder.locked(with_stdin=options.exit_with_stdin)
    with alone, lock, asyncio.Runner(loop_factory=IdleLoop) as runner:
        runner.run(_serve(options, entrance, announcing))


@contextlib.contextmanager
def _alone_here(*, with_stdin: bool) -> Iterator[None]:
    """Wait until no other agent has this machine alone, by whomever it was started, and have it for the block.

    What is held is the name of a socket. Every user of the machine reaches it, a temporary folder of one's own, as
    batch systems give each job, hides none, no file is left behind, and the kernel frees it with its process, however
    that ends. Raises `SetupError` when `with_stdin` and standard input ends meanwhile: whoever started this is gone.
    """
    with socket.socket(socket.AF_UNIX) as held:
        if not _is_ours(held):
            _log.info("another agent has this machine alone: waiting for it to end")
            while not _is_ours(held):
                _pause(with_stdin=with_stdin)
        yield


def _is_ours(held: socket.socket) -> bool:
    try:
        held.bind(ALONE)
    except OSError:
        return False
    return True


def _pause(*, with_stdin: bool) -> None:
    if not with_stdin:
        time.sleep(ALONE_POLL_SECONDS)
    elif select.select([sys.stdin], [], [], ALONE_POLL_SECONDS)[0] and not os.read(sys.stdin.fileno(), 4096):
        raise SetupError("whoever started this agent is gone: it does not wait for the machine any longer")


async def _serve(options: ServeOptions, entrance: Entrance, announcing: Announcing) -> None:
    folder = options.folder
    config = _load_config(options)
    for leftover in folder.runs.iterdir():  # of an agent that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    reservations = Reservations(folder.reservation_file, config.max_reservation_seconds)
    lease = Lease(reservations)
    cache = FileCache(folder.files, config.max_cache_bytes)
    discovery = Discovery(config, lambda: _load_config(options), folder.runs, lease)
    peaks = PeakFile(folder.peaks_file)
    supervisor = Supervisor(folder, cache, discovery, lease, peaks)
    stop = Stop(with_stdin=options.exit_with_stdin)
    counting = Counting()
    passed = interceptors(counting, entrance.identify, AuditLog(folder.audit_log), config.max_streams)
    servicers = Servicers(
        AgentServicer(discovery, folder, peaks, reservations, entrance.identify),
        ModelServicer(cache),
        RunServicer(supervisor, entrance.identify),
        ReservationServicer(reservations, entrance.identify),
    )
    server, health_servicer = _build_server(servicers, passed)
    metrics = contextlib.ExitStack()
    metrics.enter_context(_metrics(options, supervisor, discovery, counting.calls))
    port = _bind(server, options, entrance)
    for name in SERVICE_NAMES:
        await health_servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    await server.start()
    keeping = asyncio.create_task(reservations.keep())
    if not options.exit_with_stdin:  # who starts an agent for one command says which engines it is about
        discovery.begin()
    sandbox = config.child_limits.sandbox
    shut_in_by = str(sandbox.program) if sandbox else "nothing"
    _log.info(
        "listening", extra=logs.told(host=options.host, port=port, folder=str(folder.root), shut_in_by=shut_in_by)
    )
    print(f"{meeting.READY}{_shown_host(options.host)}:{port}", flush=True)  # the ready line
    notify(SERVING)
    async with announcing(port):
        await stop.asked()
    notify(stopping(config.drain_seconds))
    _log.info("stopping", extra=logs.told(runs=len(supervisor.summaries())))
    supervisor.accept_no_more()
    await health_servicer.enter_graceful_shutdown()
    await _drain(supervisor, stop, config.drain_seconds)
    await supervisor.close()
    await discovery.close()
    await server.stop(STOP_GRACE_SECONDS)
    keeping.cancel()
    await reservations.settle()
    metrics.close()


def _announcing(options: ServeOptions, entrance: Entrance) -> Announcing:
    """What announces the agent at its port. Raises `SetupError` where nobody may be told, or that cannot be done."""
    if not options.announce:
        return lambda _port: contextlib.nullcontext()
    if entrance.credentials is None:
        raise SetupError(
            "--announce tells the whole network, so it needs mutual TLS: put the files that `enginebench ca issue "
            f"agent NAME --host HOST` writes into {options.tls or options.folder.tls}, or leave it out"
        )
    try:
        from enginebench_agent.door.announcing import announced  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise SetupError(
            "--announce needs the library zeroconf: pip install 'enginebench[mdns]', or leave it out"
        ) from error
    return lambda port: announced(options.host, port, entrance.names)


def _load_config(options: ServeOptions) -> AgentConfig:
    """What the folder says, with what only this start of the agent was told."""
    config = load_config(options.folder)
    limits = config.child_limits
    if limits.sandbox and options.tls:
        limits = replace(limits, sandbox=limits.sandbox.hiding(options.tls))
    return replace(config, trusted_models=options.trusted_models, child_limits=limits)


@contextlib.contextmanager
def _metrics(
    options: ServeOptions, supervisor: Supervisor, discovery: Discovery, calls: Counter[EndedCall]
) -> Iterator[None]:
    if options.metrics_port is None:
        yield
        return
    try:
        from enginebench_agent.door.metrics import AgentCollector, serving  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise SetupError(
            "--metrics-port needs the library prometheus-client: pip install 'enginebench[metrics]', or leave it out"
        ) from error
    collector = AgentCollector(supervisor, discovery, options.folder, calls)
    with serving(collector, options.metrics_host, options.metrics_port) as port:
        _log.info("metrics served", extra=logs.told(host=options.metrics_host, port=port))
        yield


async def _drain(supervisor: Supervisor, stop: Stop, seconds: float) -> None:
    """Let runs end and their callers fetch the results, but no longer than `seconds` and until somebody insists."""
    waiting = [asyncio.create_task(_runs_out(supervisor)), asyncio.create_task(stop.at_once())]
    await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


async def _runs_out(supervisor: Supervisor) -> None:
    if await supervisor.drain():
        await asyncio.sleep(COLLECT_SECONDS)


def _build_server(servicers: Servicers, interceptors: Sequence[Any]) -> tuple[Any, Any]:
    server = grpc.aio.server(interceptors=interceptors, options=SERVER_OPTIONS)
    agent_pb2_grpc.add_AgentServiceServicer_to_server(servicers.agent, server)
    model_pb2_grpc.add_ModelServiceServicer_to_server(servicers.models, server)
    run_pb2_grpc.add_RunServiceServicer_to_server(servicers.runs, server)
    reservation_pb2_grpc.add_ReservationServiceServicer_to_server(servicers.reservations, server)
    health_servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    reflection.enable_server_reflection((*SERVICE_NAMES, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    return server, health_servicer


def _bind(server: Any, options: ServeOptions, entrance: Entrance) -> int:
    address = f"{_shown_host(options.host)}:{options.port}"
    try:
        port = entrance.add_port(server, address)
    except RuntimeError as error:
        raise SetupError(_bind_failure(options)) from error
    if port == 0:
        raise SetupError(_bind_failure(options))
    return port


def _bind_failure(options: ServeOptions) -> str:
    reason = "another program uses it"
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.bind((options.host, options.port))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    return f"cannot listen on {options.host} port {options.port} ({reason}): choose another with --port"


def _shown_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
