"""From what a form holds to the fields of a plan, and back: fields left as they are keep the plan's own defaults."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_controller.model.shapes import split_by_input, split_shapes
from enginebench_controller.planning.plan import Plan
from enginebench_controller.records import LOCAL_TARGET, Hint, Load

Fields = dict[str, Any]

PRECISIONS = ("f32", "bf16", "f16", "default")
LOADS = tuple(load.value for load in Load)
HINTS = tuple(hint.value for hint in Hint)


class Thoroughness(StrEnum):
    """How sure the numbers are to be."""

    QUICK = "quick"
    USUAL = "usual"
    OWN = "own"


THOROUGHNESS = {Thoroughness.QUICK: "Quick look", Thoroughness.USUAL: "Thorough", Thoroughness.OWN: "As I say"}
"""How each is called."""

THOROUGHNESS_HELP = (
    "**Quick look**: one process, 2 to 4 s a configuration. **Thorough**: five fresh processes, 6 s and more, in turns "
    "with those that it is compared with; what runs alone, three, until half of the median's 95 % interval is "
    "within 1 % of it."
)
_QUICK: Mapping[str, Any] = {"processes": 1, "duration": "2s", "max_duration": "4s", "interval": "2%"}


def timing(chosen: Thoroughness, own: Mapping[str, Any]) -> Fields:
    """Return the fields that say when a measurement ends."""
    match chosen:
        case Thoroughness.QUICK:
            return dict(_QUICK)
        case Thoroughness.USUAL:
            return {}
        case Thoroughness.OWN:
            return stated(own)


def stated(fields: Mapping[str, Any]) -> Fields:
    """Return the fields that say something: empty texts, lists and None do not."""
    return {key: value for key, value in fields.items() if value not in (None, "", [], (), {})}


def listed(text: str) -> list[str]:
    """Return the parts of "1, 2, 4"."""
    return [part.strip() for part in text.replace(";", ",").split(",") if part.strip()]


def shapes(text: str) -> dict[str, str]:
    """Return the shapes of "x=1x3x224x224, y=8". Raises `InputError`."""
    return split_shapes(listed(text))


def by_input(text: str, field: str) -> dict[str, str]:
    """Return what is said of each input in "sr=16000, mask=ones". Raises `InputError`."""
    return split_by_input(listed(text), f"{field}:", "INPUT=VALUE")


def options(text: str) -> dict[str, str]:
    """Return the options of lines "ENGINE.NAME=VALUE". Raises `InputError`."""
    lines = [line.strip() for line in text.replace(",", "\n").splitlines() if line.strip()]
    if wrong := [line for line in lines if "=" not in line]:
        raise InputError(f"{wrong[0]!r} is not of the form ENGINE.NAME=VALUE")
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}


def targets(names: Sequence[str]) -> Fields:
    """Return the targets of a plan; this machine alone is what a plan means by itself."""
    return {} if list(names) in ([], [LOCAL_TARGET]) else {"targets": list(names)}


def default_name(models: Iterable[str], engines: Sequence[str]) -> str:
    """Name an order after its models and engines: "resnet50 on onnxruntime, openvino"."""
    which = ", ".join(name.removeprefix("zoo:") for name in models)
    return f"{which} on {', '.join(engines)}" if engines else which


def axes_of(plan: Mapping[str, Any]) -> Fields:
    """Return what a stored plan says of batch and cores, streams, precision, load and hint, as far as a form has it."""
    known = Plan.model_fields
    names = ("batch", "cores", "streams", "precision", "load", "hint")
    return {name: list(plan[name]) for name in names if name in known and isinstance(plan.get(name), list)}
