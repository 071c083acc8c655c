"""What is wrong with the captured outputs of one run by themselves: numbers and sentences."""

from collections.abc import Sequence

import numpy as np

from enginebench_controller.records import CapturedOutput

Outputs = Sequence[CapturedOutput]


def own_problem(outputs: Outputs, inputs: Sequence[object], *, masked: bool = False) -> str:
    """What is wrong with outputs by themselves: a sentence, or empty.

    `inputs` has a value for each input of the set, equal for equal inputs; none where the model takes no input. Values
    that are no numbers are wrong, and so are outputs that are the same for different inputs – unless all are integers,
    since a class may well stay the same. Infinities are right where they are known to be `masked`.
    """
    broken = sum(int(np.count_nonzero(~np.isfinite(one.values))) for one in outputs)
    if broken and not masked:
        return f"{broken:,} of {sum(one.values.size for one in outputs):,} captured output values are NaN or infinite"
    if same := _inputs_without_effect(outputs, inputs):
        return f"the outputs are the same for {same} different inputs, as if the input were ignored"
    return ""


def has_masked(outputs: Outputs) -> bool:
    """Whether there are infinities, each beside finite values of its output, and nothing else that is no number.

    So a model puts aside what is not to be chosen: words behind the end of a text, moves against the rules.
    """
    finite = {one.name for one in outputs if np.isfinite(one.values).any()}
    infinite = {one.name for one in outputs if np.isinf(one.values).any()}
    return bool(infinite) and infinite <= finite and not any(np.isnan(one.values).any() for one in outputs)


def masked_remark(outputs: Outputs) -> str:
    """How many infinities there are; empty for none."""
    infinite = sum(int(np.count_nonzero(np.isinf(one.values))) for one in outputs)
    total = sum(one.values.size for one in outputs)
    return f"{infinite:,} of {total:,} captured output values are infinite, as a mask makes them" if infinite else ""


def outputs_are_alike(outputs: Outputs) -> bool:
    """Whether all inputs have the very same outputs."""
    by_input: dict[int, list[tuple[str, bytes]]] = {}
    for one in outputs:
        by_input.setdefault(one.input_index, []).append((one.name, one.values.tobytes()))
    return len({tuple(sorted(one)) for one in by_input.values()}) == 1


def largest_magnitude(output: CapturedOutput) -> float:
    """Of the finite values captured; 0 without any."""
    finite = output.values[np.isfinite(output.values)]
    return float(np.abs(finite).max(initial=0.0))


def _inputs_without_effect(outputs: Outputs, inputs: Sequence[object]) -> int:
    """How many different inputs there are, if all of them have the very same outputs; else 0."""
    different = {_input(inputs, one.input_index) for one in outputs}
    continuous = any(one.dtype.startswith(("float", "bfloat", "complex")) for one in outputs)
    return len(different) if len(different) > 1 and continuous and outputs_are_alike(outputs) else 0


def _input(inputs: Sequence[object], index: int) -> object:
    return inputs[index] if index < len(inputs) else index
