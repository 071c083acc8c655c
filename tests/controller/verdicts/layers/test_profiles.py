"""Profiles side by side: which layers are each other's, which is faster, and that no time is lost."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

import invented
from controller.verdicts.chains import ENGINE, OTHER_ENGINE, chain, conv_nodes, layer, reorder, times
from enginebench_controller.errors import InputError
from enginebench_controller.files.verdicts.comparisons import comparison_document
from enginebench_controller.records import (
    IMPOSED_SPARSITY,
    Derivation,
    DerivationKind,
    Effective,
    HostFacts,
    LayerState,
    Readback,
    ReadbackSource,
)
from enginebench_controller.verdicts.conditions import ConditionOutcome, check_profiles, parse_conditions
from enginebench_controller.verdicts.layers import rows
from enginebench_controller.verdicts.layers.advisor import advised
from enginebench_controller.verdicts.layers.profiles import compare_profiles, how_sure, told_remarks, whole_sentence
from enginebench_controller.verdicts.layers.rows import LayerVerdict


def compared(*profiles, **options):
    (pair,) = compare_profiles(profiles, **options).pairs
    return pair


def test_how_sure_is_sure_and_how_much_is_much_of_layers_stand_in_the_room_of_statistics_only():
    tree = ast.parse(Path(rows.__file__).read_text(encoding="utf-8"))
    assert [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) is float] == []


def rows_by_name(pair):
    return {row.name: row for row in pair.rows}


def both(first, second):
    return compared(
        chain("a", [layer(*one) for one in enumerate(first)]), chain("b", [layer(*one) for one in enumerate(second)])
    )


@pytest.mark.parametrize(
    ("second_ns", "verdict"),
    [(1_200_000, LayerVerdict.WORSE), (800_000, LayerVerdict.BETTER), (1_000_100, LayerVerdict.WITHIN_NOISE)],
)
def test_a_layer_is_better_or_worse_only_beyond_noise_and_beyond_what_is_worth_speaking_of(second_ns, verdict):
    (row,) = both([1_000_000], [second_ns]).rows
    assert row.verdict is verdict
    assert row.ratio == pytest.approx(second_ns / 1_000_000)
    assert row.difference_ns == row.contribution_ns == second_ns - 1_000_000


def test_a_significant_difference_below_the_practical_threshold_is_noise():
    first, second = (
        chain("a", [layer(0, times(1_000_000, spread=1e-5))]),
        chain("b", [layer(0, times(1_030_000, spread=1e-5))]),
    )
    assert compared(first, second).rows[0].verdict is LayerVerdict.WITHIN_NOISE
    assert compared(first, second, practical=0.01).rows[0].verdict is LayerVerdict.WORSE


def test_verdicts_are_corrected_for_the_number_of_rows():
    noisy = (1_000_000, 1_300_000, 900_000, 1_200_000, 1_100_000, 1_000_000, 1_250_000, 950_000)
    slower = tuple(value + 170_000 for value in noisy)
    alone = compared(chain("a", [layer(0, noisy)]), chain("b", [layer(0, slower)]))
    rest = [layer(order, times(1_000_000, len(noisy))) for order in range(1, 60)]
    among_many = compared(chain("a", [layer(0, noisy), *rest]), chain("b", [layer(0, slower), *rest]))

    assert alone.rows[0].verdict is LayerVerdict.WORSE
    assert among_many.rows[0].verdict is LayerVerdict.WITHIN_NOISE
    assert among_many.rows[0].ratio_high > alone.rows[0].ratio_high


def test_layers_of_two_engines_stand_in_one_row_under_the_models_word():
    first = chain("a", [layer(0, 100_000), layer(1, 300_000)])
    second = chain(
        "b",
        [layer(1, 250_000, engine=OTHER_ENGINE), layer(0, 90_000, engine=OTHER_ENGINE), reorder(2, 5_000)],
        engine=OTHER_ENGINE,
    )
    pair = compared(first, second)

    assert [(row.name, row.operator, row.first.types, row.second.types) for row in pair.rows if row.is_joined] == [
        ("conv0", "Conv", ("Conv",), ("Convolution",)),
        ("conv1", "Conv", ("Conv",), ("Convolution",)),
    ]
    assert [(one.type, one.first.layers, one.second.layers) for one in pair.types] == [
        ("Conv", 2, 2),
        ("reorder", 0, 1),
    ]
    assert {one.type for one in pair.engine_types} == {"Conv", "Convolution", "Reorder"}
    assert pair.types[1].first.time_ns is None, "no reorder on the first side is not a time of 0"


def test_no_time_is_lost_or_counted_twice():
    first = chain("a", [layer(0, 100_001), reorder(7, 3_333), layer(1, None), layer(2, 77_777)])
    second = chain("b", [layer(0, 90_003), layer(1, 55_555), layer(2, 11_111), reorder(9, 1)])
    pair = compared(first, second)

    assert (
        tuple(sum(getattr(row, side).time_ns or 0 for row in pair.rows) for side in ("first", "second"))
        == pair.coverage.total_ns
    )
    assert sum(row.contribution_ns for row in pair.rows) == pair.coverage.total_ns[1] - pair.coverage.total_ns[0]
    for types in (pair.types, pair.engine_types):
        assert sum(one.first.time_ns or 0 for one in types) == pair.coverage.total_ns[0]
        assert sum(one.second.time_ns or 0 for one in types) == pair.coverage.total_ns[1]
    assert pair.coverage.joined_ns == (100_001 + 77_777, 90_003 + 11_111)


def test_why_a_side_has_no_time_is_told_apart():
    first = chain("a", [layer(0, 100_000), layer(1, None), reorder(2, 5_000)])
    rows = rows_by_name(compared(first, chain("b", [layer(0, 100_000), layer(1, 40_000)])))

    assert (rows["conv1"].outcome, rows["conv1"].first.state) == ("not executed in A", LayerState.NOT_EXECUTED)
    assert (rows["reorder2"].outcome, rows["reorder2"].second.state) == ("absent in B", LayerState.ABSENT)
    assert rows["conv1"].ratio is rows["conv1"].difference_ns is rows["conv1"].verdict is None
    assert rows["conv1"].contribution_ns == 40_000


def test_a_layer_of_unknown_origin_makes_it_no_data_rather_than_not_executed():
    stranger = replace(layer(1, 40_000), name="subgraph", category="engine_made", group=None)
    nodes = [
        replace(node, group=None if node.group == 1 else 0, state="unmatched" if node.group == 1 else "named")
        for node in conv_nodes(2)
    ]
    rows = rows_by_name(
        compared(chain("a", [layer(0, 100_000), layer(1, 50_000)]), chain("b", [layer(0, 100_000), stranger], nodes))
    )
    assert rows["conv1"].outcome == "no data in B"


def test_layers_that_call_the_slower_side_faster_are_told_with_what_to_believe():
    first = chain("a", [layer(0, 1_000_000)], unprofiled_ns=100_000)
    pair = compared(first, chain("b", [layer(0, 500_000)], unprofiled_ns=300_000))
    (sentence,) = pair.remarks
    assert sentence.startswith(
        "layers and latency disagree: the layers take ×0.50 the time, the model without counters ×3.00"
    )
    assert "takes 10.00 times and 1.67 times as long as without; believe the latency" in sentence
    told = whole_sentence(pair, "B")
    assert told.startswith("B against A, median latency without counters: × 3.000 (A 0.100 ms, B 0.300 ms: ")
    assert "Σ layers: × 0.500 (A 1.000 ms, B 0.500 ms; 95 % interval" in told
    for second in (
        chain("b", [layer(0, 500_000)], unprofiled_ns=50_000),
        chain("b", [layer(0, 999_000)], unprofiled_ns=101_000),
    ):
        assert compared(first, second).remarks == ()
    unknown = replace(first, id="b", unprofiled_latency_ns=None)
    assert "latency without counters: – (not known on both sides); Σ layers: × 1.000" in whole_sentence(
        compared(first, unknown), "B"
    )


def test_layers_and_latency_that_agree_but_not_on_how_much_are_told_with_what_counters_cost():
    first = chain("a", [layer(order, 1_000_000) for order in range(2)], unprofiled_ns=1_000_000)
    second = chain("b", [layer(order, 2_000_000) for order in range(2)], unprofiled_ns=3_000_000)
    (sentence,) = compared(first, second).remarks
    assert sentence.startswith("the layers take ×2.00 the time, the model without counters ×3.00: verdicts and ratios")
    assert "what counters cost, 500.0 µs a layer of A and 500.0 µs a layer of B, which" in sentence
    nearer = chain("b", [layer(order, 2_500_000) for order in range(2)], unprofiled_ns=3_000_000)
    assert not compared(first, nearer).remarks


def versions():
    """A model, its INT8 version, and a copy of that for another batch."""
    made = [(DerivationKind.QUANTIZED, "ab" * 32), (DerivationKind.REBATCHED, "c1" * 32)]
    derived = [
        invented.model(digest * 32, name, parent_digest=parent, derivation=Derivation(kind))
        for digest, name, (kind, parent) in zip(("c1", "c2"), ("net-int8", "net-int8-b4"), made, strict=True)
    ]
    return [invented.model(), *derived]


def int8_unused(second_digest, **library):
    """What is advised on INT8 to the first of two profiles, on a machine that is made for it."""
    first = chain("a", [layer(0, 1_000_000)], host=HostFacts(isa=("avx512_vnni",)))
    second = replace(first, id="b", model_digest=second_digest)
    found = advised(compare_profiles([first, second]), **library)
    return [one for one in found.advice if (one.rule, one.profile_id) == ("int8-unused", "a")]


def test_advice_knows_which_models_there_are_and_which_are_gone():
    known = versions()
    (found,) = int8_unused("ef" * 32, known=known, held=known)
    assert "there is one already, net-int8)" in found.remedy
    (found,) = int8_unused("ef" * 32, known=known, held=known[1:])
    assert "was removed" in found.remedy and "enginebench run" not in found.remedy
    (found,) = int8_unused("ef" * 32)
    assert "made where there is none" in found.remedy


@pytest.mark.parametrize("second", ["c1", "c2"])
def test_a_model_that_is_compared_with_its_int8_version_is_not_told_to_be(second):
    assert not int8_unused(second * 32, known=versions())


def strangers():
    """Two models without a node in common."""
    other = [
        replace(one, op_type="Softmax" if one.op_type == "Conv" else "Erf") for one in conv_nodes(2, prefix="soft")
    ]
    second = chain("b", [layer(order, 900_000, type="Softmax") for order in range(2)], other, model_name="other")
    return chain("a", [layer(order, 300_000) for order in range(2)]), replace(second, model_digest="ef" * 32)


def test_of_two_models_without_a_node_in_common_the_first_sentence_says_so():
    first, second = strangers()
    pair = compared(first, second)
    assert pair.are_strangers and not pair.coverage.joined_rows
    said = whole_sentence(pair, "B")
    assert said.startswith(f"B and A are two different models, other and {first.model_name}: nothing is compared layer")
    assert any("neither is better or worse" in one for one in pair.remarks)
    again = compared(first, replace(first, id="b", model_digest=second.model_digest))
    assert not again.are_strangers and whole_sentence(again, "B").startswith("B against A")


@pytest.mark.parametrize("condition", ["slower>3%", "layer-slower>3%", "memory>3%"])
def test_no_condition_on_two_different_models_is_decided(condition):
    checks = check_profiles(compare_profiles(strangers()), parse_conditions(condition))
    assert [one.outcome for one in checks] == [ConditionOutcome.INCONCLUSIVE]
    assert "two different models" in checks[0].sentence


def test_where_counters_seem_to_make_a_side_faster_neither_is_to_be_believed():
    first = chain("a", [layer(0, 1_000_000)], unprofiled_ns=900_000)
    (sentence,) = compared(first, chain("b", [layer(0, 500_000)], unprofiled_ns=1_500_000)).remarks
    assert "takes 1.11 times and 0.33 times as long as without; counters make nothing faster" in sentence
    assert "profile again" in sentence and "believe the latency" not in sentence


def test_remarks_of_several_pairs_are_told_once_with_whom_they_are_of():
    first = chain("a", [layer(0, 1_000_000)], unprofiled_ns=100_000)
    odd = chain("b", [layer(0, 500_000)], unprofiled_ns=300_000)
    (alone,) = told_remarks(compare_profiles([first, odd]).pairs)
    assert alone.startswith("layers and latency disagree")
    usual, other = chain("c", [layer(0, 500_000)], unprofiled_ns=50_000), replace(odd, id="d")
    (sentence,) = told_remarks(compare_profiles([first, odd, usual, other]).pairs)
    assert sentence == f"B, D against A: {alone}"


def test_a_baseline_of_zero_has_no_ratio_and_is_still_compared():
    row = both([(0,) * 20], [5_000]).rows[0]
    assert (row.ratio, row.ratio_low, row.difference_ns, row.verdict) == (None, None, 5_000, LayerVerdict.WORSE)
    assert both([(0,) * 20], [(0,) * 20]).rows[0].verdict is LayerVerdict.WITHIN_NOISE


def test_a_single_inference_tells_no_verdict():
    row = both([(5_000,)], [(9_000,)]).rows[0]
    assert (row.verdict, row.ratio, row.p_value, row.outcome) == (None, 1.8, None, "no spread to tell by")


def test_means_without_a_spread_tell_no_verdict_and_say_so():
    single = chain("b", [layer(0, (9_000,))])
    pair = compared(chain("a", [layer(0, 5_000)]), single)
    (row,) = pair.rows
    assert single.tells_means
    assert row.first.half_width_ns is not None
    assert row.second.half_width_ns is row.verdict is None
    assert pair.layers is None
    assert how_sure(pair) == "times of one side are means, without the spread that verdicts need"


def test_quantized_layers_show_as_a_transition_whatever_engines_call_precisions():
    first = chain("a", [layer(0, 100_000, precision="float"), layer(1, 50_000, precision="FP32")])
    second = chain("b", [layer(0, 30_000, precision="uint8"), layer(1, 50_000, precision="f32")])
    found = {(one.first, one.second): one.rows for one in compared(first, second).transitions}
    assert found == {("f32", "u8"): 1, ("f32", "f32"): 1}


def test_parameters_of_a_layer_that_differ_are_told_within_one_engine_only():
    first = chain("a", [layer(0, 1_000, parameters={"a": "1", "b": "2"})])
    changed = layer(0, 1_000, kernel="gemm", parameters={"a": "1", "c": "3"})
    (row,) = compared(first, chain("b", [changed])).rows
    assert {(one.parameter, one.first, one.second) for one in row.differences} == {
        ("kernel", "jit", "gemm"),
        ("b", "2", None),
        ("c", None, "3"),
    }
    assert not compared(first, chain("c", [changed], engine=OTHER_ENGINE)).rows[0].differences


def test_sides_that_are_not_alike_are_told_in_sentences_and_in_settings():
    first, second = chain("a", [layer(0, 1_000)]), chain("b", [layer(0, 1_000)])
    bf16 = Effective(
        precision=Readback("bf16", ReadbackSource.ENGINE_API), threads=Readback(2, ReadbackSource.OBSERVED)
    )
    f32 = replace(bf16, precision=Readback("f32", ReadbackSource.ENGINE_API))
    second = replace(
        second,
        host=HostFacts(cpu_model="Other 1"),
        effective=bf16,
        configuration=replace(second.configuration, batch=4),
    )
    found = compare_profiles([replace(first, effective=f32), second])

    assert any(
        sentence.startswith("the processors differ: Invented 3000 in A, Other 1 in B") for sentence in found.remarks
    )
    assert any(sentence.startswith("the batch differs") for sentence in found.remarks)
    assert any(sentence.startswith("effective precision differs") for sentence in found.remarks)
    assert {one.setting: one.values for one in found.settings}["configuration.batch"] == ("1", "4")
    assert not compare_profiles([first, replace(first, id="again")]).settings


def test_one_side_with_imposed_zeros_is_told_apart_from_one_without():
    plain, other = chain("a", [layer(0, 1_000)]), chain("b", [layer(0, 1_000)])
    sparse = replace(other, configuration=replace(other.configuration, options={IMPOSED_SPARSITY: "0.5"}))

    found = compare_profiles([plain, sparse]).remarks

    assert "the imposed sparsity differs: none in A, 0.5 in B" in found


def test_of_several_profiles_each_is_compared_with_the_first():
    profiles = [chain(name, [layer(0, time_ns)]) for name, time_ns in (("a", 1_000), ("b", 2_000), ("c", 500))]
    found = compare_profiles(profiles)
    assert [(pair.first.id, pair.second.id, pair.latency_ratio) for pair in found.pairs] == [
        ("a", "b", 2.0),
        ("a", "c", 0.5),
    ]


def test_without_graphs_layers_of_one_engine_are_joined_by_name():
    parts = {"nodes": (), "coverage": None, "work": None, "unmatched_reason": "a torchscript file has no ONNX graph"}
    bare = [replace(layer(order, 1_000), group=None, category="") for order in range(3)]
    first, second = (replace(chain(name, bare), **parts) for name in "ab")
    pair = compared(first, second)
    assert pair.coverage.joined_rows == 3 and pair.coverage.shares == (1.0, 1.0)
    assert "joined by the names" in pair.remarks[0]
    assert compared(first, replace(second, engine=OTHER_ENGINE)).coverage.joined_rows == 0


def test_a_profile_without_layers_is_refused_with_its_reason():
    whole = chain("a", [layer(0, 1_000)])
    with pytest.raises(InputError, match="no layers to compare"):
        compare_profiles([whole, replace(whole, layers=())])
    with pytest.raises(InputError, match="two profiles or more"):
        compare_profiles([whole])


def test_renamed_nodes_of_another_version_are_found():
    first = chain("a", [layer(order, 1_000 * (order + 1)) for order in range(4)])
    second = chain("b", [layer(order, 2_000) for order in range(4)], conv_nodes(4, prefix="Conv_node_"), engine=ENGINE)
    pair = compared(first, second)
    assert pair.coverage.joined_rows == pair.coverage.exact_rows == 4
    assert [(one.operator, one.matched) for one in pair.coverage.operators] == [("Conv", 4), ("Relu", 4)]


def test_the_document_is_valid_json_with_null_for_what_is_unknown():
    first = chain("a", [layer(0, (0,) * 20), layer(1, None), layer(2, 40_000)])
    second = chain("b", [layer(0, 5_000), layer(1, 5_000), layer(2, 41_000)], unprofiled_ns=0)
    document = json.loads(json.dumps(comparison_document(compare_profiles([first, second])), allow_nan=False))
    rows = {row["name"]: row for row in document["comparisons"][0]["layers"]}
    assert rows["conv0"]["ratio"] is None and rows["conv1"]["first"]["time_ns"] is None
    assert document["sides"][0]["energy_uj"] is None and document["checks"] is None
    assert document["comparisons"][0]["coverage"]["total_ns"] == [40_000, 51_000]


@pytest.mark.slow
def test_three_thousand_layers_make_as_many_rows():
    first, second = (chain(name, [layer(order, 10_000 + order) for order in range(3_000)]) for name in "ab")
    assert compared(first, second).coverage.joined_rows == 3_000
