"""Where a machine tells what it counts and its state, one function a source: files of /proc and /sys.

Each function opens its files below `root` and returns a function that reads them: fields of the message `Evidence` by
name, counters as totals since some moment of the past. It raises `AbsentError` where the machine does not tell.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from enginebench_agent.machine import cgroup, cores, this_process
from enginebench_agent.machine.kept_file import AbsentError, KeptFile, Probe, answers, kept, sensor_chips, word
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
# And those of something else; ACPI's "INT3400" says 20 °C for ever.
_OTHER_ZONES = (
    *("bat", "charger", "pmic", "wifi", "wlan", "modem", "skin", "ambient", "gpu", "npu", "ddr", "dimm"),
    *("nvme", "pch", "usb", "cam", "display", "int3400"),
)


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
_IDLE_INJECTORS = ("intel_powerclamp", "cpu-idle", "idle-", "thermal-idle")
"""They cool by keeping processors idle; Intel's says -1 at rest."""

_COUNTS_OF_HEAT = ("throttle_count", "throttle_total_time_ms")
_MOST_CORES_TIMED = 128
"""With more, cores are counted only, and packages timed: files are kept open, and a process may often have 1024."""

_Sign = Callable[[], Sequence[str]]
"""Reads one kind of signs of being held back: its phrases, none where nothing does."""


class HeldBack:
    """What holds these processors down: the board's firmware, the kernel's cooling, Intel's heat guard.

    One phrase each, with commas; "" for nothing. The first two tell of the moment, the guard of the time since `begin`.
    """

    def __init__(self, root: Path, cpus: Sequence[int]) -> None:
        """Raises `AbsentError` where none of them is here."""
        self._guard: list[_Sign] = []
        with contextlib.suppress(AbsentError):
            self._guard = [_heat(root, cpus)]
        find: tuple[Callable[[], _Sign], ...] = (partial(_firmware_limits, root), partial(_cooling, root, cpus))
        self._signs = list(self._guard)
        with contextlib.suppress(AbsentError):
            self._signs = [*answers(find), *self._guard]
        if not self._signs:
            raise AbsentError("nothing here tells what holds the processors back")

    def begin(self) -> None:
        """What the guard has counted so far is of the time before."""
        for guard in self._guard:
            with contextlib.suppress(AbsentError):
                guard()

    def __call__(self) -> Mapping[str, str]:
        """The phrases. Raises `AbsentError` where none of them answers."""
        return {"held_back_by": ", ".join(phrase for phrases in answers(self._signs) for phrase in phrases)}


def _firmware_limits(root: Path) -> _Sign:
    files = kept((root / "sys/devices/platform").glob("soc*/*firmware/get_throttled"), root)

    def read() -> Sequence[str]:
        bits = answers(partial(file.integer, 16) for file in files)[0]
        return [phrase for bit, phrase in enumerate(_FIRMWARE_LIMITS) if bits >> bit & 1]

    return read


def _cooling(root: Path, cpus: Sequence[int]) -> _Sign:
    devices = sorted((root / "sys/class/thermal").glob("cooling_device[0-9]*"))
    files = kept((one / "cur_state" for one in devices if _cools(word(one / "type"), root, cpus)), root)
    return lambda: ["cooling"] if any(state > 0 for state in answers(file.integer for file in files)) else []


def _cools(kind: str, root: Path, cpus: Sequence[int]) -> bool:
    """Whether a cooler of this type slows these processors, or may: most types do not name theirs."""
    first = kind.removeprefix("cpufreq-cpu")
    if first != kind and first.isdecimal():
        own = cores.policies(root, [int(first)])
        return int(first) in cpus or not set(own).isdisjoint(cores.policies(root, cpus))
    return kind.startswith((*_CPU_COOLERS, *_IDLE_INJECTORS))


def _heat(root: Path, cpus: Sequence[int]) -> _Sign:
    """Intel's guard: whether it struck, or let go, since the reading before.

    Between the two it is not taken to be at work. The count rises as it strikes and the time as it lets go, but a
    short strike is never added to the time: whoever waits for that would blame all blocks to come. What lasts longer
    shows as a lower frequency.
    """
    files = kept(_heat_files(root, cpus), root)
    last: Mapping[KeptFile, int] = {}

    def read() -> Sequence[str]:
        nonlocal last
        before, last = last, {}  # a file that cannot be read now is compared with nothing the next time
        last = dict(answers(partial(_counted, file) for file in files))
        return ["heat"] if any(count > before.get(file, count) for file, count in last.items()) else []

    return read


def _heat_files(root: Path, cpus: Sequence[int]) -> list[Path]:
    """The counts of these cores, and of their packages, which each of a package's processors shows."""
    folders = {cpu: root / cores.CPU_FOLDER / f"cpu{cpu}" for cpu in cpus}
    of_cores = _COUNTS_OF_HEAT if len(cpus) <= _MOST_CORES_TIMED else _COUNTS_OF_HEAT[:1]
    of_packages = {word(folder / "topology/physical_package_id") or cpu: folder for cpu, folder in folders.items()}
    found = [folder / f"thermal_throttle/core_{name}" for folder in folders.values() for name in of_cores]
    packages = of_packages.values()
    return found + [folder / f"thermal_throttle/package_{name}" for folder in packages for name in _COUNTS_OF_HEAT]


def _counted(file: KeptFile) -> tuple[KeptFile, int]:
    return file, file.integer()


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


_HIGHEST_KHZ = 20_000_000
"""Some drivers show an error as a number near 2^32, and 0 where they do not know."""


def frequency(root: Path, cpus: Sequence[int]) -> Probe:
    """Lowest and highest frequency of these processors, in hertz."""
    files = kept((policy / "scaling_cur_freq" for policy in _policies(root, cpus)), root)

    def read() -> Mapping[str, int]:
        frequencies_hz = [1000 * khz for khz in answers(partial(file.within, 1, _HIGHEST_KHZ) for file in files)]
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


_POSSIBLE_MILLICELSIUS = (-40_000, 150_000)
"""Sensors without power, or broken, say what is beyond."""


def temperature(root: Path) -> Probe:
    """The hottest zone or sensor of the processors; of zones not known to be something else's where there are none."""
    files = kept(_temperature_files(root), root)
    lowest, highest = _POSSIBLE_MILLICELSIUS
    return lambda: {"temperature_millicelsius": max(answers(partial(file.within, lowest, highest) for file in files))}


def _temperature_files(root: Path) -> list[Path]:
    kinds = {zone: word(zone / "type") for zone in sorted((root / "sys/class/thermal").glob("thermal_zone[0-9]*"))}
    of_processors = [zone / "temp" for zone, kind in kinds.items() if _names(kind, _PROCESSOR_ZONES)]
    of_the_rest = [zone / "temp" for zone, kind in kinds.items() if not _names(kind, _OTHER_ZONES)]
    if found := of_processors or _processor_sensors(root) or of_the_rest:
        return found
    raise AbsentError("no thermal zone of a processor is known here" if kinds else "no thermal zone here")


def _names(kind: str, parts: Sequence[str]) -> bool:
    return any(part in kind for part in parts)


def _processor_sensors(root: Path) -> list[Path]:
    chips = [chip for chip in sensor_chips(root) if word(chip / "name") in _PROCESSOR_SENSORS]
    return [file for chip in chips for file in _nearest_sensors(chip)]


def _nearest_sensors(chip: Path) -> list[Path]:
    """All sensors of a chip; of AMD's that of the die, else the one for control, to which some add 10 or 27 °C."""
    labels = {file: word(file.with_name(file.name.replace("_input", "_label"))) for file in _sensors(chip)}
    of_die, of_control = ([file for file, label in labels.items() if label == name] for name in ("tdie", "tctl"))
    return of_die or of_control or list(labels)


def _sensors(chip: Path) -> list[Path]:
    return sorted(chip.glob("temp[0-9]*_input"))


_FEEDING = ("mains", "usb", "brickid", "wireless")
"""Types of supplies that may feed a machine, as their names begin."""
_FED = {"charging", "full", "not charging"}
"""What a battery says that nothing is drawn from."""


def power_supply(root: Path) -> Probe:
    """Whether the machine runs on "mains" or "battery"."""
    asked = list(_supplies(root))
    if not asked:
        raise AbsentError("no power supply is listed here")
    supplies = answers(partial(_opened_supply, kind, path, root) for kind, path in asked)
    last: tuple[int, Mapping[str, str]] = (0, {})

    def read() -> Mapping[str, str]:
        nonlocal last
        now = time.monotonic_ns()
        if not last[1] or now - last[0] >= POWER_SUPPLY_PERIOD_NS:
            last = (now, {"power_supply": _fed_by(answers(supplies))})
        return last[1]

    return read


def _supplies(root: Path) -> Iterator[tuple[str, Path]]:
    """The type of each, with the file that tells whether it gives anything."""
    for supply in sorted((root / "sys/class/power_supply").glob("*")):
        kind = word(supply / "type")
        if word(supply / "scope") == "device":
            continue  # the battery of a mouse, or a port that feeds one
        if kind == "battery" or kind.startswith(_FEEDING):
            yield kind, supply / ("status" if kind == "battery" else "online")


def _opened_supply(kind: str, path: Path, root: Path) -> Callable[[], tuple[str, str]]:
    file = KeptFile(path, root, must_answer=False)
    return lambda: (kind, file.text().lower())


def _fed_by(told: Sequence[tuple[str, str]]) -> str:
    """ "mains" or "battery", by what each type of supply tells. Raises `AbsentError` where that is neither."""
    batteries = {text for kind, text in told if kind == "battery"}
    online = {kind for kind, text in told if kind != "battery" and text not in ("", "0")}
    # A USB port is online where it feeds a telephone, too.
    if "discharging" in batteries and "mains" not in online:
        return "battery"
    if online or batteries & _FED:
        return "mains"
    raise AbsentError("no supply is online, and no battery tells")
