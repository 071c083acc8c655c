"""Layer times by DeepSparse's debug analysis.

An analysis reports mean times only, and a second one with the same engine corrupts its memory (1.8.0: wrong "out of
memory" errors, segmentation faults). So every iteration compiles an engine of its own and times a single inference.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.deepsparse.closed_shapes import ClosedModel

WARMUP_INFERENCES = 2
NO_SOURCE = "<none>"
SERIAL_NUMBER = re.compile(r"[_ ]\d+$")


class LayerAnalysis:
    """The debug analysis of one model on so many cores."""

    def __init__(self, deepsparse: Any, model: ClosedModel, batch: int | None, cores: int) -> None:
        self._deepsparse = deepsparse
        self._model = model
        self._batch = batch
        self._cores = cores

    def run(self, inputs: Sequence[spec.Tensors], iterations: int) -> list[spec.LayerProfile]:
        """Every layer in execution order, with one time for each iteration."""
        analyses = [self._layers(inputs[iteration % len(inputs)]) for iteration in range(iterations)]
        return [_layer(order, [analysis[order] for analysis in analyses]) for order in range(min(map(len, analyses)))]

    def _layers(self, inputs: spec.Tensors) -> list[Mapping[str, Any]]:
        arrays = [inputs[tensor.name] for tensor in self._model.inputs]
        analysis = self._deepsparse.model_debug_analysis(
            str(self._model.path),
            arrays,
            batch_size=self._batch,
            num_cores=self._cores,
            num_iterations=1,
            num_warmup_iterations=WARMUP_INFERENCES,
        )
        return list(analysis["layer_info"])


def _layer(order: int, records: Sequence[Mapping[str, Any]]) -> spec.LayerProfile:
    """One layer from its record of each iteration. The name's type, such as "fft_basic", names the kernel as well."""
    name = str(records[0]["name"])
    return spec.LayerProfile(
        name=name,
        type=SERIAL_NUMBER.sub("", name),
        order=order,
        time_ns=tuple(round(record["average_run_time_in_ms"] * 1e6) for record in records),
        output_shapes=_output_shapes(records[0]["output_dims"]),
        source_nodes=_source_tensors(str(records[0]["canonical_name"])),
    )


def _output_shapes(dims: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    """Batch, channels and the spatial sizes; z only where there is depth. Empty for a subgraph of the fallback."""
    axes = ("batches", "channels", "z", "y", "x") if dims["z"] > 1 else ("batches", "channels", "y", "x")
    shape = tuple(int(dims[axis]) for axis in axes)
    return (shape,) if min(shape) >= 0 else ()


def _source_tensors(canonical_name: str) -> tuple[str, ...]:
    return () if canonical_name == NO_SOURCE else tuple(filter(None, canonical_name.split(",")))
