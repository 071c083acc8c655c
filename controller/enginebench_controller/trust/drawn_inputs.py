"""Inputs whose values were drawn, where an engine may fail at what was drawn: a sentence for a person."""

from enginebench_controller.records import Configuration, InputTensor

_MOST_NAMED = 6


def drawn_inputs(configuration: Configuration) -> str:
    """Which inputs have drawn integers, bools or single numbers, from what, and how to give others; "" for none."""
    said = {one.input for one in configuration.input_set.values}
    drawn = [] if configuration.input_set.items else [one for one in configuration.inputs if one.name not in said]
    ranges = {one.name: words for one in drawn if (words := _range(one))}
    if not ranges:
        return ""
    named = [f"{name} from {words}" for name, words in ranges.items()]
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    remedy = f"give one by --input {next(iter(ranges))}=VALUE, or all by --inputs FOLDER"
    return f"Values were drawn, which may be why: {', '.join(named[:_MOST_NAMED])}{more}; {remedy}"


def _range(tensor: InputTensor) -> str:
    """What was drawn from; "" for tensors of floating-point numbers, which models have to take as they come."""
    if tensor.dtype == "bool":
        return "false and true"
    if tensor.dtype.startswith(("float", "bfloat")):
        return "" if tensor.shape else "around 0"
    return "0 and 1" if tensor.integer_bound in {None, 2} else f"0 to {(tensor.integer_bound or 2) - 1}"
