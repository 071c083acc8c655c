"""`plugin check` carried out: a home that lasts as long as the check, the plugin in it, and the promises that it broke.

What a promise is stands in the spec, which the controller does not import: the contract tests say which sentence they
hold an engine to, and those that show on the wire only are repeated here, word by word.
"""

import asyncio
import contextlib
import difflib
import os
import re
import shutil
import signal
import tomllib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from enginebench_controller.errors import InputError, ModelError
from enginebench_controller.home import Home
from enginebench_controller.models.bounded import in_thread
from enginebench_controller.models.zoo import PREFIX
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.configurations import usable_cores
from enginebench_controller.plan.gate import NeededEnvironment
from enginebench_controller.plan.plan import Plan, make_plan
from enginebench_controller.records import (
    LOCAL_TARGET,
    AvailableEngine,
    EngineRef,
    Failure,
    FailureKind,
    Measurement,
    ModelVersion,
    Profile,
    UnavailableEngine,
    UnavailableKind,
)
from enginebench_controller.records.target import ListedEngine
from enginebench_controller.runs.benchmarking import BenchmarkOrder, run_in_session
from enginebench_controller.runs.environments import added_environments, install
from enginebench_controller.runs.plugin.contract import tested_contract, unfinished
from enginebench_controller.runs.profiling import ProfileOrder, profiles_in_session
from enginebench_controller.runs.remote_run import Unreported
from enginebench_controller.targets.local_agent import only_command
from enginebench_controller.targets.session import TargetSession, means_own_agent, open_session
from enginebench_controller.typed_paths import typed_path
from enginebench_controller.verdicts.doubts import beyond_the_ceiling, computed_ahead, slower_when_fresh, too_many_cores
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_proto.agreed.durable import make_private_folder
from enginebench_proto.agreed.typed import typed_text

ENVIRONMENT = "check"
FOLDER = "plugin-check"
REFERENCE = "onnxruntime"
MODELS = ("zoo:bert-tiny", "zoo:squeezenet")
"""Unless others are named. The engine is judged by the first that comes to numbers: not each has every operator."""

QUICKER_WITH_COUNTERS = 0.5
"""Counters cost time: a profiled inference of less than this share of an unprofiled one is another inference."""

PASSES = 3
"""In so many profiles, one after the other: what else the machine does may have held up the unprofiled ones of one."""

MISTYPED = 0.9
"""So alike a folder has to be for a name to be a slip; distributions of one family have long beginnings in common."""

HELPING_THREADS = 1
"""A thread that hands inferences over works too, the more so the smaller the model is."""

PROMISES = {
    "hook": "A plugin is a module with one hook, named by an entry point of group `enginebench`",
    "name": "1 to 64 letters, digits, '.', '-' or '_', and one distribution of an environment brings it",
    "alive": "a raise, a crash or a hang there makes this one engine unavailable",
    "usable": "Raises `EngineUnavailableError` with the reason where the engine cannot be used.",
    "outputs": "The outputs are what the model computes of these very inputs",
    "anew": "anew each time: nothing is kept from one inference for another",
    "infer": "Run once and return when every output lies whole in host memory.",
    "cores": "an engine keeps to them",
    "layers": "Every layer has `iterations` times, or a state that says why not; the profile has as many latencies",
    "latency": "`latency_ns` is the wall clock of each of these very inferences, counters included",
}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_OF_THE_MODEL = {FailureKind.COMPILE_FAILED, FailureKind.REFUSED}
"""Failures that may be an honest refusal of this very model."""


class CheckPart(StrEnum):
    """What a check consists of, in its order."""

    DISCOVERY = "discovery"
    CONTRACT = "contract"
    MODEL = "model"
    PROFILE = "profile"


@dataclass(frozen=True)
class BrokenPromise:
    """What was found of an engine ("" of the whole distribution), and the sentence of the spec that it breaks.

    `statement` is that of the contract which does not hold; empty in the other parts.
    """

    engine: str
    part: CheckPart
    found: str
    promise: str
    statement: str = ""


@dataclass(frozen=True)
class LookedAt:
    """What an engine was held against: so many statements of the contract, and how many were left out for which reason.

    `model` is the one that came to numbers, "" where none did.
    """

    engine: str
    statements: int
    left_out: Mapping[str, int]
    model: str
    has_profile: bool


@dataclass(frozen=True)
class PluginCheck:
    """What a check came to. `engines` are those that the plugin brings; `notes` say what could not be looked at."""

    project: str
    engines: tuple[str, ...]
    broken: tuple[BrokenPromise, ...]
    notes: tuple[str, ...]
    looked_at: tuple[LookedAt, ...] = ()


Tell = Callable[[str], None]


def check_plugin(
    home: Home, project: str, target: str | None, tell: Tell, models: Sequence[str] = MODELS
) -> PluginCheck:
    """Check a plugin project (a folder) or package in an environment that is gone afterwards, whatever happens.

    With a `target`, where it is installed already, `project` is the name of an engine that it lists. The first
    of the `models` that the engine takes is run. `tell` is told what is being done. Raises `InputError` for what cannot
    be installed, or is not listed.
    """
    models = [_found_again(home, model) for model in models]
    is_local = target is None or (target == LOCAL_TARGET and typed_path(project).exists())
    if is_local and not means_own_agent(home):
        raise InputError(
            f"the target {LOCAL_TARGET} has an agent of its own, and a plugin is installed by one of this command: "
            "name an engine that it lists as NAME@default, with --target and its address"
        )
    work = _installed(home, project, _requirement(project), tell, models) if is_local else None
    try:
        return asyncio.run(work or _listed(home, project, str(target), tell, models))
    except asyncio.CancelledError:  # of SIGTERM
        raise KeyboardInterrupt from None


def _found_again(home: Home, model: str) -> str:
    """A model by a name that the passing home understands, which has a library of its own."""
    if model.startswith(PREFIX) or Path(model).is_file():
        return model
    return str(home.library.main_path(home.library.resolve(model)))


def distribution_of(name: str) -> str:
    """What the distribution, and the folder, of an engine of this name is called."""
    return f"enginebench-{re.sub(r'[-_.]+', '-', name).lower()}"


def _requirement(project: str) -> str:
    folder = typed_path(project)
    if folder.exists():
        if folder.is_dir() and not any((folder / name).is_file() for name in ("pyproject.toml", "setup.py")):
            raise InputError(f"{project} is no plugin project, as it has no pyproject.toml")
        _check_readable(folder / "pyproject.toml")
        return str(folder.absolute())
    folders = [one.name for one in Path().iterdir() if one.is_dir()]
    own = distribution_of(project)  # of who names the engine, as `plugin new` was told it
    near = [own] if own in folders else difflib.get_close_matches(project, folders, n=1, cutoff=MISTYPED)
    if os.sep in project or near:
        meant = f"did you mean {near[0]}?" if near else "name a plugin project, or a package that pip can install"
        raise InputError(f"there is no folder {project}: {meant}")
    return project


def _check_readable(file: Path) -> None:
    """Raise `InputError` for what pip would refuse too, after a minute of installing what a check needs."""
    if file.is_file():
        try:
            tomllib.loads(typed_text(file))
        except ValueError as error:
            raise InputError(f"{file} cannot be read: {error}") from None
        if file.read_bytes().startswith(BOM_UTF8):
            raise InputError(f"{file} begins with a mark, which pip does not read: save it as UTF-8 without BOM")


async def _installed(home: Home, project: str, requirement: str, tell: Tell, models: Sequence[str]) -> PluginCheck:
    async with _passing_home(home) as passing:
        wanted = NeededEnvironment(ENVIRONMENT, ("--testing", "--package", requirement), project)
        await install(passing, wanted, (), tell, kept=False)
        return await examine(passing, project, tell, models)


async def _listed(home: Home, name: str, target: str, tell: Tell, models: Sequence[str]) -> PluginCheck:
    """Check an engine that a target lists, NAME or NAME@ENVIRONMENT."""
    async with contextlib.AsyncExitStack() as stack:
        passing = await stack.enter_async_context(_passing_home(home))
        if means_own_agent(home, [target]):
            make_private_folder(home.agent_data)
            passing.agent_data.symlink_to(home.agent_data)  # its engines; the home is this command's already
            session = await stack.enter_async_context(open_session(passing, ()))
        else:
            session = await stack.enter_async_context(open_session(home, [target]))
        engines = session.snapshots[0].engines
        found = [one for one in engines if name in (one.name, _label(one))]
        if not found:
            listed = ", ".join(sorted(map(_label, engines))) or "none"
            raise InputError(
                f"{target} lists no engine {name}; it lists {listed}. A plugin is installed there by "
                "`enginebench-agent environment add NAME --package PROJECT`"
            )
        await asyncio.to_thread(passing.store.save_snapshot, session.snapshots[0])  # it tells the formats of plugins
        check = _Check(passing, session, None, tell, models)
        for engine in found:
            await check.carry_out(engine)
    return check.result(name, tuple(map(_label, found)))


@contextlib.asynccontextmanager
async def _passing_home(home: Home) -> AsyncIterator[Home]:
    """A home for one check, removed afterwards; what a killed check left is removed first.

    SIGTERM ends the check from here on, and it is removed then, too.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  # a coroutine of `asyncio.run`
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with only_command(home.path):
        place = home.path / FOLDER
        _remove(place)
        make_private_folder(place)
        try:
            yield Home(place)
        finally:
            _remove(place)


def _remove(place: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(place)


async def examine(home: Home, project: str, tell: Tell, models: Sequence[str] = MODELS) -> PluginCheck:
    """Check all that the plugin in the environment `check` of this home's agent brings."""
    python = (await added_environments(home))[ENVIRONMENT]
    async with open_session(home, ()) as session:
        found = [one for one in session.snapshots[0].engines if one.environment == ENVIRONMENT]
        theirs = [one for one in found if _is_brought_by_others(one)]
        check = _Check(home, session, python, tell, models)
        if not theirs:
            own = f"; {project} as it is installed here: --target {LOCAL_TARGET}" if _lists(found, project) else ""
            check.breaks("", CheckPart.DISCOVERY, f"the distribution brings no engine{own}", "hook")
        for engine in theirs:
            await check.carry_out(engine)
    return check.result(project, tuple(one.name for one in theirs))


def _lists(engines: Sequence[ListedEngine], project: str) -> bool:
    return any(one.name == project for one in engines)


def _is_brought_by_others(engine: ListedEngine) -> bool:
    return any(named.split(" ")[0] != "enginebench" for named in engine.distribution.split(", "))


class _Check:
    """A check under way, of one engine after the other; `python` is that of their environment on this machine."""

    def __init__(
        self, home: Home, session: TargetSession, python: Path | None, tell: Tell, models: Sequence[str]
    ) -> None:
        self.broken: list[BrokenPromise] = []
        self.notes: list[str] = []
        self._looked_at: list[LookedAt] = []
        self._home, self._session, self._python, self._tell, self._models = home, session, python, tell, models

    def result(self, project: str, engines: tuple[str, ...]) -> PluginCheck:
        """All that was found; what holds on one core and on two is told once."""
        broken = tuple(dict.fromkeys(self.broken))
        return PluginCheck(project, engines, broken, tuple(self.notes), tuple(self._looked_at))

    def breaks(self, engine: str, part: CheckPart, found: str, promise: str) -> None:
        """Note a broken promise by its name."""
        self.broken.append(BrokenPromise(engine, part, found, PROMISES[promise]))

    async def carry_out(self, engine: ListedEngine) -> None:
        """All parts of the check of one engine; one that cannot be used is asked for no more."""
        if not isinstance(engine, AvailableEngine):
            self._unavailable(engine)
            return
        statements: int = 0
        left_out: Mapping[str, int] = {}
        if self._python is None:
            self.notes.append(
                f"{engine.name}: its contract is tested where it is installed: `enginebench plugin check PROJECT` there"
            )
        else:
            self._tell(f"{engine.name}: the contract")
            statements, left_out = await self._contract(engine, self._python)
        self._tell(f"{engine.name}: a model beside {REFERENCE}")
        plan = await self._model(engine)
        model = plan.models[0] if plan is not None else ""
        has_profile = False
        if plan is not None and engine.profiling:
            self._tell(f"{engine.name}: a profile")
            has_profile = await self._profile(engine, plan)
        self._looked_at.append(LookedAt(engine.name, statements, left_out, model, has_profile))

    def _unavailable(self, engine: ListedEngine) -> None:
        assert isinstance(engine, UnavailableEngine)  # noqa: S101  # the other kind of what is listed
        is_name_to_blame = ", " in engine.distribution or not _NAME.fullmatch(engine.name)
        says_why_itself = engine.kind in (UnavailableKind.NOT_INSTALLED, UnavailableKind.UNSUPPORTED)
        promise = "name" if is_name_to_blame else "usable" if says_why_itself else "alive"
        self.breaks(engine.name, CheckPart.DISCOVERY, engine.reason, promise)

    async def _contract(self, engine: AvailableEngine, python: Path) -> tuple[int, Mapping[str, int]]:
        """Test the statements; returns how many, and why how many others were left out."""
        ended, said, lines = await tested_contract(python, engine.name, self._home.path)
        self.notes += [f"{engine.name}: no contract tests, as {one['note']}" for one in lines if "note" in one]
        for one in lines:
            if one.get("outcome") == "failed":
                broken = BrokenPromise(engine.name, CheckPart.CONTRACT, one["why"], one["promise"], one["statement"])
                self.broken.append(broken)
        if sentence := unfinished(ended, said, lines):
            self.breaks(engine.name, CheckPart.CONTRACT, sentence, "alive")
        left_out = Counter(one["why"] for one in lines if one.get("outcome") == "skipped")
        return sum(one.get("outcome") in ("passed", "failed") for one in lines), dict(left_out)

    async def _model(self, engine: AvailableEngine) -> Plan | None:
        """Measure the first model that it takes; returns its plan."""
        refused = []
        for model in self._models:
            try:
                beside = await self._references(model, engine)
                plan = _plan(model, (_label(engine), *beside), self._cores(engine), min(engine.batches, default=1))
                measurements = await self._measured(plan)
            except (InputError, ModelError) as error:
                refused.append(f"{model}: {error}")
                continue
            of_it = [one for one in measurements if _label(one.engine) == _label(engine)]
            mine = next((one for one in of_it if one.failure is not None), of_it[0])
            if mine.failure is None:
                if not beside:
                    self.notes.append(
                        f"{engine.name}: its outputs were compared with nobody's, as no {REFERENCE} is there that "
                        f"reads {mine.model_name}"
                    )
                for one in of_it:
                    self._judge(one, measurements)
                return plan
            if self._failed(engine, CheckPart.MODEL, f"{model}: ", mine.failure, "infer"):
                return None
            refused.append(f"{model}: {mine.failure.message}")
        self.notes.append(f"{engine.name}: no model was run. {'; '.join(refused)}")
        return None

    def _cores(self, engine: AvailableEngine) -> list[int]:
        """On one core all threads take turns, and only on several it shows how many there are."""
        has_several = (usable_cores(self._session.snapshots[0]) or 1) > 1 and not engine.single_threaded
        return [1, 2] if has_several else [1]

    async def _references(self, model: str, engine: AvailableEngine) -> list[str]:
        """With whose outputs those of a model are to be compared: of nobody, or of ONNX Runtime."""
        form = (await in_thread(self._home.library.resolve, model)).format
        others = [one for one in self._session.snapshots[0].available if one.name == REFERENCE and one != engine]
        return [_label(one) for one in others if form in one.formats][:1]

    async def _measured(self, plan: Plan) -> Sequence[Measurement]:
        binder = Binder(self._home.library, self._home.inputs, plan)
        await in_thread(binder.resolve, list(plan.models))
        order = BenchmarkOrder(plan)
        benchmark = await run_in_session(self._home, order, self._session, binder, lambda *_: Unreported())
        return await asyncio.to_thread(self._home.store.measurements, benchmark.id)

    def _judge(self, mine: Measurement, measurements: Sequence[Measurement]) -> None:
        models = self._home.store.models()
        for promise, found in _findings(mine, measurements, models):
            self.breaks(mine.engine.name, CheckPart.MODEL, f"{mine.model_name}: {found}", promise)

    def _failed(self, engine: AvailableEngine, part: CheckPart, what: str, failure: Failure, promise: str) -> bool:
        """Note a failure as a broken promise, where it is none that an engine may have."""
        if failure.kind in _OF_THE_MODEL or failure.kind.tells_nothing or failure.kind is FailureKind.INTERNAL:
            return False
        self.breaks(engine.name, part, f"{what}{failure.message}", promise)
        return True

    async def _profile(self, engine: AvailableEngine, measured: Plan) -> bool:
        """Look at layers; returns whether there were any."""
        plan = measured.model_copy(update={"engines": (_label(engine),), "cores": (1,)})
        binder = Binder(self._home.library, self._home.inputs, plan)
        await in_thread(binder.resolve, list(plan.models))
        sentence = None
        for _ in range(PASSES):
            order = ProfileOrder(plan)
            (found,) = await profiles_in_session(self._home, order, self._session, binder, lambda *_: Unreported())
            if found.failure is not None:
                if not self._failed(engine, CheckPart.PROFILE, "", found.failure, "layers"):
                    self.notes.append(f"{engine.name}: no profile, as {found.failure.message}")
                return False
            if not (sentence := _too_quick(found)):
                return True
        if sentence:
            self.breaks(engine.name, CheckPart.PROFILE, sentence, "latency")
        return True


def _label(engine: ListedEngine | EngineRef) -> str:
    return f"{engine.name}@{engine.environment}"


def _plan(model: str, engines: Sequence[str], cores: Sequence[int], batch: int) -> Plan:
    """One process, and no more time than it takes to see what an engine does."""
    fields: Mapping[str, Any] = {
        "models": [model],
        "engines": list(engines),
        "batch": [batch],
        "cores": list(cores),
        "precision": ["default"],
        "processes": 1,
        "duration": "1s",
        "max_duration": "20s",
        "iterations": 5,
        "interval": "0%",
        "warmup": "200ms",
        "wait_quiet": "0s",
        "retry_noisy": False,
        "interleave": False,
        "timeout": "5m",
    }
    return make_plan(fields, "the plan of a check")


def _findings(
    mine: Measurement, measurements: Sequence[Measurement], models: Sequence[ModelVersion]
) -> Iterator[tuple[str, str]]:
    """By the name of the promise, what speaks against a measurement."""
    check = check_outputs(measurements, models).get(mine.id)
    if check is not None and check.problem:
        yield "outputs", check.problem
    for sentence in (beyond_the_ceiling(mine), slower_when_fresh(mine), computed_ahead(mine)):
        if sentence:
            yield "anew", sentence
    if sentence := too_many_cores(mine):
        yield "cores", sentence
    threads, cores = mine.effective.threads, mine.configuration.cores
    if threads is not None and int(threads.value) > cores + HELPING_THREADS:
        yield "cores", f"{threads.value} threads work on {'1 core' if cores == 1 else f'{cores} cores'}"


def _too_quick(profile: Profile) -> str | None:
    """A sentence for profiled inferences that cannot have been those whose layers were timed."""
    profiled, unprofiled = profile.profiled_latency_ns, profile.unprofiled_latency_ns
    if profiled is None or unprofiled is None or profiled >= QUICKER_WITH_COUNTERS * unprofiled:
        return None
    return f"profiled inferences are told to take {profiled / 1e6:.3g} ms, and others took {unprofiled / 1e6:.3g} ms"
