"""One colour an engine, and colours that everybody tells apart, on light and on dark ground."""

import itertools

import pytest
from coloraide import Color

from enginebench_controller.files.palette import HUES, OWN_ENGINES, SIDES, EngineLooks, letters_on, variant

GROUNDS = ("#FFFFFF", "#171614")
BLINDNESSES = ("protan", "deutan", "tritan")
LEAST_DELTA_E = 20
LEAST_DELTA_E_BLIND = 13
LEAST_CONTRAST = 2.6


def seen(colour, blindness=None):
    return Color(colour).filter(blindness) if blindness else Color(colour)


def delta_e(one, other, blindness=None):
    return seen(one, blindness).delta_e(seen(other, blindness), method="2000")


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(HUES, 2)))
def test_any_two_hues_are_told_apart_by_every_reader(one, other):
    assert delta_e(one, other) >= LEAST_DELTA_E
    for blindness in BLINDNESSES:
        assert delta_e(one, other, blindness) >= LEAST_DELTA_E_BLIND, blindness


@pytest.mark.parametrize("colour", [*HUES, *SIDES])
def test_a_hue_is_seen_on_light_and_on_dark_ground(colour):
    for ground in GROUNDS:
        assert Color(colour).contrast(ground) >= LEAST_CONTRAST
    assert Color(letters_on(colour)).contrast(colour) >= 4.5


def test_our_engines_have_one_colour_whatever_a_store_met():
    for met in ((), ("ncnn", "torch"), ("deepsparse", "ncnn", "onnxruntime")):
        assert [EngineLooks(met).of(name).colour for name in OWN_ENGINES] == list(HUES[: len(OWN_ENGINES)])


def test_others_come_in_the_order_in_which_they_were_met_and_keep_their_look():
    before, after = EngineLooks(("ncnn", "torch")), EngineLooks(("ncnn", "torch", "litert", "xla"))
    assert before.of("ncnn") == after.of("ncnn")
    assert len({after.of(name).colour for name in (*OWN_ENGINES, "ncnn", "litert", "xla")}) == len(HUES)


def test_from_the_ninth_engine_on_hue_and_marker_together_tell():
    names = [f"engine-{place}" for place in range(60)]
    looks = [EngineLooks(names).of(name) for name in names]
    assert len(set(looks)) == len(names)


def test_an_engine_that_no_store_met_has_a_look_that_stays():
    assert EngineLooks().of("stranger") == EngineLooks().of("stranger")


def test_what_is_one_engine_shares_its_hue_in_other_lightness_and_marker():
    looks = EngineLooks().of_series([("old", "torch"), ("new", "torch"), ("ort", "onnxruntime"), ("old", "torch")])
    assert looks["old"] == EngineLooks().of("torch")
    assert looks["new"] == variant(looks["old"], 1) != looks["old"]
    assert looks["new"].symbol != looks["old"].symbol
    hues = [Color(looks[name].colour).convert("hsl")["hue"] for name in ("old", "new")]
    assert hues[0] == pytest.approx(hues[1], abs=3)
    assert looks["ort"] == EngineLooks().of("onnxruntime")


def test_sides_wear_the_colours_of_their_engines_and_are_told_apart_without_colour():
    one, other = EngineLooks().of_sides("torch", "openvino")
    assert (one.colour, other.colour) == tuple(EngineLooks().of(name).colour for name in ("torch", "openvino"))
    same, again = EngineLooks().of_sides("torch", "torch")
    assert {same.colour, again.colour} == set(SIDES)
    for first, second in ((one, other), (same, again)):
        assert (first.dash, first.pattern) != (second.dash, second.pattern)
