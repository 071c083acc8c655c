"""Where a machine tells what it counts and its state, one function a source: files of /proc and /sys.

Each function opens its files below `root` and returns a function that reads them: fields of the message `Evidence` by
name, counters as totals since some moment of the past. It raises `AbsentError` where the machine does not tell.
"""

import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from enginebench_agent.machine import cgroup, cores, this_process
from enginebench_agent.machine.this_process import process_cpu_time_ns

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

_CLOCK_REALTIME_COARSE = 5
"""A clock of clock_gettime(2) that moves with the kernel's timer; Python has no name for it."""

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
"""The unit of /proc/stat: a change of less cannot be seen there."""

JIFFY_NS = round(1e9 * time.clock_getres(_CLOCK_REALTIME_COARSE))
"""The period of the kernel's timer. A processor that is at work as it ticks is charged a whole one in /proc/stat."""

POWER_SUPPLY_PERIOD_NS = 1_000_000_000
"""How long a reading of the power supply is good for: some firmware takes milliseconds to answer."""

# Types of thermal zones, and names of sensors, that belong to a processor: RK3588's are of its kinds of cores.
_PROCESSOR_ZONES = ("x86_pkg_temp", "cpu", "soc", "core")
_PROCESSOR_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")


def processor_times(root: Path) -> Probe:
    """Processor time of all but this process and what it started, and time stolen: /proc/stat's ticks of 10 ms, as
    nanoseconds.
    """
    stat = KeptFile(root / "proc/stat", root)

    def read() -> Mapping[str, int]:
        busy, steal = busy_and_stolen(stat.read())
        return {"other_cpu_time_ns": busy * TICK_NS - process_cpu_time_ns(), "steal_ns": steal * TICK_NS}

    return read


def busy_and_stolen(stat: bytes) -> tuple[int, int]:
    """The ticks in which processors were at work, and that the hypervisor took, of /proc/stat's first line.

    Raises `AbsentError` where not even idle ticks were ever counted, as in gVisor, and `ValueError` for another form.
    """
    counted = [int(text) for text in stat.split(maxsplit=9)[1:9]]
    if not any(counted):
        raise AbsentError("/proc/stat counts nothing here")
    user, nice, system, _, _, irq, softirq, steal = counted
    return user + nice + system + irq + softirq, steal


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
    """Energy by the nearest meter: the processor's own, a counter of the board, or its power over time.

    `energy_source` says which. In microjoules; power is taken to change evenly between two readings.
    """
    refusals = []
    for find in (_rapl, _energy_counters, _power_meter):
        try:
            found = find(root)
        except AbsentError as error:  # for root only: the next one may be for everybody
            refusals.append(error)
            continue
        if found is not None:
            source, total_uj = found
            return lambda: {"energy_uj": total_uj(), "energy_source": source}
    raise refusals[0] if refusals else AbsentError("no meter of energy or power here")


_Meter = tuple[str, Callable[[], int]]
"""What it is called, and the microjoules it has counted."""


def _rapl(root: Path) -> _Meter | None:
    """All processor packages together, by the kernel's RAPL interface.

    A package's counter starts anew at `max_energy_range_uj`; it must not do so twice between two readings, and takes
    a quarter of an hour or more.
    """
    zones = (root / "sys/class/powercap").glob("intel-rapl:*")
    packages = [_Package(zone, root) for zone in sorted(zones) if zone.name.count(":") == 1 and _is_package(zone)]
    return ("RAPL", lambda: sum(package.total_uj() for package in packages)) if packages else None


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
    return _word(zone / "name").startswith("package")


def _energy_counters(root: Path) -> _Meter | None:
    """The counters of one sensor chip that stand for whole sockets or, without such, all that it has."""
    for chip in _chips(root):
        counters = sorted(chip.glob("energy[0-9]*_input"))
        sockets = [one for one in counters if "socket" in _word(_label(one))]
        if files := [KeptFile(one, root) for one in sockets or counters]:
            return f"hwmon {_word(chip / 'name')}", lambda files=files: sum(file.integer() for file in files)
    return None


_INPUT_RAILS = ("vdd_in", "pom_5v_in", "5v_in", "vcc_in", "vin")
"""What boards call the line that feeds all others. Jetson AGX's VIN_SYS_5V0 feeds a part of it only."""


def _power_meter(root: Path) -> _Meter | None:
    """The line that feeds the board, or the only one that a chip of the INA family measures."""
    for chip in _chips(root):
        if not _word(chip / "name").startswith("ina"):
            continue
        files = [path.name for kind in ("power", "curr") for path in chip.glob(f"{kind}[0-9]*_input")]
        labels = {number: _word(chip / f"in{number}_label") for number in re.findall(r"\d+", " ".join(files))}
        fed = [number for number, label in labels.items() if label in _INPUT_RAILS]
        if len(chosen := fed or list(labels)) == 1:
            source = " ".join(filter(None, ("hwmon", _word(chip / "name"), labels[chosen[0]].upper())))
            return f"{source}, power at both ends of a block", _Power(chip, chosen[0], root).total_uj
    return None


class _Power:
    """Energy by a meter of power, or of voltage and current."""

    def __init__(self, chip: Path, channel: str, root: Path) -> None:
        power = chip / f"power{channel}_input"
        names = [power] if power.exists() else [chip / f"in{channel}_input", chip / f"curr{channel}_input"]
        self._files = [KeptFile(name, root) for name in names]
        self._last_uw, self._last_ns, self._total_uj = self._power_uw(), time.monotonic_ns(), 0.0

    def _power_uw(self) -> int:
        return math.prod(file.integer() for file in self._files)  # the kernel has millivolts and milliamperes

    def total_uj(self) -> int:
        now_uw, now_ns = self._power_uw(), time.monotonic_ns()
        self._total_uj += (self._last_uw + now_uw) / 2 * (now_ns - self._last_ns) / 1e9
        self._last_uw, self._last_ns = now_uw, now_ns
        return round(self._total_uj)


def _chips(root: Path) -> list[Path]:
    return sorted((root / "sys/class/hwmon").glob("hwmon[0-9]*"))


def _label(path: Path) -> Path:
    return path.with_name(path.name.replace("_input", "_label"))


_FIRMWARE_LIMITS = ("under-voltage", "frequency capped", "throttled", "temperature limit")
"""Bits of a Raspberry Pi's `get_throttled`, from the lowest, as its documentation names them."""
_CPU_COOLERS = ("cpufreq-", "thermal-cpufreq", "processor")


def held_back_by(root: Path, cpus: Sequence[int]) -> Probe:
    """What holds these processors down at the moment: the board's firmware, the kernel's cooling, Intel's heat guard.

    One phrase each, with commas; "" for nothing.
    """
    firmware = [KeptFile(path, root) for path in (root / "sys/devices/platform").glob("soc*/*firmware/get_throttled")]
    devices = sorted((root / "sys/class/thermal").glob("cooling_device[0-9]*"))
    coolers = [KeptFile(one / "cur_state", root) for one in devices if _word(one / "type").startswith(_CPU_COOLERS)]
    guards = [root / cores.CPU_FOLDER / f"cpu{cpu}/thermal_throttle/core_throttle_count" for cpu in cpus]
    counters = [KeptFile(path, root) for path in guards if path.exists()]
    if not (firmware or coolers or counters):
        raise AbsentError("nothing here tells what holds the processors back")
    times = sum(file.integer() for file in counters)

    def read() -> Mapping[str, str]:
        nonlocal times
        before, times = times, sum(file.integer() for file in counters)
        bits = int(firmware[0].text(), 16) if firmware else 0
        found = [phrase for bit, phrase in enumerate(_FIRMWARE_LIMITS) if bits >> bit & 1]
        found += ["cooling"] if any(file.integer() > 0 for file in coolers) else []
        found += ["heat"] if times > before else []
        return {"held_back_by": ", ".join(found)}

    return read


def cluster_migrations(root: Path, cpus: Sequence[int], proc: Path = this_process.PROC_SELF) -> Probe:
    """How often a thread of this process and of what it started was found on a core of another kind than before.

    A thread that left and came back between two readings is not seen to.
    """
    kinds = {cpu: kind for kind, group in enumerate(cores.kinds_of_cores(cpus, root)) for cpu in group}
    last: dict[str, int | None] = {}
    found = 0

    def read() -> Mapping[str, int]:
        nonlocal last, found
        now = {task.name: kinds.get(_last_processor(task)) for task in this_process.tasks(proc)}
        found += sum(task in last and last[task] != kind for task, kind in now.items())
        last = now
        return {"cluster_migrations": found}

    return read


def _last_processor(task: Path) -> int:
    """The logical processor that a thread ran on last; -1 for one that has ended."""
    try:
        return int((task / "stat").read_text().rpartition(")")[2].split()[36])  # proc(5): field 39
    except (OSError, ValueError, IndexError):
        return -1


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
    sensors = [sensor for sensor in _chips(root) if _word(sensor / "name") in _PROCESSOR_SENSORS]
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
