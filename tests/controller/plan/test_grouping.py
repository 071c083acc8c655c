"""Who takes turns with whom: what one answer compares, and what runs alone instead of being refused."""

from dataclasses import replace
from typing import Any

import pytest

import invented
from controller.plan.test_expand import INPUTS, ONNX, engine, target
from enginebench_controller.errors import PlanError
from enginebench_controller.plan.configurations import BoundModel
from enginebench_controller.plan.expand import Case, Expansion, Interleave, expand, time_limit_ns
from enginebench_controller.plan.grouping import in_turns
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.records import TargetSnapshot
from enginebench_controller.runs.groups import groups_of
from enginebench_controller.runs.undertaking import Undertaking

INT8 = replace(ONNX, digest="b" * 64, name="net-int8", parent_digest=ONNX.digest, derivation=invented.INT8)
OTHER = replace(ONNX, digest="c" * 64, name="other")
VERSIONS = {one.name: one for one in (ONNX, INT8, OTHER)}
TWO = target(engine("ort"), engine("vino"))


def planned(*targets: TargetSnapshot, **fields: Any) -> Expansion:
    plan = make_plan({"models": ["net"], **fields}, "run")
    expansion = expand(plan, targets, lambda name, _batch: BoundModel(VERSIONS[name], INPUTS))
    return in_turns(plan, expansion, targets)


def groups(cases: tuple[Case, ...], *, of_device: bool = False) -> list[int]:
    """How many are carried out together, group by group."""
    interleave = Interleave(7, of_device=of_device)
    return [len(group.members) for group in groups_of([Undertaking(case) for case in cases], "b1", interleave)]


@pytest.mark.parametrize(
    ("fields", "sizes"),
    [
        ({}, [2]),
        ({"batch": [1, 4]}, [2, 2]),
        ({"batch": [1, 4], "cores": [1, 2]}, [2] * 4),
        ({"engines": ["ort"], "batch": [1, 4]}, [1, 1]),
        ({"models": ["net", "net-int8", "other"]}, [4, 2]),
        ({"engines": ["ort"], "models": ["net", "net-int8"]}, [2]),
        ({"engines": ["ort"], "models": ["net", "other"]}, [1, 1]),
        ({"load": ["sync", "async"]}, [2, 2]),
        ({"load": ["async"], "requests": [2, 4]}, [4]),
        ({"interleave": False}, [1, 1]),
    ],
)
def test_a_group_is_what_one_answer_compares(fields: dict[str, Any], sizes: list[int]) -> None:
    assert sorted(groups(planned(TWO, **fields).cases)) == sorted(sizes)


def test_environments_take_turns_and_targets_do_not() -> None:
    versions = target(engine("ort"), engine("ort", environment="old", version="0.9"))
    assert groups(planned(versions, engines=["ort@*"]).cases) == [2]
    both = [replace(TWO, target=name) for name in ("nuc", "board")]
    assert groups(planned(*both).cases) == [2, 2]


def test_in_turns_there_are_more_and_shorter_processes_unless_it_is_said_how_many() -> None:
    rules = {case.configuration.stop for case in planned(TWO).cases}
    (rule,) = rules
    assert (rule.processes, rule.min_duration_ns, rule.target_relative_half_width) == (5, 6_000_000_000, 0)
    (said,) = {case.configuration.stop for case in planned(TWO, processes=2, interval="2%").cases}
    assert (said.processes, said.target_relative_half_width) == (2, 0.02)
    (alone,) = {case.configuration.stop for case in planned(TWO, engines=["ort"]).cases}
    assert (alone.processes, alone.target_relative_half_width) == (3, 0.01)


def limit_s(**fields: Any) -> float:
    return time_limit_ns(make_plan({"models": ["net"], **fields}, "run"), planned(TWO, **fields).cases) / 1e9


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, 1800),
        ({"duration": "20m"}, 2 * (1200 + 2.5)),
        ({"duration": "20m", "engines": ["ort"]}, 2 * (2000 + 2.5)),
        ({"duration": "2h", "max_duration": "3h", "warmup": "1m", "engines": ["ort"]}, 2 * (3600 + 62)),
        ({"timeout": "45m"}, 2700),
        ({"timeout": "30m", "duration": "2h"}, 1800),
    ],
)
def test_a_process_has_time_for_the_longest_that_it_may_measure_unless_it_is_said_how_much(
    fields: dict[str, Any], seconds: float
) -> None:
    assert limit_s(**fields) == seconds


def test_a_time_limit_that_no_process_can_keep_is_refused_with_what_would_do() -> None:
    with pytest.raises(PlanError) as refused:
        limit_s(engines=["ort"], timeout="30m", duration="2h")
    assert str(refused.value) == (
        "--timeout 30m is too short: a process takes 2400.5 s, its warm-up and its share of --duration, at the least; "
        "raise it, shorten --duration, or give more --processes"
    )


def test_what_cannot_take_turns_runs_alone_and_a_note_says_why() -> None:
    open_loop = planned(TWO, load=["open-loop"], rate=[5])
    assert groups(open_loop.cases) == [1, 1]
    assert open_loop.notes == (
        "net (nuc, CPU, batch 1, 2 cores, open-loop 5/s poisson): measured one after the other, not in turns: "
        "the arrivals of an open loop wait for nobody's turn",
    )
    small = replace(TWO, host=replace(TWO.host, memory_bytes=500_000_000))
    crowded = planned(small)
    assert groups(crowded.cases) == [1, 1] and "would take about 0.6 GB, and the target has 0.5" in crowded.notes[0]
    many = planned(target(engine("ort")), load=["async"], requests=list(range(1, 66)))
    assert groups(many.cases) == [1] * 65 and "they are 65, and at most 64 take turns" in many.notes[0]


def test_all_of_a_device_take_turns_where_that_is_asked_for() -> None:
    expansion = planned(TWO, batch=[1, 4], interleave="device")
    assert groups(expansion.cases, of_device=True) == [4]
    rules = {
        (case.configuration.stop.processes, case.configuration.stop.target_relative_half_width)
        for case in expansion.cases
    }
    assert rules == {(5, 0)}, "as where only what is compared takes turns"
    (alone,) = planned(TWO, engines=["ort"], interleave="device").cases
    assert alone.configuration.stop.processes == 3, "one by itself takes turns with nobody"


def test_rungs_of_a_ladder_are_no_rivals() -> None:
    rungs = [{"name": name, "title": name, "fields": {"engines": [name]}} for name in ("ort", "vino")]
    assert groups(planned(TWO, ladder="latency", rungs=rungs).cases) == [1, 1]
    fields = {"models": ["net"], "rungs": rungs}
    assert make_plan(fields, "run").device_takes_turns, "other rungs are: base and head of a gate"
    assert not make_plan(fields | {"ladder": "latency"}, "run").device_takes_turns
    assert not make_plan(fields | {"interleave": False}, "run").device_takes_turns
