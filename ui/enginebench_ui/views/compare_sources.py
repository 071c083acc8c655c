"""Where the layers of a side come from: the profile that is nearest to its point, or how to make one."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2

from enginebench_controller.records import LOCAL_TARGET
from enginebench_controller.store.experiments import Contender, Experiment
from enginebench_controller.store.profile_entries import ProfileEntry
from enginebench_ui.views.compare_projects import engine_in_environment
from enginebench_ui.views.text import instant

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
class Source:
    """The profile taken for a side, None where there is none; `candidates` are all of this project, nearest first.

    `lost` is the id that an address names although no candidate has it; "" where there is none such.
    """

    wanted: Wanted
    taken: ProfileEntry | None
    candidates: tuple[ProfileEntry, ...]
    lost: str = ""


def source(wanted: Wanted, entries: Iterable[ProfileEntry], named: str = "") -> Source:
    """Take the profile whose id starts with `named`, else the nearest in batch, cores and precision, else the newest.

    Only those of the same model, engine, environment, target and device that have layers are candidates. Passes with
    zeros imposed on the weights come last: they tell of another model.
    """
    own = sorted((one for one in entries if _belongs(one, wanted.contender)), key=lambda one: _distance(one, wanted))
    meant = next((one for one in own if named and one.id.startswith(named)), None)
    return Source(wanted, meant or next(iter(own), None), tuple(own), lost="" if meant else named)


def lost_sentence(found: Source) -> str | None:
    """Say that the profile which an address names is not there, as of a link to what was removed; None where it is."""
    if not found.lost:
        return None
    instead = "another one is shown" if found.taken else "none is shown"
    return f"There is no profile {found.lost} of project {found.wanted.letter} in this store; {instead}."


def source_sentence(found: Source) -> str:
    """Say whose layers are shown, and in what that profile is not like the point."""
    letter, one = found.wanted.letter, found.taken
    if one is None:
        return f"{letter} has no profile: the layers of this project were not timed on {found.wanted.contender.device}."
    said = (
        f"{letter}'s layers are those of profile “{one.name}” of {instant(one.created_at_unix_ns)}: {entry_text(one)}"
    )
    unlike = _unlike(one, found.wanted.point)
    return f"{said}. The point has {unlike}." if unlike else f"{said}."


def entry_text(one: ProfileEntry) -> str:
    """Name the settings of a profile: "batch 1, 2 cores, f32, engine version 1.31.1"."""
    cores = f"{one.cores} core" + ("" if one.cores == 1 else "s")
    zeros = f", {one.imposed_sparsity:.0%} zeros imposed" if one.imposed_sparsity else ""
    version = f", engine version {one.engine.version}" if one.engine.version else ""
    return f"batch {one.batch}, {cores}, {one.precision}{zeros}{version}"


def entry_labels(entries: Sequence[ProfileEntry]) -> dict[str, str]:
    """Return what each profile, by the start of its id, is called in a list."""
    return {
        one.id[:ID_CHARACTERS]: f"{one.name} · {instant(one.created_at_unix_ns)} · {entry_text(one)}" for one in entries
    }


def profile_command(wanted: Wanted) -> str:
    """Return the command that makes a profile for a side."""
    one, point = wanted.contender, wanted.point
    engine = engine_in_environment(one.engine, one.environment)
    words = ["enginebench", "profile", one.model_digest[:ID_CHARACTERS], "--engine", engine]
    words += [] if one.target == LOCAL_TARGET else ["--target", one.target]
    words += ["--device", one.device]
    words += ["--batch", str(point.batch), "--cores", str(point.cores)] if point else []
    words += ["--precision", wanted.precision]
    return shlex.join(words)


def profile_address(wanted: Wanted) -> Mapping[str, str]:
    """Return the parameters with which the page for a new profile is opened for a side."""
    one, point = wanted.contender, wanted.point
    parameters = {
        "model": one.model_digest[:ID_CHARACTERS],
        "engine": engine_in_environment(one.engine, one.environment),
        "device": one.device,
        "precision": wanted.precision,
    }
    parameters |= {} if one.target == LOCAL_TARGET else {"target": one.target}
    return parameters | ({"batch": str(point.batch), "cores": str(point.cores)} if point else {})


def _belongs(one: ProfileEntry, contender: Contender) -> bool:
    where = (one.model_digest, one.engine.name, one.engine.environment, one.target, one.device)
    wanted = (contender.model_digest, contender.engine, contender.environment, contender.target, contender.device)
    return where == wanted and one.status.has_numbers


def _distance(one: ProfileEntry, wanted: Wanted) -> tuple[object, ...]:
    point = wanted.point
    batches = abs(log2(one.batch / point.batch)) if point else one.batch
    cores = abs(one.cores - point.cores) if point else -one.cores
    is_other = one.precision != wanted.precision
    return (bool(one.imposed_sparsity), batches, cores, is_other, -one.created_at_unix_ns, one.id)


def _unlike(one: ProfileEntry, point: Experiment | None) -> str:
    if point is None:
        return ""
    parts = [
        *([f"batch {point.batch}"] if point.batch != one.batch else []),
        *([f"{point.cores} core" + ("" if point.cores == 1 else "s")] if point.cores != one.cores else []),
        *([point.precision] if point.precision != one.precision else []),
        *([f"engine version {point.engine_version}"] if point.engine_version not in (None, one.engine.version) else []),
    ]
    return ", ".join(parts)
