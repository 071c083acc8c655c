"""Taking apart what people type behind options."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_controller.model.shapes import GivenShape, parse_shapes, split_by_input, split_shapes
from enginebench_controller.planning.plan import make_plan


def split(text: str | None) -> list[str] | None:
    """The parts of "A,B"; None for None."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def stated(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were given; for the others the plan has its defaults."""
    return {key: value for key, value in fields.items() if value is not None}


def pairs(texts: list[str] | None, form: str) -> dict[str, str] | None:
    """The pairs of several "KEY=VALUE"; None for None. Raises `InputError` naming the `form` expected."""
    if texts is None:
        return None
    for text in texts:
        if "=" not in text:
            raise InputError(f"{text!r} is not of the form {form}")
    return dict(text.split("=", 1) for text in texts)


def shapes(texts: list[str] | None) -> dict[str, str] | None:
    """The shapes of several "INPUT=AxBxC", by input; None for None. Raises `ModelError`."""
    return None if texts is None else split_shapes(texts)


def given_shapes(shape: list[str] | None, batch_axis: list[str] | None) -> dict[str, GivenShape]:
    """What was said of the shapes and batch axes of inputs. Raises `InputError`."""
    axes = make_plan({"models": ("any",)} | stated({"batch_axis": _batch_axes(batch_axis)}), "run").batch_axis
    return parse_shapes(shapes(shape) or {}, axes)


def fed(inputs: str | None, values: list[str] | None, batch_axis: list[str] | None) -> dict[str, Any]:
    """The plan's fields for what a model is fed; nothing for what was not given. Raises `ModelError`."""
    filled = None if values is None else split_by_input(values, "--input", "INPUT=VALUE, such as sr=16000 or mask=ones")
    return _inputs(inputs) | stated({"input_values": filled, "batch_axis": _batch_axes(batch_axis)})


def _batch_axes(texts: list[str] | None) -> dict[str, str] | None:
    return None if texts is None else split_by_input(texts, "--batch-axis", "INPUT=AXIS, such as input=1")


def _inputs(text: str | None) -> dict[str, Any]:
    """For "8" random inputs, or a folder of files."""
    if text is None:
        return {}
    if text.isdecimal():
        return {"inputs": int(text), "input_folder": None}
    return {"input_folder": input_folder(Path(text))}


def image_options(
    resize: str | None, layout: str | None, scale: float | None, mean: list[str] | None, std: list[str] | None
) -> dict[str, Any] | None:
    """The plan's fields for how images become tensors; None where nothing was given."""
    return stated({"resize": resize, "layout": layout, "scale": scale, "mean": mean, "std": std}) or None


def input_folder(folder: Path) -> str:
    """The plan's field for a folder of inputs: absolute, so that a rerun finds it from anywhere."""
    return str(folder.expanduser().absolute())
