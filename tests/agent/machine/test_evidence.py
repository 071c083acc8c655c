"""Evidence is what changed between the two ends of a block, absent with a reason where the machine does not tell."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from machine import CPU, write, write_policies, write_pressure, write_stat

from enginebench_agent.machine import this_process
from enginebench_agent.machine.disturbances import disturbances, to_message
from enginebench_agent.machine.evidence import EvidenceReader
from enginebench_agent.machine.sources import TICK_NS
from enginebench_proto.v1.measurement_pb2 import (
    DISTURBANCE_KIND_FREQUENCY,
    DISTURBANCE_KIND_OTHER_PROCESSES,
    DISTURBANCE_KIND_STEAL,
    DISTURBANCE_KIND_THROTTLED,
    Disturbance,
    Evidence,
)

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
SOMETHING_ELSE = {"missing", "cpu_time_ns", "involuntary_switches"}
OF_UNLIKE_CORES = {"cluster_migrations"}
REFERENCE = {"reference_product_ns", "reference_stream_ns"}
MACHINE_FIELDS = {field.name for field in Evidence.DESCRIPTOR.fields} - SOMETHING_ELSE - REFERENCE - OF_UNLIKE_CORES


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def one_block(root: Path) -> Evidence:
    """The evidence of a block in which nothing happens."""
    reader = EvidenceReader([0, 1], root)
    reader.begin()
    return reader.end()


def test_on_a_machine_that_tells_nothing_every_field_is_absent_with_its_reason(root: Path) -> None:
    evidence = one_block(root)
    assert {field.name for field, _ in evidence.ListFields()} == SOMETHING_ELSE
    assert dict(evidence.missing) == {
        **dict.fromkeys(("other_cpu_time_ns", "steal_ns"), "no /proc/stat here"),
        **{f"{name}_pressure_ns": f"no /proc/pressure/{name} here" for name in ("cpu", "memory", "io")},
        **dict.fromkeys(("governor", "min_frequency_hz", "max_frequency_hz"), "no cpufreq here"),
        "throttled_ns": "no control group here counts throttling",
        **dict.fromkeys(
            ("energy_uj", "energy_source"),
            "no meter of the processor's or the board's energy or power here",
        ),
        "held_back_by": "nothing here tells what holds the processors back",
        "turbo": "no switch for turbo here",
        "temperature_millicelsius": "no thermal zone here",
        "power_supply": "no power supply is listed here",
    }


def test_every_field_is_either_there_or_missing_with_a_reason_on_this_very_machine() -> None:
    reader = EvidenceReader(sorted(os.sched_getaffinity(0)))
    reader.begin()
    burn(0.05)
    first = reader.end()
    there = {name for name in MACHINE_FIELDS if first.HasField(name)}
    assert there | set(first.missing) == MACHINE_FIELDS
    assert not there & set(first.missing)
    assert 0.05 * SECOND <= first.cpu_time_ns < 0.2 * SECOND
    reader.begin()
    second = reader.end()
    assert not second.missing, "reasons are told once"
    assert second.cpu_time_ns < first.cpu_time_ns


COST = """
import os, time
from enginebench_agent.machine.evidence import EvidenceReader
reader, costs_ns = EvidenceReader(sorted(os.sched_getaffinity(0))), []
for _ in range(50):
    begin_ns = time.thread_time_ns()
    reader.begin()
    reader.end()
    costs_ns.append(time.thread_time_ns() - begin_ns)
print(min(costs_ns))
"""


def test_a_pair_of_readings_costs_less_than_a_hundredth_of_the_shortest_block() -> None:
    # In a process of its own, as most engines have: this one may have started many others, and theirs is read too.
    told = subprocess.run([sys.executable, "-c", COST], capture_output=True, text=True, check=True).stdout
    assert int(told) < 0.5 * MILLISECOND


def test_time_of_other_processes_is_the_machines_without_ones_own(root: Path) -> None:
    write_stat(root, user=100, system=10, idle=5000, steal=7)
    reader = EvidenceReader([0], root)
    reader.begin()
    used_ns = burn(0.1)
    write_stat(root, user=130, system=20, idle=9000, steal=12)
    evidence = reader.end()
    assert evidence.other_cpu_time_ns == pytest.approx(400 * MILLISECOND - used_ns, abs=20 * MILLISECOND)
    assert evidence.steal_ns == 50 * MILLISECOND


def test_ones_own_time_never_makes_that_of_others_negative(root: Path) -> None:
    write_stat(root, user=100)
    reader = EvidenceReader([0], root)
    reader.begin()
    burn(0.02)
    assert reader.end().other_cpu_time_ns == 0


def test_an_engine_in_a_process_of_its_own_is_no_other_process(root: Path) -> None:
    write_stat(root, user=100)
    reader = EvidenceReader([0], root)
    reader.begin()
    script = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        engine.stdout.readline()
        write_stat(root, user=130)
        alive = reader.end()
        engine.communicate(b"\n")
    for evidence in (alive, reader.end()):
        assert evidence.cpu_time_ns >= 300 * MILLISECOND
        assert evidence.other_cpu_time_ns == 0


def test_pressure_is_the_growth_of_the_line_some(root: Path) -> None:
    for resource in ("cpu", "memory", "io"):
        write_pressure(root, resource, 1000)
    reader = EvidenceReader([0], root)
    reader.begin()
    for total_us, resource in enumerate(("cpu", "memory", "io"), start=1001):
        write_pressure(root, resource, total_us)
    evidence = reader.end()
    assert (evidence.cpu_pressure_ns, evidence.memory_pressure_ns, evidence.io_pressure_ns) == (1000, 2000, 3000)


def test_throttling_is_summed_over_all_enclosing_groups(root: Path) -> None:
    write(root, "proc/self/cgroup", "0::/slice/agent")
    write(root, "sys/fs/cgroup/slice/agent/cpu.stat", "usage_usec 5\nthrottled_usec 100")
    write(root, "sys/fs/cgroup/slice/cpu.stat", "usage_usec 5\nthrottled_usec 10")
    write(root, "sys/fs/cgroup/cpu.stat", "usage_usec 5")
    reader = EvidenceReader([0], root)
    reader.begin()
    write(root, "sys/fs/cgroup/slice/agent/cpu.stat", "usage_usec 6\nthrottled_usec 300")
    write(root, "sys/fs/cgroup/slice/cpu.stat", "usage_usec 6\nthrottled_usec 11")
    assert reader.end().throttled_ns == 201_000


def test_throttling_is_read_from_the_older_interface_too(root: Path) -> None:
    write(root, "proc/self/cgroup", "3:cpu,cpuacct:/agent")
    write(root, "sys/fs/cgroup/cpu/agent/cpu.stat", "nr_throttled 1\nthrottled_time 500")
    reader = EvidenceReader([0], root)
    reader.begin()
    write(root, "sys/fs/cgroup/cpu/agent/cpu.stat", "nr_throttled 2\nthrottled_time 1700")
    assert reader.end().throttled_ns == 1200


def test_frequency_is_that_of_the_processors_used(root: Path) -> None:
    write_policies(root, count=3)
    for cpu, khz in enumerate((1_500_000, 3_000_000, 4_000_000)):
        write(root, f"{CPU}/cpufreq/policy{cpu}/scaling_cur_freq", khz)
    write(root, f"{CPU}/cpufreq/policy0/scaling_governor", "performance")
    evidence = one_block(root)
    assert (evidence.min_frequency_hz, evidence.max_frequency_hz) == (1_500_000_000, 3_000_000_000)
    assert evidence.governor == "performance,powersave"


@pytest.mark.parametrize("unknown", ["0", "<unknown>", "", "4294967290"])
def test_a_frequency_that_is_not_known_is_none(unknown: str, root: Path) -> None:
    write_policies(root, khz=3_000_000)
    write(root, f"{CPU}/cpufreq/policy1/scaling_cur_freq", unknown)
    evidence = one_block(root)
    assert (evidence.min_frequency_hz, evidence.max_frequency_hz) == (3_000_000_000, 3_000_000_000)
    write(root, f"{CPU}/cpufreq/policy0/scaling_cur_freq", unknown)
    assert not one_block(root).HasField("min_frequency_hz")


def test_a_frequency_that_cannot_be_opened_hides_no_other(root: Path) -> None:
    write_policies(root, khz=3_000_000)
    (root / CPU / "cpufreq/policy0/scaling_cur_freq").unlink()
    assert one_block(root).max_frequency_hz == 3_000_000_000


def test_the_highest_frequency_seen_is_remembered(root: Path) -> None:
    write_policies(root, khz=3_000_000)
    reader = EvidenceReader([0, 1], root)
    assert reader.highest_frequency_hz is None
    for khz in (3_000_000, 1_000_000):
        for cpu in (0, 1):
            write(root, f"{CPU}/cpufreq/policy{cpu}/scaling_cur_freq", khz)
        reader.begin()
        evidence = reader.end()
    assert reader.highest_frequency_hz == 3_000_000_000
    assert [*map(str, disturbances(evidence, SECOND, 2, reader.highest_frequency_hz))] == [
        "frequency 1.00 GHz, 33 % of the highest seen"
    ]


@pytest.mark.parametrize(
    ("file", "says", "turbo"),
    [
        ("intel_pstate/no_turbo", 0, True),
        ("intel_pstate/no_turbo", 1, False),
        ("cpufreq/boost", 1, True),
        ("cpufreq/boost", 0, False),
    ],
)
def test_turbo_is_told_by_either_driver(root: Path, file: str, says: int, turbo: bool) -> None:
    write(root, f"{CPU}/{file}", says)
    assert one_block(root).turbo is turbo


def test_the_temperature_is_that_of_the_processors_where_they_have_one(root: Path) -> None:
    for number, (kind, millicelsius) in enumerate(
        [("x86_pkg_temp", 61_000), ("iwlwifi_1", 80_000), ("acpitz", 27_000)]
    ):
        write(root, f"sys/class/thermal/thermal_zone{number}/type", kind)
        write(root, f"sys/class/thermal/thermal_zone{number}/temp", millicelsius)
    assert one_block(root).temperature_millicelsius == 61_000
    write(root, "sys/class/thermal/thermal_zone0/type", "pch")
    assert one_block(root).temperature_millicelsius == 27_000, "that of nothing else, where none is a processor's"
    write(root, "sys/class/thermal/thermal_zone2/type", "battery")
    assert one_block(root).missing["temperature_millicelsius"] == "no thermal zone of a processor is known here"


def test_a_processor_without_a_thermal_zone_has_a_sensor(root: Path) -> None:
    write(root, "sys/class/hwmon/hwmon0/name", "nvme")
    write(root, "sys/class/hwmon/hwmon0/temp1_input", 70_000)
    write(root, "sys/class/hwmon/hwmon1/name", "k10temp")
    write(root, "sys/class/hwmon/hwmon1/temp1_input", 55_250)
    assert one_block(root).temperature_millicelsius == 55_250


@pytest.mark.parametrize(
    ("online", "status", "supply"),
    [
        (1, "Charging", "mains"),
        (0, "Discharging", "battery"),
        (1, "Discharging", "mains"),
        (0, "Full", "mains"),
        (0, "Not charging", "mains"),
        (1, "Unknown", "mains"),
        (1, "", "mains"),
        (0, "Unknown", ""),
        ("", "", ""),
    ],
)
def test_a_laptop_runs_on_mains_or_battery(root: Path, online: int | str, status: str, supply: str) -> None:
    write(root, "sys/class/power_supply/AC/type", "Mains")
    write(root, "sys/class/power_supply/AC/online", online)
    write(root, "sys/class/power_supply/BAT0/type", "Battery")
    write(root, "sys/class/power_supply/BAT0/status", status)
    evidence = one_block(root)
    assert evidence.power_supply == supply and evidence.HasField("power_supply") == bool(supply)


@pytest.mark.parametrize(
    ("status", "supply"), [("Discharging", "battery"), ("Charging", "mains"), ("Not charging", "mains")]
)
def test_a_port_that_is_online_may_feed_something_else(root: Path, status: str, supply: str) -> None:
    files = {"ucsi/type": "USB", "ucsi/online": 1, "AC/type": "Mains", "AC/online": 0}
    for file, text in (files | {"BAT0/type": "Battery", "BAT0/status": status}).items():
        write(root, f"sys/class/power_supply/{file}", text)
    assert one_block(root).power_supply == supply


def test_a_battery_that_cannot_be_read_leaves_what_the_mains_say(root: Path) -> None:
    files = {"AC/type": "Mains", "AC/online": 1, "BAT0/type": "Battery"}
    for file, text in files.items():
        write(root, f"sys/class/power_supply/{file}", text)
    assert one_block(root).power_supply == "mains"


def test_no_supply_online_and_no_battery_that_tells_is_no_mains(root: Path) -> None:
    for file, text in {"BAT0/type": "Battery", "BAT0/status": "Unknown"}.items():
        write(root, f"sys/class/power_supply/{file}", text)
    evidence = one_block(root)
    assert not evidence.HasField("power_supply")
    assert evidence.missing["power_supply"] == "no supply is online, and no battery tells"


def test_the_battery_of_a_mouse_says_nothing_about_the_machine(root: Path) -> None:
    for file, text in (("type", "Battery"), ("scope", "Device"), ("status", "Discharging")):
        write(root, f"sys/class/power_supply/hid-mouse/{file}", text)
    assert one_block(root).missing["power_supply"] == "no power supply is listed here"


@pytest.mark.parametrize(
    ("bits", "held_back_by"),
    [
        ("0", ""),
        ("50000", ""),  # it was, since the board was switched on
        ("50005", "under-voltage, throttled"),
        ("8", "temperature limit"),
    ],
)
def test_the_firmware_of_a_board_tells_what_holds_it_back(root: Path, bits: str, held_back_by: str) -> None:
    write(root, "sys/devices/platform/soc/soc:firmware/get_throttled", bits)
    evidence = one_block(root)
    assert evidence.HasField("held_back_by") and evidence.held_back_by == held_back_by
    assert [str(one) for one in disturbances(evidence, SECOND, 1)] == (["held back"] if held_back_by else [])


def test_cooling_and_a_guard_against_heat_are_told(root: Path) -> None:
    write(root, "sys/class/thermal/cooling_device0/type", "Processor")
    write(root, "sys/class/thermal/cooling_device0/cur_state", 0)
    write(root, "sys/class/thermal/cooling_device1/type", "pwm-fan")
    write(root, "sys/class/thermal/cooling_device1/cur_state", 3)
    write(root, f"{CPU}/cpu1/thermal_throttle/core_throttle_count", 4)
    reader = EvidenceReader([1], root)
    reader.begin()
    assert reader.end().held_back_by == ""
    reader.begin()
    write(root, "sys/class/thermal/cooling_device0/cur_state", 2)
    write(root, f"{CPU}/cpu1/thermal_throttle/core_throttle_count", 6)
    assert reader.end().held_back_by == "cooling, heat"


def test_threads_that_go_to_another_kind_of_cores_are_counted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cpu, capacity in enumerate([400, 400, 1024]):
        write(root, f"{CPU}/cpu{cpu}/cpu_capacity", capacity)
    monkeypatch.setattr(this_process, "tasks", lambda _: iter(sorted((root / "task").iterdir())))

    def on(**processors: int) -> None:
        for thread, cpu in processors.items():
            write(root, f"task/{thread}/stat", f"7 (a name) here) {' '.join(['0'] * 36)} {cpu} 0 0")

    on(first=0, second=1, third=2)
    reader = EvidenceReader([0, 1, 2], root)
    reader.begin()
    on(first=2, second=0, third=2, new=2)
    assert reader.end().cluster_migrations == 1, "the second stays among little ones, and of the new nothing is known"
    assert not one_block(root).HasField("cluster_migrations"), "cores 0 and 1 are of one kind"


def test_where_nothing_is_ever_counted_the_use_by_others_is_missing_and_not_none(root: Path) -> None:
    """gVisor shows a /proc/stat of zeros, whatever goes on."""
    write_stat(root, idle=0)
    evidence = one_block(root)
    assert not evidence.HasField("other_cpu_time_ns") and not evidence.HasField("steal_ns")
    assert evidence.missing["other_cpu_time_ns"] == evidence.missing["steal_ns"] == "/proc/stat counts nothing here"


def test_a_file_in_a_form_not_known_is_missing_and_breaks_nothing(root: Path) -> None:
    write(root, "proc/stat", "cpu  lots of it")
    write_pressure(root, "cpu", 1)
    evidence = one_block(root)
    assert evidence.missing["steal_ns"] == "this kernel writes it in a form not known here"
    assert evidence.HasField("cpu_pressure_ns")


def test_a_source_that_fails_in_the_middle_of_a_run_is_absent_from_that_block(root: Path) -> None:
    write(root, "sys/class/thermal/thermal_zone0/type", "x86_pkg_temp")
    write(root, "sys/class/thermal/thermal_zone0/temp", 50_000)
    write_stat(root)
    reader = EvidenceReader([0], root)
    reader.begin()
    write(root, "sys/class/thermal/thermal_zone0/temp", "")
    evidence = reader.end()
    assert not evidence.HasField("temperature_millicelsius")
    assert evidence.HasField("steal_ns")


@pytest.mark.parametrize(
    ("evidence", "duration_ns", "cores", "phrases"),
    [
        (Evidence(), SECOND, 1, []),
        (Evidence(steal_ns=10 * MILLISECOND), SECOND // 10, 1, []),  # one tick: rounding
        (Evidence(steal_ns=20 * MILLISECOND), SECOND // 10, 1, ["steal 20 %"]),
        (Evidence(steal_ns=20 * MILLISECOND), SECOND, 1, ["steal 2 %"]),
        (Evidence(steal_ns=20 * MILLISECOND), SECOND, 2, []),
        (Evidence(other_cpu_time_ns=50 * MILLISECOND), SECOND, 1, []),
        (Evidence(other_cpu_time_ns=60 * MILLISECOND), SECOND, 1, ["other processes 6 %"]),
        (Evidence(other_cpu_time_ns=60 * MILLISECOND), SECOND, 2, []),
        (Evidence(other_cpu_time_ns=1500 * MILLISECOND), SECOND, 1, ["other processes 150 %"]),
        (Evidence(throttled_ns=1_500_000), SECOND, 1, ["throttled for 1.5 ms"]),
        (Evidence(memory_pressure_ns=10 * MILLISECOND), SECOND, 4, []),
        (Evidence(memory_pressure_ns=11 * MILLISECOND), SECOND, 4, ["memory pressure 1.1 %"]),
        (Evidence(cpu_pressure_ns=SECOND, io_pressure_ns=SECOND, involuntary_switches=1000), SECOND, 1, []),
        (Evidence(steal_ns=SECOND, throttled_ns=1000), SECOND, 1, ["steal 100 %", "throttled for 0.001 ms"]),
    ],
)
def test_a_block_is_disturbed_by_what_took_processor_time_from_it(
    evidence: Evidence, duration_ns: int, cores: int, phrases: list[str]
) -> None:
    assert [*map(str, disturbances(evidence, duration_ns, cores))] == phrases


def charged_ns(cores: int, ticks: int, jiffy_ns: int) -> int:
    """What /proc/stat shows of processors that were all at work in a stretch of so many ticks of the kernel's timer."""
    return -(-cores * ticks * jiffy_ns // TICK_NS) * TICK_NS


@pytest.mark.parametrize(("cores", "hertz"), [(1, 100), (2, 100), (2, 250), (4, 100), (8, 250), (8, 1000), (64, 250)])
def test_what_the_kernels_ticks_make_of_ones_own_cores_is_no_other_process(
    monkeypatch: pytest.MonkeyPatch, cores: int, hertz: int
) -> None:
    jiffy_ns = SECOND // hertz
    monkeypatch.setattr("enginebench_agent.machine.disturbances.JIFFY_NS", jiffy_ns)
    for block_ns in range(50 * MILLISECOND, 110 * MILLISECOND, MILLISECOND // 2):
        more_ns = charged_ns(cores, block_ns // jiffy_ns + 1, jiffy_ns) - cores * block_ns
        assert not disturbances(Evidence(other_cpu_time_ns=max(0, more_ns)), block_ns, cores)


@pytest.mark.parametrize(("cores", "duration_ms", "used_ms"), [(2, 50, 20), (2, 100, 20), (8, 100, 50), (8, 1000, 401)])
def test_others_are_told_from_the_kernels_ticks_on_two_cores_and_in_long_blocks(
    monkeypatch: pytest.MonkeyPatch, cores: int, duration_ms: int, used_ms: int
) -> None:
    monkeypatch.setattr("enginebench_agent.machine.disturbances.JIFFY_NS", 4 * MILLISECOND)
    used = Evidence(other_cpu_time_ns=used_ms * MILLISECOND)
    assert len(disturbances(used, duration_ms * MILLISECOND, cores)) == 1


def test_what_disturbed_a_block_is_told_by_kind_with_its_amounts() -> None:
    busy = Evidence(steal_ns=SECOND // 2, other_cpu_time_ns=3 * SECOND, throttled_ns=1_500_000, max_frequency_hz=10**9)
    assert [*map(to_message, disturbances(busy, SECOND, 2, 4 * 10**9))] == [
        Disturbance(kind=DISTURBANCE_KIND_STEAL, share=0.25),
        Disturbance(kind=DISTURBANCE_KIND_OTHER_PROCESSES, share=1.5),
        Disturbance(kind=DISTURBANCE_KIND_THROTTLED, duration_ns=1_500_000),
        Disturbance(kind=DISTURBANCE_KIND_FREQUENCY, share=0.25, frequency_hz=10**9),
    ]


@pytest.mark.parametrize(("share", "disturbed"), [(0.76, False), (0.74, True)])
def test_a_block_is_disturbed_when_even_the_fastest_processor_was_slow(share: float, disturbed: bool) -> None:
    evidence = Evidence(min_frequency_hz=800_000_000, max_frequency_hz=round(share * 4e9))
    assert bool(disturbances(evidence, SECOND, 1, 4_000_000_000)) is disturbed


def burn(seconds: float) -> int:
    """Use this much processor time; returns how much of it was used, in nanoseconds."""
    begin_ns = time.process_time_ns()
    while (used_ns := time.process_time_ns() - begin_ns) < seconds * SECOND:
        pass
    return used_ns
