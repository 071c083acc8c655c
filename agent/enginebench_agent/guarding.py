"""At the door of every method: who calls, whether they may, and a line in the audit log for what changes something."""

import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from enginebench_agent.audit import AuditLog
from enginebench_agent.authorization import Peer, changes_something, check_allowed
from enginebench_agent.errors import AgentError
from enginebench_agent.handlers import Behaviour, with_behaviour
from enginebench_agent.interception import STATUS_OF_CODE


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
