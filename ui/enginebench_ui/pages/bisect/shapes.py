"""A bisect shaped: the form as a command, the way through the candidates as a line, gates and layers as rows."""

import html
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from enginebench_controller.errors import InputError
from enginebench_controller.plan.bisect import BisectKind, make_order, narrowed
from enginebench_controller.plan.plan import GateMetric
from enginebench_controller.runs.searches.releases import package_of
from enginebench_controller.verdicts.bisect.answer import BisectGate
from enginebench_controller.verdicts.bisect.decision import GatePurpose
from enginebench_controller.verdicts.bisect.words import (
    figures_words,
    full_verdict,
    ratio_words,
    verdict_words,
    why_nothing,
)
from enginebench_controller.verdicts.gate.results import LayerShare
from enginebench_ui.shared.order_fields import positional
from enginebench_ui.shared.text import Row, cells, in_percent, isolated


@dataclass(frozen=True)
class BisectForm:
    """What the form holds, as it was typed."""

    model: str = ""
    engine: str = ""
    good: str = ""
    bad: str = ""
    worse: str = ""
    budget: str = ""
    metric: GateMetric = GateMetric.LATENCY

    @property
    def is_whole(self) -> bool:
        """Whether all is said that has no default."""
        return all((self.model, self.engine, self.good.strip(), self.bad.strip()))


def refusals(wish: BisectForm, known: Collection[str] = ()) -> dict[str, str]:
    """Return what is wrong with each field, in the words of the command, by the field's name.

    Engines that are `known` here are somebody else's, too.
    """
    found = {}
    for name in ("worse", "budget"):
        if text := getattr(wish, name).strip():
            try:
                make_order({"kind": BisectKind.VERSIONS, "candidates": ("1", "2"), "engine": "any", name: text})
            except InputError as error:
                found[name] = str(error)
    good, bad = wish.good.strip(), wish.bad.strip()
    try:
        if good and bad:
            narrowed((good, bad), good, bad)
    except InputError as error:
        found["bad"] = str(error)
    try:
        if wish.engine:
            package_of(wish.engine, known)
    except InputError as error:
        found["engine"] = str(error)
    return found


def arguments(wish: BisectForm) -> tuple[str, ...]:
    """Return the words behind `enginebench` that ask for what the form holds."""
    said = {
        "engine": wish.engine,
        "good": wish.good.strip(),
        "bad": wish.bad.strip(),
        "worse": wish.worse.strip(),
        "budget": wish.budget.strip(),
        "metric": "" if wish.metric is GateMetric.LATENCY else wish.metric.value,
    }
    options = (f"--{name}={value}" for name, value in said.items() if value)
    return ("bisect", *options, *positional([wish.model]))


@dataclass(frozen=True)
class WayStep:
    """A candidate on the way, or several that were not measured: what became of it as a sign, a word and a figure.

    `tone` names its colour in app.css; the sign and the word say the same.
    """

    name: str
    tone: str
    sign: str
    words: str
    ratio: str = ""


_NOT_MEASURED = "not measured"
_MOST_ALONE = 2
"""More candidates than so many, one after the other, that were not measured stand together."""

_SIGNS = {
    "good": ("good", "✓"),
    "as good": ("good", "✓"),
    "better": ("good", "✓"),
    "worse": ("bad", "✗"),
    "bad": ("bad", "✗"),
    "culprit": ("culprit", "◆"),
    "cannot tell": ("open", "?"),
}
"""Tone and sign of each verdict; of what came to nothing a dash."""


def way(candidates: Sequence[str], gates: Sequence[BisectGate], culprit: str | None) -> tuple[WayStep, ...]:
    """Return the candidates in their order, from good to bad, each with the last that was said of it.

    A ratio is to the good one, that of the culprit to the one before it.
    """
    told = {gate.head: gate for gate in gates if gate.purpose is not GatePurpose.NEIGHBOURS}
    neighbours = {gate.head: gate for gate in gates if gate.purpose is GatePurpose.NEIGHBOURS}
    steps = []
    for place, name in enumerate(candidates):
        gate = neighbours.get(name) if name == culprit else told.get(name)
        steps.append(_step(name, gate, is_culprit=name == culprit, is_good=place == 0))
    return tuple(_folded(steps))


def _step(name: str, gate: BisectGate | None, *, is_culprit: bool, is_good: bool) -> WayStep:
    if is_good:
        return WayStep(name, "good", "✓", "good")
    if gate is None and not is_culprit:
        return WayStep(name, "open", "·", _NOT_MEASURED)
    words = "culprit" if is_culprit or gate is None else verdict_words(gate)
    if gate is not None and gate.purpose is GatePurpose.ENDS and words == "worse":
        words = "bad"
    tone, sign = _SIGNS.get(words, ("open", "–"))
    against = f" against {gate.base}" if gate is not None and is_culprit else ""
    ratio = f"{ratio_words(gate.ratio)}{against}" if gate is not None and gate.ratio is not None else ""
    return WayStep(name, tone, sign, words, ratio)


def _folded(steps: Sequence[WayStep]) -> Iterator[WayStep]:
    for words, group in groupby(steps, key=lambda one: one.words):
        alike = list(group)
        if words == _NOT_MEASURED and len(alike) > _MOST_ALONE:
            name = f"{alike[0].name} … {alike[-1].name}"
            yield WayStep(name, "open", "·", f"{len(alike)} {_NOT_MEASURED}")
        else:
            yield from alike


def way_html(steps: Sequence[WayStep]) -> str:
    """Return the line as HTML, with names escaped; on a phone it stands upright."""
    return f'<ol class="eb-way" aria-label="The way, from good to bad">{"".join(map(_item, steps))}</ol>'


def _item(step: WayStep) -> str:
    ratio = f"<small>{html.escape(step.ratio)}</small>" if step.ratio else ""
    return (
        f'<li class="eb-way-{step.tone}"><b>{html.escape(isolated(step.name))}</b>'
        f"<span>{step.sign} {html.escape(isolated(step.words))}</span>{ratio}</li>"
    )


_ASKED = {
    GatePurpose.ENDS: "bad against good",
    GatePurpose.STEP: "halving",
    GatePurpose.NEIGHBOURS: "against the one before",
}


def gate_rows(gates: Sequence[BisectGate], metric: GateMetric) -> tuple[Row, ...]:
    """Return a row a gate of a metric, in the order in which they were asked."""
    return tuple(
        cells(
            {
                "Candidate": gate.head,
                "Verdict": full_verdict(gate),
                "Ratio, 95 % interval": None if gate.ratio is None else ratio_words(gate.ratio),
                "Against": gate.base,
                "From → to": None if gate.base_figure is None else figures_words(metric, gate),
                "Asked": _ASKED[gate.purpose] + (", longer" if gate.patience > 1 else ""),
                "Why not": why_nothing(gate) or None,
                "Benchmark": gate.benchmark,
            }
        )
        for gate in gates
    )


def layer_rows(layers: Sequence[LayerShare]) -> tuple[Row, ...]:
    """Return a row a layer that explains the difference."""
    return tuple(
        cells(
            {
                "Layer": one.name,
                "Operator": one.operator,
                "Difference (ms)": one.difference_ns / 1e6,
                "Share of it (%)": in_percent(one.share),
            }
        )
        for one in layers
    )
