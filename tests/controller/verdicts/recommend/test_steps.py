"""What stored steps tell: a search is charged for what it measured, and not for the time in which it stood still."""

from dataclasses import replace

import pytest

import invented
from controller.verdicts.judged import captured, off, scores
from enginebench_controller.home import Home
from enginebench_controller.plan.plan import StepPurpose
from enginebench_controller.plan.points import _with_families, compared
from enginebench_controller.records import (
    OUT_OF_TIME,
    ArrivalProcess,
    Arrivals,
    Derivation,
    DerivationKind,
    Failure,
    FailureKind,
    Grounds,
    Load,
    OutputNoise,
    Phase,
    Process,
    Status,
)
from enginebench_controller.store.store import BenchmarkBundle
from enginebench_controller.verdicts.recommend.candidates import Known, SearchTerms, Step
from enginebench_controller.verdicts.recommend.steps import (
    figures_of,
    output_differences,
    reading_of,
    seconds_of,
    stored_step,
)
from invented_recommendations import order, points

BENCHMARK = invented.benchmark()


def after(*spans_s):
    """A measurement whose processes began so many seconds after the benchmark, each with how long it took."""
    processes = tuple(
        Process(
            number,
            started_at_unix_ns=BENCHMARK.created_at_unix_ns + round(begin * 1e9),
            phases=(Phase("steady_state", round(took * 1e9)),),
        )
        for number, (begin, took) in enumerate(spans_s)
    )
    return replace(invented.measured("m0000001"), processes=processes)


def ended(seconds):
    return BENCHMARK.created_at_unix_ns + round(seconds * 1e9)


def test_a_step_takes_from_its_beginning_to_its_end_with_engines_that_start():
    assert seconds_of(BENCHMARK, [after((5, 10), (20, 10)), after((6, 20))], None) == pytest.approx(30)
    assert seconds_of(BENCHMARK, [after((5, 10))], ended(18)) == pytest.approx(18)
    assert seconds_of(BENCHMARK, [], None) == 0


def test_a_clock_of_the_target_that_is_ahead_costs_nothing():
    ahead_s = 40
    assert seconds_of(BENCHMARK, [after((ahead_s + 1, 19))], ended(20)) == pytest.approx(20)
    assert seconds_of(BENCHMARK, [after((ahead_s + 1, 9), (ahead_s + 11, 99))], ended(110)) == pytest.approx(110)


def test_a_clock_that_was_set_back_makes_no_step_shorter_than_what_was_measured_in_it():
    hour_s = 3600
    both = [after((2 - hour_s, 10), (14 - hour_s, 10)), after((2 - hour_s, 4))]
    assert seconds_of(BENCHMARK, both, ended(25 - hour_s)) == seconds_of(BENCHMARK, both, None) == pytest.approx(20)


def test_the_time_until_a_killed_step_went_on_is_not_charged():
    night_s = 8 * 3600
    one = after((5, 10), (night_s, 10))
    assert seconds_of(BENCHMARK, [one], None) == pytest.approx(5 + 10 + 60 + 10)
    assert seconds_of(BENCHMARK, [after((5, 10))], ended(night_s)) == pytest.approx(5 + 10 + 60)


@pytest.mark.parametrize(
    ("unsent", "items_per_s", "is_overloaded"), [(20, 99.0, False), (100, 99.0, True), (0, 80.0, True)]
)
def test_a_process_does_not_keep_up_where_chance_does_not_explain_what_is_behind(unsent, items_per_s, is_overloaded):
    measured = invented.measured("m0000001")
    arrivals = Arrivals(100.0, ArrivalProcess.POISSON)
    configuration = replace(measured.configuration, batch=1, load=Load.OPEN_LOOP, arrivals=arrivals)
    process = Process(0, median_ns=1e6, iterations=1000, scheduled_arrivals=1000, unsent_arrivals=unsent)
    process = replace(process, throughput_items_per_s=items_per_s)
    (figures,) = figures_of(order(), replace(measured, configuration=configuration, processes=(process,)), ())
    assert figures.overloaded is is_overloaded


@pytest.mark.parametrize(("iterations", "is_enough"), [(19, False), (20, True)])
def test_a_process_has_enough_inferences_for_the_percentile_that_is_limited(iterations, is_enough):
    process = Process(0, median_ns=1e6, iterations=iterations, throughput_items_per_s=99.0)
    (figures,) = figures_of(order(max_latency="p95<20ms"), replace(invented.measured("m1"), processes=(process,)), ())
    assert reading_of(order(max_latency="p95<20ms"), figures).enough is figures.enough is is_enough


def of_point(point, measurement):
    """The measurement as one of the point."""
    case = point.case
    return replace(
        measurement,
        engine=replace(measurement.engine, name=case.engine.name, environment=case.engine.environment),
        model_digest=case.model.digest,
        configuration=case.configuration,
    )


@pytest.mark.parametrize(
    ("status", "kind", "is_refused"),
    [
        (Status.FAILED, FailureKind.CRASHED, True),
        (Status.CANCELLED, FailureKind.CANCELLED, False),
        (Status.FAILED, FailureKind.AGENT_LOST, False),
        (Status.FAILED, FailureKind.SHORTAGE, False),
        (Status.FAILED, FailureKind.INTERNAL, True),
    ],
)
def test_what_crashed_is_refused_and_what_ended_for_no_fault_of_its_own_may_run_once_more(
    tmp_path, status, kind, is_refused
):
    asked = order()
    found = points(asked).points
    crashed = invented.failed("m0000001", status=status)
    ended = of_point(found[0], replace(crashed, failure=replace(crashed.failure, kind=kind)))
    store = Home(tmp_path).store
    store.add_bundles([BenchmarkBundle(BENCHMARK, (ended,), (invented.snapshot(),))])
    told = stored_step(store, asked, found, Step(StepPurpose.LOOK, (0, 1), 1, 0.5), BENCHMARK)
    assert told.taken.refused.keys() == ({0} if is_refused else set())
    assert told.taken.rounds == () and told.engines == ({ended.engine} if is_refused else set())
    assert not any("crashed:" in why for why in told.taken.refused.values()), "kinds are for machines"


def test_a_step_in_which_the_agent_failed_costs_nothing_until_the_next_one_begins(tmp_path):
    asked = order()
    found = points(asked).points
    failed = invented.failed("m0000001")
    failed = of_point(found[0], replace(failed, failure=Failure(FailureKind.SHORTAGE, "the disk is full")))
    store = Home(tmp_path).store
    store.add_bundles([BenchmarkBundle(BENCHMARK, (failed,), (invented.snapshot(),))])
    told = stored_step(store, asked, found, Step(StepPurpose.LOOK, (0,), 1, 0.5), BENCHMARK, (), ended(50))
    assert (told.taken.seconds, told.taken.rounds, told.taken.refused) == (0, (), {})
    known = Known([{}], SearchTerms(60), [told.taken])
    assert known.each_s(StepPurpose.LOOK) == Known([{}], SearchTerms(60), []).each_s(StepPurpose.LOOK)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_step_that_was_broken_off_says_nothing_of_what_was_measured_before(tmp_path, is_known):
    asked = order(max_latency=None)
    found = points(asked).points
    look, confirm = (invented.benchmark(id_) for id_ in ("b0000001", "b0000002"))
    ran = of_point(found[0], invented.measured("m0000001", look.id))
    cut = of_point(found[0], replace(invented.failed("m0000002", confirm.id), failure=OUT_OF_TIME))
    store = Home(tmp_path).store
    for benchmark, one in ((look, ran), (confirm, cut)):
        store.add_bundles([BenchmarkBundle(benchmark, (one,), (invented.snapshot(),))])
    before = [stored_step(store, asked, found, Step(StepPurpose.LOOK, (0,), 1, 0.5), look)] if is_known else []
    told = stored_step(store, asked, found, Step(StepPurpose.CONFIRM, (0,), 5, 1.0), confirm, before)
    assert told.taken.rounds == ()
    assert told.taken.refused.keys() == (set() if is_known else {0}), "else it is why there are no numbers"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (
            lambda boxes: boxes[:, :3],
            "its outputs cannot be compared with those of the model as given: output 'boxes' cannot be compared with",
        ),
        (lambda boxes: off(boxes, 0.04), "its outputs are 4 % off those of the model as given; 1 % is allowed"),
    ],
)
def test_a_limit_of_outputs_is_for_each_of_them_and_for_what_nobody_can_compare(tmp_path, changed, why):
    """Rounding decides how many boxes there are, so these may differ as they like where nobody limits that."""
    asked = order(max_latency=None, max_output_difference="1%")
    found = [replace(one, is_given=one.case.engine.name == "openvino") for one in points(asked).points]
    batch = found[0].case.configuration.batch
    place = next(n for n, one in enumerate(found) if not one.is_given and one.case.configuration.batch == batch)
    given, other = (
        of_point(
            found[place],
            invented.measured(
                f"m000000{place}",
                captured_outputs=(*captured(logits), *captured(boxes, "boxes")),
                grounds=Grounds(noise=(OutputNoise("boxes", None),)),
            ),
        )
        for place, logits, boxes in ((0, scores(), scores(1)), (place, off(scores(), 1e-5), changed(scores(1))))
    )
    store = Home(tmp_path).store
    store.add_bundles([BenchmarkBundle(BENCHMARK, (given, other), (invented.snapshot(),))])
    told = stored_step(store, asked, found, Step(StepPurpose.LOOK, (0, place), 1, 0.5), BENCHMARK)
    assert told.taken.refused[place].startswith(why)
    assert 0 not in told.taken.refused


def of_versions(kind):
    """The points of a model on one engine, and of a version that was made of it so; and both versions."""
    alone = [one for one in points(order(max_latency=None)).points if one.case.engine.name == "openvino"]
    given = alone[0].case.model
    made = replace(
        given, digest="d" * 64, name="made", parent_digest=given.digest, derivation=Derivation(kind, sparsity=0.5)
    )
    of_made = [replace(one, case=replace(one.case, model=made)) for one in alone]
    return _with_families([*alone, *of_made], [given, made]), (given, made)


def judged(tmp_path, kind, changes, **fields):
    """The points, and what a step tells in which the plainest of the model as given ran and, of the version, those with
    outputs changed so, by what tells them from the plainest, "" for itself."""
    found, versions = of_versions(kind)
    given, plainest = compared(found)
    of_made = [place for place, one in enumerate(found) if not one.is_given]

    def place_of(load):
        alike = found[plainest].case.configuration
        wanted = (4, "sync") if load == "larger" else (alike.batch, load or str(alike.load))
        own = ((found[one].case.configuration.batch, str(found[one].case.configuration.load), one) for one in of_made)
        return plainest if not load else next(place for batch, its, place in own if (batch, its) == wanted)

    ran = {given: scores()} | {place_of(load): outputs for load, outputs in changes.items()}
    ones = [
        of_point(found[one], invented.measured(f"m{one:07}", captured_outputs=captured(its)))
        for one, its in ran.items()
    ]
    store = Home(tmp_path).store
    for version in versions:
        store.save_model(version)
    store.add_bundles([BenchmarkBundle(BENCHMARK, tuple(ones), (invented.snapshot(),))])
    step = Step(StepPurpose.LOOK, tuple(ran), 1, 0.5)
    told = stored_step(store, order(max_latency=None, **fields), found, step, BENCHMARK)
    return told.taken.refused, set(of_made), {load: place_of(load) for load in changes}


def test_a_version_whose_outputs_are_wrong_where_it_is_plainest_is_wrong_at_every_size(tmp_path):
    """At others the model as given may never run, so that there is nothing to compare with."""
    refused, of_made, _ = judged(tmp_path, DerivationKind.QUANTIZED, {"": off(scores(), 0.9)})
    assert len(of_made) > 1 and refused.keys() == of_made
    assert all(why.startswith("its outputs are wrong: ") for why in refused.values())


def test_what_is_wrong_when_asked_in_another_way_refuses_that_alone(tmp_path):
    changes = {"": off(scores(), 0.01), "async": off(scores(), 0.9)}
    refused, _, places = judged(tmp_path, DerivationKind.QUANTIZED, changes)
    assert refused.keys() == {places["async"]}


def test_outputs_that_are_too_far_off_on_one_device_refuse_the_version_there_alone(tmp_path):
    on_processor, versions = of_versions(DerivationKind.QUANTIZED)
    on_gpu = [replace(one, case=on(one.case, "GPU")) for one in on_processor]
    found = [*on_processor, *on_gpu]
    given, near, far = (
        next(p for p in compared(found) if test(found[p]))
        for test in (
            lambda one: one.is_given and one.case.configuration.device == "CPU",
            lambda one: not one.is_given and one.case.configuration.device == "CPU",
            lambda one: not one.is_given and one.case.configuration.device == "GPU",
        )
    )
    ran = {given: scores(), near: off(scores(), 1e-4), far: off(scores(), 0.04)}
    ones = [of_point(found[p], invented.measured(f"m{p:07}", captured_outputs=captured(its))) for p, its in ran.items()]
    store = Home(tmp_path).store
    for version in versions:
        store.save_model(version)
    store.add_bundles([BenchmarkBundle(BENCHMARK, tuple(ones), (invented.snapshot(),))])
    asked = order(max_latency=None, max_output_difference="1%")
    told = stored_step(store, asked, found, Step(StepPurpose.LOOK, tuple(ran), 1, 0.5), BENCHMARK)
    assert told.taken.refused.keys() == {p for p, one in enumerate(found) if one.variant == found[far].variant}
    differences = output_differences(found, [told.differences])
    assert differences[found[near].variant] < 0.01 < differences[found[far].variant]


def on(case, device):
    """The case on another device."""
    return replace(case, configuration=replace(case.configuration, device=device))


def test_what_was_seen_to_be_right_stays_though_the_plainest_is_wrong(tmp_path):
    changes = {"": off(scores(), 0.9), "async": off(scores(), 0.01)}
    refused, of_made, places = judged(tmp_path, DerivationKind.QUANTIZED, changes)
    assert refused.keys() == of_made - {places["async"]}


def test_what_ran_where_the_model_as_given_did_not_was_not_seen_to_be_right(tmp_path):
    changes = {"": off(scores(), 0.9), "larger": off(scores(), 0.9)}
    refused, of_made, _ = judged(tmp_path, DerivationKind.QUANTIZED, changes)
    assert refused.keys() == of_made


@pytest.mark.parametrize(("limit", "is_refused"), [(None, False), ("50%", False), ("1%", True)])
def test_a_pruned_version_may_be_off_as_far_as_nobody_limits_it(tmp_path, limit, is_refused):
    fields = {} if limit is None else {"max_output_difference": limit}
    refused, of_made, _ = judged(tmp_path, DerivationKind.PRUNED, {"": off(scores(), 0.05)}, **fields)
    assert refused.keys() == (of_made if is_refused else set())
