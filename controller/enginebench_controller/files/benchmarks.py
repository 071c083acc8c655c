"""Benchmarks as JSON: what `--json` prints, and whole ones with raw samples that travel and are read back once.

Every document is valid RFC 8259 (no NaN), names its units, writes unknown as null, and carries `schema_version`, which
grows only when something is removed or changes its meaning; new fields may appear at any time.

An export holds the same, each measurement with its blocks, `samples` and
`captured_outputs` added. An import is checked whole before anything is stored, and stored in one transaction.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, PlainValidator, create_model, model_validator

from enginebench_controller.files.documents import ExportKind, read_export
from enginebench_controller.records import (
    Benchmark,
    Block,
    BlockSamples,
    CapturedOutput,
    Configuration,
    Effective,
    Engine,
    EngineRef,
    Failure,
    Grounds,
    HostFacts,
    Interval,
    LatencySummary,
    Measurement,
    ModelVersion,
    OutputCheck,
    Phase,
    Process,
    Profile,
    Status,
    TargetSnapshot,
)
from enginebench_controller.records.fields import (
    BLOCK,
    CONFIGURATION,
    EFFECTIVE,
    ENGINES,
    FAILURE,
    GROUNDS,
    HOST,
    INTERVAL,
    LATENCY,
    MODEL_FILES,
    OUTPUT_CHECK,
    PHASES,
    PROCESSES,
    ToldBlock,
    finite,
    from_float32_bytes,
    to_float32_bytes,
)
from enginebench_controller.records.figures import derived_values, figures, values
from enginebench_controller.store.measurements import BenchmarkEntry
from enginebench_controller.store.store import BenchmarkBundle, Store
from enginebench_controller.verdicts.disturbances import summarize_evidence
from enginebench_controller.verdicts.doubts import flags, marks
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.parity import unequal_settings
from enginebench_controller.verdicts.soundness import of_benchmark

SCHEMA_VERSION = 2
"""2: percentiles are a list with intervals, inputs are an `input_set`, and an export holds samples by the block."""

Document = dict[str, Any]


def benchmark_document(
    benchmark: Benchmark,
    measurements: Sequence[Measurement],
    snapshots: Iterable[TargetSnapshot],
    models: Iterable[ModelVersion] = (),
    *,
    with_blocks: bool = False,
    answers: Sequence[Document] | None = None,
) -> Document:
    """Describe a benchmark with its targets as they were, its measurements, and remarks on their comparability.

    `models`, all those of the store, tell which versions are to compute the same, for the output check. With
    `with_blocks` each measurement also lists its blocks with their evidence. `answers` stand before all else.
    """
    known = tuple(models)
    checks = check_outputs(measurements, known)
    described = [measurement_document(one, checks.get(one.id), with_blocks=with_blocks) for one in measurements]
    return {
        "schema_version": SCHEMA_VERSION,
        **({} if answers is None else {"answers": list(answers)}),
        "benchmark": {**_heading(benchmark), "plan": finite(benchmark.plan)},
        "targets": [target_document(snapshot) for snapshot in snapshots],
        "measurements": described,
        "remarks": list(unequal_settings(measurements)),
        "outcome": of_benchmark(benchmark, measurements, known).document,
    }


def measurement_document(
    measurement: Measurement, output_check: OutputCheck | None = None, *, with_blocks: bool = False
) -> Document:
    """Describe one measurement without its raw samples. `flags` says what to know before trusting it."""
    blocks = {"blocks": [BLOCK.to_data(block) for block in measurement.blocks]} if with_blocks else {}
    return {
        **subject_document(measurement),
        **finite(values(measurement) | derived_values(measurement)),
        "phases": PHASES.to_data(measurement.phases),
        "latency": _latency(measurement.latency) if measurement.latency else None,
        "throughput_interval": INTERVAL.to_data(measurement.throughput_interval),
        "processes": PROCESSES.to_data(measurement.processes),
        "grounds": GROUNDS.to_data(measurement.grounds),
        "evidence": _evidence(measurement.blocks),
        "output_check": OUTPUT_CHECK.to_data(output_check),
        "flags": list(flags(measurement)),
        "marks": [mark.value for mark in marks(measurement)],
        **blocks,
    }


def benchmark_list_document(entries: Iterable[BenchmarkEntry]) -> Document:
    """Describe benchmarks as a list: what each covered and how many of its measurements ended how."""
    return {
        "schema_version": SCHEMA_VERSION,
        "benchmarks": [
            {
                **_heading(entry.benchmark),
                "measurements": entry.measurements,
                "statuses": {status.value: count for status, count in entry.counts.items()},
                "models": list(entry.models),
                "engines": list(entry.engines),
                "targets": list(entry.targets),
            }
            for entry in entries
        ],
    }


def target_document(snapshot: TargetSnapshot) -> Document:
    """Describe what a target said of itself: host facts and engines."""
    return {
        "name": snapshot.target,
        "address": snapshot.address,
        "seen_at_unix_ns": snapshot.seen_at_unix_ns,
        "host": HOST.to_data(snapshot.host),
        "engines": ENGINES.to_data(snapshot.engines),
    }


def model_document(model: ModelVersion) -> Document:
    """Describe a model version."""
    return {
        "digest": model.digest,
        "name": model.name,
        "format": model.format,
        "size_bytes": model.size_bytes,
        "files": MODEL_FILES.to_data(model.files),
        "created_at_unix_ns": model.created_at_unix_ns,
        "parent_digest": model.parent_digest,
        "derivation": str(model.derivation) if model.derivation else None,
    }


def engine_document(engine: EngineRef) -> Document:
    """Describe which engine ran."""
    return {"name": engine.name, "version": engine.version, "environment": engine.environment}


def subject_document(outcome: Measurement | Profile) -> Document:
    """Describe what measurements and profiles share: what ran where, and how it ended."""
    return {
        "id": outcome.id,
        "target": outcome.target,
        "engine": engine_document(outcome.engine),
        "model": {"name": outcome.model_name, "digest": outcome.model_digest},
        "device": outcome.configuration.device,
        "configuration": CONFIGURATION.to_data(outcome.configuration),
        "effective": EFFECTIVE.to_data(outcome.effective),
        "status": outcome.status.value,
        "failure": FAILURE.to_data(outcome.failure) if outcome.failure else None,
    }


def _heading(benchmark: Benchmark) -> Document:
    created = datetime.fromtimestamp(benchmark.created_at_unix_ns / 1e9, UTC)
    return {
        "id": benchmark.id,
        "name": benchmark.name,
        "created_at": created.isoformat(timespec="milliseconds"),
        "created_at_unix_ns": benchmark.created_at_unix_ns,
        "rerun_of": benchmark.rerun_of,
        "imported": benchmark.imported,
    }


def _latency(latency: LatencySummary) -> Document:
    described: Document = LATENCY.to_data(latency)
    return {**described, "median_relative_half_width": finite(latency.median_relative_half_width)}


def _evidence(blocks: Sequence[Block]) -> Document | None:
    """What the machine was doing, summarized; None where no block was kept, so that nothing is known."""
    if not blocks:
        return None
    summary = summarize_evidence(blocks)
    return {
        "blocks": summary.blocks,
        "disturbed_blocks": summary.disturbed_blocks,
        "disturbed_share": summary.disturbed_share,
        "disturbances": dict(summary.disturbances),
        "missing": dict(summary.missing),
    }


Id = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Series = list[Count]


class Form(BaseModel):
    """Base: numbers must be numbers, and fields that a later version added are passed over."""

    model_config = ConfigDict(extra="ignore", strict=True, defer_build=True)


def figure_fields(record: type) -> dict[str, Any]:
    """The figures of a record as fields of a form, whole numbers never below zero, and none that may be left out."""
    hints = get_type_hints(record)
    return {name: (hints[name] if hints[name] != int | None else Count | None, ...) for name in figures(record)}


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


class _MeasurementForm(Form):
    """One of `measurements`; what is derived, such as its flags, is not read back."""

    id: Id
    target: str
    engine: EngineForm
    model: ModelForm
    configuration: Configuration
    effective: Effective
    status: Status
    failure: Failure | None
    phases: tuple[Phase, ...]
    processes: tuple[Process, ...]
    blocks: tuple[ToldBlock, ...]
    latency: LatencySummary | None
    throughput_interval: Interval | None
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
            failure=self.failure,
            effective=self.effective,
            phases=self.phases,
            processes=self.processes,
            blocks=self.blocks,
            latency=self.latency,
            throughput_interval=self.throughput_interval,
            captured_outputs=tuple(form.to_record() for form in self.captured_outputs),
            grounds=self.grounds,
            **{name: getattr(self, name) for name in figures(Measurement)},
        )

    def to_samples(self) -> tuple[BlockSamples, ...]:
        """Return its raw samples, block by block."""
        return tuple(form.to_record() for form in self.samples)


if TYPE_CHECKING:
    MeasurementForm = _MeasurementForm
else:
    MeasurementForm = create_model("MeasurementForm", __base__=_MeasurementForm, **figure_fields(Measurement))


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
    host: HostFacts
    engines: Annotated[tuple[Engine, ...], PlainValidator(ENGINES.from_data)]

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


KIND = "enginebench-export"
_EXPORT = ExportKind(KIND, "enginebench export ID --output FILE", SCHEMA_VERSION, ExportForm)


def export_benchmarks(store: Store, benchmark_ids: Sequence[str]) -> str:
    """Return the text of an export of these benchmarks, raw samples included, each benchmark once.

    Raises `InputError` for an id the store does not have.
    """
    bundles = [store.bundle(benchmark_id) for benchmark_id in dict.fromkeys(benchmark_ids)]
    export = {"schema_version": SCHEMA_VERSION, "kind": KIND, "benchmarks": [_exported(one) for one in bundles]}
    return json.dumps(export, allow_nan=False)


def import_benchmarks(store: Store, path: Path) -> tuple[str, ...]:
    """Store what an export holds and return the ids of the benchmarks that brought something new.

    Ids are kept, so importing again changes nothing; new benchmarks are marked as imported. Raises `InputError` for a
    file that is missing, not an export, made by a newer enginebench or damaged; nothing is stored then.
    """
    export = read_export(path, _EXPORT)
    return store.add_bundles([form.to_bundle() for form in export.benchmarks])


def _exported(bundle: BenchmarkBundle) -> Document:
    document = benchmark_document(bundle.benchmark, bundle.measurements, bundle.snapshots, with_blocks=True)
    for described, measurement in zip(document["measurements"], bundle.measurements, strict=True):
        described["samples"] = [samples_data(one) for one in bundle.samples.get(measurement.id, ())]
        described["captured_outputs"] = [output_data(one) for one in measurement.captured_outputs]
    return document
