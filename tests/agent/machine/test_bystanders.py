"""Who else uses the processors is told by name, ours are left out, and what cannot be seen is said."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from machine import write, write_stat

from enginebench_agent.machine.bystanders import MOST_NAMED, look, surroundings, used_between
from enginebench_agent.machine.sources import TICK_NS
from enginebench_proto.v1.measurement_pb2 import MachineUse

AGENT = 100
NOBODY = -1
SPIN = "import time\nend = time.time() + {}\nwhile time.time() < end: pass\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "proc/1/stat", process(1, "init", parent=0))
    write_stat(tmp_path)
    return tmp_path


def process(pid: int, name: str, parent: int = 1, own: int = 0, ended: int = 0, begun: int = 7) -> str:
    """/proc/PID/stat, its user time in ticks of 10 ms."""
    return f"{pid} ({name}) S {parent} 0 0 0 -1 0 0 0 0 0 {own} 0 {ended} 0 20 0 1 0 {begun} 0 0"


def put(root: Path, pid: int, name: str, command: str = "", **times: int) -> None:
    write(root, f"proc/{pid}/stat", process(pid, name, **times))
    if command:
        write(root, f"proc/{pid}/cmdline", command.replace(" ", "\0"))


def end(root: Path, pid: int) -> None:
    (root / f"proc/{pid}/stat").unlink()


class Between:
    """What was used between the two ends of the block."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __enter__(self) -> "Between":
        self._first = look(self._root, AGENT)
        return self

    def __exit__(self, *_: object) -> None:
        found = used_between(self._first, look(self._root, AGENT), self._root)
        assert found is not None
        self.use = found

    @property
    def ticks(self) -> dict[str, int]:
        return {one.name: one.cpu_time_ns // TICK_NS for one in self.use.busiest}


def test_the_busiest_are_told_with_names_and_numbers(root: Path) -> None:
    put(root, 812, "pip", own=10)
    put(root, 813, "cc1plus", own=0)
    with Between(root) as seen:
        put(root, 812, "pip", own=60)
        put(root, 813, "cc1plus", own=20)
        put(root, 814, "cc1plus", own=10)
        put(root, 815, "idle")
        write_stat(root, user=80, steal=3)
    assert seen.ticks == {"pip": 50, "cc1plus": 30}
    assert [(one.pid, one.count) for one in seen.use.busiest] == [(812, 1), (813, 2)]
    assert (seen.use.other_cpu_time_ns, seen.use.steal_ns) == (80 * TICK_NS, 3 * TICK_NS)
    assert (seen.use.processors, seen.use.duration_ns > 0) == (1, True)


def test_nothing_of_ours_is_a_bystander(root: Path) -> None:
    pages = "/usr/bin/python3 /venv/enginebench_ui/main.py"
    ours = {
        AGENT: ("enginebench-age", "/usr/bin/python3 /usr/bin/enginebench-agent serve", 99),
        101: ("python3", "/usr/bin/python3 -P -m enginebench_agent.worker run model", AGENT),
        102: ("helper-of-engine", "", 101),
        99: ("enginebench", "/usr/bin/python3 /usr/bin/enginebench run model", 1),
        98: ("python3.11", "/usr/bin/python3.11 -m enginebench_controller ladder", 1),
        97: ("noise", "", 98),
        96: ("streamlit", pages, 1),
    }
    for pid, (name, command, parent) in ours.items():
        put(root, pid, name, command, parent=parent)
    with Between(root) as seen:
        for pid, (name, command, parent) in ours.items():
            put(root, pid, name, command, parent=parent, own=50)
        write_stat(root, user=50 * len(ours))
    assert seen.ticks == {}
    assert seen.use.other_cpu_time_ns == 0


def test_a_notebook_that_started_the_agent_is_ours_but_not_what_else_it_started(root: Path) -> None:
    put(root, 90, "jupyter")
    put(root, 91, "training", parent=90)
    put(root, AGENT, "python3", parent=90)
    with Between(root) as seen:
        put(root, 90, "jupyter", own=40)
        put(root, 91, "training", parent=90, own=5)
        write_stat(root, user=45)
    assert seen.ticks == {"training": 5}
    assert seen.use.other_cpu_time_ns == 5 * TICK_NS


def test_another_agent_and_its_engines_do_disturb(root: Path) -> None:
    agent = "/usr/bin/python3 /usr/bin/enginebench-agent serve"
    worker = "/usr/bin/python3 -P -m enginebench_agent.worker run model"
    put(root, AGENT, "enginebench-age", agent)
    put(root, 200, "enginebench-age", agent)
    put(root, 201, "python3", worker, parent=200)
    with Between(root) as seen:
        put(root, 201, "python3", worker, parent=200, own=30)
        write_stat(root, user=30)
    assert seen.ticks == {"enginebench_agent.worker": 30}


def test_children_that_have_ended_count_with_who_started_them(root: Path) -> None:
    """A compiler is hundreds of processes, each of which lives between two looks."""
    put(root, 300, "make", own=1, ended=500)
    put(root, 301, "cc1", parent=300, own=40)
    with Between(root) as seen:
        end(root, 301)
        put(root, 300, "make", own=1, ended=500 + 45 + 20)
        write_stat(root, user=25)
    assert seen.ticks == {"make": 25}, "5 more of the one that was there, 20 of one that nobody saw"


@pytest.mark.parametrize(
    ("name", "command", "told"),
    [
        ("3", "/usr/local/bin/runtime-init --token secret", "runtime-init"),
        ("3", "python3 -m pip install torch", "pip"),
        ("3", "/proc/self/fd/3 --token secret", "3 (started by supervisor)"),
        ("3", "", "3 (started by supervisor)"),
        ("bash", "bash /dev/fd/3", "bash (started by supervisor)"),
    ],
)
def test_what_is_called_by_a_number_goes_by_its_program_or_by_who_started_it(
    root: Path, name: str, command: str, told: str
) -> None:
    put(root, 498, "supervisor")
    put(root, 499, "sh", parent=498)
    put(root, 500, name, command, parent=499)
    with Between(root) as seen:
        put(root, 500, name, command, parent=499, own=30)
        write_stat(root, user=30)
    assert seen.ticks == {told: 30}


def test_an_interpreter_goes_by_its_script_and_arguments_are_nobodys_business(root: Path) -> None:
    commands = {
        400: ("python3", "/usr/bin/python3 -m pip install torch", "pip"),
        401: ("python3.12", "python3.12 -u /home/me/train.py --password secret", "train.py"),
        402: ("java", "java -jar /opt/build.jar --token secret", "build.jar"),
        403: ("bash", "bash -c curl --header secret", "bash"),
        404: ("postgres", "postgres: secret", "postgres"),
    }
    for pid, (name, command, _) in commands.items():
        put(root, pid, name, command)
    with Between(root) as seen:
        for pid, (name, command, _) in commands.items():
            put(root, pid, name, command, own=9)
        write_stat(root, user=45)
    assert set(seen.ticks) == {shown for _, _, shown in commands.values()}


def test_names_from_elsewhere_are_made_plain(root: Path) -> None:
    put(root, 500, "ev)il `rm`\x1b[31m (x")
    put(root, 501, "kworker/0:1", parent=2)
    with Between(root) as seen:
        put(root, 500, "ev)il `rm`\x1b[31m (x", own=9)
        put(root, 501, "kworker/0:1", parent=2, own=5)
        write_stat(root, user=14)
    assert seen.ticks == {"ev)il rm[31m (x": 9, "[kworker/0:1]": 5}


def test_what_was_used_by_nobody_who_can_be_seen_counts_without_a_name(root: Path) -> None:
    with Between(root) as seen:
        write_stat(root, user=70)
    assert (seen.use.other_cpu_time_ns, list(seen.use.busiest)) == (70 * TICK_NS, [])


def test_few_names_are_told_of_many(root: Path) -> None:
    with Between(root) as seen:
        for pid in range(600, 700):
            put(root, pid, f"job-{pid}", own=pid)
        write_stat(root, user=65_000)
    assert len(seen.use.busiest) == MOST_NAMED
    assert seen.use.busiest[0].name == "job-699"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_machine_that_tells_nothing_is_unknown_and_not_quiet(tmp_path: Path, is_there: bool) -> None:
    (tmp_path / "proc").mkdir()
    if is_there:  # but counts nothing, not even idle time, as in gVisor
        write_stat(tmp_path, idle=0)
    assert look(tmp_path) is None
    assert used_between(None, look(tmp_path), tmp_path) is None
    assert list(surroundings(tmp_path).unseen) == ["who uses the processors: no /proc/stat here that counts it"]


def test_what_cannot_be_seen_is_said(root: Path) -> None:
    assert list(surroundings(root).unseen) == []
    write(root, "proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2")
    assert list(surroundings(root).unseen) == ["what Windows does outside of WSL"]
    end(root, 1)
    assert "processes of other users" in surroundings(root).unseen
    (root / "proc/self/ns").mkdir(parents=True)
    (root / "proc/self/ns/pid").symlink_to("pid:[4026532412]")
    assert surroundings(root).unseen[0] == "processes outside of this container"
    assert "who else uses the device" in surroundings(root, on_processors=False).unseen


def test_a_quota_is_told(root: Path) -> None:
    assert not surroundings(root).HasField("quota_cores")
    write(root, "proc/self/cgroup", "0::/box")
    write(root, "proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
    write(root, "sys/fs/cgroup/box/cpu.max", "150000 100000")
    assert surroundings(root).quota_cores == 1.5


@contextmanager
def at_work(command: list[str]) -> Iterator[int]:
    """A process of somebody else; gone afterwards."""
    with subprocess.Popen(command, start_new_session=True) as started:
        try:
            yield started.pid
        finally:
            started.kill()


def seen_while(seconds: float) -> MachineUse:
    """What others used meanwhile; no process here is an agent with children."""
    first = look(agent=NOBODY)
    time.sleep(seconds)
    found = used_between(first, look(agent=NOBODY))
    assert found is not None
    return found


def test_a_busy_process_beside_is_named_on_this_very_machine(tmp_path: Path) -> None:
    script = tmp_path / "busy-beside.py"
    script.write_text(SPIN.format(30))
    with at_work([sys.executable, str(script)]) as pid:
        time.sleep(0.1)
        use = seen_while(0.5)
    assert ("busy-beside.py", pid) in [(one.name, one.pid) for one in use.busiest]
    assert use.other_cpu_time_ns >= 50_000_000


@pytest.mark.slow
def test_short_processes_beside_are_found_by_who_starts_them(tmp_path: Path) -> None:
    """As of a build: none of them lives at both looks."""
    script = tmp_path / "many-short.py"
    child = "sum(range(300_000))"
    script.write_text(f"import subprocess, sys\nwhile True: subprocess.run([sys.executable, '-S', '-c', {child!r}])\n")
    with at_work([sys.executable, str(script)]):
        time.sleep(0.2)
        use = seen_while(0.8)
    assert "many-short.py" in [one.name for one in use.busiest]
