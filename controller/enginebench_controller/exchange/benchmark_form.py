"""The shape of an export as it is read back: the public documents, checked field by field and turned into records."""

import base64
from math import prod
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, model_validator

from enginebench_controller.records import (
    Benchmark,
    Block,
    BlockSamples,
    CapturedOutput,
    Configuration,
    Effective,
    EngineRef,
    Failure,
    Grounds,
    Interval,
    LatencySummary,
    Measurement,
    Phase,
    Process,
    Status,
    TargetSnapshot,
)
from enginebench_controller.records.float32_bytes import from_float32_bytes, to_float32_bytes
from enginebench_controller.store.store import BenchmarkBundle

Id = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Series = list[Count]


class Form(BaseModel):
    """Base: numbers must be numbers, and fields that a later version added are passed over."""

    model_config = ConfigDict(extra="ignore", strict=True, defer_build=True)


class EngineForm(Form):
    """`engine` of a measurement."""

    name: str
    version: str | None
    environment: str


class ModelForm(Form):
    """`model` of a measurement."""

    name: str
    digest: str


class SamplesForm(Form):
    """One of `samples`: those of one block, in nanoseconds. The instants are there only under an open loop."""

    process: Count
    block: Count
    latency_ns: Series
    scheduled_ns: Series | None = None
    sent_ns: Series | None = None
    completed_ns: Series | None = None

    @model_validator(mode="after")
    def _as_long_as_each_other(self) -> Self:
        for series in (self.scheduled_ns, self.sent_ns, self.completed_ns):
            if series is not None and len(series) != len(self.latency_ns):
                raise ValueError("the series of a block differ in length")
        return self

    def to_record(self) -> BlockSamples:
        """Return the samples that were exported."""
        instants = (_array(self.scheduled_ns), _array(self.sent_ns), _array(self.completed_ns))
        return BlockSamples(self.process, self.block, np.asarray(self.latency_ns, dtype=np.int64), *instants)


class OutputForm(Form):
    """One of `captured_outputs`; `values` are little-endian float32 as base64."""

    input_index: Count
    name: str
    dtype: str
    shape: tuple[Count, ...]
    stride: Annotated[int, Field(ge=1, le=2**63 - 1)]
    values: Base64Bytes

    @model_validator(mode="after")
    def _as_many_as_the_shape_has(self) -> Self:
        if len(self.values) % 4:
            raise ValueError("the values end within an element")
        if len(self.values) // 4 != -(-prod(self.shape) // self.stride):
            raise ValueError(f"{len(self.values) // 4} values are not every {self.stride}th of the shape {self.shape}")
        return self

    def to_record(self) -> CapturedOutput:
        """Return the output that was exported."""
        values = from_float32_bytes(self.values)
        return CapturedOutput(self.input_index, self.name, self.dtype, self.shape, self.stride, values)


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
    throughput_items_per_s: float | None
    processes: tuple[Process, ...]
    blocks: tuple[Block, ...]
    latency: LatencySummary | None
    throughput_interval: Interval | None
    process_spread: float | None
    interleaving_group: str | None
    grounds: Grounds = Grounds()
    samples: tuple[SamplesForm, ...]
    captured_outputs: tuple[OutputForm, ...]

    def to_record(self, benchmark_id: str) -> Measurement:
        """Return the measurement that was exported, without its raw samples."""
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
            throughput_items_per_s=self.throughput_items_per_s,
            processes=self.processes,
            blocks=self.blocks,
            latency=self.latency,
            throughput_interval=self.throughput_interval,
            process_spread=self.process_spread,
            captured_outputs=tuple(form.to_record() for form in self.captured_outputs),
            interleaving_group=self.interleaving_group,
            grounds=self.grounds,
        )

    def to_samples(self) -> tuple[BlockSamples, ...]:
        """Return its raw samples, block by block."""
        return tuple(form.to_record() for form in self.samples)


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
            {form.id: form.to_samples() for form in self.measurements},
        )


class ExportForm(Form):
    """A whole file, after its kind and version were checked."""

    benchmarks: tuple[BenchmarkForm, ...]


def samples_data(samples: BlockSamples) -> dict[str, Any]:
    """Return what `SamplesForm` reads back."""
    instants = {"scheduled_ns": samples.scheduled_ns, "sent_ns": samples.sent_ns, "completed_ns": samples.completed_ns}
    present = {name: values.tolist() for name, values in instants.items() if values is not None}
    return {"process": samples.process, "block": samples.block, "latency_ns": samples.latency_ns.tolist(), **present}


def output_data(output: CapturedOutput) -> dict[str, Any]:
    """Return what `OutputForm` reads back."""
    return {
        "input_index": output.input_index,
        "name": output.name,
        "dtype": output.dtype,
        "shape": list(output.shape),
        "stride": output.stride,
        "values": base64.b64encode(to_float32_bytes(output.values)).decode("ascii"),
    }


def _array(series: list[int] | None) -> NDArray[np.int64] | None:
    return None if series is None else np.asarray(series, dtype=np.int64)
