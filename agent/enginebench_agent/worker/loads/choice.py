"""Which load a configuration asks for."""

from collections.abc import Sequence

from enginebench_agent.worker.loads.arrivals import gaps_ns
from enginebench_agent.worker.loads.asynchronous import AsyncLoad
from enginebench_agent.worker.loads.block import TimedLoad
from enginebench_agent.worker.loads.open_loop import OpenLoop
from enginebench_agent.worker.loads.synchronous import SyncLoad
from enginebench_plugins.spec import InferRequest, Load, Tensors
from enginebench_proto.v1.configuration_pb2 import LOAD_OPEN_LOOP, Configuration


def closed_load(load: Load, requests: Sequence[InferRequest], inputs: Sequence[Tensors]) -> TimedLoad:
    """A load whose next inference waits for one before it. A synchronous one takes the first of the requests."""
    return SyncLoad(requests[0], inputs) if load is Load.SYNC else AsyncLoad(requests, inputs)


def open_loop(
    configuration: Configuration, requests: Sequence[InferRequest], inputs: Sequence[Tensors]
) -> OpenLoop | None:
    """The open loop a configuration asks for; None when its load is a closed one."""
    if configuration.load != LOAD_OPEN_LOOP:
        return None
    return OpenLoop(requests, inputs, gaps_ns(configuration.arrivals))
