"""The shape of an export of schema version 1: one process a measurement, its samples a single list."""

from typing import Annotated

import numpy as np
from pydantic import PlainValidator

from enginebench_controller.exchange_form import Count, EngineForm, Form, HeadingForm, Id, ModelForm, TargetForm
from enginebench_controller.json_form import CONFIGURATION
from enginebench_controller.records import (
    Block,
    BlockSamples,
    Configuration,
    Effective,
    EngineRef,
    Failure,
    Measurement,
    Phase,
    Process,
    Status,
)
from enginebench_controller.stats.summary import summarize
from enginebench_controller.store.store import BenchmarkBundle


class MeasurementForm1(Form):
    """One of `measurements`. Its statistics are not read back: its samples are summarized anew."""

    id: Id
    target: str
    engine: EngineForm
    model: ModelForm
    configuration: Annotated[Configuration, PlainValidator(CONFIGURATION.from_data)]
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
    samples_ns: list[Count] | None

    def samples(self) -> tuple[BlockSamples, ...]:
        """Return the raw samples as those of a single block."""
        return (BlockSamples(0, 0, np.asarray(self.samples_ns, dtype=np.int64)),) if self.samples_ns else ()

    def to_record(self, benchmark_id: str) -> Measurement:
        """Return the measurement as one of a single process, as the store's migration does for rows of version 1."""
        latency = summarize(self.samples()) if self.samples_ns else None
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
            processes=self._processes(latency.median_ns if latency else None),
            blocks=self._blocks(),
            iterations=self.iterations,
            steady_state_ns=self.steady_state_ns,
            cpu_time_ns=self.cpu_time_ns,
            input_set_sha256=self.input_set_sha256,
            latency=latency,
            throughput_items_per_s=self.throughput_items_per_s,
        )

    def _processes(self, median_ns: float | None) -> tuple[Process, ...]:
        if self.steady_state_ns is None:
            return ()
        only = Process(
            index=0,
            started_at_unix_ns=self.started_at_unix_ns,
            phases=self.phases,
            effective=self.effective,
            iterations=self.iterations,
            steady_state_ns=self.steady_state_ns,
            cpu_time_ns=self.cpu_time_ns,
            median_ns=median_ns,
            throughput_items_per_s=self.throughput_items_per_s,
        )
        return (only,)

    def _blocks(self) -> tuple[Block, ...]:
        return () if self.steady_state_ns is None else (Block(0, 0, 0, self.steady_state_ns, self.iterations or 0),)


class BenchmarkForm1(Form):
    """One benchmark with all that belongs to it."""

    benchmark: HeadingForm
    targets: tuple[TargetForm, ...]
    measurements: tuple[MeasurementForm1, ...]

    def to_bundle(self) -> BenchmarkBundle:
        """Return everything that was exported."""
        return BenchmarkBundle(
            self.benchmark.to_record(),
            tuple(form.to_record(self.benchmark.id) for form in self.measurements),
            tuple(form.to_record() for form in self.targets),
            {form.id: form.samples() for form in self.measurements},
        )


class ExportForm1(Form):
    """A whole file, after its kind and version were checked."""

    benchmarks: tuple[BenchmarkForm1, ...]
