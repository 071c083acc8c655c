"""`enginebench run`, `rerun`, `demo` and `resume`: carrying benchmarks out, and what interrupted ones have left."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import (
    complain,
    concluded,
    print_answers,
    print_export,
    print_json,
    print_table,
    remark,
)
from enginebench_controller.cli.gates import gate_again, tell_taken_up
from enginebench_controller.cli.options import (
    BenchmarkName,
    Json,
    LogTo,
    Notes,
    TrustAgain,
    TrustModels,
    targets_to_measure,
)
from enginebench_controller.cli.plan_options import plan_options
from enginebench_controller.cli.progress import announcing, remind
from enginebench_controller.cli.searches import GoneOn, commands_of, gone_on, insist
from enginebench_controller.cli.tables import print_outcomes
from enginebench_controller.errors import EnginebenchError, ExitCode, InputError
from enginebench_controller.files.answers import answers_document
from enginebench_controller.files.benchmarks import benchmark_document
from enginebench_controller.files.documents import head
from enginebench_controller.files.exports.log_to import live_log
from enginebench_controller.home import Home, default_home
from enginebench_controller.plan.expand import Case, Expansion
from enginebench_controller.plan.options import split
from enginebench_controller.plan.plan import Plan, make_plan, plan_toml, read_plan
from enginebench_controller.records import Benchmark, FailureKind, Search
from enginebench_controller.records.fields import CONFIGURATION
from enginebench_controller.runs.benchmarking import BenchmarkOrder, order_again, plan_only, run_benchmark
from enginebench_controller.runs.gate import enough_of
from enginebench_controller.runs.resuming import ResumeOrder, TakenUp, Waiting, look
from enginebench_controller.runs.resuming import resume as resume_all
from enginebench_controller.runs.searches.holding import interrupted, is_step_of, to_go_on_with, unwritten
from enginebench_controller.verdicts.across import are_many
from enginebench_controller.verdicts.answers import answers_of
from enginebench_controller.verdicts.soundness import Soundness, left_out, of_benchmark, soundness
from enginebench_proto.agreed.home import HOME_VARIABLE

_HEADINGS = ("target", "model", "engine", "version", "environment", "device")
_AXES_HEADINGS = ("batch", "cores", "streams", "precision", "load", "hint")


def show_expansion(expansion: Expansion, *, as_json: bool) -> None:
    """Print what would run, for a person or for a program."""
    shortest_s, longest_s = _seconds_of_measuring(expansion)
    if as_json:
        print_json(
            {
                **head("dry_run"),
                "dry_run": True,
                "configurations": [_described(case) for case in expansion.cases],
                "shortest_measuring_s": shortest_s,
                "longest_measuring_s": longest_s,
                "notes": list(expansion.notes),
            }
        )
        return
    print_table("Would run", [(heading, False) for heading in _HEADINGS + _AXES_HEADINGS], list(_rows(expansion)))
    span = f"{shortest_s:.0f} to {longest_s:.0f} s of measuring"
    count = len(expansion.cases)
    remark(f"{'one configuration' if count == 1 else f'{count} configurations in random order'}, {span}")
    for note in expansion.notes:
        remark(f"note: {note}")


def _described(case: Case) -> dict[str, Any]:
    model = {"name": case.model.name, "digest": case.model.digest}
    configuration = CONFIGURATION.to_data(case.configuration)
    return {"target": case.target, "model": model, "engine": asdict(case.engine), "configuration": configuration}


def _rows(expansion: Expansion) -> Iterator[list[object]]:
    for case in expansion.cases:
        c = case.configuration
        axes = [c.device, c.batch, c.place, c.streams, c.precision, c.load_in_words, c.hint]
        yield [case.target, case.model.name, case.engine.name, case.engine.version, case.engine.environment, *axes]


def _seconds_of_measuring(expansion: Expansion) -> tuple[float, float]:
    """The shortest and the longest that the stop rules allow, warm-up included."""
    rules = [case.configuration.stop for case in expansion.cases]
    warm_up_ns = sum(rule.processes * rule.warmup_ns for rule in rules)
    shortest_ns, longest_ns = sum(r.min_duration_ns for r in rules), sum(r.max_duration_ns for r in rules)
    return (shortest_ns + warm_up_ns) / 1e9, (longest_ns + warm_up_ns) / 1e9


def resume(
    search: Annotated[
        str | None,
        typer.Argument(
            metavar="[SEARCH]",
            help="Go on with this interrupted search only; of `bisect`, say, by its id.",
            autocompletion=completion.searches,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET,…", help=r"Only what these targets have. \[default: all]", autocompletion=completion.targets
        ),
    ] = None,
    finish: Annotated[bool, typer.Option("--finish", help="Carry out what never ran, too.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for runs that still go on.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what there is, and change nothing.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Have the files that SEARCH was to write replace those that are there.")
    ] = False,
    trust: TrustAgain = False,
    json: Json = False,
) -> int:
    """Collect, once, what interrupted commands have left on their targets. Living commands are left alone.

    Interrupted searches, as those of `bisect`, go on to their answers; not with --target, which is about results only.
    """
    home = default_home()
    wish = ResumeOrder(tuple(split(target) or ()), finish, wait, trust, partial(enough_of, home))
    if search is not None:
        if target or dry_run:
            raise InputError("a search that is named goes on whole: leave --target and --dry-run out")
        return _resume_one(home, search, as_json=json, trusted=trust, force=force)
    if force:
        raise InputError("--force is for the files of one search: name it")
    searches = () if target else (*interrupted(home), *unwritten(home))
    if not dry_run:  # those are finished by their searches, whose questions they answer
        open_ids = frozenset(one.id for one in interrupted(home))
        wish = replace(wish, is_wanted=lambda pending_id: not is_step_of(home, open_ids, pending_id))
    found: tuple[TakenUp, ...] | tuple[Waiting, ...]
    if dry_run:
        found = asyncio.run(look(home, wish))
    else:
        with announcing() as announce:
            found = asyncio.run(resume_all(home, wish, announce))
    judged = _judged(home, found)
    if not json and (found or not searches):
        _print(found)
    code = ExitCode.OK if dry_run else concluded(judged)
    code = ExitCode.UNREACHABLE if any(one.reasons for one in found) else code
    gates = [tell_taken_up(home, one, as_json=json) for one in _gates(home, found)]
    ended = list(_searches(home, searches, dry_run=dry_run, as_json=json, trusted=trust))
    if json:
        document = head("resume") | {"dry_run": dry_run, "plans": [asdict(one) for one in found]}
        print_json(document | (_waiting(searches) if dry_run else _came_of(judged, ended)))
    return max([int(code), *gates, *(code for code, _ in ended)])


def _resume_one(home: Home, named: str, *, as_json: bool, trusted: bool, force: bool) -> int:
    found = to_go_on_with(home, named)
    if force:
        insist(home, found)
    return commands_of(found).carry_on(home, found, as_json=as_json, trusted=trusted)


def _searches(
    home: Home, searches: Sequence[Search], *, dry_run: bool, as_json: bool, trusted: bool
) -> Iterator[tuple[int, GoneOn]]:
    """Go on with each, or say that it can be gone on with; of a document nothing but that belongs on stdout.

    Yields the exit code of each that was gone on with, and what came of it.
    """
    for one in searches:
        what = "interrupted" if dry_run else "going on with"
        if one.answer is not None:
            what = "not all is written of" if dry_run else "writing what was asked for of"
        remark(f"{what} search {one.id}: {one.name}")
        if not dry_run:
            code, told = int(ExitCode.OK), None
            try:
                code = commands_of(one).carry_on(home, one, as_json=None if as_json else False, trusted=trusted)
            except EnginebenchError as error:  # one that cannot go on now keeps no other back
                complain(str(error))
                code, told = int(error.exit_code), str(error)
            yield code, gone_on(home, one, told)


def _waiting(searches: Sequence[Search]) -> dict[str, Any]:
    return {"searches": [{"id": one.id, "name": one.name, "kind": one.kind.value} for one in searches]}


def _came_of(judged: Soundness, ended: Sequence[tuple[int, GoneOn]]) -> dict[str, Any]:
    """What came of the searches, and whether all can be used, of them as of what was collected."""
    failed = any(one.error is not None or code == ExitCode.SOME_FAILED for code, one in ended)
    return {
        "searches": [asdict(one) for _, one in ended],
        "outcome": judged.document | {"sound": bool(judged) and not failed},
    }


def _gates(home: Home, found: Sequence[TakenUp | Waiting]) -> list[Benchmark]:
    """The gates of which nothing is left to be taken up, whatever came of it; those of searches answer these."""
    whole = [one for one in found if isinstance(one, TakenUp) and not one.left]
    stored = [one for plan in whole for one in home.store.measurements(plan.id, with_blocks=False)]  # none of passes
    benchmarks = [home.store.benchmark(id_) for id_ in dict.fromkeys(one.benchmark_id for one in stored)]
    return [one for one in benchmarks if one.plan.get("gate") and not one.plan.get("search")]


def _judged(home: Home, found: Sequence[TakenUp | Waiting]) -> Soundness:
    """Whether what was collected can be used; outputs are checked against those of the whole benchmark.

    What an interruption left without anything is not judged: that it is missing is what the table says. But a gate is
    judged whole, as its verdict is about all of it.
    """
    taken = [one for one in found if isinstance(one, TakenUp)]
    gates = {one.id for one in _gates(home, taken)}
    stored = [one for plan in taken for one in home.store.measurements(plan.id)]
    ids = {id_ for one in taken for id_ in one.collected} | {one.id for one in stored if one.benchmark_id in gates}
    profiles = home.store.whole_profiles(ids - {one.id for one in stored})
    begun = [home.store.benchmark(id_) for id_ in dict.fromkeys(one.benchmark_id for one in stored)]
    return replace(soundness([*stored, *profiles], home.store.models(), ids), left_out=left_out(begun))


def _print(found: Sequence[TakenUp | Waiting]) -> None:
    if not found:
        remark("nothing was interrupted, so there is nothing to resume")
        return
    # What can be counted: ids and names stand in the first two columns, and reasons are sentences.
    counts = [{name: _count(value) for name, value in asdict(one).items() if _is_counted(name)} for one in found]
    columns = [("id", False), ("name", False), *((name.replace("_", " "), True) for name in counts[0])]
    rows: list[list[object]] = [[one.id, one.name, *each.values()] for one, each in zip(found, counts, strict=True)]
    print_table("Interrupted", columns, rows)
    for sentence in dict.fromkeys(sentence for one in found for sentence in (*one.reasons, *one.remarks)):
        remark(sentence)


def _is_counted(name: str) -> bool:
    return name not in ("id", "name", "reasons", "remarks")


def _count(value: int | Sequence[str]) -> int:
    return value if isinstance(value, int) else len(value)


DEMO = {
    "name": "demo",
    "models": ["zoo:resnet50", "zoo:squeezenet"],
    "batch": [1, 4],
    "duration": "2s",
    "max_duration": "3s",
    "processes": 3,
    "iterations": 12,
    "warmup": "300ms",
    "inputs": 2,
}
"""Three processes of two thirds of a second, and few inputs to run before and after: sixteen configurations in three
minutes.

As estimated, a process takes 1 s more with SqueezeNet and 2 to 3 with ResNet-50: to import, compile, warm up and check.
"""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("demo")(demo)
    app.command("run")(run)
    app.command("rerun")(rerun)
    app.command("resume")(resume)


@plan_options()
def run(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL… | PLAN.toml",
            help="Files, names, digests, zoo:NAME, int8:MODEL; or one plan file.",
            autocompletion=completion.models,
        ),
    ],
    fields: dict[str, Any],
    trust: TrustModels = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the configurations and run nothing.")] = False,
    print_plan: Annotated[bool, typer.Option("--print-plan", help="Print the plan as TOML and run nothing.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Meanwhile show a table of what runs and what has finished.")
    ] = False,
    log_to: LogTo = None,
    json: Json = False,
    notes: Notes = False,
) -> None:
    """Measure models on engines. Lists multiply out; an impossible combination is refused before anything runs."""
    plan = _plan(models, fields)
    plan.stop_rule()
    if print_plan:
        print_export(plan_toml(plan), None)
    elif dry_run:
        show_expansion(asyncio.run(plan_only(default_home(), BenchmarkOrder(plan))), as_json=json)
    else:
        home = default_home()
        send_on = asyncio.run(live_log(home.store, log_to, remark))
        order = BenchmarkOrder(plan, trusted=trust, send_on=send_on)
        _carry_out(home, order, as_json=json, notes=notes, watch=watch)


def rerun(
    benchmark: BenchmarkName,
    trust: TrustAgain = False,
    log_to: LogTo = None,
    json: Json = False,
    notes: Notes = False,
) -> None:
    """Run a benchmark again: a new one, linked to the old, with the very same model versions."""
    home = default_home()
    order = order_again(home.store.benchmark(benchmark), trusted=trust)
    order = replace(order, send_on=asyncio.run(live_log(home.store, log_to, remark)))
    _carry_out(home, order, as_json=json, notes=notes)


def demo(json: Json = False, notes: Notes = False) -> None:
    """Measure two real networks on every engine of this machine, and say where to look."""
    benchmark = _run(default_home(), BenchmarkOrder(make_plan(DEMO, "demo")))
    found = _print_outcome(default_home(), benchmark, as_json=json, notes=notes)
    remark("")
    remark(f"look at it again with `enginebench show {benchmark.id}`, or on a page with `enginebench ui`{_where()}")
    raise typer.Exit(concluded(found))


def _where() -> str:
    named = os.environ.get(HOME_VARIABLE)
    return f" (with {HOME_VARIABLE}={named})" if named else ""


def _plan(models: list[str], fields: dict[str, Any]) -> Plan:
    plans = [model for model in models if model.endswith(".toml")]
    if not plans:
        return make_plan({"models": models, **fields}, "run")
    if len(models) > 1:
        raise InputError(f"give one plan file or models, not both: {' '.join(models)}")
    document = read_plan(Path(plans[0])).document()
    image = document["image"] | fields.get("image", {})
    chosen = {} if "targets" in fields else {"targets": targets_to_measure(document["targets"])}
    return make_plan(document | chosen | fields | {"image": image}, plans[0])


def _carry_out(home: Home, order: BenchmarkOrder, *, as_json: bool, notes: bool, watch: bool = False) -> None:
    if order.plan.gate is not None:
        gate_again(home, order, as_json=as_json)
    benchmark = _run(home, order, watch=watch)
    raise typer.Exit(concluded(_print_outcome(home, benchmark, as_json=as_json, notes=notes)))


def _run(home: Home, order: BenchmarkOrder, *, watch: bool = False) -> Benchmark:
    remind(home)
    with announcing(home.store.path if watch else None) as announce:
        return asyncio.run(run_benchmark(home, order, announce))


def _print_outcome(home: Home, benchmark: Benchmark, *, as_json: bool, notes: bool) -> Soundness:
    measurements, models = home.store.measurements(benchmark.id), home.store.models()
    if as_json:
        snapshots = home.store.benchmark_snapshots(benchmark.id)
        told = answers_document(answers_of(home.store, benchmark, measurements, models))
        print_json(benchmark_document(benchmark, measurements, snapshots, models, answers=told))
    else:
        title = f"{benchmark.name} ({benchmark.id})"
        print_outcomes(title, measurements, models, partial(home.store.benchmark_snapshots, benchmark.id), notes=notes)
        if notes or not are_many(measurements):
            print_answers(answers_of(home.store, benchmark, measurements, models))
        before = home.store.measurements(benchmark.rerun_of) if benchmark.rerun_of else ()
        if any(one.failure is not None and one.failure.kind is FailureKind.SHORTAGE for one in measurements):
            remark(f"a target was short of something: mend that, then `enginebench rerun {benchmark.id}`")
        if all(any(one.latency is not None for one in each) for each in (before, measurements)):
            remark(f"beside the one before: `enginebench compare {benchmark.rerun_of} {benchmark.id}`")
    return of_benchmark(benchmark, measurements, models)
