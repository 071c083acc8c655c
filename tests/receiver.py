"""A receiver of OTLP over HTTP, made of the published messages: keeps what it is sent, and can misbehave."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)


@dataclass(frozen=True)
class Gauge:
    """A point as it arrived."""

    name: str
    unit: str
    description: str
    value: float
    time_unix_ns: int
    attributes: dict[str, str]


@dataclass
class Receiver:
    """What has arrived, where, and when by the clock.

    It `refuses` results, or `stalls` at them until that is set; `stalled` tells that it does.
    """

    port: int = 0
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    arrived_unix_ns: list[int] = field(default_factory=list)
    gauges: list[Gauge] = field(default_factory=list)
    status: int = 200
    answer: bytes | None = None
    refuses: bool = False
    stalls: threading.Event | None = None
    stalled: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """Its address without the path."""
        return f"http://127.0.0.1:{self.port}"

    def named(self, name: str) -> dict[str, Gauge]:
        """The gauges of that name, by the engine they are of."""
        return {one.attributes["engine"]: one for one in self.gauges if one.name == f"enginebench.{name}"}

    def take(self, request: ExportMetricsServiceRequest) -> None:
        """Keep what a request has."""
        scopes = (scope for resource in request.resource_metrics for scope in resource.scope_metrics)
        for metric in (metric for scope in scopes for metric in scope.metrics):
            for point in metric.gauge.data_points:
                value = getattr(point, str(point.WhichOneof("value")))
                attributes = {one.key: one.value.string_value for one in point.attributes}
                arrived = (metric.name, metric.unit, metric.description, value, point.time_unix_nano, attributes)
                self.gauges.append(Gauge(*arrived))


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    """A receiver that answers for as long as the block lasts."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = ExportMetricsServiceRequest.FromString(body)
            if receiver.stalls is not None and request.resource_metrics:
                receiver.stalled.set()
                receiver.stalls.wait(120)
                return
            if receiver.refuses and request.resource_metrics:
                self.send_error(503)
                return
            receiver.paths.append(self.path)
            receiver.headers.append(dict(self.headers))
            if request.resource_metrics:
                receiver.arrived_unix_ns.append(time.time_ns())
            receiver.take(request)
            whole = ExportMetricsServiceResponse().SerializeToString()
            answer = whole if receiver.answer is None else receiver.answer
            self.send_response(receiver.status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    receiver.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
