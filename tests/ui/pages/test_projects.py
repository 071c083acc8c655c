"""Projects as a table: the best of each, how it was reached, and what is unknown."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.records import Arrivals, Effective, Hint, Load, Readback, ReadbackSource, Status
from enginebench_controller.records.model import WeightCount
from enginebench_controller.store.models import ParameterCount, Project
from enginebench_ui.pages.projects.shapes import (
    best_items_per_s,
    chosen_in_order,
    comparison,
    configuration_words,
    known_keys,
    project_views,
)
from enginebench_ui.shared.versions import KnownVersion


def project(letter="a", engine="fake", best="m1", **fields):
    measured = invented.measured(best, engine=engine, latency_ms=2.0) if best else None
    whole = Project(
        model_digest=letter * 64,
        model_name=f"model-{letter}",
        engine=engine,
        environment="default",
        target="local",
        counts={Status.OK: 3, Status.FAILED: 1} if best else {Status.FAILED: 2, Status.CANCELLED: 1},
        begun_at_unix_ns=None,
        last_at_unix_ns=None,
        best=measured,
    )
    return replace(whole, **fields)


def known(letter="a", weights=None, **fields):
    one = replace(invented.model(letter * 64, f"model-{letter}"), **fields)
    return {one.digest: KnownVersion(one, is_here=True, weights=weights)}


def test_the_best_stands_with_its_interval_configuration_and_precision():
    bf16 = Effective(precision=Readback("bf16", ReadbackSource.ENGINE_API))
    one = project()
    one = replace(one, best=replace(one.best, effective=bf16, status=Status.INCONCLUSIVE))

    (view,) = project_views([one], {})

    interval = one.best.throughput_interval
    half = (interval.high - interval.low) / 2 / one.best.throughput_items_per_s
    assert view.row["Best (items/s)"] == one.best.throughput_items_per_s
    assert view.row["± (%)"] == pytest.approx(100 * half)
    assert (view.row["Reached with"], view.row["Precision"]) == ("CPU · batch 1 · 2 cores", "bf16 (engine)")
    assert (view.row["Status"], view.row["Measured"]) == ("inconclusive", "4 measurements, 1 failed")
    assert "precision: f32 requested, bf16 effective" in view.row["Remarks"]
    assert view.title == "model-a on fake 1.0, local"
    assert view.headline.startswith("Best: "), "what was measured last may be less"
    assert view.benchmark_id == "b0000001"


def test_the_best_of_a_slow_model_is_no_zero():
    one = project()
    slow = replace(one.best, throughput_items_per_s=0.0412, throughput_interval=None)

    (view,) = project_views([replace(one, best=slow)], {})

    assert view.headline == "Best: 0.0412 items/s"


def test_a_project_without_numbers_has_none_and_says_how_it_went():
    (view,) = project_views([project(best=None)], {})

    assert (view.row["Best (items/s)"], view.row["± (%)"], view.row["Reached with"]) == (None, None, None)
    assert (view.row["Status"], view.headline) == ("failed", "No measurement has numbers")
    assert view.configuration == "3 measurements, 2 failed, 1 cancelled"
    assert view.benchmark_id is None


def test_what_nobody_knows_of_the_model_is_no_zero():
    (view,) = project_views([project()], {})

    assert [view.row[name] for name in ("Version", "Weights", "Sparsity (%)", "Size (MB)", "Created")] == [None] * 5


def test_sparsity_is_counted_in_the_file_or_else_by_a_profile():
    counted = ParameterCount(100, 40)
    in_file = known(weights=WeightCount(100, 10, {"float32": 100}))

    (of_file,) = project_views([project(counted=counted)], in_file)
    (of_profile,) = project_views([project(counted=counted)], known())

    assert (of_file.row["Sparsity (%)"], of_profile.row["Sparsity (%)"]) == (90.0, 60.0)


def test_a_family_stands_together_the_fastest_first():
    projects = [
        project("z"),
        project("a", best=None),
        project("c", best="m2", engine="quick"),
        project("b"),
    ]
    slow = replace(projects[3].best, throughput_items_per_s=1.0)
    projects[3] = replace(projects[3], best=slow)
    family = known("a") | known("b") | known("c", parent_digest="a" * 64, name="zz-child") | known("z")

    views = project_views(projects, family)

    assert [view.model_digest[0] for view in views] == ["c", "a", "b", "z"]


@pytest.mark.parametrize(
    ("search", "found"), [("", "ab"), ("MODEL-a", "a"), ("fake local", "ab"), ("b" * 9, "b"), ("x", "")]
)
def test_a_search_finds_every_word(search, found):
    views = project_views([project("a"), project("b")], {}, search)

    assert "".join(view.model_digest[0] for view in views) == found


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "GPU.0 · batch 8 · 1 core"),
        ({"streams": 2, "hint": Hint.THROUGHPUT}, "GPU.0 · batch 8 · 1 core · 2 streams · hint throughput"),
        ({"load": Load.ASYNC, "requests": 4}, "GPU.0 · batch 8 · 1 core · async, 4 in flight"),
        ({"load": Load.OPEN_LOOP, "arrivals": Arrivals(250.0)}, "GPU.0 · batch 8 · 1 core · open-loop · 250/s poisson"),
    ],
)
def test_a_configuration_is_named_by_what_is_not_usual(fields, words):
    asked = invented.Configuration(device="GPU.0", batch=8, cores=1, **fields)

    assert configuration_words(asked) == words


def test_keys_name_model_engine_environment_and_target():
    (view,) = project_views([project(environment="legacy", target="nuc")], {})

    assert view.key == f"{'a' * 12}~fake@legacy~nuc"


def test_more_is_measured_of_the_same_model_with_the_same_engine_on_the_same_target():
    elsewhere, here = project_views([project(environment="legacy", target="nuc"), project("b")], {})

    assert elsewhere.order == {"model": "a" * 12, "engine": "fake@legacy", "target": "nuc"}
    assert here.order == {"model": "b" * 12, "engine": "fake"}


def test_the_first_chosen_is_a_and_what_a_search_hides_stays_chosen():
    assert chosen_in_order(["y"], ["x", "y", "z"], ["x", "y"]) == ("y", "x")
    assert chosen_in_order(["hidden"], ["x", "y"], ["y"]) == ("hidden", "y")
    assert chosen_in_order(["x", "y"], ["x", "y"], ["y"]) == ("y",)
    assert comparison(("y", "x", "z")) == {"a": "y", "b": "x"}
    assert comparison(()) == {}


def test_a_key_that_belongs_to_no_project_is_not_chosen():
    one = project()
    (view,) = project_views([one], {})
    assert known_keys([view.key, "gone~x@y~z", ""], [one]) == (view.key,)


def test_the_best_of_a_model_is_over_all_engines():
    fast = project("a", engine="quick", best="m2")
    fast = replace(fast, best=replace(fast.best, throughput_items_per_s=9e9))

    assert best_items_per_s([project("a"), fast, project("b", best=None)]) == {"a" * 64: 9e9}


def test_names_that_a_spreadsheet_would_compute_are_quoted():
    (view,) = project_views([project(model_name="=1+1", target="@x")], {})

    assert (view.row["Model"], view.row["Target"]) == ("'=1+1", "'@x")
