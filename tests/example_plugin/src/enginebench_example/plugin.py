"""The reference evaluator of the `onnx` package as an engine."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from enginebench_plugins import spec


class Reference(spec.Engine):
    """Runs every operator in NumPy, one after the other, on one thread."""

    def info(self) -> spec.EngineInfo:
        import onnx

        return spec.EngineInfo(version=onnx.__version__, formats=frozenset({spec.ModelFormat.ONNX}), profiling=True)

    def devices(self) -> Sequence[spec.Device]:
        return [spec.Device(name="CPU", full_name="NumPy on any processor")]

    def read(self, source: spec.ModelSource) -> Any:
        import onnx

        model = onnx.load(str(source.path))
        onnx.checker.check_model(model)
        return model

    def compile(self, model: Any, source: spec.ModelSource, settings: spec.Settings) -> spec.CompiledModel:
        # What is not honoured is refused: a setting that is ignored in silence makes a wrong comparison.
        if settings.precision not in (spec.Precision.F32, spec.Precision.DEFAULT):
            raise spec.UnsupportedSettingsError(f"the reference evaluator computes in f32, not {settings.precision}")
        if settings.hint is not spec.Hint.NONE or settings.streams > 1 or settings.options:
            raise spec.UnsupportedSettingsError("the reference evaluator takes no hint, no streams and no options")
        if settings.device != "CPU":
            raise spec.UnsupportedSettingsError(f"the reference evaluator runs on CPU, not on {settings.device}")
        return CompiledReference(model, source.inputs or own_inputs(model))


@dataclass
class CompiledReference(spec.CompiledModel):
    """A model and the shapes of this run."""

    model: Any
    inputs: Sequence[spec.TensorSpec] = ()

    def effective(self) -> spec.Effective:
        return spec.Effective(
            streams=spec.Readback(1, spec.Source.ASSUMED),
            precision=spec.Readback("f32", spec.Source.ASSUMED),
            provider=spec.Readback("numpy", spec.Source.ASSUMED),
        )

    def create_request(self) -> spec.InferRequest:
        return ReferenceRequest(self.model)

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        """Evaluate the graph node by node, each in an evaluator of its own, and time each call."""
        from onnx.reference import ReferenceEvaluator

        nodes = [(n.name or n.output[0], n, ReferenceEvaluator(n)) for n in self.model.graph.node]
        times: list[list[int]] = [[] for _ in nodes]
        latency_ns = []
        for iteration in range(iterations):
            started_ns = time.perf_counter_ns()
            values = weights(self.model) | dict(inputs[iteration % len(inputs)])
            for position, (_, node, evaluator) in enumerate(nodes):
                arguments = {name: values[name] for name in node.input if name}
                begin = time.perf_counter_ns()
                results = evaluator.run(None, arguments)
                times[position].append(time.perf_counter_ns() - begin)
                values |= dict(zip(node.output, results, strict=False))
            latency_ns.append(time.perf_counter_ns() - started_ns)
            between()
        layers = (
            spec.LayerProfile(
                name,
                node.op_type,
                order=position,
                time_ns=tuple(times[position]),
                source_nodes=(name,),
                inputs=tuple(filter(None, node.input)),
                outputs=tuple(filter(None, node.output)),
            )
            for position, (name, node, _) in enumerate(nodes)
        )
        return spec.ModelProfile(tuple(layers), tuple(latency_ns))


class ReferenceRequest(spec.InferRequest):
    """One evaluator, so that two requests share nothing."""

    def __init__(self, model: Any) -> None:
        from onnx.reference import ReferenceEvaluator

        self.evaluator = ReferenceEvaluator(model)

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        return dict(zip(self.evaluator.output_names, self.evaluator.run(None, dict(inputs)), strict=True))


def weights(model: Any) -> dict[str, Any]:
    """The constants of the graph by name."""
    from onnx import numpy_helper

    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def own_inputs(model: Any) -> list[spec.TensorSpec]:
    """The inputs with the shapes the file fixes."""
    from onnx import helper

    types = [(value.name, value.type.tensor_type) for value in model.graph.input if value.name not in weights(model)]
    return [
        spec.TensorSpec(
            name,
            str(helper.tensor_dtype_to_np_dtype(tensor.elem_type)),
            tuple(dim.dim_value or None for dim in tensor.shape.dim),
        )
        for name, tensor in types
    ]


@spec.hookimpl
def enginebench_engine() -> spec.Engine:
    return Reference()
