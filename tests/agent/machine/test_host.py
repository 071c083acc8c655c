"""Host facts under file systems made for the purpose: what kernels of many kinds show."""

import os
from pathlib import Path

import pytest
from machine import CPU, write, write_policies

from enginebench_agent.data_folder import DataFolder
from enginebench_agent.machine.cgroup import cpu_quota_cores, memory_limit_bytes, oom_kills
from enginebench_agent.machine.host import read_host_facts
from enginebench_agent.machine.kept_file import AbsentError, KeptFile
from enginebench_agent.machine.tuning import RECORD, tune
from enginebench_proto.v1.measurement_pb2 import Evidence

X86 = """processor\t: 0
model name\t: Intel(R) Xeon(R) Platinum 8480+
flags\t\t: fpu sse4_2 avx f16c fma avx2 avx512f avx512_vnni avx512_bf16 amx_tile amx_int8 amx_bf16 syscall
"""
ARM = """processor\t: 0
BogoMIPS\t: 108.00
Features\t: fp asimd evtstrm crc32 asimddp sve
CPU implementer\t: 0x41
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def test_an_x86_server_is_described_by_its_kernel(root: Path) -> None:
    write(root, "proc/cpuinfo", X86)
    write(root, "proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n")
    write(root, "etc/os-release", 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    write(root, "proc/sys/kernel/osrelease", "6.1.0-18-amd64\n")
    for cpu, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        write(root, f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", siblings + "\n")
    facts = read_host_facts(root, cpus=[0, 1, 2, 3])
    assert facts.cpu_model == "Intel(R) Xeon(R) Platinum 8480+"
    assert (facts.physical_cores, facts.logical_cores) == (2, 4)
    assert facts.memory_bytes == 16384 * 1024
    assert facts.os == "Debian GNU/Linux 12 (bookworm)"
    assert facts.kernel == "6.1.0-18-amd64"
    assert {"avx2", "avx512_bf16", "amx_int8"} <= set(facts.isa)
    assert "syscall" not in facts.isa
    assert not facts.HasField("cpu_quota_cores")


def test_only_cores_within_the_affinity_are_counted(root: Path) -> None:
    for cpu, siblings in enumerate(["0-1", "0-1", "2-3", "2-3"]):
        write(root, f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", siblings)
    assert read_host_facts(root, cpus=[0, 1]).physical_cores == 1
    assert read_host_facts(root, cpus=[1, 2]).physical_cores == 2


def test_an_arm_board_is_known_by_its_device_tree(root: Path) -> None:
    write(root, "proc/cpuinfo", ARM)
    write(root, "proc/device-tree/model", "Raspberry Pi 5 Model B Rev 1.0\0")
    facts = read_host_facts(root, cpus=[0], machine="aarch64")
    assert facts.cpu_model == "Raspberry Pi 5 Model B Rev 1.0"
    assert list(facts.isa) == ["asimd", "asimddp", "sve"]


def test_what_cannot_be_read_is_absent_and_never_zero(root: Path) -> None:
    facts = read_host_facts(root, cpus=[0])
    for name in ("cpu_model", "physical_cores", "cpu_quota_cores", "memory_bytes"):
        assert not facts.HasField(name), name
    assert oom_kills(root) is None


def test_cgroup_v2_grants_the_tightest_of_all_enclosing_groups(root: Path) -> None:
    write(root, "proc/self/cgroup", "0::/system.slice/agent.service\n")
    write(root, "sys/fs/cgroup/system.slice/agent.service/cpu.max", "max 100000\n")
    write(root, "sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n")
    write(root, "sys/fs/cgroup/system.slice/agent.service/memory.max", "max\n")
    write(root, "sys/fs/cgroup/system.slice/memory.max", "1048576\n")
    write(root, "sys/fs/cgroup/system.slice/agent.service/memory.events", "oom 4\noom_kill 3\n")
    write(root, "proc/meminfo", "MemTotal: 999999 kB\n")
    assert cpu_quota_cores(root) == 1.5
    assert memory_limit_bytes(root) == 1048576
    assert oom_kills(root) == 3
    assert read_host_facts(root, cpus=[0]).memory_bytes == 1048576


def test_cgroup_v1_and_a_container_that_sees_its_group_at_the_mount_point(root: Path) -> None:
    write(root, "proc/self/cgroup", "4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n0::/\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "2097152\n")
    write(root, "sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n")
    assert cpu_quota_cores(root) == 0.5
    assert memory_limit_bytes(root) == 2097152
    assert oom_kills(root) == 7


def test_no_limit_is_absent(root: Path) -> None:
    write(root, "proc/self/cgroup", "4:memory:/\n1:cpu:/\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert cpu_quota_cores(root) is None
    assert memory_limit_bytes(root) is None


def test_without_a_group_the_machines_own_counter_tells_of_killings(root: Path) -> None:
    write(root, "proc/vmstat", "pgfault 12\noom_kill 2\n")
    assert oom_kills(root) == 2


def test_a_control_group_may_have_a_name_that_is_no_text(root: Path) -> None:
    path = root / "proc/self/cgroup"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"0::/b\xe9n\xe9\xc2\x85\n")
    folder = Path(os.fsdecode(os.fsencode(root) + b"/sys/fs/cgroup/b\xe9n\xe9\xc2\x85"))
    for file, text in (("cpu.max", "150000 100000"), ("memory.max", 4096), ("memory.events", "oom_kill 3")):
        write(folder, file, text)
    assert (cpu_quota_cores(root), memory_limit_bytes(root), oom_kills(root)) == (1.5, 4096, 3)
    assert read_host_facts(root, cpus=[0]).cpu_quota_cores == 1.5
    with pytest.raises(AbsentError) as told:
        KeptFile(folder / "cpu.stat", root)
    assert Evidence(missing={"throttled_ns": str(told.value)}), "its name breaks no message"


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        ("0::/", {"cpu.max": "", "memory.max": "", "memory.events": "oom_kill"}),
        ("0::/", {"cpu.max": "max", "memory.events": "oom_kill many"}),
        ("0::/", {"cpu.max": "100000", "memory.events": "oom_kill "}),
        ("0::/", {"cpu.max": "100000 0"}),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "", "cpu/cpu.cfs_period_us": "100000"}),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": ""}),
        ("none\n0:", {"cpu.max": "150000 100000"}),
    ],
)
def test_a_control_group_in_a_form_not_known_grants_nothing_known(
    groups: str, files: dict[str, str], root: Path
) -> None:
    write(root, "proc/self/cgroup", groups)
    for file, text in files.items():
        write(root, f"sys/fs/cgroup/{file}", text)
    assert cpu_quota_cores(root) is memory_limit_bytes(root) is oom_kills(root) is None
    assert not read_host_facts(root, cpus=[0]).HasField("cpu_quota_cores")


def test_what_was_tuned_is_told_as_long_as_it_holds(root: Path) -> None:
    write_policies(root, count=1)
    folder = DataFolder(root / "data")
    assert not read_host_facts(root, cpus=[0], folder=folder).tuned
    tune(folder, root)
    facts = read_host_facts(root, cpus=[0], folder=folder)
    assert list(facts.tuned) == ["governor of policy0: performance (was powersave)"]
    write(root, f"{CPU}/cpufreq/policy0/scaling_governor", "powersave")  # as after a restart
    assert not read_host_facts(root, cpus=[0], folder=folder).tuned


def test_a_broken_record_of_tuning_hides_no_other_fact(root: Path) -> None:
    write(root, f"data/{RECORD}", "not JSON")
    facts = read_host_facts(root, cpus=[0], folder=DataFolder(root / "data"))
    assert facts.logical_cores == 1 and not facts.tuned
