"""A process is bound to physical cores, not to hyper-threads, and never beyond what it was given."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from enginebench_agent.worker.confine import physical_cores

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


def sysfs(root: Path, siblings: dict[int, str], *, file: str = "core_cpus_list", **capacities: int) -> Path:
    for cpu, text in siblings.items():
        topology = root / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / file).write_text(text + "\n")
    for name, capacity in capacities.items():
        (root / name / "cpu_capacity").write_text(f"{capacity}\n")
    return root


def test_hyper_threads_of_one_core_count_once(tmp_path: Path) -> None:
    root = sysfs(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"})
    assert physical_cores({0, 1, 2, 3}, root) == [0, 1]


def test_ranges_and_older_kernels_are_read(tmp_path: Path) -> None:
    siblings = {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}
    assert physical_cores({0, 1, 2, 3}, sysfs(tmp_path, siblings, file="thread_siblings_list")) == [0, 2]


def test_a_core_is_represented_by_a_processor_this_process_may_use(tmp_path: Path) -> None:
    root = sysfs(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"})
    assert physical_cores({1, 2, 3}, root) == [1, 2]


def test_without_topology_every_processor_is_a_core(tmp_path: Path) -> None:
    assert physical_cores({4, 7}, tmp_path) == [4, 7]


def test_big_cores_come_before_little_ones(tmp_path: Path) -> None:
    root = sysfs(tmp_path, {0: "0", 1: "1", 2: "2"}, cpu0=446, cpu1=446, cpu2=1024)
    assert physical_cores({0, 1, 2}, root) == [2, 0, 1]


def confined(cores: int) -> str:
    return subprocess.check_output([sys.executable, "-c", CONFINE, str(cores)], text=True).strip()


def test_the_process_and_its_thread_pools_are_bound() -> None:
    first = physical_cores(os.sched_getaffinity(0))[0]
    assert confined(1) == f"({first},) [{first}] 1"


@pytest.mark.parametrize("cores", [0, 100_000])
def test_cores_that_are_not_there_are_refused(cores: int) -> None:
    assert confined(cores).startswith(f"The configuration asks for {cores} physical cores; this process may use ")


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


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
