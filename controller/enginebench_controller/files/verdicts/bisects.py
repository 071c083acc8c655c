"""A bisect's answer as a JSON document, and as Markdown for an issue at the project whose version it names."""

from enginebench_controller.files.documents import Document, head
from enginebench_controller.files.forms import DocumentForm, NamedForm
from enginebench_controller.files.report_forms import cell, table
from enginebench_controller.plan.bisect import BisectKind
from enginebench_controller.records import Search
from enginebench_controller.verdicts.bisect.answer import BisectAnswer, BisectGate, Ratio
from enginebench_controller.verdicts.bisect.decision import BisectFinding
from enginebench_controller.verdicts.bisect.words import (
    WAY,
    WHAT,
    called,
    headline,
    remarks,
    way_rows,
    way_words,
)
from enginebench_controller.verdicts.gate.results import LayerShare
from enginebench_controller.verdicts.words import UNKNOWN

TITLES = {
    BisectFinding.CULPRIT: "culprit",
    BisectFinding.ONE_OF: "one of several",
    BisectFinding.NOT_APART: "no difference told",
    BisectFinding.EXCHANGED: "good and bad are exchanged",
    BisectFinding.CANNOT_TELL: "cannot tell",
    BisectFinding.CANNOT_RUN: "nothing to bisect",
}


def bisect_document(search: Search, answer: BisectAnswer) -> Document:
    """The answer as JSON-able data."""
    told = answer.model_dump(mode="json")
    return {
        **head("bisect"),
        "search": {"id": search.id, "name": search.name},
        "sentence": headline(answer),
        **told,
        "remarks": list(remarks(answer)),
    }


def bisect_markdown(answer: BisectAnswer) -> str:
    """An issue: what was found, how to see it again, the machine, the layers, the way."""
    parts = [f"## {cell(_title(answer))}", f"**{cell(headline(answer))}.**"]
    if answer.layers:
        rows = [[one.name, one.operator, f"{one.difference_ns / 1e6:+.3f} ms", _share(one)] for one in answer.layers]
        parts.append("Layers that explain it, by profiles of both:")
        parts.append(table(("layer", "operator", "difference", "share of it"), rows, numbers=(2, 3)))
    facts = [("measured", answer.measured), *answer.machine.items()]
    parts.append("\n".join(f"- {name}: {cell(told)}" for name, told in facts if told))
    if answer.command:
        parts.append(f"To see it again:\n\n    {answer.command}")
    counts = f"a difference counts from {100 * answer.worse:.3g} % on"
    parts.append(f"The way, each by a gate of process pairs that take turns; {counts}: {cell(way_words(answer))}")
    parts.append(table(WAY, way_rows(answer)))
    parts += [f"- {cell(one)}" for one in remarks(answer)]
    return "\n\n".join(parts) + "\n"


def _title(answer: BisectAnswer) -> str:
    if answer.culprit is None:
        return f"enginebench bisect: {TITLES[answer.finding]}"
    since = f" since {answer.before}" if answer.bisected is BisectKind.VERSIONS else f" than {answer.before}"
    return f"{called(answer, answer.culprit)} is {WHAT[answer.metric]}{since}"


def _share(layer: LayerShare) -> str:
    if layer.share is not None and layer.share > 1:
        return "more than all"
    return UNKNOWN if layer.share is None else f"{layer.share:.0%}".replace("%", " %")


class BisectDocument(DocumentForm, BisectAnswer):
    """Which candidate made it worse, and how that was found; ratios are of the metric, the second ÷ the first."""

    document = "bisect"

    kind: str
    search: NamedForm
    sentence: str


__all__ = ["BisectDocument", "BisectGate", "Ratio", "bisect_document", "bisect_markdown"]
