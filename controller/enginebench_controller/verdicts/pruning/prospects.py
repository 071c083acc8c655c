"""Pruning imposed, estimated and measured, side by side: the passes that tell of a model, and where the gain lies."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.records import Profile, ProfileEntry, ProfileNode
from enginebench_controller.stats.layers import mean_ns, ratio
from enginebench_controller.verdicts.pruning.estimate import (
    PartEstimate,
    PruningEstimate,
    Series,
    Sparsities,
    actual,
    estimate,
    is_prunable,
    latency_ns,
    node_names,
    once_a_weight,
    series_of,
    sparsity_of,
    uniform,
)

Sweep = tuple[ProfileEntry, ...]
"""Passes of one order over one model in one configuration, in the order they ran: the dense one, those with zeros
imposed, and pruned copies."""


def sweeps(entries: Iterable[ProfileEntry]) -> tuple[Sweep, ...]:
    """Every sweep among `entries`, which are newest first, as the sweeps are."""
    return tuple(passes for passes in imposed_passes(entries) if any(one.imposed_sparsity for one in passes))


def imposed_passes(entries: Iterable[ProfileEntry]) -> Iterator[Sweep]:
    """The sweeps, and those of which only the dense pass was asked for or is left.

    An order may have several: one command profiles on 1 and on 2 cores, and the times of these are not compared.
    """
    orders: dict[tuple[object, ...], list[ProfileEntry]] = {}
    for entry in entries:
        if entry.order_id:
            orders.setdefault(_setting(entry), []).append(entry)
    for passes in orders.values():
        # A pruned copy has a digest of its own; an order that makes copies is about one model.
        for digest in dict.fromkeys(one.model_digest for one in passes if one.imposed_sparsity is not None):
            own = (one for one in reversed(passes) if one.imposed_sparsity is None or one.model_digest == digest)
            yield tuple(own)


def sweep_for(entries: Sequence[ProfileEntry], subject: ProfileEntry) -> Sweep:
    """The sweep that tells of the subject: its own, else one over its model on its target with its engine.

    One with the same batch and cores goes before others, then the newest. Empty where there is none.
    """
    found = [passes for passes in sweeps(entries) if any(_is_about(one, subject) for one in passes)]
    return min(found, key=lambda passes: _distance(passes, subject), default=())


def _setting(entry: ProfileEntry) -> tuple[object, ...]:
    place = (entry.order_id, entry.target, entry.engine.name, entry.engine.environment)
    return (*place, entry.device, entry.batch, entry.cores, entry.precision)


def _is_about(entry: ProfileEntry, subject: ProfileEntry) -> bool:
    return bool(entry.imposed_sparsity) and _subject(entry) == _subject(subject)


def _subject(entry: ProfileEntry) -> tuple[str, str, str]:
    return entry.model_digest, entry.engine.name, entry.target


def _distance(passes: Sweep, subject: ProfileEntry) -> tuple[bool, bool]:
    first = passes[0]
    return subject not in passes, (first.batch, first.cores) != (subject.batch, subject.cores)


SAME_SPARSITY = 0.02
"""A copy has the sparsity that was imposed where no layer of it is further away: small ones round to whole weights."""


@dataclass(frozen=True)
class PruningOutcome:
    """One way to prune a model: zeros imposed on every layer alike, or a copy that really has them.

    `sparsities` are those of the nodes with weights, by index, where these are known. `sparsity` is what was imposed,
    and of a copy that of all of these weights together.
    `imposed_ns` is the latency with zeros imposed, `measured_ns` that of the copy; both are times of profiled
    inferences at the level of the dense pass, as is what the estimate starts from.
    `flops` and `parameters` leave out zeros, and are estimates as well: operations go down as the weights do.
    """

    profile: Profile
    is_copy: bool
    sparsities: Sparsities
    sparsity: float | None
    estimate: PruningEstimate | None
    dense_ns: float | None
    imposed_ns: float | None
    measured_ns: float | None
    flops: int | None
    parameters: int | None

    @property
    def imposed_speedup(self) -> float | None:
        """Dense latency ÷ latency with zeros imposed."""
        return ratio(self.dense_ns, self.imposed_ns)

    @property
    def measured_speedup(self) -> float | None:
        """Dense latency ÷ latency of the pruned copy."""
        return ratio(self.dense_ns, self.measured_ns)

    @property
    def error(self) -> float | None:
        """Estimated ÷ measured latency − 1, at equal settings; None without a copy."""
        found = ratio(self.estimate.time_ns if self.estimate else None, self.measured_ns)
        return None if found is None else found - 1


@dataclass(frozen=True)
class PruningProspects:
    """All that the passes of one order tell: the dense one, each sparsity imposed, each pruned copy, and failures."""

    series: Series
    outcomes: tuple[PruningOutcome, ...]
    failed: tuple[Profile, ...] = ()


def prospects_of(profiles: Sequence[Profile]) -> PruningProspects:
    """Sort out the passes of one order. Raises `ValueError` where they do not fit together."""
    imposed = [one for one in profiles if one.imposed_sparsity is not None]
    copies = [one for one in profiles if one.imposed_sparsity is None]
    series = series_of(imposed, copies)
    steps = [_step(series, one) for one in series.passes]
    measured = [_copy(series, one, steps) for one in series.copies]
    return PruningProspects(series, (*steps, *measured), tuple(one for one in profiles if not one.layers))


def _step(series: Series, profile: Profile) -> PruningOutcome:
    sparsities = uniform(series.dense.nodes, profile.imposed_sparsity or 0.0)
    return _outcome(series, profile, sparsities, imposed_ns=latency_ns(profile))


def _copy(series: Series, profile: Profile, steps: Sequence[PruningOutcome]) -> PruningOutcome:
    sparsities = actual(series.dense.nodes, profile.nodes)
    alike = [step for step in steps if _is_alike(sparsities, step.profile.imposed_sparsity)]
    imposed_ns = alike[0].imposed_ns if alike else None
    return _outcome(series, profile, sparsities, imposed_ns=imposed_ns, measured_ns=latency_ns(profile), is_copy=True)


def _is_alike(sparsities: Sparsities, imposed: float | None) -> bool:
    """Whether every layer has the sparsity that was imposed; not so where that of none is known."""
    if imposed is None or not sparsities:
        return False
    return all(abs(share - imposed) <= SAME_SPARSITY for share in sparsities.values())


def _outcome(
    series: Series,
    profile: Profile,
    sparsities: Sparsities,
    *,
    imposed_ns: float | None,
    measured_ns: float | None = None,
    is_copy: bool = False,
) -> PruningOutcome:
    nodes = series.dense.nodes
    work = series.dense.work
    return PruningOutcome(
        profile=profile,
        is_copy=is_copy,
        sparsities=sparsities,
        sparsity=sparsity_of(nodes, sparsities) if is_copy else profile.imposed_sparsity,
        estimate=estimate(series, sparsities),
        dense_ns=latency_ns(series.dense),
        imposed_ns=imposed_ns,
        measured_ns=measured_ns,
        flops=flops_left(work.flops if work else None, nodes, sparsities),
        parameters=parameters_left(work.parameters if work else None, nodes, sparsities),
    )


def flops_left(dense: int | None, nodes: Sequence[ProfileNode], sparsities: Sparsities) -> int | None:
    """The operations of the model less those of zeros: linear in the sparsity down to 0, as Sparsify has it."""
    return _left(dense, ((node.flops, sparsities.get(node.index, 0.0)) for node in nodes if is_prunable(node)))


def parameters_left(dense: int | None, nodes: Sequence[ProfileNode], sparsities: Sparsities) -> int | None:
    """The parameters of the model that are not zero. A weight that several nodes read counts once, as it does in
    `dense`.
    """
    weighted = once_a_weight(filter(is_prunable, nodes))
    return _left(dense, ((node.parameters, sparsities.get(node.index, 0.0)) for node in weighted))


def _left(dense: int | None, pruned: Iterable[tuple[int | None, float]]) -> int | None:
    return None if dense is None else round(dense - sum((figure or 0) * share for figure, share in pruned))


@dataclass(frozen=True)
class Saving:
    """What zeros would save in some layers, in nanoseconds of the dense pass of the sweep, not of the profile shown.

    `saved_ns` is negative where zeros cost time. `is_known` is False where some of it was never timed, which counts as
    no saving.
    """

    dense_ns: float
    saved_ns: float
    is_known: bool = True

    @property
    def share(self) -> float | None:
        """The saved part of the dense time."""
        return ratio(self.saved_ns, self.dense_ns)

    def __add__(self, other: "Saving") -> "Saving":
        """Both together."""
        known = self.is_known and other.is_known
        return Saving(self.dense_ns + other.dense_ns, self.saved_ns + other.saved_ns, known)


def savings_by_layer(profile: Profile, series: Series, expected: PruningEstimate) -> Mapping[int, Saving]:
    """The saving of each layer by its position; layers that the engine made for itself, and untimed ones, have none.

    A part of the model that several layers run counts for the slowest of them. Empty where the profile is over another
    graph than the sweep.
    """
    if node_names(profile.nodes) != node_names(series.dense.nodes):
        return {}
    slowest = _slowest_layer_of_groups(profile)
    found: dict[int, Saving] = defaultdict(lambda: Saving(0.0, 0.0))
    for part in expected.parts:
        layers = [slowest[group] for node in part.part.nodes if (group := profile.nodes[node].group) in slowest]
        saving = _saving(part)
        if layers and saving is not None:
            position = max(layers, key=lambda place: mean_ns(profile.layers[place]) or 0.0)
            found[position] = found[position] + saving
    return dict(found)


def _saving(part: PartEstimate) -> Saving | None:
    if part.dense_ns is None or part.estimated_ns is None:
        return None
    return Saving(part.dense_ns, part.dense_ns - part.estimated_ns, part.is_known)


def _slowest_layer_of_groups(profile: Profile) -> dict[int | None, int]:
    slowest: dict[int | None, int] = {}
    for position, layer in enumerate(profile.layers):
        time = mean_ns(layer)
        if time is None or layer.group is None:
            continue
        known = slowest.get(layer.group)
        if known is None or time > (mean_ns(profile.layers[known]) or 0.0):
            slowest[layer.group] = position
    return slowest
