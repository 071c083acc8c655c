"""The inputs of a model in a format of the engine's own: those of the file, closed by what is given and the batch."""

from pathlib import Path

import pytest

from enginebench_plugins import spec
from enginebench_plugins.toolkit.engine import own_inputs

IMAGE = spec.TensorSpec("image", "float32", (None, 8, 8, 3))
SCALARS = spec.TensorSpec("sizes", "int32", (2,))


def source(**shapes: tuple[int, ...]) -> spec.ModelSource:
    given = tuple(spec.TensorSpec(name, "float32", shape) for name, shape in shapes.items())
    return spec.ModelSource(Path("net.own"), "own", given)


def shapes(declared: list[spec.TensorSpec], batch: int, **given: tuple[int, ...]) -> dict[str, tuple[int | None, ...]]:
    return {tensor.name: tensor.shape for tensor in own_inputs(declared, source(**given), batch)}


def test_an_open_first_size_is_the_batch_and_a_shape_that_is_given_holds() -> None:
    assert shapes([IMAGE, SCALARS], 4) == {"image": (4, 8, 8, 3), "sizes": (2,)}
    assert shapes([IMAGE, SCALARS], 4, image=(4, 16, 16, 3)) == {"image": (4, 16, 16, 3), "sizes": (2,)}
    (sizes,) = own_inputs([SCALARS], source(sizes=(3,)), 1)
    assert (sizes.dtype, sizes.shape) == ("int32", (3,)), "the file's own element type"


@pytest.mark.parametrize(
    ("declared", "batch", "given", "words"),
    [
        ([IMAGE], 1, {"picture": (1, 8, 8, 3)}, "picture is no input of this model; it has image"),
        ([spec.TensorSpec("x", "float32", (None, None, 3))], 2, {}, r"give its sizes, --shape x=2x\?x3"),
        ([SCALARS], 2, {"sizes": (3,)}, "no input of this model has the batch 2: sizes is 3"),
        ([spec.TensorSpec("x", "float32", (1, 3))], 8, {}, "no input of this model has the batch 8: x is 1x3"),
        ([spec.TensorSpec("x", "float32", ())], 8, {}, "no input of this model has the batch 8"),
    ],
)
def test_what_stays_open_or_has_no_such_batch_is_refused(
    declared: list[spec.TensorSpec], batch: int, given: dict[str, tuple[int, ...]], words: str
) -> None:
    with pytest.raises(spec.UnsupportedSettingsError, match=words):
        shapes(declared, batch, **given)
