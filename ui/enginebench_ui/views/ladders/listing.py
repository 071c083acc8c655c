"""The list of ladders, and which of them a model, a target and a kind leave over."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from enginebench_controller.records import LOCAL_TARGET
from enginebench_controller.store.ladders import LadderEntry
from enginebench_ui.views.text import UNKNOWN, Row, instant


@dataclass(frozen=True)
class Choices:
    """What there is to choose from: names of models and targets, in alphabetical order."""

    models: tuple[str, ...]
    targets: tuple[str, ...]


def choices(entries: Iterable[LadderEntry]) -> Choices:
    """Return the models and targets that any ladder has."""
    listed = tuple(entries)
    return Choices(_names(listed, model_of), _names(listed, target_of))


def narrowed(
    entries: Iterable[LadderEntry], model: str | None = None, target: str | None = None, kind: str | None = None
) -> tuple[LadderEntry, ...]:
    """Return the ladders of this model, target and kind; None takes all."""
    return tuple(
        one
        for one in entries
        if model in (None, model_of(one)) and target in (None, target_of(one)) and kind in (None, one.kind)
    )


def ladder_rows(entries: Sequence[LadderEntry]) -> tuple[Row, ...]:
    """Return a table row a ladder."""
    return tuple(
        {
            "Model": model_of(one),
            "Target": target_of(one),
            "Ladder": one.kind,
            "Rungs with numbers": f"{one.numbered} of {one.rungs}",
            "Measured": instant(one.benchmark.created_at_unix_ns),
            "Note": _note(one),
            "Id": one.benchmark.id,
        }
        for one in entries
    )


def model_of(entry: LadderEntry) -> str:
    """Name the model as given, which every rung runs in some form."""
    return entry.model or UNKNOWN


def target_of(entry: LadderEntry) -> str:
    """Name the target; a plan without one means the agent of this machine."""
    return entry.target or LOCAL_TARGET


def _note(entry: LadderEntry) -> str:
    notes = [f"re-run of {entry.benchmark.rerun_of}"] if entry.benchmark.rerun_of else []
    return ", ".join([*notes, *(["imported"] if entry.benchmark.imported else [])])


def _names(entries: Iterable[LadderEntry], of: Callable[[LadderEntry], str]) -> tuple[str, ...]:
    return tuple(sorted({of(one) for one in entries}))
