"""Answers: which is fastest, by how much, and why it cannot be told, in the same words everywhere."""

import shlex
from dataclasses import replace

import numpy as np
import pytest

import invented
from controller.verdicts.rivals import ASKED, PROCESSES, answered, member
from enginebench_controller.files.answers import answers_document
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.records import (
    Arrivals,
    BlockSamples,
    Derivation,
    DerivationKind,
    Effective,
    EngineRef,
    Hint,
    Load,
    ModelVersion,
    Readback,
    ReadbackSource,
)
from enginebench_controller.verdicts.answers import AnswerOutcome, RankMetric, answers_across, contested
from enginebench_controller.verdicts.pairing import compare_pairs, pairs_across, pairs_within, planned_processes

BF16 = Effective(threads=Readback(2, ReadbackSource.OBSERVED), precision=Readback("bf16", ReadbackSource.ENGINE_API))


def test_the_fastest_is_named_with_how_much_faster_it_is_than_each_of_the_others():
    (answer,) = answered(member("torch", 6.8), member("openvino", 4.0), member("ort", 4.2))
    assert answer.outcome is AnswerOutcome.RANKED
    assert answer.sentence.startswith("invented, batch 1, 2 cores: openvino is fastest, 1.05")
    assert "as fast as ort, 1.7" in answer.sentence and answer.sentence.endswith("× torch.")
    assert [place.name for place in answer.places] == ["openvino", "ort", "torch"]
    near = answer.places[1]
    assert 1.03 < near.low < near.ratio < near.high < 1.07
    assert answer.command is None and answer.remarks == ()


def test_two_that_are_alike_are_the_same_within_what_is_known():
    (answer,) = answered(member("openvino", 4.0), member("ort", 4.0))
    assert answer.outcome is AnswerOutcome.SAME and answer.bound < 0.01
    assert answer.sentence == "invented, batch 1, 2 cores: openvino and ort are the same within 1 %."


def test_the_same_and_faster_than_a_third():
    (answer,) = answered(member("openvino", 4.0), member("ort", 4.0), member("torch", 6.4))
    assert answer.outcome is AnswerOutcome.PARTLY
    assert "openvino and ort are the same within 1 %, both faster than torch (1.6" in answer.sentence


def test_only_the_one_that_is_known_to_be_is_called_faster_than_a_third():
    near = [member("a", 4.0), member("b", 4.05, spread=0.02, seed=2), member("c", 4.1)]
    (answer,) = answered(*near)
    assert [place.standing for place in answer.places] == ["fastest", "same", "slower"]
    assert ", a faster than c (1.0" in answer.sentence and "both" not in answer.sentence


def test_what_cannot_be_told_says_why_and_gives_the_command_that_would():
    plan = make_plan({"models": ["net.onnx", "zoo:other"], "batch": [1, 4], "options": {"ort.level": "low"}}, "run")
    document = plan.document() | {"digests": {"net.onnx": "ab" * 32, "zoo:other": "cd" * 32}, "order_seed": 3}
    noisy = [member("openvino", 4.0, spread=0.1), member("ort", 4.1, spread=0.1), member("torch", 40.0, spread=0.1)]
    (answer,) = answered(*noisy, plan=document)
    assert answer.outcome is AnswerOutcome.PARTLY
    assert "openvino and ort are faster than torch (10×); cannot tell which of the two is faster: ort takes 0." in (
        answer.sentence
    )
    words = shlex.split(answer.command)
    assert words[:4] == ["enginebench", "run", "net.onnx", "--engine"] and words[4] == "openvino,ort"
    assert "--option" in words and "zoo:other" not in words and "4" not in words
    assert int(words[words.index("--processes") + 1]) > PROCESSES


def test_wrong_outputs_never_win_and_failures_are_named():
    wrong = member("quick", 1.0, captured_outputs=(invented.outputs(shift=0.5),))
    failed = (replace(invented.failed("broken", engine="broken"), configuration=ASKED), ())
    (answer,) = answered(member("a", 4.0), wrong, member("b", 5.0), failed)
    assert answer.sentence.startswith("invented, batch 1, 2 cores: a is fastest")
    assert [place.name for place in answer.places] == ["a", "b"]
    assert any("left out: quick" in remark and "≠" in remark for remark in answer.remarks)
    assert "left out: broken (crashed)" in answer.remarks


def test_where_nothing_else_has_numbers_there_is_no_answer():
    failed = (replace(invented.failed("broken", engine="broken"), configuration=ASKED), ())
    (answer,) = answered(member("a", 4.0), failed)
    assert answer.outcome is AnswerOutcome.CANNOT_TELL and "only a has numbers" in answer.sentence
    assert answered(member("a", 4.0)) == ()


def test_another_precision_than_asked_for_is_told():
    (answer,) = answered(member("a", 4.0), member("b", 2.0, effective=BF16))
    assert "b ran in bf16, and f32 was asked for" in answer.remarks
    assert any("effective precision differs" in remark for remark in answer.remarks)


def test_what_took_no_turns_is_told():
    (answer,) = answered(member("a", 4.0), member("b", 5.0), member("c", 6.0, group=None))
    assert "ran alone, not in turns with the others: c" in answer.remarks
    (older,) = answered(member("a", 4.0, group=None), member("b", 9.0, group=None))
    assert older.outcome is AnswerOutcome.RANKED and not any(one.standing == "unsure" for one in older.places)
    assert older.remarks == (
        "measured one after the other, not in turns, so that the machine may have changed meanwhile",
    )


def test_one_process_each_is_told_as_what_it_is():
    (answer,) = answered(*(member(name, ms, processes=1) for name, ms in (("a", 4.0), ("b", 5.0))))
    assert answer.outcome in (AnswerOutcome.CANNOT_TELL, AnswerOutcome.RANKED)
    assert any("one process each" in line for line in answer.lines)


def test_a_disturbed_machine_is_told_and_is_why_nothing_can_be():
    quiet, told = member("a", 4.0, spread=0.2)
    noisy = tuple(replace(one, disturbances=(invented.DISTURBANCE,)) for one in quiet.blocks)
    (answer,) = answered((replace(quiet, blocks=noisy), told), member("b", 4.1, spread=0.2))
    assert answer.sentence.endswith("; the machine was disturbed.")
    assert any(remark.startswith("disturbed for up to 100%") for remark in answer.remarks)


PLAN = make_plan({"models": ["net.onnx"], "processes": PROCESSES}, "run").document() | {
    "digests": {"net.onnx": "ab" * 32}
}


def begun_each(seconds, measured):
    """A member whose processes began so many seconds after each other."""
    measurement, told = measured
    starts = (round(1e9 * (1000 + seconds * one.index)) for one in measurement.processes)
    processes = [
        replace(one, started_at_unix_ns=start) for one, start in zip(measurement.processes, starts, strict=True)
    ]
    return replace(measurement, processes=tuple(processes)), told


def test_a_disturbed_machine_gets_a_quiet_hour_and_not_many_more_processes():
    members = [member(name, ms, spread=0.2) for name, ms in (("a", 4.0), ("b", 4.1))]
    (quiet,) = answered(*members, plan=PLAN)
    hit = [
        (replace(one, blocks=tuple(replace(block, disturbances=(invented.STEAL,)) for block in one.blocks)), told)
        for one, told in members
    ]
    (noisy,) = answered(*hit, plan=PLAN)
    assert noisy.advice == "when the machine is quiet, this would tell"
    asked = [shlex.split(one.command) for one in (quiet, noisy)]
    many, few = (int(words[words.index("--processes") + 1]) for words in asked)
    assert many > few == PROCESSES


def test_the_command_waits_for_quiet_whatever_the_first_one_did():
    members = [member(name, ms, spread=0.2) for name, ms in (("a", 4.0), ("b", 4.1))]
    (answer,) = answered(*members, plan=PLAN | {"wait_quiet": "0s", "retry_noisy": False})
    assert "--wait-quiet" not in answer.command and "--keep-noisy" not in answer.command


def test_who_may_be_as_good_as_the_fastest_is_contested():
    ranked = answered(member("torch", 6.8), member("openvino", 4.0))
    alike = answered(member("a", 4.0), member("b", 4.001), member("c", 9.0))
    unsure = answered(*(member(name, ms, spread=0.2) for name, ms in (("d", 4.0), ("e", 4.1))))
    assert contested(ranked) == {}
    assert contested((*alike, *unsure)) == {"a": {"b"}, "b": {"a"}, "c": {"a", "b"}, "d": {"e"}, "e": {"d"}}


def test_ends_that_may_lie_anywhere_are_told_as_that():
    (answer,) = answered(*(member(name, ms, spread=4.0, processes=2) for name, ms in (("a", 4.0), ("b", 5.0))))
    assert "<0.01 to >100× as long" in answer.sentence


def test_how_long_it_takes_is_told_with_the_command():
    members = [begun_each(8, member(name, ms, spread=0.1)) for name, ms in (("a", 4.0), ("b", 4.1), ("far", 40.0))]
    (answer,) = answered(*members, plan=PLAN)
    words = shlex.split(answer.command)
    seconds = int(words[words.index("--processes") + 1]) * 8 * 2 / 3
    told = f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"
    assert answer.advice == f"this would tell, in about {told}" and answer.lines[1].startswith(f"{answer.advice}: ")


def test_how_long_it_takes_is_of_all_that_the_command_measures_and_not_of_what_is_in_doubt_alone():
    """One of the two in doubt has no hint, so that all engines are asked: the slow one is measured once more, too."""
    hinted = replace(ASKED, hint=Hint.LATENCY)
    asked = [("a", 4.0, "a", ASKED), ("hinted", 4.1, "a", hinted), ("b", 4.1, "b", ASKED), ("far", 40.0, "far", ASKED)]
    members = [
        begun_each(8, member(name, ms, spread=0.1, engine=EngineRef(engine, "default", "1.0"), configuration=one))
        for name, ms, engine, one in asked
    ]
    plan = PLAN | {"hint": ["none", "latency"]}
    (answer,) = answered(*members, plan=plan)
    words = shlex.split(answer.command)
    minutes = int(words[words.index("--processes") + 1]) * 8 / 60
    assert answer.advice.endswith(f", in about {minutes:.0f} minutes")


def test_a_sentence_that_tells_nothing_names_two_ranges_and_counts_the_others():
    (answer,) = answered(*(member(f"engine{place}", 4.0 + place / 50, spread=0.3) for place in range(6)))
    assert answer.outcome is AnswerOutcome.CANNOT_TELL and len(answer.places) == 6
    assert answer.sentence.count("×") == 2 and ", 3 more; that is what 6 processes each tell." in answer.sentence


def test_what_is_shorter_than_the_clock_can_tell_is_left_out_and_named():
    measurement, told = member("quick", 4.0)
    none = tuple(replace(one, median_ns=0.0) for one in measurement.processes)
    (answer,) = answered((replace(measurement, processes=none), told), member("a", 4.0), member("b", 5.0))
    assert [place.name for place in answer.places] == ["a", "b"]
    assert "left out: quick, whose inferences are shorter than the clock can tell" in answer.remarks


def test_what_is_told_on_a_disturbed_machine_says_that_it_holds_there():
    quiet, told = member("a", 4.0)
    noisy = tuple(replace(one, disturbances=(invented.DISTURBANCE,)) for one in quiet.blocks)
    (answer,) = answered((replace(quiet, blocks=noisy), told), member("b", 8.0))
    assert answer.sentence.startswith("invented, batch 1, 2 cores: on a disturbed machine a is fastest, 2.0")
    assert any(remark.startswith("disturbed for up to 100%") for remark in answer.remarks)


def test_one_bad_block_in_each_process_changes_nothing():
    measurement, told = member("a", 4.0)
    bad = tuple(replace(one, median_ns=one.median_ns * 3) if one.block == 2 else one for one in told)
    (answer,) = answered((measurement, bad), member("b", 4.4))
    assert answer.outcome is AnswerOutcome.RANKED and answer.places[0].name == "a"
    assert answer.places[1].ratio == pytest.approx(1.1, rel=0.01)


def test_medians_of_tables_that_say_otherwise_are_named_beside_the_ratio():
    slow, blocks = member("ort", 4.2)
    slow = replace(slow, latency=replace(slow.latency, median_ns=6e6))
    (answer,) = answered(member("openvino", 4.0), (slow, blocks))
    assert "openvino is fastest, 1.05" in answer.sentence
    (remark,) = answer.remarks
    assert remark.startswith("medians over all samples, which tables show, give ort 1.5")
    alone = [(replace(one, interleaving_group=None), its) for one, its in (member("openvino", 4.0), (slow, blocks))]
    assert not any("medians" in one for one in answered(*alone)[0].remarks), "these are no pairs"


def test_what_was_disturbed_is_left_out_of_the_pairs():
    measurement, told = member("a", 4.0)
    hit = {0, 1}
    bad = tuple(replace(one, median_ns=one.median_ns * 3) if one.block in hit else one for one in told)
    marked = tuple(
        replace(one, disturbances=(invented.STEAL,) if one.index in hit else ()) for one in measurement.blocks
    )
    (answer,) = answered((replace(measurement, blocks=marked), bad), member("b", 4.4))
    assert answer.places[1].ratio == pytest.approx(1.1, rel=0.005)


FP32, INT8 = ("ab" * 32, "cd" * 32)
FAMILY = (
    ModelVersion(FP32, "net", "onnx", (), invented.CREATED_NS),
    ModelVersion(
        INT8, "net-int8", "onnx", (), invented.CREATED_NS, FP32, Derivation(DerivationKind.QUANTIZED, said="8")
    ),
)


def test_versions_of_one_family_are_called_by_what_differs():
    float_, quantized = member("m1", 4.0), member("m2", 2.0)
    engine = EngineRef("ort", "default", "1.31.0")
    members = [
        (replace(float_[0], model_name="net", model_digest=FP32, engine=engine), float_[1]),
        (replace(quantized[0], model_name="net-int8", model_digest=INT8, engine=engine), quantized[1]),
    ]
    (answer,) = answered(*members, models=FAMILY)
    assert answer.sentence.startswith("net on ort, batch 1, 2 cores: net-int8 is fastest, ")
    assert answered(*members) == (), "without lineage they are two models"


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ({"engine": EngineRef("ort", "default", "1.2")}, {"engine": EngineRef("ort", "old", "1.1")}, "ort@old 1.1"),
        ({"configuration": replace(ASKED, options={"level": "low"})}, {"configuration": ASKED}, "level=unset"),
        ({"configuration": replace(ASKED, precision="bf16")}, {"configuration": ASKED}, "f32"),
        ({"configuration": replace(ASKED, hint=Hint.LATENCY)}, {"configuration": ASKED}, "no hint"),
        ({"configuration": ASKED}, {"configuration": ASKED}, "ort (2)"),
    ],
)
def test_members_of_one_engine_are_called_by_what_differs(first, second, names):
    engine = {"engine": EngineRef("ort", "default", "1.2")}
    (answer,) = answered(member("m1", 9.0, **{**engine, **first}), member("m2", 4.0, **{**engine, **second}))
    assert answer.places[0].name == names and answer.work.startswith(
        "invented on ort" if "@" not in names else "invented,"
    )


def test_batches_cores_and_loads_are_answers_of_their_own():
    def at(name, **changes):
        return member(name, 4.0, configuration=replace(ASKED, **changes))

    slow = Arrivals(50.0)
    answers = answered(
        at("a"), at("b"),
        (replace(at("c", batch=4)[0], id="c4"), ()), (replace(at("a", batch=4)[0], id="a4"), at("a")[1]),
        at("d", load=Load.OPEN_LOOP, arrivals=slow), at("e", load=Load.OPEN_LOOP, arrivals=slow),
    )  # fmt: skip
    works = [one.work for one in answers]
    assert "invented, batch 1, 2 cores" in works and "invented, batch 4, 2 cores" in works
    assert "invented, batch 1, 2 cores, open-loop 50/s poisson, by median latency" in works


def test_overlapping_requests_are_ranked_by_throughput():
    busy = replace(ASKED, load=Load.ASYNC, requests=4)
    (answer,) = answered(member("a", 4.0, configuration=busy), member("b", 6.0, configuration=busy))
    assert answer.metric is RankMetric.THROUGHPUT
    assert answer.sentence.startswith("invented, batch 1, 2 cores, async 4, by throughput: a is fastest, 1.50×")


@pytest.mark.slow
def test_many_alike_are_seldom_told_apart():
    """Six engines that do the same, a hundred times: one is called faster than another in few of them."""
    false = 0
    for seed in range(100):
        members = [member(f"e{number}", 4.0, spread=0.02, seed=seed) for number in range(6)]
        (answer,) = answered(*members)
        false += any(place.standing == "slower" for place in answer.places)
    assert false <= 12, "5 of 100 are expected at most; 12 or more come by chance once in a thousand"


def on_targets(**medians_ms):
    """One engine on targets of these names."""
    sides = [member(name, ms, group=None, spread=0.1 if name == "c" else 0.002) for name, ms in medians_ms.items()]
    return [(replace(one, target=one.id, engine=EngineRef("ort", "default", "1.2")), blocks) for one, blocks in sides]


def test_of_one_engine_on_several_targets_the_answer_is_which_machine():
    (answer,) = answered(*on_targets(board=8.0, desk=4.0, rack=2.0))
    assert answer.sentence.startswith("invented on ort, batch 1, 2 cores: rack is fastest, 2.")
    assert "desk" in answer.sentence and "board" in answer.sentence
    assert any("measured on different targets" in one for one in answer.remarks)


def test_where_a_target_has_rivals_each_target_has_its_answer():
    rivals = [(replace(one, target="desk"), blocks) for one, blocks in (member("a", 2.0), member("b", 4.0))]
    (answer,) = answered(*rivals, *on_targets(rack=1.0))
    assert answer.sentence.startswith("invented, desk, batch 1, 2 cores: a is fastest")


def test_each_work_is_answered_by_rivals_on_a_target_or_over_targets():
    """Other work that has rivals somewhere, failures, and engines that differ with the machine change nothing."""
    rivals = [(replace(one, target="desk"), blocks) for one, blocks in (member("a", 2.0), member("b", 4.0))]
    other = [
        (replace(one, configuration=replace(one.configuration, batch=4)), blocks)
        for one, blocks in on_targets(desk=4.0, rack=2.0)
    ]
    first, second = answered(*rivals, *other)
    assert first.sentence.startswith("invented, desk, batch 1") and second.sentence.startswith(
        "invented on ort, batch 4"
    )

    failed = replace(invented.failed("f", engine="b", target="rack", configuration=ASKED), model_digest="ab" * 32)
    (answer,) = answered(*on_targets(desk=4.0, rack=2.0), (replace(failed, target="desk"), ()))
    assert "rack is fastest" in answer.sentence

    (one, blocks), (two, others) = on_targets(desk=4.0, rack=2.0)
    assert answered((one, blocks), (replace(two, engine=EngineRef("vino", "default", "1")), others)) == ()


def test_over_many_targets_there_are_tables_and_no_answers():
    assert answered(*on_targets(**{f"t{place}": 4.0 for place in range(21)})) == ()


def test_the_command_that_would_tell_machines_apart_measures_on_each_of_them():
    document = make_plan({"models": ["net.onnx"], "targets": ["b", "c", "far"]}, "run").document()
    (answer,) = answered(*on_targets(b=4.0, c=4.0, far=40.0), plan=document | {"digests": {"net.onnx": "ab" * 32}})
    assert "far" in answer.sentence and answer.outcome is AnswerOutcome.PARTLY
    words = shlex.split(answer.command)
    assert words[words.index("--target") + 1] == "b,c"


def test_two_benchmarks_are_answered_by_their_names():
    old, new = member("m1", 4.0, group=None), member("m2", 2.0, group=None)
    sides = [
        (replace(one, benchmark_id=benchmark, engine=EngineRef("ort", "default", "1.2")), blocks)
        for (one, blocks), benchmark in ((old, "b1"), (new, "b2"))
    ]
    blocks = {one.id: told for one, told in sides}
    raw = {"m1": invented.samples("m1"), "m2": invented.samples("m2", latency_ms=2.0)}
    compared = compare_pairs(pairs_across([sides[0][0]], [sides[1][0]]), raw.__getitem__)
    (answer,) = answers_across(compared, {"b1": "before", "b2": "after"}, blocks)
    assert answer.sentence.startswith("invented on ort, batch 1, 2 cores: after is fastest, 2")


def test_the_document_has_every_part():
    (one,) = answers_document(answered(member("a", 4.0), member("b", 5.0)))
    assert set(one) == {
        "sentence",
        "outcome",
        "work",
        "metric",
        "places",
        "same_within",
        "command",
        "advice",
        "remarks",
    }
    assert one["places"][0] == {
        "measurement_id": "a", "name": "a", "standing": "fastest", "ratio": 1.0, "low": 1.0, "high": 1.0
    }  # fmt: skip


def test_two_of_a_gate_which_may_end_early_are_known_less_well_than_two_of_a_fixed_number():
    sides = [member("a", 4.0, spread=0.01), member("b", 4.2, spread=0.01)]
    measurements, blocks = [one for one, _ in sides], {one.id: told for one, told in sides}
    gate = replace(invented.benchmark("b1"), plan={"gate": {"budget": "2m"}, "processes": 10})
    raw = {one.id: _raw(blocks[one.id]) for one in measurements}
    plain, early = (
        compare_pairs(pairs_within(measurements), raw.__getitem__, planned=planned)
        for planned in ({}, planned_processes([replace(gate, id=measurements[0].benchmark_id)]))
    )
    assert early[0].comparison.high > plain[0].comparison.high * 1.02
    (first,) = answers_across(plain, {}, blocks)
    (second,) = answers_across(early, {}, blocks, planned={measurements[0].benchmark_id: 10})
    assert first.outcome is AnswerOutcome.RANKED and second.places[1].high > first.places[1].high * 1.02


def _raw(blocks):
    return tuple(
        BlockSamples(one.process, one.block, latency_ns=np.full(3, int(one.median_ns), dtype=np.int64))
        for one in blocks
    )
