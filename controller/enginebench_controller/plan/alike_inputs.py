"""Whether two models take the same inputs, as they have to for a comparison, and what would make them do so."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from enginebench_controller.errors import InputError
from enginebench_controller.models.formats.signature import Dims, ModelDescription
from enginebench_controller.models.inputs.shapes import joined
from enginebench_controller.plan.expand import Case
from enginebench_controller.records import InputTensor, ModelVersion

_OwnDims = Mapping[str, Dims | None]
"""The sizes of a model's inputs, by name, as far as it tells them itself."""


def check_alike(
    first: tuple[str, Case], second: tuple[str, Case], describe: Callable[[ModelVersion], ModelDescription]
) -> None:
    """Raise `InputError` where these two, each with what a person calls it, do not take the same inputs.

    `describe` tells what a model asks for itself.
    """
    ours, theirs = (case.configuration.inputs for _, case in (first, second))
    if [_asked(one) for one in ours] == [_asked(one) for one in theirs]:
        return
    told = " and ".join(
        f"{', '.join(f'{one.name} {one.dtype} {joined(one.shape)}' for one in inputs)} in {name}"
        for inputs, (name, _) in ((ours, first), (theirs, second))
    )
    own, their_own = ({one.name: one.dims for one in describe(case.model).inputs} for _, case in (first, second))
    remedies = "".join(f"; {one}" for one in _remedies(ours, theirs, own, their_own))
    raise InputError(f"the two models take other inputs, so they cannot be compared: {told}{remedies}")


def _asked(tensor: InputTensor) -> tuple[str, str, tuple[int, ...]]:
    return tensor.name, tensor.dtype, tensor.shape


def _remedies(
    ours: Sequence[InputTensor], theirs: Sequence[InputTensor], own: _OwnDims, their_own: _OwnDims
) -> Iterator[str]:
    """What would make the inputs alike, where there are as many."""
    if len(ours) != len(theirs):
        return
    by_name = {one.name: one for one in theirs}
    has_same_names = by_name.keys() == {one.name for one in ours}
    pairs = [(one, by_name[one.name] if has_same_names else other) for one, other in zip(ours, theirs, strict=True)]
    if not has_same_names:
        yield f"rename the input{'s' if len(ours) > 1 else ''} of one of them"
    elif [one.name for one in ours] != [one.name for one in theirs]:
        yield "put the inputs of one of them into the order of the other's"
    if any(one.dtype != other.dtype for one, other in pairs):
        yield "convert one of them, so that both take the same types"
    if apart := [(one, other) for one, other in pairs if one.shape != other.shape]:
        is_open = all(_may_be_alike(one, other, own.get(one.name), their_own.get(other.name)) for one, other in apart)
        open_words, fixed_words = "as dimensions are open, --shape may make them alike", "their sizes are fixed"
        yield open_words if is_open else fixed_words


def _may_be_alike(ours: InputTensor, theirs: InputTensor, own: Dims | None, their_own: Dims | None) -> bool:
    """Whether each size that differs is open in one of the models."""
    if own is None or their_own is None:
        return True
    sizes = zip(ours.shape, theirs.shape, own, their_own, strict=False)
    is_fixed = any(one != other and isinstance(a, int) and isinstance(b, int) for one, other, a, b in sizes)
    return len(own) == len(their_own) and not is_fixed
