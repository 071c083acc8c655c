"""Which two projects are compared, what lists and addresses call them, and which profile a side's layers come from.

A project, as a contender, is a model version on an engine of a target, on one device. Its name in addresses is its
project key, and the device beside it where that is not the only one.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2

from enginebench_controller.records import LOCAL_TARGET, Measurement, ProfileEntry
from enginebench_controller.records.configuration import cores_in_words, place_of
from enginebench_controller.records.target import in_environment
from enginebench_controller.store.models import Contender, Experiment
from enginebench_controller.verdicts.layers.disagreement import UNEVEN
from enginebench_controller.verdicts.layers.trust import uneven_words
from enginebench_ui.shared.project_key import DIGEST_CHARACTERS, project_device_key, project_key
from enginebench_ui.shared.text import choice_labels, count_of, instant, number

NOTABLE = 0.05
"""By so much two ratios are at least on different sides of 1 before that is worth a word."""

FAR_APART = 1.5
"""A ratio that is more than so many times another one does not explain it, even where both are on one side of 1."""


@dataclass(frozen=True)
class ChosenProjects:
    """The contenders A and B, None where the store has none; `unknown` are names that mean nothing here."""

    first: Contender | None
    second: Contender | None
    unknown: tuple[str, ...] = ()


def contender_key(contender: Contender) -> str:
    """Name a contender in an address: its project key, and its device: `0bebac693939~torch@default~local~CPU`."""
    return project_device_key(
        contender.model_digest, contender.engine, contender.environment, contender.target, contender.device
    )


def find(contenders: Iterable[Contender], key: str) -> Contender | None:
    """Return the contender with this key; of a key without device, the fastest of the project's devices."""
    exact = [one for one in contenders if contender_key(one) == key]
    return best(exact or [one for one in contenders if _project(one) == key])


def choose(
    contenders: Sequence[Contender], families: Mapping[str, str], first: str = "", second: str = ""
) -> ChosenProjects:
    """Choose A and B by their keys; what is not named, or not there, is chosen by throughput.

    B is the fastest: of A's family of models where A is named, else of all. A is then the model that B is a version of,
    where B was measured, else the fastest rival that B has in its family, else anywhere; alone in a store a project
    stands against itself.
    """
    one, other = (find(contenders, key) if key else None for key in (first, second))
    if other is None:
        rivals = contenders if one is None else [*_family(contenders, families, one)]
        other = best([rival for rival in rivals if rival != one]) or one
    if one is None and other is not None:
        rest = [rival for rival in contenders if rival != other]
        one = best(_originals(rest, families, other)) or best(_family(rest, families, other)) or best(rest) or other
    unknown = tuple(key for key in (first, second) if key and find(contenders, key) is None)
    return ChosenProjects(one, other, unknown)


def best(contenders: Iterable[Contender]) -> Contender | None:
    """Return the contender of most throughput, those without numbers last, the smallest key where equal."""
    ranked = sorted(contenders, key=lambda one: (-(one.best_items_per_s or 0.0), contender_key(one)))
    return ranked[0] if ranked else None


def labels(contenders: Sequence[Contender]) -> dict[str, str]:
    """Return what each contender, by its key, is called in a list; no two alike."""
    return choice_labels({contender_key(one): _label(one) for one in contenders})


def facts(contender: Contender) -> str:
    """Say in a line which model file this is, and how much is known of it."""
    known = [count_of(contender.experiments, "measurement"), count_of(contender.profiles, "profile")]
    return f"model {contender.model_digest[:DIGEST_CHARACTERS]} · {', '.join(known)}"


def _project(contender: Contender) -> str:
    return project_key(contender.model_digest, contender.engine, contender.environment, contender.target)


def _label(contender: Contender) -> str:
    best = contender.best_items_per_s
    none = "no numbers that count" if contender.with_numbers else "no numbers yet"
    speed = none if best is None else f"best {number(best)} items/s"  # its point may be a newer one
    engine = in_environment(contender.engine, contender.environment)
    return " · ".join((contender.model_name, engine, contender.target, contender.device, speed))


def _family(contenders: Iterable[Contender], families: Mapping[str, str], one: Contender) -> Iterable[Contender]:
    """Those of versions of one model; a version that the library has lost is a family of its own."""
    own = families.get(one.model_digest, one.model_digest)
    return (other for other in contenders if families.get(other.model_digest, other.model_digest) == own)


def _originals(contenders: Iterable[Contender], families: Mapping[str, str], one: Contender) -> Iterable[Contender]:
    """The model that its family comes from, on the same engine, environment, target and device."""
    of_origin = replace(one, model_digest=families.get(one.model_digest, one.model_digest))
    return (other for other in contenders if contender_key(other) == contender_key(of_origin))


ID_CHARACTERS = 12


@dataclass(frozen=True)
class Wanted:
    """What a side's profile is to be of: a contender, and the point it stands for where there is one."""

    letter: str
    contender: Contender
    point: Experiment | None

    @property
    def precision(self) -> str:
        """The precision that was asked for, f32 unless the point says otherwise."""
        return self.point.precision if self.point else "f32"


@dataclass(frozen=True)
class LayerSource:
    """The profile taken for a side, None where there is none; `candidates` are all of this project, nearest first.

    `lost` is the id that an address names although no candidate has it; "" where there is none such.
    """

    wanted: Wanted
    taken: ProfileEntry | None
    candidates: tuple[ProfileEntry, ...]
    lost: str = ""


def source(wanted: Wanted, entries: Iterable[ProfileEntry], named: str = "") -> LayerSource:
    """Take the profile whose id starts with `named`, else the nearest in batch, cores and precision, else the newest.

    Only those of the same model, engine, environment, target and device that have layers are candidates. Passes with
    zeros imposed on the weights come last: they tell of another model.
    """
    own = sorted((one for one in entries if _belongs(one, wanted.contender)), key=lambda one: _distance(one, wanted))
    meant = next((one for one in own if named and one.id.startswith(named)), None)
    return LayerSource(wanted, meant or next(iter(own), None), tuple(own), lost="" if meant else named)


def lost_sentence(found: LayerSource) -> str | None:
    """Say that the profile which an address names is not there, as of a link to what was removed; None where it is."""
    if not found.lost:
        return None
    instead = "another one is shown" if found.taken else "none is shown"
    return f"There is no profile {found.lost} of project {found.wanted.letter} in this store; {instead}."


def source_sentence(found: LayerSource) -> str:
    """Say whose layers are shown, and in what that profile is not like the point."""
    letter, one = found.wanted.letter, found.taken
    if one is None:
        return f"{letter} has no profile: the layers of this project were not timed on {found.wanted.contender.device}."
    said = (
        f"{letter}'s layers are those of profile “{one.name}” of {instant(one.created_at_unix_ns)}: {entry_text(one)}"
    )
    unlike = _unlike(one, found.wanted.point)
    return f"{said}. The point has {unlike}." if unlike else f"{said}."


def layers_doubt(
    found: Sequence[LayerSource],
    ratio: float | None,
    total_ns: tuple[int, int],
    unevenness: Sequence[float | None] = (None, None),
) -> str | None:
    """Say why layers may not explain the verdict: another configuration, a disturbed pass, times that contradict it.

    `ratio` is the verdict's, or that of the medians; `total_ns` what the layers of A and B add up to; `unevenness` how
    far apart the inferences of their passes lie, as `stats.layers` tells. None where there is nothing to say.
    """
    uneven = [
        f"in {one.wanted.letter}'s profile {uneven_words(share)}"
        for one, share in zip(found, unevenness, strict=True)
        if share is not None and share > UNEVEN
    ]
    unlike = [
        f"{one.wanted.letter}'s point has {said}, its layers are of {entry_text(one.taken)}"
        for one in found
        if one.taken is not None and (said := _unlike(one.taken, one.wanted.point))
    ]
    reasons = unlike + uneven
    of_layers = total_ns[1] / total_ns[0] if all(total_ns) else None
    if ratio is not None and of_layers is not None and _contradict(ratio, of_layers):
        said = f"as measured B takes {ratio:.3g} × as long as A, by these layers {of_layers:.3g} ×"
        return f"These layers do not explain the verdict: {'; '.join([said, *reasons])}."
    return f"These layers may not explain the verdict: {'; '.join(reasons)}." if reasons else None


def median_ratio(first: Measurement, second: Measurement) -> float | None:
    """How many times as long the second's median is; None where one has none, or another batch."""
    if first.latency is None or second.latency is None or first.configuration.batch != second.configuration.batch:
        return None
    return second.latency.median_ns / first.latency.median_ns


def _contradict(ratio: float, other: float) -> bool:
    is_opposite = (ratio - 1) * (other - 1) < 0 and min(abs(ratio - 1), abs(other - 1)) > NOTABLE
    return is_opposite or max(other / ratio, ratio / other) > FAR_APART


def entry_text(one: ProfileEntry) -> str:
    """Name the settings of a profile: "batch 1, 2 cores, f32, engine version 1.31.1"."""
    cores = cores_in_words(one.cores, one.cluster)
    zeros = f", {one.imposed_sparsity:.0%} zeros imposed" if one.imposed_sparsity else ""
    version = f", engine version {one.engine.version}" if one.engine.version else ""
    return f"batch {one.batch}, {cores}, {one.precision}{zeros}{version}"


def entry_labels(entries: Sequence[ProfileEntry]) -> dict[str, str]:
    """Return what each profile, by the start of its id, is called in a list; no two alike."""
    return choice_labels(
        {
            one.id[:ID_CHARACTERS]: f"{one.name} · {instant(one.created_at_unix_ns)} · {entry_text(one)}"
            for one in entries
        }
    )


def profile_command(wanted: Wanted) -> str:
    """Return the command that makes a profile for a side."""
    one, point = wanted.contender, wanted.point
    engine = in_environment(one.engine, one.environment)
    words = ["enginebench", "profile", one.model_digest[:ID_CHARACTERS], "--engine", engine]
    words += [] if one.target == LOCAL_TARGET else ["--target", one.target]
    words += ["--device", one.device]
    words += ["--batch", str(point.batch), "--cores", str(place_of(point.cores, point.cluster))] if point else []
    words += ["--precision", wanted.precision]
    return shlex.join(words)


def profile_address(wanted: Wanted) -> Mapping[str, str]:
    """Return the parameters with which the page for a new profile is opened for a side."""
    one, point = wanted.contender, wanted.point
    parameters = {
        "model": one.model_digest[:ID_CHARACTERS],
        "engine": in_environment(one.engine, one.environment),
        "device": one.device,
        "precision": wanted.precision,
    }
    parameters |= {} if one.target == LOCAL_TARGET else {"target": one.target}
    return parameters | (
        {"batch": str(point.batch), "cores": str(place_of(point.cores, point.cluster))} if point else {}
    )


def _belongs(one: ProfileEntry, contender: Contender) -> bool:
    where = (one.model_digest, one.engine.name, one.engine.environment, one.target, one.device)
    wanted = (contender.model_digest, contender.engine, contender.environment, contender.target, contender.device)
    return where == wanted and one.status.has_numbers


def _distance(one: ProfileEntry, wanted: Wanted) -> tuple[object, ...]:
    point = wanted.point
    batches = abs(log2(one.batch / point.batch)) if point else one.batch
    cores = (one.cluster != point.cluster, abs(one.cores - point.cores)) if point else (False, -one.cores)
    is_other = one.precision != wanted.precision
    return (bool(one.imposed_sparsity), batches, cores, is_other, -one.created_at_unix_ns, one.id)


def _unlike(one: ProfileEntry, point: Experiment | None) -> str:
    if point is None:
        return ""
    parts = [
        *([f"batch {point.batch}"] if point.batch != one.batch else []),
        *(
            [cores_in_words(point.cores, point.cluster)]
            if place_of(point.cores, point.cluster) != place_of(one.cores, one.cluster)
            else []
        ),
        *([point.precision] if point.precision != one.precision else []),
        *([f"engine version {point.engine_version}"] if point.engine_version not in (None, one.engine.version) else []),
    ]
    return ", ".join(parts)
