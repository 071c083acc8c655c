"""The inferences that a profile is made of, and the wall clock of each."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from enginebench_plugins import spec


@dataclass(frozen=True)
class Inferences:
    """So many inferences, one after the other, rotating through `inputs`, with `between` called after each."""

    inputs: Sequence[spec.Tensors]
    count: int
    between: spec.Between = spec.nothing

    def run(
        self, request: spec.InferRequest, after_each: Callable[[int], None] = lambda _inference: None
    ) -> tuple[int, ...]:
        """The nanoseconds each took. `after_each` reads counters after the inference of this number."""
        latency_ns = []
        for inference in range(self.count):
            tensors = self.inputs[inference % len(self.inputs)]
            begin_ns = time.perf_counter_ns()
            request.infer(tensors)
            latency_ns.append(time.perf_counter_ns() - begin_ns)
            after_each(inference)
            self.between()
        return tuple(latency_ns)
