"""What an engine does once the timed blocks are over: whether its outputs are still right, and its times its own.

An engine that hands out what it computed for the same input before, or stops computing after a while, is as fast as it
likes in the timed blocks, and shows here.
"""

import time
from array import array
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from enginebench_agent.worker.inputs import make_inputs
from enginebench_agent.worker.outputs import capture
from enginebench_agent.worker.session import Session
from enginebench_plugins.spec import InferRequest, Outputs, Tensors
from enginebench_proto.v1.configuration_pb2 import InputSet
from enginebench_proto.v1.measurement_pb2 import Afterwards, CapturedOutput

MOST_LATE_INPUTS = 8
"""Inputs whose outputs are looked at again."""

MOST_PAIRS = 7
FEWEST_PAIRS = 3
"""Inferences with an input never seen, each beside one with an input of the set."""

BUDGET_NS = 500_000_000
SHARE = 0.125
"""For the inferences of either kind, at most so long, and so much of what was timed: a gate has many short processes.
The fewest are run whatever they take.
"""

NOTHING_IN_COMMON = 2.0
"""The largest difference that there can be, taken for outputs of other names and shapes too."""

LONG_NS = 50_000_000
"""The first inference after a pause is no slower than others that take so long: none goes before them."""

_OTHER_SEED = 0x5EED
_NUDGE = 2.0**-10


def look_afterwards(
    session: Session, captured: Sequence[CapturedOutput], latency_ns: float, timed_ns: float
) -> Afterwards:
    """Infer a few times more, one at a time, and report; `captured` came out while warming up.

    `latency_ns` is about what an inference takes, `timed_ns` what all timed blocks took. Raises what an inference of
    the set's own inputs raises.
    """
    affordable = int(min(BUDGET_NS, SHARE * timed_ns) / max(latency_ns, 1))
    request = _Counted(session.requests[0])
    again: dict[int, list[list[CapturedOutput]]] = {}
    never_seen = _never_seen(session, max(FEWEST_PAIRS, min(MOST_PAIRS, affordable // 3)))
    try:
        seen, fresh = _times(request, session.inputs, never_seen, again, rested=latency_ns < LONG_NS)
    except Exception:
        # What was drawn anew, or changed a little, may be no input of this model; the set's own are inferred below.
        seen, fresh = array("q"), array("q")
    late, repeat = _differences(request, session.inputs, captured, again, max(1, min(MOST_LATE_INPUTS, affordable)))
    return Afterwards(
        late_difference=late, repeat_difference=repeat, seen_ns=seen, fresh_ns=fresh, inferences=request.count
    )


class _Counted:
    """A request that counts its inferences."""

    def __init__(self, request: InferRequest) -> None:
        self.count = 0
        self.request = request

    def infer(self, inputs: Tensors) -> Outputs:
        """As the request itself."""
        self.count += 1
        return self.request.infer(inputs)


def largest_difference(some: Sequence[CapturedOutput], others: Sequence[CapturedOutput]) -> float | None:
    """As `Afterwards.late_difference` has it, for the outputs of one input; None without any output."""
    found = {one.name: one for one in others}
    if {one.name for one in some} != found.keys():
        return NOTHING_IN_COMMON
    return max((_difference(one, found[one.name]) for one in some), default=None)


def _differences(
    request: _Counted,
    inputs: Sequence[Tensors],
    captured: Sequence[CapturedOutput],
    again: Mapping[int, Sequence[Sequence[CapturedOutput]]],
    most: int,
) -> tuple[float | None, float | None]:
    """How far what comes out `again` for some inputs is from what was captured, and from itself; inputs that are
    missing there are inferred until `most` are there.
    """
    known = sorted({one.input_index for one in captured})
    found = {index: list(again.get(index, ())) for index in known}
    missing = most - sum(map(bool, found.values()))
    for index in [index for index in known if not found[index]][: max(missing, 0)]:
        found[index].append(capture(index, request.infer(inputs[index])))
    looked_at = [index for index in known if found[index]]
    if looked_at and all(len(found[index]) < 2 for index in looked_at):
        found[looked_at[0]].append(capture(looked_at[0], request.infer(inputs[looked_at[0]])))
    late = [
        largest_difference([one for one in captured if one.input_index == index], found[index][0])
        for index in looked_at
    ]
    repeat = [largest_difference(*found[index][:2]) for index in looked_at if len(found[index]) > 1]
    return _largest(late), _largest(repeat)


def _largest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _difference(one: CapturedOutput, other: CapturedOutput) -> float:
    if list(one.shape) != list(other.shape):
        return NOTHING_IN_COMMON
    ours, theirs = (np.frombuffer(each.values, "<f4").astype(np.float64) for each in (one, other))
    equal = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    if equal.all():
        return 0.0
    if not (np.isfinite(ours[~equal]).all() and np.isfinite(theirs[~equal]).all()):
        return NOTHING_IN_COMMON
    ours, theirs = ours[np.isfinite(ours)], theirs[np.isfinite(theirs)]
    return float(np.abs(ours - theirs).max() / max(np.abs(ours).max(), np.abs(theirs).max()))


def _never_seen(session: Session, count: int) -> list[Tensors]:
    """Inputs like those of the set, and equal to none of them; empty where there are no others."""
    input_set = session.job.configuration.input_set
    if input_set.items:
        said = {one.input for one in input_set.values}
        given = (session.inputs[index % len(session.inputs)] for index in range(count))
        drawn: Sequence[Tensors] = [_nudged(one, index, said) for index, one in enumerate(given)]
    else:
        other = InputSet(seed=input_set.seed ^ _OTHER_SEED, count=count, values=input_set.values)
        drawn = make_inputs(session.compiled.inputs, session.job.configuration.inputs, other)
    return [one for one in drawn if not any(_same(one, known) for known in session.inputs)]


def _nudged(tensors: Tensors, number: int, said: Container[str]) -> Tensors:
    """Given inputs, each float a little larger and integers in another order: as good an input as the one given.

    What was `said` to have certain values keeps them.
    """
    return {name: values if name in said else _nudged_array(values, number + 1) for name, values in tensors.items()}


def _nudged_array(values: NDArray[Any], number: int) -> NDArray[Any]:
    if values.dtype.kind == "f":
        return np.asarray(values * (1 + number * _NUDGE), dtype=values.dtype, order="C")
    return np.ascontiguousarray(np.roll(values, number, axis=-1)) if values.ndim else values.copy()


def _same(one: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]]) -> bool:
    return all(np.array_equal(values, other[name]) for name, values in one.items())


def _times(
    request: _Counted,
    seen: Sequence[Tensors],
    fresh: Sequence[Tensors],
    again: dict[int, list[list[CapturedOutput]]],
    *,
    rested: bool,
) -> tuple["array[int]", "array[int]"]:
    """Latencies of pairs of inferences, which of the two comes first changing from pair to pair.

    Where the engine has `rested`, one that is not timed goes before each, as in the timed blocks. The arrays are read,
    so that neither kind finds its input in a nearer cache than the other. What comes out for `seen` is put into `again`
    by the number of the input.
    """
    times: tuple[array[int], array[int]] = (array("q"), array("q"))
    for number, never in enumerate(fresh):
        index = number % len(seen)
        known = seen[index]
        order = ((0, known), (1, never)) if number % 2 else ((1, never), (0, known))
        for kind, tensors in order:
            if rested:
                request.infer(seen[-1])
            for values in tensors.values():
                values.tobytes()
            infer, read_clock = request.request.infer, time.perf_counter_ns
            begin_ns = read_clock()
            outputs = infer(tensors)
            times[kind].append(read_clock() - begin_ns)
            request.count += 1
            if not kind:
                again.setdefault(index, []).append(list(capture(index, outputs)))
            del outputs
    return times
