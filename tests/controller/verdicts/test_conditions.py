"""`--fail-if`: what it understands, and when it holds."""

from dataclasses import replace

import pytest

import invented
from controller.verdicts.chains import OTHER_ENGINE, chain, layer, reorder, times
from enginebench_controller.errors import InputError
from enginebench_controller.graph.matching.kinds import unmatched_category
from enginebench_controller.records import LayerState, Phase
from enginebench_controller.stats.comparison import Comparison, ComparisonMethod, Verdict
from enginebench_controller.verdicts.conditions import (
    Condition,
    ConditionMetric,
    ConditionOutcome,
    check_measurements,
    check_profiles,
    parse_conditions,
)
from enginebench_controller.verdicts.layers.profiles import compare_profiles
from enginebench_controller.verdicts.pairing import Compared

SLOWER = parse_conditions("slower>3%")


def profiles_checked(condition, first, second):
    return check_profiles(compare_profiles([first, second]), parse_conditions(condition))


def compared(ratio, low, high, **fields):
    first, second = (replace(invented.measured(name), **fields) for name in ("m1", "m2"))
    found = Comparison(ratio, low, high, 0.01, Verdict.SLOWER, ComparisonMethod.PROCESSES)
    return Compared(first, second, is_paired=False, comparison=found, remarks=())


def test_conditions_are_joined_by_or():
    assert parse_conditions("slower>3% or layer-slower > 10%") == (
        Condition(ConditionMetric.SLOWER, 0.03),
        Condition(ConditionMetric.LAYER_SLOWER, 0.1),
    )
    assert [str(one) for one in parse_conditions("memory>5%, coverage<95.5%")] == ["memory>5%", "coverage<95.5%"]


@pytest.mark.parametrize(
    "text",
    ["", "slower", "slower>3", "slower<3%", "coverage>95%", "faster>3%", "slower>3% and memory>1%", "slower>-1%", "or"],
)
def test_anything_else_is_refused_in_one_sentence(text):
    with pytest.raises(InputError) as caught:
        parse_conditions(text)
    assert "--fail-if" in str(caught.value) and "\n" not in str(caught.value)


def test_a_comma_in_a_percentage_is_told_to_be_a_point():
    with pytest.raises(InputError, match=r"write slower>2\.5% or memory>1%, with a point$"):
        parse_conditions("slower>2,5% or memory>1%")
    with pytest.raises(InputError, match="does not understand"):
        parse_conditions("slower>٣%")


@pytest.mark.parametrize(
    ("ratio", "low", "high", "outcome"),
    [
        (1.10, 1.05, 1.15, ConditionOutcome.FAILED),
        (1.10, 1.02, 1.18, ConditionOutcome.INCONCLUSIVE),
        (1.04, 1.01, 1.07, ConditionOutcome.INCONCLUSIVE),
        (1.00, 0.99, 1.01, ConditionOutcome.PASSED),
        (0.50, 0.40, 0.60, ConditionOutcome.PASSED),
        (1.50, None, None, ConditionOutcome.INCONCLUSIVE),
        (None, None, None, ConditionOutcome.INCONCLUSIVE),
    ],
)
def test_measurements_fail_only_with_their_whole_interval_beyond_the_limit(ratio, low, high, outcome):
    (check,) = check_measurements([compared(ratio, low, high)], SLOWER)
    assert check.outcome is outcome


def test_conditions_on_layers_are_refused_for_measurements():
    with pytest.raises(InputError, match="about layers"):
        check_measurements([compared(1, 1, 1)], parse_conditions("layer-slower>3%"))


def test_a_profile_is_slower_when_layers_and_latency_say_so():
    first = chain("a", [layer(0, 100_000)])
    slow = chain("b", [layer(0, 120_000)])
    outcomes = {
        "both": profiles_checked("slower>3%", first, slow),
        "layers only": profiles_checked("slower>3%", first, replace(slow, unprofiled_latency_ns=100_000)),
        "neither": profiles_checked("slower>3%", first, replace(first, id="b")),
        "unknown": profiles_checked("slower>3%", first, replace(slow, unprofiled_latency_ns=None)),
    }
    assert {name: check.outcome for name, (check,) in outcomes.items()} == {
        "both": ConditionOutcome.FAILED,
        "layers only": ConditionOutcome.INCONCLUSIVE,
        "neither": ConditionOutcome.PASSED,
        "unknown": ConditionOutcome.INCONCLUSIVE,
    }


def test_each_layer_worth_speaking_of_is_a_check_of_its_own():
    noisy = times(100_000, spread=0.5)
    first = chain("a", [layer(0, 100_000), layer(1, 100_000), layer(2, noisy), layer(3, 100)])
    second = chain("b", [layer(0, 120_000), layer(1, 100_000), layer(2, noisy), layer(3, 200)])
    checks = profiles_checked("layer-slower>10%", first, second)
    assert [(check.subject, check.outcome) for check in checks] == [
        ("conv0 (Conv)", ConditionOutcome.FAILED),
        ("conv1 (Conv)", ConditionOutcome.PASSED),
        ("conv2 (Conv)", ConditionOutcome.INCONCLUSIVE),
    ]


def layer_outcomes(condition, first, second):
    return {check.subject: check.outcome for check in profiles_checked(condition, first, second)}


def added(identity, *reorders, **fields):
    return chain(identity, [layer(0, 100_000), *(reorder(*one) for one in reorders)], **fields)


def test_what_only_the_second_engine_added_is_held_against_all_of_the_first():
    first, second = added("a"), added("b", (1, 50_000))
    outcomes = layer_outcomes("layer-slower>10%", first, second)
    assert outcomes == {"conv0 (Conv)": ConditionOutcome.PASSED, "reorders and converts": ConditionOutcome.FAILED}
    assert layer_outcomes("layer-slower>60%", first, second)["reorders and converts"] is ConditionOutcome.INCONCLUSIVE
    noisy = chain("c", [layer(0, 100_000), replace(reorder(1, 0), time_ns=times(50_000, spread=1.9))])
    assert layer_outcomes("layer-slower>10%", first, noisy)["reorders and converts"] is ConditionOutcome.INCONCLUSIVE
    assert list(layer_outcomes("layer-slower>10%", second, replace(first, id="d"))) == ["conv0 (Conv)"], "it is gone"


def test_a_reorder_in_place_of_another_fails_by_the_time_that_it_adds():
    first, faster, slower = added("a", (1, 60_000)), added("b", (2, 30_000)), added("c", (2, 90_000))
    (_, check) = profiles_checked("layer-slower>10%", first, faster)
    assert check.outcome is ConditionOutcome.INCONCLUSIVE
    assert check.sentence.startswith("0.030 ms that A is not known to have, for 0.060 ms that A alone has; with all")
    assert layer_outcomes("layer-slower>10%", first, slower)["reorders and converts"] is ConditionOutcome.FAILED
    assert layer_outcomes("layer-slower>20%", first, slower)["reorders and converts"] is ConditionOutcome.INCONCLUSIVE


def others(identity, *added, conv_ns=100_000):
    """A convolution, and what an engine added to it, by name, type and time; each known by its name."""
    return chain(identity, [layer(0, conv_ns), *(added_layer(*one) for one in added)])


def added_layer(name, kind, time_ns):
    timed = () if time_ns is None else times(time_ns)
    return replace(reorder(1, 0), name=name, type=kind, category=unmatched_category(kind), time_ns=timed)


def noisy(one):
    """The same with a first layer that scatters by half."""
    conv, *more = one.layers
    return replace(one, layers=(replace(conv, time_ns=times(50_000, spread=0.5)), *more))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (others("a", ("x_to_conv1", "Reorder", None)), others("b", ("x_to_conv1", "Reorder", 50_000))),
        (others("a", ("x_to_conv1", "Reorder", 50_000)), others("b", ("to_f16", "Convert", 50_000))),
        (others("a", ("Reorder_4", "Reorder", None)), others("b", ("Reorder_7", "Reorder", 50_000))),
        (others("a", conv_ns=150_000), others("b", ("to_f16", "Convert", 50_000), conv_ns=50_000)),
        (others("a", conv_ns=150_000), others("b", ("permute_4", "Permute", 53_000), conv_ns=110_000)),
        (others("a", conv_ns=150_000), noisy(others("b", ("to_f16", "Convert", 50_000), conv_ns=50_000))),
    ],
    ids=["untimed in A", "an untimed one in A", "of another kind", "fused in A", "nearly as long", "and noisy"],
)
def test_what_the_first_may_have_done_elsewhere_makes_nothing_slower(first, second):
    outcomes = layer_outcomes("layer-slower>10%", first, second)
    assert ConditionOutcome.FAILED not in outcomes.values()
    assert len(outcomes) == 2, "it is told all the same"


def test_many_small_reorders_are_worth_speaking_of_together():
    second = added("b", *((place, 900) for place in range(1, 20)))
    assert layer_outcomes("layer-slower>10%", added("a"), second)["reorders and converts"] is ConditionOutcome.FAILED


def without_graph(one):
    return replace(
        one, nodes=(), coverage=None, layers=tuple(replace(part, category="", group=None) for part in one.layers)
    )


@pytest.mark.parametrize("known", ["neither", "first", "second"])
def test_no_layer_fails_for_not_being_joined_where_a_graph_is_missing(known):
    first, second = chain("a", [layer(0, 100_000)]), chain("b", [layer(0, 50_000, engine=OTHER_ENGINE)])
    second = replace(second, engine=OTHER_ENGINE)
    first, second = (
        (first if known == "first" else without_graph(first)),
        (second if known == "second" else without_graph(second)),
    )
    (check,) = profiles_checked("layer-slower>10%", first, second)
    assert check.outcome is ConditionOutcome.INCONCLUSIVE
    assert check.sentence == "not known to be one of A's; it takes 50.0% of A's time"


def test_what_the_first_did_not_execute_is_told_and_fails_nothing():
    first = chain("a", [layer(0, 100_000), layer(1, None)])
    second = chain("b", [layer(0, 100_000), layer(1, 50_000)])
    check = profiles_checked("layer-slower>10%", first, second)[1]
    assert (check.subject, check.outcome) == ("conv1 (Conv)", ConditionOutcome.INCONCLUSIVE)
    assert check.sentence == "not executed in A; it takes 50.0% of A's time"


def counted(identity, time_ns, cost):
    return replace(
        chain(identity, [layer(0, time_ns)]), unprofiled_latency_ns=100_000, profiled_latency_ns=100_000 * cost
    )


@pytest.mark.parametrize(
    ("time_ns", "costs", "outcome"),
    [
        (1_000_000, (0.96, 1.21), ConditionOutcome.FAILED),
        (100_000, (0.96, 1.21), ConditionOutcome.PASSED),
        (120_000, (0.96, 1.21), ConditionOutcome.INCONCLUSIVE),
        (120_000, (1.21, 0.96), ConditionOutcome.FAILED),
        (100_000, (1.21, 0.96), ConditionOutcome.INCONCLUSIVE),
        (80_000, (1.21, 0.96), ConditionOutcome.PASSED),
    ],
)
def test_what_counters_cost_moves_the_bound_of_a_layer(time_ns, costs, outcome):
    sides = (counted(name, time, cost) for name, time, cost in zip("ab", (100_000, time_ns), costs, strict=True))
    (check,) = profiles_checked("layer-slower>10%", *sides)
    assert check.outcome is outcome
    assert ("which may be why" in check.sentence) == (outcome is ConditionOutcome.INCONCLUSIVE)


def costly(identity, small_ns, each_ns):
    """A small layer and twenty-nine of 10 µs, each with what counters cost a layer beside its own time."""
    own = [small_ns, *[10_000] * 29]
    layers = [layer(place, time + each_ns) for place, time in enumerate(own)]
    latency = {"unprofiled_latency_ns": sum(own), "profiled_latency_ns": sum(own) + 30 * each_ns}
    return replace(chain(identity, layers), **latency)


@pytest.mark.parametrize(
    ("times_ns", "costs_ns", "outcome"),
    [
        ((1_500, 1_500), (0, 3_000), ConditionOutcome.INCONCLUSIVE),
        ((1_500, 3_000), (3_000, 0), ConditionOutcome.INCONCLUSIVE),
        ((1_500, 30_000), (0, 3_000), ConditionOutcome.FAILED),
        ((3_000, 9_000), (3_000, 3_000), ConditionOutcome.FAILED),
        ((1_000, 2_000), (12_000, 12_000), ConditionOutcome.INCONCLUSIVE),
        ((1_000, 1_000), (12_000, 12_000), ConditionOutcome.PASSED),
    ],
)
def test_a_layer_may_pay_for_counters_as_much_as_any_other(times_ns, costs_ns, outcome):
    sides = map(costly, "ab", times_ns, costs_ns)
    small = profiles_checked("layer-slower>10%", *sides)[0]
    assert (small.subject, small.outcome) == ("conv0 (Conv)", outcome)


def test_no_layer_is_slower_by_what_counters_cost_one_side_more():
    first, second = chain("a", [layer(0, 100_000)]), chain("b", [layer(0, 300_000)], unprofiled_ns=100_000)
    (check,) = profiles_checked("layer-slower>10%", first, second)
    assert check.outcome is ConditionOutcome.INCONCLUSIVE
    assert "; counters cost A 1.00 times its latency, 0.0 µs a layer, and the other 3.00 times" in check.sentence
    assert check.sentence.endswith("200.0 µs a layer, which may be why")
    unknown = replace(first, profiled_latency_ns=None)
    (check,) = profiles_checked("layer-slower>10%", unknown, second)
    assert check.outcome is ConditionOutcome.INCONCLUSIVE, "what is known of one side counts"
    assert "; counters cost A nobody knows how much and the other 3.00 times" in check.sentence


def test_layers_without_a_time_pay_for_no_counters():
    def side(identity, each_ns):
        one = costly(identity, 1_500, each_ns)
        away = [
            replace(one.layers[0], name=f"away{place}", time_ns=(), state=LayerState.OPTIMIZED_AWAY)
            for place in range(4)
        ]
        return replace(one, layers=(*one.layers, *(away if identity == "a" else ())))

    small = profiles_checked("layer-slower>10%", side("a", 1_000), side("b", 3_000))[0]
    assert (small.subject, small.outcome) == ("conv0 (Conv)", ConditionOutcome.INCONCLUSIVE)


def test_what_the_second_ran_without_telling_a_time_is_told():
    first = chain("a", [layer(0, 50_000), layer(1, 50_000)])
    second = chain("b", [layer(0, 50_000), replace(layer(1, None), state=LayerState.EXECUTED)])
    checks = profiles_checked("layer-slower>10%", first, second)
    assert [(one.outcome, one.sentence) for one in checks][1] == (ConditionOutcome.INCONCLUSIVE, "no data in B")


def test_what_two_profiles_are_unlike_in_is_told_with_what_is_found_of_the_whole():
    first = chain("a", [layer(0, 100_000)])
    other = replace(first, id="b", host=replace(first.host, cpu_model="another"))
    checks = profiles_checked("slower>3% or layer-slower>3% or memory>3% or coverage<95%", first, other)
    told = {str(check.condition.metric): any("processors differ" in one for one in check.remarks) for check in checks}
    assert told == {"slower": True, "layer-slower": False, "memory": True, "coverage": True}


def test_layers_of_which_none_is_known_to_be_one_of_the_others_are_told_and_have_not_passed():
    neither = chain("a", [layer(0, 100_000)]), chain("b", [layer(0, None)])
    (check,) = profiles_checked("layer-slower>10%", *neither)
    assert (check.subject, check.outcome) == ("all layers", ConditionOutcome.INCONCLUSIVE)
    assert check.sentence == "no layer that takes 1% of the time is known to be one of the other's"


def test_memory_and_coverage_are_checked_without_noise():
    phases = {name: (Phase("compile", 1, peak),) for name, peak in (("a", 100), ("b", 104), ("c", 106))}
    sides = {name: replace(chain(name, [layer(0, 1_000)]), phases=own) for name, own in phases.items()}
    assert profiles_checked("memory>5%", sides["a"], sides["b"])[0].outcome is ConditionOutcome.PASSED
    assert profiles_checked("memory>5%", sides["a"], sides["c"])[0].outcome is ConditionOutcome.FAILED
    assert (
        profiles_checked("memory>5%", sides["a"], replace(sides["b"], phases=()))[0].outcome
        is ConditionOutcome.INCONCLUSIVE
    )

    half = chain("d", [layer(0, 1_000), layer(1, None)])
    whole = chain("e", [layer(0, 1_000), layer(1, 1_000)])
    assert profiles_checked("coverage<95%", half, whole)[0].outcome is ConditionOutcome.FAILED
    assert profiles_checked("coverage<50%", half, whole)[0].outcome is ConditionOutcome.PASSED
