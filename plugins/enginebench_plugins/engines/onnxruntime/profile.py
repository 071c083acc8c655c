"""Layers from the trace that ONNX Runtime writes: a JSON list of events, times in microseconds since its start.

A run is a `model_run` event of category Session; a layer's call within it is a `<node>_kernel_time` event of category
Node. Warm-up runs are in the trace, too, and the nodes of a loop's or a branch's body lie within the node that runs it.
"""

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.engines.onnxruntime.optimized_graph import (
    PRODUCTS,
    OptimizedGraph,
    OptimizedNode,
    read_optimized_graph,
)
from enginebench_proto.agreed.words import INTEGER_PRODUCTS

GRAPH = "optimized.onnx"
WEIGHTS = "weights.bin"


class Recording:
    """The private folder of one session. `remove` ends it."""

    def __init__(self, model: Path) -> None:
        """Give every node of the model a name, for without one nothing would tell what became of it.

        A model whose nodes all have one is taken from its file; else its copy in memory refers to the weights beside
        that file. Without the package onnx layers have the names they have, and no tensors.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="enginebench-trace-"))
        self.model: str | bytes = str(model)
        self._weights = model.parent
        self._names = None
        if find_spec("onnx") is not None:
            from enginebench_plugins.toolkit.onnx_model import name_nodes, read_onnx, source_names

            proto = read_onnx(model, weights=False)
            self._names = source_names(proto)
            if name_nodes(proto):
                self.model = proto.SerializeToString()
        self._graph = OptimizedGraph(names=self._names)
        self.runs = 0
        """How often the session was run, to warm it up or to be profiled."""

    def switch_on(self, options: Any, *, graph: bool) -> None:
        """Let a session with these options write its trace and, with `graph`, its graph into the folder."""
        options.enable_profiling = True
        options.profile_file_prefix = str(self.folder / "trace")
        if isinstance(self.model, bytes):
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(self._weights))
        if graph and self._names is not None:
            options.optimized_model_filepath = str(self.folder / GRAPH)
            # A file of its own for the weights: protobuf refuses files of 2 GiB, and nobody reads them.
            options.add_session_config_entry("session.optimized_model_external_initializers_file_name", WEIGHTS)

    def read_graph(self) -> None:
        """Read the graph that a session wrote, and delete it with its weights."""
        if self._names is not None:
            self._graph = read_optimized_graph(self.folder / GRAPH, self._names)
        for name in (GRAPH, WEIGHTS):
            (self.folder / name).unlink(missing_ok=True)

    def layers(self, trace: Path, iterations: int) -> list[spec.LayerProfile]:
        """The layers of the last inferences of a trace. Raises `RuntimeError` when it does not hold all there were."""
        return layers_of(trace, iterations, self._graph, self.runs)

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


UNKNOWN_GRAPH = OptimizedGraph()

RUN = '"model_run"'
KERNEL_TIME = "_kernel_time"
NS_PER_US = 1000
EIGHT_BITS = ("int8", "uint8")

Event = dict[str, Any]


def layers_of(
    trace: Path, iterations: int, graph: OptimizedGraph = UNKNOWN_GRAPH, runs: int = 0
) -> list[spec.LayerProfile]:
    """The layers of the last `iterations` runs, in the order of their first call; the trace is removed.

    `graph` has the nodes that the session ran, `runs` is how often, unless that is unknown. Raises `RuntimeError` when
    the trace does not hold all these runs: it stops after a million events, and the last it holds are then others.
    """
    events, held = _last_events(trace, iterations)
    trace.unlink()
    if held < (wanted := max(runs, iterations)):
        raise RuntimeError(
            f"the trace holds {held} of {wanted} inferences: profile fewer, warm up for less, or raise the "
            "optimization level"
        )
    last = [event for event in events if event["name"] == "model_run"][-iterations:]
    calls = list(_outermost(event for event in events if event["name"].endswith(KERNEL_TIME)))
    return _layers(last, calls, graph)


def _last_events(trace: Path, iterations: int) -> tuple[list[Event], int]:
    """The events of the last runs by time, a caller before what it calls, at least those; and how many runs there are.

    The runtime writes an event a line, that of a run after those within it. Lines of warm-up runs are passed over: of a
    graph with 10,000 nodes they are the most of several hundred megabytes.
    """
    with trace.open(encoding="utf-8") as file:
        lines = [line.strip().rstrip(",") for line in file if RUN in line or KERNEL_TIME in line]
    ends = [place for place, line in enumerate(lines) if RUN in line]
    begin = ends[-iterations - 1] + 1 if len(ends) > iterations else 0
    is_a_line_an_event = all(line.startswith("{") for line in lines)
    text = f"[{','.join(lines[begin:])}]" if is_a_line_an_event else trace.read_text(encoding="utf-8")
    return _in_order(json.loads(text)), sum(line.count(RUN) for line in lines)


def _in_order(events: Iterable[Event]) -> list[Event]:
    """By time, and a caller before what it calls."""
    timed = (event for event in events if event.get("ph") == "X")
    return sorted(timed, key=lambda event: (event["ts"], -event["dur"]))


def _outermost(calls: Iterable[Event]) -> Iterator[Event]:
    """Leaves out calls within a call, whose time the outer one holds already."""
    end_us = 0
    for call in calls:
        # Both times are cut to whole microseconds, so a call that follows never seems to begin before the end.
        if call["ts"] >= end_us:
            end_us = call["ts"] + call["dur"]
            yield call


@dataclass
class _Node:
    """What the trace tells about one node of the optimized graph."""

    first: Event
    time_ns: list[int]
    calls: Counter[int]


def _layers(runs: Sequence[Event], calls: Iterable[Event], graph: OptimizedGraph) -> list[spec.LayerProfile]:
    nodes: dict[tuple[str, str], _Node] = {}
    for index, call in _by_run(runs, calls):
        key = (call["name"].removesuffix(KERNEL_TIME), call["args"]["node_index"])
        node = nodes.setdefault(key, _Node(call, [0] * len(runs), Counter()))
        node.time_ns[index] += call["dur"] * NS_PER_US
        node.calls[index] += 1
    names = Counter(name for name, _ in nodes)
    places = graph.find([(name, node.first["args"]["op_name"]) for (name, _), node in nodes.items()])
    return [
        _layer(name if name and names[name] == 1 else _numbered(name, node), order, node, places[order])
        for order, ((name, _), node) in enumerate(nodes.items())
    ]


def _by_run(runs: Sequence[Event], calls: Iterable[Event]) -> Iterator[tuple[int, Event]]:
    """Each call with the index of the run it lies in; calls of earlier runs are left out."""
    index = 0
    for call in calls:
        while index < len(runs) and call["ts"] > runs[index]["ts"] + runs[index]["dur"]:
            index += 1
        if index < len(runs) and call["ts"] >= runs[index]["ts"]:
            yield index, call


def _numbered(name: str, node: _Node) -> str:
    """A name of its own for a node that has none, or one it shares: both happen in real models."""
    return f"{name or node.first['args']['op_name']}#{node.first['args']['node_index']}"


def _layer(name: str, order: int, node: _Node, place: OptimizedNode) -> spec.LayerProfile:
    arguments = node.first["args"]
    # One entry an output, such as {"float": [1, 64, 56, 56]}.
    outputs = [next(iter(output.items())) for output in arguments["output_type_shape"] if output]
    return spec.LayerProfile(
        name=name,
        type=arguments["op_name"],
        order=order,
        time_ns=tuple(node.time_ns),
        calls=max(node.calls.values()),
        kernel=arguments["provider"],
        precision=_precision(arguments),
        output_shapes=tuple(tuple(shape) for _, shape in outputs),
        source_nodes=place.source_nodes,
        inputs=place.inputs,
        outputs=place.outputs,
        parameters=place.parameters,
    )


def _precision(arguments: Event) -> str:
    """The type that a node works in: of a product of integers that of its operands, of all others that of its output.

    Such a product often puts out floats, or sums of 32 bits. The trace leaves out weights that were packed.
    """
    operator, read = arguments["op_name"], _types(arguments.get("input_type_shape", ()))
    if operator in INTEGER_PRODUCTS:
        return next((name for name in read if name in EIGHT_BITS), EIGHT_BITS[0])
    if operator in PRODUCTS and read and read[0] in EIGHT_BITS:
        return read[0]
    return next(iter(_types(arguments["output_type_shape"])), "")


def _types(tensors: Iterable[Mapping[str, Any]]) -> list[str]:
    """One entry a tensor, such as {"float": [1, 64, 56, 56]}."""
    return [name for tensor in tensors for name in tensor]
