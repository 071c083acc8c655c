"""What a person names, benchmarks, measurements or profiles of one kind, by ids, starts of ids and names; compared."""

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from enginebench_controller.errors import InputError, StoreError
from enginebench_controller.home import Home
from enginebench_controller.records import Benchmark, Measurement, ModelVersion, Profile
from enginebench_controller.store.naming import shortest
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.answers import Answer, answers_across, answers_within
from enginebench_controller.verdicts.layers.advisor import advised
from enginebench_controller.verdicts.layers.profiles import ProfileComparison, compare_profiles
from enginebench_controller.verdicts.pairing import (
    Compared,
    Unmatched,
    compare_pairs,
    nearest_pair,
    pairs_across,
    pairs_within,
    planned_processes,
    unlike_work,
    with_unlike_work,
    without_like,
)
from enginebench_controller.verdicts.soundness import Soundness, left_out, soundness
from enginebench_controller.verdicts.words import first_failures

KINDS = ("benchmark", "profile", "measurement")
"""In the order in which a name that means several is taken."""

MOST_IDS = 4
"""So many are named of what else a name means."""

_ARTICLES = {"benchmark": "a benchmark", "profile": "a profile", "measurement": "a measurement"}


@dataclass(frozen=True)
class Subjects:
    """What is to be compared, in the order given: one of the three has entries. `also` is a remark, or empty."""

    benchmarks: tuple[Benchmark, ...] = ()
    profiles: tuple[Profile, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    also: str = ""

    @property
    def all(self) -> tuple[Benchmark | Profile | Measurement, ...]:
        """Whatever they are."""
        return (*self.benchmarks, *self.profiles, *self.measurements)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known before anything is compared, in sentences."""
        twice = [id_ for id_, count in Counter(one.id for one in self.all).items() if count > 1]
        return (
            *filter(None, [self.also]),
            *(f"{id_} is compared with itself: a self-test, in which nothing can differ" for id_ in twice),
            *(
                f"{one.id} is a gate, whose verdict on head is what `enginebench show {one.id}` says: here only those "
                "of it are compared that did the same work"
                for one in self.benchmarks
                if one.plan.get("gate")
            ),
        )


def find_subjects(store: Store, names: Sequence[str]) -> Subjects:
    """Find benchmarks, or profiles, or measurements by id, name or start of an id.

    A single name of profiles means all that have it, oldest first: those of one command. Raises `InputError` for
    something unknown or ambiguous, and for things of different kinds.
    """
    found = [store.ids_by_kind(name) for name in names]
    for name, kinds in zip(names, found, strict=True):
        if not kinds:
            raise _unknown(store, name)
    common = [kind for kind in KINDS if all(kind in kinds for kinds in found)]
    if not common:
        raise InputError(_mixed(names, found))
    also = _also(common[1], found) if len(common) > 1 else ""
    return _read(store, common[0], names, found, also)


def _unknown(store: Store, name: str) -> InputError:
    """The error for a name that means nothing of these kinds. `list` shows searches, too, and folds their steps."""
    if searches := store.searches_meant(name):
        steps = shortest([step.id for one in searches for step in store.steps_of(one.id)])
        return InputError(
            f"{name!r} is a search, and its steps are benchmarks; name those instead: {' '.join(steps) or 'none yet'}"
        )
    return InputError(
        f"there is no benchmark, profile or measurement {name!r}; "
        "`enginebench list` and `enginebench profiles list` show those there are"
    )


def _also(kind: str, found: Sequence[Mapping[str, Sequence[str]]]) -> str:
    ids = shortest([one for kinds in found for one in reversed(kinds[kind])])
    more = f" and {len(ids) - MOST_IDS} more" if len(ids) > MOST_IDS else ""
    return f"the names mean {kind}s, too: {' '.join(ids[:MOST_IDS])}{more}; name those by these ids"


def _mixed(names: Sequence[str], found: Sequence[Mapping[str, object]]) -> str:
    kinds = [next(kind for kind in KINDS if kind in one) for one in found]
    said = ", ".join(f"{name!r} is {_ARTICLES[kind]}" for name, kind in zip(names, kinds, strict=True))
    return f"only things of one kind go together: {said}"


def _read(
    store: Store, kind: str, names: Sequence[str], found: Sequence[Mapping[str, Sequence[str]]], also: str
) -> Subjects:
    if kind == "benchmark":
        return Subjects(benchmarks=tuple(store.benchmark(name) for name in names), also=also)
    if kind == "measurement":
        return Subjects(measurements=tuple(store.measurement(name) for name in names), also=also)
    if len(names) == 1 and len(found[0][kind]) > 1:
        return Subjects(profiles=tuple(store.profile(one) for one in reversed(found[0][kind])), also=also)
    profiles = (_profile(store, name, kinds[kind]) for name, kinds in zip(names, found, strict=True))
    return Subjects(profiles=tuple(profiles), also=also)


def _profile(store: Store, name: str, ids: Sequence[str]) -> Profile:
    """The profile of a name; one that failed has nothing to compare, and is in nobody's way."""
    numbered = [one for one in store.whole_profiles(ids) if one.status.has_numbers] if len(ids) > 1 else []
    return numbered[0] if len(numbered) == 1 else store.profile(name)


@dataclass(frozen=True)
class BenchmarkComparison:
    """What was compared, its answers, and whether all that was given could be: what failed, or has no like in another
    benchmark, is named, not left out in silence.
    """

    answers: tuple[Answer, ...]
    compared: tuple[Compared, ...]
    given: tuple[Measurement, ...]
    soundness: Soundness
    unmatched: tuple[Unmatched, ...] = ()


def compare_benchmarks(home: Home, benchmarks: Sequence[Benchmark], practical: float) -> BenchmarkComparison:
    """One benchmark within itself, or each of several with the first. Raises `InputError` where nothing compares."""
    models = home.store.models()
    sides = [home.store.measurements(benchmark.id, with_blocks=True) for benchmark in benchmarks]
    names = _names(benchmarks)
    across = [list(pairs_across(sides[0], other, models)) for other in sides[1:]]
    pairs = list(pairs_within(sides[0], models)) if len(sides) == 1 else list(itertools.chain.from_iterable(across))
    unmatched = tuple(
        Unmatched(one, other.id, names[other.id])
        for other, found in zip(benchmarks[1:], across, strict=True)
        for one in without_like(sides[0], found)
    )
    given = tuple(itertools.chain.from_iterable(sides))
    if not pairs:
        ids = " and ".join(benchmark.id for benchmark in benchmarks)
        why = f"no two measurements with numbers had the same work{_nearest_words(sides, models)}"
        raise InputError("\n".join([f"there is nothing to compare in {ids}: {why}", *first_failures(given)]))
    planned = planned_processes(benchmarks)
    snapshots = {one.id: home.store.benchmark_snapshots(one.id) for one in benchmarks}
    compared = compare_pairs(pairs, home.store.block_samples, models, practical, planned, snapshots)
    blocks = home.store.block_latencies([one.id for one in given if one.latency is not None])
    if len(benchmarks) == 1:
        (one,) = benchmarks
        answers = answers_within(given, blocks, models, one.plan, practical, imported=one.imported)
    else:
        answers = answers_across(compared, names, blocks, models, practical, planned, snapshots)
    judged = replace(soundness(given, models), left_out=left_out(benchmarks))
    return BenchmarkComparison(answers, compared, given, judged, unmatched)


def compare_measurements(home: Home, measurements: Sequence[Measurement], practical: float) -> BenchmarkComparison:
    """Each of several measurements with the first that has numbers, whatever their work.

    Raises `InputError` where fewer than two have numbers.
    """
    if len(measurements) < 2:
        raise InputError(
            "a comparison needs two measurements or more; name another one, as `enginebench show ID --json` has them"
        )
    numbered = [one for one in measurements if one.latency is not None]
    if len(numbered) < 2:
        why = "a comparison needs two measurements with numbers"
        raise InputError("\n".join([why, *first_failures(measurements)]))
    pairs = [(numbered[0], other) for other in numbered[1:]]
    models = home.store.models()
    named = {one.benchmark_id for one in numbered}
    planned = planned_processes(map(home.store.benchmark, named))
    snapshots = {id_: home.store.benchmark_snapshots(id_) for id_ in named}
    compared = compare_pairs(pairs, home.store.block_samples, models, practical, planned, snapshots)
    blocks = home.store.block_latencies([one.id for one in numbered])
    answers = answers_across(compared, {}, blocks, models, practical, planned, snapshots)
    told = tuple(map(with_unlike_work, compared))
    return BenchmarkComparison(answers, told, tuple(measurements), soundness(measurements, models))


def compare_whole_profiles(
    home: Home, profiles: Sequence[Profile], practical: float
) -> tuple[ProfileComparison, Soundness]:
    """Each of several profiles with the first; those without layers are remarks, and judged with the others.

    Raises `InputError` where fewer than two have layers.
    """
    layered, missing = [one for one in profiles if one.layers], first_failures(profiles)
    if missing and len(layered) < 2:
        raise InputError("\n".join(["a comparison needs two profiles with layers", *missing]))
    held, peaks = held_models(home), home.store.peaks()
    known = [*home.store.models(), *(held or ())]
    found = advised(compare_profiles(layered, peaks, practical), peaks, known, held)
    return replace(found, remarks=(*map(str.strip, missing), *found.remarks)), soundness(profiles)


def held_models(home: Home) -> list[ModelVersion] | None:
    """What the library holds, by which advice goes; None where a record cannot be read: layers are told without."""
    try:
        return home.library.versions()
    except StoreError:
        return None


def _nearest_words(sides: Sequence[Sequence[Measurement]], models: Collection[ModelVersion]) -> str:
    """In what those differ that are most alike of the first two benchmarks, and how they are compared all the same."""
    if len(sides) < 2 or (nearest := nearest_pair(sides[0], sides[1], models)) is None:
        return ""
    first, second = nearest
    differ = "; ".join(unlike_work(first, second))
    command = f"`enginebench compare {first.id} {second.id}` compares them all the same"
    return f"; the nearest are of one engine and model ({differ}): {command}" if differ else ""


def _names(benchmarks: Sequence[Benchmark]) -> dict[str, str]:
    """What each is called: by its name, unless others have that too."""
    names = [one.name for one in benchmarks]
    return {one.id: one.name if names.count(one.name) == 1 else one.id for one in benchmarks}
