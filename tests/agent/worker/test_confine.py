"""A process is bound to physical cores, not to hyper-threads, and never beyond what it was given."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agent_process import is_alive
from machine import CPU, write

from enginebench_agent.machine.cores import physical_cores, usable_cores
from enginebench_agent.worker.confine import confine_to_cores
from enginebench_plugins.spec import UnsupportedSettingsError

CONFINE = """
import os
from enginebench_agent.worker.confine import confine_to_cores
from enginebench_plugins.spec import UnsupportedSettingsError
import sys
try:
    print(confine_to_cores(int(sys.argv[1])), sorted(os.sched_getaffinity(0)), os.environ.get("OMP_NUM_THREADS"))
except UnsupportedSettingsError as error:
    print(error)
"""


def machine(root: Path, siblings: dict[int, str], *, file: str = "core_cpus_list", **capacities: int) -> Path:
    for cpu, text in siblings.items():
        write(root, f"{CPU}/cpu{cpu}/topology/{file}", text)
    for name, capacity in capacities.items():
        write(root, f"{CPU}/{name}/cpu_capacity", capacity)
    return root


def test_hyper_threads_of_one_core_count_once(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"})
    assert physical_cores({0, 1, 2, 3}, root) == [0, 1]


def test_ranges_and_older_kernels_are_read(tmp_path: Path) -> None:
    siblings = {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}
    assert physical_cores({0, 1, 2, 3}, machine(tmp_path, siblings, file="thread_siblings_list")) == [0, 2]


def test_a_core_is_represented_by_a_processor_this_process_may_use(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"})
    assert physical_cores({1, 2, 3}, root) == [1, 2]


def test_without_topology_every_processor_is_a_core(tmp_path: Path) -> None:
    assert physical_cores({4, 7}, tmp_path) == [4, 7]


def test_big_cores_come_before_little_ones(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: "0", 1: "1", 2: "2"}, cpu0=446, cpu1=446, cpu2=1024)
    assert physical_cores({0, 1, 2}, root) == [2, 0, 1]


def test_one_socket_is_filled_before_another_is_begun(tmp_path: Path) -> None:
    """As where firmware numbers those of two sockets in turn, with two hyper-threads a core."""
    root = machine(tmp_path, {cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)})
    for cpu in range(8):
        write(root, f"{CPU}/cpu{cpu}/topology/physical_package_id", cpu % 2)
    assert physical_cores(range(8), root) == [0, 2, 1, 3]


def confined(cores: int) -> str:
    return subprocess.check_output([sys.executable, "-c", CONFINE, str(cores)], text=True).strip()


def test_the_process_and_its_thread_pools_are_bound() -> None:
    first = physical_cores(os.sched_getaffinity(0))[0]
    assert confined(1) == f"({first},) [{first}] 1"


@pytest.mark.parametrize("cores", [0, 100_000])
def test_cores_that_are_not_there_are_refused(cores: int) -> None:
    assert confined(cores).startswith(f"The configuration asks for {cores} physical cores; this process may use ")


@pytest.mark.parametrize(
    ("available", "quota_cores", "usable"),
    [(8, None, 8), (8, 2.0, 2), (8, 2.9, 2), (8, 0.5, 1), (2, 16.0, 2), (8, 0.01, 1)],
)
def test_a_quota_leaves_as_many_cores_as_it_can_keep_busy(
    available: int, quota_cores: float | None, usable: int
) -> None:
    assert usable_cores(available, quota_cores) == usable


def with_quota(root: Path, quota_us: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of four cores with two hyper-threads each, and a control group that grants this much of 100 ms."""
    write(root, "proc/self/cgroup", "0::/container")
    write(root, "sys/fs/cgroup/container/cpu.max", f"{quota_us} 100000")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    return machine(root, {cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)})


def test_more_cores_than_the_quota_grants_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = with_quota(tmp_path, 250_000, monkeypatch)
    with pytest.raises(
        UnsupportedSettingsError, match=r"asks for 3 physical cores; .* grants .* of 2\.5, .* Ask for 2"
    ):
        confine_to_cores(3, root=root)
    with pytest.raises(UnsupportedSettingsError, match="asks for 5 physical cores; this process may use 4"):
        confine_to_cores(5, root=root)


@pytest.mark.parametrize(("quota_us", "cores"), [(250_000, 2), (50_000, 1), (400_000, 4)])
def test_as_many_cores_as_the_quota_grants_are_given_one_thread_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota_us: int, cores: int
) -> None:
    root, bound = with_quota(tmp_path, quota_us, monkeypatch), []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: bound.extend(cpus))
    monkeypatch.setattr(os, "environ", {})
    assert confine_to_cores(cores, root=root) == tuple(bound) == tuple(range(cores))
    assert os.environ["OMP_NUM_THREADS"] == str(cores)


@pytest.mark.parametrize(("told", "most"), [("\n", 4), ("2-3", 2), ("0-2", 1), ("0-3", 1)])
def test_several_cores_are_not_taken_of_those_that_the_kernel_spreads_no_threads_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, most: int
) -> None:
    write(tmp_path, f"{CPU}/isolated", told)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: None)
    monkeypatch.setattr(os, "environ", {})
    for cores in range(1, most + 1):
        assert confine_to_cores(cores, root=tmp_path) == tuple(range(cores))
    for cores in range(most + 1, 5):
        with pytest.raises(UnsupportedSettingsError, match=rf"asks for {cores} cores, .* isolated .* Ask for {most}"):
            confine_to_cores(cores, root=tmp_path)


def test_several_cores_are_those_that_are_not_isolated_where_there_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, f"{CPU}/isolated", "0-1")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: None)
    monkeypatch.setattr(os, "environ", {})
    assert confine_to_cores(1, root=tmp_path) == (0,), "one may be isolated: nothing is to be spread"
    assert confine_to_cores(2, root=tmp_path) == (2, 3)


def test_a_worker_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    parent = f"""
import subprocess, sys
code = "from enginebench_agent.worker.confine import die_with_parent; import time; die_with_parent();" \\
       "open({str(tmp_path / "ready")!r}, 'w').close(); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", code])
print(child.pid, flush=True)
import pathlib, time
while not pathlib.Path({str(tmp_path / "ready")!r}).exists():
    time.sleep(0.01)
"""
    pid = int(subprocess.check_output([sys.executable, "-c", parent], timeout=30))
    deadline = time.monotonic() + 5
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(pid)
