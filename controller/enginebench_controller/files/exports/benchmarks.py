"""Whole benchmarks that travel: what `show --json` prints, with raw samples, written to a file and read back once.

Each measurement has its `blocks`, `samples` and `captured_outputs` added. An import is checked whole before anything is
stored, and stored in one transaction.
"""

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Base64Bytes, Field, model_validator

from enginebench_controller.files.benchmarks import BenchmarkForm, MeasurementForm, benchmark_document
from enginebench_controller.files.documents import Document, head
from enginebench_controller.files.forms import (
    Count,
    Derived,
    DocumentForm,
    Form,
    Place,
    Series,
    Sometimes,
    with_fields_of,
)
from enginebench_controller.files.reading import ExportFile, read_export
from enginebench_controller.records import (
    Benchmark,
    BlockSamples,
    CapturedOutput,
    Derivation,
    DerivationKind,
    EngineRef,
    LatencySummary,
    Measurement,
    ModelVersion,
    TargetSnapshot,
)
from enginebench_controller.records.fields import (
    DERIVATION,
    MODEL_FILES,
    ToldBlock,
    from_float32_bytes,
    to_float32_bytes,
)
from enginebench_controller.records.figures import values
from enginebench_controller.records.possible import why_impossible
from enginebench_controller.store.store import BenchmarkBundle, Store


class SamplesForm(Form):
    """One of `samples`: those of one block, in nanoseconds. The instants are there only under an open loop."""

    process: Place
    block: Place
    latency_ns: Series
    scheduled_ns: Sometimes[Series | None]
    sent_ns: Sometimes[Series | None]
    completed_ns: Sometimes[Series | None]

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


class ExportedMeasurementForm(MeasurementForm):
    """One of `measurements`; what is derived, such as its flags, is not read back."""

    blocks: tuple[ToldBlock, ...]
    samples: tuple[SamplesForm, ...]
    captured_outputs: tuple[OutputForm, ...]
    if TYPE_CHECKING:
        iterations: int | None  # of the figures, which only a running program adds
        throughput_items_per_s: float | None

    @model_validator(mode="after")
    def _with_all_of_its_samples(self) -> Self:
        found = sum(len(one.latency_ns) for one in self.samples)
        if found and self.iterations not in (None, found):
            raise ValueError(f"there are {found:,} samples of {self.iterations:,} iterations")
        return self

    @model_validator(mode="after")
    def _with_its_own_samples(self) -> Self:
        """Until 2026-11 exports of five measurements and more gave some of them samples of others."""
        told = self.latency.to(LatencySummary) if self.latency else None
        series = [one for one in self.samples if one.latency_ns]
        if told is None or not series:
            return self
        left_out = told.left_out_of(self.blocks)
        counted = [one for one in series if (one.process, one.block) not in left_out]
        is_known = not told.excluded or sum(len(one.latency_ns) for one in counted) == told.samples
        ends = _ends(counted if is_known else series)
        lowest, highest = told.min_ns, told.max_ns
        if not (ends == (lowest, highest) if is_known else ends[0] <= lowest and highest <= ends[1]):
            raise ValueError(
                f"its samples lie between {ends[0]:,} and {ends[1]:,} ns, and its latency between {lowest:,} and "
                f"{highest:,}: they are another's, so export it again"
            )
        return self

    @model_validator(mode="after")
    def _with_figures_that_can_be(self) -> Self:
        why = why_impossible(
            self.status,
            self.iterations,
            self.latency.to(LatencySummary) if self.latency else None,
            self.throughput_items_per_s,
            self.throughput_interval,
            [one.median_ns for one in self.processes],
            [one.throughput_items_per_s for one in self.processes],
        )
        if why:
            raise ValueError(why)
        return self

    @model_validator(mode="after")
    def _with_parts_that_can_be_kept(self) -> Self:
        _require_once("process", [one.index for one in self.processes])
        _require_once("block", [(one.process, one.index) for one in self.blocks])
        _require_once("block with samples", [(one.process, one.block) for one in self.samples])
        places = [*(one.index for one in self.processes), *(one for b in self.blocks for one in (b.process, b.index))]
        if not all(0 <= one < 2**31 for one in places):
            raise ValueError("the index of a process or block is out of range")
        figures = [*self.processes, *self.blocks, *(one.evidence for one in self.blocks)]
        numbers = (value for one in figures for value in values(one).values() if isinstance(value, int))
        if not all(-(2**63) <= one < 2**63 for one in numbers):
            raise ValueError("a number of a process or block is out of range")
        return self

    def to_record(self, benchmark_id: str) -> Measurement:
        """Return the measurement that was exported, without its raw samples."""
        return self.to(
            Measurement,
            benchmark_id=benchmark_id,
            engine=self.engine.to(EngineRef),
            model_digest=self.model.digest,
            model_name=self.model.name,
            latency=self.latency.to(LatencySummary) if self.latency else None,
            captured_outputs=tuple(form.to_record() for form in self.captured_outputs),
        )

    def to_samples(self) -> tuple[BlockSamples, ...]:
        """Return its raw samples, block by block."""
        return tuple(form.to_record() for form in self.samples)


@with_fields_of(ModelVersion)
class ExportedModelForm(Form):
    """One of `models`: a version that was measured, or one that such a version was made from. Its files stay behind."""

    created_at_unix_ns: Count
    derivation: Derivation | None

    @model_validator(mode="after")
    def _with_a_share_of_zeros_where_it_is_pruned(self) -> Self:
        made = self.derivation
        if made and made.sparsity is None and made.kind is DerivationKind.PRUNED:
            raise ValueError("the sparsity is missing")
        if made and not 0 <= (made.sparsity or 0) <= 1:
            raise ValueError("the sparsity is not between 0 and 1")
        return self


class ExportedBenchmarkForm(BenchmarkForm):
    """One benchmark with all that belongs to it."""

    models: Sometimes[tuple[ExportedModelForm, ...] | None]
    measurements: tuple[ExportedMeasurementForm, ...]

    @model_validator(mode="after")
    def _with_each_measurement_once(self) -> Self:
        _require_once("measurement", [one.id for one in self.measurements])
        return self

    def to_bundle(self) -> BenchmarkBundle:
        """Return everything that was exported, the benchmark marked as imported."""
        return BenchmarkBundle(
            self.benchmark.to(Benchmark, imported=True),
            tuple(form.to_record(self.benchmark.id) for form in self.measurements),
            tuple(form.to(TargetSnapshot, target=form.name) for form in self.targets),
            {form.id: form.to_samples() for form in self.measurements},
            tuple(form.to(ModelVersion) for form in self.models or ()),
        )


class ExportDocument(DocumentForm):
    """A whole file."""

    document = "export"

    kind: Derived[str]
    benchmarks: tuple[ExportedBenchmarkForm, ...]


def samples_data(samples: BlockSamples) -> Document:
    """Return what `SamplesForm` reads back."""
    instants = {"scheduled_ns": samples.scheduled_ns, "sent_ns": samples.sent_ns, "completed_ns": samples.completed_ns}
    present = {name: values.tolist() for name, values in instants.items() if values is not None}
    return {"process": samples.process, "block": samples.block, "latency_ns": samples.latency_ns.tolist(), **present}


def model_data(model: ModelVersion) -> Document:
    """Return what `ExportedModelForm` reads back."""
    return {
        "digest": model.digest,
        "name": model.name,
        "format": model.format,
        "files": MODEL_FILES.to_data(model.files),
        "created_at_unix_ns": model.created_at_unix_ns,
        "parent_digest": model.parent_digest,
        "derivation": DERIVATION.to_data(model.derivation),
    }


def output_data(output: CapturedOutput) -> Document:
    """Return what `OutputForm` reads back."""
    return {
        "input_index": output.input_index,
        "name": output.name,
        "dtype": output.dtype,
        "shape": list(output.shape),
        "stride": output.stride,
        "values": base64.b64encode(to_float32_bytes(output.values)).decode("ascii"),
    }


def _require_once(what: str, keys: Sequence[object]) -> None:
    if twice := [key for key, count in Counter(keys).items() if count > 1]:
        raise ValueError(f"{what} {twice[0]} is there twice")


def _ends(samples: Sequence[SamplesForm]) -> tuple[int, int]:
    return min(min(one.latency_ns) for one in samples), max(max(one.latency_ns) for one in samples)


def _array(series: list[int] | None) -> NDArray[np.int64] | None:
    return None if series is None else np.asarray(series, dtype=np.int64)


def export_benchmarks(store: Store, benchmark_ids: Sequence[str]) -> str:
    """Return the text of an export of these benchmarks, raw samples included, each benchmark once.

    Raises `InputError` for an id the store does not have.
    """
    bundles = [store.bundle(benchmark_id) for benchmark_id in dict.fromkeys(benchmark_ids)]
    export = head("export") | {"benchmarks": [_exported(one) for one in bundles]}
    return json.dumps(export, allow_nan=False)


def import_benchmarks(store: Store, file: ExportFile) -> tuple[str, ...]:
    """Store what an export holds and return the ids of the benchmarks that brought something new.

    Ids are kept, so importing again changes nothing; new benchmarks are marked as imported, and those of one's own stay
    as they are. Raises `InputError` for a file that is not an export, made by a newer enginebench or damaged; nothing
    is stored then.
    """
    export = read_export(file, ExportDocument)
    return store.add_bundles([form.to_bundle() for form in export.benchmarks])


def left_out_measurements(store: Store, file: ExportFile) -> Mapping[str, int]:
    """How many measurements of each benchmark in a file that was imported are not there: of those of one's own."""
    found = {}
    for one in file.data["benchmarks"]:
        identity = one["benchmark"]["id"]
        there = {kept.id for kept in store.measurements(identity, with_blocks=False)}
        if lacking := {each["id"] for each in one["measurements"]} - there:
            found[identity] = len(lacking)
    return found


def _exported(bundle: BenchmarkBundle) -> Document:
    shown = bundle.benchmark, bundle.measurements, bundle.snapshots, bundle.models
    document = benchmark_document(*shown, with_blocks=True)
    document["models"] = [model_data(one) for one in bundle.models]
    for described, measurement in zip(document["measurements"], bundle.measurements, strict=True):
        described["samples"] = [samples_data(one) for one in bundle.samples.get(measurement.id, ())]
        described["captured_outputs"] = [output_data(one) for one in measurement.captured_outputs]
    return document
