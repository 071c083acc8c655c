"""Options that are fields of a plan, as parameters of a command; and under which headings its help has all of them."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Annotated, Any, get_args

import typer
from typer.models import OptionInfo

from enginebench_controller.cli import completion
from enginebench_controller.cli.options import AnyOf, targets_to_measure
from enginebench_controller.models.inputs.shapes import GivenShape, parse_shapes
from enginebench_controller.plan.options import OPTIONS, OptionForm, OptionGroup, PlanOption, fields_of
from enginebench_controller.plan.plan import make_plan

Command = Callable[..., Any]
FIELDS = "fields"
"""The parameter of a command in whose place options stand, and that is given the fields of a plan."""

ONE_OF = ("target", "device", "batch", "cores", "precision", "streams", "load", "requests", "hint")
OF_ONE = (*ONE_OF, "option", "shape", "batch-axis", "inputs", "input")
"""What tells the one configuration that a gate is of: those in `ONE_OF` have several values elsewhere."""

_TYPES: Mapping[OptionForm, Any] = {
    OptionForm.INTEGER: int | None,
    OptionForm.NUMBER: float | None,
    OptionForm.LIST: list[str] | None,
    OptionForm.PAIRS: list[str] | None,
    OptionForm.BY_INPUT: list[str] | None,
    OptionForm.SWITCH: bool | None,
}

_OFFERED = {"engine": completion.engines, "target": completion.targets}
"""What a shell offers behind an option."""

_OWN: Mapping[OptionGroup, tuple[str, ...]] = {
    OptionGroup.WHAT: (
        *("trust", "base", "head", "good", "bad", "versions", "wheels", "package", "models", "options", "worse"),
        *("tolerate", "metric", "layers", "skip", "batches", "sparsity", "sparsities"),
        *("measure", "by_layer", "goal", "cap", "least", "optimization_level"),
        *("max_latency", "max_memory", "max_output_difference", "maximize", "minimize", "fix", "among", "versions"),
    ),
    OptionGroup.WHERE: ("any_of", "leave_cores"),
    OptionGroup.HOW_LONG: ("budget",),
    OptionGroup.INPUTS: ("samples",),
    OptionGroup.OUTPUT: (
        *("dry_run", "print_plan", "watch", "json", "notes", "most", "top", "by", "chart", "csv"),
        *("markdown", "junit_file", "html", "force", "strict", "log_to", "plan_file"),
    ),
}
"""Parameters of commands that are no fields of a plan, and what they are about."""


def plan_options(*names: str, one_each: bool = False) -> Callable[[Command], Command]:
    """Let a command have these options, or without any name all that there are, in the place of `fields`.

    The command is called with the fields of a plan that follow from what was given; what was not given has none. With
    `one_each` the help asks for one value where a plan may have several.
    """
    chosen = [OPTIONS[name] for name in names] or list(OPTIONS.values())

    def with_options(command: Command) -> Command:
        @wraps(command)
        def given(**typed: Any) -> Any:
            said = {one.name: typed.pop(_parameter_name(one)) for one in chosen}
            fields = fields_of(said)
            if OPTIONS["target"] in chosen:
                names = targets_to_measure(fields.get("targets"), typed.pop("any_of"))
                fields |= {"targets": names} if names else {}
            return command(**typed, **{FIELDS: fields})

        own = list(inspect.signature(command, eval_str=True).parameters.values())
        place = [one.name for one in own].index(FIELDS)
        parameters = [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for one in (
                *map(_grouped, own[:place]),
                *_parameters(chosen, one_each=one_each),
                *map(_grouped, own[place + 1 :]),
            )
        ]
        given.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # where typer looks
        given.__annotations__ = {one.name: one.annotation for one in parameters}
        return given

    return with_options


def _parameter_name(option: PlanOption) -> str:
    return option.name.replace("-", "_")


def _parameters(options: Sequence[PlanOption], *, one_each: bool) -> Iterator[inspect.Parameter]:
    for option in options:
        is_one = one_each and option.name in ONE_OF
        yield _parameter(_of_one(option) if is_one else option)
        if option.name == "target":
            any_of = inspect.Parameter("any_of", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=AnyOf)
            yield _grouped(any_of)


def _of_one(option: PlanOption) -> PlanOption:
    """The option as a gate has it: the first of "N,M,…", or a name, where that is all it says."""
    first = option.metavar.partition(",")[0]
    return replace(option, metavar="NAME" if first == "A" else first, help=_HELP_OF_ONE.get(option.name, option.help))


_HELP_OF_ONE = {
    "target": r"Target by name, label:KEY=VALUE or HOST:PORT. \[default: an agent on this machine]",
    "device": r"Device. \[default: each engine's CPU]",
    "load": r"sync: one by one; async: several in flight. \[default: sync]",
    "requests": r"Requests in flight, at most, under async. \[default: as many as streams, as cores under a hint for "
    r"throughput, and at least 2]",
}
"""Of options that offer more than one configuration elsewhere."""


def _parameter(option: PlanOption) -> inspect.Parameter:
    said = f"--{option.name}/--{option.opposite}" if option.opposite else f"--{option.name}"
    told = typer.Option(
        said,
        metavar=option.metavar or None,
        help=option.help,
        show_default=False,
        rich_help_panel=option.group,
        autocompletion=_OFFERED.get(option.name),
    )
    typed: Any = _TYPES.get(option.form, str | None)
    kind = Annotated[typed, told]
    return inspect.Parameter(_parameter_name(option), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _grouped(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter of the command's own with the heading that it stands under, and what is offered behind it.

    On a copy: other commands share the option.
    """
    typed, *said = get_args(parameter.annotation)
    if not said or not isinstance(said[0], OptionInfo):
        return parameter
    told = copy(said[0])
    told.rich_help_panel = _group(parameter.name)
    told.autocompletion = _OFFERED.get(parameter.name)
    return parameter.replace(annotation=Annotated[typed, told])


def _group(name: str) -> OptionGroup | None:
    field = OPTIONS.get(name.replace("_", "-"))
    return field.group if field else next((group for group, names in _OWN.items() if name in names), None)


def given_shapes(fields: Mapping[str, Any]) -> dict[str, GivenShape]:
    """What these fields of a plan say of the shapes and batch axes of inputs. Raises `InputError`."""
    plan = make_plan({"models": ("any",), **fields}, "run")
    return parse_shapes(plan.shapes, plan.batch_axis)
