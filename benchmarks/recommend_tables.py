"""Tables of all points of a space, measured exhaustively: what searches for a configuration are held against.

Each point has three short processes, in groups of a dozen that take turns, drawn anew in each visit of the model; they
are measured by the very benchmarks that a search makes. A line a group is kept as soon as it has ended, so that what
was cut short goes on where it was.
"""

import asyncio
import gzip
import json
import platform
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from numpy.typing import NDArray

from benchmarks.light_models import light_models, seeded
from benchmarks.real_files import listed
from benchmarks.verdict_recorder import WORK
from enginebench_controller.home import Home, default_home
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.plan import SearchStep
from enginebench_controller.plan.points import Point, Space, identity, identity_of, space, step_plan, together
from enginebench_controller.plan.recommend import RecommendOrder, common_plan, make_order
from enginebench_controller.records import Benchmark, BlockSamples, Measurement
from enginebench_controller.runs.benchmarking import BenchmarkOrder, run_in_session
from enginebench_controller.runs.remote_run import Unreported
from enginebench_controller.stats.response import Axes
from enginebench_controller.targets.session import TargetSession, open_session
from enginebench_controller.verdicts.words import failure_sentence

FOLDER = Path(__file__).parent / "recordings" / "recommend"
VISITS = 3
PROCESS_S, ITERATIONS = 0.6, 3
SEED = 20_261_125

SMALL: Mapping[str, tuple[str, ...]] = {"batch": ("1", "8"), "hint": ("none",)}
LARGE: Mapping[str, tuple[str, ...]] = {"batch": ("1", "4"), "hint": ("none",)}


@dataclass(frozen=True)
class TrialModel:
    """A network of the zoo, of the onnx wheel, or a file that somebody ships; `axes` narrow its space.

    `shapes` are those of inputs with open sizes, where the list of files does not say them.
    """

    name: str
    source: str
    axes: Mapping[str, tuple[str, ...]]
    shapes: Mapping[str, str] = field(default_factory=dict)


MODELS = (
    TrialModel("squeezenet", "zoo", SMALL),
    TrialModel("mobilenet_v2", "zoo", SMALL),
    TrialModel("resnet50", "zoo", LARGE),
    TrialModel("shufflenet", "onnx wheel", SMALL),
    TrialModel("bert-tiny", "zoo", SMALL, dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), "1x128")),
    TrialModel("ppocr-v2-direction", "package", SMALL),
    TrialModel("ppocr-v4-recognition", "package", LARGE),
    TrialModel("ddddocr-common", "package", SMALL),
)


@dataclass(frozen=True)
class TablePoint:
    """A point: its title, the fields of a plan that make it, its axes, and whether it is an engine's default."""

    title: str
    fields: Mapping[str, Any]
    axes: Axes
    is_default: bool


@dataclass(frozen=True)
class TableProcess:
    """One process of a point: its blocks' durations, and the latencies in each of them, in microseconds."""

    point: int
    peak_rss_bytes: int | None
    blocks_us: tuple[tuple[float, tuple[float, ...]], ...]

    def latencies_us(self, chosen: Sequence[int]) -> NDArray[np.float64]:
        """All latencies of some blocks."""
        return np.concatenate([self.blocks_us[one][1] for one in chosen])

    def items_per_s(self, batch: float, chosen: Sequence[int]) -> float:
        """The throughput over some blocks."""
        count = sum(len(self.blocks_us[one][1]) for one in chosen)
        return 1e6 * batch * count / sum(self.blocks_us[one][0] for one in chosen)


@dataclass(frozen=True)
class TableGroup:
    """Points that took turns, and the seconds of all, with starting engines; by point why it came to nothing."""

    visit: int
    begun_unix_ns: int
    seconds: float
    processes: tuple[TableProcess, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """All that was measured of a model on one machine."""

    model: str
    machine: str
    points: tuple[TablePoint, ...]
    groups: tuple[TableGroup, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to measure."""
        return all(self.lacking(visit) == [] for visit in range(VISITS))

    @property
    def refused(self) -> frozenset[int]:
        """The points that came to nothing once."""
        return frozenset(int(place) for one in self.groups for place in one.refused)

    def lacking(self, visit: int) -> list[int]:
        """The points that a visit has not measured yet."""
        groups = [one for one in self.groups if one.visit == visit]
        seen = {process.point for one in groups for process in one.processes}
        return [place for place in range(len(self.points)) if place not in seen and place not in self.refused]


def order_of(model: TrialModel, **more: Any) -> RecommendOrder:
    """What is asked for a model: the search's own order, so that a search and the table have the same points."""
    path, fields = model_file(model)
    return make_order({"models": [path], "axes": model.axes, "fields": fields, **more})


def model_file(model: TrialModel) -> tuple[str, Mapping[str, Any]]:
    """The name by which commands know a model, and what its inputs need, as fields of a plan."""
    if model.source == "zoo":
        return f"zoo:{model.name}", {"shapes": dict(model.shapes)} if model.shapes else {}
    if model.source == "package":
        (found,) = listed(WORK / "packages", [model.name])
        return str(found.path), {"shapes": dict(found.shapes)} if found.shapes else {}
    path = WORK / "models" / f"{model.name}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(seeded(onnx.load(light_models()[model.name])), path)
    return str(path), {}


def home_apart() -> Home:
    """A home of the trial's own, with the user's environments."""
    home = Home(WORK / "recommend")
    (home.path / "agent").mkdir(parents=True, exist_ok=True)
    link = home.path / "agent" / "environments"
    if not link.exists():
        link.symlink_to((default_home().agent_data / "environments").resolve(), target_is_directory=True)
    return home


class Bench:
    """A home with a live agent, on which points of a space are measured as a search would."""

    def __init__(self, home: Home, session: TargetSession, binder: Binder, order: RecommendOrder, found: Space) -> None:
        self.home, self.order, self.space = home, order, found
        self._session, self._binder = session, binder

    @property
    def together(self) -> int:
        """How many can be alive together."""
        return together(self.space.points, self._session.snapshots[0].host.memory_bytes)

    async def measure(self, points: Sequence[Point], rounds: int, process_s: float, iterations: int) -> Benchmark:
        """One benchmark of these points."""
        step = SearchStep(id="table", step=0, title="a table")
        order = BenchmarkOrder(step_plan(self.order, points, rounds, process_s, iterations, step))
        return await run_in_session(self.home, order, self._session, self._binder, lambda *_: Unreported())


def by_place(points: Sequence[Point], measured: Iterable[Measurement]) -> Mapping[int, Measurement]:
    """The measurements of points, by their places."""
    place_of = {identity(one.case): place for place, one in enumerate(points)}
    keys = [(identity_of(o.engine.name, o.engine.environment, o.model_digest, o.configuration), o) for o in measured]
    return {place_of[key]: one for key, one in keys if key in place_of}


async def open_bench(stack: AsyncExitStack, home: Home, order: RecommendOrder) -> Bench:
    """Open a bench for an order, as long as the stack is."""
    plan = common_plan(order)
    binder = Binder(home.library, home.inputs, plan, {})
    binder.resolve(list(order.models))
    session = await stack.enter_async_context(open_session(home, plan.targets))
    return Bench(home, session, binder, order, space(order, session.snapshots[0], binder, order.models))


def record(folder: Path, models: Sequence[TrialModel] = MODELS) -> None:
    """Measure what the tables lack."""
    for model in models:
        asyncio.run(_record(folder, model))


async def _record(folder: Path, model: TrialModel) -> None:
    known = read(folder, model.name)
    if known is not None and known.is_whole:
        return
    async with AsyncExitStack() as stack:
        bench = await open_bench(stack, home_apart(), order_of(model))
        points = tuple(_plain(one) for one in bench.space.points)
        if known is None:
            known = Table(model.name, _machine(), points, ())
            _add(
                folder, model.name, {"model": model.name, "machine": _machine(), "points": [asdict(p) for p in points]}
            )
        for visit in range(VISITS):
            while lacking := known.lacking(visit):
                generator = random.Random(f"{SEED} {model.name} {visit} {len(lacking)}")  # noqa: S311  # no secret
                chosen = generator.sample(lacking, min(bench.together, len(lacking)))
                group = await _group(bench, visit, chosen)
                _add(folder, model.name, asdict(group))
                known = cast(Table, read(folder, model.name))
                print(f"{model.name}: visit {visit + 1}, {len(known.lacking(visit))} left", flush=True)


async def _group(bench: Bench, visit: int, places: Sequence[int]) -> TableGroup:
    begun_ns, begin = time.time_ns(), time.monotonic()
    benchmark = await bench.measure([bench.space.points[one] for one in places], 1, PROCESS_S, ITERATIONS)
    seconds = time.monotonic() - begin
    store = bench.home.store
    found = by_place(bench.space.points, store.measurements(benchmark.id))
    processes, refused = [], {}
    for place, one in found.items():
        if not one.status.has_numbers:
            refused[str(place)] = failure_sentence(one.failure) if one.failure else "it has no numbers"
        else:
            processes.append(_process(place, one, store.block_samples(one.id)))
    refused |= {str(one): "it was not measured" for one in places if one not in found}
    return TableGroup(visit, begun_ns, round(seconds, 3), tuple(processes), refused)


def _process(place: int, one: Measurement, samples: Iterable[BlockSamples]) -> TableProcess:
    left_out = one.excluded_blocks
    durations = {block.index: block.duration_ns for block in one.blocks}
    blocks = tuple(
        (durations[block.block] / 1e3, tuple(np.round(np.asarray(block.latency_ns) / 1e3, 1).tolist()))
        for block in samples
        if (block.process, block.block) not in left_out
    )
    peaks = [phase.peak_rss_bytes for phase in one.processes[0].phases if phase.peak_rss_bytes is not None]
    return TableProcess(place, max(peaks, default=None), blocks)


def _plain(point: Point) -> TablePoint:
    return TablePoint(point.case.title, point.fields, point.axes, point.is_default)


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(names)} processors"


def _add(folder: Path, model: str, line: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{model}.jsonl.gz").open("ab") as file:
        file.write(gzip.compress((json.dumps(line, separators=(",", ":")) + "\n").encode()))


def read(folder: Path, model: str) -> Table | None:
    """The table of a model, as far as it was measured; None where nothing was."""
    path = folder / f"{model}.jsonl.gz"
    if not path.exists():
        return None
    with gzip.open(path, "rt", encoding="utf-8") as file:
        head, *groups = (json.loads(line) for line in file)
    points = tuple(TablePoint(**one) for one in head["points"])
    return Table(model, head["machine"], points, tuple(_read_group(one) for one in groups))


def _read_group(line: Mapping[str, Any]) -> TableGroup:
    processes = tuple(
        TableProcess(
            one["point"],
            one["peak_rss_bytes"],
            tuple((duration, tuple(latencies)) for duration, latencies in one["blocks_us"]),
        )
        for one in line["processes"]
    )
    return TableGroup(**{**line, "processes": processes})


def tables(folder: Path = FOLDER) -> Iterator[Table]:
    """All tables that are whole."""
    for model in MODELS:
        found = read(folder, model.name)
        if found is not None and found.is_whole:
            yield found
