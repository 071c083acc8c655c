"""`enginebench flops`: the work in a model, node by node."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from enginebench_controller.cli.arguments import given_shapes
from enginebench_controller.cli.console import print_json
from enginebench_controller.cli.flops_table import print_cost, print_program
from enginebench_controller.cli.options import BatchAxis, Json, Model, ShapeAsForRun, Trust
from enginebench_controller.documents.flops import cost_document, program_document
from enginebench_controller.errors import ModelError
from enginebench_controller.home import default_home
from enginebench_controller.model.binding import bind
from enginebench_controller.model.description import describe
from enginebench_controller.model.flops.program import count_program
from enginebench_controller.model.ir_conversion import SAVED_PROGRAMS
from enginebench_controller.model.library import ModelLibrary
from enginebench_controller.model.rebatch import rebatch
from enginebench_controller.model.shapes import GivenShape
from enginebench_controller.model.source_graph import SourceGraph, read_source_graph
from enginebench_controller.records import ModelVersion
from enginebench_proto.agreed.words import ModelFormat


class Grouping(StrEnum):
    """What a row of the table stands for."""

    LAYER = "layer"
    TYPE = "type"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("flops")(flops)


def flops(
    model: Model,
    batch: Annotated[int | None, typer.Option(min=1, help="Items in one inference; the model's own, or 1.")] = None,
    shape: ShapeAsForRun = None,
    batch_axis: BatchAxis = None,
    by: Annotated[Grouping, typer.Option(help="A row for every node, or for every operator.")] = Grouping.LAYER,
    top: Annotated[int, typer.Option(min=1, help="How many rows to print, the most work first.")] = 20,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Count multiply-adds, operations, parameters and bytes of a model, without running it. 1 MAC = 2 FLOPs."""
    library = default_home().library
    version = library.resolve(model)
    given = given_shapes(shape, batch_axis)
    if version.format in SAVED_PROGRAMS:
        _saved_program(library, version, (batch or 1, given), trusted=trust, as_json=json)
        return
    version, graph = _graph(library, version, batch, given)
    if json:
        print_json(cost_document(version, graph))
    else:
        print_cost(version, graph, top, by_type=by is Grouping.TYPE)


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
    _refuse_ir(version)
    path = library.main_path(version)
    if batch is not None and bind(describe(path), batch, given).fixed_batch is not None:
        version = rebatch(library, version, batch, given)
        path = library.main_path(version)
    return version, read_source_graph(path, given, batch)


def _refuse_ir(version: ModelVersion) -> None:
    if version.format != ModelFormat.OPENVINO_IR:
        return
    source: Any = version.parent_digest[:12] if version.parent_digest else "FILE.onnx"
    raise ModelError(
        f"{version.name} is an OpenVINO IR, whose operators are not counted; count the model that it was made from, "
        f"which has the same work: enginebench flops {source}"
    )
