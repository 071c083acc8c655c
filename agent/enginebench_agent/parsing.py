"""Makes messages of the bytes of every call, before anybody else looks at them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from enginebench_agent.errors import InvalidRequestError
from enginebench_agent.handlers import Behaviour
from enginebench_agent.interception import OUR_SERVICES, refuse

_ANSWERING = ("unary_unary", "stream_unary")
_STREAMING = ("unary_stream", "stream_stream")


class ParsingInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Answers bytes that are no message with INVALID_ARGUMENT: gRPC itself says UNKNOWN, and the name of an exception.

    It belongs before those that look into requests. What goes wrong later in a stream is told by `ErrorInterceptor`.
    """

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Wrap the handlers of our own services; health and reflection keep theirs."""
        handler = await continuation(details)
        if handler is None or not details.method.startswith(OUR_SERVICES):
            return handler
        parsed = partial(_parsed, handler.request_deserializer)
        for kind in (*_ANSWERING, *_STREAMING):
            if behaviour := getattr(handler, kind):
                read = partial(_ParsedStream, parsed) if kind.startswith("stream") else parsed
                wrap = _answering if kind in _ANSWERING else _streaming
                make_handler = getattr(grpc, f"{kind}_rpc_method_handler")
                return make_handler(wrap(behaviour, read, details.method), None, handler.response_serializer)
        raise AssertionError(f"{details.method} has no behaviour")


class _ParsedStream:
    """The messages of a caller's stream, each parsed when it is its turn."""

    def __init__(self, parsed: Callable[[bytes], Any], raws: AsyncIterator[bytes]) -> None:
        self._parsed = parsed
        self._raws = raws

    def __aiter__(self) -> "_ParsedStream":
        return self

    async def __anext__(self) -> Any:
        return self._parsed(await anext(self._raws))


def _parsed(parse: Callable[[bytes], Any], raw: bytes) -> Any:
    try:
        return parse(raw)
    except DecodeError as error:
        raise InvalidRequestError(
            "the request is no message of this call; talk to the agent with an enginebench of its version."
        ) from error


def _answering(behaviour: Behaviour, read: Callable[[Any], Any], method: str) -> Behaviour:
    async def call(raw: Any, context: Any) -> Any:
        return await behaviour(await _read(raw, context, read, method), context)

    return call


def _streaming(behaviour: Behaviour, read: Callable[[Any], Any], method: str) -> Behaviour:
    async def call(raw: Any, context: Any) -> AsyncIterator[Any]:
        async for response in behaviour(await _read(raw, context, read, method), context):
            yield response

    return call


async def _read(raw: Any, context: Any, read: Callable[[Any], Any], method: str) -> Any:
    try:
        return read(raw)
    except InvalidRequestError as error:
        await refuse(context, method, error)
