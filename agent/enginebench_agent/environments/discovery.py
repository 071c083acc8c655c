"""Which engines every environment has: asked of short-lived children, so that no plugin can harm the agent."""

import asyncio
import contextlib
import importlib.metadata
import logging
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from pathlib import Path

from enginebench_agent.config import AgentConfig, EnvironmentConfig
from enginebench_agent.errors import NotReadyError, SetupError
from enginebench_agent.names import is_engine_name
from enginebench_agent.runs.child import ChildExit, ChildStartError, spawned
from enginebench_agent.runs.limits import NO_LIMITS, ChildLimits
from enginebench_agent.runs.queue import Lease
from enginebench_agent.worker.pipe import FramingError
from enginebench_proto.agreed import logs
from enginebench_proto.v1.engine_pb2 import (
    UNAVAILABLE_KIND_BEING_ASKED,
    UNAVAILABLE_KIND_BROKEN,
    UNAVAILABLE_KIND_NOT_INSTALLED,
    UNAVAILABLE_KIND_TIMED_OUT,
    UNAVAILABLE_KIND_UNSUPPORTED,
    Engine,
    UnavailableEngine,
)

CHILDREN_AT_ONCE = 2
SILENT_SECONDS = 10.0
"""How long runs wait for one more engine to answer: what hangs is no reason to keep everybody waiting."""
Names = frozenset[str]
"""Of the engines that somebody wants to know."""

ALL: Names = frozenset()

SLOW_SECONDS = 3.0
"""After this long a child is waited for beside others: one that hangs keeps nobody from being asked."""

MAX_ANSWERS = 1_000
SCRATCH_PREFIX = "discovery-"
"""How the folders of children that are asked begin."""
_OWN_DISTRIBUTION = f"enginebench {importlib.metadata.version('enginebench')}"
_USAGE = "usage: enginebench_agent.worker"
"""How a worker answers words that it does not know."""

_log = logging.getLogger(__name__)


class WorkerAnswerError(Exception):
    """A child did not answer: what happened as a sentence, the kind of obstacle, the end of its error output."""

    def __init__(self, reason: str, *, detail: str = "", timed_out: bool = False) -> None:
        super().__init__(reason)
        self.detail = detail
        self.timed_out = timed_out


class Discovery:
    """The engines of all environments, asked once and kept for the agent's lifetime or until asked anew.

    Whoever needs a few of them has only these asked: importing an engine takes seconds.
    """

    def __init__(
        self, config: AgentConfig, load_config: Callable[[], AgentConfig], scratch: Path, lease: Lease
    ) -> None:
        """`scratch` is where the children's folders go; `load_config` is asked on every refresh."""
        self.config = config
        self._load_config = load_config
        self._scratch = scratch
        self._lease = lease
        self._slots = asyncio.Semaphore(CHILDREN_AT_ONCE)
        self._task: asyncio.Task[tuple[Engine, ...]] | None = None
        self._asks_for = ALL
        self._has_asked = False
        self._known: tuple[Engine, ...] = ()
        self._known_of: Names | None = None
        self._found: dict[tuple[str, str], Engine] = {}
        self._one_more = asyncio.Event()

    @property
    def known(self) -> tuple[Engine, ...] | None:
        """What the last asking of all found; None before it has ended."""
        return self._known if self._known_of == ALL else None

    @property
    def is_under_way(self) -> bool:
        """Whether engines are being asked."""
        return self._task is not None and not self._task.done()

    def begin(self, names: Iterable[str] = ()) -> asyncio.Task[tuple[Engine, ...]]:
        """Start asking the engines of these names, or all, unless some are being asked already."""
        if self._task is None or self._task.done():
            self._has_asked, self._asks_for = False, frozenset(names)
            self._task = asyncio.create_task(self._discover(self._asks_for))
        if not self._has_asked:
            self._expect(self._asks_for)
        return self._task

    async def engines(
        self, names: Iterable[str] = (), *, refresh: bool = False, within_seconds: float | None = None
    ) -> tuple[Engine, ...]:
        """The engines of these names, or all, by environment and name. Who leaves early does not stop the asking.

        After `within_seconds` those that have not answered are listed as being asked. While all are asked anew, their
        earlier answers are for who gives no such time: he has them at once. A refresh asks all; raises `NotReadyError`
        where it meets a broken configuration.
        """
        wanted = ALL if refresh else frozenset(names)
        if self._knows(wanted) and not refresh and (within_seconds is None or not self.is_under_way):
            return self._known
        if refresh:
            self._reload_config()
            await self._outdated()
        is_asked = False
        while not is_asked:
            task = self.begin(wanted)
            is_asked = _covers(self._asks_for, wanted)
            if not (await asyncio.wait([task], timeout=within_seconds))[0]:
                return without_needless(self._found.values())
        return task.result()

    async def engine(self, name: str, environment: str) -> tuple[Engine, ...]:
        """All engines known once this one is: nobody waits for one that he does not want."""
        wanted = frozenset([name])
        while not self._knows(wanted):
            task = self.begin(wanted)
            is_asked = _covers(self._asks_for, wanted)
            while not task.done() and not _has_answered(self._found.get((environment, name))):
                self._one_more.clear()
                waiting = asyncio.create_task(self._one_more.wait())
                await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
            if not task.done():
                return tuple(self._found.values())
            if is_asked:
                return task.result()
        return self._known

    async def close(self) -> None:
        """Stop asking; the children are gone afterwards."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _reload_config(self) -> None:
        try:
            self.config = self._load_config()
        except SetupError as error:
            raise NotReadyError(f"this agent's configuration is broken: {error}.") from error

    async def _outdated(self) -> None:
        """Wait for the end of an asking that began before now: what it finds may be older than what was changed."""
        if self._task is not None and self._has_asked:
            with contextlib.suppress(Exception):  # whatever came of it, it is asked once more
                await asyncio.shield(self._task)

    def _knows(self, wanted: Names) -> bool:
        return self._known_of is not None and _covers(self._known_of, wanted)

    def _expect(self, names: Names) -> Sequence[EnvironmentConfig]:
        """Forget what was found before; returns the environments that may hold engines of these names, to be asked."""
        asked = [each for each in self.config.environments if _may_hold(each, names)]
        self._found = {}
        for each in asked:
            self._find([_entry(each, name, _being_asked(self.config)) for name in _expected(each)])
        return asked

    async def _discover(self, names: Names) -> tuple[Engine, ...]:
        async with contextlib.AsyncExitStack() as alone:
            # Importing engines keeps a processor busy, and that must not happen beside a measurement.
            await alone.enter_async_context(self._lease.hold())
            self._has_asked, config = True, self.config
            asked = self._expect(names)
            async with asyncio.TaskGroup() as asking:
                tasks = [asking.create_task(self._of_environment(each, names, config)) for each in asked]
                await self._until_silent(tasks)
                await alone.aclose()
        self._known, self._known_of = self._together(names, {one.name for one in asked})
        usable = [f"{one.name}@{one.environment.name}" for one in self._known if one.HasField("available")]
        _log.info("engines found", extra=logs.told(available=usable, unavailable=len(self._known) - len(usable)))
        return self._known

    def _together(self, names: Names, environments: Collection[str]) -> tuple[tuple[Engine, ...], Names]:
        """What was found now, of these names in these environments, and what is known of others; and of whom.

        An environment that was asked now may have been mended since it was broken: its engines are asked anew.
        """
        if names == ALL or self._known_of is None:
            return without_needless(self._found.values()), names
        others = [one for one in self._known if (one.environment.name, one.name) not in self._found]
        gone = {one.name for one in others if one.environment.name in environments and not one.HasField("available")}
        kept = [one for one in others if one.name not in names | gone]
        known_of = ALL if self._known_of == ALL else names | (self._known_of - gone)
        return without_needless([*kept, *self._found.values()]), known_of

    async def _until_silent(self, asking: "Collection[asyncio.Task[None]]") -> None:
        """Wait until all have answered, or those that are left have been silent for so long that they hang."""
        before, answered = -1, 0
        while asking and before < answered:
            _, asking = await asyncio.wait(asking, timeout=SILENT_SECONDS)
            before, answered = answered, sum(map(_has_answered, self._found.values()))

    async def _of_environment(self, environment: EnvironmentConfig, names: Names, config: AgentConfig) -> None:
        try:
            listed = await self._ask(environment.python, ["list"], config)
            _check_version(listed)
        except WorkerAnswerError as error:
            told = logs.told(environment=environment.name, reason=str(error), detail=error.detail)
            _log.warning("environment cannot be asked", extra=told)
            self._find(_broken_environment(environment, error))
            return
        wanted = [
            each
            for each in listed
            if (environment.engines is None or each.name in environment.engines)
            and (names == ALL or each.name in names)
        ]
        for name in _expected(environment):
            self._found.pop((environment.name, name), None)
        self._find([_entry(environment, each.name, _being_asked(config)) for each in wanted])
        self._find([each for each in _absent(environment, listed) if names == ALL or each.name in names])
        await asyncio.gather(*(self._ask_engine(environment, each, config) for each in wanted))

    async def _ask_engine(self, environment: EnvironmentConfig, listed: Engine, config: AgentConfig) -> None:
        try:
            engine = await self._of_engine(environment, listed, config)
        except WorkerAnswerError as error:
            engine = listed
            engine.unavailable.CopyFrom(_unavailable(f"The plugin {listed.name!r}", error))
        engine.environment.name = environment.name
        self._find([engine])

    async def _of_engine(self, environment: EnvironmentConfig, listed: Engine, config: AgentConfig) -> Engine:
        if not is_engine_name(listed.name):
            raise WorkerAnswerError(
                f"of {listed.distribution} has a name that no engine may have: 1 to 64 letters, digits, '.', '-' or '_'"
            )
        answers = await self._ask(environment.python, ["describe", listed.name], config)
        if not answers:
            raise WorkerAnswerError("ended its process with exit code 0 while it was asked for its version and devices")
        return answers[0]

    def _find(self, engines: Iterable[Engine]) -> None:
        self._found |= {(engine.environment.name, engine.name): engine for engine in engines}
        self._one_more.set()

    async def _ask(self, python: Path, arguments: Sequence[str], config: AgentConfig) -> list[Engine]:
        async with self._slot():
            limit_seconds = config.discovery_seconds
            return await ask_worker(python, arguments, self._scratch, limit_seconds, config.child_limits)

    @contextlib.asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """One of the places for children, given back when the block is left, or when it has lasted long."""
        await self._slots.acquire()
        giving_back = asyncio.create_task(asyncio.sleep(SLOW_SECONDS))
        giving_back.add_done_callback(lambda _: self._slots.release())
        try:
            yield
        finally:
            giving_back.cancel()


async def ask_worker(
    python: Path, arguments: Sequence[str], scratch: Path, limit_seconds: float, limits: ChildLimits = NO_LIMITS
) -> list[Engine]:
    """Have a child of `python` list or describe engines. Raises `WorkerAnswerError`; the child is always gone then."""
    limits = limits.within(limit_seconds)
    with tempfile.TemporaryDirectory(dir=scratch, prefix=SCRATCH_PREFIX, ignore_cleanup_errors=True) as folder:
        try:
            async with spawned(python, arguments, Path(folder), stdin=None, limits=limits) as child:
                try:
                    async with asyncio.timeout(limit_seconds):
                        messages = [message async for message in child.messages()]
                        end = await child.exit()
                except TimeoutError as error:
                    child.kill()
                    raise WorkerAnswerError(
                        f"did not answer within {limit_seconds:g} s and was stopped",
                        detail=(await child.exit()).stderr_tail,
                        timed_out=True,
                    ) from error
        except (ChildStartError, FramingError) as error:
            raise WorkerAnswerError(f"could not be asked: {error}") from error
    if end.exit_code != 0 or len(messages) > MAX_ANSWERS:
        raise WorkerAnswerError(_told(end), detail=end.stderr_tail)
    for message in messages:
        if message.HasField("notice"):
            _log.warning("%s: %s", python, message.notice)
    return [message.engine for message in messages if message.HasField("engine")]


def without_needless(engines: Iterable[Engine]) -> tuple[Engine, ...]:
    """By environment and name; an engine missing in one environment and usable in another is listed there only."""
    ordered = sorted(engines, key=lambda engine: (engine.environment.name, engine.name))
    usable = {engine.name for engine in ordered if engine.HasField("available")}
    return tuple(
        engine
        for engine in ordered
        if engine.name not in usable or engine.unavailable.kind != UNAVAILABLE_KIND_NOT_INSTALLED
    )


def _check_version(listed: Sequence[Engine]) -> None:
    # Agent and worker speak one version's private format; an upgraded agent must not meet an old worker.
    # An engine that several distributions claim names them all.
    named = {name for each in listed for name in each.distribution.split(", ")}
    ours = {name for name in named if name.startswith("enginebench ")}
    if not ours:
        raise WorkerAnswerError("holds no enginebench")
    if ours != {_OWN_DISTRIBUTION}:
        raise WorkerAnswerError(
            f"holds {', '.join(sorted(ours))}, but this agent is {_OWN_DISTRIBUTION}: "
            "`enginebench-agent environment upgrade` brings it to that"
        )


def _broken_environment(environment: EnvironmentConfig, error: WorkerAnswerError) -> list[Engine]:
    subject = f"The environment {environment.name!r} ({environment.python})"
    return [_entry(environment, name, _unavailable(subject, error)) for name in _expected(environment)]


def _expected(environment: EnvironmentConfig) -> tuple[str, ...]:
    """What an environment is listed by before it has answered."""
    return tuple(environment.engines or (environment.name,))


def _may_hold(environment: EnvironmentConfig, names: Names) -> bool:
    return names == ALL or environment.engines is None or not names.isdisjoint(environment.engines)


def _covers(asked: Names, wanted: Names) -> bool:
    return asked == ALL or ALL != wanted <= asked


def _being_asked(config: AgentConfig) -> UnavailableEngine:
    return UnavailableEngine(
        kind=UNAVAILABLE_KIND_BEING_ASKED,
        reason=f"It has not answered yet and has {config.discovery_seconds:g} s for that; ask again.",
    )


def _has_answered(engine: Engine | None) -> bool:
    return engine is not None and engine.unavailable.kind != UNAVAILABLE_KIND_BEING_ASKED


def _absent(environment: EnvironmentConfig, listed: Sequence[Engine]) -> list[Engine]:
    names = {each.name for each in listed}
    reason = UnavailableEngine(
        kind=UNAVAILABLE_KIND_UNSUPPORTED,
        reason=f"No plugin of that name is installed in the environment {environment.name!r}; add it again.",
    )
    return [_entry(environment, name, reason) for name in environment.engines or () if name not in names]


def _entry(environment: EnvironmentConfig, name: str, reason: UnavailableEngine) -> Engine:
    engine = Engine(name=name, unavailable=reason)
    engine.environment.name = environment.name
    return engine


def _unavailable(subject: str, error: Exception) -> UnavailableEngine:
    timed_out = isinstance(error, WorkerAnswerError) and error.timed_out
    return UnavailableEngine(
        kind=UNAVAILABLE_KIND_TIMED_OUT if timed_out else UNAVAILABLE_KIND_BROKEN,
        reason=f"{subject} {error}.",
        detail=error.detail if isinstance(error, WorkerAnswerError) else "",
    )


def _told(end: ChildExit) -> str:
    if end.signal_name:
        return f"was ended by {end.signal_name}"
    if _USAGE in end.stderr_tail:  # it was asked for what only one version of a worker knows
        return (
            f"holds an enginebench that does not understand this agent, which is {_OWN_DISTRIBUTION}: "
            "`enginebench-agent environment upgrade` brings it to that"
        )
    return f"ended its process with exit code {end.exit_code}: {_last_line(end.stderr_tail)}"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
