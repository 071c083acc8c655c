"""What a person names, compared: benchmarks, measurements or profiles of one kind, by ids, starts of ids and names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.errors import InputError
from enginebench_controller.records import Benchmark, Measurement, Profile
from enginebench_controller.store.store import Store

KINDS = ("benchmark", "profile", "measurement")
"""In the order in which a name that means several is taken."""

_ARTICLES = {"benchmark": "a benchmark", "profile": "a profile", "measurement": "a measurement"}


@dataclass(frozen=True)
class Subjects:
    """What is to be compared, in the order given: one of the three has entries. `also` is a remark, or empty."""

    benchmarks: tuple[Benchmark, ...] = ()
    profiles: tuple[Profile, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    also: str = ""


def find_subjects(store: Store, names: Sequence[str]) -> Subjects:
    """Find benchmarks, or profiles, or measurements by id, name or start of an id.

    A single name of profiles means all that have it, oldest first: those of one command. Raises `InputError` for
    something unknown or ambiguous, and for things of different kinds.
    """
    found = [store.ids_by_kind(name) for name in names]
    for name, kinds in zip(names, found, strict=True):
        if not kinds:
            raise InputError(
                f"there is no benchmark, profile or measurement {name!r}; "
                "`enginebench list` and `enginebench profiles list` show those there are"
            )
    common = [kind for kind in KINDS if all(kind in kinds for kinds in found)]
    if not common:
        raise InputError(_mixed(names, found))
    also = f"the names mean {common[1]}s, too; compare those by their ids" if len(common) > 1 else ""
    return _read(store, common[0], names, found, also)


def _mixed(names: Sequence[str], found: Sequence[Mapping[str, object]]) -> str:
    kinds = [next(kind for kind in KINDS if kind in one) for one in found]
    said = ", ".join(f"{name!r} is {_ARTICLES[kind]}" for name, kind in zip(names, kinds, strict=True))
    return f"only things of one kind can be compared: {said}"


def _read(
    store: Store, kind: str, names: Sequence[str], found: Sequence[Mapping[str, Sequence[str]]], also: str
) -> Subjects:
    if kind == "benchmark":
        return Subjects(benchmarks=tuple(store.benchmark(name) for name in names), also=also)
    if kind == "measurement":
        return Subjects(measurements=tuple(store.measurement(name) for name in names), also=also)
    if len(names) == 1 and len(found[0][kind]) > 1:
        return Subjects(profiles=tuple(store.profile(one) for one in reversed(found[0][kind])), also=also)
    return Subjects(profiles=tuple(store.profile(name) for name in names), also=also)
