"""`enginebench advise`: what plain rules have to say of a profile."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import plain, print_json, remark, stdout, without_marks
from enginebench_controller.cli.options import Json
from enginebench_controller.errors import InputError
from enginebench_controller.files.prospects import advice_document
from enginebench_controller.home import default_home
from enginebench_controller.records import Profile
from enginebench_controller.records.model import int8_versions, is_gone
from enginebench_controller.store.naming import only
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.layers.advice import Advice, Severity
from enginebench_controller.verdicts.layers.advisor import advise as advise_on
from enginebench_controller.verdicts.pruning.prospects import sweep_for
from enginebench_controller.verdicts.subjects import held_models
from enginebench_controller.verdicts.words import first_failures, milliseconds

_STYLES = {Severity.WARNING: "yellow", Severity.GAIN: "green", Severity.NOTE: "cyan"}
_LAYERS_IN_A_LINE = 3


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("advise")(advise)


def advise(
    profile: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE", help="Id, start of an id, or name of a profile.", autocompletion=completion.profiles
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(metavar="PROFILE", help="Another one to hold it against, such as the floating model's."),
    ] = None,
    json: Json = False,
) -> None:
    """Say what a profile suggests, each with its numbers, the layers it is about and what to do."""
    store = default_home().store
    subject = _subject(store, profile)
    other = None if against is None else _subject(store, against)
    held = held_models(default_home())
    known = [*store.models(), *(held or ())]
    advice = advise_on(
        subject,
        other,
        store.peaks(subject.target),
        imposed_on(store, subject),
        int8_versions(known, subject.model_digest),
        is_model_gone=held is not None and is_gone(subject.model_digest, known, held),
    )
    if json:
        print_json(advice_document(subject, other, advice))
    else:
        print_advice(advice)


def _subject(store: Store, named: str) -> Profile:
    """The profile with layers that a name means; of its namesakes those that failed are told.

    Raises `InputError` for a name that means none with layers, or several.
    """
    ids = store.ids_by_kind(named).get("profile", ())
    found = store.whole_profiles(ids) if len(ids) > 1 else (store.profile(named),)
    layered = [one for one in found if one.layers]
    missing = first_failures(found)
    if not layered:
        raise InputError("\n".join([f"profile {named!r} has no layers to advise on", *missing]))
    for line in missing:
        remark(line)
    return only(layered, named, "profile")


def imposed_on(store: Store, profile: Profile) -> tuple[Profile, ...]:
    """The passes of the order that imposed sparsity on this model here with this engine, pruned copies too."""
    entries = store.profile_entries()
    subject = next((one for one in entries if one.id == profile.id), None)
    return () if subject is None else store.whole_profiles(one.id for one in sweep_for(entries, subject))


def print_advice(advice: Sequence[Advice]) -> None:
    """A paragraph a piece of advice."""
    for one in advice:
        heading = Text(f"{one.severity.value}: ", style=f"bold {_STYLES[one.severity]}") + plain(one.sentence)
        stdout().print(heading, soft_wrap=True)
        stdout().print(plain(f"  {without_marks(one.remedy)} [{one.rule}]"), soft_wrap=True)
        if one.layers:
            stdout().print(plain(f"  layers: {_layers(one)}"), soft_wrap=True)
    if not advice:
        stdout().print("nothing to advise: no rule applies")


def _layers(advice: Advice) -> str:
    named = [f"#{one.position} {one.name} {milliseconds(one.time_ns)} ms" for one in advice.layers[:_LAYERS_IN_A_LINE]]
    more = len(advice.layers) - len(named)
    return "; ".join(named) + (f"; and {more} more (--json lists them)" if more else "")
