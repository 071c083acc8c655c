"""The wall clock of the inferences that a profile is made of."""

import time
from collections.abc import Callable, Sequence

from enginebench_plugins import spec


def timed_inferences(
    request: spec.InferRequest,
    inputs: Sequence[spec.Tensors],
    iterations: int,
    after_each: Callable[[int], None] = lambda _iteration: None,
) -> tuple[int, ...]:
    """Run inferences one after the other, rotating through `inputs`; returns the nanoseconds each took.

    `after_each` is called with the number of the inference, outside its time, to read counters.
    """
    latency_ns = []
    for iteration in range(iterations):
        tensors = inputs[iteration % len(inputs)]
        begin_ns = time.perf_counter_ns()
        request.infer(tensors)
        latency_ns.append(time.perf_counter_ns() - begin_ns)
        after_each(iteration)
    return tuple(latency_ns)
