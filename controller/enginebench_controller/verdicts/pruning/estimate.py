"""What pruning would bring, estimated from passes with sparsity imposed.

The formula is that of Sparsify 0.12 (`projects_optimizations_pruning.py` in neuralmagic/sparsify):

    T = T0 · (Tp0 − Σ (layer0 − layer_s)) ÷ Tp0,    speed-up = T0 ÷ T

T0 is the dense model's latency, Tp0 the sum of its layers, layer0 a layer's dense time and layer_s its time at the
sparsity s that the layer is to get, interpolated linearly between the sparsities measured. Two things differ from the
source: T0 and Tp0 come from the same pass, hence from one optimization level, where Sparsify divided a time at level 0
by one at level 1; and an unknown time is no saving instead of an error. Beyond the largest sparsity measured the time
stays what it was there.

An engine cuts a model differently when its weights are mostly zero: what was one layer may be two, or the other way
round. Parts are the finest sets of source nodes that no pass cuts through, so that times of all passes compare.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.records import Layer, Profile, ProfileNode
from enginebench_controller.stats.layers import ratio, total_ns

HANDED_OVER = "ORT"
"""The type of a layer that DeepSparse leaves to the ONNX Runtime within it, which gains nothing from zeros."""


@dataclass(frozen=True)
class TimedPart:
    """Source nodes by index, and what ran them in each pass; a pass that timed no layer of theirs has None.

    `times_ns` are sums of the layers' mean times in one inference. `types` are the engine's words in the first pass.
    """

    nodes: tuple[int, ...]
    times_ns: tuple[float | None, ...]
    types: tuple[str, ...] = ()
    handed_over: bool = False


def parts_of(passes: Sequence[Profile]) -> tuple[TimedPart, ...]:
    """The parts of passes over one graph, in its order. Raises `ValueError` where the graphs differ."""
    if len({node_names(one.nodes) for one in passes}) > 1:
        raise ValueError("passes over different graphs have no parts in common")
    held = [_nodes_by_group(one.nodes) for one in passes]
    found = _joined(nodes for groups in held for nodes in groups.values())
    layers = [_layers_by_group(one.layers) for one in passes]
    return tuple(_part_of(nodes, passes, layers) for nodes in sorted(found))


def node_names(nodes: Sequence[ProfileNode]) -> tuple[tuple[str, str], ...]:
    """By what it is told whether two profiles are of one graph: operators and names, in order."""
    return tuple((node.op_type, node.name) for node in nodes)


def _nodes_by_group(nodes: Iterable[ProfileNode]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = defaultdict(list)
    for node in nodes:
        if node.group is not None:
            groups[node.group].append(node.index)
    return groups


def _joined(sets: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """The unions of all sets that overlap, directly or by way of others."""
    parent: dict[int, int] = {}

    def root(node: int) -> int:
        while parent.setdefault(node, node) != node:
            parent[node] = node = parent[parent[node]]
        return node

    for members in sets:
        for node in members:
            parent[root(node)] = root(members[0])
    unions: dict[int, list[int]] = defaultdict(list)
    for node in sorted(parent):
        unions[root(node)].append(node)
    return [tuple(members) for members in unions.values()]


def _part_of(
    nodes: tuple[int, ...], passes: Sequence[Profile], layers_by_group: Sequence[Mapping[int, Sequence[Layer]]]
) -> TimedPart:
    layers = [
        [layer for group in _groups(one, nodes) for layer in held.get(group, ())]
        for one, held in zip(passes, layers_by_group, strict=True)
    ]
    return TimedPart(
        nodes=nodes,
        times_ns=tuple(map(total_ns, layers)),
        types=tuple(dict.fromkeys(layer.type for layer in layers[0])) if layers else (),
        handed_over=any(layer.type == HANDED_OVER for of_pass in layers for layer in of_pass),
    )


def _groups(profile: Profile, nodes: Iterable[int]) -> list[int]:
    """The groups that these nodes are in, each once."""
    found = dict.fromkeys(profile.nodes[node].group for node in nodes)
    return [group for group in found if group is not None]


def _layers_by_group(layers: Iterable[Layer]) -> Mapping[int, Sequence[Layer]]:
    groups: dict[int, list[Layer]] = defaultdict(list)
    for layer in layers:
        if layer.group is not None:
            groups[layer.group].append(layer)
    return groups


PRUNABLE = frozenset({"Conv", "Gemm", "MatMul"})
"""Operators whose weights are pruned: those of `model/pruning.py`."""

Sparsities = Mapping[int, float]
"""The share of zeros in the weights of source nodes, by index."""


@dataclass(frozen=True)
class PartEstimate:
    """A part with the sparsity it is to get; None for a part without weights. Times are nanoseconds, None if unknown.

    `estimated_ns` is the dense time where nothing is gained: no weights, handed over to ONNX Runtime, or not measured
    with sparsity imposed (`is_known` is False then).
    """

    part: TimedPart
    sparsity: float | None
    dense_ns: float | None
    estimated_ns: float | None
    is_known: bool = True


@dataclass(frozen=True)
class PruningEstimate:
    """An estimated latency. `dense_ns` is T0, `layers_ns` Tp0; `unknown_share` is the part of Tp0
    whose saving nobody knows, counted as none, although it has weights.
    """

    dense_ns: float
    layers_ns: float
    time_ns: float
    unknown_share: float
    parts: tuple[PartEstimate, ...]

    @property
    def speedup(self) -> float | None:
        """Dense latency ÷ estimated latency; None where layers are said to save all the time there is."""
        return self.dense_ns / self.time_ns if self.time_ns > 0 else None


@dataclass(frozen=True)
class Series:
    """Passes over one model at one optimization level: dense first, then with more and more zeros imposed.

    `copies` are passes over versions of the model that really have zeros, at the same level. The times of a part are
    those of `passes`, then those of `copies`.
    """

    passes: tuple[Profile, ...]
    copies: tuple[Profile, ...]
    parts: tuple[TimedPart, ...]

    @property
    def dense(self) -> Profile:
        """The pass with no zeros imposed."""
        return self.passes[0]

    @property
    def sparsities(self) -> tuple[float, ...]:
        """The shares of zeros imposed, rising from 0."""
        return tuple(one.imposed_sparsity or 0.0 for one in self.passes)


def series_of(passes: Sequence[Profile], copies: Sequence[Profile] = ()) -> Series:
    """Order the passes that have layers. Raises `ValueError` without a dense one, for unequal settings or graphs."""
    usable = sorted((one for one in passes if one.layers), key=lambda one: one.imposed_sparsity or 0.0)
    if not usable or usable[0].imposed_sparsity:
        raise ValueError("there is no dense pass to compare with")
    pruned = tuple(one for one in copies if one.layers)
    if len({one.optimization_level for one in (*usable, *pruned)}) > 1:
        raise ValueError("the passes ran at different optimization levels")
    if len({_setting(one) for one in (*usable, *pruned)}) > 1:
        raise ValueError("the passes ran in different configurations")
    return Series(tuple(usable), pruned, parts_of((*usable, *pruned)))


def estimate(series: Series, sparsities: Sparsities) -> PruningEstimate | None:
    """The model's latency with these sparsities; None where the dense pass has no times of the model's parts."""
    layers_ns, dense_ns = total_ns(series.dense.layers), latency_ns(series.dense)
    if not series.parts or not layers_ns or dense_ns is None:
        return None
    steps = series.sparsities
    parts = tuple(_part(series.dense.nodes, steps, part, sparsities) for part in series.parts)
    known = [one for one in parts if one.dense_ns is not None and one.estimated_ns is not None]
    saved_ns = sum((one.dense_ns or 0.0) - (one.estimated_ns or 0.0) for one in known)
    unknown_ns = sum(one.dense_ns or 0.0 for one in parts if not one.is_known)
    return PruningEstimate(
        dense_ns, layers_ns, dense_ns * (layers_ns - saved_ns) / layers_ns, unknown_ns / layers_ns, parts
    )


def latency_ns(profile: Profile) -> float | None:
    """The latency of the inferences that the layers were timed in, so at their optimization level; None if unknown."""
    return total_ns(profile.layers) if profile.profiled_latency_ns is None else profile.profiled_latency_ns


def is_prunable(node: ProfileNode) -> bool:
    """Whether pruning reaches the node: a product with weights of its own."""
    return node.op_type in PRUNABLE and bool(node.parameters) and not node.folded


def uniform(nodes: Sequence[ProfileNode], sparsity: float) -> Sparsities:
    """The same sparsity for every node with weights."""
    return {node.index: sparsity for node in nodes if is_prunable(node)}


def actual(dense: Sequence[ProfileNode], pruned: Sequence[ProfileNode]) -> Sparsities:
    """The share of zeros in the weights of each node of a pruned copy; nodes where it is unknown are left out."""
    pairs = zip(dense, pruned, strict=True)
    return {one.index: zeros for was, one in pairs if is_prunable(one) and (zeros := _zeros(was, one)) is not None}


def once_a_weight(nodes: Iterable[ProfileNode]) -> tuple[ProfileNode, ...]:
    """These nodes; of those that multiply by the same weight, as the heads of a detector do, only the first."""
    first: dict[object, ProfileNode] = {}
    for node in nodes:
        first.setdefault(node.weights[:1] or node.index, node)
    return tuple(first.values())


def sparsity_of(nodes: Sequence[ProfileNode], sparsities: Sparsities) -> float | None:
    """The share of zeros in all of these nodes' weights together; None where none has any."""
    known = once_a_weight(node for node in nodes if node.index in sparsities)
    weighted = [(node.parameters or 0, sparsities[node.index]) for node in known]
    return ratio(sum(size * share for size, share in weighted), sum(size for size, _ in weighted))


def interpolated(points: Sequence[tuple[float, float]], place: float) -> float | None:
    """The value at `place` on straight lines between the points (place, value), flat outside; None without points."""
    known = sorted(points)
    if not known:
        return None
    below = [point for point in known if point[0] <= place] or known[:1]
    above = [point for point in known if point[0] >= place] or known[-1:]
    (left, low), (right, high) = below[-1], above[0]
    return low if right <= left else low + (high - low) * (place - left) / (right - left)


def _setting(profile: Profile) -> tuple[object, ...]:
    asked, engine = profile.configuration, profile.engine
    place = (profile.target, engine.name, engine.environment)
    return (*place, asked.device, asked.batch, asked.place, asked.precision)


def _part(
    nodes: Sequence[ProfileNode], steps: Sequence[float], part: TimedPart, sparsities: Sparsities
) -> PartEstimate:
    dense_ns = part.times_ns[0]
    sparsity = sparsity_of([nodes[index] for index in part.nodes], sparsities)
    if sparsity is None or part.handed_over or dense_ns is None:
        return PartEstimate(part, sparsity, dense_ns, dense_ns)
    timed = zip(steps, part.times_ns, strict=False)  # those of the copies come after
    points = [(imposed, time) for imposed, time in timed if time is not None]
    if len(points) < 2:
        return PartEstimate(part, sparsity, dense_ns, dense_ns, is_known=False)
    return PartEstimate(part, sparsity, dense_ns, interpolated(points, sparsity))


def _zeros(dense: ProfileNode, pruned: ProfileNode) -> float | None:
    """Zeros ÷ weights. Counts of a node include its biases, which pruning spares: as many zeros as a dense node may
    have in them are taken to be there.
    """
    if dense.nonzero_parameters is None or pruned.nonzero_parameters is None or pruned.parameters is None:
        return None
    biases = _biases(pruned)
    own = pruned.parameters - dense.nonzero_parameters
    zeros = pruned.parameters - pruned.nonzero_parameters - (own if own <= biases else 0)
    return ratio(zeros, pruned.parameters - biases)


def _biases(node: ProfileNode) -> int:
    """One for each output channel where a Conv or Gemm has a third input."""
    shape = node.output_shapes[0] if node.output_shapes else None
    if node.op_type == "MatMul" or len(node.inputs) < 3 or not node.inputs[2] or shape is None or len(shape) < 2:
        return 0
    return shape[1]
