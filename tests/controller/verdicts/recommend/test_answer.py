"""What is said of a search for a configuration: the sentence, the command, the gains, and what must not be missed."""

import json
from dataclasses import replace
from math import log

import pytest

from enginebench_controller.errors import StoreError
from enginebench_controller.plan.plan import StepPurpose, make_plan
from enginebench_controller.plan.recommend import limit_words
from enginebench_controller.records import Derivation, DerivationKind, EngineRef, Load, MachineUse
from enginebench_controller.records.model import Calibration
from enginebench_controller.records.run import ProcessUse
from enginebench_controller.verdicts.recommend import answering
from enginebench_controller.verdicts.recommend.answer import answer_document, command_label, read_answer
from enginebench_controller.verdicts.recommend.answering import limit_sentence, recommendations
from enginebench_controller.verdicts.recommend.candidates import RateTerms, Reading, Step, StepTaken
from enginebench_controller.verdicts.recommend.for_all import ForAll
from enginebench_controller.verdicts.recommend.rates import Kept, RatedCandidate, RateFound, RateRefused, next_rate
from enginebench_controller.verdicts.recommend.search import Fate, SearchOutcome
from enginebench_controller.verdicts.recommend.steps import StoredStep, share_words
from invented_recommendations import carried_out, for_two_targets, order, points


def test_the_answer_is_a_sentence_with_the_limit_and_what_it_is_better_than() -> None:
    found = carried_out(order())
    assert found.outcome is SearchOutcome.FOUND
    assert found.sentence.startswith("openvino, batch 4, 2 cores, ")
    assert "(limit 20 ms, held with 95 % confidence)" in found.sentence
    assert any(one in found.sentence for one in ("the next best (", "as good within", "not told apart from"))


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        ((1.0, 0.997, 1.004), "; as good within 1 %: "),
        ((1.0, 0.98, 1.041), "; as good within 5 %: "),
        ((1.4, 0.8, 2.4), "; not told apart from torch, batch"),
    ],
)
def test_as_good_is_what_is_known_to_be_within_a_few_per_cent_rounded_up(ratio, words) -> None:
    found = carried_out(order(axes={}, budget="1m"))
    (rival, *_) = (place for place, one in enumerate(found.tried) if one.engine == "torch")
    tried = tuple(replace(one, ratio=ratio) if place == rival else one for place, one in enumerate(found.tried))
    assert answering._lead(order(), replace(found, tried=tried, runner_up=rival)).startswith(words)


def test_what_does_more_and_may_hold_the_limits_is_not_called_as_good() -> None:
    """Limits at the p95 of a point of many noisy ones: what lies beside them cannot be told, whatever else it is."""
    told = [carried_out(order(max_latency=f"p95<{limit}ms"), noise=0.08) for limit in (4.51, 15.74)]
    unsure = [one for one in told if one.outcome is SearchOutcome.FOUND and one.tried[one.runner_up].ratio[2] < 0.99]
    assert unsure, "this is about runners-up that are better"
    for one in unsure:
        share = 1 / one.tried[one.runner_up].ratio[0]
        assert f" does {share:.2f} × as well and may hold p95 < " in one.sentence
        assert "as good" not in one.sentence


def test_its_command_and_plan_measure_that_very_configuration() -> None:
    found = carried_out(order())
    plan, best = make_plan(found.plan, "test"), found.best_point.configuration
    assert (plan.batch, plan.cores, plan.load) == ((best.batch,), (best.cores,), (best.load,))
    assert found.command.startswith("enginebench run net --engine openvino@default --batch 4 ")
    assert plan.rungs == ()


def test_the_gain_is_over_the_default_of_each_engine() -> None:
    gains = {one.engine: one for one in carried_out(order()).gains}
    assert gains.keys() == {"openvino", "torch"}
    assert 1.5 < gains["torch"].ratio[0] < 2.5
    assert 1.0 < gains["openvino"].ratio[0] < gains["torch"].ratio[0]
    assert all(one.measured for one in gains.values()), "the first look has every default"


def test_defaults_of_several_devices_are_told_apart() -> None:
    gains = {one.engine for one in carried_out(order(fields={"devices": ["all"]})).gains}
    assert gains == {"openvino on CPU", "torch on CPU", "torch on CUDA:0"}


def test_of_several_models_each_default_and_each_point_says_which_it_is_of() -> None:
    found = carried_out(order(models=["net", "other"], axes={}, budget="1m"))
    assert {one.engine for one in found.gains} == {
        f"{engine} with {model}" for engine in ("openvino", "torch") for model in ("net", "other")
    }
    assert all(found.words_of(one).startswith(f"{one.engine}, {one.model}, batch") for one in found.tried)


def test_an_engine_in_several_environments_is_told_with_them() -> None:
    found = carried_out(order())
    again = replace(found.best_point, environment="old")
    both = replace(found, tried=(*found.tried, again))
    assert [one.words_of(again).partition(",")[0] for one in (found, both)] == ["openvino", "openvino@old"]
    assert both.words_of(found.best_point).startswith("openvino, batch")


def test_the_front_has_only_what_nothing_beats_in_both() -> None:
    tried = [one for one in carried_out(order()).tried if one.limited_ns is not None]
    front = [one for one in tried if one.on_front]
    assert front
    for one in front:
        assert not any(
            other.limited_ns < one.limited_ns and other.throughput_items_per_s > one.throughput_items_per_s
            for other in tried
        )


def test_nothing_meets_it_and_the_nearest_is() -> None:
    found = carried_out(order(max_latency="p95<1ms"))
    assert found.outcome is SearchOutcome.NOTHING
    assert found.sentence.startswith("nothing meets p95 < 1 ms; the nearest is openvino, batch 1, 2 cores: ")
    assert "to" in found.sentence.partition("(limit 1 ms, ")[2]


def test_of_what_breaks_the_limit_there_is_no_command_no_plan_and_no_gain() -> None:
    found = carried_out(order(max_latency="p95<1ms"))
    assert (found.command, found.plan, found.gains) == (None, None, ())
    assert {one.fate for one in found.tried} == {Fate.NEAREST, Fate.BREAKS_LIMIT}


def test_of_what_may_hold_the_limit_there_is_a_command_with_a_label_and_no_plan() -> None:
    told = (carried_out(order(max_latency=f"p95<{limit}ms"), noise=0.08) for limit in (2.45, 2.5, 2.55))
    found = next(one for one in told if one.outcome is SearchOutcome.CANNOT_TELL)
    assert found.best_point.fate is Fate.BEST_IF_HELD
    assert found.plan is None
    assert found.command.startswith("enginebench run net ")
    assert command_label(found.outcome) == "not a recommendation, but what measures it again:"


def test_of_several_targets_nothing_that_may_hold_the_limits_has_a_plan() -> None:
    asked = order(targets=("nuc", "board"))
    each = for_two_targets(asked).targets
    may = ForAll(SearchOutcome.CANNOT_TELL, (each[0].best,) * 2, ((1.0, 1.0, 1.0),) * 2)
    assert recommendations(asked, [points(asked)] * 2, each, may).for_all.plan is None


def test_a_rival_that_may_break_the_limit_is_told_as_one_and_which_way_the_ratio_is() -> None:
    found = carried_out(order(max_latency="p95<7.5ms", axes={}, budget="1m"))
    rival = next(place for place, one in enumerate(found.tried) if one.engine == "torch")
    as_told = {"ratio": (0.8, 0.65, 1.023), "limit_share": ((1.5, 0.9, None),)}

    def lead(fate: Fate) -> str:
        one = replace(found.tried[rival], **as_told, fate=fate)
        tried = tuple(one if place == rival else other for place, other in enumerate(found.tried))
        return answering._lead(order(max_latency="p95<7.5ms"), replace(found, tried=tried, runner_up=rival))

    assert lead(Fate.LIMIT_NOT_TOLD).endswith(
        " (0.650 to 1.023 × as good as it), which may break the limit (p95 11.2 ms)"
    )
    assert lead(Fate.RUNNER_UP).endswith(" (0.650 to 1.023 × as good as it)")


def test_where_every_engine_fails_each_says_why() -> None:
    found = carried_out(order(), refused=range(len(points(order()).points)))
    tried = tuple(replace(one, why=f"{one.engine} has no such operator") for one in found.tried)
    told = answering.sentence(order(), replace(found, tried=tried))
    assert told == (
        "nothing could be measured: openvino: openvino has no such operator; torch: torch has no such operator"
    )
    assert found.is_without_figures
    assert not carried_out(order(max_latency="p95<1ms")).is_without_figures


def test_a_search_that_is_unfinished_has_not_failed_for_good() -> None:
    found = carried_out(order(), refused=range(len(points(order()).points)), most_steps=1)
    assert found.outcome is SearchOutcome.UNCONFIRMED
    assert found.sentence == "nothing could be measured so far: failed: it crashed"


def test_where_no_rate_broke_the_limit_a_longer_budget_is_named() -> None:
    asked = order(goal="rate")
    found = replace(carried_out(order()), rate=RateFound(Kept.HELD, 0, 50.0, None, ((0.6, 0.5, 0.7),)))
    said = "higher rates were not confirmed; a longer --budget than 5m may"
    assert said in list(answering.remarks(asked, found))
    failed = replace(found, rate=replace(found.rate, refused=(RateRefused(1, 22.8, "it crashed"),)))
    name = failed.words_of(failed.tried[1])
    assert f"{name} is refused at 22.8 requests/s: it crashed" in list(answering.remarks(asked, failed))
    lost = RateFound(Kept.CANNOT_TELL, 0, refused=(RateRefused(0, 22.8, "it crashed"),))
    gone = replace(found, outcome=SearchOutcome.CANNOT_TELL, rate=lost)
    assert not any("budget" in one for one in answering.remarks(asked, gone)), "no time makes it run"
    broken = replace(found, rate=replace(found.rate, breaks_at_per_s=60.0))
    assert said not in list(answering.remarks(asked, broken))


@pytest.mark.parametrize(
    ("percent", "said"),
    [
        ("90", "the table of `enginebench run` has no p90: `enginebench show ID --json` of the run has it"),
        ("97", "the table of `enginebench run` has no p97: no summary has it"),
        ("95", None),
        ("99.9", "the table of `enginebench run` has no p99.9: `enginebench show ID --json` of the run has it"),
    ],
)
def test_where_the_table_of_a_run_lacks_the_limited_percentile_it_is_said_who_has_it(percent, said) -> None:
    remarks = [one for one in carried_out(order(max_latency=f"p{percent}<20ms")).remarks if "the table of" in one]
    assert remarks == ([said] if said else [])


def test_models_that_are_not_made_of_each_other_are_told_as_different() -> None:
    asked = order(models=["net", "other"], axes={}, budget="1m")
    space = points(asked)
    apart = replace(space, points=tuple(replace(one, family=one.case.model.digest) for one in space.points))
    assert list(answering._unlike(apart)) == ["net and other are different models, whose outputs are not compared"]
    assert list(answering._unlike(points(order()))) == []


def test_who_used_the_machine_meanwhile_is_told_first_unless_it_was_little() -> None:
    def used(share: float) -> MachineUse:
        return MachineUse(1_000, 2, round(2_000 * share), 0, (ProcessUse("pip", 812, 1, round(2_000 * share)),))

    said = (
        "meanwhile other processes used 40 % of the machine, most of it `pip` (pid 812): close `pip`, or measure when"
    )
    assert carried_out(order(), others=used(0.4)).remarks[0].startswith(said)
    for little in (used(0.01), None):
        assert not any("other processes" in one for one in carried_out(order(), others=little).remarks)


def test_broken_off_it_says_so() -> None:
    found = carried_out(order(), most_steps=1)
    assert found.outcome is SearchOutcome.UNCONFIRMED
    assert found.sentence.startswith("unconfirmed, as the search was broken off: ")


def test_a_goal_is_told_in_its_own_figure() -> None:
    of_latency = carried_out(order(goal="latency", max_latency=None, axes={}))
    assert " ms" in of_latency.sentence
    of_memory = carried_out(order(goal="memory", max_latency=None, max_memory="200MB", axes={}))
    assert "memory 10" in of_memory.sentence
    assert "(limit 200 MB, held with 95 % confidence)" in of_memory.sentence


def test_who_failed_is_there_with_the_reason_and_wins_nothing() -> None:
    first = carried_out(order())
    again = carried_out(order(), refused=(first.best,))
    assert again.best != first.best
    assert (again.tried[first.best].fate, again.tried[first.best].why) == (Fate.REFUSED, "failed: it crashed")
    assert again.tried[first.best].throughput_items_per_s is None


def test_where_all_fail_the_sentence_says_why() -> None:
    found = carried_out(order(), refused=range(len(points(order()).points)))
    assert (found.outcome, found.best, found.command, found.gains) == (SearchOutcome.NOTHING, None, None, ())
    assert found.sentence == "nothing could be measured: failed: it crashed"


def test_what_was_never_run_is_counted_and_has_no_figures() -> None:
    found = carried_out(order(axes={}, budget="1m"))
    unseen = [one for one in found.tried if not one.processes and one.fate in (Fate.BEATEN, Fate.BREAKS_LIMIT)]
    assert unseen
    assert all(one.median_ns is None and not one.on_front for one in unseen)
    assert f"{len(unseen)} of {len(found.tried)} points were never run" in " ".join(found.remarks)


def test_an_answer_is_the_same_after_it_was_kept() -> None:
    found = carried_out(order())
    assert read_answer(json.loads(json.dumps(answer_document(found)))) == found


def test_an_answer_with_a_word_of_a_newer_enginebench_is_told_as_one() -> None:
    kept = json.loads(json.dumps(answer_document(carried_out(order()))))
    with pytest.raises(StoreError, match=r"holds what only a newer enginebench knows.*'proven' is not one of"):
        read_answer({**kept, "outcome": "proven"})


def test_an_engine_that_was_replaced_between_two_steps_is_told() -> None:
    taken = StepTaken(Step(StepPurpose.LOOK, (0,), 1, 1.0), (), {}, seconds=1)
    same, older, newer = EngineRef("torch", "default", "2.1"), *(EngineRef("ort", "own", one) for one in ("1.2", "1.3"))
    steps = [StoredStep("b1", taken, {}, engines=frozenset({same, one})) for one in (older, newer)]
    assert list(answering._replaced(steps[:1])) == []
    assert list(answering._replaced(steps)) == [
        "ort@own was replaced meanwhile, and measured as 1.2 and 1.3: search anew"
    ]


def test_points_are_labelled_with_how_far_their_outputs_are_and_so_is_the_best() -> None:
    found = carried_out(order(), differences=lambda one: 0.0081 if one.case.engine.name == "openvino" else None)
    assert {one.engine: one.output_difference for one in found.tried} == {"openvino": 0.0081, "torch": None}
    assert ", outputs 0.81 % off those of the model as given" in found.sentence


def test_a_limit_of_outputs_is_told_and_who_was_refused_by_it() -> None:
    found = carried_out(
        order(max_output_difference="1%"),
        refused=[place for place, one in enumerate(points(order()).points) if one.case.engine.name == "torch"],
        differences=lambda one: 0.032 if one.case.engine.name == "torch" else None,
    )
    assert "output difference < 1 %" in found.limits
    assert "refused, as outputs are too far from those of the model as given: net on torch (3.2 %)" in found.remarks


def test_of_several_targets_there_is_one_answer_each_and_one_for_all() -> None:
    asked = order(targets=("nuc", "board"))
    found = for_two_targets(asked)
    assert [one.target for one in found.targets] == ["nuc", "board"]
    assert found.sentence.startswith("for all of nuc, board: openvino, batch 4, 2 cores")
    assert found.sentence.endswith("the own best of board is 1.12 × as good (1.00 × on nuc, 1.12 × on board)")
    assert "--target nuc,board" in found.for_all.command
    assert make_plan(found.for_all.plan, "test").targets == ("nuc", "board")
    assert read_answer(json.loads(json.dumps(answer_document(found)))) == found
    assert read_answer(answer_document(found.targets[0])) == found.targets[0], "one target is kept as ever"


def test_none_for_all_is_an_answer_that_decides_the_outcome() -> None:
    asked = order(targets=("nuc", "board"))
    each = for_two_targets(asked).targets
    found = recommendations(asked, [points(asked)] * 2, each, ForAll(SearchOutcome.NOTHING))
    assert found.outcome is SearchOutcome.NOTHING
    assert found.sentence == "no configuration holds p95 < 20 ms on all of nuc, board"
    assert (found.for_all.point, found.for_all.plan, found.for_all.command) == (None, None, None)


@pytest.mark.parametrize(
    ("goal", "figure", "factor"),
    [("throughput", "throughput_items_per_s", -1), ("latency", "median_ns", 1)],
)
def test_figures_agree_with_what_is_said_of_them_however_the_machine_was_when_they_were_measured(goal, figure, factor):
    found = carried_out(order(goal=goal), noise=0.3)
    best, known = found.best_point, [one for one in found.tried if one.throughput_items_per_s is not None]
    assert len(known) > 3
    for one in known:
        assert getattr(one, figure) == pytest.approx(getattr(best, figure) * one.ratio[0] ** factor)
        assert one.limited_ns == pytest.approx(20e6 * one.limit_share[0][0])


def test_an_interval_without_an_end_says_so_and_its_end_is_null() -> None:
    """One process at a rate, as where the search was broken off, does not tell how far others are from it."""
    look = StepTaken(Step(StepPurpose.RATE, (0,), 2, 10.0, 50.0), ({0: Reading(0.0, (log(0.6),))},), {}, 10.0)
    seen = next_rate([RatedCandidate(0, 200.0)], RateTerms(), 0.0, [look])
    found = replace(carried_out(order()), rate=seen)
    kept = json.loads(json.dumps(answer_document(found), allow_nan=False))["rate"]["of_limit"]
    assert kept == [[pytest.approx(0.6), 0.0, None]]
    for ends in (seen.of_limit[0], (0.6, 0.0, 1e9)):
        told = limit_sentence(order(), replace(found.best_point, limit_share=(ends,)), held=False)
        assert told == "p95 12 ms (limit 20 ms, 0 to ∞, as far as it is known)"


def test_versions_of_one_name_are_told_apart_by_their_digest_and_what_they_were_calibrated_on() -> None:
    space = points(order(models=["net", "other"]))
    calibrated = Derivation(DerivationKind.QUANTIZED, said="4 inputs", calibration=Calibration(folder="val"))
    alike = tuple(
        replace(one, case=replace(one.case, model=replace(one.case.model, name="net", derivation=calibrated)))
        for one in space.points
    )
    digests = sorted({one.case.model.original_digest for one in alike})
    names = answering._model_names(replace(space, points=alike))
    assert names == {digest: f"net ({digest[:8]}, calibrated on val)" for digest in digests}
    assert set(answering._model_names(space).values()) == {"net", "other"}


def test_what_was_never_run_for_want_of_time_is_told_and_the_lead_is_over_those_that_ran() -> None:
    found = carried_out(order(axes={}, max_latency=None, budget="30s"))
    never = [one for one in found.tried if one.fate is Fate.NOT_TRIED]
    ran = sum(one.processes > 0 for one in found.tried)
    assert never and not any(one.processes for one in never)
    assert any(
        one.startswith(f"{len(never)} of {len(found.tried)} points were never run for w") for one in found.remarks
    )
    rival = next(place for place, one in enumerate(found.tried) if one.processes and place != found.best)
    tried = tuple(replace(one, ratio=(1.5, 1.4, 1.6)) if n == rival else one for n, one in enumerate(found.tried))
    lead = answering._lead(order(), replace(found, tried=tried, runner_up=rival))
    assert lead.startswith(f", 1.50 × the next best of the {ran} that ran (")


def test_throughput_and_latency_of_a_point_stay_those_of_one_another() -> None:
    """Requests one by one: what is taken out of the one for the machine's sake is out of the other, too."""
    found = carried_out(order(max_latency=None, axes={"batch": ("1",)}), noise=0.08)
    one_by_one = [one for one in found.tried if one.configuration.load is Load.SYNC and one.processes]
    assert len(one_by_one) > 1
    exact = [1e9 / one.median_ns / one.throughput_items_per_s for one in one_by_one]
    assert exact == pytest.approx([exact[0]] * len(exact), rel=1e-6)


def test_where_all_that_ran_break_a_limit_by_little_the_nearest_is_told_as_that() -> None:
    may = carried_out(order(max_latency="p95<7.5ms"))
    tried = tuple(replace(one, fate=Fate.NEAREST) if place == may.best else one for place, one in enumerate(may.tried))
    near = replace(may, outcome=SearchOutcome.CANNOT_TELL, tried=tried)
    told = answering.sentence(order(max_latency="p95<7.5ms"), near)
    assert told.startswith(
        "cannot tell whether anything holds p95 < 7.5 ms: all that ran broke a limit, by no more than a slower machine "
        "would explain; the nearest is "
    )
    assert near.best_words == "nearest"


def test_reasons_are_counted_where_an_engine_has_several() -> None:
    found = carried_out(order(), refused=range(len(points(order()).points)))
    own = [place for place, one in enumerate(found.tried) if one.engine == "torch"]
    whys = {own[0]: "its outputs are wrong"}
    tried = tuple(
        replace(one, why=whys.get(place, "it crashed") if one.engine == "torch" else "it has no such operator")
        for place, one in enumerate(found.tried)
    )
    told = answering.sentence(order(), replace(found, tried=tried))
    assert f"torch ({len(own) - 1} times): it crashed" in told
    assert "torch (1 times): its outputs are wrong" in told.replace("once", "1 times")


def test_in_which_process_it_was_makes_no_other_reason() -> None:
    found = carried_out(order(), refused=range(len(points(order()).points)))
    tried = [replace(one, why=f"process {2 + place % 4} of 5: it crashed") for place, one in enumerate(found.tried)]
    told = answering.sentence(order(), replace(found, tried=tuple(tried)))
    assert told == "nothing could be measured: it crashed"


def test_that_nothing_ran_is_no_answer_though_outputs_of_some_are_known() -> None:
    broken = carried_out(order(), refused=range(len(points(order()).points)), differences=lambda _: 0.03)
    assert broken.is_without_figures
    asked = order(max_output_difference="1%")
    refused = carried_out(asked, refused=range(len(points(asked).points)), differences=lambda _: 0.03)
    assert not refused.is_without_figures


def test_for_want_of_time_on_a_target_it_cannot_be_told_for_all_and_of_no_limit_it_is_told_all_the_same() -> None:
    asked = order(targets=("nuc", "board"), max_output_difference="1%")
    each = for_two_targets(asked).targets
    places, ratios = (each[0].best,) * 2, ((1.0, 1.0, 1.0),) * 2
    may = ForAll(SearchOutcome.CANNOT_TELL, places, ratios, (1,))
    told = recommendations(asked, [points(asked)] * 2, each, may).sentence
    (limit,) = limit_words(asked)
    assert f"holds {limit} on all, as there was no time for 5 fresh processes of it on board" in told
    free = order(targets=("nuc", "board"), max_latency=None)
    each = for_two_targets(free).targets
    told = recommendations(free, [points(free)] * 2, each, ForAll(SearchOutcome.FOUND, places, ratios, (1,)))
    assert told.for_all.plan is not None


def test_a_share_is_told_in_per_cent_as_people_write_it() -> None:
    told = {0.0081: "0.81 %", 0.032: "3.2 %", 0.5: "50 %", 0.996: "100 %", 1.006: "101 %", 12.3: "1230 %"}
    assert {one: share_words(one) for one in told} == told
