"""Turns the agent's errors into gRPC status, in one place for every call."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from enginebench_agent import logs
from enginebench_agent.error_table import ERRORS
from enginebench_agent.errors import AgentError, DefectError, InvalidRequestError

STATUS_OF_CODE = {code: known.status for code, known in ERRORS.items()}
CODE_KEY = "enginebench-error"
"""The name of an error's code in the trailing metadata: a status of gRPC's may stand for several."""

OUR_SERVICES = "/enginebench."
MAX_DETAILS_BYTES = 2_000
"""Status details travel in a header, where a byte beyond ASCII takes three, and a peer refuses headers above 8 KiB."""

_log = logging.getLogger(__name__)


class ErrorInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Maps `AgentError` through `STATUS_OF_CODE`, and anything unexpected to INTERNAL without its text.

    gRPC's own habit is to send the text of any exception to the caller; that text belongs in the agent's log.
    """

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Wrap the handlers of our own services; health and reflection keep theirs."""
        handler = await continuation(details)
        if handler is None or not details.method.startswith(OUR_SERVICES):
            return handler
        return _wrapped(handler, details.method)


def _wrapped(handler: Any, method: str) -> Any:
    kinds = (
        ("unary_unary", grpc.unary_unary_rpc_method_handler, _answering, _parsed),
        ("stream_unary", grpc.stream_unary_rpc_method_handler, _answering, _ParsedStream),
        ("unary_stream", grpc.unary_stream_rpc_method_handler, _streaming, _parsed),
        ("stream_stream", grpc.stream_stream_rpc_method_handler, _streaming, _ParsedStream),
    )
    for kind, make_handler, wrap, parsed in kinds:
        if behaviour := getattr(handler, kind):
            # Parsed by us: gRPC tells a caller who sends no message of ours UNKNOWN, and the name of an exception.
            parse = partial(parsed, handler.request_deserializer)
            return make_handler(wrap(behaviour, method, parse), None, handler.response_serializer)
    raise AssertionError(f"{method} has no behaviour")


def _parsed(parse: Callable[[bytes], Any], raw: bytes) -> Any:
    try:
        return parse(raw)
    except DecodeError as error:
        raise InvalidRequestError(
            "the request is no message of this call; talk to the agent with an enginebench of its version."
        ) from error


class _ParsedStream:
    """The messages of a caller's stream, each parsed when it is its turn."""

    def __init__(self, parse: Callable[[bytes], Any], raws: AsyncIterator[bytes]) -> None:
        self._parse = parse
        self._raws = raws

    def __aiter__(self) -> "_ParsedStream":
        return self

    async def __anext__(self) -> Any:
        return _parsed(self._parse, await anext(self._raws))


def _answering(behaviour: Callable[[Any, Any], Awaitable[Any]], method: str, parse: Callable[[Any], Any]) -> Any:
    async def call(request: Any, context: Any) -> Any:
        try:
            return await behaviour(parse(request), context)
        except Exception as error:
            await _abort(context, method, error)

    return call


def _streaming(behaviour: Callable[[Any, Any], AsyncIterator[Any]], method: str, parse: Callable[[Any], Any]) -> Any:
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for response in behaviour(parse(request), context):
                yield response
        except Exception as error:
            await _abort(context, method, error)

    return call


async def _abort(context: Any, method: str, error: Exception) -> NoReturn:
    if isinstance(error, AgentError):
        _log.info("call refused", extra=logs.told(method=method, code=_word(error), reason=str(error)))
    else:
        _log.error("call failed", extra=logs.told(method=method), exc_info=error)
        error = DefectError(f"{method} failed inside the agent; its log on standard error tells why.")
    code = ((CODE_KEY, _word(error)),)
    await context.abort(STATUS_OF_CODE[error.code], _cut(str(error)), trailing_metadata=code)
    raise AssertionError("abort always raises")


def _word(error: AgentError) -> str:
    return error.code.name.lower()


def _cut(sentence: str) -> str:
    return sentence.encode("utf-8", "replace")[:MAX_DETAILS_BYTES].decode("utf-8", "ignore")
