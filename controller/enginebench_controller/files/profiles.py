"""Profiles as JSON: what `profiles show --json` prints, and whole ones that travel and are read back once.

What is derived, such as means and shares, is not read back.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from enginebench_controller.files.benchmarks import SubjectForm, subject_document
from enginebench_controller.files.documents import Document, head
from enginebench_controller.files.forms import Count, Derived, DocumentForm, Form, OutcomeForm, Place, Sometimes
from enginebench_controller.files.reading import ExportFile, read_export
from enginebench_controller.graph.roofline import Roofline, rooflines
from enginebench_controller.records import (
    Bystanders,
    Coverage,
    EngineRef,
    HostFacts,
    Interval,
    Layer,
    LayerState,
    ModelWork,
    PassKind,
    Peak,
    Phase,
    Profile,
    ProfileNode,
)
from enginebench_controller.records.fields import BYSTANDERS, HOST, INTERVAL, PHASES, finite
from enginebench_controller.stats import layers as figures
from enginebench_controller.stats.layers import TypeTime
from enginebench_controller.store.store import Store


def profiles_document(profiles: Iterable[Profile], peaks: Sequence[Peak] = ()) -> Document:
    """Describe whole profiles; `peaks` are those of their targets."""
    return head("profiles") | {"profiles": [profile_document(profile, peaks) for profile in profiles]}


def profile_list_document(profiles: Iterable[Profile]) -> Document:
    """Describe profiles as a list, without what takes their layers or nodes to tell."""
    return head("profile_list") | {"profiles": [_heading(profile) for profile in profiles]}


def profile_document(profile: Profile, peaks: Sequence[Peak] = ()) -> Document:
    """Describe a profile with its figures, its layers in the order of execution, and the nodes of its model."""
    total = figures.total_ns(profile.layers)
    places = rooflines(profile, peaks)
    return {
        **_heading(profile),
        "figures": {
            "layers_ns": total,
            "layers_to_latency": figures.layers_to_latency(profile),
            "profiled_to_unprofiled": figures.profiled_to_unprofiled(profile),
        },
        "phases": PHASES.to_data(profile.phases),
        "host": HOST.to_data(profile.host),
        "plan": finite(profile.plan),
        "types": [asdict(one) for one in figures.by_type(profile.layers)],
        "layers": [_layer(layer, total, place) for layer, place in zip(profile.layers, places, strict=True)],
        "nodes": _nodes(profile.nodes),
    }


def _heading(profile: Profile) -> Document:
    return {
        **subject_document(profile),
        "name": profile.name,
        "order_id": profile.order_id,
        "imported": profile.imported,
        "created_at_unix_ns": profile.created_at_unix_ns,
        "kind": profile.kind.value,
        "imposed_sparsity": profile.imposed_sparsity,
        "optimization_level": profile.optimization_level,
        "iterations": profile.iterations,
        "profiled_latency_ns": profile.profiled_latency_ns,
        "unprofiled_latency_ns": profile.unprofiled_latency_ns,
        "coverage": _coverage(profile.coverage),
        "unmatched_reason": profile.unmatched_reason or None,
        "work": asdict(profile.work) if profile.work else None,
        "model_size_bytes": profile.model_size_bytes,
        "peak_rss_bytes": profile.peak_rss_bytes,
        "bystanders": BYSTANDERS.to_data(profile.bystanders),
    }


def _coverage(coverage: Coverage | None) -> Document | None:
    return None if coverage is None else {**asdict(coverage), "matched_share": coverage.share}


def _layer(layer: Layer, total_ns: float | None, place: Roofline | None) -> Document:
    return {
        "name": layer.name,
        "type": layer.type,
        "order": layer.order,
        "state": layer.state.value,
        "mean_ns": figures.mean_ns(layer),
        "interval": INTERVAL.to_data(figures.interval(layer)),
        "share": figures.share(layer, total_ns),
        "flops": layer.flops,
        "data_bytes": layer.data_bytes,
        "roofline": finite(asdict(place)) if place else None,
        "time_ns": list(layer.time_ns),
        "calls": layer.calls,
        "kernel": layer.kernel or None,
        "precision": layer.precision or None,
        "output_shapes": [list(shape) for shape in layer.output_shapes],
        "source_nodes": list(layer.source_nodes),
        "inputs": list(layer.inputs),
        "outputs": list(layer.outputs),
        "parameters": dict(layer.parameters),
        "category": layer.category or None,
        "group": layer.group,
    }


def _nodes(nodes: Sequence[ProfileNode]) -> list[Document]:
    return [{**finite(asdict(node)), "state": node.state or None} for node in nodes]


Shape = tuple[Annotated[int, Field(ge=-(2**63), lt=2**63)], ...]
Names = tuple[str, ...]
Share = Annotated[float, Field(ge=0, le=1)]


class CoverageForm(Form):
    """`coverage` of a profile."""

    total_ns: Count
    matched_ns: Count
    unmatched_ns: Count
    largest_group_share: Share
    matched_share: Derived[Share | None]


class WorkForm(Form):
    """`work` of a profile."""

    macs: Count | None
    flops: Count | None
    parameters: Count | None
    nonzero_parameters: Count | None
    weight_bytes: Count | None
    activation_bytes: Count | None
    coverage: Share | None


class LayerForm(Form):
    """One of `layers`; what was not timed has no mean, which is not a mean of 0."""

    name: str
    type: str
    order: Count
    state: LayerState
    mean_ns: Derived[float | None]
    interval: Derived[Interval | None]
    share: Derived[float | None]
    roofline: Derived[Roofline | None]
    time_ns: tuple[Count, ...]
    calls: Count
    kernel: str | None
    precision: str | None
    output_shapes: tuple[Shape, ...]
    source_nodes: Names
    inputs: Names
    outputs: Names
    parameters: dict[str, str]
    category: str | None
    group: Place | None
    flops: Count | None
    data_bytes: Count | None

    def to_record(self) -> Layer:
        """Return the layer that was exported."""
        words = {"kernel": self.kernel or "", "precision": self.precision or "", "category": self.category or ""}
        return self.to(Layer, **words)


class NodeForm(Form):
    """One of `nodes`."""

    index: Place
    name: str
    op_type: str
    domain: str
    inputs: Names
    outputs: Names
    weights: Names
    output_shapes: tuple[Shape | None, ...]
    attributes: dict[str, Any]
    folded: bool
    macs: Count | None
    flops: Count | None
    parameters: Count | None
    nonzero_parameters: Count | None
    weight_bytes: Count | None
    activation_bytes: Count | None
    method: str
    state: str | None
    group: Place | None

    def to_record(self) -> ProfileNode:
        """Return the node that was exported."""
        plain = {name: tuple(one) if isinstance(one, list) else one for name, one in self.attributes.items()}
        return self.to(ProfileNode, attributes=plain, state=self.state or "")


class PassForm(SubjectForm):
    """A profile without what takes its layers or nodes to tell."""

    name: str
    order_id: str | None
    imported: Derived[bool]
    created_at_unix_ns: Count
    kind: Derived[PassKind]
    imposed_sparsity: Derived[float | None]
    optimization_level: Derived[int | None]
    iterations: Count | None
    profiled_latency_ns: Count | None
    unprofiled_latency_ns: Count | None
    coverage: CoverageForm | None
    unmatched_reason: str | None
    work: WorkForm | None
    model_size_bytes: Count | None
    peak_rss_bytes: Derived[int | None]
    bystanders: Bystanders | None = None


class FiguresForm(Form):
    """`figures` of a profile: the sum of its layers, also ÷ the latency, and what the counters cost."""

    layers_ns: float | None
    layers_to_latency: float | None
    profiled_to_unprofiled: float | None


class ProfileForm(PassForm):
    """One of `profiles`."""

    figures: Derived[FiguresForm]
    phases: tuple[Phase, ...]
    host: HostFacts
    plan: dict[str, Any]
    types: Derived[tuple[TypeTime, ...]]
    layers: tuple[LayerForm, ...]
    nodes: tuple[NodeForm, ...]

    @model_validator(mode="after")
    def _layers_are_of_the_same_inferences(self) -> Self:
        counts = {len(layer.time_ns) for layer in self.layers} - {0}
        if len(counts) > 1:
            raise ValueError(f"its layers' time_ns tell of {' and '.join(map(str, sorted(counts)))} inferences")
        return self

    @model_validator(mode="after")
    def _nodes_are_in_their_order(self) -> Self:
        for place, node in enumerate(self.nodes):
            if node.index != place:
                raise ValueError(f"its node {place}, counted from 0, has the index {node.index}")
        return self

    def to_record(self) -> Profile:
        """Return the profile that was exported, marked as imported."""
        return self.to(
            Profile,
            engine=self.engine.to(EngineRef),
            model_digest=self.model.digest,
            model_name=self.model.name,
            coverage=self.coverage.to(Coverage) if self.coverage else None,
            work=self.work.to(ModelWork) if self.work else None,
            unmatched_reason=self.unmatched_reason or "",
            layers=tuple(form.to_record() for form in self.layers),
            nodes=tuple(form.to_record() for form in self.nodes),
            imported=True,
        )


class ProfilesDocument(DocumentForm):
    """Whole profiles: those that were asked for, an export of some, or, with their outcome, those just made."""

    document = "profiles"

    kind: Derived[str]
    profiles: tuple[ProfileForm, ...]
    outcome: Sometimes[OutcomeForm]


class ProfileListDocument(DocumentForm):
    """All profiles, newest first."""

    document = "profile_list"

    profiles: tuple[PassForm, ...]


def import_profiles(store: Store, file: ExportFile) -> tuple[str, ...]:
    """Store what an export holds and return the ids that are new here, marked as imported; all or none.

    Raises `InputError` for a file that is not such an export, made by a newer enginebench or damaged.
    """
    return store.add_profiles([form.to_record() for form in read_export(file, ProfilesDocument).profiles])
