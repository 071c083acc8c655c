"""What is told of machines that are not here: their files as their owners have published them, made anew.

Sources: hrw/arm-socs-table issues 18 (RK3588) and 96 (Raspberry Pi 5), fastfetch-cli/fastfetch issue 1529 (Raspberry
Pi 4), KavrakiLab/vamp issue 20 (Jetson AGX Orin); the kernel's rk3588-base.dtsi (capacities) and imx8qm.dtsi (none, but
frequencies); Intel's data sheets of the i7-12700K and the Xeon Platinum 8480+ (cores, threads, frequencies) in the
kernel's numbering of processors.
"""

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from machine import CPU, write

from enginebench_agent.machine.cores import kinds_of_cores, physical_cores
from enginebench_agent.machine.evidence import EvidenceReader
from enginebench_agent.machine.host import read_host_facts
from enginebench_agent.worker.confine import confine_to_cores
from enginebench_plugins.spec import UnsupportedSettingsError
from enginebench_proto.agreed import processor
from enginebench_proto.v1.measurement_pb2 import Evidence

V8_2 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
X86 = "fpu sse4_2 avx f16c fma avx2 avx_vnni"


@dataclass(frozen=True)
class Machine:
    """A machine by its files; `parts` are the ARM cores by processor, `cores` which processors share one."""

    machine: str
    flags: str
    cores: Sequence[str]
    board: str = ""
    model_name: str = ""
    parts: Sequence[str] = ()
    capacities: Sequence[int] = ()
    max_khz: Sequence[int] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    def write(self, root: Path) -> list[int]:
        """Make its files; returns its logical processors."""
        key = "Features" if self.parts else "flags"
        entries = [f"processor\t: {cpu}\n{key}\t: {self.flags}\n{self._more(cpu)}" for cpu in range(len(self.cores))]
        write(root, "proc/cpuinfo", "\n".join(entries))
        if self.board:
            write(root, "proc/device-tree/model", f"{self.board}\0")
        for cpu, siblings in enumerate(self.cores):
            write(root, f"{CPU}/cpu{cpu}/topology/core_cpus_list", siblings)
        for cpu, capacity in enumerate(self.capacities):
            write(root, f"{CPU}/cpu{cpu}/cpu_capacity", str(capacity))
        for cpu, khz in enumerate(self.max_khz):
            write(root, f"{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq", str(khz))
        for path, text in self.files.items():
            write(root, path, text)
        return list(range(len(self.cores)))

    def _more(self, cpu: int) -> str:
        if self.parts:
            # Tegra's kernels have a model name that is none.
            return (
                f"model name\t: ARMv8 Processor rev 1 (v8l)\nCPU implementer\t: 0x41\nCPU part\t: {self.parts[cpu]}\n"
            )
        return f"vendor_id\t: GenuineIntel\nmodel name\t: {self.model_name}\n"


def alone(count: int) -> list[str]:
    return list(map(str, range(count)))


def of_arm(board: str, *parts: str, flags: str = V8_2, **more: Sequence[int]) -> Machine:
    return Machine("aarch64", flags, alone(len(parts)), board, parts=parts, **more)


PI_4 = of_arm(
    "Raspberry Pi 4 Model B Rev 1.5", *["0xd08"] * 4, flags="fp asimd evtstrm crc32 cpuid", max_khz=[1_800_000] * 4
)
PI_5 = of_arm("Raspberry Pi 5 Model B Rev 1.0", *["0xd0b"] * 4, max_khz=[2_400_000] * 4)
ORIN = of_arm("NVIDIA Jetson AGX Orin Developer Kit", *["0xd42"] * 12, max_khz=[2_201_600] * 12)
RK3588 = of_arm(
    "Radxa ROCK 5B",
    *(["0xd05"] * 4 + ["0xd0b"] * 4),
    capacities=[408] * 4 + [1024] * 2 + [1003] * 2,  # its two pairs of big cores differ by 2 %
    max_khz=[1_800_000] * 4 + [2_304_000] * 2 + [2_256_000] * 2,
)
IMX8QM = of_arm(  # its device tree tells the kernel nothing of speed
    "Freescale i.MX8QM MEK",
    *(["0xd03"] * 4 + ["0xd08"] * 2),
    capacities=[1024] * 6,
    max_khz=[1_200_000] * 4 + [1_596_000] * 2,
)
HYBRID = Machine(
    "x86_64",
    X86,
    [f"{cpu & ~1}-{cpu | 1}" for cpu in range(16)] + list(map(str, range(16, 20))),
    model_name="12th Gen Intel(R) Core(TM) i7-12700K",
    max_khz=[4_900_000] * 12 + [5_000_000] * 4 + [3_800_000] * 4,  # two P cores are favoured
    files={"sys/devices/cpu_core/cpus": "0-15\n", "sys/devices/cpu_atom/cpus": "16-19\n"},
)
SERVER = Machine(
    "x86_64",
    X86 + " avx512f avx512_vnni amx_tile amx_int8",
    [f"{cpu % 112},{cpu % 112 + 112}" for cpu in range(224)],
    model_name="Intel(R) Xeon(R) Platinum 8480+",
    max_khz=[3_800_000] * 224,
)


@pytest.mark.parametrize(
    ("machine", "name", "cores", "isa"),
    [
        (PI_4, "Raspberry Pi 4 Model B Rev 1.5, 4 × Cortex-A72", 4, ["asimd"]),
        (PI_5, "Raspberry Pi 5 Model B Rev 1.0, 4 × Cortex-A76", 4, ["asimd", "fphp", "asimdhp", "asimddp"]),
        (ORIN, "NVIDIA Jetson AGX Orin Developer Kit, 12 × Cortex-A78AE", 12, ["asimd", "fphp", "asimdhp", "asimddp"]),
        (RK3588, "Radxa ROCK 5B, 4 × Cortex-A55, 4 × Cortex-A76", 8, ["asimd", "fphp", "asimdhp", "asimddp"]),
        (HYBRID, "12th Gen Intel(R) Core(TM) i7-12700K", 12, ["sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni"]),
        (
            SERVER,
            "Intel(R) Xeon(R) Platinum 8480+",
            112,
            ["sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_tile", "amx_int8"],
        ),
    ],
)
def test_a_machine_is_told_as_its_owner_knows_it(
    machine: Machine, name: str, cores: int, isa: list[str], tmp_path: Path
) -> None:
    facts = read_host_facts(tmp_path, machine.write(tmp_path), machine=machine.machine)
    assert (facts.cpu_model, facts.physical_cores, list(facts.isa)) == (name, cores, isa)
    assert not facts.HasField("emulation") and not facts.HasField("virtualization")


@pytest.mark.parametrize("machine", [PI_4, PI_5, ORIN, SERVER])
def test_cores_that_are_alike_are_no_clusters(machine: Machine, tmp_path: Path) -> None:
    assert not read_host_facts(tmp_path, machine.write(tmp_path), machine=machine.machine).clusters


def test_kinds_of_cores_are_told_the_fastest_first(tmp_path: Path) -> None:
    cpus = RK3588.write(tmp_path)
    big, little = read_host_facts(tmp_path, cpus, machine="aarch64").clusters
    assert (big.name, big.physical_cores, big.model, big.capacity) == ("big", 4, "Cortex-A76", 1024)
    assert (little.name, little.model, little.max_frequency_hz) == ("little", "Cortex-A55", 1_800_000_000)
    assert physical_cores(cpus, tmp_path) == [4, 5, 6, 7, 0, 1, 2, 3]


def test_p_cores_come_before_e_cores_and_favoured_ones_are_no_kind(tmp_path: Path) -> None:
    cpus = HYBRID.write(tmp_path)
    big, little = read_host_facts(tmp_path, cpus, machine="x86_64").clusters
    assert (big.physical_cores, little.physical_cores) == (8, 4)
    assert not big.HasField("model") and not big.HasField("capacity")
    assert physical_cores(cpus, tmp_path)[:8] == list(range(0, 16, 2))


@pytest.mark.parametrize(
    ("machine", "cluster", "cores", "bound"),
    [
        (RK3588, "", 5, (0, 4, 5, 6, 7)),
        (RK3588, "big", 2, (4, 5)),
        (RK3588, "little", 4, (0, 1, 2, 3)),
        (IMX8QM, "", 2, (4, 5)),
        (IMX8QM, "little", 4, (0, 1, 2, 3)),
        (HYBRID, "little", 3, (16, 17, 18)),
    ],
)
def test_a_run_is_bound_to_cores_of_the_kind_that_it_names(
    machine: Machine, cluster: str, cores: int, bound: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpus, asked = machine.write(tmp_path), []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cpus))
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, chosen: asked.extend(chosen))
    monkeypatch.setattr(os, "environ", {})
    assert confine_to_cores(cores, cluster, tmp_path) == tuple(sorted(asked)) == bound


@pytest.mark.parametrize(
    ("little", "big"), [("0xd03", "0xd09"), ("0xc07", "0xc0f"), ("0xd0b", "0xd44"), ("0xd46", "0xd4d")]
)
@pytest.mark.parametrize("more", [{}, {"capacities": [1024] * 4, "max_khz": [1_896_000] * 2 + [1_800_000] * 2}])
def test_where_no_figure_tells_which_cores_are_faster_their_model_does(
    little: str, big: str, more: Mapping[str, Sequence[int]], tmp_path: Path
) -> None:
    cpus = of_arm("", little, little, big, big, **more).write(tmp_path)
    assert kinds_of_cores(cpus, tmp_path) == [[2, 3], [0, 1]]


@pytest.mark.parametrize(
    ("machine", "cluster", "cores", "reason"),
    [
        (PI_5, "big", 2, "asks for 'big' cores; all cores here are alike"),
        (RK3588, "mid", 1, "asks for 'mid' cores; there are big, little"),
        (RK3588, "big", 5, "asks for 5 big cores; this process may use 4"),
    ],
)
def test_cores_of_a_kind_that_is_not_there_are_refused(
    machine: Machine, cluster: str, cores: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpus = machine.write(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cpus))
    with pytest.raises(UnsupportedSettingsError, match=reason):
        confine_to_cores(cores, cluster, tmp_path)


@pytest.mark.parametrize(
    ("khz", "kinds"),
    [
        ([5_100_000] * 2 + [3_500_000] * 4, [2, 4]),  # Ryzen Z1: Zen 4 and Zen 4c under one name
        ([5_700_000, 5_500_000, 5_300_000, 5_100_000], []),
        ([3_000_000] * 2 + [2_500_000] * 3 + [1_800_000] * 3, [2, 3, 3]),
    ],
)
def test_without_other_signs_the_highest_frequency_tells_kinds(
    khz: list[int], kinds: list[int], tmp_path: Path
) -> None:
    cpus = Machine("x86_64", X86, alone(len(khz)), model_name="AMD", max_khz=khz).write(tmp_path)
    found = read_host_facts(tmp_path, cpus, machine="x86_64").clusters
    assert [one.physical_cores for one in found] == kinds
    assert [one.name for one in found] == {0: [], 2: ["big", "little"], 3: ["big", "mid", "little"]}[len(kinds)]


def test_each_cache_is_told_once_however_many_share_it(tmp_path: Path) -> None:
    cpus = RK3588.write(tmp_path)
    for cpu in cpus:
        shares = f"{cpu}"
        sizes = [("1", "Data", "32K" if cpu < 4 else "64K", shares), ("1", "Instruction", "64K", shares)]
        sizes += [("2", "Unified", "128K" if cpu < 4 else "512K", shares), ("3", "Unified", "3072K", "0-7")]
        for index, values in enumerate(sizes):
            for name, text in zip(("level", "type", "size", "shared_cpu_list"), values, strict=True):
                write(tmp_path, f"{CPU}/cpu{cpu}/cache/index{index}/{name}", text)
    found = read_host_facts(tmp_path, cpus, machine="aarch64").caches
    assert [(one.level, one.type, one.size_bytes // 1024, one.count) for one in found] == [
        (1, "data", 32, 4),
        (1, "data", 64, 4),
        (1, "instruction", 64, 8),
        (2, "unified", 128, 4),
        (2, "unified", 512, 4),
        (3, "unified", 3072, 1),
    ]


def test_a_core_that_nobody_knows_goes_by_its_numbers(tmp_path: Path) -> None:
    cpus = of_arm("", "0xfff", "0xfff").write(tmp_path)
    assert read_host_facts(tmp_path, cpus, machine="aarch64").cpu_model == "2 × ARM core 0x41/0xfff"


def test_a_translated_program_is_told_and_nothing_of_the_host_is_its_own(tmp_path: Path) -> None:
    cpus = SERVER.write(tmp_path)
    write(tmp_path, "proc/sys/kernel/arch", "x86_64\n")
    pairs = ((16, 1 << 1 | 1 << 20), (26, 1 << 14), (0, 0))
    path = tmp_path / "proc/self/auxv"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(struct.pack("=QQ", *pair) for pair in pairs))
    facts = read_host_facts(tmp_path, cpus, machine="aarch64")
    assert facts.emulation == "programs for aarch64 are translated on an x86_64 processor"
    assert not facts.HasField("cpu_model")
    assert list(facts.isa) == ["asimd", "asimddp", "bf16"]
    assert processor.widest_instruction_set(tmp_path, "aarch64") == "asimd"


@pytest.mark.parametrize(
    ("machine", "kernel", "is_translated"),
    [("i686", "x86_64", False), ("armv7l", "aarch64", False), ("x86_64", "aarch64", True), ("riscv64", "", False)],
)
def test_narrower_programs_of_the_same_family_run_by_themselves(
    machine: str, kernel: str, is_translated: bool, tmp_path: Path
) -> None:
    write(tmp_path, "proc/sys/kernel/arch", kernel)
    assert (processor.emulation(tmp_path, machine) is not None) == is_translated


@pytest.mark.parametrize(
    ("files", "virtual", "emulated"),
    [
        ({"sys/class/dmi/id/sys_vendor": "QEMU"}, "a virtual machine (QEMU)", None),
        ({"proc/cpuinfo": "vendor_id : AuthenticAMD\nmodel name : QEMU TCG CPU version 2.5+\n"}, None, "QEMU TCG"),
        (
            {
                "sys/class/dmi/id/sys_vendor": "QEMU",
                "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm",
            },
            "a virtual machine (QEMU)",
            "QEMU without KVM",
        ),
        (
            {
                "sys/class/dmi/id/sys_vendor": "QEMU",
                "sys/devices/system/clocksource/clocksource0/available_clocksource": "kvm-clock tsc",
            },
            "a virtual machine (QEMU)",
            None,
        ),
        ({"proc/cpuinfo": "vendor_id : GenuineIntel\nflags : avx hypervisor\n"}, "a virtual machine", None),
        ({"sys/class/dmi/id/sys_vendor": "Microsoft Corporation"}, None, None),
        ({"sys/class/dmi/id/sys_vendor": "Apple Inc."}, None, None),
    ],
)
def test_whole_machines_that_are_programs_are_told(
    files: dict[str, str], virtual: str | None, emulated: str | None, tmp_path: Path
) -> None:
    for path, text in files.items():
        write(tmp_path, path, text)
    found = processor.emulation(tmp_path, "x86_64")
    assert processor.virtualization(tmp_path) == virtual
    assert (found is None) == (emulated is None) and (emulated or "") in (found or "")


THERMAL = "sys/class/thermal"
HWMON = "sys/class/hwmon/hwmon2"
FIRMWARE = "sys/devices/platform/soc/soc:firmware/get_throttled"


def one_block(root: Path, cpus: Sequence[int] = (0, 1)) -> Evidence:
    """The evidence of a block in which nothing happens."""
    reader = EvidenceReader(cpus, root)
    reader.begin()
    return reader.end()


def write_zones(root: Path, **zones: int | str) -> None:
    for number, (kind, temperature) in enumerate(zones.items()):
        write(root, f"{THERMAL}/thermal_zone{number}/type", kind)
        write(root, f"{THERMAL}/thermal_zone{number}/temp", temperature)


def write_coolers(root: Path, coolers: Mapping[str, int | str]) -> None:
    for number, (kind, state) in enumerate(coolers.items()):
        write(root, f"{THERMAL}/cooling_device{number}/type", kind)
        write(root, f"{THERMAL}/cooling_device{number}/cur_state", state)


def write_guard(root: Path, cpu: int, **counts: int | str) -> None:
    for name, count in counts.items():
        write(root, f"{CPU}/cpu{cpu}/thermal_throttle/{name}", count)


GUARDS = (
    "core_throttle_count",
    "package_throttle_count",
    "core_throttle_total_time_ms",
    "package_throttle_total_time_ms",
)


@pytest.mark.parametrize("risen", GUARDS)
def test_each_count_of_intels_guard_tells_of_heat_within_the_block(risen: str, tmp_path: Path) -> None:
    for cpu in (0, 1, 2):
        write_guard(tmp_path, cpu, **dict.fromkeys(GUARDS, 7))
    reader = EvidenceReader([0, 1], tmp_path)
    reader.begin()
    write_guard(tmp_path, 2, core_throttle_count=9)  # no processor of this run
    assert reader.end().held_back_by == ""
    reader.begin()
    write_guard(tmp_path, 1, **{risen: 8})
    assert reader.end().held_back_by == "heat"
    reader.begin()
    assert reader.end().held_back_by == ""


def test_what_was_hot_before_a_block_is_not_held_against_it(tmp_path: Path) -> None:
    write_guard(tmp_path, 0, core_throttle_count=0)
    reader = EvidenceReader([0], tmp_path)
    write_guard(tmp_path, 0, core_throttle_count=3)  # in the warm-up, or in another one's turn
    reader.begin()
    assert reader.end().held_back_by == ""


@pytest.mark.parametrize("dead", [[0], [0, 1]])
def test_a_guard_that_could_not_be_read_as_a_block_began_blames_nothing_on_it(dead: list[int], tmp_path: Path) -> None:
    write_coolers(tmp_path, {"Processor": 0})
    for cpu in (0, 1):
        write_guard(tmp_path, cpu, core_throttle_count=1)
    reader = EvidenceReader([0, 1], tmp_path)
    for cpu in dead:
        write_guard(tmp_path, cpu, core_throttle_count="")
    reader.begin()
    for cpu in dead:
        write_guard(tmp_path, cpu, core_throttle_count=5)
    evidence = reader.end()
    assert evidence.HasField("held_back_by") and evidence.held_back_by == ""


def test_the_guard_of_a_great_server_takes_not_all_the_files_a_process_may_open(tmp_path: Path) -> None:
    for cpu in range(200):
        write_guard(tmp_path, cpu, **dict.fromkeys(GUARDS, 0))
        write(tmp_path, f"{CPU}/cpu{cpu}/topology/physical_package_id", cpu % 2)
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    reader = EvidenceReader(range(200), tmp_path)
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) - before <= 200 + 2 * 2
    reader.begin()
    for cpu in range(1, 200, 2):  # each processor of a package shows the package's
        write_guard(tmp_path, cpu, package_throttle_total_time_ms=4)
    assert reader.end().held_back_by == "heat"


@pytest.mark.parametrize(("cpus", "held_back_by"), [((0, 1), "cooling"), ((1,), "cooling"), ((2, 3), "")])
def test_a_cooler_of_other_processors_says_nothing_of_these(
    cpus: Sequence[int], held_back_by: str, tmp_path: Path
) -> None:
    for cpu in range(4):
        (policy := tmp_path / CPU / f"cpufreq/policy{cpu // 2 * 2}").mkdir(parents=True, exist_ok=True)
        (tmp_path / CPU / f"cpu{cpu}").mkdir()
        (tmp_path / CPU / f"cpu{cpu}/cpufreq").symlink_to(policy)
    write_coolers(tmp_path, {"cpufreq-cpu0": 2, "cpufreq-cpu2": 0})
    assert one_block(tmp_path, cpus).held_back_by == held_back_by


@pytest.mark.parametrize(
    ("kind", "state", "held_back_by"),
    [
        ("thermal-cpufreq-0", 1, "cooling"),
        ("Processor", 1, "cooling"),
        ("intel_powerclamp", 30, "cooling"),
        ("intel_powerclamp", -1, ""),  # at rest
        ("cpu-idle", 50, "cooling"),
        ("idle-cpu0", 50, "cooling"),
        ("thermal-idle-0", 50, "cooling"),
    ],
)
def test_lower_frequencies_and_injected_idleness_cool(kind: str, state: int, held_back_by: str, tmp_path: Path) -> None:
    write_coolers(tmp_path, {kind: state})
    evidence = one_block(tmp_path)
    assert evidence.HasField("held_back_by") and evidence.held_back_by == held_back_by


def test_one_sign_of_being_held_back_that_is_dead_hides_no_other(tmp_path: Path) -> None:
    write_coolers(tmp_path, {"Processor": "", "intel_powerclamp": 5})
    write(tmp_path, FIRMWARE, "50005")
    write_guard(tmp_path, 0, core_throttle_count="")
    assert one_block(tmp_path).held_back_by == "under-voltage, throttled, cooling"
    reader = EvidenceReader([0], tmp_path)
    reader.begin()
    write(tmp_path, FIRMWARE, "none")
    assert reader.end().held_back_by == "cooling"
    reader.begin()
    write_coolers(tmp_path, {"Processor": "", "intel_powerclamp": ""})
    assert not reader.end().HasField("held_back_by")


@pytest.mark.parametrize(
    ("zones", "temperature"),
    [
        ({"cpu0-thermal": 48_000, "cpu4-thermal": ""}, 48_000),  # a cluster that is switched off
        ({"cpu-thermal": 48_000, "soc0-thermal": -256_000, "soc1-thermal": 2**31 - 1}, 48_000),
        ({"cpu-thermal": 2**64 - 1}, None),
        ({"cpu-thermal": -40_001}, None),
        ({"cpu-thermal": -40_000}, -40_000),
        ({"cpu-thermal": 150_001}, None),
        ({"AO-therm": 40_000, "GPU-therm": 60_000, "PMIC-Die": 100_000}, 40_000),
        ({"acpitz": 27_800, "iwlwifi_1": ""}, 27_800),
        ({"BAT0": 27_800, "iwlwifi_1": 50_000, "nvme": 60_000}, None),
    ],
)
def test_what_is_no_temperature_of_a_processor_is_left_out(
    zones: dict[str, int | str], temperature: int | None, tmp_path: Path
) -> None:
    write_zones(tmp_path, **zones)
    evidence = one_block(tmp_path)
    assert evidence.HasField("temperature_millicelsius") == (temperature is not None)
    assert evidence.temperature_millicelsius == (temperature or 0)


def test_a_zone_that_answers_only_later_is_read_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_zones(tmp_path, cpu0=48_000, cpu4=52_000)
    read = os.pread

    def refuse_the_hotter(*file: int) -> bytes:
        if b"52000" in (text := read(*file)):
            raise BlockingIOError(11, "Resource temporarily unavailable")  # its cores are switched off
        return text

    with monkeypatch.context() as off:
        off.setattr(os, "pread", refuse_the_hotter)
        reader = EvidenceReader([0], tmp_path)
        reader.begin()
        assert reader.end().temperature_millicelsius == 48_000
    assert reader.end().temperature_millicelsius == 52_000


@pytest.mark.parametrize(
    ("labels", "temperature"),
    [
        (("Tctl", "Tdie", "Tccd1"), 61_000),
        (("Tctl", "Tccd1", "Tccd2"), 88_000),
        (("Tccd1", "Tctl", "Tccd2"), 61_000),
        ((), 88_000),
    ],
)
def test_the_die_of_a_ryzen_tells_its_temperature_better_than_its_control(
    labels: Sequence[str], temperature: int, tmp_path: Path
) -> None:
    write(tmp_path, f"{HWMON}/name", "k10temp")
    for number, value in enumerate((88_000, 61_000, 60_000), start=1):
        write(tmp_path, f"{HWMON}/temp{number}_input", value)
    for number, label in enumerate(labels, start=1):
        write(tmp_path, f"{HWMON}/temp{number}_label", label)
    assert one_block(tmp_path).temperature_millicelsius == temperature
