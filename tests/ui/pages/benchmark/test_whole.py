"""Measurements of copies for another batch are those of the model that a person named."""

from dataclasses import replace

from enginebench_ui.pages.benchmark.shapes.lines import labelled, lines_of
from enginebench_ui.pages.benchmark.shapes.whole import of_originals
from invented import BATCH_4, PRUNED_90, measured, model

NET, COPY, NAMESAKE = (character * 64 for character in "abc")
ORIGINAL = replace(model(), digest=NET, name="net")
COPY_4 = replace(model(), digest=COPY, name="net-batch4", parent_digest=NET, derivation=BATCH_4)
PRUNED = replace(model(), digest=NAMESAKE, name="net-pruned", parent_digest=NET, derivation=PRUNED_90)


def of(digest, name, identity, **fields):
    return replace(measured(identity, **fields), model_digest=digest, model_name=name)


def named(measurements):
    return [(one.model_digest, one.model_name) for one in measurements]


def test_a_copy_for_another_batch_is_its_original_and_makes_one_line_with_it():
    measurements = [of(NET, "net", "m1"), of(COPY, "net-batch4", "m2", batch=4)]

    placed = of_originals(measurements, [ORIGINAL, COPY_4])

    assert named(placed) == [(NET, "net")] * 2
    (line,) = lines_of(placed)
    assert line.batches == (1, 4) and line.first.model_name == "net"


def test_an_original_that_is_not_known_lends_its_name_all_the_same():
    assert named(of_originals([of(COPY, "net-batch4", "m1", batch=4)], [COPY_4])) == [(NET, "net")]


def test_any_other_child_is_a_model_of_its_own():
    measurements = [of(NET, "net", "m1"), of(NAMESAKE, "net-pruned", "m2")]
    assert of_originals(measurements, [ORIGINAL, PRUNED]) == tuple(measurements)


def test_versions_of_the_same_name_are_told_apart_by_their_digests():
    placed = of_originals([of(NET, "net", "m1"), of(NAMESAKE, "net", "m2")], [])

    assert [one.model_name for one in placed] == ["net aaaaaa", "net cccccc"]
    assert sorted(line.label for line in labelled(lines_of(placed))) == [
        "fake 1.0 · net aaaaaa",
        "fake 1.0 · net cccccc",
    ]
