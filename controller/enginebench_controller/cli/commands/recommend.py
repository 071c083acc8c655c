"""`enginebench recommend`: which configuration to deploy, found by a search within a budget."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer
from rich.progress import TaskID

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import plain, print_json, print_table, remark, stdout, write_asked
from enginebench_controller.cli.options import Json, TrustModels
from enginebench_controller.cli.plan_options import plan_options
from enginebench_controller.cli.progress import Drawing, UploadWords, budget_bar, left_words, remind
from enginebench_controller.cli.searches import AskedFiles, asked_of, conclude, keep_asked
from enginebench_controller.errors import ExitCode, InputError
from enginebench_controller.files.ladders import check_chart_path
from enginebench_controller.files.new_file import check_new_files
from enginebench_controller.files.verdicts.recommendations import (
    FATES,
    difference_words,
    in_order,
    known_words,
    recommendation_answer,
    recommendation_html,
    recommendation_markdown,
    recommendation_toml,
    times_words,
    write_front,
)
from enginebench_controller.home import Home, default_home
from enginebench_controller.jobs.record import MadeKind
from enginebench_controller.jobs.reporting import ProgressWriter
from enginebench_controller.jobs.telling import own_folder
from enginebench_controller.plan.expand import Case
from enginebench_controller.plan.recommend import Goal, RecommendOrder, make_order, parse_axes
from enginebench_controller.records import Failure, Search, Status
from enginebench_controller.runs.searches.recommending import go_on, so_far
from enginebench_controller.runs.searches.recommending import recommend as search_for
from enginebench_controller.verdicts.recommend.answer import (
    Recommendation,
    Recommendations,
    command_label,
    figure_words,
    read_answer,
)
from enginebench_controller.verdicts.recommend.answering import MOST_REASONS
from enginebench_controller.verdicts.recommend.search import Fate, SearchOutcome
from enginebench_controller.verdicts.words import UNKNOWN, whichever_process

_EXIT = {SearchOutcome.NOTHING: ExitCode.CONDITION_MET, SearchOutcome.CANNOT_TELL: ExitCode.CANNOT_TELL}
_STYLE = {SearchOutcome.FOUND: "bold green", SearchOutcome.NOTHING: "bold red"}
_MOST_SHOWN = 8
"""Points in the table of the terminal; the documents have all."""
_MOST_NAMED = 3
"""Points that are named with the reason for which they cannot be had."""


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("recommend")(recommend)


@plan_options("engine", "target", "device", "option", "shape", "batch-axis", "inputs", "input")
def recommend(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL…", help="Files, names, digests, zoo:NAME.", autocompletion=completion.models),
    ],
    max_latency: Annotated[
        str | None,
        typer.Option(
            metavar="'p95<20ms'", help="A percentile of latency that is to be held; 20ms alone is of the median."
        ),
    ] = None,
    max_memory: Annotated[str | None, typer.Option(metavar="500MB", help="Peak memory that is to be held.")] = None,
    max_output_difference: Annotated[
        str | None,
        typer.Option(metavar="1%", help="How far outputs of versions and precisions may be from the model as given."),
    ] = None,
    leave_cores: Annotated[int, typer.Option(metavar="N", help="Physical cores to leave to others.")] = 0,
    maximize: Annotated[
        str | None, typer.Option(metavar="throughput|rate", help=r"What is to be much. \[default: throughput]")
    ] = None,
    minimize: Annotated[
        str | None, typer.Option(metavar="latency|memory", help="What is to be little instead.")
    ] = None,
    fix: Annotated[
        list[str] | None, typer.Option(metavar="AXIS=VALUE", help="An axis with one value only; may be repeated.")
    ] = None,
    among: Annotated[
        list[str] | None, typer.Option(metavar="AXIS=A,B,…", help="The values to choose from; may be repeated.")
    ] = None,
    versions: Annotated[
        bool, typer.Option("--versions", help="Versions made of the models (by models quantize, prune …) take part.")
    ] = False,
    budget: Annotated[str, typer.Option(metavar="TIME", help="How long to measure.")] = "5m",
    *,
    fields: dict[str, Any],
    trust: TrustModels = False,
    plan_file: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Write the plan of what is recommended.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the answer as Markdown.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the answer as an HTML page.")
    ] = None,
    chart: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw latency and throughput of all (.svg or .png).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    json: Json = False,
) -> None:
    """Search for the configuration to deploy: engine, batch, cores, streams, requests and hint, within limits.

    \b
    recommend resnet50.onnx --max-latency 'p95<20ms'
    recommend resnet50.onnx --minimize latency --leave-cores 1
    recommend resnet50.onnx --maximize rate --max-latency 'p99<50ms'
    recommend resnet50.onnx --target nuc,board --max-latency 'p95<50ms'   one answer each, and one for all
    recommend resnet50.onnx --among batch=1,4 --fix cores=2 --engine openvino

    What wins is measured again in fresh processes, and these say whether a limit is held. The exit code is 4 where
    nothing holds the limits, 5 where that cannot be told, 1 where nothing could be measured.
    """  # typer keeps lines after a backspace
    check_new_files(plan_file, markdown, html, force=force)
    if plan_file is not None and plan_file.suffix != ".toml":
        raise InputError(
            f"--plan {plan_file}: a plan is TOML, which `enginebench run` knows by its name: end it in .toml"
        )
    if chart is not None:
        check_chart_path(chart, force=force)
    targets = tuple(dict.fromkeys(fields.pop("targets", ())))
    if len(targets) > 1 and (chart is not None or html is not None):
        option = "--html" if chart is None else "--chart"
        raise InputError(f"what {option} writes is of one target: leave it out, or give one --target")
    engines = fields.pop("engines", None)
    order = make_order(
        {
            "models": models,
            "target": targets[0] if len(targets) == 1 else None,
            "targets": targets if len(targets) > 1 else (),
            "goal": _goal(maximize, minimize),
            "max_latency": max_latency,
            "max_memory": max_memory,
            "max_output_difference": max_output_difference,
            "leave_cores": leave_cores,
            "axes": parse_axes(fix or (), among or ()),
            "versions": versions,
            "budget": budget,
            "fields": fields,
            "trusted": trust,
        }
        | ({} if engines is None else {"engines": engines})
    )
    home = default_home()
    remind(home)
    asked = AskedFiles(plan_file, markdown, html, chart, force)
    with RecommendProgress(order, partial(keep_asked, home, asked)) as progress:
        search = asyncio.run(search_for(home, order, progress))
    raise typer.Exit(conclude(home, search, as_json=json))


def carry_on(home: Home, search: Search, *, as_json: bool | None, trusted: bool) -> int:
    """See `cli.searches`."""
    asked_of(home, search)  # before the budget is spent on it
    with RecommendProgress(make_order(search.order)) as progress:
        found = asyncio.run(go_on(home, search, progress, trusted=trusted))
    return conclude(home, found, as_json=as_json)


def tell(search: Search, *, as_json: bool | None) -> int:
    """See `cli.searches`."""
    found = _answer_of(search)
    if as_json is not None:
        _print(search, found, as_json=as_json)
    return int(_exit_code(found))


def _answer_of(search: Search) -> Recommendation | Recommendations:
    assert search.answer is not None  # noqa: S101  # asked by who calls
    return read_answer(search.answer)


def _exit_code(found: Recommendation | Recommendations) -> ExitCode:
    each = (found,) if isinstance(found, Recommendation) else found.targets
    if any(one.is_without_figures for one in each):
        return ExitCode.SOME_FAILED
    return _EXIT.get(found.outcome, ExitCode.OK)


def print_search(home: Home, search: Search, *, as_json: bool) -> None:
    """Print the answer, or the best so far of a search without one."""
    found = so_far(home, search) if search.answer is None else read_answer(search.answer)
    if found is None:
        raise InputError(f"nothing was measured yet for {search.id}: `enginebench resume {search.id}` goes on with it")
    _print(search, found, as_json=as_json)
    if search.answer is None and not as_json:
        remark(f"  it is unfinished: `enginebench resume {search.id}` goes on with it")


def _goal(maximize: str | None, minimize: str | None) -> Goal:
    if maximize is not None and minimize is not None:
        raise InputError("give --maximize or --minimize, not both: what else is to be held is a limit")
    if maximize not in (None, Goal.THROUGHPUT, Goal.RATE):
        raise InputError(f"--maximize {maximize}: what can be as much as possible is throughput or rate")
    if minimize not in (None, Goal.LATENCY, Goal.MEMORY):
        raise InputError(f"--minimize {minimize}: what can be as little as possible is latency or memory")
    return Goal(minimize or maximize or Goal.THROUGHPUT)


def write(search: Search, asked: AskedFiles) -> None:
    """See `cli.searches`."""
    found, force = _answer_of(search), asked.force
    plan = recommendation_toml(found)
    if plan is not None:
        write_asked(asked.plan, lambda: plan, force=force)
    elif asked.plan is not None:
        remark(f"nothing is recommended: {asked.plan} was not written")
    write_asked(asked.markdown, partial(recommendation_markdown, search, found), force=force)
    if isinstance(found, Recommendation):
        write_asked(asked.html, partial(recommendation_html, search, found), force=force)
        if asked.chart is not None:
            write_front(found, dict(search.order), asked.chart, force=force)
            remark(f"wrote {asked.chart}")


def _print(search: Search, found: Recommendation | Recommendations, *, as_json: bool) -> None:
    if as_json:
        print_json(recommendation_answer(search, found))
        return
    if isinstance(found, Recommendation):
        _print_sentence(found.outcome, found.sentence, found.command)
        _print_points(found)
    else:
        _print_sentence(found.for_all.outcome, found.sentence, found.for_all.command)
        for one in found.targets:
            _print_sentence(one.outcome, f"{one.target}: {one.sentence}", one.command)
        for one in found.targets:
            remark(f"{one.target}:")
            _print_points(one)
    remark(f"  `enginebench show {search.id}` shows it again")


def _print_sentence(outcome: SearchOutcome, sentence: str, command: str | None) -> None:
    text = plain(sentence)
    text.stylize(_STYLE.get(outcome, "bold yellow"))
    stdout().print(text, soft_wrap=True)
    if command is not None:
        if label := command_label(outcome):
            remark(f"  {label}")
        stdout().print(plain(f"  {command}"), soft_wrap=True)


def _print_points(found: Recommendation) -> None:
    """What the best gains, and the best of all points, where there is one."""
    for gain in found.gains:
        known = f", {words}" if (words := known_words(gain)) else ""
        remark(f"  {times_words(gain.ratio)} × as good as the default of {gain.engine}{known}")
    if found.best is not None:
        _print_tried(found)
    for line in found.remarks:
        remark(f"  {line}")


def _print_tried(found: Recommendation) -> None:
    with_differences = any(one.output_difference is not None for one in found.tried)
    rows: list[list[object]] = [
        [
            found.words_of(one),
            figure_words(found.goal, one),
            UNKNOWN if one.ratio is None else f"{one.ratio[0]:.2f}",
            *([difference_words(one)] if with_differences else []),
            FATES[one.fate],
        ]
        for one in in_order(found)[:_MOST_SHOWN]
    ]
    goal = Goal.THROUGHPUT if found.goal is Goal.RATE else found.goal
    columns = [("configuration", False), (str(goal), True), (f"{found.best_words} is ×", True)]
    columns += [*([("outputs differ", True)] if with_differences else []), ("", False)]
    every, ran = len(found.tried), sum(one.processes > 0 for one in found.tried)
    of = f"{every} points" if ran == every else f"{ran} points that were measured, of {every}"
    print_table(f"The {found.best_words} of {of}", columns, rows)
    _print_reasons(found)


def _print_reasons(found: Recommendation) -> None:
    """Why points cannot be had, each reason once, the commonest first, and how many have others than these."""
    names: dict[str, list[str]] = {}
    for one in found.tried:
        if one.fate is Fate.REFUSED:
            names.setdefault(whichever_process(one.why), []).append(found.words_of(one))
    commonest = sorted(names, key=lambda why: len(names[why]), reverse=True)
    for why in commonest[:MOST_REASONS]:
        each = names[why]
        more = f" and {len(each) - _MOST_NAMED} more" if len(each) > _MOST_NAMED else ""
        remark(f"  {FATES[Fate.REFUSED]}: {'; '.join(each[:_MOST_NAMED])}{more}: {why}")
    if rest := sum(len(names[why]) for why in commonest[MOST_REASONS:]):
        remark(f"  {FATES[Fate.REFUSED]}: {rest} more: other reasons")


class RecommendProgress(Drawing):
    """A bar of the budget, and what is being learnt; without a terminal, a line a step."""

    def __init__(self, order: RecommendOrder, begun: Callable[[Search], None] = lambda _: None) -> None:
        super().__init__(budget_bar())
        self._begun = begun
        self._search: Search | None = None
        self._task: TaskID | None = None
        self._seconds = order.budget_s
        self._names_targets = bool(order.targets)
        self._uploads = UploadWords(self._progress.console)
        self._ends = 0.0
        self._sending_since: float | None = None
        self._told: set[str] = set()
        self._what = ""
        self._written = ProgressWriter(own_folder())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if kind is KeyboardInterrupt and self._search is not None:
            self._tell(f"`enginebench resume {self._search.id}` goes on with it")

    def set_out(self, search: Search) -> None:
        """See `RecommendWatcher`."""
        self._search = search
        self._begun(search)
        self._written.made(MadeKind.SEARCH, search.id)
        self._tell(f"recommend {search.id}; interrupted, it goes on with `enginebench resume {search.id}`")

    def said(self, sentence: str) -> None:
        """See `RecommendWatcher`."""
        self._tell(sentence)
        self._written.note(sentence)

    def learning(self, what: str, seconds_left: float) -> None:
        """See `RecommendWatcher`."""
        self._ends, self._what, self._sending_since = time.monotonic() + seconds_left, what, None
        if self._task is None:
            self._task = self._progress.add_task(what, total=self._seconds, left="")
            if self._progress.console.is_interactive:
                self._progress.start()
        if not self._progress.console.is_interactive:
            remark(f"{what}, {left_words(seconds_left)}")
        self._progress.update(self._task, description=what)
        self._tick()

    def broken_off(self, so_far: Recommendation) -> None:
        """See `RecommendWatcher`."""
        self.said(f"{so_far.target}: {so_far.sentence}" if self._names_targets else so_far.sentence)

    def uploading(self, case: Case, sent_bytes: int, total_bytes: int) -> None:
        """See `remote_run.Reporter`."""
        if self._sending_since is None:
            self._sending_since = time.monotonic()  # it is not charged to the budget
        words = self._uploads.words(case, sent_bytes, total_bytes)
        if self._task is not None:
            self._progress.update(self._task, description=words)
        self._tick()

    def running(self, case: Case, process: int, phase: str, elapsed_ns: int, expected_ns: int) -> None:
        """See `remote_run.Reporter`."""
        self._goes_on()

    def finished(self, case: Case, outcome_id: str, status: Status, failure: Failure | None) -> None:
        """See `remote_run.Reporter`."""
        self._goes_on()
        if failure is not None and failure.message not in self._told:
            self._told.add(failure.message)
            self.said(f"{case.title}: {failure.message}")

    def _tell(self, sentence: str) -> None:
        self._progress.console.print(plain(sentence), soft_wrap=True)

    def _goes_on(self) -> None:
        """What was to be sent is there."""
        if self._sending_since is not None:
            self._ends += time.monotonic() - self._sending_since
            self._sending_since = None
            if self._task is not None:
                self._progress.update(self._task, description=self._what)
        self._tick()

    def _tick(self) -> None:
        now = time.monotonic() if self._sending_since is None else self._sending_since
        left_s = max(0.0, self._ends - now)
        if self._task is not None:
            self._progress.update(self._task, completed=self._seconds - left_s, left=left_words(left_s))
        self._written.learning(self._what, left_s)
