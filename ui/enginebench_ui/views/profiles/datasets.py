"""What charts and tables of layers show: which figure of them, and on which scale."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from enginebench_ui.views.profiles.layers import LayerView

Value = Callable[[LayerView], float | None]


class Scale(StrEnum):
    """How values are drawn; the words stand on the page and in its address."""

    VALUES = "Values"
    LOG = "Log"
    PERCENT = "Per cent"


@dataclass(frozen=True)
class Dataset:
    """One figure of every layer: its label, its unit in a table's heading and on an axis, and how to read it.

    `sparsity` is the share of zeros imposed in the pass that it comes from, None for the profile itself. `is_time` says
    that values are milliseconds. `of_a_type` is how layers of a type sum up: None as `value` does.
    """

    label: str
    unit: str
    value: Value
    sparsity: float | None = None
    is_time: bool = False
    of_a_type: Value | None = None
    explained: str = ""

    def type_value(self, layer: LayerView) -> float | None:
        """What the layer adds to its type."""
        return (self.of_a_type or self.value)(layer)


def time_ms(layer: LayerView) -> float | None:
    """The mean time in one inference, in milliseconds."""
    return None if layer.time_ns is None else layer.time_ns / 1e6


BASELINE = "Baseline ms"
_BASELINE = Dataset(BASELINE, "ms", time_ms, is_time=True, explained="Measured: the mean over the profiled inferences.")
_FLOPS = Dataset(
    "FLOPS", "FLOP", lambda layer: layer.flops, explained="Counted in the model: a multiply-add is 2, zeros count."
)
_COUNT = Dataset(
    "Count",
    "nodes",
    lambda layer: float(len(layer.nodes)),
    of_a_type=lambda _layer: 1.0,
    explained="How many layers a type has, and how many nodes of the model a layer stands for.",
)
_PARAMETERS = Dataset(
    "Parameters", "parameters", lambda layer: layer.parameters, explained="Elements of the weights that a node reads."
)
_BYTES = Dataset(
    "Bytes", "B", lambda layer: layer.data_bytes, explained="Weights and activations that a node moves, each once."
)


def measured_datasets(sparsities: Iterable[float]) -> Mapping[str, Dataset]:
    """Those of a profile that was run, by label; `sparsities` are the shares of zeros that passes imposed."""
    pruned = [_pruned(share) for share in sorted(set(sparsities)) if share]
    return {one.label: one for one in (_BASELINE, *pruned, _FLOPS, _COUNT)}


def theoretical_datasets() -> Mapping[str, Dataset]:
    """Those of a model that was only counted."""
    return {one.label: one for one in (_FLOPS, _PARAMETERS, _BYTES, _COUNT)}


def total(layers: Sequence[LayerView], value: Value) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [found for layer in layers if (found := value(layer)) is not None]
    return sum(known) if known else None


def as_percent(value: float | None, whole: float | None) -> float | None:
    """A value as per cent of the whole; None where either is unknown."""
    return None if value is None or not whole else 100 * value / whole


def _pruned(sparsity: float) -> Dataset:
    return Dataset(
        f"Pruned {sparsity:g} ms",
        "ms",
        time_ms,
        sparsity=sparsity,
        is_time=True,
        explained=f"Measured with {100 * sparsity:g} % of every layer's weights taken for zero by the engine.",
    )
