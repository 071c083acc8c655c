"""Peaks: what an engine reached at best on one machine, as a calibration of its target found."""

from dataclasses import dataclass
from enum import StrEnum

from enginebench_controller.records.engine import EngineRef


class PeakKind(StrEnum):
    """What was counted: operations (a multiplication and an addition are two), or bytes read and written."""

    FLOPS = "flops"
    BANDWIDTH = "bandwidth"


@dataclass(frozen=True)
class Rate:
    """Operations or bytes a second: the median of blocks, with the bounds of its 95 % interval.

    `disturbed_blocks` saw the machine do something else. They were left out, unless `disturbed` says that too few
    others remained: then the rate is from all blocks, and too low.
    """

    median_per_s: float
    low_per_s: float
    high_per_s: float
    blocks: int
    disturbed_blocks: int = 0
    disturbed: bool = False


@dataclass(frozen=True)
class Peak:
    """One kind of work by one engine on one device and so many cores: a rate, or the reason why there is none.

    Of operations, `precision` is "f32", "bf16", "f16" or "int8"; of bytes, `working_set_bytes` is the memory that all
    cores together walked through again and again. `what` is the work itself. `may_be_winograd`: the engine may compute
    it with fewer operations than are counted, so that its rate is no bound for other work.
    """

    target: str
    engine: EngineRef
    device: str
    cores: int
    kind: PeakKind
    what: str
    measured_at_unix_ns: int
    precision: str | None = None
    working_set_bytes: int | None = None
    may_be_winograd: bool = False
    provider: str = ""
    rate: Rate | None = None
    failure: str | None = None
