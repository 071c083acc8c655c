"""The agent's process: one data folder, one port, three services, health and reflection."""

import asyncio
import logging
import os
import shutil
import signal
import socket
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from enginebench_agent.audit import AuditLog
from enginebench_agent.cache import FileCache
from enginebench_agent.config import AgentConfig, load_config
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.discovery import Discovery
from enginebench_agent.entrance import Entrance, make_entrance
from enginebench_agent.errors import SetupError
from enginebench_agent.guarding import GuardingInterceptor
from enginebench_agent.interception import ErrorInterceptor
from enginebench_agent.leases import Leases
from enginebench_agent.notifying import READY, STOPPING, notify
from enginebench_agent.peak_file import PeakFile
from enginebench_agent.servicers import AgentServicer, ModelServicer, RunServicer
from enginebench_agent.supervisor import Supervisor
from enginebench_proto.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    model_pb2,
    model_pb2_grpc,
    run_pb2,
    run_pb2_grpc,
)

STOP_GRACE_SECONDS = 1.0
SERVICE_NAMES = (
    agent_pb2.DESCRIPTOR.services_by_name["AgentService"].full_name,
    model_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name,
    run_pb2.DESCRIPTOR.services_by_name["RunService"].full_name,
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
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServeOptions:
    """Where to listen and live. Port 0 lets the system choose; `exit_with_stdin` ends the agent with its starter.

    `trusted_models` are digests of models that may run although their format can execute code. `tls` is the folder of
    the TLS files, by default the one in the data folder; `plain_text` leaves them aside.
    """

    host: str
    port: int
    folder: DataFolder
    exit_with_stdin: bool = False
    trusted_models: frozenset[str] = frozenset()
    tls: Path | None = None
    plain_text: bool = False


def serve(options: ServeOptions) -> None:
    """Serve until a signal says otherwise. Raises `SetupError` when that cannot begin."""
    entrance = make_entrance(
        options.host,
        options.tls or options.folder.tls,
        is_tls_asked=options.tls is not None,
        is_plain_asked=options.plain_text,
    )
    options.folder.prepare()
    with options.folder.locked():
        asyncio.run(_serve(options, entrance))


async def _serve(options: ServeOptions, entrance: Entrance) -> None:
    folder = options.folder
    config = _load_config(options)
    for leftover in folder.runs.iterdir():  # of an agent that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    leases = Leases()
    cache = FileCache(folder.files)
    discovery = Discovery(config, lambda: _load_config(options), folder.runs, leases)
    peaks = PeakFile(folder.peaks_file)
    supervisor = Supervisor(folder, cache, discovery, leases, peaks)
    stopping = _stop_event(options)
    guard = GuardingInterceptor(entrance.identify, AuditLog(folder.audit_log))
    server, health_servicer = _build_server(guard, AgentServicer(discovery, folder, peaks), cache, supervisor)
    port = _bind(server, options, entrance)
    for name in SERVICE_NAMES:
        await health_servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    await server.start()
    discovery.begin()
    print(f"enginebench-agent listening on {_shown_host(options.host)}:{port}", flush=True)  # the ready line
    notify(READY)
    await stopping.wait()
    notify(STOPPING)
    _log.info("stopping")
    await health_servicer.enter_graceful_shutdown()
    await supervisor.close()
    await discovery.close()
    await server.stop(STOP_GRACE_SECONDS)


def _load_config(options: ServeOptions) -> AgentConfig:
    """What the folder says, with what only this start of the agent was told."""
    return replace(load_config(options.folder), trusted_models=options.trusted_models)


def _build_server(
    guard: GuardingInterceptor, agent: AgentServicer, cache: FileCache, supervisor: Supervisor
) -> tuple[Any, Any]:
    server = grpc.aio.server(interceptors=[guard, ErrorInterceptor()], options=SERVER_OPTIONS)
    agent_pb2_grpc.add_AgentServiceServicer_to_server(agent, server)
    model_pb2_grpc.add_ModelServiceServicer_to_server(ModelServicer(cache), server)
    run_pb2_grpc.add_RunServiceServicer_to_server(RunServicer(supervisor), server)
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


def _stop_event(options: ServeOptions) -> asyncio.Event:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    if options.exit_with_stdin:
        loop.add_reader(sys.stdin.fileno(), _read_away, loop, stopping)
    return stopping


def _read_away(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stopping.set()
