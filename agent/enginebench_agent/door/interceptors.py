"""What every call passes on its way in: counted, parsed, let in, limited, and its errors made gRPC status."""

import asyncio
import contextlib
import inspect
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from enginebench_agent.door.audit import AuditLog
from enginebench_agent.door.permissions import Peer, changes_something, check_allowed
from enginebench_agent.errors import ERRORS, AgentError, DefectError, InvalidRequestError
from enginebench_proto.agreed import logs
from enginebench_proto.agreed.words import ERROR_CODE_KEY

STATUS_OF_CODE = {code: grpc.StatusCode[known.status] for code, known in ERRORS.items()}

OUR_SERVICES = "/enginebench."
MAX_DETAILS_BYTES = 2_000
"""Status details travel in a header, where a byte beyond ASCII takes three, and a peer refuses headers above 8 KiB."""

_KINDS = ("unary_unary", "stream_unary", "unary_stream", "stream_stream")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CalledMethod:
    """Which method is called, of which of gRPC's four kinds, and what parses its requests."""

    method: str
    kind: str
    parse: Callable[[bytes], Any]


class Around(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """The one way to wrap calls, whatever their kind: `around` begins before the handler and ends after its answers."""

    takes_bytes = False
    """Whether `around` is given the bytes of a request and has to parse them."""

    def concerns(self, call: CalledMethod) -> bool:
        """Whether calls of this method are wrapped; those of health and reflection are asked about, too."""
        raise NotImplementedError

    def around(self, call: CalledMethod, request: Any, context: Any) -> AbstractAsyncContextManager[Any]:
        """Yields the request, or the stream of requests, to pass on."""
        raise NotImplementedError

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """See `grpc.aio.ServerInterceptor`."""
        handler = await continuation(details)
        if handler is None:  # gRPC answers UNIMPLEMENTED
            return None
        kind = next(kind for kind in _KINDS if getattr(handler, kind))
        call = CalledMethod(details.method, kind, handler.request_deserializer)
        if not self.concerns(call):
            return handler
        behaviour = getattr(handler, kind)
        # A coroutine may stream as well: it writes its answers to the context, as gRPC's own health service does.
        is_awaited = kind.endswith("unary") or inspect.iscoroutinefunction(behaviour)

        async def answer(request: Any, context: Any) -> Any:
            async with self.around(call, request, context) as passed_on:
                answered = behaviour(passed_on, context)
                return await answered if inspect.isawaitable(answered) else answered

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            async with self.around(call, request, context) as passed_on:
                async for answered in behaviour(passed_on, context):
                    yield answered

        make_handler = getattr(grpc, f"{kind}_rpc_method_handler")
        parse = None if self.takes_bytes else handler.request_deserializer
        return make_handler(answer if is_awaited else stream, parse, handler.response_serializer)


def interceptors(
    counting: "Counting", identify: Callable[[Any], Peer], audit: AuditLog, most_streams: int
) -> list[grpc.aio.ServerInterceptor]:
    """All of them in their order, the outermost first.

    Counting sees what the others refuse. Parsing comes before who looks into requests. Guarding knows what came of a
    call, as errors have become status further in.
    """
    return [counting, Parsing(), Guarding(identify, audit), StreamLimit(most_streams), Errors()]


EndedCall = tuple[str, str]
"""Full name of a method, and name of a status."""


class Counting(Around):
    """Counts ended calls in `calls`.

    Only methods that exist are counted, so that nobody can make up names without end.
    """

    def __init__(self) -> None:
        self.calls: Counter[EndedCall] = Counter()

    def concerns(self, call: CalledMethod) -> bool:
        """All, those of health and reflection too."""
        return True

    @contextlib.asynccontextmanager
    async def around(self, call: CalledMethod, request: Any, context: Any) -> AsyncIterator[Any]:
        """Note how it ends."""
        logs.bind(caller=_caller(context))
        status = grpc.StatusCode.UNKNOWN  # what gRPC answers for a defect
        try:
            yield request
            status = context.code() or grpc.StatusCode.OK
        except (asyncio.CancelledError, GeneratorExit):  # the caller has gone, or its deadline has passed
            status = grpc.StatusCode.CANCELLED
            raise
        except grpc.aio.AbortError:
            status = context.code()
            raise
        finally:
            self.calls[call.method.lstrip("/"), status.name] += 1


def _caller(context: Any) -> str:
    """The name in the caller's certificate; without one, where the call comes from."""
    names = [name.decode(errors="replace") for name in context.auth_context().get("x509_common_name", ())]
    return names[0] if names else str(context.peer())


class Parsing(Around):
    """Answers bytes that are no message with INVALID_ARGUMENT: gRPC itself says UNKNOWN, and the name of an exception.

    What goes wrong later in a stream is told by `Errors`.
    """

    takes_bytes = True

    def concerns(self, call: CalledMethod) -> bool:
        """Those of our own services; health and reflection keep theirs."""
        return call.method.startswith(OUR_SERVICES)

    @contextlib.asynccontextmanager
    async def around(self, call: CalledMethod, request: Any, context: Any) -> AsyncIterator[Any]:
        """Pass on what the bytes say."""
        try:
            parsed = _ParsedStream(call, request) if call.kind.startswith("stream") else _parsed(call, request)
        except InvalidRequestError as error:
            await refuse(context, call.method, error)
        yield parsed


class _ParsedStream:
    """The messages of a caller's stream, each parsed when it is its turn."""

    def __init__(self, call: CalledMethod, raws: AsyncIterator[bytes]) -> None:
        self._call = call
        self._raws = raws

    def __aiter__(self) -> "_ParsedStream":
        return self

    async def __anext__(self) -> Any:
        return _parsed(self._call, await anext(self._raws))


def _parsed(call: CalledMethod, raw: bytes) -> Any:
    try:
        return call.parse(raw)
    except DecodeError as error:
        raise InvalidRequestError(
            "the request is no message of this call; talk to the agent with an enginebench of its version."
        ) from error


class Guarding(Around):
    """Lets nobody past whom `identify` does not know or whose role the table does not allow."""

    def __init__(self, identify: Callable[[Any], Peer], audit: AuditLog) -> None:
        self._identify = identify
        self._audit = audit

    def concerns(self, call: CalledMethod) -> bool:
        """All, those of health and reflection too."""
        return True

    @contextlib.asynccontextmanager
    async def around(self, call: CalledMethod, request: Any, context: Any) -> AsyncIterator[Any]:
        """The request, or the stream of requests, once its sender may send it."""
        peer = Peer(None, None)
        try:
            peer = self._identify(context)
            check_allowed(peer, call.method)
        except AgentError as error:
            status = STATUS_OF_CODE[error.code]
            self._audit.refused(peer, call.method, context, status)
            await context.abort(status, str(error))
        if changes_something(call.method):
            with self._audit.recorded(peer, call.method, request, context) as noted:
                yield noted
        else:
            yield request


class StreamLimit(Around):
    """Refuses one stream too many with RESOURCE_EXHAUSTED, those of health and reflection included.

    Plain calls, a health check among them, are never refused here: they are short.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = 0

    def concerns(self, call: CalledMethod) -> bool:
        """What streams in either direction."""
        return call.kind != "unary_unary"

    @contextlib.asynccontextmanager
    async def around(self, call: CalledMethod, request: Any, context: Any) -> AsyncIterator[Any]:
        """Count it as long as the call lives."""
        if self._open >= self._most:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"this agent has {self._most} streams of events, results and uploads open and takes no more: wait for "
                "one to end, or raise max_streams in its agent.toml.",
            )
        self._open += 1
        context.add_done_callback(self._leave)
        yield request

    def _leave(self, _: Any) -> None:
        self._open -= 1


class Errors(Around):
    """Maps `AgentError` through `STATUS_OF_CODE`, and anything unexpected to INTERNAL without its text.

    gRPC's own habit is to send the text of any exception to the caller; that text belongs in the agent's log.
    """

    def concerns(self, call: CalledMethod) -> bool:
        """Those of our own services; health and reflection keep theirs."""
        return call.method.startswith(OUR_SERVICES)

    @contextlib.asynccontextmanager
    async def around(self, call: CalledMethod, request: Any, context: Any) -> AsyncIterator[Any]:
        """End the call as what went wrong in it says."""
        try:
            yield request
        except Exception as error:
            await refuse(context, call.method, error)


async def refuse(context: Any, method: str, error: Exception) -> NoReturn:
    """End a call with an error's status, sentence and code. Raises what gRPC ends a call with."""
    if isinstance(error, AgentError):
        _log.info("call refused", extra=logs.told(method=method, code=error.code.value, reason=str(error)))
    else:
        _log.error("call failed", extra=logs.told(method=method), exc_info=error)
        error = DefectError(f"{method} failed inside the agent{_of_file(error)}; its log on standard error tells why.")
    code = ((ERROR_CODE_KEY, error.code.value),)
    await context.abort(STATUS_OF_CODE[error.code], _cut(str(error)), trailing_metadata=code)
    raise AssertionError("abort always raises")


def _of_file(error: BaseException) -> str:
    """What a file that cannot be used is known by: the words of the system, for names are not the caller's to know."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_of_file, error.exceptions)), "")
    if not isinstance(error, OSError) or error.filename is None:
        return ""
    return f", which could not use a file or folder of its own ({error.strerror})"


def _cut(sentence: str) -> str:
    return sentence.encode("utf-8", "replace")[:MAX_DETAILS_BYTES].decode("utf-8", "ignore")
