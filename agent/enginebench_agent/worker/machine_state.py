"""What the machine counts and what state it is in, one function a source, for `evidence`.

Each function opens its files below `root` and returns a function that reads them: fields of the message `Evidence` by
name, counters as totals since some moment of the past. It raises `AbsentError` where the machine does not tell.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from enginebench_agent import cgroup, cpufreq
from enginebench_agent.worker.kernel_files import AbsentError, KeptFile
from enginebench_agent.worker.observe import process_cpu_time_ns

Source = Callable[[], Mapping[str, Any]]

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
"""The unit of /proc/stat: a change of less cannot be seen there."""

POWER_SUPPLY_PERIOD_NS = 1_000_000_000
"""How long a reading of the power supply is good for: some firmware takes milliseconds to answer."""

# Types of thermal zones, and names of sensors, that belong to a processor.
_PROCESSOR_ZONES = ("x86_pkg_temp", "cpu", "soc")
_PROCESSOR_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")


def processor_times(root: Path) -> Source:
    """Processor time of all but this process and what it started, and time stolen: /proc/stat's ticks of 10 ms, as
    nanoseconds.
    """
    stat = KeptFile(root / "proc/stat", root)

    def read() -> Mapping[str, int]:
        user, nice, system, _, _, irq, softirq, steal = (int(text) for text in stat.read().split(maxsplit=9)[1:9])
        busy_ns = (user + nice + system + irq + softirq) * TICK_NS
        return {"other_cpu_time_ns": busy_ns - process_cpu_time_ns(), "steal_ns": steal * TICK_NS}

    return read


def pressure(root: Path, resource: str) -> Source:
    """Time in which some task waited for "cpu", "memory" or "io"; the kernel counts microseconds."""
    file = KeptFile(root / "proc/pressure" / resource, root)

    def read() -> Mapping[str, int]:
        some = file.read().partition(b"\n")[0]
        return {f"{resource}_pressure_ns": int(some.rpartition(b"total=")[2]) * 1000}

    return read


def throttling(root: Path) -> Source:
    """Time this control group and those around it were held back for their quotas."""
    files = [KeptFile(path, root) for path in cgroup.cpu_stat_files(root)]
    files = [file for file in files if cgroup.throttled_ns(file.read()) is not None]
    if not files:
        raise AbsentError("no control group here counts throttling")
    return lambda: {"throttled_ns": sum(cgroup.throttled_ns(file.read()) or 0 for file in files)}


def energy(root: Path) -> Source:
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


def frequency(root: Path, cpus: Sequence[int]) -> Source:
    """Lowest and highest frequency of these processors, in hertz."""
    files = [KeptFile(policy / "scaling_cur_freq", root) for policy in _policies(root, cpus)]

    def read() -> Mapping[str, int]:
        frequencies_hz = [file.integer() * 1000 for file in files]
        return {"min_frequency_hz": min(frequencies_hz), "max_frequency_hz": max(frequencies_hz)}

    return read


def governor(root: Path, cpus: Sequence[int]) -> Source:
    """The frequency governor of these processors; several, sorted and with commas, where they differ."""
    files = [KeptFile(policy / "scaling_governor", root) for policy in _policies(root, cpus)]
    return lambda: {"governor": ",".join(sorted({file.text() for file in files}))}


def _policies(root: Path, cpus: Sequence[int]) -> tuple[Path, ...]:
    if not (found := cpufreq.policies(root, cpus)):
        raise AbsentError("no cpufreq here")
    return found


def turbo(root: Path) -> Source:
    """Whether processors may go beyond their base frequency."""
    if (switch := cpufreq.turbo_switch(root)) is None:
        raise AbsentError("no switch for turbo here")
    file = KeptFile(switch.path, root)
    return lambda: {"turbo": file.text() == switch.on}


def temperature(root: Path) -> Source:
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


def power_supply(root: Path) -> Source:
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
