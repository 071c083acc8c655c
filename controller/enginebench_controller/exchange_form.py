"""The shape of an export as it is read back: the public documents, checked field by field and turned into records."""

from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from enginebench_controller.records import (
    Benchmark,
    Configuration,
    Effective,
    EngineRef,
    Failure,
    LatencySummary,
    Measurement,
    Phase,
    Status,
    TargetSnapshot,
)
from enginebench_controller.store.store import BenchmarkBundle

Id = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]


class Form(BaseModel):
    """Base: numbers must be numbers, and fields that a later version added are passed over."""

    model_config = ConfigDict(extra="ignore", strict=True)


class EngineForm(Form):
    """`engine` of a measurement."""

    name: str
    version: str | None
    environment: str


class ModelForm(Form):
    """`model` of a measurement."""

    name: str
    digest: str


class MeasurementForm(Form):
    """One of `measurements`; what is derived, such as its flags, is not read back."""

    id: Id
    target: str
    engine: EngineForm
    model: ModelForm
    configuration: Configuration
    effective: Effective
    status: Status
    failure: Failure | None
    started_at_unix_ns: Count | None
    phases: tuple[Phase, ...]
    iterations: Count | None
    steady_state_ns: Count | None
    cpu_time_ns: Count | None
    input_set_sha256: str | None
    latency: LatencySummary | None
    throughput_items_per_s: float | None
    samples_ns: list[Count] | None

    def to_record(self, benchmark_id: str) -> Measurement:
        """Return the measurement that was exported."""
        return Measurement(
            id=self.id,
            benchmark_id=benchmark_id,
            target=self.target,
            engine=EngineRef(self.engine.name, self.engine.environment, self.engine.version),
            model_digest=self.model.digest,
            model_name=self.model.name,
            configuration=self.configuration,
            status=self.status,
            started_at_unix_ns=self.started_at_unix_ns,
            failure=self.failure,
            effective=self.effective,
            phases=self.phases,
            iterations=self.iterations,
            steady_state_ns=self.steady_state_ns,
            cpu_time_ns=self.cpu_time_ns,
            input_set_sha256=self.input_set_sha256,
            latency=self.latency,
            throughput_items_per_s=self.throughput_items_per_s,
            samples_ns=None if self.samples_ns is None else np.asarray(self.samples_ns, dtype=np.int64),
        )


class HeadingForm(Form):
    """`benchmark` of a document."""

    id: Id
    name: str
    created_at_unix_ns: Count
    rerun_of: str | None
    plan: dict[str, Any]

    def to_record(self) -> Benchmark:
        """Return the benchmark that was exported, marked as imported."""
        return Benchmark(self.id, self.name, self.created_at_unix_ns, self.plan, self.rerun_of, imported=True)


class TargetForm(Form):
    """One of `targets`."""

    name: str
    address: str
    seen_at_unix_ns: Count
    host: dict[str, Any]
    engines: tuple[dict[str, Any], ...]

    def to_record(self) -> TargetSnapshot:
        """Return what the target said of itself."""
        return TargetSnapshot(self.name, self.address, self.seen_at_unix_ns, self.host, self.engines)


class BenchmarkForm(Form):
    """One benchmark with all that belongs to it."""

    benchmark: HeadingForm
    targets: tuple[TargetForm, ...]
    measurements: tuple[MeasurementForm, ...]

    def to_bundle(self) -> BenchmarkBundle:
        """Return everything that was exported."""
        return BenchmarkBundle(
            self.benchmark.to_record(),
            tuple(form.to_record(self.benchmark.id) for form in self.measurements),
            tuple(form.to_record() for form in self.targets),
        )


class ExportForm(Form):
    """A whole file, after its kind and version were checked."""

    benchmarks: tuple[BenchmarkForm, ...]
