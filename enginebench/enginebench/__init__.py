"""enginebench as a library: what a notebook or a script calls. docs/reference/library.md tells it with examples.

`run` measures, `compare` and `gate` judge, `show` and `open_store` read what is kept, `table` makes a DataFrame. Each
goes the way of the command of its name, to the same results in the same store. To import this is quick: a call loads
what it needs.
"""

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from enginebench_controller.errors import (
    AgentError,
    EnginebenchError,
    InputError,
    ModelError,
    PlanError,
    StoreError,
    UnreachableError,
)
from enginebench_proto import __version__

if TYPE_CHECKING:
    from enginebench.results import Comparison, Gate, Run
    from enginebench_controller.home import Home
    from enginebench_controller.store.sql_query import QueryResult
    from enginebench_controller.store.store import Store

__all__ = [
    "AgentError",
    "EnginebenchError",
    "InputError",
    "ModelError",
    "PlanError",
    "StoreError",
    "UnreachableError",
    "__version__",
    "compare",
    "gate",
    "open_store",
    "run",
    "show",
    "table",
]

Place = str | PathLike[str]
Tell = Callable[[str], object]


def run(
    models: Place | Iterable[Place],
    *,
    engines: str | Iterable[str] | None = None,
    batch: int | Iterable[int] | None = None,
    cores: int | str | Iterable[int | str] | None = None,
    duration: float | str | None = None,
    home: Place | None = None,
    trust: bool = False,
    log_to: str | Iterable[str] = (),
    progress: Tell | None = None,
    **asked: Any,
) -> "Run":
    """Measure models on engines, as `enginebench run`, and keep it. Lists multiply out; None is the plan's default.

    `models` are files, names, digests or zoo:NAME; `cores` physical cores, or "big:2" of a kind; `duration` the
    shortest steady state of all processes together, in seconds or as "500ms". `asked` are any other fields of a plan,
    such as `targets`, `precision`, `processes` or `options`: docs/reference/plans.md. `trust` permits the models to run
    code of their own.
    `log_to` names trackers that each result is sent to once it is stored, such as "mlflow:http://tracking:5000". A
    sentence now and then goes to `progress`, maybe from another thread.

    Raises `InputError`, `PlanError` or `ModelError` before anything runs, `UnreachableError` where a target does not
    answer. What fails later is a measurement with its failure: see `Run.problem`.
    """
    from enginebench.results import Progress, chosen, listed, measured, model_named, sent_on, through
    from enginebench_controller.plan.plan import make_plan
    from enginebench_controller.runs.benchmarking import BenchmarkOrder, run_benchmark

    named = models if isinstance(models, Iterable) and not isinstance(models, str | PathLike) else [models]
    said = {"engines": engines, "batch": batch, "cores": cores, "duration": duration, **asked}
    plan = make_plan({"models": [model_named(one) for one in named], **listed(said)}, "run()")
    if plan.gate is not None:
        raise InputError("this is the plan of a gate: call gate(), which knows when to stop")
    place, telling = _home(home), Progress(progress or _silent)
    plan = plan.model_copy(update={"targets": chosen(place, plan.targets, telling.said)})
    order = BenchmarkOrder(plan, trusted=trust, send_on=sent_on(place, log_to))
    return measured(place, through(run_benchmark(place, order, telling.announce), telling.said))


def show(name: str, *, home: Place | None = None, stores: Place | Iterable[Place] = ()) -> "Run | Gate":
    """What was measured before: the benchmark of this id, start of an id or name, as `enginebench show`.

    `stores` are lakes to read in place of the results here, as `--store`. Raises `InputError` for what is unknown.
    """
    from enginebench.results import stored

    return stored(_home_to_read(home, stores), name)


def compare(
    *names: "str | Run | Gate",
    practical: float | str | None = None,
    home: Place | None = None,
    stores: Place | Iterable[Place] = (),
) -> "Comparison":
    """Say which is faster, by how much, and how sure that is, as `enginebench compare`.

    `names` are runs, or ids, starts of ids or names of benchmarks, of profiles, or ids of measurements: each is
    compared with the first, one benchmark alone within itself. `practical` is the smallest difference worth speaking
    of, in per cent or as "2%"; `stores` are lakes to read in place of the results here, as `--store`. Raises
    `InputError` for what is unknown or has nothing to compare.
    """
    from enginebench.results import compared

    place = _home_to_read(home, stores)
    return compared(place, [one if isinstance(one, str) else getattr(one, "id", str(one)) for one in names], practical)


def gate(
    base: Place,
    head: Place,
    model: Place | None = None,
    *,
    engine: str | None = None,
    budget: float | str = "2m",
    tolerate: float | str = "1%",
    metrics: str | Iterable[str] = "latency",
    layers: bool = True,
    home: Place | None = None,
    trust: bool = False,
    log_to: str | Iterable[str] = (),
    progress: Tell | None = None,
    **asked: Any,
) -> "Gate":
    """Say whether head is worse than base, within a budget, as `enginebench gate`: docs/guide/gate.md.

    Without `model` both sides are models; else they say what to run it on: "onnxruntime==1.24.1", "onnxruntime@old",
    "onnxruntime:OPTION=VALUE", "plugin:FOLDER". `budget` is how long to measure at most, in seconds or as "2m";
    `tolerate` how much worse head may be, in per cent or as "1%"; `metrics` are those that may fail it; `layers`
    profiles both sides where they differ. `asked` are fields of a plan with one value each, such as `batch` or `cores`.
    The rest is as for `run`, and so are the errors; a gate that is worse, or cannot tell, raises none.
    """
    from enginebench.results import Progress, chosen, gated, listed, model_named, sent_on, through
    from enginebench_controller.plan.gate import GateOrder
    from enginebench_controller.runs.gate import carry_out

    place, fields, telling = _home(home), listed(asked), Progress(progress or _silent)
    if "targets" in fields:
        fields["targets"] = chosen(place, fields["targets"], telling.said)
    order = GateOrder(
        base=model_named(base),
        head=model_named(head),
        model=None if model is None else model_named(model),
        engine=engine,
        budget=str(budget),
        tolerate=str(tolerate),
        metrics=(metrics,) if isinstance(metrics, str) else tuple(metrics),
        fields=fields,
        explain=layers,
        trusted=trust,
    )
    return gated(through(carry_out(place, order, telling, sent_on(place, log_to)), telling.said))


def open_store(home: Place | None = None, *, stores: Place | Iterable[Place] = ()) -> "Store":
    """The results that are kept: records by name, and by SQL with `query`. Nothing is created before it is written.

    `home` is the folder of a controller; None for the one that `ENGINEBENCH_HOME` names, or the user's own. `stores`
    are lakes to read in place of the results there, as `--store`; without `home`, those of `ENGINEBENCH_STORE`. The
    methods raise `StoreError` for what cannot be read and `InputError` for what is not there.
    """
    return _home_to_read(home, stores).store


def table(rows: "Iterable[Mapping[str, Any]] | QueryResult") -> Any:
    """Rows, or what a query answered, as a DataFrame: of pandas, else of polars; a list of dicts without either.

    Warns where a query's answer was cut off. A second column of a name has a number behind it.
    """
    from enginebench.results import frame

    return frame(rows)


def _silent(sentence: str) -> None:
    """Nobody wants to know."""


def _home(path: Place | None) -> "Home":
    from enginebench_controller.home import Home, default_home
    from enginebench_controller.typed_paths import typed_path

    return default_home() if path is None else Home(typed_path(path))


def _home_to_read(path: Place | None, stores: Place | Iterable[Place]) -> "Home":
    """As commands that read: of a `home` that is named its own results, unless `stores` are."""
    from dataclasses import replace

    from enginebench_controller.home import home_to_read

    lakes = tuple(map(str, (stores,) if isinstance(stores, str | PathLike) else stores))
    if path is None:
        return home_to_read(lakes)
    return replace(home_to_read(lakes), path=_home(path).path) if lakes else _home(path)


def __getattr__(name: str) -> Any:
    """What calls hand back, by name, for who writes types down: loaded where somebody asks."""
    if name in ("Comparison", "Gate", "Run"):
        from enginebench import results

        return getattr(results, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
