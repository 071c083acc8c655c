"""From a machine to a target: what is to be installed there, then what is to be noted here."""

from collections.abc import Callable, Sequence
from functools import partial

from enginebench_controller.bootstrap.installation import DONE_ALREADY, Installation, Step
from enginebench_controller.errors import UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.records import Target
from enginebench_controller.running.health import Health, ask_health

_ANSWER_SECONDS = 15.0


def bootstrap_steps(home: Home, target: Target, installation: Installation) -> Sequence[Step]:
    """The steps until the target answers. Raises `InputError` where its name belongs to another address."""
    known = {each.name: each.address for each in home.store.targets()}
    if known.get(target.name, target.address) != target.address:
        home.store.add_target(target)  # says that the name is taken
    remember = Step(f"remember it as the target {target.name}", partial(_remember, home, target, known))
    return (*installation.steps(), remember, Step("ask its agent", partial(_ask, target, installation)))


def carry_out(steps: Sequence[Step], tell: Callable[[str], None]) -> None:
    """Do the steps in their order and tell how they go. Raises what they raise: all can be done again."""
    for number, step in enumerate(steps, start=1):
        tell(f"{number}/{len(steps)} {step.title} …")
        tell(f"    {step.do()}")


def _remember(home: Home, target: Target, known: dict[str, str]) -> str:
    if target.name in known:
        return DONE_ALREADY
    home.store.add_target(target)
    return target.address


def _ask(target: Target, installation: Installation) -> str:
    if not installation.has_systemd:
        return f"start it by hand: {installation.serve_by_hand}"
    (answer,) = ask_health([target], _ANSWER_SECONDS)
    if answer.health is not Health.SERVING:
        raise UnreachableError(answer.sentence)
    return f"it answers; see what it has with `enginebench devices --target {target.name}`"
