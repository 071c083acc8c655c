"""What the machine counts and its state: read at both ends of a block, never within."""

import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from enginebench_agent.machine import meters, sources, this_process
from enginebench_agent.machine.cores import kinds_of_cores
from enginebench_agent.machine.kept_file import AbsentError, Probe
from enginebench_agent.machine.meters import Metered
from enginebench_agent.machine.sources import HeldBack
from enginebench_proto.v1.measurement_pb2 import Evidence

_Probes = Mapping[tuple[str, ...], Callable[[], Probe]]
"""Fields of the message, with the function that opens where they are read."""


class EvidenceReader:
    """Reads the evidence of one block after the other. Keeps its files open.

    A pair of `begin` and `end` costs about 60 µs on a virtual machine with two processors (/proc/stat is the dearest,
    and grows with their number), all of it outside the block.
    """

    def __init__(self, cpus: Sequence[int], root: Path = Path("/"), metered: Metered = Metered()) -> None:  # noqa: B008
        """`cpus` are the logical processors the run is confined to; `root` is the root of /proc and /sys.

        Processor time and switches of this process itself are always the real ones.
        """
        self._missing: dict[str, str] = {}
        self._counters = list(self._open(_counter_sources(root, cpus, metered)))
        self._states = list(self._open(_state_sources(root, cpus)))
        self._begun: dict[str, Any] = {}
        self.highest_frequency_hz: int | None = None
        """The highest frequency any block so far ended with; None where the machine does not tell."""

    def begin(self) -> None:
        """Mark the start of a block. The meter of energy is read last, and first at the end: reading takes time."""
        for state in self._states:
            if isinstance(state, HeldBack):
                state.begin()
        self._begun = _readings(self._counters[::-1]) | _own_counters()

    def end(self) -> Evidence:
        """What changed since `begin`, and how things stand. Says what is missing, and why, in the first call only."""
        ended = _own_counters() | _readings(self._counters)
        changes = {name: _change(self._begun[name], now) for name, now in ended.items() if name in self._begun}
        evidence = Evidence(**changes, **_readings(self._states), missing=self._missing)
        self._missing = {}
        if evidence.HasField("max_frequency_hz"):
            self.highest_frequency_hz = max(self.highest_frequency_hz or 0, evidence.max_frequency_hz)
        return evidence

    def _open(self, probes: _Probes) -> Iterator[Probe]:
        """The sources this machine has; the fields of all others are noted as missing."""
        for fields, open_source in probes.items():
            try:
                source = open_source()
                source()
            except AbsentError as error:
                self._missing |= dict.fromkeys(fields, str(error))
            except ValueError:
                self._missing |= dict.fromkeys(fields, "this kernel writes it in a form not known here")
            else:
                yield source


def _counter_sources(root: Path, cpus: Sequence[int], metered: Metered) -> _Probes:
    found: dict[tuple[str, ...], Callable[[], Probe]] = {
        ("energy_uj", "energy_source"): partial(meters.energy, root, metered),
        ("other_cpu_time_ns", "steal_ns"): partial(sources.processor_times, root),
        ("cpu_pressure_ns",): partial(sources.pressure, root, "cpu"),
        ("memory_pressure_ns",): partial(sources.pressure, root, "memory"),
        ("io_pressure_ns",): partial(sources.pressure, root, "io"),
        ("throttled_ns",): partial(sources.throttling, root),
    }
    if len(kinds_of_cores(cpus, root)) > 1:  # elsewhere there is no other kind to move to
        found["cluster_migrations",] = partial(sources.cluster_migrations, root, cpus)
    return found


def _state_sources(root: Path, cpus: Sequence[int]) -> _Probes:
    return {
        ("min_frequency_hz", "max_frequency_hz"): partial(sources.frequency, root, cpus),
        ("governor",): partial(sources.governor, root, cpus),
        ("turbo",): partial(sources.turbo, root),
        ("temperature_millicelsius",): partial(sources.temperature, root),
        ("power_supply",): partial(sources.power_supply, root),
        ("held_back_by",): partial(HeldBack, root, cpus),
    }


def _change(begun: Any, now: Any) -> Any:
    """By how much a counter grew; a text is as it is."""
    return now if isinstance(now, str) else max(0, now - begun)


def _readings(probes: Sequence[Probe]) -> dict[str, Any]:
    """All that can be read now; a source that fails in the middle of a run is absent from that block."""
    readings: dict[str, Any] = {}
    for probe in probes:
        try:
            readings |= probe()
        except (AbsentError, ValueError):
            continue
    return readings


def _own_counters() -> dict[str, int]:
    # getrusage counts all threads, those that have ended too.
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    return {"cpu_time_ns": this_process.process_cpu_time_ns(), "involuntary_switches": switches}
