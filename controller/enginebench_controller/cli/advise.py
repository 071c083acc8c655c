"""`enginebench advise`: what plain rules have to say of a profile."""

from typing import Annotated

import typer

from enginebench_controller.cli.console import print_json
from enginebench_controller.cli.options import Json
from enginebench_controller.cli.prospects_tables import print_advice
from enginebench_controller.documents.prospects import advice_document
from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home
from enginebench_controller.prospects import advise as advise_on
from enginebench_controller.prospects import sweep_for
from enginebench_controller.records import Profile
from enginebench_controller.store.store import Store


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("advise")(advise)


def advise(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="Id, start of an id, or name of a profile.")],
    against: Annotated[
        str | None,
        typer.Option(metavar="PROFILE", help="Another one to hold it against, such as the floating model's."),
    ] = None,
    json: Json = False,
) -> None:
    """Say what a profile suggests, each with its numbers, the layers it is about and what to do."""
    store = default_home().store
    subject = store.profile(profile)
    other = None if against is None else store.profile(against)
    if not subject.layers:
        raise InputError(f"profile {subject.id} has no layers to advise on; it {subject.status.value}")
    advice = advise_on(subject, other, store.peaks(subject.target), imposed_on(store, subject))
    if json:
        print_json(advice_document(subject, other, advice))
    else:
        print_advice(advice)


def imposed_on(store: Store, profile: Profile) -> tuple[Profile, ...]:
    """The passes of the order that imposed sparsity on this model here with this engine, pruned copies too."""
    entries = store.profile_entries()
    subject = next((one for one in entries if one.id == profile.id), None)
    return () if subject is None else store.whole_profiles(one.id for one in sweep_for(entries, subject))
