"""A compiled DeepSparse engine: its requests, and what it tells about itself."""

from collections.abc import Sequence
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.engines.deepsparse.devices import instruction_set
from enginebench_plugins.engines.deepsparse.network import DeepSparseNetwork
from enginebench_plugins.engines.deepsparse.profile import Analysis, profile_layers
from enginebench_proto.agreed.words import IMPOSED_SPARSITY, OPTIMIZATION_LEVEL


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


def _in_order(inputs: spec.Tensors, network: DeepSparseNetwork) -> list[Any]:
    return [inputs[tensor.name] for tensor in network.inputs]


def _provider(fraction: float) -> str:
    """DeepSparse, and how many of the operators are its own where the ONNX Runtime within it runs the others."""
    return "deepsparse" if fraction >= 1 else f"deepsparse ({fraction:.2%} of operators; the rest onnxruntime)"
