"""Who takes turns with whom: what one answer compares, as far as it can be alive together."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from enginebench_controller.plan.expand import MAX_INTERLEAVED, Case, Expansion
from enginebench_controller.plan.plan import Plan
from enginebench_controller.records import Configuration, Load, ModelVersion, StopRule, TargetSnapshot
from enginebench_controller.records.model import families

ENGINE_BYTES = 300_000_000
"""What a process of an engine takes before it reads a model: from 100 MB (ONNX Runtime) to 400 (PyTorch)."""

COPIES_OF_A_MODEL = 3
"""Its file as read, its weights as compiled, and what flows between its layers."""

MEMORY_SHARE = 0.7
"""Of a target's memory; the rest is the system's, and what an estimate may be wrong by."""


def compared_work(configuration: Configuration) -> tuple[object, ...]:
    """What members of a group have in common, beside the family of their models and the device: what each is to do."""
    asked = configuration
    return asked.device, asked.batch, asked.place, asked.load, asked.arrivals, asked.input_set


def in_turns(
    plan: Plan, expansion: Expansion, snapshots: Sequence[TargetSnapshot], models: Iterable[ModelVersion] = ()
) -> Expansion:
    """Let the cases that one answer compares take turns, with more and shorter processes.

    `models` tell which versions are one family. Those that cannot be alive together run alone, as a note says. Where
    all of a device take turns, only their rule changes; nothing does for plans that say otherwise, for gates, which
    say it all themselves, and for ladders, whose rungs are no rivals.
    """
    if not plan.interleave or plan.ladder or plan.rungs:
        return expansion
    rule = plan.stop_rule(in_turns=True)
    if plan.device_takes_turns:
        members = Counter((case.target, case.resources) for case in expansion.cases)
        cases = [
            _with_rule(case, rule) if members[case.target, case.resources] > 1 else case for case in expansion.cases
        ]
        return replace(expansion, cases=tuple(cases))
    memory = {snapshot.target: snapshot.host.memory_bytes for snapshot in snapshots}
    names: dict[str, str] = {}
    notes = []
    for number, group in enumerate(_groups(expansion.cases, models)):
        if why := _hindrance(group, memory[group[0].target]):
            notes.append(f"{_work(group[0])}: measured one after the other, not in turns: {why}")
        else:
            names |= {case.outcome_id: f"turns-{number}" for case in group}
    cases = [
        replace(_with_rule(case, rule), turns=names[case.outcome_id]) if case.outcome_id in names else case
        for case in expansion.cases
    ]
    return replace(expansion, cases=tuple(cases), notes=(*expansion.notes, *notes))


def _with_rule(case: Case, rule: StopRule) -> Case:
    return replace(case, configuration=replace(case.configuration, stop=rule))


def _groups(cases: Sequence[Case], models: Iterable[ModelVersion]) -> list[list[Case]]:
    """The cases that one answer compares, where there are two or more."""
    root = families([*models, *(case.model for case in cases)])
    found: dict[object, list[Case]] = defaultdict(list)
    for case in cases:
        work = compared_work(case.configuration)
        found[case.target, case.resources, root[case.model.digest], work].append(case)
    return [group for group in found.values() if len(group) > 1]


def _hindrance(group: Sequence[Case], memory_bytes: int | None) -> str | None:
    """Why these cannot all be alive together."""
    if group[0].configuration.load is Load.OPEN_LOOP:
        return "the arrivals of an open loop wait for nobody's turn"
    if len(group) > MAX_INTERLEAVED:
        return f"they are {len(group)}, and at most {MAX_INTERLEAVED} take turns"
    needed = sum(ENGINE_BYTES + COPIES_OF_A_MODEL * case.model.size_bytes for case in group)
    if memory_bytes and needed > MEMORY_SHARE * memory_bytes:
        return f"all together they would take about {needed / 1e9:.2g} GB, and the target has {memory_bytes / 1e9:.2g}"
    return None


def _work(case: Case) -> str:
    asked = case.configuration
    where = f"{case.target}, {asked.device}, {asked.size}, {asked.load_in_words}"
    return f"{case.model.name} ({where})"
