"""What a form offers, and from what it holds to the fields of a plan and back; names of uploads are checked here."""

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, get_args

from enginebench_controller.errors import InputError
from enginebench_controller.models.inputs.arrays import ImageOptions, Layout, Resize
from enginebench_controller.models.inputs.shapes import separated, split_by_input, split_shapes
from enginebench_controller.plan.configurations import usable_cores
from enginebench_controller.plan.plan import Plan
from enginebench_controller.records import (
    IMPOSED_SPARSITY,
    LOCAL_TARGET,
    ArrivalProcess,
    AvailableEngine,
    Engine,
    Hint,
    Load,
    ModelVersion,
    Target,
    TargetSnapshot,
    UnavailableEngine,
)
from enginebench_controller.records.cause import cause
from enginebench_proto.agreed.words import DEFAULT_ENVIRONMENT, SUFFIXES, Precision
from enginebench_ui.shared.project_key import DIGEST_CHARACTERS
from enginebench_ui.shared.text import UNKNOWN
from enginebench_ui.shared.versions import AS_GIVEN, KnownVersion, made_by

COMPANIONS = ("bin", "data", "onnx_data", "weights")
"""Suffixes of files that a model may refer to."""

_LONGEST_BYTES = 200


def file_name(sent: str) -> str:
    """Return the last part of a name as sent. Raises `InputError` for one that no file of ours may have."""
    name = PurePosixPath(sent.replace("\\", "/")).name
    if name in ("", ".", "..") or not name.isprintable() or len(name.encode()) > _LONGEST_BYTES:
        raise InputError(f"a file cannot be called {sent[:60]!r} here: rename it and upload it again")
    return name


def model_names(names: list[str], suffixes: Collection[str]) -> list[str]:
    """Return those of the files that are models: their names end in a suffix. Raises `InputError` where none does."""
    models = [name for name in names if PurePosixPath(name).suffix.lower() in suffixes]
    if not models:
        raise InputError(f"none of these files is a model: its name must end in {', '.join(suffixes)}")
    return models


Fields = dict[str, Any]

PRECISIONS = (*(str(one) for one in Precision if one is not Precision.DEFAULT), str(Precision.DEFAULT))
LOADS = tuple(load.value for load in Load)
HINTS = tuple(hint.value for hint in Hint)
ARRIVALS = (ArrivalProcess.POISSON.value, ArrivalProcess.CONSTANT.value)
RESIZES: tuple[str, ...] = get_args(Resize)
LAYOUTS: tuple[str, ...] = get_args(Layout)


class Thoroughness(StrEnum):
    """How sure the numbers are to be."""

    QUICK = "quick"
    USUAL = "usual"
    OWN = "own"


THOROUGHNESS = {Thoroughness.QUICK: "Quick look", Thoroughness.USUAL: "Thorough", Thoroughness.OWN: "As I say"}
"""How each is called."""

THOROUGHNESS_HELP = (
    "**Quick look**: one process, 2 to 4 s a configuration. **Thorough**: five fresh processes, 6 s and more, in turns "
    "with those that it is compared with; what runs alone, three, until half of the median's 95 % interval is "
    "within 1 % of it."
)
_QUICK: Mapping[str, Any] = {"processes": 1, "duration": "2s", "max_duration": "4s", "interval": "2%"}


def timing(chosen: Thoroughness, own: Mapping[str, Any]) -> Fields:
    """Return the fields that say when a measurement ends."""
    match chosen:
        case Thoroughness.QUICK:
            return dict(_QUICK)
        case Thoroughness.USUAL:
            return {}
        case Thoroughness.OWN:
            return stated(own)


def stated(fields: Mapping[str, Any]) -> Fields:
    """Return the fields that say something: empty texts, lists and None do not."""
    return {key: value for key, value in fields.items() if value not in (None, "", [], (), {})}


def listed(text: str) -> list[str]:
    """Return the parts of "1, 2, 4"."""
    return [part for part in separated(text.replace(";", ",")) if part]


def number(text: str) -> float | str:
    """Return what "1/255" comes to; any other text as it is, which a plan reads or refuses."""
    above, is_fraction, below = text.partition("/")
    with suppress(ValueError, ZeroDivisionError):
        return float(above) / float(below) if is_fraction else text
    return text


def numbers(text: str) -> list[float | str]:
    """Return the numbers of "0.485, 0.456 0.406", of which each may be a fraction."""
    return [number(part) for part in listed(",".join(re.sub(r"\s*/\s*", "/", text).split()))]


def shapes(text: str) -> dict[str, str]:
    """Return the shapes of "x=1x3x224x224, y=8". Raises `InputError`."""
    return split_shapes(listed(text))


def by_input(text: str, field: str) -> dict[str, str]:
    """Return what is said of each input in "sr=16000, mask=ones". Raises `InputError`."""
    return split_by_input(listed(text), f"{field}:", "INPUT=VALUE")


def options(text: str) -> dict[str, str]:
    """Return the options of lines "ENGINE.NAME=VALUE". Raises `InputError`."""
    lines = [line.strip() for line in text.replace(",", "\n").splitlines() if line.strip()]
    if wrong := [line for line in lines if "=" not in line]:
        raise InputError(f"{wrong[0]!r} is not of the form ENGINE.NAME=VALUE")
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}


def targets(names: Sequence[str]) -> Fields:
    """Return the targets of a plan; this machine alone is what a plan means by itself."""
    return {} if list(names) in ([], [LOCAL_TARGET]) else {"targets": list(names)}


def default_name(models: Iterable[str], engines: Sequence[str]) -> str:
    """Name an order after its models and engines: "resnet50 on onnxruntime, openvino"."""
    which = ", ".join(name.removeprefix("zoo:") for name in models)
    return f"{which} on {', '.join(engines)}" if engines else which


def axes_of(plan: Mapping[str, Any]) -> Fields:
    """Return what a stored plan says of batch, cores and the way an engine is driven, as far as a form has it."""
    known = Plan.model_fields
    names = ("batch", "cores", "streams", "precision", "load", "hint", "requests", "rate")
    return {name: list(plan[name]) for name in names if name in known and isinstance(plan.get(name), list)}


def address_of(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the address of a form says that begins with models, places, configurations and inputs of a plan.

    What an imported plan says in another form than ours is left out.
    """
    axes, digests = axes_of(plan), _by_name(plan.get("digests"))
    models = [str(digests.get(name, name))[:_DIGEST_OR_NAME] for name in _several(plan.get("models"))]
    said = [("model", ",".join(models))]
    if (engines := _several(plan.get("engines"))) != ["all"]:
        said.append(("engine", ",".join(engines)))
    said += [(name, ",".join(found)) for name, field in _PLACES.items() if (found := _several(plan.get(field)))]
    for one, several, toggle in (("batch", "batches", "batches_on"), ("cores", "several_cores", "cores_on")):
        values = [str(value) for value in axes.get(one, ())]
        if len(values) > 1:
            said += [(toggle, "true"), *((several, value) for value in values)]
        else:
            said += [(one, value) for value in values]
    said += [(name, str(value)) for name in ("precision", "load", "hint") for value in axes.get(name, ())]
    said += [("streams", ", ".join(map(str, axes["streams"])))] if axes.get("streams", [1]) != [1] else []
    said += [(name, ", ".join(map(str, axes[name]))) for name in ("requests", "rate") if axes.get(name)]
    if plan.get("arrivals") == ArrivalProcess.CONSTANT:
        said.append(("arrivals", ArrivalProcess.CONSTANT.value))
    told = ((name, plan.get(field)) for name, field in _INPUTS.items())
    said += [(name, str(value)) for name, value in told if value and isinstance(value, str | int)]
    said += [(name, _pairs_text(pairs)) for name, field in _PAIRS.items() if (pairs := _by_name(plan.get(field)))]
    image = _by_name(plan.get("image"))
    said += [
        (f"image_{name}", ", ".join(_several(value)) or str(value))
        for name in (each.name for each in dataclasses.fields(ImageOptions))
        if (value := image.get(name)) and value != RESIZES[0]
    ]
    return said


def _several(said: object) -> list[str]:
    return list(map(str, said)) if isinstance(said, list | tuple) else []


def _by_name(said: object) -> Mapping[str, Any]:
    return said if isinstance(said, Mapping) else {}


def _pairs_text(said: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in said.items())


_PLACES = {"target": "targets", "device": "devices"}
_INPUTS = {"folder": "input_folder", "inputs": "inputs", "seed": "seed"}
_PAIRS = {"shape": "shapes", "batch_axis": "batch_axis", "values": "input_values", "options": "options"}
_DIGEST_OR_NAME = 64

Labels = dict[str, str]
"""Keys as they stand in addresses and plans, each with what a person reads."""

BATCHES = tuple(1 << power for power in range(11))
"""The batch sizes that are offered; others can be typed."""

BETWEEN = " · "
"""Stands between the name of a model version and what else its label says."""


def model_labels(known: Mapping[str, KnownVersion], zoo: Iterable[str]) -> Labels:
    """Return the versions whose files are here, newest first, by the start of the digest, and networks to be built."""
    here = [one.version for one in known.values() if one.is_here and one.version.original_digest == one.version.digest]
    here.sort(key=lambda version: -version.created_at_unix_ns)
    namesakes = Counter(version.name for version in here)
    labels = {}
    for version in here:
        key = version.digest[:DIGEST_CHARACTERS]
        parts = [version.name, made_by(version), key[:6] if namesakes[version.name] > 1 else ""]
        labels[key] = BETWEEN.join(part for part in parts if part and part != AS_GIVEN)
    built = {version.name for version in here}
    return labels | {name: f"{name}{BETWEEN}built when first used" for name in zoo if name not in built}


def model_key(text: str, labels: Mapping[str, str]) -> str | None:
    """Return the key that a text from an address means: the key itself, a digest, the start of one, or a name."""
    if text in labels or text[:DIGEST_CHARACTERS] in labels:
        return text if text in labels else text[:DIGEST_CHARACTERS]
    starting = [key for key in labels if len(text) >= 6 and key.startswith(text)]
    named = [key for key in labels if label_name(labels[key]) == text]
    return next(iter(starting + named), None)


def plan_models(keys: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return what a plan calls these models: by the whole digest, so that no namesake is meant."""
    digests = {digest[:DIGEST_CHARACTERS]: digest for digest in known}
    return [digests.get(key, key) for key in keys]


def plain_names(models: Iterable[str], known: Mapping[str, KnownVersion]) -> tuple[str, ...]:
    """Return what a person calls these models: by name where one version alone has it, else by the start of the digest.

    The name is what the search and the command that repeats it are told by.
    """
    namesakes = Counter(one.version.name for one in known.values())
    return tuple(
        _called(known[model].version, is_alone=namesakes[known[model].version.name] == 1) if model in known else model
        for model in models
    )


def _called(version: ModelVersion, *, is_alone: bool) -> str:
    name = version.name
    is_path = "/" in name or PurePosixPath(name).suffix.lower() in SUFFIXES  # which would be taken for a file
    return version.digest[:DIGEST_CHARACTERS] if is_path or not is_alone else name


def positional(names: Sequence[str]) -> tuple[str, ...]:
    """Return names as the last words of a command, told from options where one begins as these do."""
    return (*(["--"] if any(one.startswith("-") for one in names) else []), *names)


def label_name(label: str) -> str:
    """Return the name in the label of a model version."""
    return label.split(BETWEEN, maxsplit=1)[0]


def families(known: Mapping[str, KnownVersion]) -> dict[str, str]:
    """Return, for each version, the one it stands for: of a copy for another batch its parent, else itself."""
    return {digest: one.version.original_digest for digest, one in known.items()}


def target_labels(targets: Iterable[Target]) -> Labels:
    """Return this machine and the targets that were added, by name."""
    added = {target.name: f"{target.name} ({target.address})" for target in targets}
    return {LOCAL_TARGET: "this machine"} | added


def engine_labels(snapshots: Sequence[TargetSnapshot], also: Iterable[str] = ()) -> Labels:
    """Return what a plan may name: an engine alone, or with its environment where that is not the preferred one.

    Engines for testing are offered only where an address names them (`also`).
    """
    wanted = set(also)
    versions: dict[str, list[str]] = {}
    for snapshot in snapshots:
        for key, engine in _by_key(snapshot.engines).items():
            if isinstance(engine, AvailableEngine) and (not engine.hidden or key in wanted):
                versions.setdefault(key, []).append(engine.version or UNKNOWN)
    return {key: f"{key} {', '.join(dict.fromkeys(found))}" for key, found in sorted(versions.items())}


def engine_key(text: str, snapshots: Sequence[TargetSnapshot]) -> str:
    """Return what a form calls an engine that a plan names with its environment; an unknown one as it is."""
    name, _, environment = text.partition("@")
    keyed = (item for one in snapshots for item in _by_key(one.engines).items())
    return next((key for key, engine in keyed if (engine.name, engine.environment) == (name, environment)), text)


def unavailable_engines(snapshots: Sequence[TargetSnapshot]) -> tuple[str, ...]:
    """Say why engines of these targets are missing, a sentence each."""
    return tuple(
        f"{engine.name} is not available on {snapshot.target}: {cause(engine.reason)}"
        for snapshot in snapshots
        for engine in snapshot.engines
        if isinstance(engine, UnavailableEngine) and not engine.hidden
    )


def device_labels(snapshots: Sequence[TargetSnapshot], engines: Sequence[str]) -> Labels:
    """Return the devices that these engines (none for all) have on any of these targets, with their full names."""
    names: dict[str, list[str]] = {}
    for snapshot in snapshots:
        for key, engine in _by_key(snapshot.engines).items():
            if isinstance(engine, AvailableEngine) and (key in engines if engines else not engine.hidden):
                for device in engine.devices:
                    names.setdefault(device.name, []).append(device.full_name)
    return {
        name: " · ".join(filter(None, (name, ", ".join(dict.fromkeys(filter(None, full))))))
        for name, full in names.items()
    }


def most_cores(snapshots: Sequence[TargetSnapshot]) -> int | None:
    """Return how many cores the largest of these targets can use; None where none tells."""
    return max((count for one in snapshots if (count := usable_cores(one)) is not None), default=None)


def core_counts(most: int | None) -> tuple[int, ...]:
    """Return the numbers of cores that are offered: all up to eight, then doubling, and the most there are."""
    limit = most or 8
    few = range(1, min(limit, 8) + 1)
    many = (1 << power for power in range(4, limit.bit_length()))
    return tuple(dict.fromkeys([*few, *many, limit]))


def core_choices(snapshots: Sequence[TargetSnapshot]) -> tuple[int | str, ...]:
    """Return what is offered as cores: numbers, and numbers of each kind that any of these targets has."""
    kinds: dict[str, int] = {}
    for cluster in (one for snapshot in snapshots for one in snapshot.host.clusters):
        kinds[cluster.name] = max(cluster.physical_cores, kinds.get(cluster.name, 0))
    of_kinds = (f"{name}:{count}" for name, most in kinds.items() for count in core_counts(most))
    return (*core_counts(most_cores(snapshots)), *of_kinds)


def can_impose(snapshots: Sequence[TargetSnapshot], engines: Sequence[str]) -> tuple[str, ...]:
    """Return which of these engines (none for all) can be told to take weights for zero."""
    return tuple(
        dict.fromkeys(
            key
            for snapshot in snapshots
            for key, engine in _by_key(snapshot.engines).items()
            if isinstance(engine, AvailableEngine) and (key in engines if engines else not engine.hidden)
            if any(option.name == IMPOSED_SPARSITY for option in engine.options)
        )
    )


def _by_key(engines: Sequence[Engine]) -> dict[str, Engine]:
    """Name each engine as shortly as plans permit: the environment only where another is preferred."""
    ordered = sorted(
        engines,
        key=lambda one: (isinstance(one, UnavailableEngine), one.environment != DEFAULT_ENVIRONMENT, one.environment),
    )
    keyed: dict[str, Engine] = {}
    for engine in ordered:
        alone = engine.name
        keyed[f"{alone}@{engine.environment}" if alone in keyed else alone] = engine
    return keyed
