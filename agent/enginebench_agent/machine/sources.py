"""Where a machine tells what it counts and its state, one function a source: files of /proc and /sys.

Each function opens its files below `root` and returns a function that reads them: fields of the message `Evidence` by
name, counters as totals since some moment of the past. It raises `AbsentError` where the machine does not tell.
"""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from enginebench_agent.machine import cgroup, cores, this_process
from enginebench_agent.machine.kept_file import AbsentError, KeptFile, Probe, sensor_chips, word
from enginebench_agent.machine.this_process import process_cpu_time_ns

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


_FIRMWARE_LIMITS = ("under-voltage", "frequency capped", "throttled", "temperature limit")
"""Bits of a Raspberry Pi's `get_throttled`, from the lowest, as its documentation names them."""
_CPU_COOLERS = ("cpufreq-", "thermal-cpufreq", "processor")


def held_back_by(root: Path, cpus: Sequence[int]) -> Probe:
    """What holds these processors down at the moment: the board's firmware, the kernel's cooling, Intel's heat guard.

    One phrase each, with commas; "" for nothing.
    """
    firmware = [KeptFile(path, root) for path in (root / "sys/devices/platform").glob("soc*/*firmware/get_throttled")]
    devices = sorted((root / "sys/class/thermal").glob("cooling_device[0-9]*"))
    coolers = [KeptFile(one / "cur_state", root) for one in devices if word(one / "type").startswith(_CPU_COOLERS)]
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
    of_processors = [zone for zone in zones if any(part in word(zone / "type") for part in _PROCESSOR_ZONES)]
    sensors = [sensor for sensor in sensor_chips(root) if word(sensor / "name") in _PROCESSOR_SENSORS]
    from_sensors = [file for sensor in sensors for file in sorted(sensor.glob("temp[0-9]*_input"))]
    return [zone / "temp" for zone in of_processors] or from_sensors or [zone / "temp" for zone in zones]


def power_supply(root: Path) -> Probe:
    """Whether the machine runs on "mains" or "battery"."""
    supplies = sorted((root / "sys/class/power_supply").glob("*"))
    mains = [KeptFile(each / "online", root) for each in supplies if word(each / "type") in ("mains", "usb")]
    # The batteries of mice and keyboards are of scope "Device".
    batteries = [each for each in supplies if word(each / "type") == "battery" and word(each / "scope") != "device"]
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
