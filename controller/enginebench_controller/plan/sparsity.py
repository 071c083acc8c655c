"""One pass for each share of zeros that an engine is to impose on the weights of a model."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from enginebench_controller.errors import InputError, PlanError
from enginebench_controller.plan.expand import Case, Expansion
from enginebench_controller.plan.plan import Plan
from enginebench_controller.records import IMPOSED_SPARSITY, OPTIMIZATION_LEVEL, EngineOption, TargetSnapshot


def parse_sparsities(text: str | None, option: str = "--sparsity") -> tuple[float, ...]:
    """The shares of "0,0.4,0.9", each once; none for None. Raises `InputError`."""
    try:
        found = tuple(dict.fromkeys(_share(part) for part in (text or "").split(",") if part.strip()))
    except ValueError:
        raise InputError(f"{option}: {text!r} is not a list of shares: write 0,0.5,0.9") from None
    for share in found:
        if not 0 <= share < 1:
            raise InputError(f"{option}: {share:g} is no share of zeros: write 0 for none up to 0.99 for nearly all")
    return found


def _share(text: str) -> float:
    if not text.isascii():  # float() reads the digits of every script
        raise ValueError(text)
    return float(text)


def with_sparsities(
    plan: Plan,
    expansion: Expansion,
    sparsities: Sequence[float],
    snapshots: Sequence[TargetSnapshot],
    optimization_level: int | None = None,
) -> Expansion:
    """Every case of a plan once for each sparsity, at this level if one is given, on engines that have levels.

    Where the plan asks for all engines, those that cannot impose it are left out with a note. Raises `PlanError` where
    none can, and where one cannot that is asked for by name.
    """
    if any(IMPOSED_SPARSITY in case.configuration.options for case in expansion.cases):
        raise PlanError(f"--sparsity and --option …{IMPOSED_SPARSITY}=… are two answers to one question; give one")
    able = set(_offering(snapshots, lambda option: option.name == IMPOSED_SPARSITY))
    levelled = set(_offering(snapshots, lambda option: (option.name, option.type) == (OPTIMIZATION_LEVEL, "int")))
    cases = tuple(
        _at(case, share, optimization_level if _engine(case) in levelled else None)
        for case in expansion.cases
        if _engine(case) in able
        for share in sparsities
    )
    unable = list(dict.fromkeys(case.engine.name for case in expansion.cases if _engine(case) not in able))
    if unable and (not cases or plan.engines != ("all",)):
        raise PlanError(
            f"{', '.join(unable)} cannot impose sparsity: that takes an engine with the option {IMPOSED_SPARSITY}, "
            "such as deepsparse; write --engine deepsparse, or ask for no sparsity"
        )
    notes = (f"{name} is left out: it cannot impose sparsity" for name in unable)
    return Expansion(cases, (*expansion.notes, *notes), expansion.left_out)


def _offering(
    snapshots: Sequence[TargetSnapshot], is_meant: Callable[[EngineOption], bool]
) -> Iterator[tuple[str, str, str]]:
    for snapshot in snapshots:
        for engine in snapshot.available:
            if any(map(is_meant, engine.options)):
                yield snapshot.target, engine.name, engine.environment


def _engine(case: Case) -> tuple[str, str, str]:
    return case.target, case.engine.name, case.engine.environment


def _at(case: Case, share: float, level: int | None) -> Case:
    options = {**case.configuration.options, IMPOSED_SPARSITY: f"{share:g}"}
    if level is not None:
        options[OPTIMIZATION_LEVEL] = str(level)
    return replace(case, configuration=replace(case.configuration, options=options), outcome_id=uuid.uuid4().hex)
