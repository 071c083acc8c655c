"""Which dimension of an output is the batch: as the model's names say, else as its inputs have it."""

from enginebench_controller.records import Configuration, InputTensor


def configuration(*axes: int | None, **named: int) -> Configuration:
    inputs = tuple(InputTensor(f"x{axis}", "float32", (4, 4, 4), None, axis) for axis in axes)
    return Configuration("CPU", 4, 2, inputs=inputs, output_batch_axes=named)


def test_an_output_has_the_batch_where_the_inputs_do() -> None:
    assert configuration(0).output_batch_axis("y", (4, 10)) == 0
    assert configuration(0).output_batch_axis("y", (10, 4)) is None  # any 4 may stand behind
    assert configuration(1).output_batch_axis("y", (7, 4, 10)) == 1


def test_a_batch_that_is_not_in_front_is_the_only_dimension_of_its_size() -> None:
    assert configuration(1).output_batch_axis("y", (7, 1, 4, 20)) == 2
    assert configuration(1).output_batch_axis("y", (4, 1, 4)) is None
    assert configuration(None).output_batch_axis("y", ()) is None


def test_names_come_first_where_they_fit() -> None:
    assert configuration(0, y=1).output_batch_axis("y", (4, 4)) == 1
    assert configuration(0, y=1).output_batch_axis("y", (4, 5)) == 0
