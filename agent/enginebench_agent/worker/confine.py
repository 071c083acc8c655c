"""Shuts this process in before an engine is imported: its network, cores, threads, what it sees of the files.

bubblewrap stays the parent of what it starts, so the agent would bind, read and end a process that is not the engine's.
Therefore it starts a shell that only waits, and this process moves into the shell's namespaces: its number, parent,
limits, readings and the signal it ends by stay what they are without.
"""

import contextlib
import ctypes
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from enginebench_agent.machine.cgroup import cpu_quota_cores
from enginebench_agent.machine.cores import cores_by_kind, isolated, physical_cores, usable_cores
from enginebench_agent.runs.limits import Sandbox
from enginebench_agent.worker import plugins
from enginebench_plugins.spec import UnsupportedSettingsError

_PR_SET_PDEATHSIG = 1
CLONE_NEWUSER = 0x1000_0000
_CLONE_NEWNET = 0x4000_0000
PROC_SELF = Path("/proc/self")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends. Does nothing outside Linux."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def leave_network() -> str:
    """Move this process into a network of its own that leads nowhere; returns why that cannot be, "" where it can.

    Only for a process with a single thread. Without the right to do so it takes a namespace of users along; files,
    devices, processors and the counters of the kernel stay the same.
    """
    return ask_kernel("unshare", _CLONE_NEWNET) and give_up_rights(_CLONE_NEWNET)


def give_up_rights(besides: int = 0) -> str:
    """Move this process into a namespace of users, where it stays who it is, without rights outside.

    `besides` are flags of other namespaces to move into. Returns why that cannot be, "" where it can.
    """
    user, group = os.getuid(), os.getgid()
    if refusal := ask_kernel("unshare", CLONE_NEWUSER | besides):
        return refusal
    for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with contextlib.suppress(OSError):  # then it is nobody by name, with the same rights
            (PROC_SELF / file).write_text(text)
    return ""


def ask_kernel(name: str, *arguments: int) -> str:
    """Call a function of the C library that concerns namespaces; returns why it failed, "" where it did not."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is None:
        return "this system has no namespaces"
    if function(*arguments) != 0:
        return f"the kernel refuses a namespace ({os.strerror(ctypes.get_errno()).lower()})"
    return ""


def confine_to_cores(cores: int, cluster: str = "", root: Path = Path("/")) -> tuple[int, ...]:
    """Bind this process and all its future threads to `cores` physical cores; returns the logical processors.

    They are the fastest there are, or those of the kind called `cluster`. One logical processor of each core: two
    hyper-threads on one core are not two cores. Also limits the thread pools that read the environment when they are
    loaded, NumPy's among them. `root` is the root of /proc and /sys.
    Raises `UnsupportedSettingsError` for a kind that is not here, when there are fewer cores, when the control group's
    quota grants less processor time, for none, or for more than one and than there are that are not isolated.
    """
    usable = os.sched_getaffinity(0)
    available = _of_kind(cluster, cores_by_kind(usable, root)) if cluster else physical_cores(usable, root)
    _refuse_too_many(cores, len(available), cpu_quota_cores(root), f"{cluster} cores" if cluster else "physical cores")
    if cores > 1:
        available = _spread_over(available, cores, isolated(root))
    chosen = sorted(available[:cores])
    os.sched_setaffinity(0, chosen)
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(cores)))
    return tuple(chosen)


def _of_kind(cluster: str, kinds: Mapping[str, list[int]]) -> list[int]:
    if cluster in kinds:
        return kinds[cluster]
    there_are = f"there are {', '.join(kinds)}" if kinds else "all cores here are alike"
    raise UnsupportedSettingsError(f"The configuration asks for {cluster[:40]!r} cores; {there_are}.")


def _refuse_too_many(cores: int, available: int, quota_cores: float | None, kind: str) -> None:
    if not 1 <= cores <= available:
        raise UnsupportedSettingsError(f"The configuration asks for {cores} {kind}; this process may use {available}.")
    if cores > (usable := usable_cores(available, quota_cores)):
        raise UnsupportedSettingsError(
            f"The configuration asks for {cores} {kind}; the control group's quota grants this process the "
            f"time of {quota_cores:.3g}, so it would be held back again and again. Ask for {usable} or raise the quota."
        )


def _spread_over(available: list[int], cores: int, apart: frozenset[int]) -> list[int]:
    """Those over which the kernel spreads threads: apart, one stays where it began, and all begin where the first is.

    Raises `UnsupportedSettingsError` when they are fewer than so many cores.
    """
    spread = [cpu for cpu in available if cpu not in apart]
    if len(spread) < cores:
        found = ", ".join(str(cpu) for cpu in sorted(available) if cpu in apart)
        raise UnsupportedSettingsError(
            f"The configuration asks for {cores} cores, and of those that this process may use the kernel keeps "
            f"{found} isolated (isolcpus): it spreads no threads over them, and all would run on one. Ask "
            f"for {max(1, len(spread))}, or start the agent on cores that are not isolated."
        )
    return spread


_CLONE_NEWNS = 0x0002_0000
_WAITING = "echo $$; read end"

_PRIVATE = ("/home", "/root", "/tmp", "/var/tmp", "/dev/shm", "/run/user")  # noqa: S108  # hidden, not used
"""What people keep to themselves: homes, scratch files, shared memory, the sockets of their sessions."""

_LIBRARY_VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "ONEAPI_ROOT")

_Mounts = dict[Path, tuple[str, ...]]
"""bubblewrap's option for a place, and what is to be seen there."""
_EMPTY = ("--tmpfs",)


def enter_sandbox(sandbox: Sandbox, unchanging: Iterable[Path]) -> str:
    """Move into the sandbox; returns why that cannot be, "" where it can. Only for a process with a single thread.

    The file system can be read and not written, but for the current folder, in which `unchanging` stays as it is.
    Homes, temporary files and what is to be hidden are empty, but for what this interpreter imports from. Processes,
    processors and devices, /proc and /sys stay as they are.
    """
    folder = Path.cwd()
    try:
        mounts = _mounts(sandbox, folder, unchanging)
        words = [word for place in sorted(mounts) for word in (*mounts[place], str(place))]
        command = [str(sandbox.program), "--unshare-user", "--die-with-parent", *words, "--chdir", str(folder)]
        refusal = _join([*command, "/bin/sh", "-c", _WAITING])
    except OSError as error:
        return f"{error.filename or sandbox.program}: {(error.strerror or str(error)).lower()}"
    if refusal:
        return refusal
    os.chdir(folder)
    return give_up_rights()  # those over bubblewrap's mounts: without them nobody can undo one


def _join(command: Sequence[str]) -> str:
    if not hasattr(os, "pidfd_open"):  # built with the headers of an older kernel
        return "this Python knows no pidfd_open"
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as shell:
        assert shell.stdout is not None and shell.stderr is not None  # noqa: S101  # pipes, as asked for
        if not (pid := shell.stdout.readline()):
            return shell.stderr.read().decode(errors="replace").strip() or "bwrap ended without a word"
        descriptor = os.pidfd_open(int(pid))
        try:
            return ask_kernel("setns", descriptor, CLONE_NEWUSER | _CLONE_NEWNS)
        finally:
            os.close(descriptor)


def _mounts(sandbox: Sandbox, folder: Path, unchanging: Iterable[Path]) -> _Mounts:
    home = Path(os.environ.get("HOME", "/"))
    private = _folders([*map(Path, _PRIVATE), *([home] if home != Path("/") else [])])
    secret = _folders(sandbox.hidden)
    empty = private | secret
    mounts: _Mounts = {Path("/"): ("--ro-bind", "/"), Path("/dev"): ("--dev-bind", "/dev"), Path("/proc"): ("--proc",)}
    mounts |= dict.fromkeys(private.values(), _EMPTY)
    mounts |= {place: ("--ro-bind", str(path)) for path in _needed() for place in _within(empty, path)}
    mounts |= dict.fromkeys(secret.values(), _EMPTY)
    for cache, seen in _caches(sandbox, home):
        mounts |= {place: ("--bind", str(cache)) for place in _within(empty, seen)}
    mounts[folder] = ("--bind", str(folder))
    return mounts | {path: ("--ro-bind", str(path)) for path in unchanging}


def _folders(paths: Iterable[Path]) -> dict[Path, Path]:
    """The real names of those that are folders, by the names given and by themselves."""
    real = {path: path.resolve() for path in paths if _is_folder(path)}
    return real | {path: path for path in real.values()}


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:  # such as that of an account without a home, or one that nobody may look into
        return False


def _within(empty: Mapping[Path, Path], path: Path) -> Iterator[Path]:
    """Where a path that lies in an empty folder has to be put back, by its own name and by the one without links."""
    for name in {path, path.resolve()}:
        yield from (real / name.relative_to(root) for root, real in empty.items() if root in name.parents)


def _caches(sandbox: Sandbox, home: Path) -> Iterator[tuple[Path, Path]]:
    """Folders that last from run to run, and where drivers look for them, to keep the kernels they compiled."""
    general = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    for name, seen in ((".nv", home / ".nv"), (".cache", general)):
        cache = sandbox.caches / name
        cache.mkdir(parents=True, exist_ok=True)
        yield cache, seen


def _needed() -> Iterator[Path]:
    """What this interpreter, its libraries and the plugins are loaded from."""
    named = [part for name in _LIBRARY_VARIABLES for part in os.environ.get(name, "").split(os.pathsep)]
    for text in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path, *named):
        if (path := Path(text)).is_absolute() and os.access(path, os.F_OK):
            yield path
    for points in plugins.installed().values():
        yield from (source for point in points if point.dist and (source := _source(point.dist)))


def _source(distribution: Distribution) -> Path | None:
    """The folder that an editable installation is in truth, which need not be on the import path (PEP 610)."""
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    is_editable = origin.get("dir_info", {}).get("editable")
    return Path(unquote(urlsplit(origin["url"]).path)) if is_editable else None
