"""`enginebench list`, `show`, `remove`, `export` and `import`: what the store holds."""

from pathlib import Path
from typing import Annotated

import typer

from enginebench_controller.cli.commands.gate import print_gate
from enginebench_controller.cli.console import confirmed, print_answers, print_json, print_table, remark
from enginebench_controller.cli.options import BenchmarkName, Json, Notes
from enginebench_controller.cli.tables import instant, print_failures, print_measurements
from enginebench_controller.errors import InputError
from enginebench_controller.files.answers import answers_document
from enginebench_controller.files.benchmark_exports import export_benchmarks, import_benchmarks
from enginebench_controller.files.benchmarks import benchmark_document, benchmark_list_document
from enginebench_controller.files.gates import gate_document
from enginebench_controller.files.new_file import new_file
from enginebench_controller.home import default_home
from enginebench_controller.verdicts.answers import answers_of
from enginebench_controller.verdicts.stored_gates import gate_of


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("list")(list_)
    app.command("show")(show)
    app.command("remove")(remove)
    app.command("export")(export)
    app.command("import")(import_)


def list_(json: Json = False) -> None:
    """List the benchmarks, newest first."""
    listed = default_home().store.benchmarks()
    if json:
        print_json(benchmark_list_document(listed))
        return
    columns = [("id", False), ("name", False), ("created", False), ("measurements", True), ("failed", True)]
    rows: list[list[object]] = [
        [
            entry.benchmark.id,
            entry.benchmark.name,
            instant(entry.benchmark.created_at_unix_ns),
            entry.measurements,
            entry.failed,
            entry.benchmark.rerun_of or "",
        ]
        for entry in listed
    ]
    print_table("Benchmarks", [*columns, ("rerun of", False)], rows)
    if not listed:
        remark("nothing measured yet; start with `enginebench demo` or `enginebench run MODEL`")


def show(
    benchmark: BenchmarkName,
    json: Json = False,
    blocks: Annotated[bool, typer.Option("--blocks", help="With --json: every block with its evidence.")] = False,
    failures: Annotated[
        bool, typer.Option("--failures", help="Only what failed, each with all of the engine's own words.")
    ] = False,
    notes: Notes = False,
) -> None:
    """Show one benchmark: its answers, then its measurements."""
    if failures and json:
        raise InputError("--json has all of the engine's words already, under `failure`; leave --failures out")
    if blocks and not json:
        raise InputError("--blocks is for the document: write --json --blocks")
    store = default_home().store
    found = store.benchmark(benchmark)
    measurements, models = store.measurements(found.id), store.models()
    gated = None if failures or not found.plan.get("gate") else gate_of(default_home(), found)
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
        else:
            print_answers(answers_of(store, found, measurements, models))
        title = f"{found.name} ({found.id}), {instant(found.created_at_unix_ns)}"
        print_measurements(title, measurements, models, notes=notes)


def remove(benchmark: BenchmarkName, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Remove a benchmark and its measurements from the store."""
    store = default_home().store
    found = store.benchmark(benchmark)
    question = f"remove benchmark {found.id} ({found.name}) with all its measurements?"
    if yes or confirmed(question):
        store.remove_benchmark(found.id)
        remark(f"removed {found.id}")


def export(
    benchmarks: Annotated[list[str], typer.Argument(metavar="ID…", help="The benchmarks to export.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; stdout without it.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
) -> None:
    """Export benchmarks with their raw samples as one JSON file that `import` reads back without loss."""
    store = default_home().store
    document = export_benchmarks(store, [store.benchmark(name).id for name in benchmarks])
    if output is None:
        typer.echo(document)
    else:
        with new_file(output, force=force) as partial:
            partial.write_text(document + "\n", encoding="utf-8")
        remark(f"wrote {output}")


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `export` wrote.")],
) -> None:
    """Import exported benchmarks; what is already there stays as it is."""
    imported = import_benchmarks(default_home().store, file)
    remark(f"imported {len(imported)} benchmarks: {', '.join(imported) or 'all were there already'}")
