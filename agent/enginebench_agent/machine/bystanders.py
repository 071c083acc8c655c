"""Who but enginebench uses the processors, told from two looks at /proc; and waiting until they leave them alone.

Processor time of a process counts with that of its children that have ended, so that a compiler which starts a thousand
short ones is not missed. `root` is the file system's root, so that tests can bring their own.
"""

import asyncio
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from enginebench_agent.machine.cgroup import cpu_quota_cores
from enginebench_agent.machine.disturbances import is_quiet
from enginebench_agent.machine.kept_file import AbsentError
from enginebench_agent.machine.sources import TICK_NS, busy_and_stolen
from enginebench_proto.agreed.words import UNSEEN_USERS
from enginebench_proto.v1.measurement_pb2 import Bystanders, MachineUse, ProcessUse
from enginebench_proto.v1.run_pb2 import Unquiet

MOST_NAMED = 5
"""Names told of one look; those after them are rarely worth a word."""

_NAME_CHARACTERS = 64
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the kernel: the namespace that is no container's."""
_INTERPRETERS = re.compile(r"(python|pypy|perl|ruby|node|java|bash|sh)[\d.]*")
_KERNEL = 2
"""The process that all threads of the kernel descend from."""
_OWN_PROGRAMS = ("python", "enginebench", "streamlit")
"""What a process of ours may be called; of others no command line is read."""
_AGENT = re.compile(r"enginebench[-_]agent")
_CONTROLLER = re.compile(r"enginebench(_controller|_ui)?")


@dataclass(frozen=True)
class _Process:
    """One process at one moment. Times are in ticks; `ended` is that of its children that have ended."""

    pid: int
    parent: int
    begun: int
    name: str
    own: int
    ended: int

    @property
    def whole(self) -> int:
        return self.own + self.ended


@dataclass(frozen=True)
class Look:
    """What was used of the processors until one moment, since the machine started; times are in ticks."""

    at_ns: int
    processors: int
    busy: int
    steal: int
    agent: int
    processes: Mapping[tuple[int, int], _Process] = field(repr=False)
    ours: frozenset[tuple[int, int]] = field(repr=False)


def look(root: Path = Path("/"), agent: int | None = None) -> Look | None:
    """What was used until now; None where the kernel does not tell. `agent` is the agent's process, by default this.

    Takes some 20 µs a process of the machine.
    """
    try:
        head, *rest = (root / "proc/stat").read_bytes().splitlines()
        busy, steal = busy_and_stolen(head)
    except (AbsentError, OSError, ValueError):
        return None
    processes = {(one.pid, one.begun): one for one in _processes(root)}
    agent = os.getpid() if agent is None else agent
    return Look(
        at_ns=time.monotonic_ns(),
        processors=sum(bool(re.match(rb"cpu\d", line)) for line in rest) or 1,
        busy=busy,
        steal=steal,
        agent=agent,
        processes=processes,
        ours=_ours(root, processes.values(), agent),
    )


def used_between(first: Look | None, second: Look | None, root: Path = Path("/")) -> MachineUse | None:
    """What others used between two looks; None where one of them saw nothing."""
    if first is None or second is None or second.at_ns <= first.at_ns:
        return None
    ours = first.ours | second.ours
    used = _used(first, second)
    of_ours = sum(ticks for key, ticks in used.items() if key in ours)
    for key, ticks in _own_time_of_parent(first, second).items():
        of_ours += ticks
        used[key] -= ticks
    others = {key: ticks for key, ticks in used.items() if key not in ours and ticks > 0}
    return MachineUse(
        duration_ns=second.at_ns - first.at_ns,
        processors=second.processors,
        other_cpu_time_ns=max(0, second.busy - first.busy - of_ours) * TICK_NS,
        steal_ns=max(0, second.steal - first.steal) * TICK_NS,
        busiest=_busiest(others, second, root),
    )


def surroundings(root: Path = Path("/"), *, on_processors: bool = True) -> Bystanders:
    """What does not change while the agent runs: its quota, and what it cannot see."""
    return Bystanders(quota_cores=cpu_quota_cores(root), unseen=_unseen(root, on_processors=on_processors))


def _unseen(root: Path, *, on_processors: bool) -> list[str]:
    found = []
    if look(root) is None:
        found.append("who uses the processors: no /proc/stat here that counts it")
    elif _pid_namespace(root) not in ("", _FIRST_PID_NAMESPACE):
        found.append("processes outside of this container")
    elif not (root / "proc/1/stat").exists():
        found.append("processes of other users")
    if "microsoft" in _text(root / "proc/sys/kernel/osrelease").lower():
        found.append("what Windows does outside of WSL")
    if not on_processors:
        found.append(UNSEEN_USERS)
    return found


def _processes(root: Path) -> Iterable[_Process]:
    for entry in os.scandir(root / "proc"):
        if entry.name.isdecimal():
            try:
                with open(f"{entry.path}/stat", "rb") as file:  # noqa: PTH123  # half the time of a Path's
                    yield _process(file.read().decode(errors="replace"))
            except (OSError, ValueError, IndexError):  # it has ended, or may not be looked at
                continue


def _process(stat: str) -> _Process:
    # The name may hold spaces and brackets; what follows the last bracket has none.
    before, _, after = stat.rpartition(")")
    pid, _, name = before.partition("(")
    words = after.split()
    own, ended = int(words[11]) + int(words[12]), int(words[13]) + int(words[14])
    return _Process(int(pid), int(words[1]), int(words[19]), name.strip(), own, ended)


def _ours(root: Path, processes: Iterable[_Process], agent: int) -> frozenset[tuple[int, int]]:
    """What descends from this agent, and controllers and pages with what they started, other agents left out."""
    by_pid = {one.pid: one for one in processes}
    is_ours: dict[int, bool] = {0: False, agent: True}

    def of(pid: int) -> bool:
        above = []
        while pid not in is_ours:
            if (one := by_pid.get(pid)) is None or pid in above:
                is_ours[pid] = False
            elif (role := _role(root, one)) is not None:
                is_ours[pid] = role
            else:
                above.append(pid)
                pid = one.parent
        is_ours.update(dict.fromkeys(above, is_ours[pid]))
        return is_ours[pid]

    return frozenset((one.pid, one.begun) for one in by_pid.values() if of(one.pid))


def _role(root: Path, process: _Process) -> bool | None:
    """True for a controller or a page, False for another agent, None for all else, engines included."""
    if not process.name.startswith(_OWN_PROGRAMS):
        return None
    words = _command(root, process.pid)[:4]
    names = [PurePosixPath(word).name for word in words]  # python -m enginebench_agent, …/bin/enginebench-agent
    # A page is run from its file: …/enginebench_ui/main.py.
    parts = {part for word in words for part in PurePosixPath(word).parts if part == "enginebench_ui"}
    if any(_AGENT.fullmatch(name) for name in names):
        return False
    return True if parts or any(_CONTROLLER.fullmatch(name) for name in names) else None


def _own_time_of_parent(first: Look, second: Look) -> dict[tuple[int, int], int]:
    """What whoever started the agent used: a notebook, say, is the controller, and nothing tells so."""
    parents = {one.parent for one in second.processes.values() if one.pid == second.agent} - {1}
    return {
        key: one.own - first.processes[key].own
        for key, one in second.processes.items()
        if one.pid in parents and key not in second.ours and key in first.processes
    }


def _used(first: Look, second: Look) -> dict[tuple[int, int], int]:
    """Ticks of each process that is still there, with what its children used that ended meanwhile."""
    used = {
        key: one.whole - (first.processes[key].whole if key in first.processes else 0)
        for key, one in second.processes.items()
    }
    by_pid = {one.pid: one for one in first.processes.values()}
    for key, gone in first.processes.items():
        if key in second.processes:
            continue
        # What it had used by the first look went over to whoever waited for its end: its nearest living ancestor.
        above: _Process | None = gone
        for _ in range(len(by_pid)):
            above = by_pid.get(above.parent) if above else None
            if above is None or (above.pid, above.begun) in second.processes:
                break
        if above is not None and (above.pid, above.begun) in used:
            inherited = (above.pid, above.begun)
            used[inherited] = max(0, used[inherited] - gone.whole)
    return used


def _busiest(others: Mapping[tuple[int, int], int], at_last: Look, root: Path) -> list[ProcessUse]:
    top = sorted(others, key=lambda key: -others[key])[: 4 * MOST_NAMED]
    together: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for key in top:
        together[_shown_name(root, at_last.processes[key], at_last)].append(key)
    found = [
        ProcessUse(name=name, pid=keys[0][0], count=len(keys), cpu_time_ns=sum(others[key] for key in keys) * TICK_NS)
        for name, keys in together.items()
    ]
    return sorted(found, key=lambda use: -use.cpu_time_ns)[:MOST_NAMED]


def _shown_name(root: Path, process: _Process, seen: Look) -> str:
    """The program's name; of an interpreter the script's, since everything in Python is called python; of a thread of
    the kernel's its name in brackets, as `ps` shows it. What says nothing is told with who started it."""
    if _KERNEL in (process.pid, process.parent):
        name = f"[{process.name}]"
    else:
        name, script = _program_and_script(root, process)
        if script and _says_something(script):
            name = script
        elif (script or not _says_something(name)) and (above := _who_started(process, seen)):
            name = f"{name} (started by {above})"
    shown = "".join(character for character in name if character.isprintable() and character != "`")
    return shown[:_NAME_CHARACTERS] or "?"


def _program_and_script(root: Path, process: _Process) -> tuple[str, str]:
    """By the first word of its command line where its name says nothing; and of an interpreter what it runs, or ""."""
    name = process.name
    if not _says_something(name):
        name = PurePosixPath(_command(root, process.pid)[0].strip()).name or name
    return name, _script(_command(root, process.pid)) if _INTERPRETERS.fullmatch(name) else ""


def _says_something(name: str) -> bool:
    """Not so of what was run by the number of an open file: `bash /dev/fd/3`, or a container's program."""
    return any(character.isalpha() for character in name)


def _who_started(process: _Process, seen: Look) -> str:
    """The name of the nearest above that has one and is no interpreter; "" where there is none."""
    by_pid = {one.pid: one for one in seen.processes.values()}
    above = by_pid.get(process.parent)
    for _ in range(len(by_pid)):
        if above is None or (_says_something(above.name) and not _INTERPRETERS.fullmatch(above.name)):
            break
        above = by_pid.get(above.parent)
    return above.name if above else ""


def _script(command: list[str]) -> str:
    """The module or file that an interpreter runs. Nothing behind it: arguments may hold secrets."""
    for place, word in enumerate(command[1:], start=1):
        if word == "-m":
            return command[place + 1] if place + 1 < len(command) else ""
        if word in ("-c", "-e", "-jar", "-cp", "-classpath", "-"):
            return PurePosixPath(command[place + 1]).name if word == "-jar" and place + 1 < len(command) else ""
        if not word.startswith("-"):
            return PurePosixPath(word).name if "/" in word or "." in word else ""
    return ""


def _command(root: Path, pid: int) -> list[str]:
    return _text(root / "proc" / str(pid) / "cmdline").split("\0")


def _pid_namespace(root: Path) -> str:
    try:
        return str((root / "proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


SHORTEST_LOOK_SECONDS = 0.25
"""Processor time is counted in ticks of 10 ms: 5 % of two cores are two of them."""

LOOK_SECONDS = 0.5
"""Between two looks while it waits."""

OLDEST_LOOK_SECONDS = 2.0
"""What happened before says little of what the machine does now."""

VAIN_SECONDS = 120.0
"""After waiting in vain no run waits again within this time, unless it may wait for longer or the machine was quiet in
between: one that never is would cost every process of a benchmark the whole wait, and bring nothing."""

Tell = Callable[[Unquiet], None]


class Quiet:
    """The agent's eyes on who else uses the machine; one for all its runs. `root` stands for the file system's root."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._last: Look | None = None
        self._vain_ns = 0
        self._vain_until = 0.0

    async def look(self) -> Look | None:
        """What was used until now, in a thread: a machine may have thousands of processes."""
        self._last = await asyncio.to_thread(look, self._root)
        return self._last

    async def wait(self, cores: int, at_most_ns: int, tell: Tell) -> Bystanders:
        """Wait until others use no more than disturbs a block on so many cores; returns who was seen last.

        `tell` hears of each look that finds somebody. Not at all where nobody may wait, or the machine does not tell.
        """
        found = Bystanders()
        if at_most_ns <= 0:
            return found
        clock = asyncio.get_running_loop().time
        begun = clock()
        was_in_vain = begun < self._vain_until and at_most_ns <= self._vain_ns
        used = await self._use(SHORTEST_LOOK_SECONDS)
        while used is not None:
            found.before.CopyFrom(used)
            if is_quiet(used, cores):
                self._vain_ns = 0
                return found
            if was_in_vain or found.waited_ns >= at_most_ns:
                break
            tell(Unquiet(seen=used, waited_ns=found.waited_ns, at_most_ns=at_most_ns))
            # A wait shorter than a look has one look all the same: less says nothing.
            await asyncio.sleep(max(SHORTEST_LOOK_SECONDS, min(LOOK_SECONDS, (at_most_ns - found.waited_ns) / 1e9)))
            found.waited_ns = min(round((clock() - begun) * 1e9), at_most_ns)
            used = await self._use(0)
        if found.waited_ns >= at_most_ns:
            self._vain_ns, self._vain_until = at_most_ns, clock() + VAIN_SECONDS
        return found

    async def use_since(self, first: Look | None) -> MachineUse | None:
        """What others used since a look; None where the machine does not tell."""
        second = await self.look()
        return await asyncio.to_thread(used_between, first, second, self._root)

    async def _use(self, shortest_seconds: float) -> MachineUse | None:
        """What others used lately: since the last look, unless that is too long ago, or too short."""
        first, second = self._last, await self.look()
        if second is None:
            return None
        if shortest_seconds and (first is None or not _is_apart(first, second)):
            await asyncio.sleep(shortest_seconds)
            first, second = second, await self.look()
        return await asyncio.to_thread(used_between, first, second, self._root)


class Watch:
    """What is seen of others around one process: before it, which is `known`, and while it is timed."""

    def __init__(self, quiet: Quiet, known: Bystanders) -> None:
        self._quiet = quiet
        self._known = known
        self._first: Look | None = None

    async def begin(self) -> None:
        """Look, before the first block; a later call counts in place of an earlier one."""
        self._first = await self._quiet.look()

    async def end(self) -> Bystanders:
        """Look again, after the last block; returns all that was seen."""
        found = Bystanders()
        found.CopyFrom(self._known)
        if (used := await self._quiet.use_since(self._first)) is not None:
            found.meanwhile.CopyFrom(used)
        return found


def _is_apart(first: Look, second: Look) -> bool:
    return SHORTEST_LOOK_SECONDS <= (second.at_ns - first.at_ns) / 1e9 <= OLDEST_LOOK_SECONDS
