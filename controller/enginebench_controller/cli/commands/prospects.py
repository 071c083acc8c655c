"""`enginebench prospects …`: what pruning would bring, estimated, imposed and measured."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import print_json, print_table, remark, write_asked
from enginebench_controller.cli.options import Json, Model
from enginebench_controller.cli.plan_options import plan_options
from enginebench_controller.cli.progress import announcing
from enginebench_controller.errors import ExitCode, InputError, NoProspectsError
from enginebench_controller.files.documents import Document
from enginebench_controller.files.new_file import check_new_files
from enginebench_controller.files.prospects import part_document, prospects_csv, pruning_document
from enginebench_controller.home import default_home
from enginebench_controller.plan.options import split
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.plan.sparsity import parse_sparsities
from enginebench_controller.records import Profile, ProfileEntry
from enginebench_controller.runs.pruning import SPARSITIES, PruningOrder, run_pruning
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.parity import engine_label
from enginebench_controller.verdicts.pruning.policy import Policy
from enginebench_controller.verdicts.pruning.prospects import (
    PruningOutcome,
    PruningProspects,
    Sweep,
    imposed_passes,
    prospects_of,
)
from enginebench_controller.verdicts.words import UNKNOWN, change_words, failure_sentence, milliseconds, number, short


def print_prospects(found: PruningProspects, most: int) -> None:
    """A row a sparsity or pruned copy, then a row a part of the model, the slowest first."""
    dense = found.series.dense
    asked = dense.configuration
    level = "" if dense.optimization_level is None else f", optimization level {dense.optimization_level}"
    where = f"{asked.device}, {asked.size}{level}"
    columns = [("what", False), ("zeros", True), ("estimated ms", True), ("×", True), ("imposed ms", True)]
    columns += [("×", True), ("measured ms", True), ("×", True), ("estimate's error", True)]
    columns += [("parameters", True), ("FLOPs (estimated)", True)]
    title = f"Pruning {dense.model_name} on {engine_label(dense)}, {where}"
    print_table(title, columns, [_row(one) for one in found.outcomes])
    _print_parts(found, most)
    _remarks(found)


def _row(one: PruningOutcome) -> list[object]:
    estimate = one.estimate
    what = "dense" if not one.is_copy and not one.sparsity else one.profile.model_name if one.is_copy else "imposed"
    return [
        what,
        _percent(one.sparsity),
        milliseconds(estimate.time_ns if estimate else None),
        number(estimate.speedup if estimate else None),
        milliseconds(one.imposed_ns),
        number(one.imposed_speedup),
        milliseconds(one.measured_ns),
        number(one.measured_speedup),
        UNKNOWN if one.error is None else change_words(1 + one.error),
        short(one.parameters),
        short(one.flops),
    ]


def _print_parts(found: PruningProspects, most: int) -> None:
    copies = [one for one in found.outcomes if one.is_copy]
    shown = _step_shown(found, copies)
    columns = [("source nodes", False), ("type", False), ("parameters", True), ("dense ms", True)]
    columns += [(f"imposed {found.series.sparsities[shown]:g} ms", True), ("×", True)]
    for copy in copies:
        columns += [(f"{copy.profile.model_name}: zeros", True), ("estimated ms", True), ("measured ms", True)]
    parts = [part_document(found, place) for place in range(len(found.series.parts))]
    slowest = sorted(parts, key=lambda part: -(part["imposed"][0]["time_ns"] or 0.0))
    if most:
        print_table("Parts of the model, slowest first", columns, [_part_row(part, shown) for part in slowest[:most]])
    if len(slowest) > most:
        remark(f"{len(slowest) - most} more parts: --most shows them")


def _step_shown(found: PruningProspects, copies: Sequence[PruningOutcome]) -> int:
    """The step whose parts stand in the table: the one that a copy has, else the last below 0.95."""
    sparsities = found.series.sparsities
    for copy in copies:
        if copy.imposed_ns is not None and copy.sparsity is not None:
            return min(range(len(sparsities)), key=lambda place: abs(sparsities[place] - (copy.sparsity or 0.0)))
    return max((place for place, share in enumerate(sparsities) if share < 0.95), default=0)


def _part_row(part: Document, shown: int) -> list[object]:
    dense, imposed = part["imposed"][0]["time_ns"], part["imposed"][shown]["time_ns"]
    row: list[object] = [
        ", ".join(part["nodes"][:2]) + (" …" if len(part["nodes"]) > 2 else ""),
        ", ".join(part["types"]) or UNKNOWN,
        short(part["parameters"]),
        milliseconds(dense),
        milliseconds(imposed),
        number(dense / imposed if dense is not None and imposed else None),
    ]
    for copy in part["copies"]:
        row += [_percent(copy["sparsity"]), milliseconds(copy["estimated_ns"]), milliseconds(copy["measured_ns"])]
    return row


def _remarks(found: PruningProspects) -> None:
    dense = found.series.dense
    remark("estimated: from layers timed with zeros imposed, interpolated; imposed: measured with the engine taking so")
    remark("many weights for zero; measured: a copy of the model that has them; error: estimated ÷ measured − 1")
    remark("all times here are of profiled inferences at one optimization level; × is dense ÷ pruned")
    if copies := " ".join(one.profile.model_name for one in found.outcomes if one.is_copy):
        versions = f"{dense.model_name} {copies} --engine {dense.engine.name}"
        remark(f"with all that the engine can do: `enginebench run {versions}`")
    for one in found.failed:
        why = failure_sentence(one.failure) if one.failure else "no layers"
        remark(f"  {one.model_name}, {_percent(one.imposed_sparsity)} zeros imposed: {why}")
    remark(f"look at it again with `enginebench prospects show {dense.id}`")


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write a row a part of the model.")]
Most = Annotated[int, typer.Option(min=0, help="How many parts of the model to print, slowest first.")]
Share = Annotated[float, typer.Option(min=0, max=1)]

group = typer.Typer(no_args_is_help=True, help="What optimization would bring.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(group, name="prospects")


@group.command("pruning")
@plan_options("target", "warmup", "shape", "batch-axis", "seed", "inputs", "input", "option", "timeout", "wait-quiet")
def pruning(
    model: Model,
    *,
    engine: Annotated[str, typer.Option(help="An engine that can impose sparsity.")] = "deepsparse",
    batch: Annotated[int, typer.Option(min=1, help="Items in one inference.")] = 1,
    cores: Annotated[
        str | None, typer.Option(metavar="N", help="Physical cores, or big:N of a kind; by default all of the fastest.")
    ] = None,
    sparsity: Annotated[
        str, typer.Option(metavar="S,T,…", help="Shares of zeros to impose on every layer; 0 is always one.")
    ] = ",".join(f"{share:g}" for share in SPARSITIES),
    measure: Annotated[
        str, typer.Option(metavar="S,T,…", help='Sparsities of pruned copies, the same in every layer; "" for none.')
    ] = "0.9",
    by_layer: Annotated[
        bool, typer.Option("--by-layer/--no-by-layer", help="Also a copy pruned layer by layer, as the policy says.")
    ] = True,
    goal: Annotated[float, typer.Option(min=0, max=1, help="Policy: share of all weights to zero.")] = Policy.goal,
    cap: Annotated[float, typer.Option(min=0, max=0.99, help="Policy: most zeros in one layer.")] = Policy.cap,
    least: Annotated[
        float, typer.Option(min=0, max=1, help="Policy: a layer that would get less stays dense.")
    ] = Policy.least,
    iterations: Annotated[int, typer.Option(min=1, help="Profiled inferences a pass; each costs a compilation.")] = 3,
    optimization_level: Annotated[
        int, typer.Option(min=0, max=1, help="How much the engine may rewrite the graph; the same for every pass.")
    ] = 0,
    fields: dict[str, Any],
    name: Annotated[str | None, typer.Option(help="Name of the profiles; by default that of the model.")] = None,
    most: Most = 20,
    csv: Csv = None,
    json: Json = False,
) -> None:
    """Time a model with zeros imposed step by step, and copies that really have them; estimate what lies between."""
    check_new_files(csv, force=None)
    given = {
        "engines": split(engine),
        "batch": [batch],
        "cores": None if cores is None else [cores],
        "iterations": iterations,
        "name": name,
    }
    said = {name: value for name, value in given.items() if value is not None}
    order = PruningOrder(
        plan=make_plan({"models": [model], **said, **fields}, "prospects pruning"),
        sparsities=parse_sparsities(sparsity),
        copies=_copies(measure),
        policy=Policy(goal, cap, least) if by_layer else None,
        optimization_level=optimization_level,
    )
    with announcing() as announce:
        passes = asyncio.run(run_pruning(default_home(), order, announce, remark))
    _tell(passes, most, csv, as_json=json)
    if not all(one.status.has_numbers for one in passes):
        raise typer.Exit(int(ExitCode.SOME_FAILED))


@group.command("show")
def show(
    order: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Order id, or the id or name of one of its profiles.", autocompletion=completion.profiles
        ),
    ],
    most: Most = 20,
    csv: Csv = None,
    json: Json = False,
) -> None:
    """Show prospects that were measured before."""
    _tell(_passes(default_home().store, order), most, csv, as_json=json)


def _copies(text: str) -> tuple[float, ...]:
    found = parse_sparsities(text, "--measure")
    if 0 in found:
        raise InputError("--measure: a copy without zeros is the model itself; write shares such as 0.9")
    return found


def _passes(store: Store, named: str) -> tuple[Profile, ...]:
    """The whole profiles of the sweep that is named. Raises `InputError` where there is none, or more than one."""
    listed = store.profile_entries()
    found = [passes for passes in imposed_passes(listed) if any(_is_named(one, named) for one in passes)]
    if len(found) == 1:
        return store.whole_profiles(one.id for one in found[0])
    if found:
        choices = "\n".join(f"  - {_choice(passes)}" for passes in found)
        raise InputError(f"{named} names {len(found)} sweeps; show one of them, by the id of a profile:\n{choices}")
    if any(_is_named(one, named) for one in listed):
        raise InputError(
            f"{named} has no passes with sparsity imposed; make some with `enginebench prospects pruning MODEL`"
        )
    raise InputError(f"there is no order and no profile {named!r}; see `enginebench profiles list`")


def _is_named(one: ProfileEntry, named: str) -> bool:
    starts = (one.id, one.order_id or "")
    return bool(named) and (one.name == named or any(start.startswith(named) for start in starts))


def _choice(passes: Sweep) -> str:
    one = passes[0]
    cores = "1 core" if one.cores == 1 else f"{one.cores} cores"
    where = f"{one.target} {one.device}, batch {one.batch}, {cores}, {one.precision}"
    return f"{one.id}: {one.model_name} on {one.engine.name}@{one.engine.environment}, {where}"


def _tell(passes: Sequence[Profile], most: int, csv: Path | None, *, as_json: bool) -> None:
    found = _prospects(passes)
    write_asked(csv, partial(prospects_csv, found), force=None)
    if as_json:
        print_json(pruning_document(found))
    else:
        print_prospects(found, most)


def _prospects(passes: Sequence[Profile]) -> PruningProspects:
    """Raises an error with the reason where the dense pass failed."""
    try:
        return prospects_of(passes)
    except ValueError as error:
        failed = [one.failure.message for one in passes if one.failure]
        raise NoProspectsError(f"no prospects: {error}" + (f"; a pass failed: {failed[0]}" if failed else "")) from None
