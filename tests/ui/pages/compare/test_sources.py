"""Whose layers stand for a side."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.records import EngineRef, ProfileEntry, Status
from enginebench_ui.pages.compare.shapes.sides import (
    Wanted,
    entry_labels,
    layers_doubt,
    lost_sentence,
    median_ratio,
    profile_address,
    profile_command,
    source,
    source_sentence,
)
from invented_experiments import contender, experiment

POINT = experiment("p", batch=4, cores=2)
WANTED = Wanted("A", contender(), POINT)


def entry(identity, created=1, **fields):
    whole = ProfileEntry(
        id=identity.ljust(32, "0"),
        name="side",
        created_at_unix_ns=created * 10**18,
        target="local",
        engine=EngineRef("fake", "default", "1.0"),
        model_digest="ab" * 32,
        model_name="invented",
        device="CPU",
        batch=4,
        cores=2,
        precision="f32",
        status=Status.OK,
    )
    return replace(whole, **fields)


def test_the_newest_of_the_nearest_is_taken():
    old, new, far = entry("a", 1), entry("b", 2), entry("c", 3, batch=1)
    found = source(WANTED, [far, new, old])
    assert found.taken == new
    assert found.candidates == (new, old, far)


def test_near_is_batch_then_cores_then_precision():
    batch2, batch16 = entry("a", batch=2), entry("b", 9, batch=16)
    assert source(WANTED, [batch16, batch2]).taken == batch2
    one_core, bf16 = entry("c", 9, cores=1), entry("d", precision="bf16")
    assert source(WANTED, [one_core, bf16]).taken == bf16


def test_passes_with_imposed_zeros_come_last():
    imposed, plain = entry("a", 9, imposed_sparsity=0.9), entry("b", batch=1)
    assert source(WANTED, [imposed, plain]).taken == plain


def test_others_and_failures_are_no_candidates():
    strangers = [
        entry("a", engine=EngineRef("other", "default")),
        entry("b", engine=EngineRef("fake", "legacy")),
        entry("c", target="far"),
        entry("d", device="GPU.0"),
        entry("e", model_digest="cd" * 32),
        entry("f", status=Status.FAILED),
    ]
    found = source(WANTED, strangers)
    assert found.taken is None
    assert source_sentence(found) == "A has no profile: the layers of this project were not timed on CPU."


def test_a_named_profile_is_taken_where_it_belongs_here():
    near, far = entry("a"), entry("b", batch=1)
    assert source(WANTED, [near, far], "b000").taken == far
    assert lost_sentence(source(WANTED, [near, far], "b000")) is None
    assert lost_sentence(source(WANTED, [near, far])) is None


def test_a_named_profile_that_is_gone_is_told_and_another_one_taken():
    near = entry("a")
    found = source(WANTED, [near], "gone")
    assert found.taken == near
    assert lost_sentence(found) == "There is no profile gone of project A in this store; another one is shown."
    assert lost_sentence(source(WANTED, [], "gone")).endswith("; none is shown.")


def test_what_is_not_like_the_point_is_said():
    assert source_sentence(source(WANTED, [entry("a")])).endswith("batch 4, 2 cores, f32, engine version 1.0.")
    sentence = source_sentence(
        source(WANTED, [entry("a", batch=1, cores=1, engine=EngineRef("fake", "default", "0.9"))])
    )
    assert sentence.endswith("The point has batch 4, 2 cores, engine version 1.0.")
    early = replace(WANTED, point=replace(POINT, engine_version=None))
    assert source_sentence(source(early, [entry("a")])).endswith("engine version 1.0."), "a run that failed knows none"


def test_the_command_and_the_link_make_the_missing_profile():
    assert profile_command(WANTED) == (
        "enginebench profile abababababab --engine fake --device CPU --batch 4 --cores 2 --precision f32"
    )
    far = Wanted("B", contender(environment="old one", target="rack;1"), None)
    assert profile_command(far) == (
        "enginebench profile abababababab --engine 'fake@old one' --target 'rack;1' --device CPU --precision f32"
    )
    assert profile_address(WANTED)["batch"] == "4"
    assert "batch" not in profile_address(far)


def test_labels_tell_profiles_apart():
    assert len(set(entry_labels([entry("a"), entry("b", imposed_sparsity=0.5)]).values())) == 2


def test_medians_stand_for_a_ratio_that_cannot_be_told():
    first, second = invented.measured("m1", latency_ms=2.0, batch=1), invented.measured("m2", latency_ms=5.0, batch=1)
    assert median_ratio(first, second) == pytest.approx(2.5, rel=0.05)
    other_batch = replace(first, configuration=replace(first.configuration, batch=8))
    assert median_ratio(other_batch, second) is None
    assert median_ratio(first, invented.failed("m3")) is None


def test_layers_of_another_configuration_or_direction_are_doubted():
    alike = [source(replace(WANTED, letter=letter), [entry("a")]) for letter in "AB"]
    assert layers_doubt(alike, 0.8, (100, 70)) is None
    assert layers_doubt(alike, None, (100, 170)) is None
    assert layers_doubt(alike, 0.8, (0, 70)) is None
    assert layers_doubt(alike, 0.98, (100, 130)) is None
    told = layers_doubt(alike, 0.8, (100, 138))
    assert told is not None
    assert "as measured B takes 0.8 × as long as A, by these layers 1.38 ×" in told
    told = layers_doubt(alike, 0.967, (3795, 8449))
    assert told is not None, "a verdict near 1 is not explained by layers that take twice as long"
    assert "0.967 × as long as A, by these layers 2.23 ×" in told
    assert layers_doubt(alike, 1.1, (100, 220)) is not None
    unlike = [alike[0], source(replace(WANTED, letter="B"), [entry("b", batch=1)])]
    told = layers_doubt(unlike, 0.8, (100, 70))
    assert told is not None
    assert told.startswith("These layers may not explain the verdict: B's point has batch 4, its layers are of batch 1")


def test_layers_of_a_disturbed_pass_are_doubted():
    alike = [source(replace(WANTED, letter=letter), [entry("a")]) for letter in "AB"]
    assert layers_doubt(alike, 0.8, (100, 70), (0.1, None)) is None
    told = layers_doubt(alike, 0.8, (100, 70), (0.1, 0.6))
    assert told is not None
    assert told.startswith("These layers may not explain the verdict: in B's profile the middle half")


def test_profiles_of_one_minute_are_told_apart_by_their_ids():
    found = [entry(identity, name="one name") for identity in ("aaaaaaaaaaaa1", "bbbbbbbbbbbb2")]
    labels = entry_labels([*found, entry("c", 2, name="one name")])
    assert [label.rpartition(" · ")[2] for label in labels.values()][:2] == ["aaaaaaaaaaaa", "bbbbbbbbbbbb"]
    assert labels["c00000000000"].endswith("engine version 1.0"), "no id where none is needed"
    assert len(set(labels.values())) == 3
