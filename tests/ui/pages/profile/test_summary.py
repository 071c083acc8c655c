"""The summary says what was measured, what is estimated, and what is unknown."""

from dataclasses import replace

import pytest

import invented
import invented_profiles
import invented_sweeps
from controller.verdicts.pruning.passes import conv, one_pass, relu, three_layers
from enginebench_controller.graph.analysis import CountedModel
from enginebench_controller.records import Configuration, ModelWork
from enginebench_controller.verdicts.layers.advice import Severity
from enginebench_controller.verdicts.layers.advisor import advise
from enginebench_ui.pages.profile.shapes.prospects import (
    advice_views,
    elsewhere,
    of_severity,
    other_settings,
    outcome_rows,
    sweep_of,
)
from enginebench_ui.pages.profile.shapes.summary import (
    chosen_outcome,
    estimate_basis,
    facts,
    measured_cards,
    siblings,
    siblings_of_model,
    theory_facts,
    trust_facts,
    work_cards,
)
from invented_sweeps import ENGINE, baseline, entry, passes

COPY = one_pass(
    (conv(0, nonzero=10), relu(1), conv(2)), three_layers((4, 2, 20)), model_name="by-layer", model_digest="cd" * 32
)


def cards(*found):
    return {card.label: card for card in found}


def test_the_measured_speed_is_a_batch_and_the_items_in_it():
    profile = baseline()
    four = replace(profile, configuration=replace(profile.configuration, batch=4))
    card = cards(*measured_cards(four, None))["Measured"]

    assert (card.value, card.below) == ("30.0 ms/batch", "133 items/s")
    assert "without the engine's counters" in card.known_from


def test_a_pass_that_was_timed_with_counters_only_says_so():
    card = cards(*measured_cards(replace(baseline(), unprofiled_latency_ns=None), None))["Measured"]
    assert "counters, which cost time" in card.known_from


def test_without_a_sweep_nothing_is_estimated_but_work():
    found = cards(*measured_cards(baseline(), None))

    assert set(found) == {"Measured", "FLOPs, dense", "Parameters, dense"}
    assert found["Parameters, dense"].below == "30 with 85 % zeros, 0 not zero now"


def test_a_sweep_estimates_time_and_speed_up_and_says_from_what():
    sweep = sweep_of(passes())
    card = cards(*measured_cards(baseline(), sweep.prospects))["Estimated, pruned"]

    assert (card.value, card.below) == (
        "11.0 ms/batch",
        "2.91× as fast as the sweep's 32.0 ms dense, with 90 % zeros",
    )
    assert "optimization level 0, where the dense model took 32.0 ms" in card.known_from
    assert "Nothing ran like that" in card.known_from


def test_an_estimate_says_where_its_sweep_ran_otherwise_than_the_profile_beside_it():
    four = replace(baseline(), configuration=Configuration("CPU", batch=4, cores=1))
    below = cards(*measured_cards(four, sweep_of(passes()).prospects))["Estimated, pruned"].below
    assert below == "2.91× as fast as the sweep's 32.0 ms dense at batch 1, 2 cores, with 90 % zeros"


def test_work_of_the_larger_branch_is_marked_and_unknown_work_named():
    nodes = (replace(conv(0, flops=8000), method="at most"), relu(1))
    profile = one_pass(nodes, three_layers((36, 4, 72)))
    flops = work_cards(profile.work, nodes)[0]
    assert flops.value.startswith("≤ ")
    assert "the larger one counts" in flops.known_from
    unknown = replace(conv(0), op_type="Loop", macs=None, flops=None, method="unknown")
    flops = work_cards(replace(profile.work, macs=None, flops=None), (unknown,))[0]
    assert flops.value == "unknown"
    assert "Loop may have most of it" in flops.known_from


def test_a_weight_that_several_nodes_read_is_pruned_once_on_the_card_as_well():
    heads = [conv(place, weights=("w",)) for place in range(5)]
    work = ModelWork(0, 10_000, 100, 100, 0, 0, 1.0)
    flops, parameters = work_cards(work, heads)

    assert flops.below == "1.50 kFLOP with 85 % zeros, estimated"
    assert parameters.below == "15 with 85 % zeros"


def test_pruned_work_is_counted_at_the_batch_of_the_profile_and_not_of_the_sweep():
    nodes = (conv(0, flops=8000), replace(relu(1), flops=40), conv(2, flops=8000))
    four = one_pass(nodes, three_layers((36, 4, 72)), configuration=Configuration("CPU", batch=4, cores=2))
    found = cards(*measured_cards(four, sweep_of(passes()).prospects))

    assert (found["FLOPs, dense"].value, found["FLOPs, dense"].below) == (
        "16.0 kFLOP",
        "1.64 kFLOP with 90 % zeros, estimated",
    )


def test_work_with_the_zeros_of_a_copy_is_counted_layer_by_layer():
    nodes = (conv(0, flops=8000), replace(relu(1), flops=40), conv(2, flops=8000))
    four = one_pass(nodes, three_layers((36, 4, 72)), configuration=Configuration("CPU", batch=4, cores=2))
    found = cards(*measured_cards(four, sweep_of([*passes(), COPY]).prospects))

    assert found["FLOPs, dense"].below == "8.84 kFLOP with 45 % zeros, estimated"


def test_a_copy_pruned_layer_by_layer_goes_before_the_steps():
    chosen = chosen_outcome(sweep_of([*passes(), COPY]).prospects)

    assert (chosen.is_copy, chosen.sparsity) == (True, pytest.approx(0.45))
    assert "shared out layer by layer" in estimate_basis(chosen)


def test_outcomes_keep_estimated_imposed_and_measured_apart():
    dense, half, most, copy = outcome_rows(sweep_of([*passes(), COPY]).prospects)

    assert (dense["What"], half["Imposed (ms)"], most["Imposed ×"]) == ("dense", 22.0, pytest.approx(32 / 11))
    assert (half["Measured (ms)"], copy["Measured (ms)"], copy["Imposed (ms)"]) == (None, 26.0, None)


def test_zeros_in_layers_that_nobody_knows_are_no_outcome_to_tell_of():
    def blind(one):
        layers = tuple(replace(layer, group=None) for layer in one.layers)
        return replace(one, nodes=(), work=None, layers=layers)

    prospects = sweep_of([blind(one) for one in (*passes(), COPY)]).prospects

    assert chosen_outcome(prospects) is None
    assert [row["What"] for row in outcome_rows(prospects)] == [
        "dense",
        "50.0 % zeros imposed",
        "90.0 % zeros imposed",
        "pruned copy by-layer",
    ]
    assert [row["Estimated ×"] for row in outcome_rows(prospects)] == [None] * 4


def test_passes_that_do_not_fit_together_are_a_sentence():
    sweep = sweep_of(passes()[1:])
    assert (sweep.prospects, sweep.problem) == (None, "there is no dense pass to compare with")


def test_a_sweep_on_other_cores_is_said():
    sweep = sweep_of(passes())
    profile = baseline()
    other = replace(profile, configuration=replace(profile.configuration, cores=8))

    assert other_settings(profile, sweep) == ""
    assert "on 2 cores, this profile at batch 1 on 8" in other_settings(other, sweep)


def test_a_sweep_with_another_engine_is_found():
    other = replace(ENGINE, name="ort")
    listed = (entry("s9", "o", 0.9), entry("s0", "o", 0.0), entry("mine", engine=other))

    assert elsewhere(listed, listed[-1]).id == "s0"
    assert elsewhere(listed, replace(listed[-1], model_digest="cd" * 32)) is None


def test_a_failed_profile_knows_nothing():
    profile = invented_profiles.profile_of_failure()

    assert {card.value for card in measured_cards(profile, None)} == {"unknown"}
    assert dict(trust_facts(profile))["Led back to the model"].startswith("nothing: layers are matched")
    assert dict(facts(profile))["Threads"] == "unknown"


def test_facts_name_batch_cores_instruction_sets_and_engine():
    told = dict(facts(invented_profiles.profile()))

    assert (told["Batch"], told["Cores"], told["Engine"]) == ("1", "2", "fake 1.0")
    assert told["Instruction sets"] == "avx2 (assumed); machine has avx2"
    assert told["Engine options"] == "invented=yes"


def test_means_are_called_means():
    profile = invented_profiles.profile(iterations=202)
    means = tuple(replace(layer, time_ns=layer.time_ns[:1]) for layer in profile.layers)
    assert dict(facts(replace(profile, layers=means)))["Run"].endswith(", means of 202 profiled inferences")


def test_work_that_is_only_partly_known_says_so():
    profile = invented_profiles.profile()
    flops, parameters = work_cards(profile.work, profile.nodes)

    assert (flops.value, flops.below) == ("6.91 kFLOP", "1.04 kFLOP with 85 % zeros, estimated")
    assert "Known for 50.0 % of the nodes" in flops.known_from
    assert parameters.below == "32 with 85 % zeros, 200 not zero now"
    assert {card.value for card in work_cards(None, ())} == {"unknown"}


def test_a_counted_model_says_what_is_unknown_of_it():
    profile = invented_profiles.profile()
    told = dict(theory_facts(CountedModel(1, profile.nodes, profile.work, ("the sequence is 128 long",))))

    assert told["Nodes"] == "2, and 1 that depend on no input"
    assert (told["Unknown work"], told["Intensity"], told["Assumed"]) == ("Odd", "unknown", "the sequence is 128 long")


def test_an_intensity_of_a_part_of_the_operations_is_none():
    nodes = (conv(0), relu(1))
    work = ModelWork(1000, 2010, 100, 100, weight_bytes=400, activation_bytes=1610, coverage=1.0)

    def intensity(*of):
        return dict(theory_facts(CountedModel(1, of, work)))["Intensity"]

    assert intensity(*nodes) == "1.00 FLOP/byte"
    assert intensity(*nodes, replace(relu(2), op_type="Odd", flops=None)) == "unknown"


def test_advice_of_one_rule_stands_together_with_links_to_its_layers():
    profile = invented_sweeps.baseline(ms=(9, 1, 18))
    views = advice_views(advise(profile, imposed=passes()))

    dominant, then = [view for view in views if view.rule == "dominant-layer"]
    assert [[link.position for link in view.layers] for view in (dominant, then)] == [[2], [0]]
    assert dominant.sentences[0].startswith("The layer layer2 (Conv, of conv2) alone takes 60.0 %")
    assert then.remedy == "Then look at this one."
    assert dominant in of_severity(views, Severity.NOTE)
    assert advice_views(()) == ()


def test_profiles_of_one_minute_can_each_be_chosen():
    same = [entry(letter * 32, name="one name") for letter in "abc"]
    other = replace(same[0], id="d" * 32, batch=7)
    for found in (siblings(same[1], [*same, other]), siblings_of_model(invented.model(same[0].model_digest), same)):
        labels = {one.key: one.label for one in found}
        assert len(set(labels.values())) == len(labels), "Streamlit takes equal labels for one"
        assert [labels[one.id].endswith(f" · {one.id[:12]}") for one in same] == [True] * 3
    assert "d" * 12 not in next(one.label for one in siblings(other, [*same, other]) if one.key == other.id)
