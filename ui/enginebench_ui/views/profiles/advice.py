"""What the advisor says of a profile, ready for a page: raw text, and the layers that it is about."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from enginebench_controller.prospects import Advice, Severity
from enginebench_ui.views.magnitudes import milliseconds_text, shortened
from enginebench_ui.views.profiles.datasets import BASELINE

RESULTS = "Layer results"
"""The section of the page that shows layers one by one; the words stand in its address."""

HEADINGS = {
    Severity.WARNING: "Know before trusting the numbers",
    Severity.GAIN: "Time to be gained",
    Severity.NOTE: "Worth knowing",
}
ICONS = {
    Severity.WARNING: ":material/warning:",
    Severity.GAIN: ":material/trending_up:",
    Severity.NOTE: ":material/info:",
}


@dataclass(frozen=True)
class LayerLink:
    """A layer that advice is about: its position in the profile, and a label of raw text."""

    position: int
    label: str


@dataclass(frozen=True)
class AdviceView:
    """All that one rule found, with one remedy; texts are raw, since they quote names of layers."""

    severity: Severity
    sentences: tuple[str, ...]
    remedy: str
    rule: str
    layers: tuple[LayerLink, ...]


def advice_views(advice: Iterable[Advice]) -> tuple[AdviceView, ...]:
    """Return the advice in its order, that of one rule with one remedy together."""
    groups: dict[tuple[str, str], list[Advice]] = {}
    for one in advice:
        groups.setdefault((one.rule, one.remedy), []).append(one)
    return tuple(map(_view, groups.values()))


def of_severity(views: Sequence[AdviceView], severity: Severity) -> tuple[AdviceView, ...]:
    """Those of one kind."""
    return tuple(view for view in views if view.severity is severity)


def layer_query(profile_id: str, position: int) -> dict[str, str]:
    """What opens a layer of the profile itself, whichever figure was looked at before."""
    return {"id": profile_id, "view": RESULTS, "data": BASELINE, "layer": str(position)}


def _view(group: Sequence[Advice]) -> AdviceView:
    first = group[0]
    named = {layer.position: layer for one in group for layer in one.layers}
    return AdviceView(
        severity=first.severity,
        sentences=tuple(_capital(one.sentence) for one in group),
        remedy=_capital(first.remedy),
        rule=first.rule,
        layers=tuple(
            LayerLink(position, f"{shortened(layer.name, 32)}, {milliseconds_text(layer.time_ns)}")
            for position, layer in named.items()
        ),
    )


def _capital(sentence: str) -> str:
    """As a sentence of its own: rules write them to stand behind a colon."""
    return f"{sentence[:1].upper()}{sentence[1:]}."
