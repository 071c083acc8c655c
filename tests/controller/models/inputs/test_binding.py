"""Every open dimension is closed by a rule, or the person learns what to give."""

import re

import pytest

from enginebench_controller.errors import ModelError
from enginebench_controller.models.formats.signature import Dims, InputDescription, ModelDescription, OutputDescription
from enginebench_controller.models.inputs.binding import bind, given_shapes
from enginebench_controller.models.inputs.shapes import GivenShape, parse_shape, parse_shapes, split_shapes
from enginebench_controller.records import InputTensor
from enginebench_proto.agreed.words import ModelFormat


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


def decoder(layers: int, mask: str = "past_sequence_length + sequence_length", heads: int = 3) -> ModelDescription:
    """As optimum exports one."""
    past = ("batch_size", heads, "past_sequence_length", 64)
    return model(
        ("input_ids", ("batch_size", "sequence_length")),
        ("attention_mask", ("batch_size", mask)),
        *((f"past_key_values.{layer}.{kind}", past) for layer in range(layers) for kind in ("key", "value")),
    )


@pytest.mark.parametrize(
    ("mask", "past", "expected"),
    [("past_sequence_length + sequence_length", 16, 144), ("past_sequence_length+1", 16, 17), ("1 + sequence", 0, 129)],
)
def test_a_dimension_named_as_a_sum_is_the_sum(mask: str, past: int, expected: int) -> None:
    bound = bind(decoder(1, mask), 2, parse_shapes({"past_key_values.0.key": f"1x3x{past}x64"}))
    assert [item.shape for item in bound.inputs] == [(2, 128), (2, expected), (2, 3, past, 64), (2, 3, past, 64)]
    assert all("+" not in sentence for sentence in bound.assumptions)


def test_a_size_that_many_inputs_share_is_asked_for_once() -> None:
    with pytest.raises(ModelError) as raised:
        bind(decoder(30), 1)
    assert str(raised.value) == (
        "Input 'past_key_values.0.key' has open dimensions ('past_sequence_length', shared by 59 more inputs): "
        "give its sizes, --shape past_key_values.0.key=1x3x128x64"
    )


def test_a_sum_of_what_no_input_has_is_asked_for_itself() -> None:
    with pytest.raises(ModelError, match=r"Input 'x' has open dimensions \('past \+ 4'\): .*--shape x=1x3x132$"):
        bind(model(("x", ("batch", 3, "past + 4"))), 1)


def test_an_example_has_the_same_size_for_the_same_name() -> None:
    """Of a picture the side, of a vector the length: what is shown for both can be given."""
    description = model(("picture", ("n", 3, "s", "s")), ("other", ("n", "s", "t")))
    with pytest.raises(ModelError) as raised:
        bind(description, 1)
    shown = dict(text.split("=") for text in re.findall(r"--shape (\w+=[\dx]+)", str(raised.value)))
    assert [item.shape for item in bind(description, 1, parse_shapes(shown)).inputs] == [
        (1, 3, 224, 224),
        (1, 224, 128),
    ]


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


def test_where_the_engine_tells_the_inputs_only_what_was_given_is_bound() -> None:
    own = ModelDescription("tflite")
    assert bind(own, 8).inputs == ()
    assert bind(own, 8, {"x": (1, 3)}).inputs == (InputTensor("x", "float32", (8, 3)),)
    (without_batch,) = bind(own, 1, {"x": (3, 64, 64)}).inputs
    assert (without_batch.shape, without_batch.items) == ((3, 64, 64), None)
    with pytest.raises(ModelError, match="contradicts --batch 8"):
        bind(own, 8, {"x": (3, 64, 64)})


def test_shapes_are_read_from_text() -> None:
    assert parse_shape("1x3x224x224") == GivenShape((1, 3, 224, 224))
    assert parse_shape("[1, 3,224,224]") == GivenShape((1, 3, 224, 224))
    assert parse_shape("int64:1x128") == parse_shape("int64:[1,128]") == GivenShape((1, 128), "int64")
    assert split_shapes(["a=1x2", "b:0=3x4,c=5"]) == {"a": "1x2", "b:0": "3x4", "c": "5"}
    assert split_shapes(["a=[1,2],b[0]=3x4, c=[5]"]) == {"a": "[1,2]", "b[0]": "3x4", "c": "[5]"}


@pytest.mark.parametrize(
    "text", ["", "1x", "axb", "-1x3", "1,3", "complex64:1x3", "1x3;2", "1 x 3", "[1,3", "[]", "[1x3]", "٤x8", "[４,8]"]
)
def test_what_is_no_shape_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ModelError, match=r"is not a shape: .*1x3x224x224"):
        parse_shape(text)


def test_nameless_and_repeated_shapes_are_refused() -> None:
    with pytest.raises(ModelError, match="names no input"):
        split_shapes(["1x3"])
    with pytest.raises(ModelError, match="gives 'a' twice"):
        split_shapes(["a=1x3", "a=1x4"])


def axes(description: ModelDescription, batch: int = 1, **given: GivenShape | tuple[int, ...]) -> list[int | None]:
    return [item.batch_axis for item in bind(description, batch, given).inputs]


def test_dimensions_without_a_name_are_each_their_own() -> None:
    assert shapes(model(("x", (None, 3, None, None))), 2, x=(1, 3, 48, 192)) == [(2, 3, 48, 192)]


@pytest.mark.parametrize("dims", [("?", 3, "p2o.DynamicDimension.1", "p2o.DynamicDimension.2"), (None, None, None)])
def test_the_shape_that_a_refusal_shows_can_be_given(dims: Dims) -> None:
    description = model(("x", dims), ("state", (2, None, 64)))
    with pytest.raises(ModelError, match="open dimensions") as raised:
        bind(description, 1)
    shown = dict(text.split("=") for text in re.findall(r"--shape (\w+=[\dx]+)", str(raised.value)))
    assert bind(description, 1, parse_shapes(shown)).inputs[1].shape == (2, 1, 64)


def test_a_size_of_0_is_a_size() -> None:
    description = model(("past", ("batch", "past_len", 4)), ("x", (1, 0, 3)))
    assert shapes(description, 1, past=(1, 0, 4)) == [(1, 0, 4), (1, 0, 3)]
    assert parse_shape("0x4") == GivenShape((0, 4))
    assert shapes(model(("x", (0, 4))), 1) == [(0, 4)]


@pytest.mark.parametrize(
    "dims", [(7, "N", 10), ("seq_len", "batch", 10), (1, "batch_size", 10), ("T", "B", 10), ("sequence", "bs")]
)
def test_a_batch_that_is_not_in_front_is_known_by_its_name(dims: Dims) -> None:
    sizes = (7 if dims[0] == 7 else 1 if dims[0] == 1 else 8, 5, *(10 for _ in dims[2:]))
    bound = bind(model(("x", dims)), 5, {"x": sizes})
    (item,) = bound.inputs
    assert (item.batch_axis, item.items, bound.fixed_batch) == (1, 5, None)


def test_a_dimension_called_as_the_batch_of_another_input_is_the_batch() -> None:
    description = model(("x", ("N", 3)), ("state", (2, "N", 8)), ("sr", ()))
    assert axes(description, 4) == [0, 1, None]
    assert shapes(description, 4) == [(4, 3), (2, 4, 8), ()]


def test_time_steps_are_not_taken_for_items() -> None:
    description = model(("x", ("seq_len", 10)))
    assert axes(description) == [None]
    with pytest.raises(ModelError, match=r"cannot run at batch 4: .*--batch-axis x=1"):
        bind(description, 4)
    assert axes(model(("frames", ("num_frames", 3, 8, 8)))) == [0]


def test_counts_of_different_things_are_not_the_batch() -> None:
    graph = model(("nodes", ("num_nodes", 8)), ("edges", ("num_edges", 2)))
    assert shapes(graph, 1, nodes=(24, 8), edges=(52, 2)) == [(24, 8), (52, 2)]
    assert axes(graph, nodes=(24, 8), edges=(52, 2)) == [None, None]
    assert axes(model(("a", ("unk__1", 8)), ("b", ("unk__2", 8)))) == [0, 0]  # generated names tell nothing


def test_the_batch_axis_may_be_said() -> None:
    description = model(("x", (7, 3, 10)), ("state", (1, 3, 20)))
    given = parse_shapes({}, {"x": 1})
    assert bind(description, 3, given).fixed_batch is None
    other = bind(description, 4, given)
    assert (other.fixed_batch, [item.batch_axis for item in other.inputs]) == (3, [1, 1])
    assert [item.with_items(4).shape for item in other.inputs] == [(7, 4, 10), (1, 4, 20)]
    without = bind(model(("x", (7, 10))), 1, parse_shapes({}, {"x": "none"}))
    assert (without.fixed_batch, without.inputs[0].items) == (None, None)


def test_a_batch_axis_that_is_not_there_is_refused() -> None:
    with pytest.raises(ModelError, match="--batch-axis x=2: 'x' is Nx3, so its dimensions are 0 to 1"):
        bind(model(("x", ("N", 3))), 1, parse_shapes({}, {"x": 2}))
    with pytest.raises(ModelError, match="--batch-axis names 'y', which is no input of the model"):
        bind(model(("x", ("N", 3))), 1, parse_shapes({}, {"y": 0}))


def test_what_was_bound_binds_again() -> None:
    bound = bind(model(("x", (7, "N", 10)), ("anchors", ("num_boxes", 4)), ("sr", ())), 5, {"anchors": (10, 4)})
    description = model(("x", (7, "N", 10)), ("anchors", ("num_boxes", 4)), ("sr", ()))
    assert bind(description, 5, given_shapes(bound.inputs)).inputs == bound.inputs


def test_outputs_have_the_batch_where_their_names_say() -> None:
    inputs = (InputDescription("x", "float32", ("T", "N", 10)),)
    outputs = (
        OutputDescription("y", "float32", ("T", 1, "N", 20)),
        OutputDescription("z", "float32", ("N", 3)),
        OutputDescription("other", "float32", (None, 3)),
    )
    bound = bind(ModelDescription(ModelFormat.ONNX, inputs, outputs), 4)
    assert bound.output_batch_axes == {"y": 2, "z": 0}


def test_lengths_are_those_of_what_they_tell_of() -> None:
    inputs = (
        InputDescription("audio", "float32", ("batch", "frames", 80)),
        InputDescription("audio_len", "int64", ("batch",)),
        InputDescription("mask", "int64", ("batch", "frames")),
        InputDescription("wavelength", "float32", ()),
    )
    assert bind(ModelDescription(ModelFormat.ONNX, inputs), 2, {"audio": (1, 50, 80)}).lengths == {"audio_len": 50}
