"""Profiles: the outcome of a per-layer pass, never mixed with a measurement.

What a profile amounts to (means, intervals, shares, totals) is not kept but worked out: see stats/profiles.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from enginebench_controller.records.configuration import Configuration
from enginebench_controller.records.run import Bystanders, Effective, Failure, Phase, Status
from enginebench_controller.records.target import EngineRef, HostFacts
from enginebench_proto.agreed.words import LayerState


class PassKind(StrEnum):
    """What a pass was for: to see the model as it is, or as it would be with zeros imposed on its weights."""

    AS_GIVEN = "as_given"
    IMPOSED_SPARSITY = "imposed_sparsity"


@dataclass(frozen=True)
class Layer:
    """One executed layer; `time_ns` has one entry a profiled inference, and none where the engine gave no time.

    Of an engine that tells means only it has one, the mean over all inferences (`Profile.tells_means`).

    `inputs` and `outputs` name tensors of the graph that the engine runs, `parameters` tell of the run in its words.
    Matching adds `category`, as matching.LayerCategory or "" where nothing was matched, and `group`: layers and source
    nodes of the same group are each other's counterparts. A group's only timed layer has the work of all its nodes:
    `flops` (1 MAC is 2, zeros counted) and `data_bytes`, what crosses the group's border; None where unknown.
    """

    name: str
    type: str
    order: int
    state: LayerState
    time_ns: tuple[int, ...]
    calls: int
    kernel: str
    precision: str
    output_shapes: tuple[tuple[int, ...], ...]
    source_nodes: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    category: str = ""
    group: int | None = None
    flops: int | None = None
    data_bytes: int | None = None


class CountMethod(StrEnum):
    """How the operations of a node are known. AT_MOST: of branches between which the data decide, the larger counts."""

    COUNTED = "counted"
    AT_MOST = "at most"
    ZERO = "zero by nature"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ProfileNode:
    """A node of the model as given, with the work it asks for and where it went; None where unknown.

    `macs` and `flops` (1 MAC = 2 FLOPs) come with the `method` of `CountMethod`; `activation_bytes` are those of
    inputs and outputs, once. `state` is that of matching.NodeState, or "" where nothing was matched. `folded`: the
    node depends on no input.
    """

    index: int
    name: str
    op_type: str
    domain: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    output_shapes: tuple[tuple[int, ...] | None, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    folded: bool = False
    macs: int | None = None
    flops: int | None = None
    parameters: int | None = None
    nonzero_parameters: int | None = None
    weight_bytes: int | None = None
    activation_bytes: int | None = None
    method: str = CountMethod.UNKNOWN.value
    state: str = ""
    group: int | None = None


def is_at_most(nodes: Iterable[ProfileNode]) -> bool:
    """Whether the work of these nodes is a bound."""
    return any(node.method == CountMethod.AT_MOST for node in nodes)


@dataclass(frozen=True)
class ModelWork:
    """What one inference of the whole model asks for; None where unknown.

    `parameters` counts each weight once, however many nodes read it. `flops` is the sum over the nodes that are known,
    which are `coverage` of all that compute; None where one of the others may have products (see flops.ModelCost).
    """

    macs: int | None
    flops: int | None
    parameters: int | None
    nonzero_parameters: int | None
    weight_bytes: int | None
    activation_bytes: int | None
    coverage: float | None


@dataclass(frozen=True)
class Coverage:
    """How much of a profile's time was led back to source nodes: sums of the layers' mean times in nanoseconds.

    `matched_ns` + `unmatched_ns` = `total_ns`, exactly. `largest_group_share` is the share of the source nodes that the
    largest group has; one giant group would match everything and tell nothing.
    """

    total_ns: int
    matched_ns: int
    unmatched_ns: int
    largest_group_share: float

    @property
    def share(self) -> float | None:
        """The matched share of the time; None where no layer took any."""
        return self.matched_ns / self.total_ns if self.total_ns else None


@dataclass(frozen=True)
class Profile:
    """The outcome of one per-layer pass.

    Latencies are medians of single inferences, of the same configuration with and without counters. `nodes` is the
    graph as given; where there is none, `unmatched_reason` says why, and `work` and `coverage` are None. `host` is what
    the target said of its machine then, `plan` what was asked for, and passes of one command share an `order_id`.
    `bystanders` are who else used the machine meanwhile, None where nobody looked.
    """

    id: str
    name: str
    target: str
    engine: EngineRef
    model_digest: str
    model_name: str
    configuration: Configuration
    status: Status
    created_at_unix_ns: int
    failure: Failure | None = None
    effective: Effective = field(default_factory=Effective)
    iterations: int | None = None
    profiled_latency_ns: int | None = None
    unprofiled_latency_ns: int | None = None
    layers: tuple[Layer, ...] = ()
    nodes: tuple[ProfileNode, ...] = ()
    work: ModelWork | None = None
    coverage: Coverage | None = None
    unmatched_reason: str = ""
    model_size_bytes: int | None = None
    phases: tuple[Phase, ...] = ()
    host: HostFacts = field(default_factory=HostFacts)
    plan: Mapping[str, Any] = field(default_factory=dict)
    order_id: str | None = None
    imported: bool = False
    bystanders: Bystanders | None = None

    @property
    def tells_means(self) -> bool:
        """Whether layers have their means over the inferences only, so that no spread is known and no interval."""
        return (self.iterations or 1) > 1 and any(len(layer.time_ns) == 1 for layer in self.layers)

    @property
    def imposed_sparsity(self) -> float | None:
        """The share of weights that the engine was to take for zero, 0 included; None where it was not asked to."""
        return self.configuration.imposed_sparsity

    @property
    def optimization_level(self) -> int | None:
        """How much the engine was to rewrite the graph, as asked; None where it was not asked."""
        return self.configuration.optimization_level

    @property
    def kind(self) -> PassKind:
        """What the pass was for."""
        return PassKind.IMPOSED_SPARSITY if self.imposed_sparsity else PassKind.AS_GIVEN

    @property
    def peak_rss_bytes(self) -> int | None:
        """The most memory that the pass occupied until it opened the network with counters; None where no phase tells.

        With that there are two networks, and what an engine keeps of each layer each time. Where it is the only one,
        as in an analysis, all phases count.
        """
        names = [phase.name for phase in self.phases]
        again = next((place for place, name in enumerate(names) if name in names[:place]), None)
        known = (phase.peak_rss_bytes for phase in self.phases[:again])
        return max((peak for peak in known if peak is not None), default=None)


@dataclass(frozen=True)
class ProfileEntry:
    """A profile as it stands in a list; fields are those of `Profile`, `precision` is the one asked for.

    `total_ns` and `matched_ns` are sums of the layers' mean times, None where nothing was matched.
    """

    id: str
    name: str
    created_at_unix_ns: int
    target: str
    engine: EngineRef
    model_digest: str
    model_name: str
    device: str
    batch: int
    cores: int
    precision: str
    status: Status
    imposed_sparsity: float | None = None
    optimization_level: int | None = None
    profiled_latency_ns: int | None = None
    unprofiled_latency_ns: int | None = None
    total_ns: int | None = None
    matched_ns: int | None = None
    order_id: str | None = None
    imported: bool = False
    cluster: str = ""


@dataclass(frozen=True)
class PassOrder:
    """What the profiles of one command have in common; `hosts` has the facts of each target's machine by its name."""

    id: str
    name: str | None
    created_at_unix_ns: int
    plan: Mapping[str, Any]
    hosts: Mapping[str, HostFacts]
