"""A piece of advice, and what the rules that give it look at."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from enginebench_controller.graph.matching.kinds import family
from enginebench_controller.graph.roofline import Roofline
from enginebench_controller.records import Layer, ModelVersion, Peak, Profile
from enginebench_controller.stats.layers import (
    layers_to_latency,
    mean_ns,
    profiled_to_unprofiled,
    ratio,
    spread,
    total_ns,
)
from enginebench_controller.verdicts.layers.rows import node_with_most_work

PRODUCTS = frozenset({"Conv", "ConvTranspose", "MatMul"})
"""Operators, as matching's families have them, whose work quantizing is about."""
_BOUNDS_ONLY = 1.5
"""From so much of the latency on, that counters made of it, shares of layers are bounds and no more."""
_TOO_WIDE = 0.3
"""A layer whose mean is uncertain by more than this share of it has no place among the layers."""
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
    `int8_versions` those made of its model already, newest first; `is_model_gone`: no library here has it any more.
    """

    profile: Profile
    against: Profile | None = None
    peaks: tuple[Peak, ...] = ()
    places: tuple[Roofline | None, ...] = ()
    imposed: tuple[Profile, ...] = ()
    int8_versions: tuple[ModelVersion, ...] = ()
    is_model_gone: bool = False

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

    @cached_property
    def shares_are_bounds(self) -> bool:
        """Whether counters are so much of the layers' times that a share only bounds what it would be without them.

        Some engines spend that time between the layers' own, whose sum tells: then shares are what they seem.
        """
        found = profiled_to_unprofiled(self.profile), layers_to_latency(self.profile)
        return all(one is not None and one > _BOUNDS_ONLY for one in found)

    def is_overstated(self, positions: Iterable[int]) -> bool:
        """Whether counters make the share of these layers too large: they are shorter than layers are on the whole.

        Counters cost a layer about the same, whatever it takes: ONNX Runtime was seen to spend some 6 µs on each.
        """
        return self.shares_are_bounds and self._relative_length(positions) < 1

    def share_words(self, positions: Sequence[int]) -> str:
        """The part of the time that these layers take together; where it is but a bound, with the side it is of."""
        return self.bound_words(positions) + percent(self.share(positions) or 0.0)

    def bound_words(self, positions: Sequence[int]) -> str:
        """On which side of their share that is without counters: "at least " or "at most "; "" where it is that."""
        length = self._relative_length(positions)
        if not self.shares_are_bounds or length == 1:
            return ""
        return "at least " if length > 1 else "at most "

    def _relative_length(self, positions: Iterable[int]) -> float:
        """The mean time of these layers ÷ that of all; 1 where either is unknown."""
        wanted = set(positions)
        times = [time for position, _, time in self.timed if position in wanted]
        whole = ratio(self.total_ns, len(self.timed))
        return ratio(sum(times) / len(times), whole) or 1.0 if times else 1.0

    def is_uneven(self, position: int) -> bool:
        """Whether the time of a layer is too uncertain for its mean to be gone by, as where one inference was held up.

        Never of a mean without a spread.
        """
        found = spread(self.profile.layers[position])
        return found is not None and found > _TOO_WIDE

    def nodes_words(self, layer: Layer) -> str:
        """What a layer runs of the model: "conv1 and 2 more nodes", the node with most work first.

        "" where none is known, or where the layer goes by the name of its only one.
        """
        own = [node for node in self.profile.nodes if layer.group is not None and node.group == layer.group]
        main = node_with_most_work(own)
        names = dict.fromkeys([*([main.name] if main else []), *(node.name for node in own)] or layer.source_nodes)
        known = [name for name in names if name]
        if not known or known == [layer.name]:
            return ""
        more = len(known) - 1
        return known[0] + (f" and {counted(more, 'more node')}" if more else "")

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


def counted(number: int, noun: str) -> str:
    """A number of things: "1 layer", "2 layers"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """A share as a person reads it."""
    return f"{100 * share:.1f} %"
