"""Turns the agent's errors into gRPC status, in one place for every call."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import grpc

from enginebench_agent.error_table import ERRORS
from enginebench_agent.errors import AgentError, DefectError
from enginebench_agent.handlers import Behaviour, with_behaviour
from enginebench_proto.agreed import logs

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
            lambda behaviour: _answering(behaviour, method),
            lambda behaviour: _streaming(behaviour, method),
        )


def _answering(behaviour: Behaviour, method: str) -> Behaviour:
    async def call(request: Any, context: Any) -> Any:
        try:
            return await behaviour(request, context)
        except Exception as error:
            await refuse(context, method, error)

    return call


def _streaming(behaviour: Behaviour, method: str) -> Behaviour:
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
