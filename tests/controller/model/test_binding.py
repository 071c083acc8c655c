"""Every open dimension is closed by a rule, or the person learns what to give."""

import pytest

from enginebench_controller.errors import ModelError
from enginebench_controller.model.binding import GivenShape, bind, parse_shape, parse_shapes, split_shapes
from enginebench_controller.model.signature import Dims, InputDescription, ModelDescription, ModelFormat
from enginebench_controller.records import InputTensor


def model(*inputs: tuple[str, Dims | None], dtype: str = "float32") -> ModelDescription:
    return ModelDescription(ModelFormat.ONNX, tuple(InputDescription(name, dtype, dims) for name, dims in inputs))


def shapes(description: ModelDescription, batch: int, **given: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [item.shape for item in bind(description, batch, given).inputs]


def test_an_open_first_dimension_is_the_batch() -> None:
    description = model(("a", ("n", 3)), ("b", (None, 5)), ("scalar", ()))
    assert shapes(description, 4) == [(4, 3), (4, 5), ()]
    assert bind(description, 4).fixed_batch is None


def test_a_fixed_first_dimension_shared_by_all_inputs_is_the_fixed_batch() -> None:
    description = model(("a", (2, 3)), ("b", (2,)), ("scalar", ()))
    assert bind(description, 2).fixed_batch is None
    other = bind(description, 4)
    assert other.fixed_batch == 2
    assert [item.shape for item in other.inputs] == [(2, 3), (2,), ()]


def test_fixed_inputs_beside_one_with_an_open_batch_stay_as_they_are() -> None:
    assert shapes(model(("image", ("n", 3)), ("anchors", (10, 4))), 2) == [(2, 3), (10, 4)]


def test_inputs_without_a_common_batch_run_at_batch_1_only() -> None:
    description = model(("a", (2, 3)), ("b", (5,)))
    assert shapes(description, 1) == [(2, 3), (5,)]
    with pytest.raises(ModelError, match=r"cannot run at batch 4: its inputs \(a 2x3, b 5\)"):
        bind(description, 4)


def test_common_names_take_defaults_and_say_so_once() -> None:
    bound = bind(model(("ids", ("batch", "sequence_length")), ("mask", ("batch", "sequence_length"))), 1)
    assert [item.shape for item in bound.inputs] == [(1, 128), (1, 128)]
    assert bound.assumptions == ("dimension 'sequence_length' is open and was set to 128; --shape changes it",)
    assert shapes(model(("image", ("N", 3, "height", "width"))), 2) == [(2, 3, 224, 224)]


def test_a_given_shape_closes_the_same_name_everywhere() -> None:
    description = model(("ids", ("batch", "foo")), ("mask", ("batch", "foo")))
    assert shapes(description, 2, mask=(1, 77)) == [(2, 77), (2, 77)]


@pytest.mark.parametrize("name", [None, "s0", "past_sequence_length", "2*seq"])
def test_other_open_dimensions_name_the_shape_to_give(name: str | None) -> None:
    with pytest.raises(ModelError, match=r"Input 'x' has open dimensions .*--shape x=2x3x"):
        bind(model(("x", ("batch", 3, name))), 2)


def test_names_that_break_lines_do_not_break_the_sentence() -> None:
    with pytest.raises(ModelError, match="open dimensions") as raised:
        bind(model(("x\n\x1b[31m", ("batch", "a\nb"))), 2)
    assert str(raised.value).isprintable()


def test_the_batch_may_be_repeated_or_left_as_1_in_a_shape_and_nothing_else() -> None:
    description = model(("x", ("batch", 3, None)))
    assert shapes(description, 4, x=(1, 3, 9)) == shapes(description, 4, x=(4, 3, 9)) == [(4, 3, 9)]
    with pytest.raises(ModelError, match="dimension 0 is 2, but --batch asks for 4; write 1 there"):
        bind(description, 4, {"x": (2, 3, 9)})


def test_a_shape_against_fixed_dimensions_is_refused() -> None:
    description = model(("x", (2, 3)), ("y", ("n", 3)))
    with pytest.raises(ModelError, match="dimension 1 is 4, but the model has 3"):
        bind(description, 1, {"x": (2, 4)})
    with pytest.raises(ModelError, match="dimension 0 is 1, but the model has 2"):
        bind(description, 1, {"x": (1, 3)})
    with pytest.raises(ModelError, match="has 3 dimensions, but the model has 2"):
        bind(description, 1, {"x": (2, 3, 1)})


def test_two_shapes_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ModelError, match="dimension 1 is 6, but the model has 5"):
        bind(model(("a", ("n", "k")), ("b", ("n", "k"))), 1, {"a": (1, 5), "b": (1, 6)})


def test_an_unknown_name_brings_the_nearest() -> None:
    with pytest.raises(ModelError, match="did you mean 'input_ids'"):
        bind(model(("input_ids", ("n", 3))), 1, {"inputids": (1, 3)})


def test_an_unknown_rank_needs_a_shape() -> None:
    with pytest.raises(ModelError, match="--shape x="):
        bind(model(("x", None)), 1)
    assert shapes(model(("x", None)), 3, x=(1, 8)) == [(3, 8)]


def test_an_element_type_that_no_number_has_is_refused() -> None:
    with pytest.raises(ModelError, match="type str"):
        bind(model(("text", ("n",)), dtype="str"), 1)


def test_a_shape_with_another_element_type_is_refused() -> None:
    with pytest.raises(ModelError, match="as int64, but the model takes float32"):
        bind(model(("x", ("n", 3))), 1, {"x": GivenShape((1, 3), "int64")})


def test_a_model_without_readable_inputs_takes_the_shapes_in_the_order_given() -> None:
    torchscript = ModelDescription(ModelFormat.TORCHSCRIPT)
    given = parse_shapes(split_shapes(["b=int64:1x128,a=1x3x8x8"]))
    assert bind(torchscript, 2, given).inputs == (
        InputTensor("b", "int64", (2, 128)),
        InputTensor("a", "float32", (2, 3, 8, 8)),
    )
    with pytest.raises(ModelError, match="does not tell its inputs"):
        bind(torchscript, 1)
    with pytest.raises(ModelError, match="contradicts --batch 2"):
        bind(torchscript, 2, {"x": (3, 4)})


def test_shapes_are_read_from_text() -> None:
    assert parse_shape("1x3x224x224") == GivenShape((1, 3, 224, 224))
    assert parse_shape("int64:1x128") == GivenShape((1, 128), "int64")
    assert split_shapes(["a=1x2", "b:0=3x4,c=5"]) == {"a": "1x2", "b:0": "3x4", "c": "5"}


@pytest.mark.parametrize("text", ["", "1x", "axb", "-1x3", "1,3", "complex64:1x3", "1x3;2", "1 x 3"])
def test_what_is_no_shape_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ModelError, match=r"is not a shape: .*1x3x224x224"):
        parse_shape(text)


def test_nameless_and_repeated_shapes_are_refused() -> None:
    with pytest.raises(ModelError, match="names no input"):
        split_shapes(["1x3"])
    with pytest.raises(ModelError, match="gives 'a' twice"):
        split_shapes(["a=1x3", "a=1x4"])
