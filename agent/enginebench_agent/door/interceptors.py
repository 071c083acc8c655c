"""What every call passes on its way in: counted, parsed, let in, limited, and its errors made gRPC status."""

import asyncio
import contextlib
import inspect
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from enginebench_agent.door.audit import AuditLog
from enginebench_agent.door.permissions import Peer, changes_something, check_allowed
from enginebench_agent.errors import ERRORS, AgentError, DefectError, InvalidRequestError
from enginebench_proto.agreed import logs

Behaviour = Callable[[Any, Any], Any]
_KINDS = ("unary_unary", "stream_unary", "unary_stream", "stream_stream")


def with_behaviour(
    handler: Any, answering: Callable[[Behaviour], Behaviour], streaming: Callable[[Behaviour], Behaviour]
) -> Any:
    """The handler with its behaviour wrapped: by `answering` where one awaits it, by `streaming` where one iterates."""
    for kind in _KINDS:
        if behaviour := getattr(handler, kind):
            # A coroutine may stream as well: it writes its answers to the context, as gRPC's own health service does.
            awaited = kind.endswith("unary") or inspect.iscoroutinefunction(behaviour)
            make_handler = getattr(grpc, f"{kind}_rpc_method_handler")
            wrapped = (answering if awaited else streaming)(behaviour)
            return make_handler(wrapped, handler.request_deserializer, handler.response_serializer)
    raise AssertionError(f"{handler} has no behaviour")


STATUS_OF_CODE = {code: grpc.StatusCode[known.status] for code, known in ERRORS.items()}
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
        method = details.method
        return with_behaviour(
            handler,
            lambda behaviour: _interception_answering(behaviour, method),
            lambda behaviour: _interception_streaming(behaviour, method),
        )


def _interception_answering(behaviour: Behaviour, method: str) -> Behaviour:
    async def call(request: Any, context: Any) -> Any:
        try:
            return await behaviour(request, context)
        except Exception as error:
            await refuse(context, method, error)

    return call


def _interception_streaming(behaviour: Behaviour, method: str) -> Behaviour:
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for response in behaviour(request, context):
                yield response
        except Exception as error:
            await refuse(context, method, error)

    return call


async def refuse(context: Any, method: str, error: Exception) -> NoReturn:
    """End a call with an error's status, sentence and code. Raises what gRPC ends a call with."""
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


EndedCall = tuple[str, str]
"""Full name of a method, and name of a status."""


class ObservingInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Counts ended calls in `calls`. It belongs before all others, whose refusals then count too.

    Only methods that exist are counted, so that nobody can make up names without end.
    """

    def __init__(self) -> None:
        self.calls: Counter[EndedCall] = Counter()

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Wrap every handler, those of health and reflection too."""
        handler = await continuation(details)
        if handler is None:  # gRPC answers UNIMPLEMENTED
            return None
        method = details.method.lstrip("/")
        return with_behaviour(
            handler,
            lambda behaviour: self._answering(behaviour, method),
            lambda behaviour: self._streaming(behaviour, method),
        )

    def _answering(self, behaviour: Behaviour, method: str) -> Behaviour:
        async def call(request: Any, context: Any) -> Any:
            with self._observed(method, context):
                answer = behaviour(request, context)
                return await answer if inspect.isawaitable(answer) else answer

        return call

    def _streaming(self, behaviour: Behaviour, method: str) -> Behaviour:
        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            with self._observed(method, context):
                async for answer in behaviour(request, context):
                    yield answer

        return call

    @contextlib.contextmanager
    def _observed(self, method: str, context: Any) -> Iterator[None]:
        logs.bind(caller=_caller(context))
        status = grpc.StatusCode.UNKNOWN  # what gRPC answers for a defect
        try:
            yield
            status = context.code() or grpc.StatusCode.OK
        except (asyncio.CancelledError, GeneratorExit):  # the caller has gone, or its deadline has passed
            status = grpc.StatusCode.CANCELLED
            raise
        except grpc.aio.AbortError:
            status = context.code()
            raise
        finally:
            self.calls[method, status.name] += 1


def _caller(context: Any) -> str:
    """The name in the caller's certificate; without one, where the call comes from."""
    names = [name.decode(errors="replace") for name in context.auth_context().get("x509_common_name", ())]
    return names[0] if names else str(context.peer())


class StreamLimit(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Refuses one stream too many with RESOURCE_EXHAUSTED, those of health and reflection included.

    Plain calls, a health check among them, are never refused here: they are short.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = 0

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Wrap what streams in either direction."""
        handler = await continuation(details)
        if handler is None or handler.unary_unary:
            return handler
        return with_behaviour(handler, self._awaited, self._yielding)

    def _awaited(self, behaviour: Behaviour) -> Behaviour:
        async def call(request: Any, context: Any) -> Any:
            await self._enter(context)
            return await behaviour(request, context)

        return call

    def _yielding(self, behaviour: Behaviour) -> Behaviour:
        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            await self._enter(context)
            async for response in behaviour(request, context):
                yield response

        return call

    async def _enter(self, context: Any) -> None:
        if self._open >= self._most:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"this agent has {self._most} streams of events, results and uploads open and takes no more: wait for "
                "one to end, or raise max_streams in its agent.toml.",
            )
        self._open += 1
        context.add_done_callback(self._leave)

    def _leave(self, _: Any) -> None:
        self._open -= 1


class GuardingInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Lets nobody past whom `identify` does not know or whose role the table does not allow.

    It must come before the one that makes status of errors, so that it knows what came of a call.
    """

    def __init__(self, identify: Callable[[Any], Peer], audit: AuditLog) -> None:
        self._identify = identify
        self._audit = audit

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Guard the handlers of all services, health and reflection included."""
        handler = await continuation(details)
        if handler is None:  # gRPC answers UNIMPLEMENTED
            return None
        method = details.method
        return with_behaviour(
            handler,
            lambda behaviour: self._answering(behaviour, method),
            lambda behaviour: self._streaming(behaviour, method),
        )

    def _answering(self, behaviour: Behaviour, method: str) -> Behaviour:
        async def call(request: Any, context: Any) -> Any:
            async with self._admitted(method, request, context) as admitted:
                answer = behaviour(admitted, context)
                return await answer if inspect.isawaitable(answer) else answer

        return call

    def _streaming(self, behaviour: Behaviour, method: str) -> Behaviour:
        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            async with self._admitted(method, request, context) as admitted:
                async for answer in behaviour(admitted, context):
                    yield answer

        return call

    @contextlib.asynccontextmanager
    async def _admitted(self, method: str, request: Any, context: Any) -> AsyncIterator[Any]:
        """The request, or the stream of requests, once its sender may send it."""
        peer = Peer(None, None)
        try:
            peer = self._identify(context)
            check_allowed(peer, method)
        except AgentError as error:
            status = STATUS_OF_CODE[error.code]
            self._audit.refused(peer, method, context, status)
            await context.abort(status, str(error))
        if changes_something(method):
            with self._audit.recorded(peer, method, request, context) as noted:
                yield noted
        else:
            yield request
