"""What ran is compared with what was asked for, and engines with each other."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.records import (
    Afterwards,
    ArrivalProcess,
    Arrivals,
    Block,
    Bystanders,
    Ceiling,
    CeilingBasis,
    Configuration,
    Disturbance,
    DisturbanceKind,
    Effective,
    EngineRef,
    Evidence,
    Grounds,
    Hint,
    Load,
    MachineUse,
    Process,
    ProcessUse,
    Readback,
    ReadbackSource,
    Status,
    StopReason,
    WarmUp,
)
from enginebench_controller.verdicts.answer_words import Rival, by_whom
from enginebench_controller.verdicts.doubts import Mark, doubts, flags, marks, status_words
from enginebench_controller.verdicts.parity import engine_label, requested_is_not_effective, unequal_settings

BF16 = Effective(threads=Readback(2, ReadbackSource.OBSERVED), precision=Readback("bf16", ReadbackSource.ENGINE_API))


def test_nothing_is_said_when_what_ran_is_what_was_asked_for():
    assert requested_is_not_effective(invented.measured("m1")) == ()


def test_another_precision_and_other_threads_are_each_one_sentence():
    effective = replace(BF16, threads=Readback(1, ReadbackSource.OBSERVED))

    assert requested_is_not_effective(invented.measured("m1", effective=effective)) == (
        "precision: f32 requested, bf16 effective (as the engine reports)",
        "threads: 2 requested, 1 effective (as observed)",
    )


def test_what_another_provider_took_over_is_told():
    def said(provider):
        effective = Effective(provider=Readback(provider, ReadbackSource.ENGINE_API))
        on_webgpu = Configuration("WEBGPU.GPU", 1, cores=2)
        return requested_is_not_effective(invented.measured("m1", configuration=on_webgpu, effective=effective))

    assert said("WebGpuExecutionProvider") == ()
    (sentence,) = said("WebGpuExecutionProvider,CPUExecutionProvider")
    assert sentence.startswith("WEBGPU.GPU did not compute all: most nodes were given to WebGpuExecutionProvider")
    assert sentence.endswith("others to CPUExecutionProvider")


def test_iterations_that_the_longest_duration_cut_off_are_told_with_what_to_raise():
    asked = invented.measured("m1")
    rule = replace(asked.configuration.stop, min_iterations=1_000, max_duration_ns=7_500_000_000)
    short = replace(asked, configuration=replace(asked.configuration, stop=rule), status=Status.INCONCLUSIVE)
    over = tuple(replace(one, stop_reason=StopReason.MAX_DURATION) for one in asked.processes)
    assert doubts(short) == (), "ended for another reason"
    assert doubts(replace(asked, processes=over)) == (), "there are as many as were asked for"
    (sentence,) = doubts(replace(short, processes=over))
    assert sentence == "cut off after 200 of 1,000 --iterations: --max-duration 7.5s was over, so give it longer"


def test_unknown_is_not_a_difference():
    assert requested_is_not_effective(invented.measured("m1", effective=Effective())) == ()


def test_what_was_left_to_the_engine_cannot_differ():
    left_open = Configuration("CPU", 1, cores=2, precision="default", hint=Hint.THROUGHPUT)
    effective = replace(BF16, streams=Readback(4, ReadbackSource.ENGINE_API))

    assert requested_is_not_effective(invented.measured("m1", configuration=left_open, effective=effective)) == ()


def test_streams_are_compared_when_no_hint_leaves_them_to_the_engine():
    effective = Effective(streams=Readback(4, ReadbackSource.ENGINE_API))

    assert requested_is_not_effective(invented.measured("m1", effective=effective)) == (
        "streams: 1 requested, 4 effective (as the engine reports)",
    )


def test_engines_that_ran_the_same_work_differently_are_named():
    fast = invented.measured("m1", engine="fake-fast", effective=BF16)

    assert unequal_settings([invented.measured("m2"), fast]) == (
        "effective precision differs: bf16 on fake-fast 1.0; f32 on fake 1.0 (for invented)",
    )


def test_the_same_difference_at_several_batches_is_said_once():
    pairs = [
        invented.measured(f"{engine}{batch}", engine=engine, batch=batch, **fields)
        for batch in (1, 4)
        for engine, fields in (("fake", {}), ("fake-fast", {"effective": BF16}))
    ]

    assert len(unequal_settings(pairs)) == 1


def test_different_work_is_not_compared():
    other_batch = invented.measured("m1", engine="fake-fast", batch=4, effective=BF16)

    assert unequal_settings([invented.measured("m2"), other_batch]) == ()


def test_a_failure_is_not_compared():
    assert unequal_settings([invented.measured("m1"), invented.failed("m2")]) == ()


def test_an_engine_is_labelled_with_what_tells_it_apart():
    measurement = invented.measured("m1", engine="x")

    assert engine_label(measurement) == "x 1.0"
    assert engine_label(replace(measurement, engine=EngineRef("x", "legacy", None))) == "x (legacy)"


def test_other_precisions_are_unlike_also_where_they_were_asked_for():
    wanted = Configuration("CPU", 1, cores=2, precision="bf16")
    fast = invented.measured("m1", configuration=wanted, effective=BF16)

    assert unequal_settings([invented.measured("m2"), fast]) == (
        "effective precision differs: bf16 on fake 1.0; f32 on fake 1.0 (for invented)",
    )


def test_other_inputs_are_unlike():
    other = invented.measured("m1", engine="fake-fast", input_set_sha256="ef" * 32)

    (sentence,) = unequal_settings([invented.measured("m2"), other])
    assert sentence.startswith("input set differs: cdcdcdcdcdcd on fake 1.0; efefefefefef on fake-fast 1.0")


def quiet(**fields):
    """A measurement that nothing is to be said about."""
    return invented.measured("m1", blocks=(), processes=(), process_spread=0.01, **fields)


def test_nothing_is_doubted_where_nothing_is_wrong_or_nothing_was_measured():
    assert doubts(quiet()) == ()
    assert doubts(invented.failed("m2")) == ()


def test_of_a_device_beside_the_processor_it_is_said_that_nobody_knows_who_else_used_it():
    seen = Process(0, bystanders=Bystanders(unseen=("who else uses the device",)))
    on_gpu = replace(quiet(), processes=(seen,), configuration=replace(quiet().configuration, device="CUDA:0"))
    assert doubts(on_gpu) == ("who else uses the device (CUDA:0) is not known: others slow it down unseen",)
    assert marks(on_gpu) == ()


def test_more_processor_time_than_cores_is_told():
    too_much = quiet(cpu_time_ns=2_300, steady_state_ns=1_000)
    just_enough = quiet(cpu_time_ns=2_090, steady_state_ns=1_000)

    assert doubts(too_much) == ("used 2.3 cores, 2 were asked for",)
    assert doubts(just_enough) == ()


def test_a_warm_up_that_never_became_steady_is_told_with_its_process_and_reason():
    calm, drifting = Process(0, warm_up=WarmUp(True, 10)), Process(1, warm_up=WarmUp(False, 900, "it drifted"))

    assert doubts(replace(quiet(), processes=(calm, drifting))) == (
        "never became steady while warming up (process 2 of 2): it drifted",
    )


def test_how_much_of_the_time_was_disturbed_is_told_with_the_causes():
    blocks = invented.measured("m1").blocks
    noisy = [replace(block, duration_ns=100, disturbances=()) for block in blocks[:10]]
    noisy[0] = replace(noisy[0], disturbances=(invented.STEAL, invented.THROTTLED))
    noisy[1] = replace(noisy[1], disturbances=(invented.STEAL,))

    assert doubts(replace(quiet(), blocks=tuple(noisy))) == ("20% of the time was disturbed (steal, throttled)",)
    noisy[0:2] = [replace(noisy[0], duration_ns=1), replace(noisy[1], disturbances=())]
    assert doubts(replace(quiet(), blocks=tuple(noisy))) == (
        "less than 1% of the time was disturbed (steal, throttled)",
    )


def noisy(kind=DisturbanceKind.OTHER_PROCESSES, share=2, of=None, **fields):
    """A measurement, two of ten blocks of which were disturbed, or `share` of them."""
    blocks = [
        replace(one, duration_ns=100, disturbances=(), evidence=replace(one.evidence, other_cpu_time_ns=None))
        for one in invented.measured("m1").blocks[:10]
    ]
    blocks = [
        replace(one, disturbances=(Disturbance(kind, share=0.12),)) if place < share else one
        for place, one in enumerate(blocks)
    ]
    return replace(of or quiet(), blocks=tuple(blocks), **fields)


def beside(*uses, **fields):
    """Processes beside which others were at work: name, pid and share of a machine with two processors, in percent."""
    busiest = tuple(ProcessUse(name, pid, 1, percent * 20) for name, pid, percent in uses)
    use = MachineUse(1000, 2, fields.pop("percent", sum(one[2] for one in uses)) * 20, 0, busiest)
    return (Process(0, bystanders=Bystanders(meanwhile=use, **fields)), Process(1))


def test_who_disturbed_is_named_with_what_to_do():
    assert doubts(noisy(processes=beside(("pip", 812, 28), ("cron", 9, 3)))) == (
        "20% of the time was disturbed (other processes); other processes used 31 % of the machine, most of it `pip` "
        "(pid 812): close `pip`, or measure when it has ended",
    )
    (several,) = doubts(noisy(processes=beside(("a", 1, 10), ("b", 2, 9), ("c", 3, 8))))
    assert several.endswith("27 % of the machine, `a` (pid 1) more than any other: close what is not needed")
    (unnamed,) = doubts(noisy(processes=beside(percent=40, unseen=("processes outside of this container",))))
    assert "40 % of the machine, most of it by processes outside of this container: close what" in unnamed
    (kernel,) = doubts(noisy(processes=beside(("[kworker/0:1]", 5, 30))))
    assert kernel.endswith("close what is not needed"), "nobody can close a thread of the kernel's"
    (agent,) = doubts(noisy(processes=beside(("enginebench_agent.worker", 5, 30))))
    assert agent.endswith("another agent measures here: wait for it")
    assert doubts(noisy()) == ("20% of the time was disturbed (other processes)",), "by whom, nobody could tell"
    of_nothing = doubts(noisy(processes=beside(("[kdamond.0]", 77, 0.1))))
    assert of_nothing == doubts(noisy()), "who used 0 % has nothing to close"


def test_what_enginebench_itself_used_beside_blocks_is_told_as_such():
    """Whoever looks for others is told nothing of them, and of blocks all the more."""

    def with_beside(share, others, kind=DisturbanceKind.OTHER_PROCESSES):
        one = noisy(kind, share=10, processes=beside(("cron", 9, others)))
        took = (
            replace(b, evidence=replace(b.evidence, other_cpu_time_ns=int(2 * share * b.duration_ns)))
            for b in one.blocks
        )
        return replace(one, blocks=tuple(took))

    own = with_beside(0.52, 1)
    said = "enginebench's own processes used 51 % of the machine beside it"
    assert doubts(own)[0].endswith(f"; {said}: let its pages and other commands rest while it measures")
    assert by_whom([Rival(own, "it", "", "")]) == f" ({said})"
    assert "other processes used 52 %" in by_whom([Rival(with_beside(0.52, 52), "it", "", "")])
    both = [Rival(one, "it", "", "") for one in (own, with_beside(0.52, 52))]
    assert "other processes used 52 %" in by_whom(both), "who used the most is told"
    assert by_whom([Rival(with_beside(0.001, 0.1), "it", "", "")]) == " (other processes)", "0 % is nobody's"
    several = [Rival(with_beside(share, 1), "it", "", "") for share in (0.08, 0.52, 0.08)]
    assert by_whom(several) == f" ({said})", "who used the most of them"
    stolen = with_beside(0.07, 1, DisturbanceKind.STEAL)
    assert "enginebench" not in doubts(stolen)[0] + by_whom([Rival(stolen, "it", "", "")]), "ticks are coarse"


def test_the_bystanders_of_all_processes_count_together():
    first, second = (beside(("pip", 812, share))[0] for share in (20, 40))
    (sentence,) = doubts(noisy(processes=(first, replace(second, index=1))))
    assert "other processes used 30 % of the machine, most of it `pip` (pid 812)" in sentence


def test_quota_and_governor_are_told_with_what_to_do():
    held_back = beside(quota_cores=1.5)
    assert doubts(noisy(DisturbanceKind.THROTTLED, processes=held_back)) == (
        "20% of the time was disturbed (throttled); the agent's control group may use 1.5 cores: raise its quota, or "
        "ask for fewer --cores",
    )
    (sentence,) = doubts(noisy(DisturbanceKind.FREQUENCY))
    assert sentence.endswith(
        "; the frequency fell (governor performance): `enginebench-agent tune` on the target pins it, or gives the "
        "line for sudo that does"
    )


def test_a_measurement_without_quiet_time_is_called_disturbed_and_not_too_short():
    again = replace(quiet().configuration, stop=replace(quiet().configuration.stop, retry_noisy=True))
    drifting = (Process(0, drift=0.12), *beside(("pip", 812, 31))[:1])
    whole = noisy(share=4, configuration=again, processes=drifting)
    drift, disturbed = doubts(whole)
    assert (
        drift == "the latency rose by 12% while it was measured (process 1 of 2): the machine was disturbed meanwhile"
    )
    assert "40% of the time was disturbed, and there was too little quiet time to measure it again" in disturbed
    assert status_words(whole) == "ok, disturbed", "what was to be left out counts"
    left_out = replace(whole, latency=replace(whole.latency, excluded=60))
    assert status_words(left_out) == "ok"
    assert doubts(left_out)[0].endswith("(heat, power, its host): more --processes would tell"), (
        "what is left was quiet"
    )
    fell = replace(left_out, processes=(Process(0, drift=-0.12), *drifting[1:]))
    assert doubts(fell)[0] == (
        "the latency fell by 12% while it was measured (process 1 of 2): use a longer --warmup"
    ), "no longer warm-up makes quicker what became slower"


def test_who_can_wait_for_nobody_waits_in_no_growing_queue():
    def remedy(rate_per_s, **fields):
        arrivals = Arrivals(rate_per_s)
        one = Process(0, drift=0.3, median_ns=4e6, **fields)
        open_loop = replace(quiet().configuration, load=Load.OPEN_LOOP, arrivals=arrivals, requests=2)
        kept_up = {"throughput_items_per_s": rate_per_s, "processes": (one,)}
        (sentence,) = doubts(replace(quiet(), configuration=open_loop, **kept_up))
        return sentence.partition(": ")[2]

    assert remedy(1).startswith("the machine may have become slower")
    assert remedy(300).startswith("requests waited longer and longer"), "more than one of two is busy on average"
    assert remedy(1, scheduled_arrivals=100, unsent_arrivals=1).startswith("requests waited longer and longer")


def test_too_few_inferences_to_tell_are_no_finding_of_unsteadiness():
    slow = Process(0, warm_up=WarmUp(None, 4, "too few inferences to tell (2 and 2): the median still rose"))
    assert doubts(replace(quiet(), processes=(slow,))) == (
        "too few inferences to tell whether the warm-up was long enough",
    )


def test_a_warm_up_beside_others_says_who_they_were():
    (process, _) = beside(("pip", 812, 31))
    unsteady = replace(process, warm_up=WarmUp(False, 900, "it drifted"))
    assert doubts(replace(quiet(), processes=(unsteady,))) == (
        "never became steady while warming up: it drifted; other processes used 31 % of the machine, most of it `pip` "
        "(pid 812)",
    )


def test_what_stood_still_is_told_and_is_no_disturbed_time():
    blocks = [replace(block, duration_ns=100, disturbances=()) for block in invented.measured("m1").blocks[:10]]
    blocks[3] = replace(blocks[3], duration_ns=20_000, disturbances=(invented.PAUSED,), paused_ns=20_000_000_000)
    of = replace(quiet(), blocks=tuple(blocks))
    left_out = replace(of, latency=replace(of.latency, excluded=blocks[3].iterations))
    stood_still = "the process stood still (stopped, frozen or suspended), for 20 s at the longest: 1 of 10 blocks are "
    assert doubts(left_out) == (stood_still + "left out",)
    assert doubts(of) == (stood_still + "in the numbers, for want of others",)
    assert status_words(left_out) == "ok"
    blocks[4] = replace(blocks[4], disturbances=(invented.STEAL,))
    assert "11% of the time was disturbed (steal)" in doubts(replace(left_out, blocks=tuple(blocks)))


def test_an_agent_that_stood_still_and_a_clock_that_was_set_are_told():
    processes = (Process(0, agent_paused_ns=19_600_000_000), Process(1, clock_jump_ns=-3_600_000_000_000))
    assert doubts(replace(quiet(), processes=processes)) == (
        "the agent stood still for 19.6 s meanwhile (process 1 of 2)",
        "the machine's clock was set by -3600 s meanwhile (process 2 of 2); no duration depends on it",
    )


def open_loop(rate_per_s, completed_per_s, unsent=0, process=ArrivalProcess.CONSTANT):
    arrivals = Arrivals(rate_per_s, process)
    configuration = Configuration("CPU", 4, cores=2, load=Load.OPEN_LOOP, requests=2, arrivals=arrivals)
    processes = (Process(0, scheduled_arrivals=1000, unsent_arrivals=unsent),)
    rate = completed_per_s * 4
    fields = {"configuration": configuration, "throughput_items_per_s": rate, "iterations": 1000}
    return replace(quiet(), processes=processes, **fields)


def test_an_open_loop_that_keeps_up_is_not_doubted():
    assert doubts(open_loop(100, 99.5)) == ()


def test_more_arrivals_that_were_never_sent_than_chance_explains_are_told():
    assert doubts(open_loop(100, 99.5, unsent=20)) == ()
    assert doubts(open_loop(100, 99.5, unsent=60)) == (
        "overloaded: 60 of 1000 scheduled arrivals could not be sent in time",
    )


def test_completions_that_are_slower_than_the_schedule_are_told():
    assert doubts(open_loop(110, 100)) == ("overloaded: 100 inferences a second were completed, 110 arrived",)


def test_chance_in_a_poisson_schedule_is_no_overload():
    assert doubts(open_loop(100, 95, process=ArrivalProcess.POISSON)) == ()
    assert doubts(open_loop(100, 85, process=ArrivalProcess.POISSON))


def test_equal_processes_that_differ_are_told_with_their_medians():
    processes = (Process(0, median_ns=4.0e6), Process(1, median_ns=6.0e6))

    assert doubts(replace(quiet(), processes=processes, process_spread=0.5)) == (
        "equal processes differ by 50%: medians from 4 to 6 ms",
    )


def clocked(*of_processes):
    """Processes of other medians whose processors reach these frequencies, in GHz, at these temperatures, in °C."""
    blocks = [
        Block(
            process,
            number,
            0,
            50_000_000,
            10,
            Evidence(max_frequency_hz=hz and round(hz * 1e9), temperature_millicelsius=heat and heat * 1000),
        )
        for process, (hz, heat) in enumerate(of_processes)
        for number in (0, 1)
    ]
    processes = tuple(Process(place, median_ns=4e6 + 2e6 * place) for place in range(len(of_processes)))
    return replace(quiet(), blocks=tuple(blocks), processes=processes, process_spread=0.5)


def test_processes_that_differ_since_their_processors_ran_slower_are_told_so():
    assert doubts(clocked((4.0, 70), (2.2, 99))) == (
        "equal processes differ by 50%: medians from 4 to 6 ms; their processors reached 2.20 and 4.00 GHz, at 99 and "
        "70 °C: cool it, give it a stronger power supply, or let it rest between runs",
    )
    assert "reached 2.20 and 4.00 GHz: cool it" in doubts(clocked((4.0, None), (2.2, 99)))[0]


@pytest.mark.parametrize("clocks", [((4.0, 70), (3.7, 99)), ((None, 70), (2.2, 99)), ((None, None), (None, None))])
def test_processors_as_fast_as_each_other_or_unknown_are_no_reason(clocks):
    assert doubts(clocked(*clocks)) == ("equal processes differ by 50%: medians from 4 to 6 ms",)


def test_what_was_measured_on_battery_is_told():
    on_battery = Block(0, 0, 0, 50_000_000, 10, Evidence(power_supply="battery"))
    plugged_in = replace(on_battery, index=1, evidence=Evidence(power_supply="mains"))
    assert doubts(replace(quiet(), blocks=(plugged_in,))) == ()
    assert doubts(replace(quiet(), blocks=(plugged_in, on_battery))) == (
        "measured on battery power, which most machines save by running slower: plug it in",
    )


def test_flags_are_the_settings_and_the_doubts():
    unlike = quiet(effective=BF16, cpu_time_ns=2_300, steady_state_ns=1_000)

    assert flags(unlike) == requested_is_not_effective(unlike) + doubts(unlike)
    assert len(flags(unlike)) == 2


def rate(items_per_s, basis=CeilingBasis.ESTIMATED):
    ceiling = Ceiling(flops_per_s=1e12, flops=1e9, precision="f32", cores=2, basis=basis)
    return quiet(throughput_items_per_s=items_per_s, grounds=Grounds(ceiling=ceiling))


def test_a_rate_beyond_what_cores_can_do_is_impossible():
    assert (doubts(rate(999.0)), marks(rate(999.0))) == ((), ())
    assert marks(rate(59_139.0)) == (Mark.IMPOSSIBLE,)
    assert doubts(rate(59_139.0)) == (
        "impossible: 59,139 items/s take at least 59.1 TFLOP/s, and 2 cores do at most 1 TFLOP/s in f32 (estimated "
        "from the instruction set and the highest frequency there is); outputs may come from a memory of earlier ones",
    )
    assert "(as calibrated)" in doubts(rate(59_139.0, CeilingBasis.CALIBRATED))[0]


def probed(*processes):
    """A measurement of processes, each with its latencies of inputs seen and never seen, in microseconds."""
    seen_and_fresh = (
        Afterwards(seen_ns=tuple(1000 * one for one in seen), fresh_ns=tuple(1000 * one for one in fresh))
        for seen, fresh in processes
    )
    return replace(quiet(), processes=tuple(Process(index, afterwards=one) for index, one in enumerate(seen_and_fresh)))


def test_inputs_never_seen_that_take_several_times_as_long_are_impossible():
    cached = ([16] * 7, [300] * 7)

    assert doubts(probed(cached)) == (
        "impossible: an input that was never seen takes 0.3 ms, 18.8 times the 0.016 ms of those that were measured; "
        "outputs may come from a memory of earlier ones",
    )
    assert marks(probed(cached, cached, ([16] * 7, [16] * 7))) == (Mark.IMPOSSIBLE,)


def test_single_inferences_that_were_held_up_are_no_memory():
    held_up = ([16] * 7, [16, 900, 900, 900, 900, 900, 900])
    first_touch = ([4] * 7, [16] * 7)
    twice = ([1000] * 7, [2500] * 7)

    assert not any(doubts(probed(one)) for one in (held_up, first_touch, twice))
    assert doubts(probed(([16] * 7, [300] * 7), held_up, held_up)) == ()
    assert doubts(probed(([], []))) == ()


def test_inferences_that_others_do_the_work_of_are_impossible():
    def of(median_ns, mean_ns, seen=11_000, fresh=2_900, disturbed_ns=None):
        (process,) = probed(([seen] * 7, [fresh] * 7)).processes
        block = replace(invented.measured("m1").blocks[0], process=0, iterations=100, disturbances=())
        blocks = [replace(block, duration_ns=100 * mean_ns)] if mean_ns else []
        if disturbed_ns:
            blocks += [replace(block, duration_ns=100 * disturbed_ns, disturbances=(invented.STEAL,))] * 3
        return replace(quiet(), processes=(replace(process, median_ns=median_ns),), blocks=tuple(blocks))

    in_fours = of(50_000, 2_900_000)
    assert doubts(in_fours) == (
        "impossible: half of the inferences take 0.05 ms at most, and 2.9 ms on average, as long as one whose input "
        "was never seen: some may be computed ahead, while others are waited for",
    )
    assert marks(in_fours) == (Mark.IMPOSSIBLE,)
    sound = of(2_900_000, 2_950_000, seen=2_900)
    slower_since = of(900_000, 910_000, seen=3_000, fresh=2_900)
    stalls = of(900_000, 2_900_000, seen=900, fresh=910)
    assert not any(doubts(one) for one in (sound, slower_since, stalls))
    beside_others = of(900_000, 910_000, seen=3_000, fresh=2_900, disturbed_ns=5_000_000)
    nothing_but = of(900_000, 0, seen=3_000, fresh=2_900, disturbed_ns=5_000_000)
    assert not any("impossible" in told for one in (beside_others, nothing_but) for told in doubts(one))


def test_a_measurement_that_was_mostly_disturbed_says_so_beside_its_status():
    blocks = [replace(one, duration_ns=100, disturbances=()) for one in invented.measured("m1").blocks[:10]]
    noisy = [replace(one, disturbances=(invented.STEAL,)) if place < 6 else one for place, one in enumerate(blocks)]

    def of(blocks, **fields):
        return replace(quiet(), blocks=tuple(blocks), **fields)

    assert status_words(of(noisy)) == "ok, disturbed"
    assert status_words(of(noisy[1:])) == "ok, disturbed"
    assert status_words(of(noisy[2:])) == "ok"
    again = replace(quiet().latency, excluded=60)
    assert status_words(of(noisy, latency=again)) == "ok"
    assert status_words(invented.failed("m2")) == "failed"


def test_what_was_measured_on_no_real_processor_is_marked():
    one = invented.measured(
        "m1", grounds=Grounds(emulation="programs for aarch64 are translated on an x86_64 processor")
    )
    assert (marks(one), status_words(one)) == ((Mark.EMULATED,), "ok, emulated")
    said = "programs for aarch64 are translated on an x86_64 processor: these times say nothing of a real machine"
    assert doubts(one)[0] == flags(one)[0] == said
