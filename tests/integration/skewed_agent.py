"""Agents of other versions: a real one behind a gRPC server that lacks methods, or says what is not known yet."""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Self

import grpc

from enginebench_proto.v1 import agent_pb2, engine_pb2

UNKNOWN_FIELD = b"\xfa\x06\x01x"
"""A field that no message has: number 111, a text."""

PINGS_WELCOME = (("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.min_ping_interval_without_data_ms", 500))

Change = Callable[[bytes], bytes]


class SkewedAgent(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """Passes calls on to the agent at `address` as bytes. It lacks the `missing` methods, and answers are changed."""

    def __init__(
        self, address: str, *, missing: Collection[str] = (), changes: Mapping[str, Change], any_change: Change = bytes
    ) -> None:
        self._channel = grpc.insecure_channel(address)
        self._missing = missing
        self._changes = changes
        self._any_change = any_change
        self._server = grpc.server(ThreadPoolExecutor(16), handlers=[self], options=PINGS_WELCOME)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop(None).wait()
        self._channel.close()

    def service(self, details: Any) -> Any:
        """On the wire a single message is a stream of one, so this one kind of handler passes on all four."""
        if details.method.rpartition("/")[2] in self._missing:
            return None
        return grpc.stream_stream_rpc_method_handler(partial(self._pass_on, details.method))

    def _pass_on(self, method: str, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        change = self._changes.get(method.rpartition("/")[2], bytes)
        try:
            for answer in self._channel.stream_stream(method)(requests):
                yield self._any_change(change(answer))
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())


def older(address: str, *missing: str) -> SkewedAgent:
    """An agent from before the wire had revisions, which lacks these methods."""
    return SkewedAgent(address, missing=missing, changes={"GetHost": partial(_host_of, version="0.0.9", revision=0)})


def newer(address: str) -> SkewedAgent:
    """An agent whose every answer has one field more, and whose reasons for missing engines have a new kind."""
    changes = {"GetHost": partial(_host_of, version="9.9.9", revision=999), "ListEngines": _with_new_reason}
    return SkewedAgent(address, changes=changes, any_change=lambda answer: answer + UNKNOWN_FIELD)


def _host_of(answer: bytes, *, version: str, revision: int) -> bytes:
    response = agent_pb2.GetHostResponse.FromString(answer)
    response.host.agent_version = version
    response.host.wire_revision = revision
    return response.SerializeToString()


def _with_new_reason(answer: bytes) -> bytes:
    response = agent_pb2.ListEnginesResponse.FromString(answer)
    reason = engine_pb2.UnavailableEngine(kind=77, reason="The moon is not full.")
    response.engines.append(engine_pb2.Engine(name="lunar", unavailable=reason))
    return response.SerializeToString()
