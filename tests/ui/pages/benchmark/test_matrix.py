"""All cells at a glance: values, who is the best of a column, what cannot be trusted, and names that are escaped."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.records import Ceiling, CeilingBasis, Configuration, Grounds, Status
from enginebench_controller.stats.ranking import Standing
from enginebench_controller.stats.scaling import Quantity
from enginebench_controller.verdicts.answers import Answer, AnswerOutcome, RankedPlace, RankMetric, contested
from enginebench_ui.pages.benchmark.shapes.figures import Lens
from enginebench_ui.pages.benchmark.shapes.lines import labelled, lines_of
from enginebench_ui.pages.benchmark.shapes.matrix import (
    ABSENT,
    BEST,
    FAILED,
    OPEN,
    UNSURE,
    WRONG,
    matrix_cells,
    matrix_html,
    outrun,
)
from enginebench_ui.pages.benchmark.shapes.whole import default_base


def measured(identity, engine, latency_ms, batch=1, **fields):
    asked = Configuration("CPU", batch, 2)
    return invented.measured(identity, engine=engine, batch=batch, latency_ms=latency_ms, configuration=asked, **fields)


def lines(*measurements):
    return labelled(lines_of(measurements))


def signs(shown, quantity=Quantity.ITEMS_PER_S, problems=None):
    keys = {line.key: line.first.engine.name for line in shown}
    found = matrix_cells(shown, quantity, Lens(problems=problems or {}))
    return {(keys[key], cell[0]): one.sign for (key, cell), one in found.items()}


@pytest.mark.parametrize("quantity", [Quantity.ITEMS_PER_S, Quantity.TIME_PER_BATCH])
def test_the_best_of_each_column_is_marked(quantity):
    shown = lines(
        measured("m1", "slow", 4.0),
        measured("m2", "quick", 2.0),
        measured("m3", "slow", 4.0, batch=4),
        measured("m4", "quick", 8.0, batch=4),
    )

    assert signs(shown, quantity) == {("slow", 1): "", ("quick", 1): BEST, ("slow", 4): BEST, ("quick", 4): ""}


def test_what_cannot_be_trusted_is_never_the_best():
    shown = lines(
        measured("m1", "wrong", 1.0),
        measured("m2", "unsure", 2.0, status=Status.INCONCLUSIVE),
        measured("m3", "sound", 4.0),
        invented.failed("m4", engine="broken", configuration=Configuration("CPU", 1, 2)),
    )

    assert signs(shown, problems={"m1": "they differ"}) == {
        ("wrong", 1): WRONG,
        ("unsure", 1): UNSURE,
        ("sound", 1): BEST,
        ("broken", 1): FAILED,
    }
    assert default_base(shown, {"m1": "they differ"}).first.engine.name == "sound"


@pytest.mark.parametrize(
    ("grounds", "words"),
    [
        (Grounds(emulation="by QEMU"), "inconclusive, emulated"),
        (Grounds(ceiling=Ceiling(1e9, 1e9, "f32", 2, CeilingBasis.CALIBRATED)), "ok, impossible"),
    ],
)
def test_numbers_of_no_real_machine_and_those_that_cannot_be_are_never_the_best_and_say_so(grounds, words):
    status = Status.INCONCLUSIVE if grounds.emulation else Status.OK
    shown = lines(measured("m1", "odd", 1.0, grounds=grounds, status=status), measured("m2", "sound", 4.0))

    assert signs(shown) == {("odd", 1): UNSURE, ("sound", 1): BEST}
    drawn = matrix_html(
        shown,
        Quantity.ITEMS_PER_S,
        Lens(),
        EngineLooks().of_series((line.key, line.first.engine.name) for line in shown),
    )
    assert f"{UNSURE} {words}" in drawn and f"({words})" in drawn
    assert default_base(shown, {}).first.engine.name == "sound"


def test_a_best_that_the_answer_cannot_tell_is_marked_as_that():
    shown = lines(measured("m1", "slow", 4.0), measured("m2", "quick", 3.9))
    found = matrix_cells(shown, Quantity.ITEMS_PER_S, Lens(open={"m1": {"m2"}, "m2": {"m1"}}))
    assert sorted(one.sign for one in found.values()) == ["", OPEN]
    elsewhere = matrix_cells(shown, Quantity.ITEMS_PER_S, Lens(open={"m1": {"m9"}, "m2": {"m9"}}))
    assert sorted(one.sign for one in elsewhere.values()) == ["", BEST], "the other is on another target"


def answer(*places, metric=RankMetric.LATENCY):
    """An answer that ranks measurements, each given with what is known of it."""
    ranked = tuple(RankedPlace(identity, identity, *known) for identity, *known in places)
    return Answer("invented", metric, AnswerOutcome.RANKED, "", ranked)


FASTEST = (Standing.FASTEST, 1.0, None, None)
SLOWER = (Standing.SLOWER, 1.73, 1.70, 1.77)


def seen(shown, answers, quantity=Quantity.ITEMS_PER_S, **known):
    """What is drawn under a lens of answers, and the signs with their reasons by measurement."""
    lens = Lens(outrun=outrun(answers), open=contested(answers), **known)
    ids = {(line.key, cell): one.id for line in shown for cell, one in line.cells.items()}
    found = {ids[place]: (one.sign, one.doubt) for place, one in matrix_cells(shown, quantity, lens).items()}
    looks = EngineLooks().of_series((line.key, line.first.engine.name) for line in shown)
    return matrix_html(shown, quantity, lens, looks), found


def test_the_most_items_of_one_that_the_answer_calls_slower_is_no_plain_best():
    """A tail of a few ms: by wall clock it is the other way round than by median latency."""
    shown = lines(measured("m1", "ort", 2.0, throughput_items_per_s=100.0), measured("m2", "vino", 4.0))
    answers = [answer(("m1", *FASTEST), ("m2", *SLOWER))]

    drawn, found = seen(shown, answers)
    words = "most items/s, but by median latency ort 1.0 is faster"
    assert found == {"m1": ("", ""), "m2": (OPEN, words)}
    assert drawn.count(f"({words})") == 2 and f"{OPEN} {words}." in drawn, "in the label, the tooltip and the legend"
    assert BEST not in drawn and 'class="best"' not in drawn

    drawn, found = seen(shown, answers, Quantity.TIME_PER_BATCH)
    assert found == {"m1": (BEST, ""), "m2": ("", "")}
    assert OPEN not in drawn


def test_what_an_answer_calls_faster_is_escaped_in_the_cell_as_well():
    sides = [measured("m1", "ort", 2.0, throughput_items_per_s=100.0), measured("m2", "ort", 4.0)]
    levels = ('"><img src=x>', "low")
    shown = lines(
        *(
            replace(one, configuration=replace(one.configuration, options={"level": level}))
            for one, level in zip(sides, levels, strict=True)
        )
    )
    drawn, found = seen(shown, [answer(("m1", *FASTEST), ("m2", *SLOWER))])
    assert "img" in found["m2"][1] and "<img" not in drawn


def test_names_from_right_to_left_move_nothing_beside_them():
    shown = lines(measured("m1", "ort", 2.0, target="\u05d3\u05d2\u05dd"), measured("m2", "ort", 4.0, target="b"))
    drawn, _ = seen(shown, [])
    assert drawn.count("\u2068\u05d3\u05d2\u05dd\u2069") >= 3, "in the heading of the row, the label and the tooltip"


def test_the_least_latency_of_one_that_the_answer_has_slower_by_throughput_says_so():
    shown = lines(measured("m1", "ort", 4.0), measured("m2", "vino", 2.0))
    answers = [answer(("m1", *FASTEST), ("m2", *SLOWER), metric=RankMetric.THROUGHPUT)]

    _, found = seen(shown, answers, Quantity.TIME_PER_BATCH)
    assert found["m2"] == (OPEN, "least ms/batch, but by throughput ort 1.0 is faster")
    _, found = seen(shown, answers)
    assert found["m2"] == (OPEN, "most items/s, but by the answer above ort 1.0 is faster")


def test_of_several_that_the_answer_has_behind_a_third_those_told_apart_count():
    """The fastest of the family is another model, which is no rival in this column."""
    shown = lines(
        measured("m0", "ort", 1.0, model_digest="cd" * 32, model_name="int8"),
        measured("m1", "ort", 4.0),
        measured("m2", "vino", 3.9),
    )
    first = ("m0", *FASTEST)

    _, told = seen(shown, [answer(first, ("m1", Standing.SLOWER, 1.3, 1.2, 1.4), ("m2", *SLOWER))])
    assert told["m2"] == (OPEN, "most items/s, but by median latency ort 1.0 · invented is faster")
    _, untold = seen(shown, [answer(first, ("m1", Standing.SLOWER, 1.6, 1.5, 1.75), ("m2", *SLOWER))])
    assert untold["m2"] == (BEST, "")


def test_one_that_cannot_be_trusted_takes_no_star_from_another():
    shown = lines(measured("m1", "wrong", 2.0, throughput_items_per_s=100.0), measured("m2", "sound", 4.0))
    _, found = seen(shown, [answer(("m1", *FASTEST), ("m2", *SLOWER))], problems={"m1": "they differ"})
    assert found == {"m1": (WRONG, ""), "m2": (BEST, "")}


def test_models_are_no_rivals_of_each_other():
    small = {"model_digest": "cd" * 32, "model_name": "small"}
    shown = lines(
        measured("m1", "x", 4.0),
        measured("m2", "y", 5.0),
        measured("m3", "x", 1.0, **small),
        measured("m4", "y", 0.5, **small),
    )
    found = matrix_cells(shown, Quantity.ITEMS_PER_S, Lens())
    assert [(one.text, one.sign) for one in found.values() if one.sign] == [("250.4", BEST), ("1,995", BEST)]


def test_who_has_no_rival_is_no_best():
    assert signs(lines(measured("m1", "alone", 4.0))) == {("alone", 1): ""}


def test_the_table_escapes_names_tells_every_cell_and_explains_the_signs_that_occur():
    shown = lines(measured("m1", "<b>x</b>", 4.0), measured("m2", "y", 2.0), measured("m3", "y", 3.0, batch=4))
    looks = EngineLooks().of_series((line.key, line.first.engine.name) for line in shown)

    drawn = matrix_html(shown, Quantity.ITEMS_PER_S, Lens(), looks, (shown[0].key, (1, 2)))

    assert "<b>" not in drawn and "&lt;b&gt;x&lt;/b&gt;" in drawn
    assert drawn.count("data-cell=") == 3
    assert drawn.count('aria-current="true"') == 1
    assert f"{ABSENT} not measured" in drawn and WRONG not in drawn
    assert 'aria-label="y 1.0, batch 4, 2 cores: ' in drawn


def test_whose_best_a_shade_is_held_against_is_said():
    def legend(*measurements):
        shown = lines(*measurements)
        looks = EngineLooks().of_series((line.key, line.first.engine.name) for line in shown)
        return matrix_html(shown, Quantity.ITEMS_PER_S, Lens(), looks)

    one = measured("m1", "quick", 2.0)
    assert "the best of its column." in legend(one)
    elsewhere = measured("m2", "quick", 4.0, target="board")
    assert "the best of its column, among those of its target." in legend(one, elsewhere)
    other = measured("m3", "quick", 4.0, target="board", model_digest="cd" * 32)
    assert "the best of its column, among those of its model and target." in legend(one, other)


def test_doubts_of_several_cells_are_told_apart_in_the_legend():
    """ "inconclusive, disturbed or inconclusive" would read as three."""
    shown = lines(*(measured(f"m{place}", name, 4.0, status=Status.INCONCLUSIVE) for place, name in enumerate("ab")))
    emulated = replace(shown[1].first, grounds=Grounds(emulation="by QEMU"))
    drawn, found = seen((shown[0], *lines(emulated)), [])
    assert f"{UNSURE} {found['m0'][1]}; or {found['m1'][1]}." in drawn
