"""(f) What the controller adds to a profile of 3,000 nodes: from the target's answer to the stored, matched profile.

The model and the layers are generated, so that nothing but the controller's own work is timed.
"""

import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.markdown import markdown_table
from benchmarks.setting import RESULTS, Setting
from enginebench_controller.graph.analysis import SourceAnalysis
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.plan.expand import Case
from enginebench_controller.records import (
    Configuration,
    EngineRef,
    HostFacts,
    InputTensor,
    ModelVersion,
    PassOrder,
    Profile,
)
from enginebench_controller.runs.outcome import profiled
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.layers.profiles import compare_profiles
from enginebench_proto.v1 import profile_pb2, run_pb2

NODES = 3000
ITERATIONS = 20
NODES_A_BLOCK = 4
LIMIT_S = 2.0
SHAPE = (1, 8, 14, 14)
STEPS = ("converting", "graph, work, matching", "storing", "all")
COMPARING = "comparing two"
"""Not part of a profile, and so not of what is limited."""

Row = Mapping[str, Any]
T = TypeVar("T")


def measure(setting: Setting) -> list[Row]:
    """A row for layers that are nodes, and one for layers that are fused from several."""
    RESULTS.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=RESULTS) as name:
        folder = Path(name)
        library = ModelLibrary(folder / "library")
        bench = _Bench(library, library.add(long_model(folder / "long.onnx")), folder / "store", setting.rounds)
        return [
            _row(bench, "a layer a node", list(layers_of_nodes())),
            _row(bench, "fused layers and reorders", list(fused_layers())),
        ]


@dataclass(frozen=True)
class _Bench:
    library: ModelLibrary
    model: ModelVersion
    store: Path
    rounds: int


def _row(bench: _Bench, kind: str, layers: Sequence[profile_pb2.Layer]) -> Row:
    result = recorded(layers)
    rounds = [_round(bench, result) for _ in range(bench.rounds)]
    matched = rounds[0]["matched"]
    seconds = {step: [each[step] for each in rounds] for step in (*STEPS, COMPARING)}
    print(f"  {kind}: {statistics.median(seconds['all']):.2f} s", flush=True)
    return {"layers": kind, "count": len(layers), "matched": matched, "seconds": seconds}


def recorded(layers: Sequence[profile_pb2.Layer]) -> run_pb2.RunResult:
    """What a target answers that ran these layers."""
    result = run_pb2.RunResult(outcome=run_pb2.OUTCOME_OK, started_at_unix_ns=1)
    result.profile.MergeFrom(profile_pb2.Profile(iterations=ITERATIONS, unprofiled_latency_ns=10**9, layers=layers))
    return result


def analysed(library: ModelLibrary, model: ModelVersion, result: run_pb2.RunResult, run_id: str) -> Profile:
    """The profile that the controller makes of a target's answer, matched to the model's nodes."""
    result.run_id = run_id
    profile = profiled(_job(model), _ORDER, run_id, result)
    return SourceAnalysis(library.file_paths).analysed(profile, model)


def _round(bench: _Bench, result: run_pb2.RunResult) -> dict[str, float]:
    """One profile, into a store that is made anew."""
    store = Store(bench.store / "results.duckdb")
    result.run_id = "recorded"
    converting, profile = _timed(lambda: profiled(_job(bench.model), _ORDER, "recorded", result))
    analysing, analysed = _timed(lambda: SourceAnalysis(bench.library.file_paths).analysed(profile, bench.model))
    storing, _ = _timed(lambda: store.add_profile(analysed, bench.model))
    comparing, _ = _timed(lambda: compare_profiles((analysed, replace(analysed, id="another"))))
    shutil.rmtree(bench.store)
    share = analysed.coverage.share if analysed.coverage else None
    seconds = dict(zip(STEPS, (converting, analysing, storing, converting + analysing + storing), strict=True))
    return {**seconds, COMPARING: comparing, "matched": share or 0.0}


_ORDER = PassOrder("order", "long", 1, {}, {"local": HostFacts()})


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    begin = time.perf_counter()
    found = work()
    return time.perf_counter() - begin, found


def _job(model: ModelVersion) -> Case:
    configuration = Configuration("CPU", batch=1, cores=1, inputs=(InputTensor("x", "float32", SHAPE),))
    return Case("local", EngineRef("recorded", "default", "1"), model, configuration, ())


def long_model(path: Path) -> Path:
    """Blocks of convolution, normalization, addition and activation, each with weights of its own."""
    random = np.random.default_rng(0)
    nodes, weights, before = [], [], "x"
    for block in range(NODES // NODES_A_BLOCK):
        arrays = {f"w{block}": random.standard_normal((8, 8, 3, 3), dtype=np.float32)}
        arrays |= {f"{name}{block}": np.ones(8, np.float32) for name in ("scale", "bias", "mean", "var")}
        weights += [numpy_helper.from_array(array, name) for name, array in arrays.items()]
        statistics_of_it = [f"{name}{block}" for name in ("scale", "bias", "mean", "var")]
        nodes += [
            helper.make_node("Conv", [before, f"w{block}"], [f"c{block}"], f"conv_{block}", pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", [f"c{block}", *statistics_of_it], [f"n{block}"], f"bn_{block}"),
            helper.make_node("Add", [f"n{block}", before], [f"a{block}"], f"add_{block}"),
            helper.make_node("Relu", [f"a{block}"], [f"r{block}"], f"relu_{block}"),
        ]
        before = f"r{block}"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    y = helper.make_tensor_value_info(before, TensorProto.FLOAT, SHAPE)
    graph = helper.make_graph(nodes, "long", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def layers_of_nodes() -> Iterator[profile_pb2.Layer]:
    """As an engine without fusion tells it: every node by its name, with its tensors."""
    before = "x"
    for block in range(NODES // NODES_A_BLOCK):
        for place, (kind, letter) in enumerate((("conv", "c"), ("bn", "n"), ("add", "a"), ("relu", "r"))):
            order = NODES_A_BLOCK * block + place
            name, output = f"{kind}_{block}", f"{letter}{block}"
            yield _layer(order, name, kind.title(), inputs=[before], outputs=[output], source_nodes=[name])
            before = output


def fused_layers() -> Iterator[profile_pb2.Layer]:
    """As an engine tells it that runs a block as one kernel and names its output, with a reorder before it."""
    for block in range(NODES // NODES_A_BLOCK):
        before = f"r{block - 1}" if block else "x"
        token, output = f"reorder_{block}", f"r{block}"
        yield _layer(2 * block, f"{token}_kernel", "Reorder", inputs=[before], outputs=[token])
        yield _layer(2 * block + 1, f"conv_{block}", "Conv", inputs=[token], outputs=[output])


def _layer(order: int, name: str, kind: str, **names: Sequence[str]) -> profile_pb2.Layer:
    return profile_pb2.Layer(
        name=name,
        type=kind,
        order=order,
        state=profile_pb2.LAYER_STATE_EXECUTED,
        time_ns=[1000 + order % 97 + 7 * iteration for iteration in range(ITERATIONS)],
        calls=1,
        kernel="jit",
        precision="f32",
        output_shapes=[profile_pb2.Shape(sizes=SHAPE)],
        parameters={"strides": "1,1", "group": "1"},
        **names,
    )


def table(rows: Sequence[Row]) -> str:
    """Seconds of each step, medians of the rounds, and whether all of them together keep within the limit."""
    return markdown_table(
        ("layers", "number", "time matched", *STEPS, f"≤ {LIMIT_S:g} s", COMPARING), map(_cells, rows)
    )


def _cells(row: Row) -> Sequence[str]:
    *seconds, comparing = [f"{statistics.median(row['seconds'][step]):.2f} s" for step in (*STEPS, COMPARING)]
    verdict = "yes" if statistics.median(row["seconds"]["all"]) <= LIMIT_S else "no"
    return row["layers"], str(row["count"]), f"{100 * row['matched']:.0f}%", *seconds, verdict, comparing
