"""The shape of exported profiles as it is read back: the public documents, checked and turned into records.

What is derived, such as means and shares, is not read back.
"""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from enginebench_controller.exchange.benchmark_form import Count, EngineForm, Form, Id, ModelForm
from enginebench_controller.records import (
    Configuration,
    Coverage,
    Effective,
    EngineRef,
    Failure,
    Layer,
    LayerState,
    ModelWork,
    Phase,
    Profile,
    ProfileNode,
    Status,
)

Shape = tuple[Annotated[int, Field(ge=-(2**63), lt=2**63)], ...]
Names = tuple[str, ...]
Place = Annotated[int, Field(ge=0, lt=2**31)]
Share = Annotated[float, Field(ge=0, le=1)]


class CoverageForm(Form):
    """`coverage` of a profile."""

    total_ns: Count
    matched_ns: Count
    unmatched_ns: Count
    largest_group_share: Share


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
    """One of `layers`."""

    name: str
    type: str
    order: Count
    state: LayerState
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
        return Layer(**{**dict(self), **words})


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
        return ProfileNode(**{**dict(self), "attributes": plain, "state": self.state or ""})


class ProfileForm(Form):
    """One of `profiles`."""

    id: Id
    name: str
    target: str
    engine: EngineForm
    model: ModelForm
    configuration: Configuration
    effective: Effective
    status: Status
    failure: Failure | None
    created_at_unix_ns: Count
    order_id: str | None
    iterations: Count | None
    profiled_latency_ns: Count | None
    unprofiled_latency_ns: Count | None
    coverage: CoverageForm | None
    work: WorkForm | None
    unmatched_reason: str | None
    model_size_bytes: Count | None
    phases: tuple[Phase, ...]
    host: dict[str, Any]
    plan: dict[str, Any]
    layers: tuple[LayerForm, ...]
    nodes: tuple[NodeForm, ...]

    @model_validator(mode="after")
    def _layers_are_of_the_same_inferences(self) -> Self:
        counts = {len(layer.time_ns) for layer in self.layers} - {0}
        if len(counts) > 1:
            raise ValueError(f"its layers' time_ns tell of {' and '.join(map(str, sorted(counts)))} inferences")
        return self

    def to_record(self) -> Profile:
        """Return the profile that was exported, marked as imported."""
        others = ("engine", "model", "coverage", "work", "unmatched_reason", "layers", "nodes")
        return Profile(
            **{name: value for name, value in self if name not in others},
            engine=EngineRef(self.engine.name, self.engine.environment, self.engine.version),
            model_digest=self.model.digest,
            model_name=self.model.name,
            coverage=Coverage(**dict(self.coverage)) if self.coverage else None,
            work=ModelWork(**dict(self.work)) if self.work else None,
            unmatched_reason=self.unmatched_reason or "",
            layers=tuple(form.to_record() for form in self.layers),
            nodes=tuple(form.to_record() for form in self.nodes),
            imported=True,
        )


class ProfilesForm(Form):
    """A whole export of profiles."""

    profiles: tuple[ProfileForm, ...]
