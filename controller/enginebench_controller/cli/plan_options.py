"""Options that are fields of a plan, as parameters of a command."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any

import typer

from enginebench_controller.models.inputs.shapes import GivenShape, parse_shapes
from enginebench_controller.plan.options import OPTIONS, OptionForm, PlanOption, fields_of
from enginebench_controller.plan.plan import make_plan

Command = Callable[..., Any]
FIELDS = "fields"
"""The parameter of a command in whose place options stand, and that is given the fields of a plan."""

_TYPES: Mapping[OptionForm, Any] = {
    OptionForm.INTEGER: int | None,
    OptionForm.NUMBER: float | None,
    OptionForm.PAIRS: list[str] | None,
    OptionForm.BY_INPUT: list[str] | None,
    OptionForm.SWITCH: bool | None,
}


def plan_options(*names: str) -> Callable[[Command], Command]:
    """Let a command have these options, or without any name all that there are, in the place of `fields`.

    The command is called with the fields of a plan that follow from what was given; what was not given has none.
    """
    chosen = [OPTIONS[name] for name in names] or list(OPTIONS.values())

    def with_options(command: Command) -> Command:
        @wraps(command)
        def given(**typed: Any) -> Any:
            said = {one.name: typed.pop(_parameter_name(one)) for one in chosen}
            return command(**typed, **{FIELDS: fields_of(said)})

        own = list(inspect.signature(command, eval_str=True).parameters.values())
        place = [one.name for one in own].index(FIELDS)
        parameters = [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for one in (*own[:place], *map(_parameter, chosen), *own[place + 1 :])
        ]
        given.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # where typer looks
        given.__annotations__ = {one.name: one.annotation for one in parameters}
        return given

    return with_options


def _parameter_name(option: PlanOption) -> str:
    return option.name.replace("-", "_")


def _parameter(option: PlanOption) -> inspect.Parameter:
    said = f"--{option.name}/--{option.opposite}" if option.opposite else f"--{option.name}"
    told = typer.Option(said, metavar=option.metavar or None, help=option.help, show_default=False)
    typed: Any = _TYPES.get(option.form, str | None)
    kind = Annotated[typed, told]
    return inspect.Parameter(_parameter_name(option), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def given_shapes(fields: Mapping[str, Any]) -> dict[str, GivenShape]:
    """What these fields of a plan say of the shapes and batch axes of inputs. Raises `InputError`."""
    plan = make_plan({"models": ("any",), **fields}, "run")
    return parse_shapes(plan.shapes, plan.batch_axis)
