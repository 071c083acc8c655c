"""What cannot be: the fewest operations that an inference takes, and the most that so many cores do in a second.

Both err on the side of the engine, so that only what is really impossible lies beyond. The work is that of products
alone (convolutions, matrix products), without those with weights that are zero, since some engines skip these, and
without what fast convolutions spare: computed in tiles of m outputs a dimension, a kernel of size k takes m + k − 1
products in place of m · k. Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016;
m = 6 is the largest in use, which makes 5.06 for 3×3. Nodes within If, Loop and Scan do not count: they may not run.
"""

from collections.abc import Iterable, Mapping
from math import ceil, prod
from typing import Any

from enginebench_controller.graph.flops.work import NodeCost
from enginebench_controller.graph.roofline import Roofs, roof_precision
from enginebench_controller.graph.source_graph import SourceGraph, SourceNode
from enginebench_controller.records import Ceiling, CeilingBasis

LARGEST_TILE = 6
"""Outputs a dimension of a fast convolution's tile."""

HIGHEST_HZ = 6.2e9
"""No processor sold runs faster; many machines, virtual ones above all, do not tell their own frequency."""

CALIBRATION_MARGIN = 1.25
"""An engine's own kernels may be this much better than those it was calibrated with."""

PRODUCTS_OF = {"avx512f": 32, "sve2": 32, "sve": 32, "avx2": 16, "asimd": 16, "avx": 8, "neon": 8}
"""f32 multiply-adds a core does in a cycle, by the widest extension: two pipes of its width (four of 128 bits)."""

_LEAST_PRODUCTS = 8
_GAIN = {"f32": 1, "bf16": 2, "f16": 2, "int8": 4}
_GAIN_OF_TILES = 16
"""So many times as many products as in f32 by the width of the type; in matrix tiles, which take no f32, again."""

_CONVOLUTIONS = frozenset({"Conv", "ConvInteger", "FusedConv", "QLinearConv"})


def fewest_flops(graph: SourceGraph, costs: Iterable[NodeCost]) -> float:
    """The operations that an inference of the graph takes at least, a multiply-add as two."""
    return sum(
        2 * cost.macs * _density(cost) / _spared(graph, node)
        for node, cost in zip(graph.nodes, costs, strict=True)
        if cost.macs and not node.bodies
    )


def ceiling(
    flops: float, precision: str, cores: float, isa: Iterable[str], roofs: Roofs | None, highest_hz: float | None = None
) -> Ceiling | None:
    """The ceiling of an inference of at least `flops` on a processor with these extensions; None without any work.

    `precision` is the effective one, in any words; unknown words get the fastest. `roofs` are those that the engine was
    calibrated to. They count unless the machine was busy meanwhile, or of changing speed, and give less than the
    estimate from cores and extensions, which always holds.
    """
    if not flops:
        return None
    known = roof_precision(precision) or "int8"
    most = _estimated_flops_per_s(known, cores, frozenset(isa), highest_hz or HIGHEST_HZ)
    basis = CeilingBasis.ESTIMATED
    if roofs is not None and roofs.flops_per_s is not None and not roofs.disturbed and not roofs.unsteady:
        calibrated = CALIBRATION_MARGIN * roofs.flops_per_s
        if calibrated < most:
            most, basis = calibrated, CeilingBasis.CALIBRATED
    return Ceiling(most, flops, known, ceil(cores), basis)


def _density(cost: NodeCost) -> float:
    if not cost.parameters or cost.nonzero_parameters is None:
        return 1.0
    return cost.nonzero_parameters / cost.parameters


def _spared(graph: SourceGraph, node: SourceNode) -> float:
    """How many times as many products the plain convolution takes as the fastest one known."""
    if node.op_type not in _CONVOLUTIONS:
        return 1.0
    weight = graph.weight(node.inputs[3 if node.op_type == "QLinearConv" else 1])
    kernel = _numbers(node.attributes, "kernel_shape") or (weight.tensor.shape or ())[2:] if weight else ()
    strides = _numbers(node.attributes, "strides") or (1,) * len(kernel)
    tile = LARGEST_TILE
    return prod(
        size * tile / (tile + size - 1) for size, stride in zip(kernel, strides, strict=False) if stride == 1 and size
    )


def _numbers(attributes: Mapping[str, Any], name: str) -> tuple[int, ...]:
    found = attributes.get(name)
    return tuple(one for one in found if isinstance(one, int)) if isinstance(found, tuple) else ()


def _estimated_flops_per_s(precision: str, cores: float, isa: frozenset[str], hz: float) -> float:
    products = max((count for name, count in PRODUCTS_OF.items() if name in isa), default=_LEAST_PRODUCTS)
    gain = _GAIN[precision]
    if any(name.startswith(("amx", "sme")) for name in isa) and gain > 1:
        gain *= _GAIN_OF_TILES
    return 2 * products * gain * cores * hz
