"""Pruning estimated, imposed and measured, side by side: what the table of `enginebench prospects` shows."""

from collections.abc import Sequence
from dataclasses import dataclass

from enginebench_controller.prospects.estimate import (
    Estimate,
    Series,
    Sparsities,
    actual,
    estimate,
    is_prunable,
    latency_ns,
    series_of,
    sparsity_of,
    uniform,
)
from enginebench_controller.records import Profile, ProfileNode
from enginebench_controller.stats.profiles import ratio

SAME_SPARSITY = 0.02
"""A copy has the sparsity that was imposed where no layer of it is further away: small ones round to whole weights."""


@dataclass(frozen=True)
class Outcome:
    """One way to prune a model: zeros imposed on every layer alike, or a copy that really has them.

    `sparsities` are those of the nodes with weights, by index, and `sparsity` that of all of these weights together.
    `imposed_ns` is the latency with zeros imposed, `measured_ns` that of the copy; both are times of profiled
    inferences at the level of the dense pass, as is what the estimate starts from.
    `flops` and `parameters` leave out zeros, and are estimates as well: operations go down as the weights do.
    """

    profile: Profile
    is_copy: bool
    sparsities: Sparsities
    sparsity: float | None
    estimate: Estimate | None
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
    outcomes: tuple[Outcome, ...]
    failed: tuple[Profile, ...] = ()


def prospects_of(profiles: Sequence[Profile]) -> PruningProspects:
    """Sort out the passes of one order. Raises `ValueError` where they do not fit together."""
    imposed = [one for one in profiles if one.imposed_sparsity is not None]
    copies = [one for one in profiles if one.imposed_sparsity is None]
    series = series_of(imposed, copies)
    steps = [_step(series, one) for one in series.passes]
    measured = [_copy(series, one, steps) for one in series.copies]
    return PruningProspects(series, (*steps, *measured), tuple(one for one in profiles if not one.layers))


def _step(series: Series, profile: Profile) -> Outcome:
    sparsities = uniform(series.dense.nodes, profile.imposed_sparsity or 0.0)
    return _outcome(series, profile, sparsities, imposed_ns=latency_ns(profile))


def _copy(series: Series, profile: Profile, steps: Sequence[Outcome]) -> Outcome:
    sparsities = actual(series.dense.nodes, profile.nodes)
    alike = [step for step in steps if _is_alike(sparsities, step.profile.imposed_sparsity)]
    imposed_ns = alike[0].imposed_ns if alike else None
    return _outcome(series, profile, sparsities, imposed_ns=imposed_ns, measured_ns=latency_ns(profile), is_copy=True)


def _is_alike(sparsities: Sparsities, imposed: float | None) -> bool:
    """Whether every layer has the sparsity that was imposed."""
    return imposed is not None and all(abs(share - imposed) <= SAME_SPARSITY for share in sparsities.values())


def _outcome(
    series: Series,
    profile: Profile,
    sparsities: Sparsities,
    *,
    imposed_ns: float | None,
    measured_ns: float | None = None,
    is_copy: bool = False,
) -> Outcome:
    nodes = series.dense.nodes
    work = series.dense.work
    return Outcome(
        profile=profile,
        is_copy=is_copy,
        sparsities=sparsities,
        sparsity=sparsity_of(nodes, sparsities),
        estimate=estimate(series, sparsities),
        dense_ns=latency_ns(series.dense),
        imposed_ns=imposed_ns,
        measured_ns=measured_ns,
        flops=without_zeros(work.flops if work else None, nodes, sparsities, "flops"),
        parameters=without_zeros(work.parameters if work else None, nodes, sparsities, "parameters"),
    )


def without_zeros(dense: int | None, nodes: Sequence[ProfileNode], sparsities: Sparsities, figure: str) -> int | None:
    """`dense` less the pruned nodes' part: linear in the sparsity down to 0, as Sparsify has it."""
    if dense is None:
        return None
    saved = sum((getattr(node, figure) or 0) * sparsities.get(node.index, 0.0) for node in nodes if is_prunable(node))
    return round(dense - saved)
