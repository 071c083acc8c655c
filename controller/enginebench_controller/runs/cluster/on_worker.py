"""What a worker of Dask does: it starts an agent on its own loopback, asks it what it is, and has it carry a group out.

Here are the tasks themselves, and what they are given and give back. What an agent says travels as it said it, in its
messages' bytes, and is parsed and checked where it arrives.
"""

import asyncio
import contextlib
import os
import socket
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import default_home
from enginebench_controller.plan.expand import Case, Interleave
from enginebench_controller.records import Failure, InputFile, ModelFile, ModelVersion
from enginebench_controller.runs import remote_run
from enginebench_controller.runs.groups import Group, forget, measure
from enginebench_controller.runs.remote_run import Bench, Reporter
from enginebench_controller.runs.sample_file import SampleFile
from enginebench_controller.runs.undertaking import Undertaking
from enginebench_controller.targets.client import AgentClient
from enginebench_controller.targets.local_agent import started_agent
from enginebench_proto.v1 import run_pb2

T = TypeVar("T")

FOLDER = "cluster"
"""Below the home of enginebench on the worker: a data folder for each machine, as many may share a home."""
LOOK_SECONDS = 0.5
"""How often a task looks whether it is still wanted: Dask itself lets it go on."""
_UNWANTED = frozenset({"cancelled", "released", "forgotten"})
_ENDING = frozenset({"closing", "closed", "failed"})
"""States of tasks and of workers, in Dask's words."""
_SET_BY_NANNY = ("distributed.nanny.pre-spawn-environ", "distributed.nanny.environ")


@dataclass(frozen=True)
class MachineSeen:
    """What an agent told of its machine, as bytes of `HostFacts`, `Engine` and `Peak` messages."""

    host: bytes
    engines: tuple[bytes, ...]
    peaks: tuple[bytes, ...]


@dataclass(frozen=True)
class GroupOrder:
    """A group to be carried out; whoever hears `topic` is told how it is coming along."""

    name: str
    cases: tuple[Case, ...]
    interleave: Interleave | None
    timeout_ns: int
    wait_quiet_ns: int
    trusted_models: tuple[str, ...]
    topic: str


@dataclass(frozen=True)
class CaseOutcome:
    """What came of a case: for each process the bytes of `ResultPart` messages, and why there are no more."""

    results: Mapping[int, Sequence[bytes]]
    failure: Failure | None


@dataclass(frozen=True)
class Carried:
    """What came of a group on the machine of that name, or the digests of files that its agent lacks.

    `worker` is its address, and `sent_at_unix_ns` what the clock there said in the end.
    """

    hostname: str
    worker: str
    lacking: frozenset[str] = frozenset()
    outcomes: tuple[CaseOutcome, ...] = ()
    sent_at_unix_ns: int = 0


def load() -> None:
    """Nothing: to be asked to do it loads this module, and all that it needs."""


def look(engines: frozenset[str], trusted_models: tuple[str, ...]) -> MachineSeen:
    """Ask this machine what it is; of its engines those of these names, or all."""
    return _while_wanted(_look(engines, trusted_models))


def carry_out(order: GroupOrder, contents: Mapping[str, bytes]) -> Carried:
    """Carry a group out on this machine. `contents` are of files that its agent lacked before, by digest."""
    return _while_wanted(_carry_out(order, contents))


async def _look(engines: frozenset[str], trusted_models: tuple[str, ...]) -> MachineSeen:
    async with _agent(trusted_models) as client:
        host = await client.host()
        listed, peaks = await client.engines(engines)
        return MachineSeen(host.SerializeToString(), tuple(map(_bytes, listed)), tuple(map(_bytes, peaks)))


async def _carry_out(order: GroupOrder, contents: Mapping[str, bytes]) -> Carried:
    async with _agent(order.trusted_models) as client:
        hostname = (await client.host()).hostname
        for run in await client.runs():  # of a task that was killed: it is done anew, here or elsewhere
            await remote_run.drop(client, run.run_id)
        with tempfile.TemporaryDirectory(prefix="enginebench-") as folder:
            for digest, content in contents.items():
                (Path(folder) / digest).write_bytes(content)
            group = Group(order.name, tuple(_undertakings(order, client, Path(folder))), order.interleave)
            bench = _bench(order, client, Path(folder))
            lacking = {file.sha256 for member in group.members async for file in _lacked(bench, client, member.case)}
            if lacking - contents.keys():
                return Carried(hostname, _worker().address, frozenset(lacking))
            outcomes = await _measured(bench, client, group)
        return Carried(hostname, _worker().address, outcomes=outcomes, sent_at_unix_ns=time.time_ns())


async def _measured(bench: Bench, client: "_KeepingClient", group: Group) -> tuple[CaseOutcome, ...]:
    with contextlib.ExitStack() as files:
        await measure(bench, group, [files.enter_context(SampleFile(bench.folder)) for _ in group.members])
    for member in group.members:
        await forget(bench, member)
    kept = client.parts
    return tuple(
        CaseOutcome({process: kept[member.run_id(process)] for process in member.results}, member.failure)
        for member in group.members
    )


def _undertakings(order: GroupOrder, client: AgentClient, folder: Path) -> Iterator[Undertaking]:
    for case in order.cases:
        yield Undertaking(
            replace(case, target=client.name, input_paths={digest: folder / digest for digest in case.input_paths})
        )


def _bench(order: GroupOrder, client: AgentClient, folder: Path) -> Bench:
    def file_paths(version: ModelVersion) -> list[Path]:
        return [folder / file.sha256 for file in version.files]

    limits = order.timeout_ns, order.wait_quiet_ns
    return Bench({client.name: client}, file_paths, folder, _Telling(order.topic), *limits)


async def _lacked(bench: Bench, client: AgentClient, case: Case) -> AsyncIterator[ModelFile | InputFile]:
    for file, _ in remote_run.files_of(bench, case):
        if await client.committed_bytes(file) is not None:
            yield file


class _KeepingClient(AgentClient):
    """An agent's client that keeps the parts of results as they came, by run."""

    def __init__(self, name: str, address: str) -> None:
        super().__init__(name, address)
        self.parts: dict[str, list[bytes]] = {}

    async def result(self, run_id: str) -> AsyncGenerator[run_pb2.ResultPart, None]:
        """See `AgentClient`."""
        self.parts[run_id] = []
        async for part in super().result(run_id):
            self.parts[run_id].append(part.SerializeToString())
            yield part


@contextlib.asynccontextmanager
async def _agent(trusted_models: Iterable[str]) -> AsyncIterator[_KeepingClient]:
    """An agent that has this machine alone. Raises `EnginebenchError` where it does not start."""
    hostname = socket.gethostname()
    folder, environment = default_home().path / FOLDER / hostname, login_environment()
    async with contextlib.AsyncExitStack() as stack:
        agent = started_agent(folder, "--alone", trusted_models=trusted_models, environment=environment, within_s=None)
        try:
            address = await stack.enter_async_context(agent)
        except EnginebenchError:
            raise EnginebenchError(
                f"no agent starts on {hostname}: why is in the log of the worker {_worker().address}"
            ) from None
        yield await stack.enter_async_context(_KeepingClient(hostname, address))


def login_environment() -> dict[str, str]:
    """This process's environment variables but for those that Dask's nanny has set, such as for one thread only.

    Of them what the nanny itself was started with is there: that is from the login.
    """
    import dask  # noqa: PLC0415  # an extra

    if _worker().nanny is None:
        return dict(os.environ)
    set_by_nanny = {"PYTHONHASHSEED", *(name for key in _SET_BY_NANNY for name in dask.config.get(key, {}))}
    of_login = {name: value for name, value in _environment_of(os.getppid()).items() if name in set_by_nanny}
    return {name: value for name, value in os.environ.items() if name not in set_by_nanny} | of_login


def _environment_of(pid: int) -> dict[str, str]:
    """The variables that a process was started with; none where that is not told."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if b"=" in entry)
    return {name: value for name, _, value in pairs}


def _while_wanted(work: Coroutine[Any, Any, T]) -> T:
    """What comes of it. It is cancelled when nobody waits for this task any more, or when the worker has lost its
    scheduler, and then ends what it has begun.
    """
    worker = _worker()
    key = worker.get_current_task()

    async def watched() -> T:
        task = asyncio.create_task(work)
        told = False
        while not (await asyncio.wait([task], timeout=LOOK_SECONDS))[0]:
            known = worker.state.tasks.get(key)
            is_wanted = known is not None and known.state not in _UNWANTED and worker.status.name not in _ENDING
            if not told and not is_wanted:
                told = task.cancel()
        if task.cancelled():
            raise EnginebenchError("nobody waits for this group any more")
        return task.result()

    return asyncio.run(watched())


@dataclass(frozen=True)
class _Telling(Reporter):
    """Tells of the phases of runs through the scheduler: not of each step in them, which may be many a second."""

    topic: str
    _phases: dict[str, tuple[int, str]] = field(default_factory=dict)

    def running(self, case: Case, process: int, phase: str, elapsed_ns: int, expected_ns: int) -> None:
        """See `remote_run.Reporter`."""
        if self._phases.get(case.outcome_id) != (process, phase):
            self._phases[case.outcome_id] = process, phase
            _worker().log_event(self.topic, [case.outcome_id, process, phase])


def _worker() -> Any:
    from distributed import get_worker  # noqa: PLC0415  # an extra

    return get_worker()


def _bytes(message: Any) -> bytes:
    content: bytes = message.SerializeToString()
    return content
