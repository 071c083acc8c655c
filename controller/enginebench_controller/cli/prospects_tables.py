"""Prospects and advice for the terminal. Times are shown in milliseconds; unknown is shown as –."""

from collections.abc import Sequence

from rich.text import Text

from enginebench_controller.cli.console import UNKNOWN, plain, print_table, remark, stdout, without_marks
from enginebench_controller.cli.flops_table import short
from enginebench_controller.cli.tables import failure_sentence
from enginebench_controller.documents.benchmarks import Document
from enginebench_controller.documents.prospects import part_document
from enginebench_controller.prospects import Advice, Outcome, PruningProspects, Severity
from enginebench_controller.stats.change import change_words
from enginebench_controller.trust.parity import engine_label

_STYLES = {Severity.WARNING: "yellow", Severity.GAIN: "green", Severity.NOTE: "cyan"}
_LAYERS_IN_A_LINE = 3


def print_prospects(found: PruningProspects, most: int) -> None:
    """A row a sparsity or pruned copy, then a row a part of the model, the slowest first."""
    dense = found.series.dense
    asked = dense.configuration
    where = f"{asked.device}, {asked.size}, optimization level {dense.optimization_level}"
    columns = [("what", False), ("zeros", True), ("estimated ms", True), ("×", True), ("imposed ms", True)]
    columns += [("×", True), ("measured ms", True), ("×", True), ("estimate's error", True)]
    columns += [("parameters", True), ("FLOPs (estimated)", True)]
    title = f"Pruning {dense.model_name} on {engine_label(dense)}, {where}"
    print_table(title, columns, [_row(one) for one in found.outcomes])
    _print_parts(found, most)
    _remarks(found)


def print_advice(advice: Sequence[Advice]) -> None:
    """A paragraph a piece of advice."""
    for one in advice:
        heading = Text(f"{one.severity.value}: ", style=f"bold {_STYLES[one.severity]}") + plain(one.sentence)
        stdout().print(heading, soft_wrap=True)
        stdout().print(plain(f"  {without_marks(one.remedy)} [{one.rule}]"), soft_wrap=True)
        if one.layers:
            stdout().print(plain(f"  layers: {_layers(one)}"), soft_wrap=True)
    if not advice:
        stdout().print("nothing to advise: no rule applies")


def _layers(advice: Advice) -> str:
    named = [f"#{one.position} {one.name} {_ms(one.time_ns)} ms" for one in advice.layers[:_LAYERS_IN_A_LINE]]
    more = len(advice.layers) - len(named)
    return "; ".join(named) + (f"; and {more} more (--json lists them)" if more else "")


def _row(one: Outcome) -> list[object]:
    estimate = one.estimate
    what = "dense" if not one.is_copy and not one.sparsity else one.profile.model_name if one.is_copy else "imposed"
    return [
        what,
        _percent(one.sparsity),
        _ms(estimate.time_ns if estimate else None),
        _times(estimate.speedup if estimate else None),
        _ms(one.imposed_ns),
        _times(one.imposed_speedup),
        _ms(one.measured_ns),
        _times(one.measured_speedup),
        UNKNOWN if one.error is None else change_words(1 + one.error),
        short(one.parameters),
        short(one.flops),
    ]


def _print_parts(found: PruningProspects, most: int) -> None:
    copies = [one for one in found.outcomes if one.is_copy]
    shown = _step_shown(found, copies)
    columns = [("source nodes", False), ("type", False), ("parameters", True), ("dense ms", True)]
    columns += [(f"imposed {found.series.sparsities[shown]:g} ms", True), ("×", True)]
    for copy in copies:
        columns += [(f"{copy.profile.model_name}: zeros", True), ("estimated ms", True), ("measured ms", True)]
    parts = [part_document(found, place) for place in range(len(found.series.parts))]
    slowest = sorted(parts, key=lambda part: -(part["imposed"][0]["time_ns"] or 0.0))
    if most:
        print_table("Parts of the model, slowest first", columns, [_part_row(part, shown) for part in slowest[:most]])
    if len(slowest) > most:
        remark(f"{len(slowest) - most} more parts: --most shows them")


def _step_shown(found: PruningProspects, copies: Sequence[Outcome]) -> int:
    """The step whose parts stand in the table: the one that a copy has, else the last below 0.95."""
    sparsities = found.series.sparsities
    for copy in copies:
        if copy.imposed_ns is not None and copy.sparsity is not None:
            return min(range(len(sparsities)), key=lambda place: abs(sparsities[place] - (copy.sparsity or 0.0)))
    return max((place for place, share in enumerate(sparsities) if share < 0.95), default=0)


def _part_row(part: Document, shown: int) -> list[object]:
    dense, imposed = part["imposed"][0]["time_ns"], part["imposed"][shown]["time_ns"]
    row: list[object] = [
        ", ".join(part["nodes"][:2]) + (" …" if len(part["nodes"]) > 2 else ""),
        ", ".join(part["types"]) or UNKNOWN,
        short(part["parameters"]),
        _ms(dense),
        _ms(imposed),
        _times(dense / imposed if dense is not None and imposed else None),
    ]
    for copy in part["copies"]:
        row += [_percent(copy["sparsity"]), _ms(copy["estimated_ns"]), _ms(copy["measured_ns"])]
    return row


def _remarks(found: PruningProspects) -> None:
    dense = found.series.dense
    remark("estimated: from layers timed with zeros imposed, interpolated; imposed: measured with the engine taking so")
    remark("many weights for zero; measured: a copy of the model that has them; error: estimated ÷ measured − 1")
    remark("all times here are of profiled inferences at one optimization level; × is dense ÷ pruned")
    if copies := " ".join(one.profile.model_name for one in found.outcomes if one.is_copy):
        versions = f"{dense.model_name} {copies} --engine {dense.engine.name}"
        remark(f"with all that the engine can do: `enginebench run {versions}`")
    for one in found.failed:
        why = failure_sentence(one.failure) if one.failure else "no layers"
        remark(f"  {one.model_name}, {_percent(one.imposed_sparsity)} zeros imposed: {why}")
    remark(f"look at it again with `enginebench prospects show {dense.id}`")


def _ms(value_ns: float | None) -> str:
    return UNKNOWN if value_ns is None else f"{value_ns / 1e6:.3f}"


def _times(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f} %"
