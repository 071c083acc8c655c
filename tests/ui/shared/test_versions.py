"""Model versions as a tree: parents above children, whatever the records say."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.records import Derivation, DerivationKind
from enginebench_controller.records.model import WeightCount
from enginebench_ui.shared.versions import KnownVersion, made_by, merged, oldest_ancestor, version_views

PRUNED, INT8 = invented.PRUNED_90, invented.INT8


def version(letter, parent=None, at=0, **fields):
    parent_digest = parent * 64 if parent else None
    made = replace(invented.model(letter * 64, f"model-{letter}"), parent_digest=parent_digest, created_at_unix_ns=at)
    return replace(made, **fields)


def known(*versions):
    return {one.digest: KnownVersion(one, is_here=True) for one in versions}


def names(views):
    return [view.row["Version"] for view in views]


def test_children_stand_below_their_parents_with_lines_and_the_newest_family_first():
    views = version_views(
        known(version("a"), version("b", "a", 1), version("c", "b", 2), version("d", "a", 3), version("e", at=5)),
        {},
    )

    assert [name.replace("\u2003", " ") for name in names(views)] == [
        "model-e",
        "model-a",
        "├─ model-b",
        "│ └─ model-c",
        "└─ model-d",
    ]
    assert [view.depth for view in views] == [0, 0, 1, 2, 1]


def test_a_version_whose_parent_is_unknown_begins_a_family_and_names_the_parent():
    (view,) = version_views(known(version("b", "a", derivation=PRUNED)), {})

    assert view.depth == 0
    assert dict(view.facts)["Made from"] == "a" * 12


def test_versions_that_are_their_own_ancestors_are_shown_once():
    views = version_views(known(version("a", "b"), version("b", "a"), version("c", "c")), {})

    assert sorted(view.digest[0] for view in views) == ["a", "b", "c"]
    assert oldest_ancestor("a" * 64, known(version("a", "b"), version("b", "a"))) in ("a" * 64, "b" * 64)


@pytest.mark.parametrize(
    ("derivation", "said"),
    [
        (None, "as given"),
        (PRUNED, "pruned 90 %"),
        (Derivation(DerivationKind.PRUNED, sparsity=1e-5), "pruned 0.001 %"),
        (Derivation(DerivationKind.PRUNED_BY_WEIGHT, said="12 weights, 0123456789ab"), "magnitude pruning"),
        (INT8, "int8 QDQ"),
        (invented.IR_FP16, "OpenVINO IR"),
        (invented.BATCH_4, "batch=4"),
        (Derivation(DerivationKind.UNKNOWN, said="by hand"), "by hand"),
    ],
)
def test_how_a_version_was_made_is_said_in_two_words(derivation, said):
    assert made_by(version("a", derivation=derivation)) == said


def test_a_version_for_another_engine_is_called_by_its_format():
    translated = Derivation(DerivationKind.TRANSLATED, said="tflite by onnx2tf==1.29.24, input=1x3x224x224")
    assert made_by(version("a", derivation=translated, format="tflite")) == "as tflite"


def test_weights_and_sizes_are_shown_and_what_is_unknown_is_no_zero():
    parent = version("a", files=(invented.ModelFile("m", "01", 4_000_000),))
    child = version("b", "a", 1, files=(invented.ModelFile("m", "02", 1_000_000),), derivation=INT8)
    counted = WeightCount(100, 25, {"int8": 90, "float32": 10})
    both = merged([parent], [child], {child.digest: counted})

    above, below = (view.row for view in version_views(both, {child.digest: 12.5}))

    assert (below["Weights"], below["Sparsity (%)"], below["Size (MB)"]) == ("int8", 75.0, 1.0)
    assert (below["Of parent's size (%)"], below["Best (items/s)"], below["Files"]) == (25.0, 12.5, "here")
    assert (above["Weights"], above["Sparsity (%)"], above["Best (items/s)"]) == (None, None, None)
    assert (above["Of parent's size (%)"], above["Files"]) == (None, "not here")


def test_facts_say_how_many_parameters_are_zero_or_that_nobody_counted():
    one = version("a")
    counted = {one.digest: KnownVersion(one, is_here=True, weights=WeightCount(1_000, 100, {"float32": 1_000}))}

    (with_count,), (without,) = version_views(counted, {}), version_views(known(one), {})

    assert dict(with_count.facts)["Parameters"] == "1,000, 90.0 % of them zero (1,000 float32)"
    assert dict(without.facts)["Parameters"] == "unknown (not counted)"


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (KnownVersion(version("a"), is_here=False), "Its files are not in this library"),
        (KnownVersion(version("a", format="openvino_ir"), is_here=True), "this one is OpenVINO IR"),
        (KnownVersion(version("a"), is_here=True), "over 2 GiB"),
    ],
)
def test_why_no_child_can_be_made_is_said(one, reason):
    (view,) = version_views({one.version.digest: one}, {})

    assert reason in view.underivable


def test_a_search_keeps_the_whole_family():
    family = known(version("a"), version("b", "a", 1, derivation=INT8), version("c", at=2))

    assert [view.digest[0] for view in version_views(family, {}, "QDQ int8")] == ["a", "b"]
    assert version_views(family, {}, "nothing like it") == ()


def test_names_that_a_spreadsheet_would_compute_are_quoted_also_below_a_parent():
    views = version_views(known(version("a", name="=1+1"), version("b", "a", 1, name="=cmd()")), {})

    assert names(views)[0] == "'=1+1"
    assert names(views)[1].endswith("'=cmd()")
