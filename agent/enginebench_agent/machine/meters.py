"""Meters of energy: which one of a machine counts the processor, or the board that it sits on, and what it counted."""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from enginebench_agent.machine.kept_file import AbsentError, KeptFile, Probe, sensor_chips, word
from enginebench_proto.agreed.words import POWER_AT


@dataclass(frozen=True)
class Metered:
    """Whose energy is wanted: of what runs `on_processor` or another device, and at work all the time or `paced`.

    An open loop is paced: between arrivals nothing is at work.
    """

    on_processor: bool = True
    paced: bool = False


@dataclass(frozen=True)
class _Meter:
    """What it is called, and what reads the microjoules that it has counted.

    Of the whole board, or of its processors alone; `of_power` where it only tells what is drawn at the moment.
    """

    source: str
    total_uj: Callable[[], int]
    of_board: bool = False
    of_power: bool = False


def energy(root: Path, metered: Metered) -> Probe:
    """Energy by the nearest meter: the processor's own, a counter of the board, or its power over time.

    `energy_source` says which. In microjoules. A meter of something else, as of a graphics card, is none.
    """
    refusals = []
    for find in (_rapl, _sockets, _board):
        try:
            found = find(root)
        except AbsentError as error:  # for root only: the next one may be for everybody
            refusals.append(error)
            continue
        if found is None:
            continue
        if not (metered.on_processor or found.of_board):
            refusals.append(AbsentError(f"{found.source} counts the processor, and this ran on another device"))
            continue
        if metered.paced and found.of_power:
            raise AbsentError(f"{found.source} tells the power at the end of a block only, and an open loop has pauses")
        source = f"{found.source}, {POWER_AT} the end of a block" if found.of_power else found.source
        return partial(_reading, found, source)
    raise refusals[0] if refusals else AbsentError("no meter of the processor's or the board's energy or power here")


def _reading(meter: _Meter, source: str) -> Mapping[str, Any]:
    return {"energy_uj": meter.total_uj(), "energy_source": source}


def _rapl(root: Path) -> _Meter | None:
    """All processor packages together, by the kernel's RAPL interface.

    A package's counter starts anew at `max_energy_range_uj`; it must not do so twice between two readings, and takes
    a quarter of an hour or more.
    """
    zones = (root / "sys/class/powercap").glob("intel-rapl:*")
    packages = [_Package(zone, root) for zone in sorted(zones) if zone.name.count(":") == 1 and _is_package(zone)]
    return _Meter("RAPL", lambda: sum(package.total_uj() for package in packages)) if packages else None


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


def _sockets(root: Path) -> _Meter | None:
    """The counters of one sensor chip that are labelled as those of whole sockets, as amd_energy's.

    Chips of graphics cards (xe, i915, amdgpu) have counters with the same names of files.
    """
    for chip in sensor_chips(root):
        sockets = [one for one in sorted(chip.glob("energy[0-9]*_input")) if "socket" in word(_label(one))]
        if files := [KeptFile(one, root) for one in sockets]:
            return _Meter(f"hwmon {word(chip / 'name')}", partial(_sum, files))
    return None


def _sum(files: Sequence[KeptFile]) -> int:
    return sum(file.integer() for file in files)


_INPUT_RAILS = ("vdd_in", "pom_5v_in", "5v_in", "vcc_in", "vin")
"""What boards call the line that feeds all others. Jetson AGX's VIN_SYS_5V0 feeds a part of it only."""


def _board(root: Path) -> _Meter | None:
    """The line that feeds the board, or the only one, without a name, that a chip of the INA family measures."""
    for chip in sensor_chips(root):
        if not (name := word(chip / "name")).startswith("ina"):
            continue
        files = [path.name for kind in ("energy", "power", "curr") for path in chip.glob(f"{kind}[0-9]*_input")]
        labels = {number: word(chip / f"in{number}_label") for number in re.findall(r"\d+", " ".join(files))}
        fed = [number for number, label in labels.items() if label in _INPUT_RAILS]
        if len(chosen := fed or (list(labels) if not any(labels.values()) else [])) == 1:
            source = " ".join(filter(None, ("hwmon", name, labels[chosen[0]].upper())))
            if (counter := chip / f"energy{chosen[0]}_input").exists():
                return _Meter(source, KeptFile(counter, root).integer, of_board=True)
            return _Meter(source, _Power(chip, chosen[0], root).total_uj, of_board=True, of_power=True)
    return None


class _Power:
    """Energy by a meter of power, or of voltage and current.

    What is drawn as a block ends is taken for all of it. As it begins, the machine may come from a rest: half of that
    in the mean made short inferences look a quarter cheaper than they were.
    """

    def __init__(self, chip: Path, channel: str, root: Path) -> None:
        power = chip / f"power{channel}_input"
        names = [power] if power.exists() else [chip / f"in{channel}_input", chip / f"curr{channel}_input"]
        self._files = [KeptFile(name, root) for name in names]
        self._last_ns, self._total_uj = time.monotonic_ns(), 0.0

    def total_uj(self) -> int:
        now_ns = time.monotonic_ns()
        power_uw = math.prod(file.integer() for file in self._files)  # the kernel has millivolts and milliamperes
        self._total_uj += power_uw * (now_ns - self._last_ns) / 1e9
        self._last_ns = now_ns
        return round(self._total_uj)


def _label(path: Path) -> Path:
    return path.with_name(path.name.replace("_input", "_label"))
