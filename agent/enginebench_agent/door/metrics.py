"""The agent's figures for Prometheus, over HTTP. Imported only where they are asked for: the library is an extra.

They are read when they are asked for, in a thread of the HTTP server's: whatever changes meanwhile is copied first, by
a built-in call that no other thread can interrupt. No figure names a model, a run or a caller.
"""

import contextlib
import importlib.metadata
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from enginebench_agent.data_folder import DataFolder
from enginebench_agent.door.interceptors import EndedCall
from enginebench_agent.environments.discovery import Discovery
from enginebench_agent.errors import SetupError
from enginebench_agent.runs.supervisor import Supervisor
from enginebench_proto.v1.host_pb2 import WireRevision
from enginebench_proto.v1.run_pb2 import RunState

_PREFIX = "enginebench_agent"
_STATES = [state for state in RunState.values() if state]


class AgentCollector(Collector):
    """Reads the figures off the agent's parts; its uptime counts from here on."""

    def __init__(
        self, supervisor: Supervisor, discovery: Discovery, folder: DataFolder, calls: Counter[EndedCall]
    ) -> None:
        self._supervisor = supervisor
        self._discovery = discovery
        self._folder = folder
        self._calls = calls
        self._begun_ns = time.monotonic_ns()

    def collect(self) -> Iterator[Metric]:
        """All figures, as they are now."""
        version, revision = importlib.metadata.version("enginebench"), str(max(WireRevision.values()))
        yield InfoMetricFamily(_PREFIX, "What the agent is.", value={"version": version, "wire_revision": revision})
        uptime_seconds = (time.monotonic_ns() - self._begun_ns) / 1e9
        yield _gauge("uptime_seconds", "Seconds since the agent began to serve.", uptime_seconds)
        yield from self._runs()
        yield from self._disk()
        yield from self._engines()
        yield _counter("rpcs", "Calls that have ended.", ("method", "code"), dict(self._calls).items())

    def _runs(self) -> Iterator[Metric]:
        found = Counter[int](summary.state for summary in self._supervisor.summaries())
        runs = GaugeMetricFamily(f"{_PREFIX}_runs", "Runs; those finished are not acknowledged yet.", labels=["state"])
        for state in _STATES:
            runs.add_metric([RunState.Name(state).removeprefix("RUN_STATE_").lower()], found[state])
        yield runs
        ended = [((one.kind, one.outcome, one.failure), count) for one, count in self._supervisor.ended.items()]
        yield _counter("runs_ended", "Runs since the agent started.", ("kind", "outcome", "failure"), ended)

    def _disk(self) -> Iterator[Metric]:
        results, files = _sizes(self._folder.spool), _sizes(self._folder.files)
        whole = sum("." not in name for name in results)
        yield _gauge("spool_results", "Finished results that nobody has acknowledged yet.", whole)
        yield _gauge("spool_bytes", "Bytes of the spool.", sum(results.values()))
        yield _gauge("cache_files", "Model and input files in the cache, unfinished uploads included.", len(files))
        yield _gauge("cache_bytes", "Bytes of the cache.", sum(files.values()))

    def _engines(self) -> Iterator[Metric]:
        yield _gauge("discovery_running", "1 while engines are being asked.", int(self._discovery.is_under_way))
        engines = GaugeMetricFamily(f"{_PREFIX}_engines", "Engines by what the last discovery found.", labels=["state"])
        if (known := self._discovery.known) is not None:  # unknown is not zero
            available = sum(engine.HasField("available") for engine in known)
            engines.add_metric(["available"], available)
            engines.add_metric(["unavailable"], len(known) - available)
        yield engines


@contextlib.contextmanager
def serving(collector: AgentCollector, host: str, port: int) -> Iterator[int]:
    """Serve the figures, and those of the process, while the block lasts; yields the port, also where 0 was given.

    Raises `SetupError` where nothing can listen there.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SetupError(
            f"cannot serve metrics on {host} port {port} ({reason}): choose another with --metrics-port"
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", meaning, value=value)


def _counter(name: str, meaning: str, labels: tuple[str, ...], counts: Iterable[tuple[tuple[str, ...], int]]) -> Metric:
    family = CounterMetricFamily(f"{_PREFIX}_{name}", meaning, labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of each file by name; files come and go meanwhile. The folder of damaged results is none."""
    found = {}
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            if entry.is_file():
                found[entry.name] = entry.stat().st_size
    return found
