"""After the timed blocks an engine is asked again: what it said before, and what it never heard of."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import invented
from enginebench_agent.worker.afterwards import NOTHING_IN_COMMON, largest_difference, look_afterwards
from enginebench_agent.worker.outputs import capture
from enginebench_controller.records import Grounds
from enginebench_controller.verdicts.doubts import Mark, flags, marks
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.wire import from_captured_output, from_process
from enginebench_plugins.spec import InferRequest, Tensors, TensorSpec
from enginebench_proto.v1 import configuration_pb2 as configuration
from enginebench_proto.v1.run_pb2 import RunResult

PLANTED = Path(__file__).parents[2] / "plugins"
PLUGIN = """
import planted
from enginebench_plugins import spec

@spec.hookimpl
def enginebench_engine():
    return planted.RequestBreaker(planted.{})
"""


@pytest.fixture
def planted_run(run_worker: Callable, make_spec: Callable, install_plugin: Callable, tiny_model: Path) -> Callable:
    """What a planted engine's run of the tiny model comes to, as the controller has it."""

    def run(name: str) -> Any:
        folders = [install_plugin("planted", PLUGIN.format(name)), PLANTED]
        stop = configuration.StopRule(min_duration_ns=100_000_000)
        child = run_worker("run", str(tiny_model), spec=make_spec("planted", stop=stop), folders=folders)
        return child.result

    return run


def judged(result: RunResult) -> Any:
    """The measurement of one process with this result."""
    assert result.measurement.blocks, result.failure
    return invented.measured(
        "m1",
        processes=(from_process(0, result),),
        captured_outputs=tuple(map(from_captured_output, result.measurement.captured_outputs)),
        grounds=Grounds(random_operators=()),
        blocks=(),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["OutputsRemembered", "OutputsRememberedByIdentity"])
def test_outputs_out_of_a_memory_are_marked_as_impossible(planted_run: Callable, name: str) -> None:
    found = judged(planted_run(name))
    assert marks(found) == (Mark.IMPOSSIBLE,)
    assert "an input that was never seen takes" in flags(found)[0]


@pytest.mark.slow
def test_zeros_from_some_call_on_are_wrong_outputs(planted_run: Callable) -> None:
    found = judged(planted_run("ZerosLater"))
    problem = check_outputs([found])["m1"].problem
    assert problem.startswith("the outputs changed during the measurement: those of the same inputs differ by 1 of")


@pytest.mark.slow
def test_a_sound_engine_is_not_accused(planted_run: Callable) -> None:
    found = judged(planted_run("SoundRequest"))
    assert (marks(found), check_outputs([found])["m1"].problem) == ((), "")
    afterwards = found.processes[0].afterwards
    assert 3 <= len(afterwards.seen_ns) == len(afterwards.fresh_ns) <= 7, "fewer where the machine is slow"
    assert (afterwards.late_difference, afterwards.repeat_difference) == (0, 0)


class Recording(InferRequest):
    """Doubles its input, and remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[Tensors] = []

    def infer(self, inputs: Tensors) -> Mapping[str, Any]:
        self.given.append(inputs)
        return {"y": inputs["x"] * 2 if "x" in inputs else np.ones(2, np.float32)}


def session(inputs: list[Tensors], input_set: configuration.InputSet, *names: str) -> Any:
    tensors = [TensorSpec(name, str(inputs[0][name].dtype), inputs[0][name].shape) for name in names]
    asked = configuration.Configuration(input_set=input_set)
    compiled = SimpleNamespace(inputs=tensors)
    return SimpleNamespace(
        requests=[Recording()], inputs=inputs, compiled=compiled, job=SimpleNamespace(configuration=asked)
    )


def test_fresh_inputs_are_new_and_like_those_of_the_set() -> None:
    inputs: list[Tensors] = [{"x": np.full((2, 3), float(index), np.float32)} for index in range(3)]
    one = session(inputs, configuration.InputSet(seed=0, count=3), "x")
    found = look_afterwards(one, [], 1000.0, 1e9)
    fresh = [each["x"] for each in one.requests[0].given if not any(each is known for known in inputs)]
    assert len(fresh) == len(found.fresh_ns) == 7
    assert len({each.tobytes() for each in (*fresh, *(each["x"] for each in inputs))}) == 10
    assert found.inferences == len(one.requests[0].given)


def test_of_files_a_little_is_changed_and_nothing_of_what_was_said() -> None:
    inputs: list[Tensors] = [{"x": np.ones((2, 3), np.float32), "rate": np.array([16000])}]
    said = [configuration.InputValues(input="rate")]
    given = configuration.InputSet(count=1, items=[configuration.InputItem()], values=said)
    one = session(inputs, given, "x", "rate")
    look_afterwards(one, [], 1000.0, 1e9)
    fresh = [each for each in one.requests[0].given if each is not inputs[0]]
    assert len({each["x"].tobytes() for each in fresh}) == 7
    assert all(np.allclose(each["x"], 1, atol=0.01) and each["rate"] == [16000] for each in fresh)


class Particular(Recording):
    """Takes ones and nothing else."""

    def infer(self, inputs: Tensors) -> Mapping[str, Any]:
        if not (inputs["x"] == 1).all():
            raise ValueError("no ones")
        return super().infer(inputs)


@pytest.mark.parametrize("items", [[], [configuration.InputItem()]])
def test_what_is_drawn_anew_or_changed_and_no_input_of_the_model_fails_no_run(
    items: list[configuration.InputItem],
) -> None:
    inputs: list[Tensors] = [{"x": np.ones((2, 3), np.float32)}]
    one = session(inputs, configuration.InputSet(seed=0, count=1, items=items), "x")
    one.requests = [Particular()]
    assert not look_afterwards(one, [], 1000.0, 1e9).fresh_ns


def test_a_slow_engine_is_asked_less() -> None:
    inputs: list[Tensors] = [{"x": np.full((2, 3), float(index), np.float32)} for index in range(8)]
    captured = [each for index, one in enumerate(inputs) for each in capture(index, {"y": one["x"] * 2})]
    one = session(inputs, configuration.InputSet(seed=0, count=8), "x")
    found = look_afterwards(one, captured, 10e9, 100e9)
    assert (len(found.fresh_ns), found.inferences) == (3, 2 * 3 + 1), "what is timed is looked at, and one input again"


def test_after_a_short_steady_state_little_is_asked() -> None:
    inputs: list[Tensors] = [{"x": np.full((2, 3), float(index), np.float32)} for index in range(8)]
    captured = [each for index, one in enumerate(inputs) for each in capture(index, {"y": one["x"] * 2})]
    asked = {}
    for timed_ns in (0.6e9, 5e9):
        one = session(inputs, configuration.InputSet(seed=0, count=8), "x")
        found = look_afterwards(one, captured, 10e6, timed_ns)
        asked[timed_ns] = len(found.fresh_ns), 10e6 * found.inferences / timed_ns
    assert asked[0.6e9][0] == 3
    assert asked[5e9][0] == 7
    assert all(share < 0.3 for _, share in asked.values())


def test_a_model_without_inputs_has_none_that_it_never_saw() -> None:
    one = session([{}, {}], configuration.InputSet(seed=0, count=2))
    assert not look_afterwards(one, [], 1000.0, 1e9).fresh_ns


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ([3.0, 4.0], 0.0),
        ([3.0, 2.0], 0.5),
        ([0.0, 0.0], 1.0),
        ([3.0, float("nan")], NOTHING_IN_COMMON),
        ([3.0, 4.0, 5.0], NOTHING_IN_COMMON),
    ],
)
def test_differences_are_relative_to_the_larger(other: list[float], difference: float) -> None:
    one, two = (capture(0, {"y": np.array(each, np.float32)}) for each in ([3.0, 4.0], other))
    assert largest_difference(one, two) == difference


def test_nan_that_stays_nan_is_no_difference() -> None:
    one = capture(0, {"y": np.array([np.nan, 1], np.float32)})
    assert largest_difference(one, one) == 0
    assert largest_difference(one, capture(0, {"z": np.ones(2, np.float32)})) == NOTHING_IN_COMMON
    assert largest_difference([], []) is None
