"""Keys of projects in addresses: each names one project, and which two a benchmark measured."""

import pytest

import invented
from enginebench_ui.shared.project_key import project_key, two_sides

DIGEST = "0bebac6939397afe847a2a078d2b9110fcc70bd0ca907e3fb09f21192b884c58"


def test_a_key_reads_as_model_engine_environment_and_target():
    assert project_key(DIGEST, "onnxruntime", "default", "local") == "0bebac693939~onnxruntime@default~local"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a@b", "c", "d"), ("a", "b@c", "d")),
        (("a", "b~c", "d"), ("a", "b", "c~d")),
        (("~", "a", "a"), ("%7E", "a", "a")),
        (("a", "a", "@"), ("a", "a", "%40")),
    ],
)
def test_other_names_are_another_project_whatever_they_hold(one, other):
    assert project_key(DIGEST, *one) != project_key(DIGEST, *other)


FLOAT, INT8, COPY = "ab" * 32, "cd" * 32, "ef" * 32
MODELS = (
    invented.model(FLOAT, "net"),
    invented.model(INT8, "net-int8", parent_digest=FLOAT, derivation=invented.INT8),
    invented.model(COPY, "net-int8-batch4", parent_digest=INT8, derivation=invented.BATCH_4),
)


def side(digest, engine="fake"):
    return f"{digest[:12]}~{engine}@default~local~CPU"


def test_a_model_stands_as_a_beside_what_was_made_from_it_however_fast_either_is():
    small = invented.measured("b" * 32, model_digest=INT8, latency_ms=9.0)
    found = two_sides([small, invented.measured("a" * 32)], MODELS)
    assert found == {"a": side(FLOAT), "b": side(INT8), "ea": "a" * 12, "eb": "b" * 12}


def test_of_two_engines_the_slower_is_a():
    slow, fast = invented.measured("1" * 32, engine="x"), invented.measured("2" * 32, engine="y", latency_ms=1.0)
    assert two_sides([fast, slow], MODELS)["a"] == side(FLOAT, "x")


def test_sides_with_several_points_stand_for_the_fastest_configuration_that_both_have():
    found = two_sides(
        [
            invented.measured("1" * 32, latency_ms=9.0),
            invented.measured("2" * 32, batch=4, latency_ms=9.0),
            invented.measured("3" * 32, model_digest=INT8),
            invented.measured("4" * 32, model_digest=COPY, batch=4),
            invented.measured("5" * 32, model_digest=INT8, batch=64, latency_ms=1.0),
        ],
        MODELS,
    )
    assert found == {"a": side(FLOAT), "b": side(INT8), "ea": "2" * 12, "eb": "4" * 12}


def test_where_no_configuration_is_common_each_side_stands_for_its_fastest():
    found = two_sides(
        [
            invented.measured("1" * 32, batch=2),
            invented.measured("2" * 32, batch=16),
            invented.measured("3" * 32, model_digest=INT8),
        ],
        MODELS,
    )
    assert (found["ea"], found["eb"]) == ("2" * 12, "3" * 12)


def test_one_project_three_and_failures_are_no_two_sides():
    one, other = invented.measured("1" * 32, engine="x"), invented.measured("2" * 32, engine="y")
    assert two_sides([one], MODELS) == {}
    assert two_sides([one, other, invented.measured("3" * 32, engine="z")], MODELS) == {}
    assert two_sides([one, invented.failed("4" * 32, engine="y")], MODELS) == {}
