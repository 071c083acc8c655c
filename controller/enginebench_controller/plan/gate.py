"""What a person writes for base and head of a gate, and the plan with its three rungs that comes of it."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_controller.models.formats.signature import ModelDescription
from enginebench_controller.plan.alike_inputs import check_alike
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.configurations import select_engines
from enginebench_controller.plan.expand import Expansion, contradictions
from enginebench_controller.plan.plan import (
    BASE,
    CONTROL,
    HEAD,
    LONGEST_BUDGET_NS,
    ROLES,
    GateMetric,
    GateTerms,
    Plan,
    Rung,
    make_plan,
    parse_duration_ns,
)
from enginebench_controller.records import (
    AvailableEngine,
    Load,
    ModelVersion,
    TargetSnapshot,
    UnavailableEngine,
)
from enginebench_controller.stats.paired import FEWEST_PAIRS
from enginebench_controller.typed_paths import is_file, typed_path
from enginebench_proto.agreed.words import DEFAULT_ENVIRONMENT, SUFFIXES

PROCESS_MS, WARMUP_MS, BLOCK_MS = 600, 200, 50
"""Of each process: many short ones, since it is from process to process that luck is drawn anew."""
ITERATIONS = 6
SHORTEST_BUDGET_S = 30.0
"""In less, slow engines have not been started twice on each side."""
MOST_PAIRS = 1000


PLUGIN = "plugin:"
FORMS = "E==VERSION, E@ENVIRONMENT, E:OPTION=VALUE or plugin:FOLDER"

_ENGINE = re.compile(
    r"(?P<engine>[A-Za-z0-9][A-Za-z0-9_.-]*)?"
    r"(?:==(?P<version>[^@:=\s]+)|@(?P<environment>[^@:=\s]+))?"
    r"(?::(?P<options>[^:=\s]+=.*))?"
)
_OPTION_STARTS = re.compile(r",(?=[^,=]+=)")
_ZEROS = re.compile(r"(\.0)+$")
_NOT_THE_PROJECT = frozenset({"__pycache__", "build", "dist", "node_modules", "venv"})


@dataclass(frozen=True)
class GateSide:
    """Base or head as it was written: a model, or an engine with what is special about it."""

    text: str
    model: str | None = None
    engine: str | None = None
    version: str | None = None
    environment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    plugin: Path | None = None


def parse_sides(model: str | None, base: str, head: str, engine: str | None) -> tuple[GateSide, GateSide]:
    """Read both sides; `engine` is what both have in common. Raises `InputError`.

    Without a `model` the sides are models, all on that engine; else they say what to run the model on. An engine that
    neither uses is refused, and so are its version, environment and options: who names it believes that it is measured.
    """
    engine = engine or None  # a script has an empty one where nobody names any
    if model is not None:
        first, second = (_engine_side(name, text, engine) for name, text in (("--base", base), ("--head", head)))
        names_theirs = not any(_names_no_engine(text) for text in (base, head))
        if engine and names_theirs and engine not in (first.engine, second.engine):
            raise InputError(
                f"--engine {engine} is used by neither side, as --base {base} and --head {head} name their own: leave "
                "it out, or leave theirs out"
            )
        return first, second
    common = GateSide("", None) if engine is None else _engine_side("--engine", engine, None)
    for name, text in (("--base", base), ("--head", head)):
        if _reads_as_engine(text):
            raise InputError(
                f"{name} {text} says what to run a model on, and no model was named: enginebench gate MODEL "
                f"--base {base} --head {head}"
            )
    first, second = (
        GateSide(text, text, common.engine, common.version, common.environment, common.options, common.plugin)
        for text in (base, head)
    )
    return first, second


def _reads_as_engine(text: str) -> bool:
    return (text.startswith(PLUGIN) or (bool(_ENGINE.fullmatch(text)) and any(c in text for c in "=@"))) and not Path(
        text
    ).exists()


def _reads_as_model(text: str) -> bool:
    """Whether it is a model's file and no engine, whose name may have points too."""
    suffix = Path(text).suffix
    return suffix.lower() in SUFFIXES or (bool(suffix) and is_file(text))


def _engine_side(name: str, text: str, engine: str | None) -> GateSide:
    if text.startswith(PLUGIN):
        own = GateSide(text, plugin=_project(name, text))
        return own if engine is None else _completed(name, own, _engine_side("--engine", engine, None))
    found = _ENGINE.fullmatch(text)
    if found is None or not text or (found["engine"] == text and _reads_as_model(text)):
        raise InputError(f"{name} {text!r} is not of the form {FORMS}; two models are compared without MODEL")
    own = GateSide(text, None, found["engine"], found["version"], found["environment"], _options(found["options"]))
    if own.engine is not None:
        return own
    if engine is None:
        raise InputError(f"{name} {text!r} names no engine: write E{text}, or add --engine E")
    return _completed(name, own, _engine_side("--engine", engine, None))


def _names_no_engine(text: str) -> bool:
    """Whether a side leaves its engine to `--engine`."""
    found = _ENGINE.fullmatch(text)
    return text.startswith(PLUGIN) or (found is not None and found["engine"] is None)


def _completed(name: str, side: GateSide, common: GateSide) -> GateSide:
    """A side that names no engine, on the one that both have in common. Raises `InputError` where both say which."""
    if all(one.version or one.environment or one.plugin for one in (side, common)):
        which = common.engine or "engine"
        raise InputError(f"{name} {side.text} and --engine {common.text} both say which {which}: leave it out of one")
    return replace(
        side,
        engine=common.engine,
        version=side.version or common.version,
        environment=side.environment or common.environment,
        options={**common.options, **side.options},
        plugin=side.plugin or common.plugin,
    )


def _options(text: str | None) -> dict[str, str]:
    """Of `a=1,b=x,y`, b is `x,y`: a comma only separates where the name of an option follows."""
    return {} if text is None else dict(part.split("=", 1) for part in _OPTION_STARTS.split(text))


def _project(name: str, text: str) -> Path:
    folder = typed_path(text.removeprefix(PLUGIN)).absolute()
    if not folder.is_dir():
        raise InputError(f"{name} {text}: there is no folder {folder}")
    if not any((folder / file).is_file() for file in ("pyproject.toml", "setup.py")):
        raise InputError(f"{name} {text}: {folder} is no plugin project, as it has no pyproject.toml")
    return folder


@dataclass(frozen=True)
class NeededEnvironment:
    """An environment that a side needs and that is not there: its name, and what `environment add` is given for it."""

    name: str
    arguments: tuple[str, ...]
    what: str

    @property
    def command(self) -> str:
        """What a person types on the machine of a target."""
        return " ".join(("enginebench-agent environment add", self.name, *self.arguments))


def needed(side: GateSide, snapshot: TargetSnapshot) -> NeededEnvironment | None:
    """What must be installed for a side on a target; None where it is there, though it may be of no use."""
    if side.plugin is None and (side.version is None or side.engine is None or _with_version(side, snapshot)):
        return None
    name = _environment_of(side)
    if any(one.environment == name for one in snapshot.engines):
        return None
    if side.plugin is not None:
        return NeededEnvironment(name, ("--package", str(side.plugin)), f"the plugin project {side.plugin}")
    requirement = f"{side.engine}=={side.version}"
    return NeededEnvironment(name, ("--engine", requirement), f"{side.engine} {side.version}")


def _environment_of(side: GateSide) -> str:
    """What the environment is called that is made for a plugin project, or for a version."""
    if side.plugin is not None:
        return f"{_safe(side.plugin.name)}-{_digest(side.plugin)[:10]}"
    return _safe(f"{side.engine}-{side.version}")


def chosen_engine(side: GateSide, snapshot: TargetSnapshot) -> str | None:
    """The engine of a side as a plan names it, once all is installed; None where nobody said any.

    Raises `InputError`.
    """
    if side.plugin is not None:
        return _of_plugin(side, snapshot)
    if side.engine is None:
        return None
    if side.version is not None:
        found = _with_version(side, snapshot)
        if not found:
            raise InputError(_unusable(_environment_of(side), f"{side.engine} {side.version}", snapshot))
        return f"{side.engine}@{found[0].environment}"
    name = f"{side.engine}@{side.environment}" if side.environment else side.engine
    _, problems = select_engines([name], snapshot.engines, snapshot.target)
    if problems:
        raise InputError("\n".join(problems))
    return name


def _with_version(side: GateSide, snapshot: TargetSnapshot) -> list[AvailableEngine]:
    """The usable engines of that very version, whatever build of it, that of the default environment first."""
    usable = [one for one in snapshot.available if one.name == side.engine]
    found = [one for one in usable if _is_version(one.version, str(side.version))]
    return sorted(found, key=lambda one: one.environment != DEFAULT_ENVIRONMENT)


def _is_version(there: str, asked: str) -> bool:
    """Whether pip installs `there` for `==asked`: 1.20.0 is 1.20, 1.20.1 is a 1.20.*, and any build is of a version."""
    public = there if "+" in asked else there.partition("+")[0]
    if asked.endswith(".*"):
        return f"{public}.".startswith(asked.removesuffix("*"))
    return _ZEROS.sub("", public) == _ZEROS.sub("", asked)


def _of_plugin(side: GateSide, snapshot: TargetSnapshot) -> str:
    assert side.plugin is not None  # noqa: S101  # asked by who calls
    name = _environment_of(side)
    usable = [one for one in snapshot.available if one.environment == name]
    if side.engine is not None:
        usable = [one for one in usable if one.name == side.engine]
    if not usable:
        raise InputError(_unusable(name, f"the plugin project {side.plugin}", snapshot))
    if len(usable) > 1:
        names = ", ".join(sorted(one.name for one in usable))
        raise InputError(f"{side.text} brings several engines ({names}): name one with --engine")
    return f"{usable[0].name}@{name}"


def _unusable(environment: str, what: str, snapshot: TargetSnapshot) -> str:
    """Why what was installed cannot be used; no engine at all is a reason, too."""
    reasons = [
        one.reason.splitlines()[0]
        for one in snapshot.engines
        if one.environment == environment and isinstance(one, UnavailableEngine)
    ]
    why = reasons[0] if reasons else "its environment lists no such engine"
    return f"{what} was installed on {snapshot.target} and cannot be used: {why}"


def _digest(folder: Path) -> str:
    """Of all files that make the project, so that another state of it is another environment."""
    told = hashlib.sha256()
    for path in sorted(_files(folder)):
        told.update(f"{path.relative_to(folder)}\0".encode())
        told.update(hashlib.sha256(path.read_bytes()).digest())
    return told.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        is_part = not path.name.startswith(".") and not path.name.endswith(".egg-info")
        if path.name in _NOT_THE_PROJECT or not is_part or path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)


def rung_fields(side: GateSide, engine: str | None) -> dict[str, Any]:
    """The fields of the plan in which this side differs from the other."""
    fields: dict[str, Any] = {} if side.model is None else {"models": [side.model]}
    if engine is not None:
        fields["engines"] = [engine]
        fields["options"] = {f"{engine.partition('@')[0]}.{name}": value for name, value in side.options.items()}
    return fields


@dataclass(frozen=True)
class GateOrder:
    """What a person asks for. Without `model` the sides are models; `fields` are the plan's own, such as batch.

    `explain` profiles both sides where they differ; whoever is `strict` takes what cannot be told for a failure. A
    local agent may run the models of a `trusted` order although their format can execute code.
    """

    base: str
    head: str
    model: str | None = None
    engine: str | None = None
    budget: str = "2m"
    tolerate: str = "1%"
    metrics: tuple[str, ...] = (GateMetric.LATENCY,)
    fields: Mapping[str, Any] = field(default_factory=dict)
    explain: bool = True
    strict: bool = False
    trusted: bool = False


DECIDED = (
    "models",
    "engines",
    "gate",
    "rungs",
    "ladder",
    "search",
    "interleave",
    "processes",
    "duration",
    "iterations",
)
"""Fields of a plan that follow from what a gate is of, and how long it may take."""


def common_plan(order: GateOrder, sides: tuple[GateSide, GateSide]) -> Plan:
    """The plan without what tells the sides apart. Raises `InputError`."""
    if decided := [name for name in DECIDED if name in order.fields]:
        raise InputError(f"a gate decides {', '.join(decided)} itself, by its sides and its budget: leave that out")
    terms = {
        "budget": order.budget,
        "tolerate": order.tolerate,
        "metrics": list(dict.fromkeys(order.metrics)),
        "strict": order.strict,
        "base": _called(sides[0], order),
        "head": _called(sides[1], order),
    }
    checked = checked_terms(terms)
    name = f"gate of {checked.head} against {checked.base}"
    fields = {
        "name": name,
        "models": [order.model] if order.model else [side.model for side in sides],
        "interleave": "device",
        "interval": "0%",
        # Who shares the machine's mood needs no quiet: what it takes to wait for that is worth more pairs.
        "wait_quiet": "0s",
        "retry_noisy": False,
        "warmup": f"{WARMUP_MS}ms",
        "block": f"{BLOCK_MS}ms",
        "gate": checked.model_dump(mode="json"),
        **order.fields,
        **_length(checked),
    }
    return gate_plan(fields)


def gate_plan(fields: Mapping[str, Any]) -> Plan:
    """The plan of these fields, as a gate can have it.

    Raises `InputError` for what is no plan, one that contradicts itself, or one of several configurations or targets.
    """
    plan = make_plan(fields, "gate")
    axes = {
        **{"batch": plan.batch, "cores": plan.cores, "device": plan.devices, "precision": plan.precision},
        **{"load": plan.load, "streams": plan.streams, "requests": plan.requests, "hint": plan.hint},
    }
    several = [name for name, values in axes.items() if len(values) > 1 or (name, values) == ("device", ("all",))]
    if several:
        raise InputError(f"a gate is of one configuration: give --{several[0]} one value")
    if len(plan.targets) > 1:
        raise InputError("a gate is of one target: give one --target")
    if Load.OPEN_LOOP in plan.load:
        raise InputError(
            "a gate takes turns, which an open loop cannot: give --load async, and --requests for how many at once"
        )
    if (wrong := next(contradictions(plan), None)) is not None:
        raise InputError(wrong)  # before anything is installed for it
    return plan


def checked_terms(fields: Mapping[str, Any]) -> GateTerms:
    """The terms of a gate. Raises `InputError` for what no gate can have."""
    plan = make_plan({"models": ["any"], "gate": dict(fields)}, "gate")
    assert plan.gate is not None  # noqa: S101  # given above
    budget_ns = parse_duration_ns(plan.gate.budget)
    if budget_ns > LONGEST_BUDGET_NS:
        raise InputError(f"--budget {plan.gate.budget} is longer than an hour, the longest that a gate takes")
    if budget_ns < SHORTEST_BUDGET_S * 1e9:
        raise InputError(
            f"--budget {plan.gate.budget} is too short: {FEWEST_PAIRS} process pairs tell something, and what an "
            f"engine needs to start comes on top: give {SHORTEST_BUDGET_S:g}s or more"
        )
    return plan.gate


def _length(terms: GateTerms) -> dict[str, Any]:
    """So many processes at most, and how long they take together."""
    shortest_ns = len(ROLES) * (PROCESS_MS + WARMUP_MS) * 1_000_000
    most = min(MOST_PAIRS, max(FEWEST_PAIRS, parse_duration_ns(terms.budget) // shortest_ns))
    return {"processes": most, "duration": f"{most * PROCESS_MS}ms", "iterations": most * ITERATIONS}


def _called(side: GateSide, order: GateOrder) -> str:
    text = side.text
    if side.model is None and side.plugin is None and order.engine and not text.startswith(side.engine or ""):
        text = f"{side.engine}{text}"
    return text


def with_rungs(plan: Plan, sides: tuple[GateSide, GateSide], snapshot: TargetSnapshot, binder: Binder) -> Plan:
    """The plan with base, head and control as rungs."""
    engines = [chosen_engine(side, snapshot) for side in sides]
    if engines == [None, None]:
        engines = [_common_engine(plan, snapshot, binder)] * 2
    rungs = []
    for role, side, engine in (
        (BASE, sides[0], engines[0]),
        (HEAD, sides[1], engines[1]),
        (CONTROL, sides[0], engines[0]),
    ):
        fields = rung_fields(side, engine)
        fields["options"] = dict(plan.options) | fields.get("options", {})
        fields.setdefault("models", list(plan.models[:1]))
        rungs.append(Rung(name=role, title=role, fields=fields))
    names = list(dict.fromkeys(engine for engine in engines if engine))
    return plan.model_copy(update={"rungs": tuple(rungs), "engines": tuple(names)})


def _common_engine(plan: Plan, snapshot: TargetSnapshot, binder: Binder) -> str:
    """The one engine that reads both models, where nobody named any. Raises `InputError`."""
    formats = {version.format for version in binder.versions}
    usable = [one for one in snapshot.available if not one.hidden]
    able = sorted({one.name for one in usable if formats <= set(one.formats)})
    if len(able) == 1:
        return able[0]
    if able:
        raise InputError(f"{', '.join(able)} read both models: name one with --engine")
    told = " and ".join(sorted(formats))
    raise InputError(f"no engine on target {snapshot.target!r} reads both models ({told}): convert one of them")


def check_sides(plan: Plan, expansion: Expansion, describe: Callable[[ModelVersion], ModelDescription]) -> None:
    """Raise `InputError` where the sides are not one configuration each, or do not take the same inputs.

    `describe` tells what a model asks for itself.
    """
    if len(expansion.cases) != len(ROLES):
        raise InputError("\n".join(["a side comes to nothing", *expansion.notes]))
    base, head, _ = expansion.cases
    if base.resources != head.resources:
        raise InputError("base and head would use different devices, so they cannot take turns: give --device")
    assert plan.gate is not None  # noqa: S101  # a gate's
    check_alike((plan.gate.base, base), (plan.gate.head, head), describe)
