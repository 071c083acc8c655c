"""`enginebench bisect`: which version, model or value of an option made it worse."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import plain, print_json, print_table, remark, stdout, write_asked
from enginebench_controller.cli.options import Json, TrustModels
from enginebench_controller.cli.plan_options import OF_ONE, plan_options
from enginebench_controller.cli.progress import GateProgress, remind
from enginebench_controller.cli.searches import AskedFiles, asked_of, conclude, keep_asked
from enginebench_controller.errors import ExitCode, InputError
from enginebench_controller.files.new_file import check_new_files
from enginebench_controller.files.verdicts.bisects import bisect_document, bisect_markdown
from enginebench_controller.home import Home, default_home
from enginebench_controller.jobs.record import MadeKind
from enginebench_controller.jobs.reporting import ProgressWriter
from enginebench_controller.jobs.telling import own_folder
from enginebench_controller.plan.bisect import (
    METRICS,
    BisectKind,
    BisectOrder,
    bisect_command,
    check_is_there,
    listed_models,
    make_order,
    narrowed,
    parse_option,
)
from enginebench_controller.plan.expand import Case
from enginebench_controller.plan.gate import gate_plan
from enginebench_controller.plan.options import split
from enginebench_controller.plan.plan import GateMetric, GateTerms
from enginebench_controller.records import LOCAL_TARGET, Failure, Search, Status
from enginebench_controller.runs.searches.bisecting import bisect as run_bisect
from enginebench_controller.runs.searches.bisecting import go_on, progress_of
from enginebench_controller.runs.searches.releases import package_of, releases_between, releases_named
from enginebench_controller.typed_paths import typed_path
from enginebench_controller.verdicts.bisect.answer import Asked, BisectAnswer, stored_answer, told_gate
from enginebench_controller.verdicts.bisect.decision import BisectFinding, GatePurpose, GateSeen, Question
from enginebench_controller.verdicts.bisect.words import (
    WAY,
    gate_sentence,
    headline,
    remarks,
    way_rows,
    way_words,
)
from enginebench_controller.verdicts.gate.results import Judged
from enginebench_controller.verdicts.gate.words import layer_words

_STYLES = {BisectFinding.CULPRIT: "bold red", BisectFinding.ONE_OF: "bold red"}
_DOES = {
    GatePurpose.ENDS: "is bad worse than good at all",
    GatePurpose.STEP: "halving what is left",
    GatePurpose.NEIGHBOURS: "the last against the one before it",
}


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("bisect")(bisect)


@plan_options(*OF_ONE, one_each=True)
def bisect(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="File, name, digest or zoo:NAME; none with --models.",
            autocompletion=completion.models,
        ),
    ] = None,
    engine: Annotated[str | None, typer.Option(metavar="E", help="The engine.")] = None,
    good: Annotated[str | None, typer.Option(metavar="VERSION", help="The version that was still good.")] = None,
    bad: Annotated[str | None, typer.Option(metavar="VERSION", help="The later one that is worse.")] = None,
    versions: Annotated[
        str | None, typer.Option(metavar="A,B,…", help=r"These versions only, in this order. \[default: all between]")
    ] = None,
    wheels: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help=r"Take wheels from there. \[default: the package index]")
    ] = None,
    package: Annotated[
        str | None, typer.Option(metavar="NAME", help=r"The package the versions are of. \[default: the engine's]")
    ] = None,
    models: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Versions of a model instead, in their order.")
    ] = None,
    options: Annotated[
        str | None, typer.Option(metavar="E.O=1,2,…", help="Values of an engine's option instead, in their order.")
    ] = None,
    worse: Annotated[str, typer.Option(metavar="PERCENT", help="From which difference on it counts.")] = "5%",
    metric: Annotated[
        str, typer.Option(metavar="M", help=f"What has become worse: {', '.join(METRICS)}.")
    ] = GateMetric.LATENCY.value,
    trust: TrustModels = False,
    *,
    fields: dict[str, Any],
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="How long each gate measures, at most: 30s to 1h.")
    ] = "2m",
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an issue for the engine's project.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    json: Json = False,
) -> None:
    """Find the version that made a model slower: halving, each step a gate, and a last gate of the two neighbours.

    \b
    Versions:  bisect MODEL --engine onnxruntime --good 1.20.0 --bad 1.31.1
    Wheels:    bisect MODEL --engine mine --good 1.0 --bad 1.9 --wheels dist
    Models:    bisect --models v1.onnx,v2.onnx,v3.onnx --engine onnxruntime
    An option: bisect MODEL --options onnxruntime.graph_optimization_level=all,extended,basic

    Each version gets an environment of its own, here and on no --target, which is removed afterwards. None is named
    unless it is found worse than the one before it: then 0 is the exit code, else 5, and 1 where good or bad cannot
    be run.
    """  # typer keeps lines after a backspace
    check_new_files(markdown, force=force)
    check_is_there(engine or "")
    gate_plan({"models": ["any"], **fields})
    said = {
        **{"models": models, "engine": engine, "good": good, "bad": bad, "versions": versions, "options": options},
        **{"package": package, "wheels": wheels, "worse": worse, "metric": metric, "budget": budget},
    }
    order = make_order(
        {
            **_candidates(model, engine, (good, bad), (versions, models, options), (package, wheels)),
            "worse": worse,
            "metric": metric,
            "budget": budget,
            "fields": fields,
            "trusted": trust,
            "command": bisect_command(model, said, fields, trusted=trust),
        }
    )
    home = default_home()
    remind(home)
    with BisectProgress(partial(keep_asked, home, AskedFiles(markdown=markdown, force=force))) as watcher:
        search = run_bisect(home, order, watcher)
    raise typer.Exit(conclude(home, search, as_json=json))


def carry_on(home: Home, search: Search, *, as_json: bool | None, trusted: bool) -> int:
    """See `cli.searches`."""
    asked_of(home, search)  # before hours are spent on it
    with BisectProgress() as watcher:
        found = go_on(home, search, watcher, trusted=trusted)
    return conclude(home, found, as_json=as_json)


def print_search(home: Home, search: Search, *, as_json: bool) -> None:
    """See `cli.searches`."""
    if stored_answer(search) is not None:
        tell(search, as_json=as_json)
        return
    if as_json:
        raise InputError(f"the search {search.id} has no answer yet: `enginebench resume {search.id}` goes on with it")
    remark(f"{search.name}: no answer yet; where it was interrupted, `enginebench resume {search.id}` goes on")
    stdout().print(plain(progress_of(home, search)))


def _candidates(
    model: str | None,
    engine: str | None,
    ends: tuple[str | None, str | None],
    lists: tuple[str | None, str | None, str | None],
    source: tuple[str | None, Path | None],
) -> dict[str, Any]:
    """What is bisected, as fields of the order. Raises `InputError`."""
    versions, models, options = lists
    if sum(one is not None for one in lists) > 1:
        raise InputError("--versions, --models and --options exclude each other: a bisect is of one thing")
    if models is not None:
        if model is not None or engine is None:
            raise InputError("--models takes the place of MODEL, and needs --engine: bisect --models a,b,c --engine E")
        candidates = narrowed(listed_models(models), *ends, are_models=True)
        return {"kind": BisectKind.MODELS, "candidates": candidates, "engine": engine}
    if model is None:
        raise InputError("MODEL is missing: name the model whose latency has changed")
    if options is not None:
        known = {one.name for seen in default_home().store.snapshots() for one in seen.engines}
        owner, option, values = parse_option(options, engine, known)
        found = {"kind": BisectKind.OPTIONS, "candidates": narrowed(values, *ends), "option": option}
        return found | {"engine": owner, "model": model}
    if engine is None:
        raise InputError("--engine is missing: name the engine whose versions are to be bisected")
    package, wheels = source
    package = package or (engine if wheels is not None else package_of(engine, _seen_here()))
    return {
        "kind": BisectKind.VERSIONS,
        "candidates": _versions(package, ends, versions, wheels),
        "engine": engine,
        "model": model,
        "package": package,
        "wheels": None if wheels is None else str(typed_path(wheels).absolute()),
    }


def _seen_here() -> set[str]:
    """The engines that this machine was found to have."""
    return {
        one.name for seen in default_home().store.snapshots() if seen.target == LOCAL_TARGET for one in seen.engines
    }


def _versions(
    package: str, ends: tuple[str | None, str | None], listed: str | None, wheels: Path | None
) -> tuple[str, ...]:
    if listed is not None:
        return releases_named(package, narrowed(split(listed) or [], *ends), wheels)
    good, bad = ends
    if good is None or bad is None:
        raise InputError(f"--{'good' if good is None else 'bad'} is missing: between which versions is it to look?")
    return releases_between(package, good, bad, wheels)


def write(search: Search, asked: AskedFiles) -> None:
    """See `cli.searches`."""
    answer = stored_answer(search)
    assert answer is not None  # noqa: S101  # asked by who calls
    write_asked(asked.markdown, partial(bisect_markdown, answer), force=asked.force)


def tell(search: Search, *, as_json: bool | None) -> int:
    """See `cli.searches`."""
    answer = stored_answer(search)
    assert answer is not None  # noqa: S101  # asked by who calls
    if as_json:
        print_json(bisect_document(search, answer))
    elif as_json is not None:
        _print(search, answer)
    return int(_exit_code(answer))


def _exit_code(answer: BisectAnswer) -> ExitCode:
    if answer.finding is BisectFinding.CANNOT_RUN:
        return ExitCode.SOME_FAILED
    return ExitCode.OK if answer.finding.names else ExitCode.CANNOT_TELL


def _print(search: Search, answer: BisectAnswer) -> None:
    """The sentence, the way as a line and as a table, the layers, and what to know."""
    text = plain(headline(answer))
    text.stylize(_STYLES.get(answer.finding, "bold yellow"))
    stdout().print(text)
    stdout().print(plain(way_words(answer)))
    columns = [(name or answer.bisected.value, False) for name in WAY]
    print_table("", columns, list(way_rows(answer)))
    for layer in answer.layers:
        stdout().print(plain(f"  {layer_words(layer)}"))
    for line in remarks(answer):
        remark(f"  {line}")
    remark(f"  `enginebench show {search.id}` shows it again")


def _on_with(search: Search) -> str:
    """How an interrupted bisect goes on, and what it leaves here until then."""
    stay = search.order.get("kind") == BisectKind.VERSIONS
    left = "; the environments that were made for it stay until then" if stay else ""
    return f"`enginebench resume {search.id}` goes on with it{left}"


class BisectProgress(GateProgress):
    """As of a gate, with the number of the gate, about how many follow, and what each has decided."""

    def __init__(self, begun: Callable[[Search], None] = lambda _: None) -> None:
        super().__init__()
        self._begun = begun
        self._gate: tuple[int, int, str] | None = None
        self._asked: tuple[BisectOrder, Question, int] | None = None
        self._judged: Judged | None = None
        self._sentence = ""
        self._search: Search | None = None
        self._is_told = False
        self._written = ProgressWriter(own_folder())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._say_verdict()
        super().__exit__(kind, error, trace)
        if kind is None:
            self._written.steps_ended({})
        if kind is KeyboardInterrupt and self._search is not None:
            remark(_on_with(self._search))

    def set_out(self, search: Search) -> None:
        """See `BisectWatcher`."""
        self._search = search
        self._begun(search)
        self._written.made(MadeKind.SEARCH, search.id)

    def said(self, sentence: str) -> None:
        """See `GateWatcher`."""
        self._say_verdict()
        super().said(sentence)
        self._written.doing(sentence)

    def begun(self, benchmark_id: str, terms: GateTerms) -> None:
        """See `GateWatcher`. With the first gate a bisect is something to go on with, and not before."""
        if self._search is not None and self._asked is not None and self._asked[-1] == 0 and not self._is_told:
            name = self._search.id
            remark(f"bisect {name}; interrupted, it goes on with `enginebench resume {name}`")
            self._is_told = True
        super().begun(benchmark_id, terms)
        self._written.doing(self._sentence)  # in place of what was installed for it

    def looked(self, judged: Judged, seconds_left: float) -> None:
        """See `GateWatcher`."""
        super().looked(judged, seconds_left)
        self._judged = judged
        self._write(1 - seconds_left / self._seconds if self._seconds else 0.0)

    def finished(self, case: Case, outcome_id: str, status: Status, failure: Failure | None) -> None:
        """See `remote_run.Reporter`."""
        if failure is not None:  # then it has come to no verdict
            self._judged = None
        super().finished(case, outcome_id, status, failure)

    def asking(self, order: BisectOrder, question: Question, number: int) -> None:
        """See `BisectWatcher`."""
        self._say_verdict()
        self.forget()
        self._asked = order, question, number
        more = question.left - 1  # where none is in doubt
        left = f"about {more} more gate{'s' if more > 1 else ''}" if more else "perhaps the last"
        base, head = order.title(question.base), order.title(question.head)
        longer = ", longer than before" if question.patience > 1 else ""
        self._gate = number, number + question.left, f"{head} against {base}"
        self._write(0.0)
        self._sentence = f"gate {number + 1}, {left}: {head} against {base}: {_DOES[question.purpose]}{longer}"
        self.said(self._sentence)

    def _say_verdict(self) -> None:
        """Say once what the gate that has ended tells."""
        judged, self._judged = self._judged, None
        if judged is None or self._asked is None:
            return
        order, question, number = self._asked
        look = GateSeen(judged.outcome, judged.is_better, judged.decisive.ratio)
        sentence = f"gate {number + 1}: {gate_sentence(told_gate(order, Asked(question, look)))}"
        super().said(sentence)
        self._written.note(sentence)

    def _write(self, share: float) -> None:
        """Say which gate it is, and how much of its budget has gone."""
        if self._gate is not None:
            self._written.step(*self._gate, share)
