"""A piece of advice, and what the rules that give it look at."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from enginebench_controller.graph.matching.kinds import family
from enginebench_controller.graph.roofline import Roofline
from enginebench_controller.records import Layer, ModelVersion, Peak, Profile
from enginebench_controller.stats.layers import mean_ns, ratio, total_ns

PRODUCTS = frozenset({"Conv", "ConvTranspose", "MatMul"})
"""Operators, as matching's families have them, whose work quantizing is about."""
_LAYERS_NAMED = 50
"""So many layers a piece of advice names at most, slowest first."""


class Severity(StrEnum):
    """What a piece of advice is for."""

    WARNING = "warning"
    """The numbers mislead unless this is known."""
    GAIN = "gain"
    """There is time to be gained."""
    NOTE = "note"
    """Worth knowing where time goes."""


@dataclass(frozen=True)
class AdvisedLayer:
    """A layer that advice is about: its place in the profile's layers, its name, and its mean time in nanoseconds."""

    position: int
    name: str
    time_ns: float | None


@dataclass(frozen=True)
class Advice:
    """What a rule found: a sentence with its numbers, the layers of `profile_id` it is about, and what to do.

    `evidence` has the numbers by name, with their units in it; shares are parts of 1.
    """

    rule: str
    severity: Severity
    sentence: str
    remedy: str
    profile_id: str
    evidence: Mapping[str, float | int | str] = field(default_factory=dict)
    layers: tuple[AdvisedLayer, ...] = ()


@dataclass(frozen=True)
class AdvisedProfile:
    """A profile with all that rules ask of it. `against` is another one it is compared with, `imposed` are the passes
    over its model with sparsity imposed, dense ones included; `places` are its layers under the roofs of the machine,
    `int8_versions` those made of its model already, newest first.
    """

    profile: Profile
    against: Profile | None = None
    peaks: tuple[Peak, ...] = ()
    places: tuple[Roofline | None, ...] = ()
    imposed: tuple[Profile, ...] = ()
    int8_versions: tuple[ModelVersion, ...] = ()

    @cached_property
    def total_ns(self) -> float | None:
        """The sum of the layers' mean times."""
        return total_ns(self.profile.layers)

    @cached_property
    def timed(self) -> tuple[tuple[int, Layer, float], ...]:
        """The layers that have a time, with their positions and mean times, slowest first."""
        timed = ((position, layer, mean_ns(layer)) for position, layer in enumerate(self.profile.layers))
        known = [(position, layer, time) for position, layer, time in timed if time is not None]
        return tuple(sorted(known, key=lambda one: (-one[2], one[0])))

    @cached_property
    def operators(self) -> Mapping[int, frozenset[str]]:
        """The families of operators that each group stands for."""
        found: dict[int, set[str]] = {}
        for node in self.profile.nodes:
            if node.group is not None:
                found.setdefault(node.group, set()).add(family(node.op_type))
        return {group: frozenset(families) for group, families in found.items()}

    def share(self, positions: Iterable[int]) -> float | None:
        """The part of the time that these layers take together."""
        wanted = set(positions)
        return ratio(sum(time for position, _, time in self.timed if position in wanted), self.total_ns)

    def named(self, positions: Iterable[int]) -> tuple[AdvisedLayer, ...]:
        """These layers as advice names them, slowest first."""
        wanted = set(positions)
        found = [AdvisedLayer(at, layer.name, time) for at, layer, time in self.timed if at in wanted]
        return tuple(found[:_LAYERS_NAMED])

    def products(self) -> tuple[int, ...]:
        """The timed layers that run a convolution or a matrix product, slowest first."""
        return tuple(at for at, layer, _ in self.timed if self._operators(layer) & PRODUCTS)

    def runs_only(self, layer: Layer, operators: Sequence[str] | frozenset[str]) -> bool:
        """Whether the layer stands for nodes of these operators and no others."""
        found = self._operators(layer)
        return bool(found) and found <= set(operators)

    def _operators(self, layer: Layer) -> frozenset[str]:
        """Those of its group; where no graph is known, the engine's own word for it."""
        if layer.group is not None:
            return self.operators.get(layer.group, frozenset())
        return frozenset() if self.profile.nodes else frozenset({_OWN_WORDS.get(layer.type.lower(), layer.type)})


_OWN_WORDS = {
    "convolution": "Conv",
    "fullyconnected": "MatMul",
    "conv": "Conv",
    "conv2d": "Conv",
    "gemm": "MatMul",
    "linear": "MatMul",
    "matmul": "MatMul",
}
"""What engines call products, for profiles of models without a graph."""


def percent(share: float) -> str:
    """A share as a person reads it."""
    return f"{100 * share:.1f} %"
