"""What a person asks a bisect for: candidates in their order, from good to bad, and what each is run as."""

import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from enginebench_controller.errors import InputError
from enginebench_controller.plan.configurations import owner_of
from enginebench_controller.plan.gate import PLUGIN, GateSide, checked_terms, parse_sides
from enginebench_controller.plan.options import words_of
from enginebench_controller.plan.plan import Duration, GateMetric, Percent, parse_percent
from enginebench_controller.typed_paths import is_file, typed_path
from enginebench_controller.typed_values import undivided, wrong_value

METRICS = (GateMetric.LATENCY, GateMetric.FIRST_INFERENCE, GateMetric.COMPILE, GateMetric.MEMORY)
MOST_CANDIDATES = 10_000


class BisectKind(StrEnum):
    """What the candidates are."""

    VERSIONS = "versions"
    MODELS = "models"
    OPTIONS = "options"


class BisectOrder(BaseModel):
    """What is to be bisected. `fields` are the plan's own, such as batch.

    Of versions, `package` is what they are of, from the package index or from the folder `wheels`; of options,
    `option` is the one that has them as values. `digests` are the exact versions that the names of models mean.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: BisectKind
    candidates: Annotated[tuple[str, ...], Field(max_length=MOST_CANDIDATES)]
    engine: str
    model: str | None = None
    package: str | None = None
    wheels: str | None = None
    option: str | None = None
    worse: Percent = "5%"
    metric: GateMetric = GateMetric.LATENCY
    budget: Duration = "2m"
    fields: Mapping[str, Any] = {}
    digests: Mapping[str, str] = {}
    trusted: bool = False
    command: str = ""
    """What asks for the same again."""

    @property
    def worse_share(self) -> float:
        """From which difference on it counts."""
        return parse_percent(self.worse)

    @property
    def name(self) -> str:
        """What the search is called."""
        ends = f"{self.labels[0]} to {self.labels[-1]}"
        metric = "" if self.metric is GateMetric.LATENCY else f", {self.metric}"
        if self.model is None:
            return f"bisect of {ends} on {self.engine}{metric}"
        what = f"{self.engine}.{self.option}" if self.option else self.package or self.engine
        return f"bisect of {what} {ends} with {self.model.rpartition('/')[2]}{metric}"

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are run."""
        return self.candidates if self.model is None else (self.model,)

    @property
    def labels(self) -> tuple[str, ...]:
        """What the candidates are called: models by their files' names, where these tell them apart."""
        short = tuple(map(_label_of, self.candidates))
        is_short = self.kind is BisectKind.MODELS and len(set(short)) == len(short)
        return short if is_short else self.candidates

    def title(self, place: int) -> str:
        """What a candidate is called in full."""
        name = self.labels[place]
        if self.kind is BisectKind.VERSIONS:
            return f"{self.package}=={name}"
        return name if self.kind is BisectKind.MODELS else f"{self.engine}:{self.option}={name}"

    def environments(self, search_id: str, place: int) -> Mapping[str, tuple[str, ...]]:
        """The environments that may be made for a version, with what is asked for beside it; none for the rest.

        Wheels of before 2024-06 were built for NumPy 1 without saying so: with NumPy 2 they cannot be imported, or
        crash at the first inference. As nothing tells beforehand, that is tried where nothing else works.
        """
        if self.kind is not BisectKind.VERSIONS:
            return {}
        version = "".join(c if c.isalnum() or c in ".-_" else "-" for c in self.candidates[place])
        name = f"{prefix(search_id)}{version}"
        return {name: (), f"{name}-numpy1": ("numpy<2",)}

    def side(self, place: int, environment: str | None = None) -> GateSide:
        """What a gate runs for a candidate; of a version, in the environment that was made for it."""
        if self.kind is BisectKind.VERSIONS:
            return GateSide(self.title(place), engine=self.engine, environment=environment)
        said = self.candidates[place] if self.kind is BisectKind.MODELS else self.title(place)
        return parse_sides(self.model, said, said, self.engine)[0]


def prefix(search_id: str) -> str:
    """What the names of all environments begin with that are made for a bisect; nobody else's do."""
    return f"bisect-{search_id[:8]}-"


def make_order(fields: Mapping[str, Any]) -> BisectOrder:
    """Check what was asked for. Raises `InputError` for what no bisect can be about."""
    if fields.get("metric") not in (None, *METRICS):
        raise InputError(f"--metric {fields['metric']} cannot be bisected: give one of {', '.join(METRICS)}")
    try:
        order = BisectOrder.model_validate({key: value for key, value in fields.items() if value is not None})
    except ValidationError as error:
        told = [(one, str(one["loc"][0]).replace("_", "-")) for one in error.errors()]
        raise InputError("\n".join(f"--{name}: {wrong_value(problem)}" for problem, name in told)) from None
    if order.worse_share <= 0:
        raise InputError(f"--worse {order.worse} is nothing that noise does not do, too: give 1% or more")
    check_is_there(order.engine)
    checked_terms({"budget": order.budget})
    _check_candidates(order)
    _check_option(order)
    return order


def check_is_there(engine: str) -> None:
    """Raise `InputError` for an engine that would have to be installed, before an index is asked for its versions."""
    if "==" in engine or engine.startswith(PLUGIN):
        raise InputError(
            f"--engine {engine} would have to be installed, and a bisect installs nothing but the versions that it is "
            "of: name an engine that is there, as E or E@ENVIRONMENT"
        )


def bisect_command(
    model: str | None, said: Mapping[str, object], fields: Mapping[str, Any], *, trusted: bool = False
) -> str:
    """The command that asks for a bisect again: what was `said` by the options' names, but for defaults.

    It writes no files, and shows the answer as a person reads it.
    """
    usual = {name: field.default for name, field in BisectOrder.model_fields.items()}
    options = [(f"--{name}", str(value)) for name, value in said.items() if value not in (None, usual.get(name))]
    words = [word for option in options for word in option] + ["--trust"] * trusted
    return shlex.join(["enginebench", "bisect", *([] if model is None else [model]), *words, *words_of(fields)])


def _check_candidates(order: BisectOrder) -> None:
    twice = [one for number, one in enumerate(order.candidates) if one in order.candidates[:number]]
    if twice:
        raise InputError(f"{twice[0]} is there twice: a bisect looks for one change in an order")
    if len(order.candidates) < 2:
        raise InputError(f"a bisect needs two {order.kind} or more: good, bad, and those between them")


def _check_option(order: BisectOrder) -> None:
    key = f"{order.engine.partition('@')[0]}.{order.option}"
    fixed = order.fields.get("options") or {}
    if order.option is not None and key in fixed:
        raise InputError(f"--option {key}={fixed[key]} fixes the very option that --options bisects: leave it out")


def listed_models(text: str) -> tuple[str, ...]:
    """The models of "A,B,…". Raises `InputError` where the file that is meant has a comma in its name."""
    parts = [part.strip() for part in text.split(",")]
    for first, one in enumerate(parts):
        if not one or is_file(one):
            continue
        for behind in range(first + 2, min(first + _MOST_PARTS, len(parts)) + 1):
            name = ",".join(text.split(",")[first:behind]).strip()
            if is_file(name):
                raise InputError(
                    f"commas part the models of --models, and {name} has one in its name: rename it, or give its "
                    f"digest, or NAME, after `enginebench models add {shlex.quote(name)} --name NAME`"
                )
    return tuple(filter(None, parts))


_MOST_PARTS = 4
"""Of so many parts the name of a file is looked for."""


def narrowed(
    candidates: Sequence[str], good: str | None, bad: str | None, *, are_models: bool = False
) -> tuple[str, ...]:
    """Those from good to bad of a list that was given in its order; models also by another path, or their label.

    Raises `InputError`.
    """
    place = partial(_place, candidates=candidates, are_models=are_models)
    first = place("--good", good) if good is not None else 0
    last = place("--bad", bad) if bad is not None else len(candidates) - 1
    if good is not None and bad is not None and first == last:
        both = good if good == bad else candidates[first]
        raise InputError(f"--good and --bad are both {both}: there is nothing between them")
    if first > last:
        raise InputError(f"--good {good} stands behind --bad {bad} in the order that was given: exchange them")
    found = tuple(candidates[first : last + 1])
    if are_models:
        _check_files(found)
    return found


def _place(option: str, said: str, *, candidates: Sequence[str], are_models: bool) -> int:
    """Which of the candidates is meant."""
    meanings: tuple[Callable[[str], object], ...] = (str, _file_of, _label_of) if are_models else (str,)
    for meaning in meanings:
        found = [place for place, one in enumerate(candidates) if meaning(one) == meaning(said)]
        if len({candidates[place] for place in found}) > 1:
            told = " or ".join(candidates[place] for place in found)
            raise InputError(f"{option} {said} may mean {told}: give one of them as it stands there")
        if found:
            return found[0]
    raise InputError(f"{option} {said} is not among those given: {', '.join(candidates)}")


def _file_of(model: str) -> Path:
    return Path(os.path.realpath(typed_path(model)))  # unlike `resolve` it takes links in a circle


def _label_of(model: str) -> str:
    return Path(model).name


def _check_files(models: Sequence[str]) -> None:
    """Refuse two words for one file."""
    known: dict[Path, str] = {}
    for one in models:
        other = known.setdefault(_file_of(one), one)
        if other != one:
            raise InputError(f"{one} is there twice, as {other}, too: a bisect looks for one change in an order")


def parse_option(text: str, engine: str | None, known: Collection[str] = ()) -> tuple[str, str, tuple[str, ...]]:
    """Engine, option and values of "E.O=1,2,3", or of "O=1,2,3" where the engine was named. Raises `InputError`.

    The names of engines that are `known` may have points.
    """
    named, equals, values = text.partition("=")
    has_owner = "." in named
    engines = known if engine is None else (*known, engine)
    owner = owner_of(named, engines) if has_owner else engine or ""
    option = named.removeprefix(f"{owner}.")
    listed = tuple(part.strip() for part in values.split(",") if part.strip())
    if not equals or not owner or not option or not listed:
        raise InputError(f"--options {text!r} is not of the form E.O=1,2,3: an engine, its option, and values in order")
    try:
        undivided(listed)
    except ValueError as error:
        raise InputError(f"--options {text!r}: {error}") from None
    if engine is not None and has_owner and owner != engine:
        raise InputError(f"--options {text} is of {owner}, and --engine says {engine}: leave one of them out")
    return owner, option, listed
