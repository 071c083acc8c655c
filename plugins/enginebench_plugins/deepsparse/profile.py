"""Layers from DeepSparse's debug analysis, which tells each layer's average over the iterations of one call.

A single time an inference therefore takes a call of one iteration, and each call takes an engine of its own: in 1.8 a
second call of one engine ends in "Out of memory", or takes the process with it. So a profile costs a compilation for
each iteration, and within it the same untimed inferences first. Every layer's times add up to the time the analysis
states for the iteration.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.deepsparse.network import Network

WARM_UP_ITERATIONS = 3
NS_PER_MS = 1_000_000
NO_ORIGIN = "<none>"
ONNX_RUNTIME = "Naive Subgraph"
"""What DeepSparse calls a part of the graph that it hands to the ONNX Runtime within it."""

Layer = dict[str, Any]


def profile_layers(
    deepsparse: Any, network: Network, inputs: Sequence[list[Any]], *, cores: int, scheduler: str
) -> spec.ModelProfile:
    """The layers of one analysed inference for each of the inputs, in DeepSparse's order.

    Raises `RuntimeError` when two compilations of the model gave different layers, and what DeepSparse raises.
    """
    analyses = [_analyse(deepsparse, network, each, cores, scheduler) for each in inputs]
    runs: list[list[Layer]] = [analysis["layer_info"] for analysis in analyses]
    if len({tuple(layer["name"] for layer in run) for run in runs}) > 1:
        raise RuntimeError("DeepSparse compiled the model to different layers in different iterations: profile again")
    latency_ns = tuple(round(analysis["iteration_times"][0] * NS_PER_MS) for analysis in analyses)
    return spec.ModelProfile(tuple(layers_of(runs)), latency_ns)


def layers_of(runs: Sequence[Sequence[Layer]]) -> list[spec.LayerProfile]:
    """The layers of analyses that list the same ones. A name that occurs again gets its place in the order added."""
    names = Counter(layer["name"] for layer in runs[0])
    return [
        spec.LayerProfile(
            name=calls[0]["name"] if names[calls[0]["name"]] == 1 else f"{calls[0]['name']}#{order}",
            type=_type(calls[0]["name"]),
            order=order,
            time_ns=tuple(round(call["average_run_time_in_ms"] * NS_PER_MS) for call in calls),
            output_shapes=_shapes(calls[0]["output_dims"]),
            source_nodes=_origins(calls[0]["canonical_name"]),
        )
        for order, calls in enumerate(zip(*runs, strict=True))
    ]


def _analyse(deepsparse: Any, network: Network, inputs: list[Any], cores: int, scheduler: str) -> dict[str, Any]:
    analysis: dict[str, Any] = deepsparse.engine.model_debug_analysis(
        str(network.path),
        inputs,
        batch_size=network.batch,
        num_cores=cores,
        num_iterations=1,
        num_warmup_iterations=WARM_UP_ITERATIONS,
        scheduler=scheduler,
    )
    return analysis


def _type(name: str) -> str:
    """The kind of layer within a name such as "elementwise_sub_2_11"."""
    return "ORT" if name.startswith(ONNX_RUNTIME) else name.rpartition("_")[0] or name


def _shapes(dims: dict[str, int]) -> tuple[tuple[int, ...], ...]:
    """The output in DeepSparse's own five dimensions; it does not tell those of what ONNX Runtime runs (-1)."""
    shape = tuple(dims[axis] for axis in ("batches", "channels", "z", "y", "x"))
    return () if min(shape) < 0 else (shape,)


def _origins(names: str) -> tuple[str, ...]:
    return () if names == NO_ORIGIN else tuple(names.split(","))
