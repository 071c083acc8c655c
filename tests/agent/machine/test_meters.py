"""Energy is that of the processor or its board, by a meter that counts nothing else, or absent with a reason."""

import os
import time
from pathlib import Path

import pytest
from machine import write

from enginebench_agent.machine.evidence import EvidenceReader
from enginebench_agent.machine.meters import Metered
from enginebench_proto.v1.measurement_pb2 import Evidence

NO_METER = "no meter of the processor's or the board's energy or power here"


def one_block(root: Path, metered: Metered = Metered()) -> Evidence:  # noqa: B008  # frozen
    """The evidence of a block in which nothing happens."""
    reader = EvidenceReader([0, 1], root, metered)
    reader.begin()
    return reader.end()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def write_package(root: Path, number: int, energy_uj: int, name: str = "") -> None:
    zone = f"sys/class/powercap/intel-rapl:{number}"
    write(root, f"{zone}/name", name or f"package-{number}")
    write(root, f"{zone}/max_energy_range_uj", 1000)
    write(root, f"{zone}/energy_uj", energy_uj)


def test_energy_is_that_of_all_packages_and_survives_the_wrap_around(root: Path) -> None:
    write_package(root, 0, 900)
    write_package(root, 1, 10)
    write_package(root, 2, 10, name="psys")
    write(root, "sys/class/powercap/intel-rapl:0:0/name", "core")
    write(root, "sys/class/powercap/intel-rapl:0:0/energy_uj", 1)
    reader = EvidenceReader([0], root)
    reader.begin()
    write_package(root, 0, 50)
    write_package(root, 1, 30)
    write_package(root, 2, 500, name="psys")
    evidence = reader.end()
    assert (evidence.energy_uj, evidence.energy_source) == (150 + 20, "RAPL")


def test_a_counter_for_root_only_is_missing_for_want_of_permission(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_package(root, 0, 900)
    opened = os.open

    def refuse_energy(path: Path, flags: int) -> int:  # root, who may read everything, runs tests too
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return opened(path, flags)

    monkeypatch.setattr(os, "open", refuse_energy)
    assert one_block(root).missing["energy_uj"] == "permission denied: /sys/class/powercap/intel-rapl:0/energy_uj"


def write_chip(root: Path, name: str, **files: object) -> None:
    write(root, "sys/class/hwmon/hwmon3/name", name)
    for file, content in files.items():
        write(root, f"sys/class/hwmon/hwmon3/{file}", content)


def test_a_board_without_rapl_counts_energy_by_a_chip_of_its_own(root: Path) -> None:
    sockets = {"energy17_label": "Esocket0", "energy1_label": "Ecore000"}
    write_chip(root, "amd_energy", energy1_input=5, energy17_input=100, **sockets)
    reader = EvidenceReader([0], root)
    reader.begin()
    write_chip(root, "amd_energy", energy1_input=50, energy17_input=350)
    evidence = reader.end()
    assert (evidence.energy_uj, evidence.energy_source) == (250, "hwmon amd_energy")


@pytest.mark.parametrize(
    ("files", "source"),
    [
        # A Jetson's rails: the one that feeds all, in millivolts and milliamperes.
        (
            {"in1_label": "VDD_IN", "in1_input": 5000, "curr1_input": 2000, "in2_label": "VDD_SOC", "curr2_input": 1},
            "hwmon ina3221 VDD_IN, power at the end of a block",
        ),
        ({"power1_input": 10_000_000}, "hwmon ina3221, power at the end of a block"),
    ],
)
def test_power_over_a_block_is_energy(root: Path, files: dict[str, object], source: str) -> None:
    write_chip(root, "ina3221", **files)
    reader = EvidenceReader([0], root)
    began = time.monotonic()
    reader.begin()
    time.sleep(0.05)
    evidence = reader.end()
    assert evidence.energy_source == source
    assert 0.05e6 * 10 <= evidence.energy_uj <= 1.1e6 * 10 * (time.monotonic() - began)


def test_the_power_as_a_block_begins_after_a_rest_says_nothing_of_the_block(root: Path) -> None:
    write_chip(root, "ina3221", power1_input=1_000_000)
    reader = EvidenceReader([0], root)
    reader.begin()
    began = time.monotonic()
    write_chip(root, "ina3221", power1_input=10_000_000)
    time.sleep(0.05)
    energy_uj = reader.end().energy_uj
    assert 10e6 * 0.05 <= energy_uj <= 10e6 * (time.monotonic() - began + 0.01)


def test_a_chip_that_counts_what_the_board_draws_is_read_at_both_ends(root: Path) -> None:
    write_chip(root, "ina228", in1_label="VDD_IN", power1_input=1, energy1_input=100)
    reader = EvidenceReader([0], root, Metered(on_processor=False, paced=True))
    reader.begin()
    write_chip(root, "ina228", energy1_input=350)
    evidence = reader.end()
    assert (evidence.energy_uj, evidence.energy_source) == (250, "hwmon ina228 VDD_IN")


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("xe", {"energy1_label": "card", "energy1_input": 2_000_000, "energy2_label": "pkg", "energy2_input": 1}),
        ("i915", {"energy1_input": 2_000_000}),
        ("scmi_sensors", {"energy1_label": "GPU", "energy1_input": 5}),
        ("ina219", {"in1_label": "VDD_USB", "in1_input": 5000, "curr1_input": 500}),
        ("ina228", {"in1_label": "VDD_GPU", "energy1_input": 5, "power1_input": 1}),
    ],
)
def test_a_meter_of_something_else_is_none(root: Path, name: str, files: dict[str, object]) -> None:
    write_chip(root, name, **files)
    assert one_block(root).missing["energy_uj"] == NO_METER


def test_where_the_processors_own_is_for_root_only_a_graphics_card_does_not_stand_in(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_chip(root, "xe", energy1_label="card", energy1_input=2_000_000)
    test_a_counter_for_root_only_is_missing_for_want_of_permission(root, monkeypatch)


def test_what_runs_on_another_device_has_the_energy_of_the_board_and_not_of_the_processor(root: Path) -> None:
    elsewhere = Metered(on_processor=False)
    write_package(root, 0, 900)
    assert one_block(root, elsewhere).missing["energy_uj"] == (
        "RAPL counts the processor, and this ran on another device"
    )
    write_chip(root, "ina3221", power1_input=10_000_000)
    assert one_block(root, elsewhere).energy_source == "hwmon ina3221, power at the end of a block"


def test_an_open_loop_which_has_pauses_is_not_metered_by_the_power_as_a_block_ends(root: Path) -> None:
    write_chip(root, "ina3221", power1_input=10_000_000)
    assert one_block(root, Metered(paced=True)).missing["energy_uj"] == (
        "hwmon ina3221 tells the power at the end of a block only, and an open loop has pauses"
    )
    write_package(root, 0, 900)
    assert one_block(root, Metered(paced=True)).energy_source == "RAPL"


def test_rails_of_which_none_feeds_the_board_are_no_meter(root: Path) -> None:
    write_chip(root, "ina3221", in1_label="VDD_CPU_CV", curr1_input=1, in2_label="VIN_SYS_5V0", curr2_input=1)
    assert one_block(root).missing["energy_uj"] == NO_METER
