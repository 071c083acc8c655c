"""What process pairs amount to: worse, pass, cannot tell; and nothing that was not measured is a number."""

import math
from dataclasses import replace

import pytest

from controller.verdicts.pairs import SECOND_NS, arm, arms
from enginebench_controller.plan.plan import BASE, CONTROL, HEAD, GateMetric, GateTerms
from enginebench_controller.records import Evidence
from enginebench_controller.verdicts.gate.results import able, judge, ratio_of_values, stands
from enginebench_controller.verdicts.gate.rule import GateOutcome

TERMS = GateTerms(budget="40s", promised={GateMetric.LATENCY: 0.02})


def of(judged, metric):
    return next(one for one in judged.metrics if one.metric is metric)


@pytest.mark.parametrize(
    ("ratio", "outcome", "is_better"),
    [
        (1.05, GateOutcome.WORSE, False),
        (1.0, GateOutcome.PASSES, False),
        (0.9, GateOutcome.PASSES, True),
    ],
)
def test_the_verdict_follows_from_how_long_head_takes(ratio, outcome, is_better) -> None:
    judged = judge(TERMS, arms(ratio))
    assert (judged.outcome, judged.is_better) == (outcome, is_better)
    assert stands(judged)
    middle, low, high = ratio_of_values(judged.decisive)
    assert low < ratio < high
    assert middle == pytest.approx(ratio, rel=0.01)


def test_what_scatters_too_much_cannot_be_told_and_does_not_stand() -> None:
    judged = judge(TERMS, arms(1.01, scatter=0.2))
    assert judged.outcome is GateOutcome.CANNOT_TELL
    assert not stands(judged)
    assert able(judged) > 0.05


def test_nothing_stands_on_a_single_pair() -> None:
    judged = judge(TERMS, arms(2.0, pairs=1))
    assert judged.outcome is GateOutcome.CANNOT_TELL
    assert judged.pair_seconds == pytest.approx(0.1, rel=0.1), "what its own phases took"
    assert not stands(judged)


def test_head_is_compared_with_both_processes_of_base() -> None:
    """One of them alone would say 1.10 or 0.90."""
    judged = judge(TERMS, {BASE: arm([1e6] * 6), CONTROL: arm([1.21e6] * 6), HEAD: arm([1.1e6] * 6)})
    latency = of(judged, GateMetric.LATENCY)
    assert latency.ratio.middle == pytest.approx(0, abs=1e-9)
    assert math.exp(latency.control.middle) == pytest.approx(1.21)
    assert judged.outcome is GateOutcome.CANNOT_TELL, "base differs from base"


def test_figures_of_base_are_of_both_its_processes_as_the_ratio_beside_them_is() -> None:
    """The ratio of the one that came first would be 1.229."""
    sides = {BASE: arm([1e6] * 6, compile_ns=1e8), CONTROL: arm([1.28e6] * 6, compile_ns=1.28e8)}
    judged = judge(TERMS, sides | {HEAD: arm([1.229e6] * 6, compile_ns=1.229e8)})
    for metric in (GateMetric.LATENCY, GateMetric.THROUGHPUT, GateMetric.COMPILE):
        one = of(judged, metric)
        assert ratio_of_values(one)[0] == pytest.approx(one.head / one.base, rel=0.02), metric


def test_more_throughput_is_better_and_told_as_more() -> None:
    judged = judge(TERMS, arms(0.8))
    throughput = of(judged, GateMetric.THROUGHPUT)
    assert throughput.verdict.is_better
    assert ratio_of_values(throughput)[0] == pytest.approx(1.25, rel=0.02)


def test_energy_without_a_meter_is_not_known_and_never_zero() -> None:
    judged = judge(TERMS.model_copy(update={"metrics": (GateMetric.ENERGY,)}), arms(1.0))
    energy = of(judged, GateMetric.ENERGY)
    assert (energy.base, energy.head, energy.ratio) == (None, None, None)
    assert "no energy meter" in energy.missing
    assert judged.outcome is GateOutcome.CANNOT_TELL


def test_energy_is_of_an_item() -> None:
    judged = judge(TERMS, arms(1.0, energy_uj=5_000_000))
    assert of(judged, GateMetric.ENERGY).base == pytest.approx(0.5)  # 5 J a block of 10 inferences


def _metered_by(arm, *sources):
    """By these, in turn, from process to process."""
    blocks = (
        replace(one, evidence=replace(one.evidence, energy_source=sources[one.process % len(sources)]))
        for one in arm.blocks
    )
    return replace(arm, blocks=tuple(blocks))


def test_energies_of_different_meters_are_not_compared() -> None:
    sides = arms(0.4, energy_uj=5_000_000)
    sides = {role: _metered_by(one, "hwmon xe" if role == HEAD else "RAPL") for role, one in sides.items()}
    judged = judge(TERMS.model_copy(update={"metrics": (GateMetric.ENERGY,)}), sides)
    energy = of(judged, GateMetric.ENERGY)
    assert (energy.ratio, judged.outcome) == (None, GateOutcome.CANNOT_TELL)
    assert energy.missing == "not all processes were counted by one meter (RAPL, hwmon xe)"


def test_a_meter_of_power_decides_no_gate() -> None:
    source = "hwmon ina3221 VDD_IN, power at the end of a block"
    sides = {role: _metered_by(one, source) for role, one in arms(1.5, energy_uj=5_000_000).items()}
    energy = of(judge(TERMS.model_copy(update={"metrics": (GateMetric.ENERGY,)}), sides), GateMetric.ENERGY)
    assert (energy.base, energy.ratio, energy.verdict.outcome) == (None, None, GateOutcome.CANNOT_TELL)
    assert energy.missing == f"its meter counts no energy ({source}), which is too coarse to decide by"


def test_one_reading_that_failed_costs_no_gate_its_energy() -> None:
    sides = arms(1.0, energy_uj=5_000_000)
    lost = [replace(one, evidence=Evidence()) if one.process == 1 else one for one in sides[HEAD].blocks]
    sides[HEAD] = replace(sides[HEAD], blocks=tuple(lost))
    energy = of(judge(TERMS, sides), GateMetric.ENERGY)
    assert (energy.missing, energy.base, energy.head) == ("", pytest.approx(0.5), pytest.approx(0.5))
    dead = {
        role: replace(one, blocks=tuple(replace(each, evidence=Evidence(energy_uj=0)) for each in one.blocks))
        for role, one in sides.items()
    }
    assert of(judge(TERMS, dead), GateMetric.ENERGY).missing == "the meter (unknown) counts nothing here"


def test_an_arm_that_has_no_meter_is_told_at_once_and_not_waited_for() -> None:
    """As where base runs on the processor, and head on another device."""
    why = "RAPL counts the processor, and this ran on another device"
    sides = arms(1.0, energy_uj=5_000_000)
    bare = (
        replace(one, evidence=Evidence(missing={} if one.index else {"energy_uj": why})) for one in sides[HEAD].blocks
    )
    sides[HEAD] = replace(sides[HEAD], blocks=tuple(bare))
    judged = judge(asking(GateMetric.ENERGY), sides)
    energy = of(judged, GateMetric.ENERGY)
    assert (energy.missing, energy.verdict.stands, stands(judged)) == (why, True, True)


def test_of_processes_that_stood_still_it_is_not_said_that_there_is_no_meter() -> None:
    sides = {
        role: replace(one, blocks=tuple(replace(each, paused_ns=20 * SECOND_NS) for each in one.blocks))
        for role, one in arms(1.0, energy_uj=5_000_000).items()
    }
    energy = of(judge(asking(GateMetric.ENERGY), sides), GateMetric.ENERGY)
    assert (energy.missing, energy.verdict.stands) == ("no block counts", False)


def test_energy_is_of_the_blocks_that_count() -> None:
    """A process that stood still for 20 s, on a machine that takes 30 W, did not use them."""
    sides = arms(1.0, energy_uj=5_000_000)
    usual = sides[HEAD].blocks
    stood = {"paused_ns": 20 * SECOND_NS, "evidence": Evidence(energy_uj=605_000_000)}
    sides[HEAD] = replace(sides[HEAD], blocks=tuple(one if one.index else replace(one, **stood) for one in usual))
    energy = of(judge(TERMS, sides), GateMetric.ENERGY)
    assert (energy.base, energy.head) == pytest.approx((0.5, 0.5))
    assert energy.verdict.outcome is GateOutcome.PASSES


def test_the_size_is_counted_and_held_against_the_tolerance_only() -> None:
    wanted = TERMS.model_copy(update={"metrics": (GateMetric.SIZE, GateMetric.LATENCY)})
    assert judge(wanted, arms(1.0, head={"size_bytes": 1009})).outcome is GateOutcome.PASSES
    judged = judge(wanted, arms(1.0, head={"size_bytes": 1011}))
    assert judged.outcome is GateOutcome.WORSE
    assert judged.decisive.metric is GateMetric.SIZE
    assert of(judge(TERMS, arms(1.0, head={"size_bytes": 1011})), GateMetric.SIZE).verdict.outcome is GateOutcome.WORSE


def test_a_model_that_does_not_run_is_not_a_smaller_one() -> None:
    sides = arms(1.0, head={"size_bytes": 3})
    sides[HEAD] = replace(sides[HEAD], processes=(), blocks=(), medians={})
    size = of(judge(TERMS, sides), GateMetric.SIZE)
    assert (size.verdict.outcome, size.verdict.is_better, size.missing) == (
        GateOutcome.CANNOT_TELL,
        False,
        "nothing was measured",
    )


def asking(*metrics: GateMetric) -> GateTerms:
    return TERMS.model_copy(update={"metrics": metrics})


def test_what_is_worse_for_sure_does_not_leave_the_others_untold() -> None:
    both = asking(GateMetric.SIZE, GateMetric.LATENCY)
    larger = {"size_bytes": 1170}
    judged = judge(both, arms(1.0, pairs=1, head=larger))
    assert judged.outcome is GateOutcome.WORSE
    assert not stands(judged), "the size is known beforehand, and nothing of the latency yet"
    assert stands(judge(both, arms(1.0, head=larger)))
    unsure = judge(asking(GateMetric.MEMORY, GateMetric.LATENCY), arms(1.01, scatter=0.2, head={"peak_bytes": 2e8}))
    assert unsure.outcome is GateOutcome.WORSE
    assert not stands(unsure), "there is time to tell the latency, too"


def test_what_can_never_be_known_keeps_no_gate_going() -> None:
    """But what only stood still, or was not answered once, may be known of the next process."""
    assert stands(judge(asking(GateMetric.ENERGY), arms(1.0, pairs=1)))
    assert stands(judge(asking(GateMetric.MEMORY, GateMetric.ENERGY), arms(1.0)))
    assert not stands(judge(asking(GateMetric.MEMORY, GateMetric.ENERGY), arms(1.0, pairs=1)))
    sides = arms(1.0, pairs=1, energy_uj=5_000_000)
    for metric in (GateMetric.LATENCY, GateMetric.THROUGHPUT, GateMetric.ENERGY):
        judged = judge(asking(metric), {role: _stood_still(one, {0}) for role, one in sides.items()})
        assert of(judged, metric).missing and not stands(judged), metric
    once = {role: _read_once(one) for role, one in sides.items()}
    judged = judge(asking(GateMetric.ENERGY), once)
    assert of(judged, GateMetric.ENERGY).missing and not stands(judged)


def _stood_still(arm, processes):
    stood = (replace(one, paused_ns=SECOND_NS) if one.process in processes else one for one in arm.blocks)
    return replace(arm, blocks=tuple(stood))


def _read_once(arm):
    lost = (replace(one, evidence=Evidence()) if one.index else one for one in arm.blocks)
    return replace(arm, blocks=tuple(lost))


def test_where_too_few_process_pairs_count_it_says_how_many() -> None:
    sides = arms(1.0, pairs=6)
    sides[HEAD] = _stood_still(sides[HEAD], range(5))
    latency = of(judge(TERMS, sides), GateMetric.LATENCY)
    told = "too few pairs of processes to tell: only 1 of 6 process pairs count"
    assert (latency.verdict.sentence, latency.verdict.stands) == (told, False)
    sides[HEAD] = _stood_still(sides[HEAD], range(6))
    latency = of(judge(TERMS, sides), GateMetric.LATENCY)
    assert latency.missing == "the latency is not known on both sides: only 0 of 6 process pairs count"
    alone = of(judge(TERMS, arms(1.0, pairs=1)), GateMetric.LATENCY)
    assert alone.verdict.sentence == "too few pairs of processes to tell"


def test_layers_are_the_reason_of_differences_in_time_alone():
    both = TERMS.model_copy(update={"metrics": (GateMetric.MEMORY, GateMetric.LATENCY)})
    of_memory = {"peak_bytes": 2 * 10**8}
    assert judge(both, arms(1.0, head=of_memory)).outcome is GateOutcome.WORSE
    assert not judge(both, arms(1.0, head=of_memory)).differs_in_time
    for ratio in (1.2, 0.8):
        assert judge(both, arms(ratio, head=of_memory)).differs_in_time
        assert not judge(TERMS.model_copy(update={"metrics": (GateMetric.SIZE,)}), arms(ratio)).differs_in_time
    assert not judge(both, arms(1.0)).differs_in_time
    assert judge(TERMS, arms(1.0, head={"size_bytes": 1011})).outcome is GateOutcome.PASSES, "it does not decide"


@pytest.mark.parametrize(
    ("metric", "change"),
    [(GateMetric.MEMORY, {"peak_bytes": 1.2e8}), (GateMetric.COMPILE, {"compile_ns": 1.5e8})],
)
def test_other_metrics_are_judged_by_the_same_rule_where_they_are_asked_for(metric, change) -> None:
    changed = arms(1.0, head=change)
    assert judge(TERMS, changed).outcome is GateOutcome.PASSES
    judged = judge(TERMS.model_copy(update={"metrics": (metric,)}), changed)
    assert judged.outcome is GateOutcome.WORSE
    assert judged.decisive.metric is metric


def test_disturbed_blocks_are_left_out_unless_they_are_most() -> None:
    half = {(n, block) for n in range(5) for block in (0, 1)}
    sides = {BASE: arm([1e6] * 5), CONTROL: arm([1e6] * 5), HEAD: arm([1e6] * 5, disturbed=half)}
    sides[HEAD].medians.update(dict.fromkeys(half, 9e6))
    latency = of(judge(TERMS, sides), GateMetric.LATENCY)
    assert latency.ratio.middle == pytest.approx(0, abs=1e-9)
    assert (latency.base, latency.head) == (1e6, 1e6), "what stands beside a ratio is of the same blocks"
    mostly = {(n, block) for n in range(5) for block in (0, 1, 2)}
    sides[HEAD] = arm([1e6] * 5, disturbed=mostly)
    for place in mostly:
        sides[HEAD].medians[place] = 9e6
    assert of(judge(TERMS, sides), GateMetric.LATENCY).head == 9e6, "there is nothing else"


def test_blocks_that_stood_still_count_in_nothing_that_is_compared() -> None:
    half = {(n, block) for n in range(5) for block in (0, 1)}
    sides = {BASE: arm([1e6] * 5), CONTROL: arm([1e6] * 5), HEAD: arm([1e6] * 5)}
    sides[HEAD].medians.update(dict.fromkeys(half, 9e6))
    stood = {"paused_ns": 9 * SECOND_NS, "duration_ns": 10 * SECOND_NS}
    blocks = (replace(one, **stood) if (one.process, one.index) in half else one for one in sides[HEAD].blocks)
    sides[HEAD] = replace(sides[HEAD], blocks=tuple(blocks))
    judged = judge(TERMS, sides)
    latency, throughput = (of(judged, one) for one in (GateMetric.LATENCY, GateMetric.THROUGHPUT))
    assert latency.ratio.middle == pytest.approx(0, abs=1e-9)
    assert (latency.head, throughput.head) == pytest.approx((1e6, 1000))


def test_throughput_and_energy_are_of_items_and_a_phase_of_the_time_in_which_it_went_on() -> None:
    metrics = (GateMetric.THROUGHPUT, GateMetric.ENERGY, GateMetric.FIRST_INFERENCE)
    sides = {}
    for role in (BASE, CONTROL, HEAD):
        one = arm([1e6] * 5, energy_uj=5_000_000)
        paused = [replace(each, phases=tuple(_paused(phase) for phase in each.phases)) for each in one.processes]
        sides[role] = replace(one, batch=4, processes=tuple(paused))
    judged = judge(TERMS.model_copy(update={"metrics": metrics}), sides)
    assert [of(judged, one).base for one in metrics] == pytest.approx([4000, 0.5 / 4, 2e6])


def _paused(phase):
    return replace(phase, duration_ns=phase.duration_ns + SECOND_NS, paused_ns=SECOND_NS)


def test_seconds_of_a_pair_withstand_a_jump_of_the_clock() -> None:
    sides = arms(1.0, pairs=9, pair_s=3)
    jumped = sides[BASE].processes[4:]
    for one in jumped:
        object.__setattr__(one, "started_at_unix_ns", one.started_at_unix_ns - 10**13)
    judged = judge(TERMS, sides)
    assert judged.pair_seconds == pytest.approx(3)
    assert judged.most == 13


def test_an_interval_without_ends_can_be_written_down() -> None:
    judged = judge(TERMS.model_copy(update={"budget": "1h"}), arms(1.0, pairs=2, scatter=0.3))
    throughput = of(judged, GateMetric.THROUGHPUT)
    assert ratio_of_values(throughput)[2] == math.inf
    assert judged.outcome is GateOutcome.CANNOT_TELL
