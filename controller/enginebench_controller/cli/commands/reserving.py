"""`enginebench targets reserve` and `enginebench targets release`: targets for one's own runs alone, for a while."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import complain, print_json, remark
from enginebench_controller.cli.options import Json, targets_meant
from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.files.documents import head
from enginebench_controller.home import default_home
from enginebench_controller.plan.options import split
from enginebench_controller.plan.plan import parse_duration_ns
from enginebench_controller.records import Reservation
from enginebench_controller.records.fields import RESERVATION
from enginebench_controller.targets.reserving import ReservationOrder, release, reserve

Names = Annotated[
    list[str], typer.Argument(metavar="NAME[,NAME…]…", help="Targets.", autocompletion=completion.targets)
]


def reserve_targets(
    names: Names,
    for_: Annotated[str, typer.Option("--for", metavar="2h", help="For how long, from now on.")],
    wait: Annotated[str, typer.Option(metavar="10m", help="How long to wait until others have ended theirs.")] = "0s",
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for whoever meets it.")] = "",
    json: Json = False,
) -> None:
    """Have targets for your own runs alone, all of them or none. Again, it sets the time anew."""
    if not _duration_ns("--for", for_):
        raise InputError(f"--for {for_} is no time: say how long, such as 2h; `enginebench targets release` ends one")
    order = ReservationOrder(_duration_ns("--for", for_), _duration_ns("--wait", wait), reason)
    made = asyncio.run(reserve(default_home(), _meant(names), order, _told_of_waiting))
    if json:
        _print_document(made)
        return
    for name, one in made.items():
        remark(f"{name} is reserved {one.words}; `enginebench targets release {name}` ends it sooner")


def release_targets(names: Names, json: Json = False) -> None:
    """End reservations before their time: your own, or, with the role admin, anybody's."""
    home, released, failed = default_home(), dict[str, Reservation | None](), list[EnginebenchError]()
    for name in _meant(names):
        try:
            released[name] = asyncio.run(release(home, name))
        except EnginebenchError as error:  # the others are still to be released
            failed.append(error)
    if json:
        _print_document(released)
    else:
        for name, one in released.items():
            remark(f"{name} was not reserved" if one is None else f"{name} is free: it was reserved {one.words}")
    for failure in failed:
        complain(str(failure))
    if failed:
        raise typer.Exit(int(failed[0].exit_code))


def _meant(words: Sequence[str]) -> list[str]:
    return targets_meant([name for word in words for name in split(word) or ()]) or []


def _duration_ns(option: str, text: str) -> int:
    try:
        return parse_duration_ns(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from error


def _told_of_waiting(sentence: str) -> None:
    remark(f"waiting: {sentence.splitlines()[0]}")


def _print_document(reservations: Mapping[str, Reservation | None]) -> None:
    targets = [{"name": name, "reservation": RESERVATION.to_data(one)} for name, one in reservations.items()]
    print_json(head("reservations") | {"targets": targets})
