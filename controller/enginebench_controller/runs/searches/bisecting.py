"""A bisect carried out: an environment for each version as it is needed, gate after gate until there is an answer."""

import asyncio
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Protocol

from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.home import Home
from enginebench_controller.models.bounded import in_thread
from enginebench_controller.models.zoo import PREFIX, zoo_model
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.bisect import BisectKind, BisectOrder, make_order, prefix
from enginebench_controller.plan.configurations import select_engines
from enginebench_controller.plan.expand import refused_option
from enginebench_controller.plan.gate import GateOrder, NeededEnvironment
from enginebench_controller.plan.plan import (
    LONGEST_BUDGET_NS,
    GateMetric,
    GateTerms,
    Plan,
    SearchStep,
    parse_duration_ns,
)
from enginebench_controller.records import LOCAL_TARGET, AvailableEngine, Search, SearchKind, UnavailableEngine
from enginebench_controller.runs.busy_store import patiently
from enginebench_controller.runs.environments import begun_environments, install, uninstall
from enginebench_controller.runs.gate import (
    GateWatcher,
    Promised,
    enough_of,
    in_session,
)
from enginebench_controller.runs.resuming import ResumeOrder
from enginebench_controller.runs.searches.holding import (
    answered,
    as_stored,
    held,
    new_search,
    remove_search,
    resumable,
)
from enginebench_controller.runs.searches.releases import companions, wheel_of
from enginebench_controller.runs.searches.steps import check_agents, take_up_step
from enginebench_controller.targets.session import TargetSession, completed, means_own_agent, open_session
from enginebench_controller.verdicts.bisect.answer import (
    Asked,
    BisectGate,
    Replay,
    answer_of,
    gates_of,
    replay,
    told_gate,
)
from enginebench_controller.verdicts.bisect.decision import Decided, GatePurpose, Question, decide
from enginebench_controller.verdicts.bisect.words import gate_sentence
from enginebench_controller.verdicts.gate.results import GateResult
from enginebench_controller.verdicts.gate.stored import first_step_promise, history_of

_OF_NUMPY = re.compile(r"numpy|_ARRAY_API|ended by SIG|without a result", re.IGNORECASE)
"""What is said of a version that another NumPy may bring to run: that it names that, or that its process crashed."""
_ADVICE = ": reinstall it in this environment"
"""What our plugins end with where their engine does not load. An environment of a bisect is removed by then."""
_LONGEST_REASON = 300


class BisectWatcher(GateWatcher, Protocol):
    """Who wants to know how a bisect is coming along."""

    def set_out(self, search: Search) -> None:
        """The search is in the store, and begins or goes on. Until its first gate begins it may yet be refused."""

    def asking(self, order: BisectOrder, question: Question, number: int) -> None:
        """The next gate is about to be made ready; `number` counts from 0."""


def check_target(home: Home, order: BisectOrder) -> None:
    """Raise `InputError` where environments are needed, and would be needed on another machine."""
    targets = order.fields.get("targets") or ()
    if order.kind is BisectKind.VERSIONS and not means_own_agent(home, targets):
        raise InputError(
            f"versions are bisected by an agent of this command, which can make environments for them, not on target "
            f"{', '.join(targets) or LOCAL_TARGET!r}: run enginebench there, or leave --target out"
        )


def bisect(home: Home, order: BisectOrder, watcher: BisectWatcher) -> Search:
    """Carry a bisect out; returns the search with its answer. For callers without a loop of their own.

    Raises `InputError` before anything is measured, `UnreachableError` when the target does not answer.
    """
    check_target(home, order)
    order = order.model_copy(update={"digests": _binder(home, order).digests})
    search = new_search(SearchKind.BISECT, order.name, order.model_dump(mode="json"))
    with held(home, search.id):
        try:
            with resumable(home, search):
                return asyncio.run(_Bisect(home, search, order, watcher).carry_out(is_new=True))
        except (EnginebenchError, OSError):
            if not home.store.steps_of(search.id):  # nothing has begun: there is nothing to go on with
                _take_back(home, search)
            raise


def go_on(home: Home, search: Search, watcher: BisectWatcher, *, trusted: bool) -> Search:
    """Go on with an interrupted bisect, whose step under way is finished first; returns it with its answer.

    One that has its answer by now is returned as it is. Raises `InputError` where it was removed meanwhile.
    """
    wish = ResumeOrder(trusted=trusted, enough_of=lambda benchmark_id: enough_of(home, benchmark_id))
    with held(home, search.id):
        search = as_stored(home, search)
        if search.answer is not None:
            return search
        order = make_order(search.order).model_copy(update={"trusted": trusted})
        watcher.set_out(search)
        with resumable(home, search):
            asyncio.run(take_up_step(home, search, wish, lambda *_: watcher))
            return asyncio.run(_Bisect(home, search, order, watcher).carry_out(is_new=False))


async def clear_away(home: Home, search: Search) -> None:
    """Remove the environments that an interrupted bisect has left. Raises `EnginebenchError` where one stays."""
    for name in begun_environments(home, prefix(search.id)):
        await uninstall(home, name)


def _take_back(home: Home, search: Search) -> None:
    """Remove a bisect that was refused, with what was made for it; where that stays it is kept, for `remove`."""
    with suppress(EnginebenchError, OSError):  # why it was refused is to be told
        asyncio.run(clear_away(home, search))
        remove_search(home, search.id)


def _binder(home: Home, order: BisectOrder) -> Binder:
    """What knows the exact version that each name of a model means now, and is to mean to the end.

    Raises `ModelError` for a name that no model has: unlike one that cannot be read, it is no candidate to pass over.
    """
    for name in order.models:
        if name.startswith(PREFIX):
            zoo_model(name)
    binder = Binder(home.library, home.inputs, Plan(models=order.models), order.digests)
    binder.resolve(order.models)
    return binder


class _Bisect:
    """One bisect under way."""

    def __init__(self, home: Home, search: Search, order: BisectOrder, watcher: BisectWatcher) -> None:
        self._home = home
        self._search = search
        self._order = order
        self._watcher = watcher
        self._known: dict[str, GateResult | None] = {}
        self._installed_s: float | None = None

    async def carry_out(self, *, is_new: bool) -> Search:
        """Ask until there is an answer, clear away what was made for it, and store it; returns the search with it.

        One that `is_new` is stored once it has the machine, and nothing that is known by then speaks against it.
        """
        trusted = tuple(self._order.digests.values()) if self._order.trusted else ()
        targets = tuple(self._order.fields.get("targets") or ())
        async with open_session(self._home, targets, trusted_models=trusted) as self._session:
            self._check_values()
            if is_new:
                await self._set_out(await self._promise())
            for number, asked in enumerate((await patiently(self._replay)).asked, 1):
                self._watcher.said(f"gate {number}: {gate_sentence(told_gate(self._order, asked))}")
            while not isinstance((done := await patiently(self._replay)).following, Decided):
                await self._ask(done.following, done)
            if (result := self._unexplained(done)) is not None:
                await self._ask(done.asked[-1].question, done, explaining=result)
                del self._known[result.benchmark.id]
                done = await patiently(self._replay)
            if begun_environments(self._home, prefix(self._search.id)):
                self._watcher.said("removing the environments that were made for it")
        await self._clear(keep=())
        answer = await patiently(partial(answer_of, self._home, self._search, self._order, done))
        return await patiently(partial(answered, self._home, self._search, answer.model_dump(mode="json")))

    def _check_values(self) -> None:
        """Raise `InputError` for values of an option that the engine does not take, not in the middle of the way."""
        order, seen = self._order, self._session.snapshots[0]
        if order.option is None:
            return
        engines, _ = select_engines([order.engine], seen.engines, seen.target)
        reasons = (refused_option(one, order.option, value) for one in engines for value in order.candidates)
        if told := dict.fromkeys(filter(None, reasons)):
            raise InputError("\n".join(told))

    async def _promise(self) -> Sequence[str]:
        """What earlier gates say of the budget. Raises `InputError` where it is too short to tell anything.

        Said before anything is installed, and of a search that goes on no more: what it has is not to be lost.
        """
        order = self._order
        binder = await in_thread(_binder, self._home, order)
        models = {name for one in binder.versions for name in (one.name, one.digest)}
        engines = {order.engine.partition("@")[0]}
        known = await patiently(partial(history_of, self._home, self._session.snapshots[0].target, engines, models))
        first = decide(len(order.candidates), order.worse_share, ())
        assert isinstance(first, Question)  # noqa: S101  # nothing is known yet
        return first_step_promise(self._terms(first), known)

    async def _set_out(self, told: Sequence[str]) -> None:
        """Keep a search that begins, with what is to be done with its answer, and say what is known of it."""
        await patiently(partial(self._home.store.add_search, self._search))
        self._watcher.set_out(self._search)
        for sentence in told:
            self._watcher.said(sentence)

    def _replay(self) -> Replay:
        self._search = self._home.store.search(self._search.id)
        return replay(self._home, self._search, self._order, self._known)

    def _unexplained(self, done: Replay) -> GateResult | None:
        """The last gate, where it has named a culprit and was interrupted before it could say why."""
        assert isinstance(done.following, Decided)  # noqa: S101  # so `carry_out` has ended its loop
        last = done.asked[-1].result
        is_asked = done.following.finding.names and self._order.metric is GateMetric.LATENCY
        return last if is_asked and last is not None and last.explanation is None else None

    async def _ask(self, question: Question, done: Replay, explaining: GateResult | None = None) -> None:
        """Carry out a gate, or note why there is none; of one that is there, only look for its layers."""
        number = len(done.asked) - (explaining is not None)
        self._watcher.asking(self._order, question, number)
        await self._clear(keep=self._needed(question, done.asked))
        for place in (question.base, question.head):
            if (reason := await self._lack_of(place, question, done)) is not None:
                await self._skip(place, reason)
                return
        names = [self._environment(place, done.broken) for place in (question.base, question.head)]
        try:
            await self._gate(question, names, number, explaining)
        except InputError as error:  # a version that reads no such model, say; not what failed while it was measured
            if question.purpose is GatePurpose.ENDS:
                await self._clear(keep=())
                raise
            await self._skip(question.head, str(error).splitlines()[0])

    def _needed(self, question: Question, asked: Sequence[Asked]) -> set[int]:
        """The candidates that are run now, and those told already that the culprit may yet be next to."""
        told = {one.question.head for one in asked if one.result is not None}
        below, above = [one for one in told if one < question.head], [one for one in told if one > question.head]
        return {0, question.base, question.head, *sorted(below)[-1:], *sorted(above)[:1]}

    async def _skip(self, place: int, reason: str) -> None:
        name = self._order.candidates[place]
        self._watcher.said(f"{self._order.title(place)} is skipped: {reason}")
        await patiently(partial(self._home.store.skip_in_search, self._search.id, name, reason))

    async def _gate(
        self, question: Question, environments: Sequence[str | None], number: int, explaining: GateResult | None
    ) -> None:
        order, terms = self._order, self._terms(question)
        gate = GateOrder(
            base=order.title(question.base),
            head=order.title(question.head),
            model=order.model,
            budget=terms.budget,
            tolerate=terms.tolerate,
            metrics=terms.metrics,
            fields=order.fields,
            explain=question.purpose is GatePurpose.NEIGHBOURS and order.metric is GateMetric.LATENCY,
            trusted=order.trusted,
        )
        base, head = map(order.side, (question.base, question.head), environments)
        step = SearchStep(id=self._search.id, step=number, title=f"{question.purpose}: {gate.base}, {gate.head}")
        promised = Promised(step, terms.promised, order.digests, explaining)
        result = await in_session(self._home, gate, (base, head), self._session, self._watcher, promised)
        await check_agents(self._home, result.benchmark.id)

    def _terms(self, question: Question) -> GateTerms:
        """What the gate is to tell, and how long it may take."""
        metric = self._order.metric
        budget_s = min(parse_duration_ns(self._order.budget) * question.patience, LONGEST_BUDGET_NS) / 1e9
        return GateTerms(
            budget=f"{budget_s:g}s",
            tolerate=f"{100 * question.tolerance:.4f}%",
            metrics=(metric,),
            promised={metric: question.difference},
        )

    def _environment(self, place: int, broken: Mapping[str, str]) -> str | None:
        """The environment in which a version is run, once it is there."""
        names = self._order.environments(self._search.id, place)
        return next((name for name in names if name not in broken and self._has(name)), None)

    async def _lack_of(self, place: int, question: Question, done: Replay) -> str | None:
        """Why a candidate cannot be run; None once all it needs is there, for which its environment is made.

        It is made once more, with what else belongs to its time, only where that may be what it lacks, or where it has
        run before and is not to be given up for a single failure.
        """
        names = self._order.environments(self._search.id, place)
        if not names or self._environment(place, done.broken) is not None:
            return None
        reason = ""
        for name, more in names.items():
            if reason and not _OF_NUMPY.search(reason) and place not in _that_ran(done):
                break
            if name in done.broken:
                reason = reason or done.broken[name]
                continue
            try:
                await self._install(place, question, name, more)
            except InputError as error:
                return reason or str(error)
            if self._has(name):
                return None
            reason = reason or self._why_not(name)
            await uninstall(self._home, name)
        return reason

    async def _install(self, place: int, question: Question, name: str, more: tuple[str, ...]) -> None:
        """Without the floors of our extras: what its own metadata ask for, and what else belongs to its time."""
        order = self._order
        package, version = order.package or order.engine, order.candidates[place]
        told = f"{order.title(place)}{f' with {more[0]}' if more else ''}"
        variables = {}
        # Not `==`, by which pip would also take what was withdrawn from the index.
        requirement = f"{package}>={version},<={version}"
        if order.wheels is not None:
            folder = Path(order.wheels)
            requirement = f"{package} @ {wheel_of(package, version, folder).resolve().as_uri()}"
            variables = {"PIP_FIND_LINKS": str(folder)}
        packages = (requirement, *companions(order.engine, package), *more)
        arguments = tuple(word for one in packages for word in ("--package", one))
        wanted = NeededEnvironment(name, arguments, told)
        pace = self._pace(question.left - 2 + (place == question.base))
        await uninstall(self._home, name)  # what a kill has left half-made
        begun_s = time.monotonic()
        await install(
            self._home,
            wanted,
            (),
            lambda sentence: self._watcher.said(sentence + pace),
            kept=False,
            variables=variables,
        )
        self._installed_s = time.monotonic() - begun_s
        await self._look_anew()

    def _pace(self, more: int) -> str:
        """How long installing takes, as far as is known: each halving installs one, and the neighbours are there."""
        follow = f"; about {more} more to come" if more > 0 else ""
        return f"{follow}; the last one took {self._installed_s:.0f} s" if self._installed_s is not None else follow

    async def _look_anew(self) -> None:
        (seen,) = self._session.snapshots
        found = await completed(self._home, self._session, seen, refresh=True)
        self._session = TargetSession(self._session.clients, (found,))

    def _has(self, name: str) -> bool:
        return any(
            isinstance(one, AvailableEngine) and one.environment == name and one.name == self._order.engine
            for one in self._session.snapshots[0].engines
        )

    def _why_not(self, name: str) -> str:
        there = [one for one in self._session.snapshots[0].engines if one.environment == name]
        found = [one for one in there if one.name == self._order.engine and isinstance(one, UnavailableEngine)]
        # NumPy's own sentence begins with a new line.
        whole = (" ".join(one.reason.split()).rstrip(".").removesuffix(_ADVICE) for one in found if one.reason)
        told = [shorten(one, _LONGEST_REASON, placeholder=" …") for one in whole]
        return told[0] if told else f"what was installed brings no engine {self._order.engine}"

    async def _clear(self, keep: Collection[int]) -> None:
        """Remove the environments that were made for this bisect, but for those of these candidates."""
        kept = {name for place in keep for name in self._order.environments(self._search.id, place)}
        gone = [one for one in begun_environments(self._home, prefix(self._search.id)) if one not in kept]
        for name in gone:
            await uninstall(self._home, name)
        if gone:
            (seen,) = self._session.snapshots
            engines = tuple(one for one in seen.engines if one.environment not in gone)
            self._session = TargetSession(self._session.clients, (replace(seen, engines=engines),))


def _that_ran(done: Replay) -> set[int]:
    """The candidates of which a gate has told something."""
    told = (one.question for one in done.asked if one.result and not (one.look.reason or one.look.base_reason))
    return {place for one in told for place in (one.base, one.head)}


def gates_so_far(home: Home, search: Search) -> tuple[BisectGate, ...]:
    """The gates of a bisect that has no answer yet."""
    order = make_order(search.order)
    return gates_of(order, replay(home, search, order, {}))


def progress_of(home: Home, search: Search) -> str:
    """How far a bisect without an answer has come, in a sentence."""
    order = make_order(search.order)
    done = replay(home, search, order, {})
    if isinstance(done.following, Decided):
        return f"{len(done.asked)} gates, and what they say is to be written down"
    question = done.following
    return f"{len(done.asked)} gates done; next is {order.title(question.head)} against {order.title(question.base)}"
