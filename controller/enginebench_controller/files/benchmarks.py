"""Benchmarks as JSON: what `--json` prints of them, of targets and of model versions, each beside its form.

Every document is valid RFC 8259 (no NaN), names its units, writes unknown as null, and carries `schema_version`.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import ValidatorFunctionWrapHandler, WrapValidator, model_validator

from enginebench_controller.files.documents import Document, head
from enginebench_controller.files.forms import (
    Count,
    Derived,
    DocumentForm,
    EngineForm,
    Form,
    Id,
    ModelForm,
    OutcomeForm,
    Sometimes,
    engine_document,
    with_fields_of,
    with_figures_of,
)
from enginebench_controller.records import (
    Benchmark,
    Block,
    Configuration,
    Effective,
    Engine,
    Failure,
    Grounds,
    HostFacts,
    Interval,
    LatencySummary,
    Measurement,
    ModelFile,
    ModelVersion,
    OutputCheck,
    Phase,
    Process,
    Profile,
    Search,
    SearchKind,
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
    ToldEngine,
    finite,
)
from enginebench_controller.records.figures import derived_values, values
from enginebench_controller.store.benchmarks import BenchmarkEntry
from enginebench_controller.store.searches import search_of
from enginebench_controller.verdicts.disturbances import EvidenceSummary, summarize_evidence
from enginebench_controller.verdicts.doubts import Mark, flags, marks
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.parity import unequal_settings
from enginebench_controller.verdicts.soundness import of_benchmark


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
        **head("benchmark"),
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


def benchmark_list_document(entries: Iterable[BenchmarkEntry], searches: Iterable[Search] = ()) -> Document:
    """Describe benchmarks as a list: what each covered and how many of its measurements ended how; and the searches."""
    return {
        **head("benchmarks"),
        "benchmarks": [
            {
                **_heading(entry.benchmark),
                "measurements": entry.measurements,
                "statuses": {status.value: count for status, count in entry.counts.items()},
                "models": list(entry.models),
                "engines": list(entry.engines),
                "targets": list(entry.targets),
                "search": search_of(entry.benchmark) or None,
            }
            for entry in entries
        ],
        "searches": [
            {
                "id": one.id,
                "kind": one.kind.value,
                "name": one.name,
                "created_at_unix_ns": one.created_at_unix_ns,
                "ended_at_unix_ns": one.ended_at_unix_ns,
            }
            for one in searches
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


class SubjectForm(Form):
    """What measurements and profiles share: what ran where, and how it ended."""

    id: Id
    target: str
    engine: EngineForm
    model: ModelForm
    device: Derived[str]
    configuration: Configuration
    effective: Effective
    status: Status
    failure: Failure | None

    @model_validator(mode="after")
    def _with_counts_that_can_be_kept(self) -> Self:
        chosen = self.configuration
        if not all(1 <= one < 2**31 for one in (chosen.batch, chosen.cores, chosen.streams, chosen.requests)):
            raise ValueError("a count of the configuration is out of range")
        return self


@with_fields_of(LatencySummary)
class LatencyForm(Form):
    """`latency` of a measurement: statistics over its raw latencies."""

    median_relative_half_width: Derived[float | None]


@with_figures_of(Measurement)
class MeasurementForm(SubjectForm):
    """One of `measurements`; `blocks` are there in exports, and where they are asked for."""

    phases: tuple[Phase, ...]
    latency: LatencyForm | None
    throughput_interval: Interval | None
    processes: tuple[Process, ...]
    grounds: Grounds = Grounds()
    evidence: Derived[EvidenceSummary | None]
    output_check: Derived[OutputCheck | None]
    flags: Derived[tuple[str, ...]]
    marks: Derived[tuple[Mark, ...]]
    blocks: Sometimes[tuple[ToldBlock, ...]]


class HeadingForm(Form):
    """A benchmark without what was measured."""

    id: Id
    name: str
    created_at: Derived[str]
    created_at_unix_ns: Count
    rerun_of: str | None
    imported: Derived[bool]


class PlannedForm(HeadingForm):
    """`benchmark` of a document; `plan` is the document that it can be run from again."""

    plan: dict[str, Any]


class ListedForm(HeadingForm):
    """One of a list of benchmarks: what it covered, and how many of its measurements ended how."""

    measurements: int
    statuses: dict[Status, int]
    models: tuple[str, ...]
    engines: tuple[str, ...]
    targets: tuple[str, ...]
    search: str | None


def _from_parts(data: Any, _: ValidatorFunctionWrapHandler) -> tuple[Engine, ...]:
    """Not strictly, since an engine is put together of its parts before it is looked at."""
    return ENGINES.from_data(data)


class TargetForm(Form):
    """What a target said of itself: host facts and engines."""

    name: str
    address: str
    seen_at_unix_ns: Count
    host: HostFacts
    engines: Annotated[tuple[ToldEngine, ...], WrapValidator(_from_parts)]


class ModelVersionForm(Form):
    """A model version."""

    digest: str
    name: str
    format: str
    size_bytes: int
    files: tuple[ModelFile, ...]
    created_at_unix_ns: int
    parent_digest: str | None
    derivation: str | None


class BenchmarkForm(DocumentForm):
    """A benchmark with its targets as they were, its measurements, and remarks on their comparability."""

    document = "benchmark"

    benchmark: PlannedForm
    targets: tuple[TargetForm, ...]
    measurements: tuple[MeasurementForm, ...]
    remarks: Derived[tuple[str, ...]]
    outcome: Derived[OutcomeForm]


class ListedSearchForm(Form):
    """A search in a list; not ended while it is under way, and where it was interrupted."""

    id: str
    kind: SearchKind
    name: str
    created_at_unix_ns: int
    ended_at_unix_ns: int | None


class BenchmarksDocument(DocumentForm):
    """All benchmarks, newest first, and the searches that some are steps of."""

    document = "benchmarks"

    benchmarks: tuple[ListedForm, ...]
    searches: tuple[ListedSearchForm, ...]
