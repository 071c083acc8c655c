"""How many streams may be open at once, all callers together: each one holds memory, and some a file."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from enginebench_agent.handlers import Behaviour, with_behaviour


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
