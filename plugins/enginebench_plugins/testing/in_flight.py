"""Several inferences at once: what `start` hands back, collected and joined to its input."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from enginebench_plugins import spec
from enginebench_plugins.testing.contract_models import Arrays

DONE_WITHIN_S = 30.0


class Results:
    """Collects what `start` hands back, from whatever thread, in the order of completion."""

    def __init__(self, expected: int) -> None:
        """`expected` is how many there will be."""
        self.outputs: dict[int, spec.Outputs | None] = {}
        self.errors: dict[int, BaseException | None] = {}
        self._left = expected
        self._lock = threading.Lock()
        self._done = threading.Event()

    def add(self, key: int, outputs: spec.Outputs | None, error: BaseException | None) -> None:
        """Take what one inference brought."""
        with self._lock:
            assert key not in self.errors, "on_done was called twice for one inference"
            self.outputs[key], self.errors[key] = outputs, error
            self._left -= 1
            if self._left == 0:
                self._done.set()

    def wait(self) -> None:
        """Until all are there."""
        assert self._done.wait(DONE_WITHIN_S), f"{self._left} inferences never came back"


def run_rotating(requests: Sequence[spec.InferRequest], inputs: Sequence[Arrays]) -> list[Arrays]:
    """The outputs in the order of the inputs; every completion starts its request's next inference, as a load does."""
    results = Results(expected=len(inputs))

    def start(request: spec.InferRequest, index: int) -> None:
        def done(outputs: spec.Outputs | None, error: BaseException | None) -> None:
            results.add(index, copied(outputs) if outputs is not None else None, error)
            if index + len(requests) < len(inputs):
                start(request, index + len(requests))

        request.start(inputs[index], done)

    for index, request in enumerate(requests):
        start(request, index)
    results.wait()
    for error in filter(None, results.errors.values()):
        raise AssertionError(f"with {len(requests)} in flight, one raised {type(error).__name__}: {error}")
    return [results.outputs[index] for index in range(len(inputs))]  # type: ignore[misc]


def copied(arrays: Mapping[str, Any]) -> Arrays:
    """The arrays in memory of their own, which no later inference overwrites."""
    return {name: np.array(array) for name, array in arrays.items()}
