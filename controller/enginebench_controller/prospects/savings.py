"""Where an estimate's gain lies: what each layer of a profile would save, by passes that cut the model differently."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.prospects.estimate import Estimate, PartEstimate, Series
from enginebench_controller.records import Profile, ProfileNode
from enginebench_controller.stats.profiles import mean_ns, ratio


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


def savings_by_layer(profile: Profile, series: Series, expected: Estimate) -> Mapping[int, Saving]:
    """The saving of each layer by its position; layers that the engine made for itself, and untimed ones, have none.

    A part of the model that several layers run counts for the slowest of them. Empty where the profile is over another
    graph than the sweep.
    """
    if _names(profile.nodes) != _names(series.dense.nodes):
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


def _names(nodes: Sequence[ProfileNode]) -> tuple[tuple[str, str], ...]:
    return tuple((node.op_type, node.name) for node in nodes)
