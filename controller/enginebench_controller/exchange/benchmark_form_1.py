"""The shape of an export of schema version 1: one process a measurement, its samples a single list."""

from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import PlainValidator

from enginebench_controller.exchange.benchmark_form import BenchmarkForm, Count, Form, MeasuredForm
from enginebench_controller.records import Block, BlockSamples, Configuration, Measurement, Process
from enginebench_controller.records.json_form import CONFIGURATION
from enginebench_controller.stats.summary import summarize


class MeasurementForm1(MeasuredForm):
    """One of `measurements`. Its statistics are not read back: its samples are summarized anew."""

    configuration: Annotated[Configuration, PlainValidator(CONFIGURATION.from_data)]
    samples_ns: list[Count] | None

    def to_record(self, benchmark_id: str) -> Measurement:
        """Return the measurement as one of a single process, as the store's migration does for rows of version 1."""
        latency = summarize(self.to_samples()) if self.samples_ns else None
        return replace(
            super().to_record(benchmark_id),
            processes=self._processes(latency.median_ns if latency else None),
            blocks=self._blocks(),
            latency=latency,
        )

    def to_samples(self) -> tuple[BlockSamples, ...]:
        """Return its raw samples as those of a single block."""
        return (BlockSamples(0, 0, np.asarray(self.samples_ns, dtype=np.int64)),) if self.samples_ns else ()

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


class ExportForm1(Form):
    """A whole file, after its kind and version were checked."""

    benchmarks: tuple[BenchmarkForm[MeasurementForm1], ...]
