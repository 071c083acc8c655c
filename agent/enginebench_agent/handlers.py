"""gRPC's method handlers with something around their behaviour, for the interceptors."""

import inspect
from collections.abc import Callable
from typing import Any

import grpc

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
