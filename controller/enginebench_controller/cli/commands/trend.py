"""`enginebench trend`: what has been measured again and again, where it changed, and who it was."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import plain, print_json, print_table, remark, stdout
from enginebench_controller.cli.options import Json
from enginebench_controller.cli.progress import watching
from enginebench_controller.cli.tables import instant
from enginebench_controller.errors import InputError
from enginebench_controller.files.verdicts.gates import alerts_document
from enginebench_controller.home import Home, default_home
from enginebench_controller.plan.gate import checked_terms
from enginebench_controller.plan.plan import parse_duration_ns
from enginebench_controller.runs.gate import confirm
from enginebench_controller.store.trends import TrendHistory, left_out_words
from enginebench_controller.verdicts.alerts import (
    Alert,
    Cause,
    Confirmation,
    Finding,
    Findings,
    HistoryAlerts,
    alerts,
    finding_words,
    findings,
    history_words,
    known,
    unsearched,
)
from enginebench_controller.verdicts.gate.rule import exit_code
from enginebench_controller.verdicts.words import UNKNOWN, change_words
from enginebench_proto.agreed.names import as_name
from enginebench_proto.agreed.words import SUFFIXES

STYLES = {Finding.REGRESSION: "bold red", Finding.IMPROVEMENT: "bold green"}


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("trend")(trend)


def trend(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="Name, file or start of the digest of a model; all without it.",
            autocompletion=completion.models,
        ),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(metavar="E", help="Only of this engine.", autocompletion=completion.engines)
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only on this target.", autocompletion=completion.targets)
    ] = None,
    find: Annotated[bool, typer.Option("--alerts", help="Where a history changed, and who it was.")] = False,
    confirming: Annotated[
        bool,
        typer.Option("--confirm", help="With --alerts: gate the versions before and after, where it was measured."),
    ] = False,
    budget: Annotated[str, typer.Option(metavar="TIME", help="With --confirm: how long each gate takes.")] = "2m",
    json: Json = False,
) -> None:
    """What has been measured again and again, and with --alerts where it changed: the machine, or the engine?

    A change is a regression only where a gate of the versions before and after says so: --confirm runs it. The exit
    code is 4 where it does, until the level is back where it was.
    """
    if confirming and not find:
        raise InputError("--confirm is for what --alerts finds: write --alerts --confirm")
    checked_terms({"budget": budget})  # not after the first gate
    home, target = default_home(), as_name(target) if target else None
    digests = _digests(home, model)
    histories = [one for digest in digests for one in home.store.histories(digest, target, engine)]
    if told := left_out_words([one for digest in digests for one in home.store.misdated(digest, target, engine)]):
        remark(told)
    if not histories:
        # A nightly job is not wrong because it is new.
        if not any(home.store.histories(digest, target, engine, fewest=1) for digest in digests):
            raise InputError(_nothing(model, engine, target))
        remark(_nothing(model, engine, target))
    if not find:
        if json:
            print_json(alerts_document([(unsearched(one), ()) for one in histories]))
        elif histories:
            _print_histories(histories)
        return
    found = _gated(home, histories, budget) if confirming else findings(home, histories)
    if json:
        print_json(alerts_document(found))
    else:
        _print_alerts(found)
    worse = confirming and any(_is_worse(*each) for one, told in found for each in zip(one.alerts, told, strict=True))
    raise typer.Exit(int(exit_code(worse=worse, failed=False, cannot_tell=False, strict=False)))


def _is_worse(alert: Alert, confirmation: Confirmation | None) -> bool:
    """Whether it still is: of a regression that was mended nobody needs to be told every night."""
    return confirmation is not None and confirmation.finding is Finding.REGRESSION and alert.lasts


def _digests(home: Home, model: str | None) -> Sequence[str | None]:
    """The versions that a file, a name or the start of a digest means; they need not be in the library any more."""
    if model is None:
        return [None]
    file, known = Path(model), home.store.measured_models()
    # Any file of a model's name may lie in the working folder.
    is_file = (os.sep in model or file.suffix.lower() in home.library.suffixes()) and file.is_file()
    if is_file:
        held = home.library.digest_of(file)
        found = [digest for digest in known if digest == held]
    elif file.suffix.lower() in SUFFIXES:  # gone since: the library took its stem as the name
        found = [digest for digest, name in known.items() if as_name(name) == as_name(file.stem)]
    else:
        wanted = as_name(model.removeprefix("zoo:"))
        found = [digest for digest, name in known.items() if as_name(name) == wanted or digest.startswith(wanted)]
    if not found:
        which = f"what is in {model!r} now" if is_file else f"no model {model!r}"
        names = ", ".join(sorted(set(map(as_name, known.values())))[:8])
        told = f"{which} was {'not ' * is_file}measured, gates aside"
        raise InputError(told + (f"; these were: {names}" if names else ""))
    return found


def _nothing(model: str | None, engine: str | None, target: str | None) -> str:
    asked = [model or "", f"engine {engine}" if engine else "", f"target {target}" if target else ""]
    of_what = " and ".join(filter(None, asked))
    return f"nothing{f' of {of_what}' if of_what else ''} has been measured more than once: a trend needs two points"


def _gated(home: Home, histories: Sequence[TrendHistory], budget: str) -> Findings:
    """What gates say now. Of each candidate anew, whether one has said it: the gate of another may be of it as well."""
    found = map(alerts, histories)
    return tuple((one, tuple(_confirmed(home, alert, budget) for alert in one.alerts)) for one in found)


def _confirmed(home: Home, alert: Alert, budget: str) -> Confirmation | None:
    (stored,) = known(home, [alert])
    if stored is None or not _is_open(stored, budget):
        return stored
    remark(f"{history_words(alert.history)}: {_versions(alert)}")
    with watching() as watcher:
        return confirm(home, alert, budget, watcher)


def _is_open(stored: Confirmation, budget: str) -> bool:
    """Whether another gate may say more; where one was too coarse, only one that takes longer is asked."""
    if stored.coarse_within is not None:
        return parse_duration_ns(budget) > parse_duration_ns(stored.coarse_within)
    return stored.finding in (Finding.UNCONFIRMED, Finding.CANNOT_TELL)


def _print_histories(histories: Sequence[TrendHistory]) -> None:
    columns = [("history", False), ("points", True), ("since", False), ("versions", False), ("newest ms", True)]
    columns.append(("since the first", True))
    found = [_row(one) for one in histories]
    if _have_several_processors(histories):
        columns.insert(1, ("processor", False))
        for row, one in zip(found, histories, strict=True):
            row.insert(1, " → ".join(one.processors) or UNKNOWN)
    print_table("Histories", columns, found)
    remark("--alerts tells where they changed, and whether it was the machine")


def _have_several_processors(histories: Sequence[TrendHistory]) -> bool:
    """Whether a target is, or was, several machines: replaced by another, or somebody else's of the same name."""
    found = {(one.target, model) for one in histories for model in one.processors}
    return len(found) > len({target for target, _ in found})


def _row(one: TrendHistory) -> list[object]:
    newest, since = one.points[-1].median_ns, one.since_oldest
    versions = " → ".join(dict.fromkeys(point.engine.version or UNKNOWN for point in one.points))
    change = UNKNOWN if since is None else change_words(since)
    shown = UNKNOWN if newest is None else f"{newest / 1e6:.3f}"
    return [history_words(one), len(one.points), instant(one.points[0].at_unix_ns), versions, shown, change]


def _print_alerts(found: Sequence[tuple[HistoryAlerts, Sequence[Confirmation | None]]]) -> None:
    count = 0
    for one, confirmations in found:
        for alert, confirmation in zip(one.alerts, confirmations, strict=True):
            count += 1
            for line in _lines(alert, confirmation):
                stdout().print(line, soft_wrap=True)
    short = [one for one, _ in found if one.shortage]
    enough = len(found) - len(short)
    if not count and enough:
        remark(f"no change in {enough} {'history' if enough == 1 else 'histories'}")
    for one in short:
        remark(f"{history_words(one.history)}: {one.shortage}")


def _lines(alert: Alert, confirmation: Confirmation | None) -> Iterator[Text]:
    beside = "" if alert.beside_reference is None else " beside the reference work"
    changed = f"{change_words(alert.change)} time{beside}"
    title = plain(f"{history_words(alert.history)}: {changed} since {instant(alert.after.at_unix_ns)}")
    title.stylize("bold")
    yield title
    heading = {Cause.MACHINE: "the machine", Cause.UNEXPLAINED: "unexplained", Cause.CANDIDATE: _versions(alert)}
    yield plain(
        f"  {heading[alert.cause]}: {alert.sentence} ({alert.points[0]} points before, {alert.points[1]} since)"
    )
    if confirmation is not None:
        said = finding_words(alert, confirmation)
        line = plain(f"  {said}: {confirmation.sentence}")
        is_over = confirmation.finding is Finding.REGRESSION and not alert.lasts
        line.stylize("yellow" if is_over else STYLES.get(confirmation.finding, "yellow"), 2, 2 + len(said))
        yield line


def _versions(alert: Alert) -> str:
    before, after = (one or UNKNOWN for one in alert.versions)
    return f"perhaps {alert.history.engine} {before} → {after}"
