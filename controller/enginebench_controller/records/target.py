"""Targets: machines that run an agent, what they said of themselves, and what calibrations of them found."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from enginebench_proto.agreed.durations import duration_words
from enginebench_proto.agreed.words import DEFAULT_ENVIRONMENT


def in_environment(engine: str, environment: str) -> str:
    """An engine as a person names it: "onnxruntime@old", or its name alone in the default environment."""
    return engine if environment in ("", DEFAULT_ENVIRONMENT) else f"{engine}@{environment}"


@dataclass(frozen=True)
class EngineRef:
    """An engine in an environment; `version` is None until the agent told it."""

    name: str
    environment: str
    version: str | None = None


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
    it with fewer operations than are counted, so that its rate is no bound for other work. `cpu_model` is the processor
    that was calibrated, None where that is unknown.
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
    cpu_model: str | None = None

    def is_of(self, target: str, cpu_model: str | None) -> bool:
        """Whether it says what a machine can do that has this name and processor.

        The name alone does not tell: another machine may have it by now, or at whoever a profile was imported from.
        """
        return (self.target, self.cpu_model) == (target, cpu_model)


LOCAL_TARGET = "local"
"""Name of the embedded target: an agent the controller starts for one benchmark and stops afterwards."""


@dataclass(frozen=True)
class Target:
    """A machine that runs an agent; `address` is "host:port", or "tls://host:port" on loopback by mutual TLS.

    `labels` are what a person says of it, such as {"site": "lab2"}.
    """

    name: str
    address: str
    added_at_unix_ns: int
    labels: Mapping[str, str] = field(default_factory=dict)


NOISY_SHARE = 0.5
NOISY_SPREAD = 0.25
FEWEST_FOR_NOISE = 3
NOISE_AGE_NS = 24 * 3600 * 10**9
"""Older measurements say nothing of how noisy a target is: so one that was left out for it is tried again."""


@dataclass(frozen=True)
class Noise:
    """How disturbed a target was when it measured, over `measurements` of the last day.

    `disturbed` is the share of the time that lay in disturbed blocks, None where no machine told; `spread` the median
    of how far apart, as a ratio less 1, fresh processes of one and the same configuration were: A against A.
    """

    target: str
    measurements: int
    disturbed: float | None = None
    spread: float | None = None

    @property
    def is_noisy(self) -> bool:
        """Whether it is to be left out where others can measure as well."""
        known = self.measurements >= FEWEST_FOR_NOISE
        return known and ((self.disturbed or 0) > NOISY_SHARE or (self.spread or 0) > NOISY_SPREAD)

    @property
    def sentence(self) -> str:
        """What was seen, for a person."""
        told = [] if self.disturbed is None else [f"{self.disturbed:.0%} of the time disturbed"]
        told += [] if self.spread is None else [f"the same thing up to {self.spread:.0%} apart between processes"]
        return f"{', '.join(told) or 'nothing known'} in {self.measurements} measurements of the last day"


@dataclass(frozen=True)
class Reservation:
    """That a target is there for one name alone, and for how long still as it was told.

    `holder` is the name on a certificate; None for who calls in plain text, from the target itself or by SSH.
    """

    holder: str | None
    left_ns: int
    reason: str = ""
    is_yours: bool = False

    @property
    def words(self) -> str:
        """By whom, for how long and why: "by 'ann' for 2 h (new firmware)"."""
        who = "you" if self.is_yours else repr(self.holder)
        if self.holder is None:  # all who call in plain text are one
            who = "you, or somebody else without a certificate," if self.is_yours else "somebody on that machine"
        why = f" ({self.reason})" if self.reason else ""
        return f"by {who} for {duration_words(self.left_ns / 1e9)}{why}"


@dataclass(frozen=True)
class CoreCluster:
    """Cores of one kind among others. `capacity` is the kernel's measure of speed, 1024 for the fastest kind."""

    name: str
    physical_cores: int
    model: str | None = None
    capacity: int | None = None
    max_frequency_hz: int | None = None


@dataclass(frozen=True)
class Cache:
    """Caches of one kind ("data", "instruction", "unified") and size, at one level, 1 for the nearest."""

    level: int
    type: str
    size_bytes: int
    count: int


@dataclass(frozen=True)
class HostFacts:
    """What an agent told of its machine and of itself; unknown are None and what is empty.

    `cpu_quota_cores` are what the agent's control group may use, `isa` the instruction sets of the processor, `tuned`
    what was set on the machine to make it steadier. `emulation` says how instructions reach a processor that does not
    know them, `virtualization` whose virtual machine it is; `clusters` are the kinds of cores, the fastest first, and
    empty where all are alike.
    """

    hostname: str = ""
    os: str = ""
    kernel: str = ""
    architecture: str = ""
    agent_version: str = ""
    python_version: str = ""
    cpu_model: str | None = None
    physical_cores: int | None = None
    logical_cores: int | None = None
    cpu_quota_cores: float | None = None
    memory_bytes: int | None = None
    isa: tuple[str, ...] = ()
    tuned: tuple[str, ...] = ()
    wire_revision: int | None = None
    emulation: str | None = None
    virtualization: str | None = None
    clusters: tuple[CoreCluster, ...] = ()
    caches: tuple[Cache, ...] = ()

    @property
    def cores(self) -> int | None:
        """What counts as its cores: to its agent, too, each logical processor where the kernel does not tell."""
        return self.physical_cores or self.logical_cores

    def has_as_fastest(self, cluster: str) -> bool:
        """Whether these are the cores that who names no kind gets first, and that calibrations are of."""
        return cluster in ("", *(one.name for one in self.clusters[:1]))


@dataclass(frozen=True)
class EngineOption:
    """One option of an engine's allow-list; `choices` is empty where any value of the `type` may be given."""

    name: str
    type: str = "str"
    choices: tuple[str, ...] = ()
    help: str = ""
    profile_only: bool = False


@dataclass(frozen=True)
class FileFormat:
    """A model format that a plugin brings: files that nobody but its engine reads.

    The main file's name ends in one of `suffixes`; those of `companions` lie beside it and are called like it but for
    their ending. The main file has one of `begins`, in hexadecimal, at its offset; without any, only the name tells.
    """

    name: str
    suffixes: tuple[str, ...]
    companions: tuple[str, ...] = ()
    begins: tuple[tuple[int, str], ...] = ()
    runs_code: bool = False


@dataclass(frozen=True)
class Device:
    """What an engine can run on; `resources` are what computes, such as "cpu"."""

    name: str
    full_name: str = ""
    precisions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ListedEngine:
    """What an agent tells of an engine in one of its environments, be it available or not.

    `distribution` is what brought the plugin; what is `hidden` exists for testing only.
    """

    name: str
    environment: str
    python_version: str = ""
    distribution: str = ""
    hidden: bool = False


@dataclass(frozen=True, kw_only=True)
class AvailableEngine(ListedEngine):
    """An engine that can be used; `more_devices` is how many it has beside those that are listed.

    `formats` are the names of all that it reads, `own_formats` those of them that the plugin brings. Where it cannot
    run any batch, `batches` are those that it can.
    """

    version: str = ""
    formats: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    multiple_streams: bool = False
    single_threaded: bool = False
    profiling: bool = False
    options: tuple[EngineOption, ...] = ()
    devices: tuple[Device, ...] = ()
    more_devices: int = 0
    own_formats: tuple[FileFormat, ...] = ()
    batches: tuple[int, ...] = ()


class UnavailableKind(StrEnum):
    """Why an engine cannot be used; the same names as on the wire."""

    UNSPECIFIED = "unspecified"
    NOT_INSTALLED = "not_installed"
    UNSUPPORTED = "unsupported"
    BROKEN = "broken"
    TIMED_OUT = "timed_out"
    BEING_ASKED = "being_asked"

    @classmethod
    def _missing_(cls, value: object) -> "UnavailableKind":
        return cls.UNSPECIFIED  # of a newer version


@dataclass(frozen=True, kw_only=True)
class UnavailableEngine(ListedEngine):
    """An engine that cannot be used, with a sentence for the reason."""

    kind: UnavailableKind = UnavailableKind.UNSPECIFIED
    reason: str = ""
    detail: str = ""


Engine = AvailableEngine | UnavailableEngine


@dataclass(frozen=True)
class TargetSnapshot:
    """What a target said of itself when last seen: its machine, and its engines."""

    target: str
    address: str
    seen_at_unix_ns: int
    host: HostFacts
    engines: tuple[Engine, ...]

    @property
    def available(self) -> tuple[AvailableEngine, ...]:
        """The engines that can be used, those for testing among them."""
        return tuple(one for one in self.engines if isinstance(one, AvailableEngine))

    @property
    def being_asked(self) -> tuple[UnavailableEngine, ...]:
        """The engines that had not answered yet when the list was made."""
        absent = (one for one in self.engines if isinstance(one, UnavailableEngine))
        return tuple(one for one in absent if one.kind is UnavailableKind.BEING_ASKED)


def best_peaks(peaks: Iterable[Peak]) -> list[Peak]:
    """The fastest of each precision and of each working set, or the reason where none has a rate.

    All are to be of one engine, device and number of cores. What may be computed by Winograd's trick stands apart.
    """
    best: dict[tuple[object, ...], Peak] = {}
    for peak in peaks:
        key = (peak.kind, peak.precision, peak.working_set_bytes, peak.may_be_winograd and peak.rate is not None)
        if key not in best or _rate(peak) > _rate(best[key]):
            best[key] = peak
    return list(best.values())


def _rate(peak: Peak) -> float:
    return 0.0 if peak.rate is None else peak.rate.median_per_s
