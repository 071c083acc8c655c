"""`enginebench flops`: the work in a model, node by node."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from enginebench_controller.cli.console import print_json, print_table, remark
from enginebench_controller.cli.options import Json, Model, Trust
from enginebench_controller.cli.plan_options import given_shapes, plan_options
from enginebench_controller.errors import ModelError
from enginebench_controller.files.flops import (
    CONVENTION,
    LARGER_BRANCH,
    by_operator,
    cost_document,
    program_document,
)
from enginebench_controller.graph.flops.counting import model_cost, node_costs, operator
from enginebench_controller.graph.flops.saved_programs import ProgramCost, count_program
from enginebench_controller.graph.flops.work import ModelCost, NodeCost, sum_or_none
from enginebench_controller.graph.reading import read_source_graph
from enginebench_controller.graph.source_graph import SourceGraph
from enginebench_controller.home import default_home
from enginebench_controller.models.derive.convert import SAVED_PROGRAMS
from enginebench_controller.models.derive.rebatch import rebatch
from enginebench_controller.models.formats.description import describe
from enginebench_controller.models.inputs.binding import bind
from enginebench_controller.models.inputs.shapes import GivenShape
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.records import ModelVersion
from enginebench_controller.records.profile import CountMethod
from enginebench_controller.verdicts.words import UNKNOWN, short
from enginebench_proto.agreed.words import ModelFormat

_NUMBERS = [
    *[("MACs", True), ("FLOPs", True), ("parameters", True), ("non-zero", True)],
    *[("weight bytes", True), ("activation bytes", True), ("FLOP/byte", True)],
]


def print_cost(version: ModelVersion, graph: SourceGraph, top: int, *, by_type: bool, batch_said: bool) -> None:
    """A row for every node (or operator), the most work first, and the totals below.

    `batch_said`: somebody said how large the batch is, or where.
    """
    costs = node_costs(graph)
    total = model_cost(graph, costs)
    if by_type:
        columns = [("operator", False), ("nodes", True), *_NUMBERS]
        rows = [[name, len(some), *_sums(some)] for name, some in by_operator(graph, costs)]
    else:
        columns = [("#", True), ("node", False), ("operator", False), *_NUMBERS]
        rows = _node_rows(graph, costs)
    print_table(f"{version.name}{_sizes(graph, batch_said=batch_said)}, {total.nodes} nodes", columns, rows[:top])
    _remarks(graph, total, len(rows) - top)


def _sizes(graph: SourceGraph, *, batch_said: bool) -> str:
    """For what the work was counted: a fixed first axis may as well be the rows of a matrix, or time."""
    if batch_said or graph.batch == 1:
        return f", batch {graph.batch}"
    shapes = [f"{name} {'×'.join(map(str, graph.shape(name) or ()))}" for name in graph.inputs]
    return f" as given ({', '.join(shapes)})"


def print_program(version: ModelVersion, cost: ProgramCost) -> None:
    """A row for every operator of PyTorch that its counter counts."""
    ordered = sorted(cost.macs_by_operator.items(), key=lambda one: -one[1])
    print_table(
        f"{version.name}, counted by PyTorch",
        [("operator", False), ("MACs", True), ("FLOPs", True)],
        [[name, short(macs), short(2 * macs)] for name, macs in ordered],
    )
    remark(
        f"total: {short(cost.macs)} MACs in products; {short(cost.parameters)} parameters, "
        f"{short(cost.nonzero_parameters)} of them not zero; {CONVENTION}"
    )
    if cost.uncounted_operators:
        remark("not counted by PyTorch: " + _listed(cost.uncounted_operators))


def _node_rows(graph: SourceGraph, costs: Sequence[NodeCost]) -> list[list[object]]:
    """Nodes of unknown work come first: they are what a reader must know of. Folded ones are left out."""
    pairs = [(node, cost) for node, cost in zip(graph.nodes, costs, strict=True) if not node.folded]
    pairs.sort(key=lambda pair: (pair[1].method is not CountMethod.UNKNOWN, -(pair[1].flops or 0)))
    return [[node.index, node.name, operator(node), *_numbers(cost)] for node, cost in pairs]


def _numbers(cost: NodeCost) -> list[str]:
    at_most = cost.method is CountMethod.AT_MOST
    work = [_bounded(one, at_most=at_most) for one in (cost.macs, cost.flops)]
    counts = (cost.parameters, cost.nonzero_parameters, cost.weight_bytes, cost.activation_bytes)
    return [*work, *map(short, counts), _ratio(cost.intensity)]


def _bounded(value: int | None, *, at_most: bool) -> str:
    """The number, marked where the larger of two branches was counted."""
    return f"≤ {short(value)}" if at_most and value else short(value)


def _sums(costs: Sequence[NodeCost]) -> list[str]:
    names = ("macs", "flops", "parameters", "nonzero_parameters", "weight_bytes", "activation_bytes")
    sums = {name: sum_or_none(getattr(cost, name) for cost in costs) for name in names}
    flops, weights, activations = sums["flops"], sums["weight_bytes"], sums["activation_bytes"]
    moved = None if weights is None or activations is None else weights + activations
    at_most = any(cost.method is CountMethod.AT_MOST for cost in costs)
    macs, *others = sums.values()
    work = [_bounded(one, at_most=at_most) for one in (macs, others[0])]
    return [*work, *map(short, others[1:]), _ratio(flops / moved if flops is not None and moved else None)]


def _ratio(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3g}"


def _remarks(graph: SourceGraph, total: ModelCost, left_out: int) -> None:
    if left_out > 0:
        remark(f"{left_out} more rows: --top shows them")
    work = [_bounded(one, at_most=total.at_most) for one in (total.macs, total.flops)]
    remark(
        f"total: {work[0]} MACs, {work[1]} FLOPs ({CONVENTION}); "
        f"{short(total.parameters)} parameters, {short(total.nonzero_parameters)} of them not zero; "
        f"{short(total.weight_bytes)} bytes of weights, {short(total.activation_bytes)} of activations"
    )
    if total.coverage_percent is not None:
        unknown = f"; unknown: {_listed(total.unknown_operators)}" if total.unknown_operators else ""
        remark(f"coverage: {total.coverage_percent:.1f} % of the nodes{unknown}")
    if total.macs is None:
        remark(f"the total is unknown: what is known has {short(total.known_macs)} MACs, and the rest may have more")
    for name, reason in total.unknown_reasons.items():
        remark(f"unknown work of {name}: {reason}")
    if total.at_most:
        remark(LARGER_BRANCH)
    for assumption in graph.assumptions:
        remark(assumption)


def _listed(operators: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ×{count}" for name, count in operators.items())


class Grouping(StrEnum):
    """What a row of the table stands for."""

    LAYER = "layer"
    TYPE = "type"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("flops")(flops)


@plan_options("shape", "batch-axis")
def flops(
    model: Model,
    batch: Annotated[int | None, typer.Option(min=1, help="Items in one inference; the model's own, or 1.")] = None,
    *,
    fields: dict[str, Any],
    by: Annotated[Grouping, typer.Option(help="A row for every node, or for every operator.")] = Grouping.LAYER,
    top: Annotated[int, typer.Option(min=1, help="How many rows to print, the most work first.")] = 20,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Count multiply-adds, operations, parameters and bytes of a model, without running it. 1 MAC = 2 FLOPs."""
    library = default_home().library
    version = library.resolve(model)
    given = given_shapes(fields)
    if version.format in SAVED_PROGRAMS:
        _saved_program(library, version, (batch or 1, given), trusted=trust, as_json=json)
        return
    version, graph = _graph(library, version, batch, given)
    if json:
        print_json(cost_document(version, graph))
    else:
        batch_said = batch is not None or any(one.batch_axis is not None for one in given.values())
        print_cost(version, graph, top, by_type=by is Grouping.TYPE, batch_said=batch_said)


def _saved_program(
    library: ModelLibrary,
    version: ModelVersion,
    wish: tuple[int, dict[str, GivenShape]],
    *,
    trusted: bool,
    as_json: bool,
) -> None:
    path = library.main_path(version)
    inputs = bind(describe(path), *wish).inputs
    cost = count_program(path, version.format, inputs, trusted=trusted)
    if as_json:
        print_json(program_document(version, inputs, cost))
    else:
        print_program(version, cost)


def _graph(
    library: ModelLibrary, version: ModelVersion, batch: int | None, given: dict[str, GivenShape]
) -> tuple[ModelVersion, SourceGraph]:
    """The graph at this batch; of a copy rewritten for it where the model's own batch is fixed, as `run` would do."""
    _refuse_unread(version)
    path = library.main_path(version)
    if batch is not None and bind(describe(path), batch, given).fixed_batch is not None:
        version = rebatch(library, version, batch, given)
        path = library.main_path(version)
    return version, read_source_graph(path, given, batch)


def _refuse_unread(version: ModelVersion) -> None:
    if version.format == ModelFormat.ONNX:
        return
    if version.format != ModelFormat.OPENVINO_IR:
        raise ModelError(f"{version.name} is {version.format}, which only its engine reads: its work is unknown")
    source: Any = version.parent_digest[:12] if version.parent_digest else "FILE.onnx"
    raise ModelError(
        f"{version.name} is an OpenVINO IR, whose operators are not counted; count the model that it was made from, "
        f"which has the same work: enginebench flops {source}"
    )
