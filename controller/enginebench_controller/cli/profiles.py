"""`enginebench profiles …`: the profiles that the store holds."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from enginebench_controller.cli.console import confirmed, print_json, remark
from enginebench_controller.cli.options import Json
from enginebench_controller.cli.profile_tables import print_layers, print_profiles, print_summary, print_types
from enginebench_controller.documents.profiles import profile_list_document, profiles_document
from enginebench_controller.exchange.profiles import import_profiles
from enginebench_controller.exports import ExportFormat, export_profiles
from enginebench_controller.home import default_home

ProfileName = Annotated[str, typer.Argument(metavar="ID", help="Id, start of an id, or name of a profile.")]

group = typer.Typer(no_args_is_help=True, help="The profiles that were made: per-layer times, matched and counted.")


class View(StrEnum):
    """What a profile is broken down by."""

    TYPE = "type"
    LAYER = "layer"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(group, name="profiles")


@group.command("list")
def list_(json: Json = False) -> None:
    """List the profiles, newest first."""
    profiles = default_home().store.profiles()
    if json:
        print_json(profile_list_document(profiles))
        return
    print_profiles("Profiles", profiles)
    if not profiles:
        remark("no profiles yet; make one with `enginebench profile MODEL`")


@group.command("show")
def show(
    profile: ProfileName,
    most: Annotated[int, typer.Option(min=0, help="How many layers to print, slowest first.")] = 20,
    by: Annotated[View | None, typer.Option(help="Only this of the two tables.")] = None,
    json: Json = False,
) -> None:
    """Show one profile: what it amounts to, the time by layer type, and the slowest layers."""
    store = default_home().store
    found = store.profile(profile)
    peaks = store.peaks(found.target)
    if json:
        print_json(profiles_document([found], peaks))
        return
    print_summary(found)
    if found.layers and by is not View.LAYER:
        print_types(found)
    if found.layers and by is not View.TYPE:
        print_layers(found, peaks, most)


@group.command("remove")
def remove(profile: ProfileName, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Remove a profile with its layers from the store."""
    store = default_home().store
    found = store.profile(profile)
    if yes or confirmed(f"remove profile {found.id} ({found.name}, {found.engine.name})?"):
        store.remove_profile(found.id)
        remark(f"removed {found.id}")


@group.command("export")
def export(
    profiles: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids, starts of ids, or names.")],
    form: Annotated[
        ExportFormat,
        typer.Option("--format", help="json: everything; csv and parquet: a row a layer; trace: for Perfetto."),
    ] = ExportFormat.JSON,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; stdout without it, but for Parquet.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Export profiles for other programs. Unknown values are null or empty, never 0."""
    store = default_home().store
    found = {one.id: one for one in map(store.profile, profiles)}
    text = export_profiles(list(found.values()), store.peaks(), form, output, force=force)
    if text is None:
        remark(f"wrote {output}")
    else:
        typer.echo(text, nl=False)


@group.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `profiles export` wrote as JSON.")],
) -> None:
    """Import exported profiles; what is already there stays as it is."""
    imported = import_profiles(default_home().store, file)
    remark(f"imported {len(imported)} profiles: {', '.join(imported) or 'all were there already'}")
