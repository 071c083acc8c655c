"""What the machine counts and its state, one function a source: read at both ends of a block, never within.

Each function opens its files below `root` and returns a function that reads them: fields of the message `Evidence` by
name, counters as totals since some moment of the past. It raises `AbsentError` where the machine does not tell.
"""

import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from enginebench_agent.machine import cgroup, cores, this_process
from enginebench_agent.machine.this_process import process_cpu_time_ns
from enginebench_proto.v1.measurement_pb2 import Evidence

_ENOUGH_BYTES = 512
"""More than any line of interest is long; /proc/stat goes on for pages."""


class AbsentError(Exception):
    """A fact the machine does not tell. The text says why, in a few words."""


class KeptFile:
    """An open file of /proc or /sys; closed with the object."""

    def __init__(self, path: Path, root: Path) -> None:
        """Raises `AbsentError` where the file cannot be read. `root` is left out of the reason."""
        self._name = f"/{path.relative_to(root)}" if path.is_relative_to(root) else str(path)
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise AbsentError(reason(error, self._name)) from error
        self.read()

    def read(self) -> bytes:
        """What the file says now, from its beginning. Raises `AbsentError` where the kernel gives an error instead."""
        try:
            return os.pread(self._descriptor, _ENOUGH_BYTES, 0)
        except OSError as error:
            raise AbsentError(reason(error, self._name)) from error

    def integer(self) -> int:
        """The number the file consists of. Raises `AbsentError` for anything else."""
        text = self.read()
        try:
            return int(text)
        except ValueError:
            raise AbsentError(f"not a number: {self._name}") from None

    def text(self) -> str:
        """The word the file consists of."""
        return self.read().decode(errors="replace").strip()

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def reason(error: OSError, name: str) -> str:
    """Why a file cannot be read, in a few words."""
    if isinstance(error, FileNotFoundError):
        return f"no {name} here"
    if isinstance(error, PermissionError):
        return f"permission denied: {name}"
    return f"{(error.strerror or type(error).__name__).lower()}: {name}"


Probe = Callable[[], Mapping[str, Any]]

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
"""The unit of /proc/stat: a change of less cannot be seen there."""

POWER_SUPPLY_PERIOD_NS = 1_000_000_000
"""How long a reading of the power supply is good for: some firmware takes milliseconds to answer."""

# Types of thermal zones, and names of sensors, that belong to a processor.
_PROCESSOR_ZONES = ("x86_pkg_temp", "cpu", "soc")
_PROCESSOR_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")


def processor_times(root: Path) -> Probe:
    """Processor time of all but this process and what it started, and time stolen: /proc/stat's ticks of 10 ms, as
    nanoseconds.
    """
    stat = KeptFile(root / "proc/stat", root)

    def read() -> Mapping[str, int]:
        user, nice, system, _, _, irq, softirq, steal = (int(text) for text in stat.read().split(maxsplit=9)[1:9])
        busy_ns = (user + nice + system + irq + softirq) * TICK_NS
        return {"other_cpu_time_ns": busy_ns - process_cpu_time_ns(), "steal_ns": steal * TICK_NS}

    return read


def pressure(root: Path, resource: str) -> Probe:
    """Time in which some task waited for "cpu", "memory" or "io"; the kernel counts microseconds."""
    file = KeptFile(root / "proc/pressure" / resource, root)

    def read() -> Mapping[str, int]:
        some = file.read().partition(b"\n")[0]
        return {f"{resource}_pressure_ns": int(some.rpartition(b"total=")[2]) * 1000}

    return read


def throttling(root: Path) -> Probe:
    """Time this control group and those around it were held back for their quotas."""
    files = [KeptFile(path, root) for path in cgroup.cpu_stat_files(root)]
    files = [file for file in files if cgroup.throttled_ns(file.read()) is not None]
    if not files:
        raise AbsentError("no control group here counts throttling")
    return lambda: {"throttled_ns": sum(cgroup.throttled_ns(file.read()) or 0 for file in files)}


def energy(root: Path) -> Probe:
    """Energy of all processor packages together, in microjoules, from the kernel's RAPL interface.

    A package's counter starts anew at `max_energy_range_uj`; it must not do so twice between two readings, and takes
    a quarter of an hour or more.
    """
    zones = (root / "sys/class/powercap").glob("intel-rapl:*")
    packages = [_Package(zone, root) for zone in sorted(zones) if zone.name.count(":") == 1 and _is_package(zone)]
    if not packages:
        raise AbsentError("no RAPL energy counter here")
    return lambda: {"energy_uj": sum(package.total_uj() for package in packages)}


class _Package:
    """The energy counter of one processor package, without its wrap-around."""

    def __init__(self, zone: Path, root: Path) -> None:
        self._counter = KeptFile(zone / "energy_uj", root)
        self._range_uj = KeptFile(zone / "max_energy_range_uj", root).integer()
        self._last_uj = self._counter.integer()
        self._total_uj = 0

    def total_uj(self) -> int:
        now_uj = self._counter.integer()
        self._total_uj += now_uj - self._last_uj + (self._range_uj if now_uj < self._last_uj else 0)
        self._last_uj = now_uj
        return self._total_uj


def _is_package(zone: Path) -> bool:
    # Beside the packages there may be "psys", the whole machine, which would count them twice.
    try:
        return (zone / "name").read_text().startswith("package")
    except OSError:
        return False


def frequency(root: Path, cpus: Sequence[int]) -> Probe:
    """Lowest and highest frequency of these processors, in hertz."""
    files = [KeptFile(policy / "scaling_cur_freq", root) for policy in _policies(root, cpus)]

    def read() -> Mapping[str, int]:
        frequencies_hz = [file.integer() * 1000 for file in files]
        return {"min_frequency_hz": min(frequencies_hz), "max_frequency_hz": max(frequencies_hz)}

    return read


def governor(root: Path, cpus: Sequence[int]) -> Probe:
    """The frequency governor of these processors; several, sorted and with commas, where they differ."""
    files = [KeptFile(policy / "scaling_governor", root) for policy in _policies(root, cpus)]
    return lambda: {"governor": ",".join(sorted({file.text() for file in files}))}


def _policies(root: Path, cpus: Sequence[int]) -> tuple[Path, ...]:
    if not (found := cores.policies(root, cpus)):
        raise AbsentError("no cpufreq here")
    return found


def turbo(root: Path) -> Probe:
    """Whether processors may go beyond their base frequency."""
    if (switch := cores.turbo_switch(root)) is None:
        raise AbsentError("no switch for turbo here")
    file = KeptFile(switch.path, root)
    return lambda: {"turbo": file.text() == switch.on}


def temperature(root: Path) -> Probe:
    """The hottest zone or sensor of the processors; of all zones where none is known to be a processor's."""
    files = [KeptFile(path, root) for path in _temperature_files(root)]
    if not files:
        raise AbsentError("no thermal zone here")
    return lambda: {"temperature_millicelsius": max(file.integer() for file in files)}


def _temperature_files(root: Path) -> list[Path]:
    zones = sorted((root / "sys/class/thermal").glob("thermal_zone[0-9]*"))
    of_processors = [zone for zone in zones if any(word in _word(zone / "type") for word in _PROCESSOR_ZONES)]
    sensors = sorted((root / "sys/class/hwmon").glob("hwmon[0-9]*"))
    sensors = [sensor for sensor in sensors if _word(sensor / "name") in _PROCESSOR_SENSORS]
    from_sensors = [file for sensor in sensors for file in sorted(sensor.glob("temp[0-9]*_input"))]
    return [zone / "temp" for zone in of_processors] or from_sensors or [zone / "temp" for zone in zones]


def power_supply(root: Path) -> Probe:
    """Whether the machine runs on "mains" or "battery"."""
    supplies = sorted((root / "sys/class/power_supply").glob("*"))
    mains = [KeptFile(each / "online", root) for each in supplies if _word(each / "type") in ("mains", "usb")]
    # The batteries of mice and keyboards are of scope "Device".
    batteries = [each for each in supplies if _word(each / "type") == "battery" and _word(each / "scope") != "device"]
    states = [KeptFile(battery / "status", root) for battery in batteries]
    if not mains and not states:
        raise AbsentError("no power supply is listed here")
    last: tuple[int, Mapping[str, str]] = (0, {})

    def read() -> Mapping[str, str]:
        nonlocal last
        now = time.monotonic_ns()
        if not last[1] or now - last[0] >= POWER_SUPPLY_PERIOD_NS:
            plugged_in = any(file.text() == "1" for file in mains)
            drained = any(file.text() == "Discharging" for file in states)
            last = (now, {"power_supply": "battery" if drained and not plugged_in else "mains"})
        return last[1]

    return read


def _word(path: Path) -> str:
    """The file's content in lower case; empty where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip().lower()
    except OSError:
        return ""


_Probes = Mapping[tuple[str, ...], Callable[[], Probe]]
"""Fields of the message, with the function that opens where they are read."""


class EvidenceReader:
    """Reads the evidence of one block after the other. Keeps its files open.

    A pair of `begin` and `end` costs about 60 µs on a virtual machine with two processors (/proc/stat is the dearest,
    and grows with their number), all of it outside the block.
    """

    def __init__(self, cpus: Sequence[int], root: Path = Path("/")) -> None:
        """`cpus` are the logical processors the run is confined to; `root` is the root of /proc and /sys.

        Processor time and switches of this process itself are always the real ones.
        """
        self._missing: dict[str, str] = {}
        self._counters = list(self._open(_counter_sources(root)))
        self._states = list(self._open(_state_sources(root, cpus)))
        self._begun: dict[str, Any] = {}
        self.highest_frequency_hz: int | None = None
        """The highest frequency any block so far ended with; None where the machine does not tell."""

    def begin(self) -> None:
        """Mark the start of a block."""
        self._begun = _readings(self._counters) | _own_counters()

    def end(self) -> Evidence:
        """What changed since `begin`, and how things stand. Says what is missing, and why, in the first call only."""
        ended = _own_counters() | _readings(self._counters)
        changes = {name: max(0, now - self._begun[name]) for name, now in ended.items() if name in self._begun}
        evidence = Evidence(**changes, **_readings(self._states), missing=self._missing)
        self._missing = {}
        if evidence.HasField("max_frequency_hz"):
            self.highest_frequency_hz = max(self.highest_frequency_hz or 0, evidence.max_frequency_hz)
        return evidence

    def _open(self, sources: _Probes) -> Iterator[Probe]:
        """The sources this machine has; the fields of all others are noted as missing."""
        for fields, open_source in sources.items():
            try:
                source = open_source()
                source()
            except AbsentError as error:
                self._missing |= dict.fromkeys(fields, str(error))
            except ValueError:
                self._missing |= dict.fromkeys(fields, "this kernel writes it in a form not known here")
            else:
                yield source


def _counter_sources(root: Path) -> _Probes:
    return {
        ("other_cpu_time_ns", "steal_ns"): partial(processor_times, root),
        ("cpu_pressure_ns",): partial(pressure, root, "cpu"),
        ("memory_pressure_ns",): partial(pressure, root, "memory"),
        ("io_pressure_ns",): partial(pressure, root, "io"),
        ("throttled_ns",): partial(throttling, root),
        ("energy_uj",): partial(energy, root),
    }


def _state_sources(root: Path, cpus: Sequence[int]) -> _Probes:
    return {
        ("min_frequency_hz", "max_frequency_hz"): partial(frequency, root, cpus),
        ("governor",): partial(governor, root, cpus),
        ("turbo",): partial(turbo, root),
        ("temperature_millicelsius",): partial(temperature, root),
        ("power_supply",): partial(power_supply, root),
    }


def _readings(sources: Sequence[Probe]) -> dict[str, Any]:
    """All that can be read now; a source that fails in the middle of a run is absent from that block."""
    readings: dict[str, Any] = {}
    for source in sources:
        try:
            readings |= source()
        except (AbsentError, ValueError):
            continue
    return readings


def _own_counters() -> dict[str, int]:
    # getrusage counts all threads, those that have ended too.
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    return {"cpu_time_ns": this_process.process_cpu_time_ns(), "involuntary_switches": switches}
