"""How often the gate's verdict is right, and how soon.

    python -m benchmarks.verdicts [--recordings FOLDER] [--draws 2000]    replay what was recorded
    python -m benchmarks.verdicts --synthetic                             the same on noise that was made up
    python -m benchmarks.verdicts --record [--minutes 60]                 measure process pairs; goes on where it was
    python -m benchmarks.verdicts --live 60 [--noisy]                     carry out gates; goes on where it was
    python -m benchmarks.verdicts --precision 48                          measure all engines in turns; goes on, too
    python -m benchmarks.verdicts --rivals 20                             the same with other tools; goes on, too

Part (a): the gate's own rule is replayed on recorded process pairs; every figure is of these recordings. Part (b): live
gates, and other tools. The tables are printed, and with --fill put into docs/evidence: what all series say together
into verdicts.md, the power curve beside it, each series into verdicts-recorded.md or verdicts-synthetic.md.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks import verdict_precision, verdict_rivals
from benchmarks.markdown import fill, markdown_table
from benchmarks.verdict_estimators import halves, over_table, within_table
from benchmarks.verdict_live import kept, live_table, measure
from benchmarks.verdict_recorder import record
from benchmarks.verdict_recordings import EQUAL, FOLDER, Round, Series, by_series, read
from benchmarks.verdict_replay import Figures, Observed, Share, long_run, observe, replay, rivals, together
from benchmarks.verdict_rivals import rivals_live_table
from benchmarks.verdict_synthetic import all_rounds
from enginebench_controller.stats.paired import spread
from enginebench_controller.verdicts.gate.rule import GateRule

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "verdicts.md"
DRAWS = 2000
BUDGETS_S = (60.0, 120.0)
SIZES = (0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.07, 0.10)
RULE = GateRule()
"""The gate's defaults: 1 % is tolerated, and D is 3 %."""


@dataclass(frozen=True)
class Asked:
    """What is replayed: rounds by series, and how often a figure is drawn."""

    series: Mapping[Series, Sequence[Round]]
    draws: int


def main() -> None:
    """Record, or replay and tell."""
    arguments = _arguments()
    if arguments.record:
        record(arguments.recordings, arguments.minutes)
        return
    if arguments.live:
        measure(arguments.recordings, arguments.live, noisy=arguments.noisy)
        return
    if arguments.precision:
        verdict_precision.record(arguments.recordings, arguments.precision)
        return
    if arguments.rivals:
        verdict_rivals.measure(arguments.recordings, arguments.rivals)
        return
    try:
        found = all_rounds() if arguments.synthetic else read(arguments.recordings)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    if not found:
        raise SystemExit(f"nothing was recorded in {arguments.recordings}: give --record first, or --synthetic")
    asked = Asked(by_series(found), arguments.draws)
    part = "synthetic" if arguments.synthetic else "recorded"
    gates = [gates_within(asked, budget_s) for budget_s in BUDGETS_S]
    text = "\n\n".join(tables(asked, gates))
    curve = power(asked)
    summary = "\n\n".join([*(gate_table(each, each.together) for each in gates), curve_table(curve)])
    print(text, summary, sep="\n\n")
    live = [] if arguments.synthetic else live_tables(arguments.recordings)
    known = "" if arguments.synthetic else verdict_precision.precision_table(arguments.recordings, arguments.draws)
    print(*live, known, sep="\n\n")
    if arguments.fill:
        if known:
            fill(PAGE, "precision", known)
        if live:
            fill(PAGE, "live", "\n\n".join(live))
        fill(PAGE, part, f"{summary}\n\n![power curve](verdicts-{part}.svg)")
        fill(PAGE.with_name(f"verdicts-{part}.md"), part, text)
        draw(curve, PAGE.with_name(f"verdicts-{part}.svg"), part)


@dataclass(frozen=True)
class Gates:
    """What the gate came to within a budget: of each series, and of all series of a condition and a case together."""

    budget_s: float
    draws: int
    each: Mapping[Series, Figures]
    together: Mapping[tuple[str, str], Figures]


def tables(asked: Asked, gates: Sequence[Gates]) -> Sequence[str]:
    """What is recorded, the estimators, the gate's figures of each series, and its rivals'."""
    return (
        recorded_table(asked.series),
        within_table(asked.series),
        over_table(asked.series, max(asked.draws // 5, 50)),
        *(gate_table(each, each.each) for each in gates),
        rivals_table(asked, gates[0]),
    )


def live_tables(folder: Path) -> list[str]:
    """What live gates and live rivals came to, as far as there are any."""
    gates, trials = kept(folder), verdict_rivals.kept(folder)
    return [*([live_table(gates)] if gates else []), *([rivals_live_table(trials)] if trials else [])]


def recorded_table(series: Mapping[Series, Sequence[Round]]) -> str:
    """How many rounds of each series, and what they say all together."""
    rows = []
    for name, rounds in series.items():
        seen = observe(rounds)
        rows.append(
            (
                " · ".join(name),
                str(len(rounds)),
                f"{seen.wall_s.mean():.1f} s",
                f"{100 * long_run(seen):+.2f} %",
                f"{100 * (spread(list(seen.ratios)) or 0.0):.2f} %",
                f"{float(np.corrcoef(rankdata(seen.ratios[:-1]), rankdata(seen.ratios[1:]))[0, 1]):+.2f}",
            )
        )
    columns = ("recording", "rounds", "each", "log ratio of all", "spread of pairs", "rank correlation of neighbours")
    return markdown_table(columns, rows)


def gates_within(asked: Asked, budget_s: float) -> Gates:
    """Replay the gate on the later half of each recording, which chose nothing."""
    each = {name: _replayed(rounds, name, budget_s, asked.draws) for name, rounds in asked.series.items()}
    kinds = dict.fromkeys((name[0], name[3]) for name in each)
    of_kind = {kind: [found for name, found in each.items() if (name[0], name[3]) == kind] for kind in kinds}
    return Gates(budget_s, asked.draws, each, {kind: together(found) for kind, found in of_kind.items()})


def gate_table(gates: Gates, figures: Mapping[Any, Figures]) -> str:
    """A line for each series, or kind of series."""
    columns = ("(a) recording", "true", "worse", "better", "cannot tell", "covered", "median time", "pairs")
    rows = [_figures_row(name, found) for name, found in figures.items()]
    return f"Budget {gates.budget_s:.0f} s, {gates.draws:,} gates a series:\n\n" + markdown_table(columns, rows)


def _replayed(rounds: Sequence[Round], name: Series, budget_s: float, draws: int) -> Figures:
    seen = observe(halves(rounds)[1])
    return replay(seen, budget_s, draws, rule=RULE, true=_true(name, rounds))


def _true(name: Series, rounds: Sequence[Round]) -> float:
    """Of equal things 0; of planted ones what all rounds together say."""
    return 0.0 if name[3] == EQUAL else long_run(observe(rounds))


def _figures_row(name: Sequence[str], found: Figures) -> Sequence[str]:
    shares = (found.worse, found.better, found.cannot_tell, found.covered)
    times = (f"{found.median_s:.0f} s", f"{found.median_pairs:.0f}")
    return (" · ".join(name), f"{100 * found.true:+.1f} %", *map(str, shares), *times)


def rivals_table(asked: Asked, gates: Gates) -> str:
    """How often each calls head worse, on the same rounds."""
    rows = []
    for name, rounds in asked.series.items():
        seen = observe(halves(rounds)[1])
        others = rivals(seen, gates.budget_s, asked.draws, rule=RULE)
        rows.append((" · ".join(name), str(gates.each[name].worse), *map(str, others.values())))
    columns = ("(a) called worse", "gate", "Welch over processes", "Mann–Whitney over processes")
    return f"Budget {gates.budget_s:.0f} s:\n\n" + markdown_table(columns, rows)


Curve = Mapping[tuple[str, float], Sequence[tuple[float, Share]]]
"""By condition and budget: how often each size is called worse."""


def power(asked: Asked) -> Curve:
    """How often sizes are found, planted by making one side's recorded times of equal things longer."""
    curve: dict[tuple[str, float], list[tuple[float, Share]]] = {}
    equal = {name: observe(halves(rounds)[1]) for name, rounds in asked.series.items() if name[3] == EQUAL}
    for condition in dict.fromkeys(name[0] for name in equal):
        chosen = [seen for name, seen in equal.items() if name[0] == condition]
        for budget_s in BUDGETS_S:
            curve[condition, budget_s] = [(size, _found(chosen, size, budget_s, asked.draws)) for size in (0, *SIZES)]
    return curve


def _found(chosen: Sequence[Observed], size: float, budget_s: float, draws: int) -> Share:
    each = max(draws // len(chosen), 1)
    return Share.of_all([replay(seen.slower(size), budget_s, each, rule=RULE, true=0.0).worse for seen in chosen])


def curve_table(curve: Curve) -> str:
    """The power curve in figures."""
    rows = [
        (f"{condition}, {budget_s:.0f} s", *(str(share) for _, share in points))
        for (condition, budget_s), points in curve.items()
    ]
    return markdown_table(("(a) called worse", *(f"{100 * size:g} %" for size in (0, *SIZES))), rows)


def draw(curve: Curve, path: Path, part: str) -> None:
    """The power curve as a chart."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # takes half a second, and only a chart needs it

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for (condition, budget_s), points in curve.items():
        sizes = [100 * size for size, _ in points]
        values = [100 * share.value for _, share in points]
        ends = [[100 * abs(share.value - share.ends[place]) for _, share in points] for place in (0, 1)]
        axes.errorbar(sizes, values, yerr=ends, marker="o", capsize=2, label=f"{condition}, {budget_s:.0f} s")
    axes.axhline(90, color="#8a8a8a", linewidth=0.8, linestyle=":")
    axes.set_xlabel("head takes longer by, %")
    axes.set_ylabel("called worse, %")
    axes.set_title(f"What the gate finds ({part}; sizes planted by scaling)", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.verdicts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recordings", type=Path, default=FOLDER, help="where recorded process pairs are kept")
    parser.add_argument("--draws", type=int, default=DRAWS, help=f"gates replayed for each figure ({DRAWS})")
    parser.add_argument("--synthetic", action="store_true", help="replay made-up noise instead of recordings")
    parser.add_argument("--fill", action="store_true", help="put the tables and the chart into docs/evidence")
    parser.add_argument("--record", action="store_true", help="measure instead, and add to the recordings")
    parser.add_argument("--live", type=int, metavar="N", help="carry out gates until N are kept, of 60 s each at most")
    parser.add_argument("--noisy", action="store_true", help="live gates beside a neighbour who works in spells")
    parser.add_argument("--precision", type=int, metavar="N", help="measure N rounds of all engines in turns")
    parser.add_argument("--rivals", type=int, metavar="N", help="try other tools so often each")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to measure in all (60)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
