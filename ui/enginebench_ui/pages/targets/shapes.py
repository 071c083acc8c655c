"""Targets as a page shows them: many at a glance, and what engines reach at best on one.

Of many it is said what is wrong with some, those are found that a person looks for, and all stand on a map. What
engines reach is what calibrations measured: two small charts, each with its table.
"""

import html
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

import plotly.graph_objects as go

from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.records import Noise, Peak, PeakKind
from enginebench_controller.records.target import best_peaks
from enginebench_controller.targets.health import Health, HealthAnswer
from enginebench_controller.verdicts.host_words import data_words
from enginebench_proto.agreed.words import DEFAULT_DEVICE, DEFAULT_ENVIRONMENT
from enginebench_ui.shared.charts import NOISE, margins
from enginebench_ui.shared.targets import TargetView
from enginebench_ui.shared.text import UNKNOWN, Row, cells, drawn_text, instant, isolated

MOST_IN_A_TABLE = 30
"""With more targets than these a person looks for some of them, and not at each."""

STALE_NS = 7 * 24 * 3600 * 10**9


class State(StrEnum):
    """How a target is, worst first: one of these, the first that holds."""

    SILENT = "does not answer"
    NOISY = "noisy"
    OLD = "of another version"
    UNSEEN = "not yet seen"
    STALE = "not seen for a week"
    FINE = "fine"


COLOURS = {
    State.SILENT: "#AD215F",
    State.NOISY: "#DD8736",
    State.OLD: "#853FD8",
    State.UNSEEN: "#A586A7",
    State.STALE: "#8A691B",
    State.FINE: "#356D73",
}
TROUBLE = tuple(one for one in State if one is not State.FINE)
BY_STATE = "state"


@dataclass(frozen=True)
class TargetSeen:
    """A target with its state, and with what it can be looked for by."""

    view: TargetView
    state: State

    @property
    def groups(self) -> Mapping[str, str]:
        """What targets can be put together by, with what this one has of it."""
        snapshot = self.view.snapshot
        host = None if snapshot is None else snapshot.host
        facts = {
            BY_STATE: self.state.value,
            "agent": host.agent_version if host else "",
            "arch": host.architecture if host else "",
            "processor": (host.cpu_model or "") if host else "",
        }
        return {**facts, **self.view.labels}

    def has(self, words: Sequence[str]) -> bool:
        """Whether each word is in its name, its address, or what it has."""
        text = " ".join([self.view.name, self.view.address, *(f"{k}={v}" for k, v in self.groups.items())]).lower()
        return all(word.lower() in text for word in words)


def crowd(
    views: Iterable[TargetView], answers: Mapping[str, HealthAnswer], noise: Mapping[str, Noise], own_version: str
) -> tuple[TargetSeen, ...]:
    """Give each target its state; `answers` are those there are, and who has not been asked is not silent."""
    now_ns = time.time_ns()
    return tuple(
        TargetSeen(view, _state(view, answers.get(view.name), noise.get(view.name), own_version, now_ns))
        for view in views
    )


def _state(view: TargetView, answer: HealthAnswer | None, noise: Noise | None, own_version: str, now_ns: int) -> State:
    if answer is not None and answer.health is not Health.SERVING:
        return State.SILENT
    if noise is not None and noise.is_noisy:
        return State.NOISY
    if view.snapshot is None:
        return State.UNSEEN
    if view.snapshot.host.agent_version != own_version:
        return State.OLD
    return State.STALE if now_ns - view.snapshot.seen_at_unix_ns > STALE_NS else State.FINE


def trouble(seen: Iterable[TargetSeen]) -> str:
    """Say in one line what is wrong with how many."""
    count = Counter(one.state for one in seen)
    told = [f"{count[state]:,} {state}" for state in TROUBLE if count[state]]
    every = f"{count.total():,} targets"
    return f"{every}: {', '.join(told)}" if told else f"{every}, all fine"


def groupings(seen: Iterable[TargetSeen]) -> tuple[str, ...]:
    """Return what the targets can be put together by: the state, and what some of them differ in."""
    values: dict[str, set[str]] = {}
    for one in seen:
        for key, value in one.groups.items():
            values.setdefault(key, set()).add(value)
    return (BY_STATE, *(key for key, found in values.items() if key != BY_STATE and len(found) > 1))


def map_html(seen: Sequence[TargetSeen], by: str) -> str:
    """Return a tile a target, a link to it, coloured by state, in groups of what they have of `by`; names are escaped.

    Plain boxes: as a chart a thousand of them take a browser ten seconds.
    """
    groups: dict[str, list[TargetSeen]] = {}
    for one in sorted(seen, key=lambda one: (list(State).index(one.state), one.view.name)):
        groups.setdefault(one.groups.get(by, "") or UNKNOWN, []).append(one)
    states = Counter(one.state for one in seen)
    told = () if by == BY_STATE else (state for state in State if states[state])
    legend = "".join(f"<li>{_tile(state)} {state} ({states[state]:,})</li>" for state in told)
    largest_first = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    parts = "".join(
        f"<section><b>{html.escape(isolated(name))} ({len(found):,})</b>"
        f"<div>{''.join(map(_link, found))}</div></section>"
        for name, found in largest_first
    )
    return f'<div class="eb-map"><ul>{legend}</ul>{parts}</div>'


def _link(one: TargetSeen) -> str:
    told = html.escape(f"{isolated(one.view.name)}: {one.state}, last seen {one.view.last_seen}")
    where = html.escape(f"?target={quote(one.view.name)}")
    return f'<a href="{where}" target="_self" title="{told}" aria-label="{told}">{_tile(one.state)}</a>'


def _tile(state: State) -> str:
    return f'<i style="background:{COLOURS[state]}"></i>'


HEIGHT_PX = 300
PRECISIONS = ("f32", "bf16", "f16", "int8")
"""From the widest to the narrowest; others come behind."""

_LAYOUT = {
    "height": HEIGHT_PX,
    "margin": margins(44),
    "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
}
_GIGA = 1e9


def core_counts(peaks: Iterable[Peak]) -> tuple[int, ...]:
    """Return the numbers of cores that a machine was calibrated on, the smallest first."""
    return tuple(sorted({peak.cores for peak in peaks}))


def peaks_on(peaks: Iterable[Peak], cores: int) -> tuple[Peak, ...]:
    """Return the best of a machine's peaks of each engine on so many cores."""
    by_series: dict[str, list[Peak]] = {}
    for peak in peaks:
        if peak.cores == cores:
            by_series.setdefault(series(peak), []).append(peak)
    return tuple(best for found in by_series.values() for best in best_peaks(found))


def series(peak: Peak) -> str:
    """Name whose peak it is: "openvino 2026.4.1", with the environment and the device where they are not the usual."""
    engine = peak.engine
    parts = [engine.name, engine.version or ""]
    parts += [f"({engine.environment})"] if engine.environment not in ("", DEFAULT_ENVIRONMENT) else []
    parts += [peak.device] if peak.device != DEFAULT_DEVICE else []
    return " ".join(filter(None, parts))


def operations_figure(peaks: Sequence[Peak], engines: EngineLooks) -> go.Figure | None:
    """Draw Gop/s as bars by precision, a colour an engine, with intervals; None where no rate is known.

    What an engine may compute by Winograd's trick is hatched, and left out where it is no faster than the rest.
    """
    shown = [peak for peak in peaks if peak.kind is PeakKind.FLOPS and peak.rate and _tells(peak, peaks)]
    if not shown:
        return None
    figure = go.Figure()
    for name, colour in _colours(peaks, engines).items():
        for is_winograd in (False, True):
            own = [peak for peak in shown if series(peak) == name and peak.may_be_winograd == is_winograd]
            if own:
                figure.add_trace(_bars(own, name, colour, is_winograd=is_winograd))
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=_precisions(shown))
    figure.update_yaxes(title="Gop/s", rangemode="tozero")
    return figure.update_layout(barmode="group", **_LAYOUT)


def bandwidth_figure(peaks: Sequence[Peak], engines: EngineLooks) -> go.Figure | None:
    """Draw GB/s over the size of the data, a line an engine, with intervals; None where no rate is known."""
    shown = [peak for peak in peaks if peak.kind is PeakKind.BANDWIDTH and peak.rate and peak.working_set_bytes]
    if not shown:
        return None
    figure = go.Figure()
    for name, colour in _colours(peaks, engines).items():
        own = sorted((peak for peak in shown if series(peak) == name), key=lambda peak: peak.working_set_bytes or 0)
        if own:
            figure.add_trace(_line(own, name, colour))
    sizes = sorted({peak.working_set_bytes for peak in shown if peak.working_set_bytes})
    figure.update_xaxes(
        type="log", title="size of the data", tickvals=sizes, ticktext=[data_words(size) for size in sizes]
    )
    figure.update_yaxes(title="GB/s", rangemode="tozero")
    return figure.update_layout(**_LAYOUT)


def operation_rows(peaks: Iterable[Peak]) -> tuple[Row, ...]:
    """Return a row a precision of each engine."""
    found = [peak for peak in peaks if peak.kind is PeakKind.FLOPS]
    return tuple(cells({"Precision": peak.precision, **_row(peak, "Gop/s")}) for peak in found)


def bandwidth_rows(peaks: Iterable[Peak]) -> tuple[Row, ...]:
    """Return a row a size of the data of each engine."""
    found = [peak for peak in peaks if peak.kind is PeakKind.BANDWIDTH]
    return tuple(cells({"Data": data_words(peak.working_set_bytes), **_row(peak, "GB/s")}) for peak in found)


def busy_sentence(peaks: Sequence[Peak]) -> str:
    """Say that the machine did something else while some of these were measured; empty where it did not."""
    busy = sum(bool(peak.rate and peak.rate.disturbed) for peak in peaks)
    if not busy:
        return ""
    measured = f"{busy} of these {len(peaks)}"
    return f"The machine was busy while {measured} were measured: the true peaks are higher. Calibrate again."


def _row(peak: Peak, unit: str) -> Row:
    rate = peak.rate
    return {
        "Engine": series(peak),
        unit: rate.median_per_s / _GIGA if rate else None,
        "Low": rate.low_per_s / _GIGA if rate else None,
        "High": rate.high_per_s / _GIGA if rate else None,
        "Best at": peak.what,
        "Remark": _remark(peak),
        "Measured": instant(peak.measured_at_unix_ns),
    }


def _remark(peak: Peak) -> str | None:
    if peak.rate is None:
        return f"not available: {peak.failure or 'no reason was given'}"
    said = ["may save operations (Winograd), no bound for other layers"] * peak.may_be_winograd
    said += ["the machine was busy: the true peak is higher"] * peak.rate.disturbed
    return "; ".join(said) or None


def _tells(peak: Peak, peaks: Iterable[Peak]) -> bool:
    """Whether a bar says something: of Winograd only where it is the faster one."""
    if not peak.may_be_winograd or peak.rate is None:
        return True
    plain = [
        one.rate.median_per_s
        for one in peaks
        if one.rate and not one.may_be_winograd and (series(one), one.precision) == (series(peak), peak.precision)
    ]
    return peak.rate.median_per_s > max(plain, default=0.0)


def _bars(own: Sequence[Peak], name: str, colour: str, *, is_winograd: bool) -> go.Bar:
    label = f"{name}, Winograd" if is_winograd else name
    return go.Bar(
        x=[_precision(peak) for peak in own],
        y=[peak.rate.median_per_s / _GIGA for peak in own if peak.rate],
        # In the bar's own colour the half of an interval that lies on the bar would not be seen.
        error_y={**_errors(own), "color": NOISE},
        # Plotly reads a few HTML tags in every text; names from elsewhere must not speak it.
        name=drawn_text(label),
        marker={
            "color": colour,
            "pattern": {"shape": "/" if is_winograd else ""},
            "line": {"color": colour, "width": 1},
        },
        customdata=[drawn_text(peak.what) for peak in own],
        hovertemplate="%{x}: %{y:.1f} Gop/s at %{customdata}<extra>%{fullData.name}</extra>",
    )


def _line(own: Sequence[Peak], name: str, colour: str) -> go.Scatter:
    return go.Scatter(
        x=[peak.working_set_bytes for peak in own],
        y=[peak.rate.median_per_s / _GIGA for peak in own if peak.rate],
        error_y=_errors(own),
        name=drawn_text(name),
        mode="lines+markers",
        line={"color": colour, "width": 2},
        customdata=[f"{data_words(peak.working_set_bytes)}, {drawn_text(peak.what)}" for peak in own],
        hovertemplate="%{customdata}: %{y:.1f} GB/s<extra>%{fullData.name}</extra>",
    )


def _errors(own: Sequence[Peak]) -> dict[str, object]:
    rates = [peak.rate for peak in own if peak.rate]
    return {
        "type": "data",
        "symmetric": False,
        "array": [(rate.high_per_s - rate.median_per_s) / _GIGA for rate in rates],
        "arrayminus": [(rate.median_per_s - rate.low_per_s) / _GIGA for rate in rates],
        "thickness": 1.2,
        "width": 3,
    }


def _colours(peaks: Iterable[Peak], engines: EngineLooks) -> dict[str, str]:
    """Give each series the colour of its engine, in both charts the same."""
    looks = engines.of_series((series(peak), peak.engine.name) for peak in peaks)
    return {name: look.colour for name, look in looks.items()}


def _precisions(peaks: Iterable[Peak]) -> list[str]:
    found = set(map(_precision, peaks))
    return [one for one in PRECISIONS if one in found] + sorted(found - set(PRECISIONS))


def _precision(peak: Peak) -> str:
    return drawn_text(peak.precision or "?")
