"""`enginebench list`, `show`, `remove`, `export` and `import`: what the store holds."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import (
    confirmed,
    print_answers,
    print_export,
    print_json,
    print_table,
    remark,
    uncut,
)
from enginebench_controller.cli.options import BenchmarkName, ExportForm, Force, Json, Notes, Output, Stores
from enginebench_controller.cli.searches import commands_of
from enginebench_controller.cli.tables import instant, print_failures, print_gate, print_outcomes
from enginebench_controller.errors import InputError
from enginebench_controller.files.answers import answers_document
from enginebench_controller.files.benchmarks import benchmark_document, benchmark_list_document
from enginebench_controller.files.exports.benchmarks import (
    export_benchmarks,
    import_benchmarks,
    left_out_measurements,
)
from enginebench_controller.files.exports.formats import ExportFormat
from enginebench_controller.files.exports.log_to import Destination, check, destinations, results_of, send_in_parts
from enginebench_controller.files.exports.measurements import export_measurements
from enginebench_controller.files.exports.profiles import export_profiles
from enginebench_controller.files.new_file import kept
from enginebench_controller.files.profiles import ProfilesDocument, import_profiles
from enginebench_controller.files.reading import read_file
from enginebench_controller.files.verdicts.bisects import TITLES
from enginebench_controller.files.verdicts.gates import gate_document
from enginebench_controller.home import Home, default_home, home_to_change, home_to_read
from enginebench_controller.plan.plan import command_of
from enginebench_controller.records import Benchmark, Measurement, Search, SearchKind
from enginebench_controller.runs.searches.holding import interrupted
from enginebench_controller.store.benchmarks import BenchmarkEntry
from enginebench_controller.store.searches import search_of
from enginebench_controller.store.store import Store
from enginebench_controller.store.trends import misdated_words
from enginebench_controller.verdicts.across import are_many
from enginebench_controller.verdicts.answers import answers_of
from enginebench_controller.verdicts.gate.stored import gate_of
from enginebench_controller.verdicts.soundness import Soundness, left_out, soundness
from enginebench_controller.verdicts.subjects import Subjects, find_subjects


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("list")(list_)
    app.command("show")(show)
    app.command("remove")(remove)
    app.command("export")(export)
    app.command("import")(import_)


def list_(json: Json = False, stores: Stores = None) -> None:
    """List the benchmarks, newest first."""
    home = home_to_read(stores or ())
    listed, searches = home.store.benchmarks(), home.store.searches()
    if told := misdated_words(home.store.misdated()):
        remark(told)
    if json:
        print_json(benchmark_list_document(listed, searches))
        return
    columns = [("id", False), ("name", False), ("created", False), ("measurements", True), ("failed", True)]
    cancelled = any(entry.cancelled for entry in listed)
    reruns = any(entry.benchmark.rerun_of for entry in listed)
    rows = [
        [*row, *([count] if cancelled else []), *([rerun_of] if reruns else [])]
        for *row, count, rerun_of in _listed(listed, searches)
    ]
    columns += [("cancelled", True)] if cancelled else []
    columns += [("rerun of", False)] if reruns else []
    if searches:
        came_to = _came_to(home, searches)
        columns.append(("came to", False))
        rows = [[*row, came_to.get(str(row[0]), "")] for row in rows]
    print_table("Benchmarks", columns, rows)
    if not listed:
        remark("nothing measured yet; start with `enginebench demo` or `enginebench run MODEL`")


def _listed(entries: Sequence[BenchmarkEntry], searches: Sequence[Search]) -> list[list[object]]:
    """A row a benchmark, newest first; the steps of a search are folded into one."""
    steps: dict[str, list[BenchmarkEntry]] = {one.id: [] for one in searches}
    rows: list[tuple[int, list[object]]] = []
    for entry in entries:
        if (search_id := search_of(entry.benchmark)) in steps:
            steps[search_id].append(entry)
        else:
            rows.append((entry.benchmark.created_at_unix_ns, _row(entry.benchmark, [entry])))
    rows += [(one.created_at_unix_ns, _row(one, steps[one.id])) for one in searches]
    return [row for _, row in sorted(rows, key=lambda one: -one[0])]


def _came_to(home: Home, searches: Sequence[Search]) -> dict[str, str]:
    """What each search has come to, as its answer is stored; of one without an answer, whether anybody is at it."""
    titles = {one.value: title for one, title in TITLES.items()}
    left: set[str] = set()
    with suppress(OSError):  # who may not write in a home cannot tell whether anybody is at a search there
        left = {one.id for one in interrupted(home)}
    told: dict[str, str] = {}
    for one in searches:
        answer = one.answer or {"outcome": "interrupted" if one.id in left else "no answer yet"}
        found = str(answer.get("finding", answer.get("outcome")))
        told[one.id] = titles.get(found, found.replace("_", " "))
    return told


def _row(one: Benchmark | Search, entries: Sequence[BenchmarkEntry]) -> list[object]:
    counts = [(each.measurements, each.failed, each.cancelled) for each in entries]
    counted = map(sum, zip(*counts, strict=True)) if counts else (0, 0, 0)
    # The names of searches of a kind are alike at both ends.
    name, rerun_of = (one.name, one.rerun_of) if isinstance(one, Benchmark) else (uncut(one.name), None)
    return [one.id, name, instant(one.created_at_unix_ns), *counted, rerun_of or ""]


def show(
    benchmark: BenchmarkName,
    json: Json = False,
    blocks: Annotated[bool, typer.Option("--blocks", help="With --json: every block with its evidence.")] = False,
    failures: Annotated[
        bool, typer.Option("--failures", help="Only what failed, each with all of the engine's own words.")
    ] = False,
    notes: Notes = False,
    stores: Stores = None,
) -> None:
    """Show one benchmark: its answers, then its measurements."""
    if failures and json:
        raise InputError("--json has all of the engine's words already, under `failure`; leave --failures out")
    if blocks and not json:
        raise InputError("--blocks is for the document: write --json --blocks")
    home = home_to_read(stores or ())
    store = home.store
    if (search := _search_meant(store, benchmark)) is not None:
        if failures or blocks:
            raise InputError(f"{search.id} is a search: --failures and --blocks are for one of its steps")
        commands_of(search).print_search(home, search, as_json=json)
        return
    found = store.benchmark(benchmark)
    measurements, models = store.measurements(found.id), store.models()
    gated = None if failures or not found.plan.get("gate") else gate_of(home, found)
    if failures:
        print_failures(measurements)
    elif json:
        snapshots = store.benchmark_snapshots(found.id)
        if gated is not None:
            print_json(
                benchmark_document(found, measurements, snapshots, models, with_blocks=blocks)
                | {"gate": gate_document(gated)}
            )
            return
        told = answers_document(answers_of(store, found, measurements, models))
        print_json(benchmark_document(found, measurements, snapshots, models, with_blocks=blocks, answers=told))
    else:
        if gated is not None:
            print_gate(gated)
        elif notes or not are_many(measurements):
            print_answers(answers_of(store, found, measurements, models))
        title = f"{found.name} ({found.id}), {instant(found.created_at_unix_ns, with_zone=True)}"
        print_outcomes(title, measurements, models, partial(store.benchmark_snapshots, found.id), notes=notes)
        if not (found.imported or home.reads) and (command := command_of(found.plan)) is not None:
            remark(f"measured by `{command}`; `enginebench rerun {found.id}` does it again")


def _remove_search(home: Home, search: Search) -> None:
    """With what it has left on this machine, where it was interrupted."""
    from enginebench_controller.runs.searches.bisecting import clear_away  # noqa: PLC0415  # they bring gRPC, for this alone
    from enginebench_controller.runs.searches.holding import held, remove_search  # noqa: PLC0415

    with held(home, search.id):
        if search.kind is SearchKind.BISECT and search.answer is None:
            asyncio.run(clear_away(home, search))
        remove_search(home, search.id)
    remark(f"removed {search.id}")


def _search_meant(store: Store, named: str) -> Search | None:
    """The one search that a name means where no benchmark is called so."""
    found = store.searches_meant(named)
    if not found or (named not in {one.id for one in found} and "benchmark" in store.ids_by_kind(named)):
        return None
    return store.search(named)


def remove(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="ID…",
            help="Ids, starts of ids, or names of benchmarks or searches.",
            autocompletion=completion.benchmarks,
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove benchmarks and their measurements; nothing undoes it, but `export` keeps a copy."""
    home = home_to_change()
    store = home.store
    meant = {one.id: one for name in names for one in [_search_meant(store, name) or store.benchmark(name)]}
    steps = {step.id for one in meant.values() if isinstance(one, Search) for step in store.steps_of(one.id)}
    for one in meant.values():
        if one.id in steps:  # it goes, or stays, with its search
            continue
        what, all_of_it = ("search", "all its steps and their") if isinstance(one, Search) else ("benchmark", "all its")
        if not (yes or confirmed(f"remove {what} {one.id} ({one.name}) with {all_of_it} measurements?")):
            continue
        if isinstance(one, Search):
            _remove_search(home, one)
        else:
            store.remove_benchmark(one.id)
            remark(f"removed {one.id}")


def export(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="ID…",
            help="Ids, starts of ids, or names of benchmarks or profiles.",
            autocompletion=completion.results,
        ),
    ],
    form: ExportForm = ExportFormat.JSON,
    output: Output = None,
    force: Force = False,
    log_to: Annotated[
        list[str] | None,
        typer.Option(
            "--log-to",
            metavar="WHERE",
            help="Write nothing, and send measurements to mlflow:URI, otlp:URL or wandb. Repeatable.",
        ),
    ] = None,
    stores: Stores = None,
) -> None:
    """Export benchmarks or profiles: as JSON that `import` reads back, or for other programs.

    Unknown values are null, empty or left out, never 0. A single measurement has the formats of numbers, too.
    """
    if log_to and (output is not None or form is not ExportFormat.JSON):
        raise InputError("--log-to sends results and writes no file: leave --format and --output out")
    store = home_to_read(stores or ()).store
    found = find_subjects(store, names)
    if found.also:
        remark(f"note: {found.also}")
    if log_to:
        _send(store, found, log_to)
    elif found.profiles:
        profiles = list({one.id: one for one in found.profiles}.values())
        print_export(export_profiles(profiles, store.peaks(), form, output, force=force), output)
    elif form is ExportFormat.JSON and found.benchmarks:
        document = export_benchmarks(store, [one.id for one in found.benchmarks])
        print_export(kept(document + "\n", output, force=force), output)
    else:
        measurements, judged = _judged(store, found)
        print_export(export_measurements(store, measurements, judged, form, output, force=force), output)
        if not judged:
            remark(judged.sentence)


def _send(store: Store, found: Subjects, log_to: Sequence[str]) -> None:
    """Send measurements to all that `--log-to` names. Raises `InputError` where not all have arrived."""
    if found.profiles:
        raise InputError("--log-to sends measurements, and these are profiles; `--format` writes those")
    wanted = destinations(log_to)
    asyncio.run(check(wanted))
    measurements, judged = _judged(store, found, with_blocks=False)
    ids, benchmarks = {one.id for one in measurements}, dict.fromkeys(one.benchmark_id for one in measurements)
    results = chain.from_iterable(results_of(store, one, ids) for one in benchmarks)
    arrived: Counter[Destination] = Counter()
    broken_off = "interrupted: "
    try:
        problems = asyncio.run(send_in_parts(wanted, results, lambda where: arrived.update([where])))
        broken_off = ""
    finally:
        for one in wanted:
            remark(f"{broken_off}{one} has {arrived[one]} of {len(ids)} measurements")
    if problems:
        raise InputError("\n".join(f"{one}: {why}" for one, why in problems.items()))
    if not judged:
        remark(judged.sentence)


def _judged(store: Store, found: Subjects, *, with_blocks: bool = True) -> tuple[list[Measurement], Soundness]:
    """The measurements that were named, or all of the benchmarks that were; judged among those they were made with."""
    benchmarks = [one.id for one in found.benchmarks] or [one.benchmark_id for one in found.measurements]
    made = [
        one for benchmark in dict.fromkeys(benchmarks) for one in store.measurements(benchmark, with_blocks=with_blocks)
    ]
    named = {one.id for one in found.measurements or made}
    judged = replace(soundness(made, store.models(), named), left_out=left_out(found.benchmarks))
    return [one for one in made if one.id in named], judged


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `export` wrote.")],
) -> None:
    """Import exported benchmarks or profiles; what is already there stays as it is."""
    read = read_file(file)
    is_of_profiles = read.document == ProfilesDocument.document
    what, add = ("profiles", import_profiles) if is_of_profiles else ("benchmarks", import_benchmarks)
    store = default_home().store
    imported = add(store, read)
    lacking = {} if is_of_profiles else left_out_measurements(store, read)
    noun = what.removesuffix("s") if len(imported) == 1 else what
    none = "none is new here" if lacking else "all were there already"
    remark(f"imported {len(imported)} {noun}: {', '.join(imported) or none}")
    for identity, count in lacking.items():
        were = "measurement of the file was" if count == 1 else "measurements of the file were"
        remark(f"{identity} is a benchmark of your own: {count} {were} left out")
