"""Benchmarks, searches and measurements: the outcome of one configuration, its statistics, and what it is judged by."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records.configuration import Configuration
from enginebench_controller.records.figures import Figure
from enginebench_controller.records.run import (
    Block,
    Effective,
    Failure,
    MeteredEnergy,
    Phase,
    Process,
    Status,
    metered_energy,
)
from enginebench_controller.records.target import EngineRef


@dataclass(frozen=True)
class Benchmark:
    """What a person asked for. `plan` is the versioned document it can be run from again."""

    id: str
    name: str
    created_at_unix_ns: int
    plan: Mapping[str, Any]
    rerun_of: str | None = None
    imported: bool = False

    def listed(self, key: str) -> tuple[str, ...]:
        """The texts that the plan lists under a key; none where it has something else, as what is imported may."""
        found = self.plan.get(key)
        return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list | tuple) else ()


class SearchKind(StrEnum):
    """What is searched for."""

    RECOMMEND = "recommend"
    BISECT = "bisect"


@dataclass(frozen=True)
class Search:
    """A chain of benchmarks: what was asked for, as a document, and the answer, once there is one.

    The steps are benchmarks whose plans name the search. `skipped` are the candidates that came to no benchmark, as
    one that cannot be installed, each with the reason.
    """

    id: str
    kind: SearchKind
    name: str
    created_at_unix_ns: int
    order: Mapping[str, Any]
    skipped: Mapping[str, str] = field(default_factory=dict)
    answer: Mapping[str, Any] | None = None
    ended_at_unix_ns: int | None = None


class IntervalMethod(StrEnum):
    """How a confidence interval was obtained; see stats/intervals.py."""

    BLOCKS = "order_statistics_over_blocks"
    BLOCKS_T = "t_over_blocks"
    PROCESSES_T = "t_over_processes"
    ITERATIONS_T = "t_over_iterations"


@dataclass(frozen=True)
class Interval:
    """A confidence interval in the unit of what it belongs to; `level` is its nominal coverage."""

    low: float
    high: float
    level: float
    method: IntervalMethod

    def half_width(self, middle: float) -> float:
        """Half its width; what lies above `middle` where its lower end was cut off at 0."""
        return half_width(self.low, self.high, middle)


def half_width(low: float, high: float, middle: float) -> float:
    """Half the width of an interval around `middle`; what lies above that where the lower end was cut off at 0."""
    return high - middle if low <= 0 else (high - low) / 2


@dataclass(frozen=True)
class Percentile:
    """A percentile of latency, or None with fewer than `samples_needed` samples; `interval` None where unknown."""

    percent: float
    value_ns: float | None
    samples_needed: int
    interval: Interval | None = None


@dataclass(frozen=True)
class LatencySummary:
    """Statistics over the raw latencies of one measurement; None where there is too little to tell.

    `mad_ns` is the median absolute deviation from the median, not scaled. `outliers` are samples outside Tukey's
    fences, 1.5 interquartile ranges below the first or above the third quartile. `excluded` samples are kept but count
    nowhere here: those of paused blocks, and of disturbed ones that were measured again.
    """

    samples: Annotated[int, Figure("inferences behind the statistics")]
    mean_ns: Annotated[float, Figure("mean latency of an inference, in ns")]
    sd_ns: Annotated[float | None, Figure("standard deviation of the latencies, in ns")]
    cv: Annotated[float | None, Figure("standard deviation ÷ mean")]
    min_ns: Annotated[int, Figure("the lowest latency, in ns")]
    max_ns: Annotated[int, Figure("the highest latency, in ns")]
    median_ns: Annotated[float, Figure("median latency of an inference, in ns")]
    median_interval: Interval | None
    mad_ns: Annotated[float, Figure("median absolute deviation from the median, in ns")]
    percentiles: tuple[Percentile, ...]
    outliers: Annotated[int, Figure("samples outside Tukey's fences; they count like all others")]
    excluded: Annotated[
        int,
        Figure("samples that count nowhere: those of paused blocks, and of disturbed ones that were measured again"),
    ] = 0

    def left_out_of(self, blocks: Collection[Block]) -> frozenset[tuple[int, int]]:
        """Which of the measurement's blocks, each by process and index, the `excluded` samples are those of."""
        if not self.excluded:
            return frozenset()
        paused = [block for block in blocks if block.paused_ns]
        only_paused = sum(block.iterations for block in paused) == self.excluded
        left_out = paused if only_paused else [block for block in blocks if block.disturbances]
        return frozenset((block.process, block.index) for block in left_out)

    def percentile_ns(self, percent: float) -> float | None:
        """The value of a percentile that is among `percentiles`, else None."""
        return next((one.value_ns for one in self.percentiles if one.percent == percent), None)

    @property
    def median_relative_half_width(self) -> float | None:
        """Half the width of the median's interval ÷ the median; None without an interval."""
        interval = self.median_interval
        return interval.half_width(self.median_ns) / self.median_ns if interval and self.median_ns else None


class ErrorOf(StrEnum):
    """What the errors of outputs are shares of."""

    LARGEST_VALUE = "largest_value"
    """The largest absolute difference ÷ the reference's largest magnitude, of outputs of numbers."""
    ELEMENTS = "elements"
    """The elements that differ ÷ all, of outputs of integers: labels, indices, yes and no."""
    EITHER = "either"
    """There are outputs of both kinds."""


@dataclass(frozen=True)
class OutputCheck:
    """How one engine's outputs compare with another's on the same inputs, or what is wrong with them by themselves.

    `reference` is the measurement compared with; None for what shows without one. `problem` is a sentence, or empty
    where the outputs agree within `tolerance`, a bound on `max_relative_error`: what `error_of` says, over all captured
    elements of the output that is farthest beyond its tolerance, or nearest to it. `largest_relative_error` is that of
    any output, None where one of them could not be compared. `max_absolute_error`, and the smallest `cosine`, are those
    of any output of numbers; None without one. `remark` is a sentence about what is no fault of an engine, such as a
    difference that is within the noise of the model.
    """

    reference: str | None
    max_absolute_error: float | None
    max_relative_error: float | None
    cosine: float | None
    tolerance: float | None
    problem: str = ""
    remark: str = ""
    largest_relative_error: float | None = None
    error_of: ErrorOf = ErrorOf.LARGEST_VALUE


@dataclass(frozen=True, eq=False)
class CapturedOutput:
    """What came out as `name` for the input at `input_index` of the set: every `stride`-th element, float32."""

    input_index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    stride: int
    values: NDArray[np.float32]


class CeilingBasis(StrEnum):
    """Where the most operations a second come from."""

    CALIBRATED = "calibrated"
    ESTIMATED = "estimated"


@dataclass(frozen=True)
class Ceiling:
    """The most operations that the cores of a measurement can do in a second, and the fewest that an inference takes.

    `flops` of an inference are those of its products without what an engine may spare: products with weights that are
    zero, and what fast convolutions do without.
    """

    flops_per_s: float
    flops: float
    precision: str
    cores: int
    basis: CeilingBasis

    def items_per_s(self, batch: int) -> float:
        """The most items of inferences of this batch that there can be in a second."""
        return batch * self.flops_per_s / self.flops


@dataclass(frozen=True)
class OutputNoise:
    """How far rounding alone moves an output: the largest absolute change; None where it changes the shape.

    `elements` is the largest share of them that it changes, which is what counts of labels and indices; None where it
    changes the shape, and of records of before.
    """

    name: str
    absolute: float | None
    elements: float | None = None


@dataclass(frozen=True)
class Grounds:
    """What a measurement is judged by beyond its own numbers, worked out as it was stored.

    `ceiling` is None where it is not known. `noise` is empty unless the outputs differed from another engine's by more
    than the usual; `noise_unknown` says why it could not be found then. `random_operators` are those of the model that
    make other values each time, or of its state; None where nobody can look into the model. `emulation` says how the
    target's instructions reach a processor that does not know them; None on a real machine.
    """

    ceiling: Ceiling | None = None
    noise: tuple[OutputNoise, ...] = ()
    noise_unknown: str = ""
    random_operators: tuple[str, ...] | None = None
    emulation: str | None = None


@dataclass(frozen=True, eq=False)
class Measurement:
    """The outcome of one configuration, over all its processes. Raw samples are kept apart, in `BlockSamples`.

    `latency` and `throughput_items_per_s` are None unless the status is ok or inconclusive. `phases` and `effective`
    are those of the first process; `iterations`, `steady_state_ns` and `cpu_time_ns` sums over all of them.
    `process_spread` is the largest median of a process ÷ the smallest, less 1; None with a single process.
    `captured_outputs` are those of the first process.
    """

    id: str
    benchmark_id: str
    target: str
    engine: EngineRef
    model_digest: str
    model_name: str
    configuration: Configuration
    status: Status
    started_at_unix_ns: Annotated[int | None, Figure("when it began, in ns since 1970")] = None
    failure: Failure | None = None
    effective: Effective = field(default_factory=Effective)
    phases: tuple[Phase, ...] = ()
    processes: tuple[Process, ...] = ()
    blocks: tuple[Block, ...] = ()
    iterations: Annotated[int | None, Figure("timed inferences, all processes together", is_total=True)] = None
    steady_state_ns: Annotated[int | None, Figure("length of the steady states together, in ns", is_total=True)] = None
    cpu_time_ns: Annotated[
        int | None,
        Figure(
            "processor time of the steady states together, in ns; ÷ steady_state_ns: cores busy, pauses included",
            is_total=True,
        ),
    ] = None
    input_set_sha256: Annotated[str | None, Figure("digest of the inputs")] = None
    latency: LatencySummary | None = None
    throughput_items_per_s: Annotated[
        float | None, Figure("items per second of wall clock; an inference is `batch` items")
    ] = None
    throughput_interval: Interval | None = None
    process_spread: Annotated[
        float | None, Figure("largest median of a process ÷ the smallest, less 1; NULL with a single process")
    ] = None
    captured_outputs: tuple[CapturedOutput, ...] = ()
    interleaving_group: Annotated[str | None, Figure("measurements of the same group took turns, block by block")] = (
        None
    )
    grounds: Grounds = field(default_factory=Grounds)

    @property
    def peak_rss_bytes(self) -> int | None:
        """The most memory that one of its processes occupied in any phase; None where no phase tells."""
        phases = [phase for process in self.processes for phase in process.phases] or self.phases
        return max((phase.peak_rss_bytes for phase in phases if phase.peak_rss_bytes is not None), default=None)

    @property
    def excluded_blocks(self) -> frozenset[tuple[int, int]]:
        """The blocks, each by process and index, that count for nothing in its statistics."""
        return frozenset() if self.latency is None else self.latency.left_out_of(self.blocks)

    @property
    def energy(self) -> MeteredEnergy:
        """By the meter of the processor or of its board, in the blocks that count."""
        left_out = self._outside_sums()
        return metered_energy([block for block in self.blocks if (block.process, block.index) not in left_out])

    @property
    def energy_j_per_inference(self) -> Annotated[float | None, Figure("joules by energy_source, of a whole batch")]:
        """None without a meter, or where not all was counted by one."""
        return self.energy.j_per_inference

    @property
    def energy_source(self) -> Annotated[str | None, Figure("which meter counted energy_j_per_inference")]:
        """None where nothing was counted, or older agents did not tell by what."""
        return self.energy.source

    @property
    def cpu_cores_used(self) -> Annotated[float | None, Figure("cores kept busy on average in the steady state")]:
        """Processor time ÷ wall clock, of the blocks that count; None where unknown."""
        if self.cpu_time_ns is None or self.steady_state_ns is None:
            return None
        places = self._outside_sums()
        left_out = [block for block in self.blocks if (block.process, block.index) in places]
        busy_ns = self.cpu_time_ns - sum(block.evidence.cpu_time_ns or 0 for block in left_out)
        duration_ns = self.steady_state_ns - sum(block.duration_ns for block in left_out)
        return busy_ns / duration_ns if duration_ns > 0 else None

    def _outside_sums(self) -> frozenset[tuple[int, int]]:
        """A median for want of others bears a block that stood still among its own; a sum does not."""
        stood_still = ((block.process, block.index) for block in self.blocks if block.paused_ns)
        return self.excluded_blocks.union(stood_still)
