"""Whether all of a benchmark can be used, and the sentence that names what cannot."""

from dataclasses import replace

import pytest

import invented
import invented_profiles
from enginebench_controller.records import Status
from enginebench_controller.verdicts.soundness import left_out, soundness


def wrong(identity="m3"):
    return invented.measured(identity, engine="wrong", captured_outputs=(invented.outputs(shift=0.5),))


def right(identity, **fields):
    return invented.measured(identity, engine=identity, **fields)


def test_numbers_that_are_unsure_can_be_used():
    found = soundness([right("m1"), right("m2", status=Status.INCONCLUSIVE)])
    assert found and found.sentence == ""
    assert found.document == {"sound": True, "without_numbers": [], "wrong_outputs": [], "left_out": []}


def test_what_failed_and_what_is_wrong_are_named_apart():
    found = soundness([right("m1"), right("m2"), wrong(), invented.failed("m4")])
    assert not found
    assert found.document == {"sound": False, "without_numbers": ["m4"], "wrong_outputs": ["m3"], "left_out": []}
    assert found.sentence == (
        "1 of 4 without numbers: invented on fake-broken (local, batch 1, 2 cores); "
        "1 of 4 with wrong outputs (≠): invented on wrong 1.0 (local, batch 1, 2 cores)"
    )


def test_only_those_asked_about_count_but_all_of_them_are_the_reference():
    given = [right("m1"), right("m2"), wrong(), invented.failed("m4")]
    assert soundness(given, among={"m1", "m2"})
    assert soundness(given, among={"m3"}).document["wrong_outputs"] == ["m3"]


def test_many_are_counted_and_some_of_them_named():
    found = soundness([invented.failed(f"m{batch}", batch=batch) for batch in range(1, 9)])
    assert found.sentence.startswith("8 of 8 without numbers: ") and found.sentence.endswith(" and 4 more")


def test_profiles_are_judged_by_how_they_ended():
    failed = invented_profiles.profile("p1", status=Status.FAILED, layers=())
    assert soundness([failed, invented_profiles.profile("p2")]).document["without_numbers"] == ["p1"]


@pytest.mark.parametrize(
    ("said", "sentences"),
    [(["a is left out", 5], ("a is left out",)), (None, ()), (5, ()), ("all", ()), ({"a": 1}, ())],
)
def test_why_models_are_left_out_is_what_the_plan_has_as_sentences(said, sentences):
    """The plan of an import may have anything in that place."""
    assert left_out([replace(invented.benchmark(), plan={"left_out": said})]) == sentences
