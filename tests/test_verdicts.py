"""`benchmarks.verdicts`: a replay is charged for its time, draws neighbours, and is right on noise of known kinds."""

import math
import random
import sys
from collections import Counter
from dataclasses import replace
from math import log, log1p
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import shape_inference

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import verdict_recorder, verdicts
from benchmarks.command_line import CommandLine
from benchmarks.verdict_estimators import OVER, WITHIN, halves, over_table, within_table
from benchmarks.verdict_live import FILE, PLANTED, Live, kept, live_table, next_gate
from benchmarks.verdict_models import slowed, write_with_fixed_batch
from benchmarks.verdict_precision import precision_table
from benchmarks.verdict_recorder import QUIET, Visit, next_visit
from benchmarks.verdict_recordings import EQUAL, RecordedSide, Round, add_line, append, by_series, read
from benchmarks.verdict_replay import (
    STRETCH,
    Observed,
    Share,
    gate,
    long_run,
    observe,
    orders,
    replay,
    rivals,
)
from benchmarks.verdict_synthetic import Noise, rounds
from benchmarks.verdicts import RULE, Asked

import invented
from enginebench_controller.models.zoo import build_bytes, zoo_model
from enginebench_controller.plan.plan import BASE, CONTROL, HEAD, GateTerms, read_plan
from enginebench_controller.records import Block, Process
from enginebench_controller.verdicts.gate.results import Arm, judge, stands
from enginebench_controller.verdicts.gate.rule import GateOutcome

CALM = Noise("synthetic quiet", process_sd=0.008)
BUSY = Noise("synthetic noisy", process_sd=0.008, busy_share=0.3)
DRAWS = 150


def side(*medians, disturbed=None):
    return RecordedSide(medians, disturbed or (0,) * len(medians), (50_000_000,) * len(medians))


def one_round(*sides, wall_s=3, pair=0, case=EQUAL):
    return Round("quiet", "net", "engine", case, pair, pair, int(wall_s * 1e9), sides)


def observed(true, wall_s=2.0, count=60, sd=0.01, seed=0):
    drawn = np.random.default_rng(seed).normal(0, sd, (3, count))
    ones = np.ones(count)
    return Observed(drawn[0] + log1p(true), drawn[1], wall_s * ones, drawn[2], drawn[2] + drawn[0] + log1p(true))


def test_recordings_come_back_as_they_were_and_go_on(tmp_path: Path) -> None:
    first = list(rounds(CALM, EQUAL, 0.0, 3, seed=1))
    second = [replace(one, begun_unix_ns=one.begun_unix_ns + 10**12) for one in rounds(CALM, EQUAL, 0.0, 2, seed=2)]

    append(tmp_path, first)
    append(tmp_path, [*second, *rounds(BUSY, "planted 3 %", 0.03, 1, seed=3)])

    found = by_series(read(tmp_path))
    assert [list(one) for one in found.values() if one[0].condition == CALM.condition] == [first + second]
    assert sorted(name[3] for name in found) == [EQUAL, "planted 3 %"]


def test_a_recording_that_was_cut_is_named(tmp_path: Path) -> None:
    append(tmp_path, rounds(CALM, EQUAL, 0.0, 3, seed=1))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(ValueError, match=rf"{path.name} is damaged"):
        read(tmp_path)


def test_disturbed_blocks_are_left_out_unless_that_leaves_few() -> None:
    usual, hit = side(1.0, 2.0, 3.0, 4.0), side(1.1, 9.0, 3.3, 4.4, 5.5, disturbed=(0, 1, 0, 0, 0))
    mostly = side(1.0, 2.0, 3.0, 4.0, disturbed=(1, 1, 1, 0))

    assert one_round(usual, usual, hit).medians(0, 2) == ([1.0, 3.0, 4.0], [1.1, 3.3, 4.4])
    assert one_round(usual, usual, mostly).medians(0, 2)[0] == [1.0, 2.0, 3.0, 4.0]


def test_head_is_compared_with_both_processes_of_base() -> None:
    seen = observe([one_round(side(100.0), side(110.0), side(105.0), wall_s=2.5)])

    assert seen.ratios[0] == pytest.approx((log(1.05) + log(105 / 110)) / 2)
    assert seen.controls[0] == pytest.approx(log(1.1))
    assert seen.wall_s[0] == 2.5
    with pytest.raises(ValueError, match="round 0 of quiet, net, engine, equal has no times"):
        observe([one_round(side(0.0), side(1.0), side(1.0))])


def arms_of(found: list[Round]) -> dict[str, Arm]:
    """The same rounds as the command `gate` has them."""
    return {role: _arm([(one, one.sides[place]) for one in found]) for place, role in enumerate((BASE, CONTROL, HEAD))}


def _arm(processes: list[tuple[Round, RecordedSide]]) -> Arm:
    blocks = [
        Block(number, place, 0, 1, 1, disturbances=(invented.STEAL,) if side.disturbed[place] else ())
        for number, (_, side) in enumerate(processes)
        for place in range(len(side.medians_ns))
    ]
    medians = {(one.process, one.index): float(processes[one.process][1].medians_ns[one.index]) for one in blocks}
    begun = [Process(number, started_at_unix_ns=one.begun_unix_ns + 1) for number, (one, _) in enumerate(processes)]
    return Arm(tuple(begun), tuple(blocks), medians, 1, 1000)


@pytest.mark.parametrize("true", [0.0, 0.03])
def test_a_replay_comes_to_what_the_command_comes_to(true: float) -> None:
    drawn = list(rounds(BUSY, "planted", true, 20, seed=9))
    hit = replace(drawn[3].sides[2], disturbed=(0, 1, 1, 0, 0, 0, 0, 0, 0, 0))
    drawn[3] = replace(drawn[3], sides=(*drawn[3].sides[:2], hit))

    found = gate(observe(drawn), range(20), 60.0, RULE, 0.0)
    judged = [judge(GateTerms(budget="60s"), arms_of(drawn[:pairs])) for pairs in range(2, 21)]

    ended = next((one for one in judged if stands(one)), judged[-1])
    assert (ended.outcome, ended.pairs, ended.most) == (found.outcome, found.pairs, 20)


def test_stretches_are_of_neighbours_and_last_as_long_as_the_budget() -> None:
    seen = observed(0.0, count=40)

    for order in orders(seen, 60.0, 20, seed=1):
        assert len(order) * 2.0 >= 60
        for begin in range(0, len(order), STRETCH):
            stretch = order[begin : begin + STRETCH]
            assert stretch == [(stretch[0] + step) % 40 for step in range(STRETCH)]


def test_a_gate_is_charged_what_its_rounds_took_and_ends_within_the_budget() -> None:
    noisy = observed(0.02, wall_s=4.0, sd=0.3)
    clear = observed(0.5, wall_s=4.0, sd=0.01)

    unsure = gate(noisy, list(range(60)), 60.0, RULE, 0.0)
    sure = gate(clear, list(range(60)), 60.0, RULE, log1p(0.5))

    assert (unsure.outcome, unsure.pairs, unsure.seconds) == (GateOutcome.CANNOT_TELL, 15, 60.0)
    assert sure.outcome is GateOutcome.WORSE
    assert sure.seconds == 4.0 * sure.pairs < 30


def test_slow_rounds_cost_the_time_that_they_took() -> None:
    seen = observed(0.0, sd=0.3)
    seen.wall_s[5] = 50.0

    found = gate(seen, list(range(60)), 60.0, RULE, 0.0)

    assert found.pairs == 6  # 5 × 2 s and one of 50 s


@pytest.mark.parametrize("noise", [CALM, BUSY])
def test_equal_things_are_hardly_ever_called_worse_or_better(noise: Noise) -> None:
    seen = observe(list(rounds(noise, EQUAL, 0.0, 300, seed=4)))

    found = replay(seen, 120.0, DRAWS, rule=RULE, true=0.0)

    assert found.worse.value + found.better.value <= 0.03
    assert found.cannot_tell.value <= 0.1
    assert found.covered.value >= 0.93


@pytest.mark.parametrize(("true", "least"), [(0.03, 0.9), (0.05, 0.98)])
@pytest.mark.parametrize("noise", [CALM, BUSY])
def test_what_is_planted_is_found(noise: Noise, true: float, least: float) -> None:
    seen = observe(list(rounds(noise, "planted", true, 300, seed=5)))

    found = replay(seen, 120.0, DRAWS, rule=RULE)

    assert found.true == pytest.approx(true, abs=0.005)
    assert found.worse.value >= least
    assert found.covered.value >= 0.93


def test_what_is_better_is_told() -> None:
    assert replay(observed(-0.05), 60.0, 50, rule=RULE).better.value == 1


def test_scaling_plants_a_size() -> None:
    seen = observed(0.0)

    assert long_run(seen.slower(0.05)) - long_run(seen) == pytest.approx(log1p(0.05))
    assert replay(seen.slower(0.1), 60.0, 50, rule=RULE).worse.value == 1


def test_rivals_see_the_same_rounds() -> None:
    """Processes of both sides that share a mood differ from pair to pair, which only pairs leave out."""
    moody = observed(0.05)
    moods = np.random.default_rng(3).normal(0, 0.3, moody.base.size)
    moody.base[:] += moods
    moody.head[:] += moods

    found = rivals(moody, 60.0, 50, rule=RULE)

    assert replay(moody, 60.0, 50, rule=RULE).worse.value == 1
    assert found["Welch"].value < 0.2 > found["Mann–Whitney"].value
    assert all(one.value > 0.95 for one in rivals(observed(0.1), 60.0, 50, rule=RULE).values())


def test_a_share_has_the_exact_interval() -> None:
    assert Share(0, 40).ends == (0, pytest.approx(0.088, abs=0.001))
    assert str(Share(1, 40)) == "2.5 % (0.1–13.2)"


def test_estimators_are_chosen_on_the_earlier_half_and_judged_on_the_later() -> None:
    known = by_series(rounds(BUSY, EQUAL, 0.0, 60, seed=6))
    (series,) = known.values()

    early, late = halves(series)

    assert max(one.pair for one in early) < min(one.pair for one in late)
    assert all(name in within_table(known) for name in WITHIN)
    assert all(name in over_table(known, 5) for name in OVER)


@pytest.mark.slow
def test_the_tables_and_the_chart_come_of_any_recording(tmp_path: Path) -> None:
    found = [*rounds(CALM, EQUAL, 0.0, 30, seed=7), *rounds(CALM, "planted 3 %", 0.03, 30, seed=8)]
    asked = Asked(by_series(found), draws=3)

    gates = [verdicts.gates_within(asked, budget_s) for budget_s in verdicts.BUDGETS_S]
    text = "\n".join(verdicts.tables(asked, gates))
    curve = verdicts.power(asked)
    verdicts.draw(curve, tmp_path / "curve.svg", "synthetic")

    assert text.count("synthetic quiet · made up · none · planted 3 %") == 4
    assert "synthetic quiet · planted 3 %" in verdicts.gate_table(gates[0], gates[0].together)
    assert "synthetic quiet, 120 s" in verdicts.curve_table(curve)
    assert (tmp_path / "curve.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_a_recording_goes_on_with_whoever_has_the_fewest_rounds_until_the_time_is_spent(tmp_path: Path) -> None:
    visits = [Visit(QUIET, "net", engine) for engine in "abc"]
    done = Counter[str]()
    random.seed(1)
    for number in range(9):
        visit = next_visit(tmp_path, visits, minutes=1000)
        assert visit is not None
        done[visit.engine] += 1
        append(tmp_path, [replace(one_round(pair=number), engine=visit.engine)])

    assert done == {"a": 3, "b": 3, "c": 3}
    assert next_visit(tmp_path, visits, minutes=9 * 3 / 60 / visits[0].charged) is None


@pytest.mark.parametrize(("name", "share"), [("squeezenet", 0.03), ("squeezenet", 0.05), ("mobilenet_v2", 0.03)])
def test_a_slowed_model_multiplies_more_by_about_the_share_and_answers_the_same(
    tmp_path: Path, name: str, share: float
) -> None:
    path = write_with_fixed_batch(onnx.load_from_string(build_bytes(zoo_model(name))), tmp_path / "base.onnx")
    base = onnx.load(str(path))

    found = slowed(base, share)

    onnx.checker.check_model(shape_inference.infer_shapes(found, strict_mode=True))
    assert share * 0.6 < _macs(found) / _macs(base) - 1 < share * 1.5
    given = np.random.default_rng(1).random((1, 3, 224, 224), dtype=np.float32)
    session = pytest.importorskip("onnxruntime").InferenceSession
    answers = [
        session(one.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {one.graph.input[0].name: given})
        for one in (base, found)
    ]
    assert np.allclose(*(one[0] for one in answers), rtol=1e-3, atol=1e-5)


def _macs(model: onnx.ModelProto) -> int:
    """The multiplications of the convolutions."""
    inferred = shape_inference.infer_shapes(model)
    values = (*inferred.graph.value_info, *inferred.graph.output)
    sizes = {one.name: math.prod(each.dim_value for each in one.type.tensor_type.shape.dim) for one in values}
    weights = {one.name: math.prod(one.dims[1:]) for one in inferred.graph.initializer}
    return sum(sizes[node.output[0]] * weights[node.input[1]] for node in inferred.graph.node if node.op_type == "Conv")


def test_an_equal_model_is_another_file(tmp_path: Path) -> None:
    built = build_bytes(zoo_model("squeezenet"))
    paths = [
        write_with_fixed_batch(onnx.load_from_string(built), tmp_path / f"{name}.onnx", note=name) for name in "ab"
    ]

    assert paths[0].read_bytes() != paths[1].read_bytes()
    first, second = (onnx.load(str(path)) for path in paths)
    assert first.graph == second.graph


def live(case=EQUAL, outcome="pass", engine="a", **changes):
    return replace(Live("quiet", "net", engine, case, outcome, False, 1.0, 8, 30.0), **changes)


def test_of_three_live_gates_one_is_planted_and_each_set_has_its_share() -> None:
    random.seed(2)
    sets = [("net", engine) for engine in "abc"]
    done: list[Live] = []
    for _ in range(18):
        _, engine, case = next_gate(done, sets)
        done.append(live(case, engine=engine))
    counts = Counter((one.engine, one.case) for one in done)
    assert counts == {(engine, case): share for engine in "abc" for case, share in ((EQUAL, 4), (PLANTED, 2))}


def test_live_gates_are_kept_and_counted_by_what_they_came_to(tmp_path: Path) -> None:
    found = [live(), live(outcome="worse"), live(PLANTED, "worse"), live(PLANTED, "cannot_tell"), live(better=True)]
    for one in found:
        add_line(tmp_path / FILE, one)
    assert kept(tmp_path) == found
    assert (tmp_path / FILE).read_text(encoding="utf-8").count("\n") == 5
    table = live_table(found)
    assert "quiet, equal | 3 | 1: 33.3 %" in table and "| 1: 33.3 % (0.8–90.6) | 0: 0.0 %" in table
    assert "quiet, planted 3 % | 2 | 1: 50.0 %" in table


@pytest.mark.parametrize(("engine", "sides"), [("onnxruntime", 4), ("torch", 3)])
def test_what_is_recorded_takes_turns_like_a_gate_with_the_option_as_a_side_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, sides: int
) -> None:
    monkeypatch.setattr(verdict_recorder, "WORK", tmp_path)
    models = {side: tmp_path / f"{side}.onnx" for side in ("base", "control", EQUAL)}
    visit = Visit(QUIET, "net", engine)
    plan = read_plan(verdict_recorder._write_plan(CommandLine(tmp_path, "127.0.0.1:1"), visit, models))
    assert (len(plan.rungs), plan.interleave, plan.retry_noisy) == (sides, "device", False)
    assert [bool(rung.fields.get("options")) for rung in plan.rungs] == [False] * 3 + [True] * (sides - 3)
    assert visit.charged == pytest.approx(3 / (2 + len(visit.cases)))


def test_how_soon_a_ratio_is_known_grows_with_what_processes_differ_by(tmp_path: Path) -> None:
    assert precision_table(tmp_path, 10) == ""
    generator = np.random.default_rng(1)
    drawn = np.exp(generator.normal(0, (0.001, 0.001, 0.05), (30, 3)))
    found = [
        replace(
            one_round(*(side(*[round(1e6 * each)] * 4) for each in row), pair=place), engine="a+b+c", case="engines"
        )
        for place, row in enumerate(drawn)
    ]
    append(tmp_path / "precision", found)
    lines = precision_table(tmp_path, 50).splitlines()
    times = {
        line.split(" | ")[0].strip("| "): line.split(" | ")[2] for line in lines if " s | " in line or "never" in line
    }
    assert times["b ÷ a"] == "6 s", "three rounds of 3 s, of which two members are charged two thirds"
    assert float(times["c ÷ a"].removesuffix(" s")) > 60
    assert times["median of a"] == "3 s"
