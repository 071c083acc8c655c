"""Turns the agent's errors into gRPC status, in one place for every call."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import grpc

from enginebench_agent.errors import AgentError, ErrorCode
from enginebench_agent.handlers import with_behaviour

STATUS_OF_CODE: dict[ErrorCode, grpc.StatusCode] = {
    ErrorCode.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    ErrorCode.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    ErrorCode.NOT_READY: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorCode.DIFFERENT_RUN: grpc.StatusCode.ALREADY_EXISTS,
    ErrorCode.UPLOAD_UNDER_WAY: grpc.StatusCode.ABORTED,
    ErrorCode.DISK_FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.SHUTTING_DOWN: grpc.StatusCode.UNAVAILABLE,
    ErrorCode.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    ErrorCode.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
}
OUR_SERVICES = "/enginebench."
MAX_DETAILS_CHARS = 2_000
"""Status details travel in a header, and a peer refuses headers above 8 KiB."""

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
            lambda behaviour: _answering(behaviour, method),
            lambda behaviour: _streaming(behaviour, method),
        )


def _answering(behaviour: Callable[[Any, Any], Awaitable[Any]], method: str) -> Any:
    async def call(request: Any, context: Any) -> Any:
        try:
            return await behaviour(request, context)
        except Exception as error:
            await _abort(context, method, error)

    return call


def _streaming(behaviour: Callable[[Any, Any], AsyncIterator[Any]], method: str) -> Any:
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for response in behaviour(request, context):
                yield response
        except Exception as error:
            await _abort(context, method, error)

    return call


async def _abort(context: Any, method: str, error: Exception) -> NoReturn:
    if isinstance(error, AgentError):
        await context.abort(STATUS_OF_CODE[error.code], str(error)[:MAX_DETAILS_CHARS])
    _log.error("%s failed", method, exc_info=error)
    await context.abort(
        grpc.StatusCode.INTERNAL, f"{method} failed inside the agent; its log on standard error tells why."
    )
    raise AssertionError("abort always raises")
