"""What two models that take other inputs are told: what would help them, and nothing that would not."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from enginebench_controller.errors import InputError
from enginebench_controller.models.formats.signature import Dims, InputDescription, ModelDescription
from enginebench_controller.plan.alike_inputs import check_alike
from enginebench_controller.plan.expand import Case
from enginebench_controller.records import InputTensor, ModelVersion
from offered import CASE

Input = tuple[str, str, Dims]
"""Name, type and sizes; an open one is a name, which is bound to 4."""
NET: Input = ("x", "float32", (1, 3, 8))


def side(called: str, inputs: Sequence[Input]) -> tuple[str, Case]:
    tensors = tuple(
        InputTensor(name, dtype, tuple(4 if isinstance(one, str) else int(one or 0) for one in dims))
        for name, dtype, dims in inputs
    )
    model = replace(CASE.model, name="as it was added", digest=called)
    return called, replace(CASE, model=model, configuration=replace(CASE.configuration, inputs=tensors))


def told(base: Sequence[Input], head: Sequence[Input]) -> str:
    own = {"a 1.onnx": base, "b.onnx": head}

    def describe(version: ModelVersion) -> ModelDescription:
        return ModelDescription("onnx", tuple(InputDescription(*one) for one in own[version.digest]))

    with pytest.raises(InputError) as refused:
        check_alike(side("a 1.onnx", base), side("b.onnx", head), describe)
    return str(refused.value)


@pytest.mark.parametrize(
    ("base", "head", "remedy"),
    [
        ([NET], [("image", "float32", (1, 3, 8))], "; rename the input of one of them"),
        ([NET], [("x", "float16", (1, 3, 8))], "; convert one of them, so that both take the same types"),
        ([NET], [("x", "float32", (1, 4, 8))], "; their sizes are fixed"),
        ([NET], [("x", "float32", ("N", 4, 8))], "; their sizes are fixed"),
        ([NET], [("x", "float32", (1, 3, 8, 1))], "; their sizes are fixed"),
        ([NET], [("x", "float32", (1, 3, "width"))], "; as dimensions are open, --shape may make them alike"),
        ([NET], [NET, ("y", "float32", (1,))], ""),
        ([NET, ("y", "int64", (1,))], [("y", "int64", (1,)), NET], "; put the inputs of one of them into the order of"),
        (
            [NET],
            [("image", "float16", (1, 3, "width"))],
            "; rename the input of one of them; convert one of them, so that both take the same types; as dimensions "
            "are open, --shape may make them alike",
        ),
    ],
)
def test_models_of_other_inputs_are_told_what_would_make_them_alike(
    base: Sequence[Input], head: Sequence[Input], remedy: str
) -> None:
    sentence = told(base, head)
    assert "as it was added" not in sentence
    _, _, behind = sentence.partition(" in b.onnx")
    assert behind.startswith(remedy) and (remedy or not behind)
    assert "cannot be compared: x float32 1x3x8" in sentence and " in a 1.onnx and " in sentence


def test_models_of_the_same_inputs_are_compared() -> None:
    check_alike(side("a", [NET]), side("b", [NET]), lambda _: pytest.fail("nobody has to look"))
