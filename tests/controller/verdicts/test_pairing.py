"""What can be compared with what, and what is said of each comparison."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import invented
from enginebench_controller.records import (
    Arrivals,
    BlockSamples,
    Configuration,
    Effective,
    EngineRef,
    Grounds,
    Hint,
    Load,
    ModelVersion,
    OutputNoise,
    Readback,
    ReadbackSource,
)
from enginebench_controller.stats.comparison import Verdict
from enginebench_controller.verdicts.pairing import (
    compare_pairs,
    pair_remarks,
    pairs_across,
    pairs_within,
    with_unlike_work,
)
from enginebench_controller.verdicts.words import condensed, sides_words

BF16 = Effective(threads=Readback(2, ReadbackSource.OBSERVED), precision=Readback("bf16", ReadbackSource.ENGINE_API))


def invented_model(digest, name, parent=None, derivation=None):
    return ModelVersion(digest, name, "onnx", (), invented.CREATED_NS, parent, derivation)


def ids(pairs):
    return [(first.id, second.id) for first, second in pairs]


def raw(median_ms_by_id, spread=0.001):
    """A reader of raw samples: three processes of twelve blocks each, around a median."""

    def read(identity):
        random = np.random.default_rng(list(identity.encode()))
        return tuple(
            BlockSamples(process, block, (median_ms_by_id[identity] * 1e6 * random.normal(1, spread, 20)).astype(int))
            for process in range(3)
            for block in range(12)
        )

    return read


def test_within_a_benchmark_engines_are_compared_with_each_other_on_the_same_work_only():
    a, b = invented.measured("m1", engine="a"), invented.measured("m2", engine="b")
    other_work = invented.measured("m3", engine="b", batch=4)

    assert ids(pairs_within([b, other_work, a, invented.failed("m4")])) == [("m1", "m2")]


def test_precisions_of_one_engine_are_compared_and_flagged_as_unlike():
    wanted = Configuration("CPU", 1, cores=2, precision="bf16")
    pairs = pairs_within([invented.measured("m1"), invented.measured("m2", configuration=wanted, effective=BF16)])

    (compared,) = compare_pairs(pairs, raw({"m1": 4.0, "m2": 4.0}))
    assert {compared.first.id, compared.second.id} == {"m1", "m2"}
    assert any("effective precision differs" in remark for remark in compared.remarks)


def test_across_benchmarks_an_engine_is_compared_with_itself():
    old = [invented.measured("m1", engine="a"), invented.measured("m2", engine="b")]
    new = [
        invented.measured("m3", engine="b"),
        invented.measured("m4", engine="a"),
        invented.measured("m5", engine="c"),
    ]

    assert ids(pairs_across(old, new)) == [("m1", "m4"), ("m2", "m3")]


def test_of_several_environments_the_one_of_the_same_name_is_the_like():
    old = [invented.measured("m1"), replace(invented.measured("m2"), engine=EngineRef("fake", "legacy", "0.9"))]
    new = [invented.measured("m3"), replace(invented.measured("m4"), engine=EngineRef("fake", "legacy", "1.0"))]

    assert sorted(ids(pairs_across(old, new))) == [("m1", "m3"), ("m2", "m4")]


def test_targets_of_other_names_are_compared_only_where_there_is_no_choice():
    here, there = invented.measured("m1"), invented.measured("m2", target="board")

    assert ids(pairs_across([here], [there])) == [("m1", "m2")]
    assert ids(pairs_across([here], [there, invented.measured("m3", target="nuc")])) == []


def test_of_what_no_target_has_two_of_each_is_compared_with_the_first_on_another_target():
    alone = [invented.measured(f"m{place}", target=name) for place, name in enumerate("abc")]
    other = invented.measured("m3", engine="other", target="b")

    assert ids(pairs_within([*alone, invented.measured("m4", batch=4, target="a")])) == [("m0", "m1"), ("m0", "m2")]
    assert sorted(map(sorted, ids(pairs_within([*alone, other])))) == [["m1", "m3"]]


def test_the_sides_of_a_pair_over_targets_are_called_by_them():
    pairs = [(invented.measured("m1", target="a"), invented.measured("m2", target="b"))]
    (compared,) = compare_pairs(pairs, raw({"m1": 4.0, "m2": 4.0}))
    assert [words.split()[-1] for words in sides_words(compared)] == ["a", "b"]


@pytest.mark.parametrize(("second_ms", "verdict"), [(4.0, Verdict.SAME), (5.0, Verdict.SLOWER), (3.0, Verdict.FASTER)])
@pytest.mark.parametrize("group", [None, "b1-0"])
def test_the_verdict_is_on_the_second(second_ms, verdict, group):
    first, second = (invented.measured(id_, engine=id_, interleaving_group=group) for id_ in ("m1", "m2"))

    (compared,) = compare_pairs([(first, second)], raw({"m1": 4.0, "m2": second_ms}))
    assert compared.comparison.verdict is verdict and compared.is_paired is (group is not None)
    assert compared.comparison.ratio == pytest.approx(second_ms / 4.0, rel=0.01)


def test_disturbed_blocks_that_were_measured_again_do_not_count():
    def read(identity):
        good = raw({"m1": 4.0, "m2": 4.0})(identity)
        return (replace(good[0], latency_ns=good[0].latency_ns * 100), *good[1:])

    first, second = (_with_disturbed_first_block(invented.measured(id_, engine=id_)) for id_ in ("m1", "m2"))
    (compared,) = compare_pairs([(first, second)], read)
    assert compared.comparison.verdict is Verdict.SAME


def test_many_comparisons_are_corrected_for_their_number():
    pair = (invented.measured("m1", engine="a"), invented.measured("m2", engine="b"))
    read = raw({"m1": 4.0, "m2": 4.05}, spread=0.02)

    (alone,) = compare_pairs([pair], read)
    many = compare_pairs([pair] * 20, read)
    assert many[0].comparison.p_value == pytest.approx(min(1, 20 * alone.comparison.p_value))


def test_a_machine_that_nothing_is_known_of_is_not_an_equal_one():
    one = invented.measured("m1", "b1")
    others = (invented.measured("m2", "b2"), invented.measured("m3", "b3"))
    snapshots = {"b1": (invented.snapshot(),), "b2": (invented.snapshot(),)}

    read = raw(dict.fromkeys(("m1", "m2", "m3"), 4.0))
    found = compare_pairs([(one, other) for other in others], read, snapshots=snapshots)
    assert [each.remarks for each in found] == [(), ("processors differ: Invented CPU and unknown",)]


def test_other_files_of_one_name_are_a_remark():
    old, new = invented.measured("m1"), invented.measured("m2", model_digest="ef" * 32)

    (compared,) = compare_pairs([(old, new)], raw({"m1": 4.0, "m2": 4.0}))
    assert "model files differ: abababababab and efefefefefef" in compared.remarks


def _with_disturbed_first_block(measurement):
    blocks = tuple(
        replace(block, disturbances=(invented.STEAL,) if (block.process, block.index) == (0, 0) else ())
        for block in measurement.blocks
    )
    return replace(measurement, blocks=blocks, latency=replace(measurement.latency, excluded=17))


FP32, INT8, SPARSE, STRANGER = ("ab" * 32, "cd" * 32, "ef" * 32, "12" * 32)
MODELS = (
    invented_model(FP32, "net"),
    invented_model(INT8, "net-int8", FP32, invented.INT8),
    invented_model(SPARSE, "net-int8-sparse50", INT8, invented.PRUNED_90),
    invented_model("f4" * 32, "net-batch4", FP32, invented.BATCH_4),
    invented_model("84" * 32, "net-int8-batch4", INT8, invented.BATCH_4),
    invented_model(STRANGER, "other"),
)
U8 = Effective(threads=Readback(2, ReadbackSource.OBSERVED), precision=Readback("u8", ReadbackSource.ENGINE_API))


def version(identity, digest, **fields):
    name = next(model.name for model in MODELS if model.digest == digest)
    return invented.measured(identity, model_digest=digest, model_name=name, **fields)


def test_versions_of_one_family_are_joined_across_benchmarks_by_engine_and_work():
    grid = [version("m1", FP32), version("m2", "f4" * 32, batch=4), version("m3", FP32, engine="b")]
    int8 = [version("m4", INT8), version("m5", "84" * 32, batch=4), version("m6", INT8, engine="c")]

    assert ids(pairs_across(grid, int8, MODELS)) == [("m1", "m4"), ("m2", "m5")]


def test_a_namesake_is_the_like_before_a_version():
    both = [version("m1", FP32), version("m2", INT8)]
    again = [version("m3", FP32), version("m4", SPARSE)]

    assert ids(pairs_across(both, again, MODELS)) == [("m1", "m3"), ("m2", "m4")]


def test_two_models_that_stand_alone_are_compared_where_somebody_names_them_and_that_is_said():
    first, second = version("m1", FP32), version("m2", STRANGER)

    assert ids(pairs_across([first], [second], MODELS)) == [("m1", "m2")]
    assert ids(pairs_across([first, version("m3", STRANGER)], [version("m4", INT8)], MODELS)) == [("m1", "m4")]
    (compared,) = compare_pairs([(first, second)], raw({"m1": 4.0, "m2": 4.0}), MODELS)
    assert "nothing tells that net and other are versions of one model" in compared.remarks


def test_versions_in_one_benchmark_are_compared_engine_by_engine():
    grid = [
        version(f"m{place}", digest, engine=engine)
        for place, (digest, engine) in enumerate([(FP32, "a"), (FP32, "b"), (INT8, "a"), (INT8, "b")])
    ]

    assert sorted(ids(pairs_within(grid, MODELS))) == [("m0", "m1"), ("m0", "m2"), ("m1", "m3"), ("m2", "m3")]


def test_whatever_was_not_asked_of_both_alike_is_said_once():
    asked = Configuration("CPU", 1, cores=2, load=Load.OPEN_LOOP, arrivals=Arrivals(50.0))
    fields = {"batch": 8, "cores": 4, "cluster": "big", "streams": 2, "precision": "bf16", "hint": Hint.LATENCY}
    other = replace(asked, device="GPU", arrivals=Arrivals(200.0), requests=3, **fields)
    closed = replace(asked, load=Load.SYNC, arrivals=None)
    sides = [invented.measured(name, configuration=one) for name, one in (("m1", asked), ("m2", other), ("m3", closed))]
    compared = compare_pairs(itertools.product(sides[:1], sides), raw(dict.fromkeys(("m1", "m2", "m3"), 4.0)))

    same, unlike, loads = (with_unlike_work(one).remarks for one in compared)
    assert same == ()
    assert unlike == (
        "the device differs: CPU and GPU",
        "the batch differs: 1 and 8",
        "the cores differ: 2 and big:4",
        "the streams differ: 1 and 2",
        "the requested precision differs: f32 and bf16",
        "the hint differs: none and latency",
        "the requests differ: 1 and 3",
        "the arrivals differ: 50/s poisson and 200/s poisson",
    )
    assert loads == ("the load differs: open-loop and sync", "the arrivals differ: 50/s poisson and none")


def test_remarks_on_pairs_of_two_models_or_targets_are_of_each_of_them_and_name_the_model():
    places = [("net", "local"), ("other", "local"), ("other", "nuc")]
    given = [
        invented.measured(f"{model}-{where}-{one}", engine=one, model_name=model, model_digest=model, target=where)
        for (model, where), one in itertools.product(places, "ab")
    ]
    compared = [
        replace(one, remarks=(f"{one.first.model_name} on a 1.0 is disturbed: by others",))
        for one in compare_pairs(pairs_within(given), raw({one.id: 4.0 for one in given}))
    ]

    said = list(pair_remarks(compared))
    assert [line.partition(":")[0] for line in condensed(said, len(compared))] == ["3 of 3, at worst"]
    assert [one.about for one in said] == [
        f"{model} on a 1.0 f32 and b 1.0 f32, batch 1, 2 cores" for model, _ in places
    ]


def test_how_a_version_came_about_and_how_far_its_outputs_are_stand_beside_the_verdict():
    near = (invented.outputs(shift=0.03),)
    pair = (version("m1", FP32), version("m2", INT8, effective=U8, captured_outputs=near))

    (compared,) = compare_pairs([pair], raw({"m1": 4.0, "m2": 2.0}), MODELS)
    assert compared.comparison.verdict is Verdict.FASTER
    made, outputs, precision = compared.remarks
    assert made == "net-int8 is a version of net: int8 QDQ, u8 × s8 (7 bits), min-max over 8 inputs of seed 0"
    assert "outputs of net-int8 differ by at most 3.00% of the largest value from those of net" in outputs
    assert precision.startswith("effective precision differs: ") and "u8 on fake" in precision


def test_at_most_is_said_of_all_outputs_and_the_one_nearest_to_its_bound_beside_it():
    """Rounding alone moves the boxes by much, so that they are farther apart than the scores and nearer to nothing."""
    assert "outputs of net-int8 differ by at most 40.00% of the largest value" in of_scores_and_boxes(5.0, (2, 10))
    assert "(the one nearest to its bound by 3.00%: " in of_scores_and_boxes(5.0, (2, 10))


def test_of_outputs_that_cannot_all_be_compared_nothing_is_said_at_most():
    told = of_scores_and_boxes(None, (4, 5))
    assert "the one nearest to its bound differs by 3.00% of the largest value" in told and "at most" not in told


def test_of_labels_it_is_said_in_how_many_elements_they_differ():
    labels, others = (replace(invented.outputs(), values=np.float32([1, 2, 3, 4] * 5), dtype="int64") for _ in "ab")
    others.values[7] = 0
    numbers = replace(invented.outputs(), name="numbers")

    assert how_far((labels,), (others,)) == (
        "outputs of net-int8 differ in at most 5.00% of the elements from those of net, on the inputs measured "
        "(20% is what rounding explains)"
    )
    assert "5.00% of the largest value (outputs of integers: of the elements) from" in how_far(
        (labels, numbers), (others, numbers)
    )


def how_far(before, after):
    """What is said of a version's outputs, `after`, beside those of its original."""
    pair = (version("m1", FP32, captured_outputs=before), version("m2", INT8, effective=U8, captured_outputs=after))
    (compared,) = compare_pairs([pair], raw({"m1": 4.0, "m2": 2.0}), MODELS)
    return next(one for one in compared.remarks if "on the inputs measured" in one)


def of_scores_and_boxes(noise, shape):
    """What is said of scores that are 3 % apart, and of boxes of this noise and shape."""
    grounds = Grounds(noise=(OutputNoise("boxes", noise),))
    boxes, moved = (replace(invented.outputs(shift=shift), name="boxes") for shift in (0.0, 0.4))
    before = version("m1", FP32, captured_outputs=(invented.outputs(), boxes), grounds=grounds)
    after = (invented.outputs(shift=0.03), replace(moved, shape=shape))
    pair = (before, version("m2", INT8, effective=U8, captured_outputs=after))
    (compared,) = compare_pairs([pair], raw({"m1": 4.0, "m2": 2.0}), MODELS)
    return next(one for one in compared.remarks if "on the inputs measured" in one)


def test_a_damaged_lineage_ends():
    circle = (invented_model(FP32, "net", INT8, invented.INT8), invented_model(INT8, "net-int8", FP32, invented.INT8))
    assert ids(pairs_across([version("m1", FP32)], [version("m2", INT8)], circle)) == [("m1", "m2")]
