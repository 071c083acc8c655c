"""`enginebench targets bootstrap` and `targets upgrade`: put an agent on another machine, over SSH."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from enginebench_controller.bootstrap.bootstrapping import bootstrap_steps, carry_out
from enginebench_controller.bootstrap.installation import Installation, Wish
from enginebench_controller.bootstrap.wheel import Wheel, given_wheel, own_wheel
from enginebench_controller.cli.console import plain, remark, stdout
from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home
from enginebench_controller.records import Target
from enginebench_controller.running.ssh import MAX_PORT, SCHEME, SshPlace, is_ssh
from enginebench_controller.running.target_address import new_target

Python = Annotated[str, typer.Option(metavar="COMMAND", help="The Python to use there, 3.11 or newer.")]
WheelFile = Annotated[
    Path | None, typer.Option("--wheel", metavar="FILE", help=r"What to install. \[default: the version used here]")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the steps, and do none of them.")]


def bootstrap_target(
    machine: Annotated[str, typer.Argument(metavar="USER@HOST", help="Where to log in, also as USER@HOST:PORT.")],
    name: Annotated[str | None, typer.Option(help=r"A short name for the machine. \[default: HOST]")] = None,
    engine: Annotated[str, typer.Option(metavar="A,B,…", help="Engines to install there, each by itself.")] = "",
    port: Annotated[
        int | None, typer.Option(min=1, max=MAX_PORT, help=r"The agent's port there. \[default: 50151]")
    ] = None,
    python: Python = "python3",
    wheel: WheelFile = None,
    dry_run: DryRun = False,
) -> None:
    """Put an agent on a machine over SSH, and add it as a target. What is done already is left as it is."""
    place = SshPlace.parse(machine if is_ssh(machine) else SCHEME + machine)
    place = place if port is None else replace(place, agent_port=port)
    engines = tuple(word for word in (part.strip() for part in engine.split(",")) if word)
    _bootstrap(new_target(name or place.host, place.address), engines, python, wheel, dry_run=dry_run)


def upgrade_target(
    name: Annotated[str, typer.Argument(help="A target that is reached over SSH.")],
    python: Python = "python3",
    wheel: WheelFile = None,
    dry_run: DryRun = False,
) -> None:
    """Bring the enginebench of a target to the version used here. Results not collected yet stay on it."""
    target = next((each for each in default_home().store.targets() if each.name == name), None)
    if target is None:
        raise InputError(f"there is no target {name!r}; see `enginebench targets list`")
    if not is_ssh(target.address):
        raise InputError(
            f"the target {name!r} is at {target.address}, and only ssh:// targets can be upgraded from here"
        )
    _bootstrap(target, (), python, wheel, dry_run=dry_run)


def _bootstrap(target: Target, engines: tuple[str, ...], python: str, wheel: Path | None, *, dry_run: bool) -> None:
    with TemporaryDirectory(prefix="enginebench-") as folder:
        source = partial(_wheel, wheel, Path(folder))
        wish = Wish(SshPlace.parse(target.address), source, engines, python)
        steps = bootstrap_steps(default_home(), target, Installation(wish))
        if dry_run:
            for number, step in enumerate(steps, start=1):
                stdout().print(plain(f"{number}. {step.title}"), soft_wrap=True)
        else:
            carry_out(steps, remark)


def _wheel(given: Path | None, folder: Path) -> Wheel:
    return own_wheel(folder) if given is None else given_wheel(given)
