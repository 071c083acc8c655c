"""Meters of energy: which one of a machine counts the processor or the board it sits on, and what it has counted."""

import math
import re
import time
from collections.abc import Callable
from pathlib import Path

from enginebench_agent.machine.kept_file import AbsentError, KeptFile, Probe, sensor_chips, word


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
    return word(zone / "name").startswith("package")


def _energy_counters(root: Path) -> _Meter | None:
    """The counters of one sensor chip that stand for whole sockets or, without such, all that it has."""
    for chip in sensor_chips(root):
        counters = sorted(chip.glob("energy[0-9]*_input"))
        sockets = [one for one in counters if "socket" in word(_label(one))]
        if files := [KeptFile(one, root) for one in sockets or counters]:
            return f"hwmon {word(chip / 'name')}", lambda files=files: sum(file.integer() for file in files)
    return None


_INPUT_RAILS = ("vdd_in", "pom_5v_in", "5v_in", "vcc_in", "vin")
"""What boards call the line that feeds all others. Jetson AGX's VIN_SYS_5V0 feeds a part of it only."""


def _power_meter(root: Path) -> _Meter | None:
    """The line that feeds the board, or the only one that a chip of the INA family measures."""
    for chip in sensor_chips(root):
        if not word(chip / "name").startswith("ina"):
            continue
        files = [path.name for kind in ("power", "curr") for path in chip.glob(f"{kind}[0-9]*_input")]
        labels = {number: word(chip / f"in{number}_label") for number in re.findall(r"\d+", " ".join(files))}
        fed = [number for number, label in labels.items() if label in _INPUT_RAILS]
        if len(chosen := fed or list(labels)) == 1:
            source = " ".join(filter(None, ("hwmon", word(chip / "name"), labels[chosen[0]].upper())))
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


def _label(path: Path) -> Path:
    return path.with_name(path.name.replace("_input", "_label"))
