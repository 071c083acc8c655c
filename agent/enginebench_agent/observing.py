"""What is seen of every call: who calls, for the log, and how it ended, for who asks for metrics."""

import asyncio
import contextlib
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import grpc

from enginebench_agent.handlers import Behaviour, with_behaviour
from enginebench_proto.agreed import logs

Call = tuple[str, str]
"""Full name of a method, and name of a status."""


class ObservingInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Counts ended calls in `calls`. It belongs before all others, whose refusals then count too.

    Only methods that exist are counted, so that nobody can make up names without end.
    """

    def __init__(self) -> None:
        self.calls: Counter[Call] = Counter()

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
