"""Outputs are kept by the input they were started with, so that an engine which mixes requests up is caught."""

import threading

import numpy as np
import pytest

from enginebench_agent.worker.failures import BrokenOutputError
from enginebench_agent.worker.outputs import run_each_input
from enginebench_plugins.spec import InferRequest, Load, OnDone, Outputs, Tensors

INPUTS = [{"x": np.full((2, 3), float(index), np.float32)} for index in range(5)]


class Doubling(InferRequest):
    """Reuses the memory of its outputs, as engines may."""

    def __init__(self) -> None:
        self.runs = 0
        self._output = np.empty((2, 3), np.float32)

    def infer(self, inputs: Tensors) -> Outputs:
        self.runs += 1
        np.multiply(inputs["x"], 2, out=self._output)
        return {"y": self._output}


class Exchange:
    """Two requests in flight get each other's outputs; one that finds no partner soon gets its own."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Tensors, OnDone]] = []
        self._lock = threading.Lock()

    def start(self, inputs: Tensors, on_done: OnDone) -> None:
        mine = (inputs, on_done)
        with self._lock:
            self._waiting.append(mine)
            pair = self._waiting if len(self._waiting) == 2 else None
            if pair is not None:
                self._waiting = []
        if pair is None:
            threading.Timer(0.2, self._complete_alone, [mine]).start()
        else:
            (first, first_done), (second, second_done) = pair
            first_done({"y": second["x"] * 2}, None)
            second_done({"y": first["x"] * 2}, None)

    def _complete_alone(self, mine: tuple[Tensors, OnDone]) -> None:
        with self._lock:
            alone = any(each is mine for each in self._waiting)
            if alone:
                self._waiting = []
        if alone:
            inputs, on_done = mine
            on_done({"y": inputs["x"] * 2}, None)


class Swapping(Doubling):
    def __init__(self, exchange: Exchange) -> None:
        super().__init__()
        self._exchange = exchange

    def start(self, inputs: Tensors, on_done: OnDone) -> None:
        self._exchange.start(inputs, on_done)


def values(captured: list) -> list[float]:
    return [np.frombuffer(each.values, np.float32)[0] for each in captured]


@pytest.mark.parametrize(("load", "count"), [(Load.SYNC, 1), (Load.ASYNC, 1), (Load.ASYNC, 3), (Load.ASYNC, 8)])
def test_each_input_has_its_own_outputs_and_every_request_runs(load: Load, count: int) -> None:
    requests = [Doubling() for _ in range(count)]
    captured, iterations = run_each_input(load, requests, INPUTS)
    assert [each.input_index for each in captured] == [0, 1, 2, 3, 4]
    assert values(captured) == [0, 2, 4, 6, 8]
    assert (captured[0].name, captured[0].dtype, list(captured[0].shape)) == ("y", "float32", [2, 3])
    assert all(request.runs for request in requests)
    assert iterations == sum(request.runs for request in requests)


def test_an_engine_that_swaps_outputs_between_requests_in_flight_is_seen() -> None:
    exchange = Exchange()
    inputs = INPUTS[:4]
    captured, _ = run_each_input(Load.ASYNC, [Swapping(exchange), Swapping(exchange)], inputs)
    assert [each.input_index for each in captured] == [0, 1, 2, 3]
    assert values(captured) != [0, 2, 4, 6]


@pytest.mark.parametrize("load", [Load.SYNC, Load.ASYNC])
def test_outputs_that_break_the_contract_are_raised(load: Load) -> None:
    class Broken(InferRequest):
        def infer(self, inputs: Tensors) -> Outputs:
            return {"y": [1]}

    with pytest.raises(BrokenOutputError, match="list instead of an array as 'y'"):
        run_each_input(load, [Broken()], INPUTS)


@pytest.mark.parametrize("load", [Load.SYNC, Load.ASYNC])
def test_an_error_of_the_engine_is_raised_as_it_is(load: Load) -> None:
    class Failing(InferRequest):
        def infer(self, inputs: Tensors) -> Outputs:
            raise ValueError("bad index")

    with pytest.raises(ValueError, match="bad index"):
        run_each_input(load, [Failing()], INPUTS)
