"""Pruning prospects from order to stored passes: zeros imposed step by step, then copies that really have them."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from enginebench_controller.errors import InputError, ModelError
from enginebench_controller.home import Home
from enginebench_controller.models.bounded import in_thread
from enginebench_controller.models.derive.prune import prunable_weights, prune, prune_by_weight
from enginebench_controller.plan.plan import Plan
from enginebench_controller.records import OPTIMIZATION_LEVEL, ModelVersion, Profile
from enginebench_controller.runs.profiling import ProfileOrder, run_profiles
from enginebench_controller.runs.remote_run import Announce
from enginebench_controller.verdicts.pruning.estimate import Series, interpolated, series_of
from enginebench_controller.verdicts.pruning.policy import Policy, share_out

SPARSITIES = (0.0, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.975, 0.99)
"""The steps of Sparsify's sensitivity analysis."""

Remark = Callable[[str], None]
"""Told what a person should know meanwhile."""


@dataclass(frozen=True)
class PruningOrder:
    """One model on one engine: the steps to impose, the copies to make with the same sparsity in every layer, and the
    policy for one with a sparsity for each layer (None for no such copy). Every pass runs at one optimization level, if
    the engine has levels.
    """

    plan: Plan
    sparsities: tuple[float, ...] = SPARSITIES
    copies: tuple[float, ...] = (0.9,)
    policy: Policy | None = field(default_factory=Policy)
    optimization_level: int = 0


async def run_pruning(home: Home, order: PruningOrder, announce: Announce, remark: Remark) -> tuple[Profile, ...]:
    """All passes of an order, stored under one order id, failed ones included.

    Raises `InputError` for an order that is not about one configuration, and what `run_profiles` raises. Without a
    dense pass nothing is pruned.
    """
    identity = uuid.uuid4().hex[:12]
    _check(order.plan)
    steps = tuple(sorted({0.0, *order.sparsities}))
    imposing = ProfileOrder(order.plan, steps, identity, order.optimization_level)
    passes = await run_profiles(home, imposing, announce)
    copies = await in_thread(_copies, home, order, passes, remark)
    if copies:
        passes += await run_profiles(home, ProfileOrder(_plan_of_copies(order, copies, passes), id=identity), announce)
    return tuple(passes)


def _check(plan: Plan) -> None:
    for axis in ("models", "engines", "targets", "devices", "batch", "cores", "precision"):
        values = getattr(plan, axis)
        if len(values) > 1 or any(value == "all" or str(value).endswith("@*") for value in values):
            raise InputError(f"pruning prospects are for one configuration, and {axis} has several: name one")


def _plan_of_copies(order: PruningOrder, copies: Sequence[ModelVersion], passes: Sequence[Profile]) -> Plan:
    """The same for the copies, without imposing anything, at the level of the passes, if their engine has levels."""
    level = {
        f"{one.engine.name}.{OPTIMIZATION_LEVEL}": str(one.optimization_level)
        for one in passes
        if one.optimization_level is not None
    }
    changes = {"models": tuple(copy.digest for copy in copies), "options": {**order.plan.options, **level}}
    return order.plan.model_copy(update=changes)


def _copies(home: Home, order: PruningOrder, passes: Sequence[Profile], remark: Remark) -> list[ModelVersion]:
    """The pruned versions of the model. One that cannot be made is remarked on."""
    try:
        series = series_of(passes)
    except ValueError:
        return []
    version = home.library.resolve(order.plan.models[0])
    makers: list[Callable[[], ModelVersion]] = [
        lambda share=share: prune(home.library, version, share)  # type: ignore[misc]  # the loop's value of then
        for share in order.copies
    ]
    if (policy := order.policy) is not None:
        makers.append(lambda: _by_policy(home, version, series, policy))
    return [copy for make in makers if (copy := _made(make, remark)) is not None]


def _made(make: Callable[[], ModelVersion], remark: Remark) -> ModelVersion | None:
    try:
        return make()
    except ModelError as error:
        remark(f"no pruned copy: {error}")
        return None


def _by_policy(home: Home, version: ModelVersion, series: Series, policy: Policy) -> ModelVersion:
    weights = prunable_weights(home.library, version)
    return prune_by_weight(home.library, version, share_out(weights, policy, _Gains(series)))


class _Gains:
    """How many times as fast the part of the model that reads a weight is at a sparsity."""

    def __init__(self, series: Series) -> None:
        self._curves = {
            weight: [(at, time) for at, time in zip(series.sparsities, part.times_ns, strict=False) if time is not None]
            for part in series.parts
            for node in part.nodes
            for weight in series.dense.nodes[node].weights
        }

    def __call__(self, weight: str, sparsity: float) -> float | None:
        """None where nothing was timed."""
        curve = self._curves.get(weight, [])
        dense, sparse = interpolated(curve, 0.0), interpolated(curve, sparsity)
        return dense / sparse if dense and sparse else None
