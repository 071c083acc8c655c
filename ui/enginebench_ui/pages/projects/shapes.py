"""Projects as a table with the best measured of each, and a new version as the command that a job carries out."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from enginebench_controller.errors import InputError
from enginebench_controller.records import LOCAL_TARGET, Configuration, Hint, Load, Measurement, Status
from enginebench_controller.store.models import Project
from enginebench_controller.typed_paths import typed_path
from enginebench_controller.verdicts.doubts import flags, status_words
from enginebench_proto.agreed.words import DEFAULT_ENVIRONMENT
from enginebench_ui.shared.project_key import DIGEST_CHARACTERS, project_key
from enginebench_ui.shared.text import (
    Row,
    arrivals_text,
    cells,
    count_of,
    engine_label,
    in_percent,
    instant,
    number,
    readback,
    shortened,
)
from enginebench_ui.shared.versions import KnownVersion, made_by, megabytes, oldest_ancestor, weights_type

RESIZES = ("stretch", "crop")
LAYOUTS = ("nchw", "nhwc")


@dataclass(frozen=True)
class Quantization:
    """What INT8 ranges are to be calibrated on: seeded random inputs, or what lies in `folder`.

    `samples` is None for all files of the folder. The image options are empty where the tool is to choose; `shapes` are
    those of open inputs, as NAME=AxBxC, parted by spaces or commas.
    """

    seed: int = 0
    samples: int | None = 8
    folder: str = ""
    resize: str = ""
    layout: str = ""
    scale: str = ""
    mean: str = ""
    std: str = ""
    shapes: str = ""


def quantize_arguments(digest: str, wish: Quantization) -> tuple[str, ...]:
    """Return the words behind `enginebench` that make the INT8 child of a version."""
    # Each value in one word with its option, so that none can pass for an option itself.
    shapes = (f"--shape={one}" for one in wish.shapes.replace(",", " ").split())
    samples = () if wish.samples is None else (f"--samples={wish.samples}",)
    return ("models", "quantize", digest, *samples, *_source(wish), *shapes)


def prune_arguments(digest: str, sparsity_percent: float) -> tuple[str, ...]:
    """Return the words behind `enginebench` that make a child with this share of zeros in every layer."""
    return ("models", "prune", digest, f"--sparsity={sparsity_percent / 100:g}")


def missing_folder(wish: Quantization) -> str:
    """Say that there is no such folder on the machine that serves the pages; empty where there is."""
    with suppress(InputError):  # of the home of an account that is none
        if not wish.folder or typed_path(wish.folder).is_dir():
            return ""
    return f"There is no folder {wish.folder} on the machine that serves these pages."


def _source(wish: Quantization) -> tuple[str, ...]:
    if not wish.folder:
        return (f"--seed={wish.seed}",)
    folder = typed_path(wish.folder).absolute()
    options = {"resize": wish.resize, "layout": wish.layout, "scale": wish.scale, "mean": wish.mean, "std": wish.std}
    return (f"--inputs={folder}", *(f"--image-{name}={value}" for name, value in options.items() if value))


SIDES = ("A", "B")


@dataclass(frozen=True)
class ProjectView:
    """One project: its key in addresses, its line of the table, and the best of it in words.

    `benchmark_id` is the benchmark of the best measurement; None where no measurement has numbers. `order` are the
    parameters of the address at which more of it can be measured.
    """

    key: str
    title: str
    row: Row
    headline: str
    configuration: str
    remarks: tuple[str, ...]
    model_digest: str
    benchmark_id: str | None
    order: Mapping[str, str]


def project_views(
    projects: Iterable[Project], known: Mapping[str, KnownVersion], search: str = ""
) -> tuple[ProjectView, ...]:
    """Return the projects that contain every word of `search`; case does not matter.

    All versions of a family stand together, the fastest first, whatever they are called.
    """
    words = search.casefold().split()
    found = [one for one in projects if _contains(one, words)]
    return tuple(_view(one, known.get(one.model_digest)) for one in sorted(found, key=lambda one: _order(one, known)))


def best_items_per_s(projects: Iterable[Project]) -> dict[str, float]:
    """Return the best throughput of each model version, by digest, over all engines and targets."""
    found: dict[str, float] = {}
    for one in projects:
        if one.best and one.best.throughput_items_per_s is not None:
            found[one.model_digest] = max(found.get(one.model_digest, 0.0), one.best.throughput_items_per_s)
    return found


def configuration_words(configuration: Configuration) -> str:
    """Name a configuration by what is not usual about it: "CPU · batch 4 · 2 cores · hint throughput"."""
    return " · ".join(_words(configuration))


def known_keys(named: Iterable[str], projects: Iterable[Project]) -> tuple[str, ...]:
    """Return those keys that belong to a project, as an address names them: others, of what is gone, mean nothing."""
    known = set(map(_key, projects))
    return tuple(key for key in named if key in known)


def chosen_in_order(before: Sequence[str], shown: Sequence[str], ticked: Sequence[str]) -> tuple[str, ...]:
    """Return the keys chosen now, first chosen first; those that a search hides stay chosen."""
    kept = [key for key in before if key in ticked or key not in shown]
    return tuple(dict.fromkeys([*kept, *ticked]))


def comparison(chosen: Sequence[str]) -> dict[str, str]:
    """Return the parameters of the address that compares the chosen: the first is A, the second B."""
    return {side.lower(): key for side, key in zip(SIDES, chosen, strict=False)}


def _order(project: Project, known: Mapping[str, KnownVersion]) -> tuple[str, str, float, str, str, str]:
    first = oldest_ancestor(project.model_digest, known)
    name = known[first].version.name if first in known else project.model_name
    items_per_s = project.best.throughput_items_per_s if project.best else None
    return (name.casefold(), first, -(items_per_s or 0), project.model_digest, project.engine, project.target)


def _view(project: Project, known: KnownVersion | None) -> ProjectView:
    best = project.best
    engine = engine_label(best) if best else _engine(project)
    return ProjectView(
        key=_key(project),
        title=f"{shortened(project.model_name)} on {shortened(engine)}, {shortened(project.target)}",
        row=cells(_row(project, known, engine)),
        headline=_headline(project),
        configuration=configuration_words(best.configuration) if best else _ended(project),
        remarks=flags(best) if best else (),
        model_digest=project.model_digest,
        benchmark_id=best.benchmark_id if best else None,
        order=_order_more(project),
    )


def _key(project: Project) -> str:
    return project_key(project.model_digest, project.engine, project.environment, project.target)


def _order_more(project: Project) -> dict[str, str]:
    is_default = project.environment in ("", DEFAULT_ENVIRONMENT)
    engine = project.engine if is_default else f"{project.engine}@{project.environment}"
    target = {} if project.target == LOCAL_TARGET else {"target": project.target}
    return {"model": project.model_digest[:DIGEST_CHARACTERS], "engine": engine, **target}


def _row(project: Project, known: KnownVersion | None, engine: str) -> Row:
    best = project.best
    version = known.version if known else None
    return {
        "Model": project.model_name,
        "Best (items/s)": best.throughput_items_per_s if best else None,
        "± (%)": in_percent(_relative_half_width(best)),
        "Engine": engine,
        "Target": project.target,
        "Status": _status(project),
        "Version": made_by(version) if version else None,
        "Reached with": configuration_words(best.configuration) if best else None,
        "Precision": readback(best.effective.precision) if best else None,
        "Weights": weights_type(known.weights) if known else None,
        "Sparsity (%)": in_percent(_sparsity(project, known)),
        "Size (MB)": megabytes(version),
        "Measured": _ended(project),
        "Created": instant(version.created_at_unix_ns) if version else None,
        "Last measured": instant(project.last_at_unix_ns) if project.last_at_unix_ns else None,
        "Remarks": "; ".join(flags(best)) if best and flags(best) else None,
    }


def _sparsity(project: Project, known: KnownVersion | None) -> float | None:
    """Of the library's count, else of that of a profile."""
    if known and known.weights:
        return known.weights.sparsity
    counted = project.counted
    return 1 - counted.nonzero / counted.parameters if counted and counted.parameters else None


def _status(project: Project) -> str:
    """How the best ended; where there is none, how the others did, the worst first."""
    if project.best:
        return status_words(project.best)
    if _has_numbers(project):
        return "≠ or impossible"
    return next((one.value for one in (Status.FAILED, Status.CANCELLED) if project.counts.get(one)), "no numbers")


def _ended(project: Project) -> str:
    """Count the measurements: "20 measurements", "20 measurements, 2 failed"."""
    total = sum(project.counts.values())
    rest = [f"{project.counts[one]} {one}" for one in (Status.FAILED, Status.CANCELLED) if project.counts.get(one)]
    return ", ".join([count_of(total, "measurement"), *rest])


def _has_numbers(project: Project) -> bool:
    """Whether any measurement has numbers, be they of wrong outputs."""
    return any(one.has_numbers for one, count in project.counts.items() if count)


def _headline(project: Project) -> str:
    best = project.best
    if best is None and _has_numbers(project):
        return "No measurement counts: outputs are wrong (≠), or numbers impossible"
    if best is None or best.throughput_items_per_s is None:
        return "No measurement has numbers"
    share = _relative_half_width(best)
    interval = "" if share is None else f" ± {100 * share:.1f} %"
    return f"Best: {number(best.throughput_items_per_s)} items/s{interval}"


def _relative_half_width(best: Measurement | None) -> float | None:
    """Half the width of the throughput's interval ÷ the throughput."""
    if best is None or not best.throughput_items_per_s or best.throughput_interval is None:
        return None
    interval = best.throughput_interval
    return (interval.high - interval.low) / 2 / best.throughput_items_per_s


def _engine(project: Project) -> str:
    return (
        project.engine
        if project.environment in ("", DEFAULT_ENVIRONMENT)
        else f"{project.engine} ({project.environment})"
    )


def _words(asked: Configuration) -> list[str]:
    words = [asked.device, f"batch {asked.batch}", asked.cores_in_words]
    if asked.streams != 1:
        words.append(count_of(asked.streams, "stream"))
    if asked.hint is not Hint.NONE:
        words.append(f"hint {asked.hint}")
    if asked.load is not Load.SYNC:
        words.append(f"{asked.load}, {asked.requests} in flight" if asked.load is Load.ASYNC else str(asked.load))
    if asked.arrivals:
        words.append(arrivals_text(asked.arrivals))
    return words


def _contains(project: Project, words: Sequence[str]) -> bool:
    best = project.best
    engine = engine_label(best) if best else project.engine
    fields = (project.model_name, project.model_digest, engine, project.environment, project.target)
    text = "\n".join(fields).casefold()
    return all(word in text for word in words)
