"""A compiled DeepSparse engine: its requests, what it tells about itself, and its layers.

Layers come from DeepSparse's debug analysis, which tells each layer's average over the iterations of one call. A single
time an inference therefore takes a call of one iteration, and each call takes an engine of its own: in 1.8 a second
call of one engine ends in "Out of memory", or takes the process with it. So a profile costs a compilation for each
iteration, and within it the same untimed inferences first. Every layer's times add up to the time the analysis states
for the iteration.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.engines.deepsparse.devices import instruction_set
from enginebench_plugins.engines.deepsparse.network import DeepSparseNetwork
from enginebench_proto.agreed.words import IMPOSED_SPARSITY, OPTIMIZATION_LEVEL

WARM_UP_ITERATIONS = 3
NS_PER_MS = 1_000_000
NO_ORIGIN = "<none>"
INTERNAL = "_internal_"
NUMBER = re.compile(r"[_ ]\d+$")
SPARSITY = re.compile(r"-[\d.]+%$")
ONNX_RUNTIME = "Naive Subgraph"
"""What DeepSparse calls a part of the graph that it hands to the ONNX Runtime within it."""

CONSTANTS = (
    "input_dims",
    "kernel_dims",
    "strides",
    "required_flops",
    "kernel_sparsity",
    "kernel_bits_per_ele",
    "num_tasks",
)
MEASURED = ("activation_sparsity", "average_utilization", "average_teraflops_per_second", "throughput_mb_per_second")

NOBODY: Mapping[str, str] = MappingProxyType({})

Layer = dict[str, Any]


@dataclass(frozen=True)
class Analysis:
    """How to analyse: as the engine is compiled otherwise, or with other optimizations or pruned weights.

    `imposed_sparsity` is the share of zeros, 0 to 1, that the weights of every layer that can be pruned get; DeepSparse
    names the layer after what it came to: "ks_convolution-89.9%_41".
    """

    cores: int
    scheduler: str
    optimization_level: int = 1
    imposed_sparsity: float | None = None


def compile_network(deepsparse: Any, network: DeepSparseNetwork, settings: spec.Settings) -> "CompiledDeepSparse":
    """Compile for one configuration.

    Raises `UnsupportedSettingsError` when the streams asked for do not fit, and for a sparsity beyond 0 to 1.
    """
    _analysis(settings)
    engine = deepsparse.Engine(
        str(network.path),
        batch_size=network.batch,
        num_cores=settings.cores,
        num_streams=settings.streams,
        scheduler=scheduler(settings),
    )
    if engine.num_streams < settings.streams:  # it lowers them with a warning only
        raise spec.UnsupportedSettingsError(
            f"deepsparse runs {engine.num_streams} and not {settings.streams} streams with the scheduler "
            f"{scheduler(settings)} on {settings.cores} cores: it needs a core for each, and not single_stream"
        )
    return CompiledDeepSparse(deepsparse, engine, network, settings)


def scheduler(settings: spec.Settings) -> str:
    """The scheduler asked for, else the one that runs as many requests at once as there are streams."""
    return str(settings.options.get("scheduler", "multi_stream" if settings.streams > 1 else "single_stream"))


def _analysis(settings: spec.Settings) -> Analysis:
    sparsity = settings.options.get(IMPOSED_SPARSITY)
    if sparsity is not None and not 0 <= float(sparsity) <= 1:
        raise spec.UnsupportedSettingsError(f"{IMPOSED_SPARSITY} is a share of zeros from 0.0 to 1.0, not {sparsity}")
    return Analysis(
        cores=settings.cores,
        scheduler=scheduler(settings),
        optimization_level=int(settings.options.get(OPTIMIZATION_LEVEL, 1)),
        imposed_sparsity=None if sparsity is None else float(sparsity),
    )


class CompiledDeepSparse(spec.CompiledModel):
    """An engine and the private file it was compiled from, which a profile compiles again."""

    usual_profile_iterations = 7
    compiles_for_each_profiled_inference = True

    def __init__(self, deepsparse: Any, engine: Any, network: DeepSparseNetwork, settings: spec.Settings) -> None:
        self._deepsparse = deepsparse
        self._engine = engine
        self._network = network
        self._settings = settings

    @property
    def inputs(self) -> Sequence[spec.TensorSpec]:
        """The inputs with the shapes of this run."""
        return self._network.inputs

    def effective(self) -> spec.Effective:
        """Streams, provider and instructions as DeepSparse states them. Its number of cores is an echo, so left out."""
        precision = self._network.precision
        return spec.Effective(
            streams=spec.Readback(int(self._engine.num_streams), spec.Source.ENGINE_API),
            precision=None if precision is None else spec.Readback(precision, spec.Source.ASSUMED),
            provider=spec.Readback(_provider(self._engine.fraction_of_supported_ops), spec.Source.ENGINE_API),
            isa=spec.Readback(instruction_set(self._deepsparse), spec.Source.ENGINE_API),
            prepared=self._network.prepared,
        )

    def create_request(self) -> spec.InferRequest:
        """A request; an engine may be run from several threads at once, and its scheduler decides what overlaps."""
        return DeepSparseRequest(self._engine, self._network)

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        """Layers from DeepSparse's debug analysis, with the same scheduler. It compiles anew for each iteration."""
        if not self._settings.profiling:
            raise spec.UnsupportedSettingsError("deepsparse profiles only what was compiled for profiling")
        lists = [_in_order(inputs[index % len(inputs)], self._network) for index in range(iterations)]
        return profile_layers(self._deepsparse, self._network, lists, _analysis(self._settings), between)

    def close(self) -> None:
        """Drop the engine, its threads and its private file."""
        del self._engine
        self._network.folder.cleanup()


def _provider(fraction: float) -> str:
    """DeepSparse, and how many of the operators are its own where the ONNX Runtime within it runs the others."""
    return "deepsparse" if fraction >= 1 else f"deepsparse ({fraction:.2%} of operators; the rest onnxruntime)"


def _in_order(inputs: spec.Tensors, network: DeepSparseNetwork) -> list[Any]:
    return [inputs[tensor.name] for tensor in network.inputs]


class DeepSparseRequest(spec.InferRequest):
    """A request that runs in the caller's thread, or started on a thread of its own."""

    def __init__(self, engine: Any, network: DeepSparseNetwork) -> None:
        self._engine = engine
        self._network = network

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        """Run the engine; it hands out new arrays each time, and checks shapes and types itself."""
        outputs = self._engine.run(_in_order(inputs, self._network), val_inp=False)
        return dict(zip(self._network.output_names, outputs, strict=True))

    def close(self) -> None:
        """End the request's thread and let go of the engine."""
        super().close()
        del self._engine


def profile_layers(
    deepsparse: Any, network: DeepSparseNetwork, inputs: Sequence[list[Any]], analysis: Analysis, between: spec.Between
) -> spec.ModelProfile:
    """The layers of one analysed inference for each of the inputs, in DeepSparse's order.

    Raises `RuntimeError` when two compilations of the model gave different layers, and what DeepSparse raises.
    """
    analyses = []
    for each in inputs:
        analyses.append(_analyse(deepsparse, network, each, analysis))
        between()
    runs: list[list[Layer]] = [each["layer_info"] for each in analyses]
    if len({tuple(layer["name"] for layer in run) for run in runs}) > 1:
        raise RuntimeError("DeepSparse compiled the model to different layers in different iterations: profile again")
    latency_ns = tuple(round(each["iteration_times"][0] * NS_PER_MS) for each in analyses)
    return spec.ModelProfile(tuple(layers_of(runs, network.readers)), latency_ns)


def _analyse(deepsparse: Any, network: DeepSparseNetwork, inputs: list[Any], analysis: Analysis) -> dict[str, Any]:
    report: dict[str, Any] = deepsparse.engine.model_debug_analysis(
        str(network.path),
        inputs,
        batch_size=network.batch,
        num_cores=analysis.cores,
        num_iterations=1,
        num_warmup_iterations=WARM_UP_ITERATIONS,
        optimization_level=analysis.optimization_level,
        imposed_ks=analysis.imposed_sparsity,
        scheduler=analysis.scheduler,
    )
    return report


def layers_of(runs: Sequence[Sequence[Layer]], readers: Mapping[str, str] = NOBODY) -> list[spec.LayerProfile]:
    """The layers of analyses that list the same ones. A name that occurs again gets its place in the order added.

    `readers` has the label of the only node that reads a tensor.
    """
    names = Counter(layer["name"] for layer in runs[0])
    return [
        spec.LayerProfile(
            name=calls[0]["name"] if names[calls[0]["name"]] == 1 else f"{calls[0]['name']}#{order}",
            type=_type(calls[0]["name"]),
            order=order,
            time_ns=tuple(round(call["average_run_time_in_ms"] * NS_PER_MS) for call in calls),
            kernel=_kernel(calls[0]["name"]),
            output_shapes=_shapes(calls[0]["output_dims"]),
            source_nodes=tuple(_origins(calls[0]["canonical_name"], readers)),
            parameters=dict(_parameters(calls)),
        )
        for order, calls in enumerate(zip(*runs, strict=True))
    ]


def _kernel(name: str) -> str:
    """What a layer is called without its number: "ks_convolution-89.9%", "elementwise_sub_2", "Naive Subgraph"."""
    return NUMBER.sub("", name)


def _type(name: str) -> str:
    """The kind of layer within a name such as "elementwise_sub_2_11" or "ks_convolution-89.9%_41"."""
    return "ORT" if name.startswith(ONNX_RUNTIME) else SPARSITY.sub("", _kernel(name))


def _shapes(dims: dict[str, int]) -> tuple[tuple[int, ...], ...]:
    """The output in DeepSparse's own five dimensions; it does not tell those of what ONNX Runtime runs (-1)."""
    shape = tuple(dims[axis] for axis in ("batches", "channels", "z", "y", "x"))
    return () if min(shape) < 0 else (shape,)


def _origins(names: str, readers: Mapping[str, str]) -> Iterator[str]:
    """The tensors a layer makes on its way; one that DeepSparse put in is named after what its only reader reads."""
    for name in filter(None, names.split(",")):
        tensor, internal, _ = name.partition(INTERNAL)
        if name == NO_ORIGIN or (internal and tensor not in readers):
            continue
        yield readers[tensor] if internal else name


def _parameters(calls: Sequence[Layer]) -> Iterator[tuple[str, str]]:
    """What else an analysis tells: constants from the first, and the mean over all of what it measured."""
    for key in CONSTANTS:
        if text := _text(calls[0].get(key)):
            yield key, text
    for key in MEASURED:
        if values := [call[key] for call in calls if call.get(key)]:
            yield key, f"{sum(values) / len(values):.6g}"


def _text(value: Any) -> str:
    """A number, or sizes by axis ("x=3,y=3"); nothing for what DeepSparse does not know (-1) or has none of."""
    if isinstance(value, dict):
        return ",".join(f"{axis}={size}" for axis, size in value.items() if size >= 0)
    return f"{value:.10g}" if value else ""
