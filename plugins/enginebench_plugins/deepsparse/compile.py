"""Compiling and inferring with DeepSparse."""

from collections.abc import Sequence
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.deepsparse.closed_shapes import ClosedModel
from enginebench_plugins.deepsparse.profile import LayerAnalysis


def compile_engine(deepsparse: Any, model: ClosedModel, settings: spec.Settings) -> "CompiledDeepSparse":
    """Compile for the shapes of `model`. Raises `UnsupportedSettingsError` when fewer streams come out than asked."""
    _refuse_profile_with_streams(settings)
    scheduler = deepsparse.Scheduler.multi_stream if settings.streams > 1 else deepsparse.Scheduler.single_stream
    engine = deepsparse.Engine(
        str(model.path),
        batch_size=batch_override(model, settings.batch),
        num_cores=settings.cores,
        num_streams=settings.streams,
        scheduler=scheduler,
    )
    if engine.num_streams != settings.streams:
        raise spec.UnsupportedSettingsError(
            f"DeepSparse gives {engine.num_streams} streams on {settings.cores} cores, not {settings.streams}"
        )
    return CompiledDeepSparse(deepsparse, engine, model, settings)


def batch_override(model: ClosedModel, batch: int) -> int | None:
    """The batch for DeepSparse, which writes it into every input's first dimension; None keeps it from doing so."""
    return batch if all(tensor.shape[:1] == (batch,) for tensor in model.inputs) else None


def _refuse_profile_with_streams(settings: spec.Settings) -> None:
    if settings.profiling and settings.streams > 1:
        raise spec.UnsupportedSettingsError("DeepSparse analyzes layers on one stream only: profile with streams = 1")


class CompiledDeepSparse(spec.CompiledModel):
    """One compiled engine; its requests share it."""

    def __init__(self, deepsparse: Any, engine: Any, model: ClosedModel, settings: spec.Settings) -> None:
        self._deepsparse = deepsparse
        self._engine = engine
        self._model = model
        self._settings = settings

    @property
    def inputs(self) -> Sequence[spec.TensorSpec]:
        """As compiled."""
        return self._model.inputs

    def effective(self) -> spec.Effective:
        """Threads are left to the worker's eyes: DeepSparse repeats the cores it was asked for, even absent ones."""
        vnni = " vnni" if self._engine.cpu_vnni else ""
        return spec.Effective(
            streams=spec.Readback(int(self._engine.num_streams), spec.Source.ENGINE_API),
            precision=spec.Readback("f32", spec.Source.ASSUMED),
            provider=spec.Readback(_provider(self._engine.fraction_of_supported_ops), spec.Source.ENGINE_API),
            isa=spec.Readback(f"{self._engine.cpu_avx_type}{vnni}", spec.Source.ENGINE_API),
        )

    def create_request(self) -> spec.InferRequest:
        """One engine takes calls from several threads."""
        return DeepSparseRequest(self._engine)

    def profile(self, inputs: Sequence[spec.Tensors], iterations: int) -> Sequence[spec.LayerProfile]:
        """By DeepSparse's own analysis, which compiles the model anew for each iteration."""
        batch = batch_override(self._model, self._settings.batch)
        analysis = LayerAnalysis(self._deepsparse, self._model, batch, self._settings.cores)
        return analysis.run(inputs, iterations)

    def close(self) -> None:
        """Drops the engine, which ends its threads."""
        self._engine = None


class DeepSparseRequest(spec.InferRequest):
    """Joins the engine's lists of arrays with the model's names."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._input_names = tuple(engine.input_names)
        self._output_names = tuple(engine.output_names)

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        """The outputs are fresh arrays. The engine itself checks shapes and types."""
        outputs = self._engine.run([inputs[name] for name in self._input_names], val_inp=False)
        return dict(zip(self._output_names, outputs, strict=True))

    def close(self) -> None:
        """Also lets go of the engine."""
        super().close()
        self._engine = None


def _provider(supported_fraction: float) -> str:
    if supported_fraction == 1:
        return "deepsparse"
    return f"deepsparse ({supported_fraction:.2f} of the operators; the rest onnxruntime)"
