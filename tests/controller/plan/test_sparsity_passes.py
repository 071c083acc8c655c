"""A pass for each share of zeros, on the engines that can impose them and on no others."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.errors import InputError, PlanError
from enginebench_controller.plan.expand import Case, Expansion
from enginebench_controller.plan.plan import Plan
from enginebench_controller.plan.sparsity import parse_sparsities, with_sparsities
from enginebench_controller.records import AvailableEngine, EngineOption, EngineRef, UnavailableEngine


def engine(name, *options):
    return AvailableEngine(
        name=name, environment="default", options=tuple(EngineOption(one, "float") for one in options)
    )


def levelled(name, kind):
    able = engine(name, "imposed_sparsity")
    return replace(able, options=(*able.options, EngineOption("optimization_level", kind)))


SNAPSHOT = replace(
    invented.snapshot(),
    engines=(
        engine("sparse", "imposed_sparsity"),
        engine("dense", "threads"),
        levelled("levels", "int"),
        levelled("words", "str"),
        UnavailableEngine(name="gone", environment="default", reason="gone"),
    ),
)

ALL, NAMED = (Plan(models=("net",), engines=engines) for engines in (("all",), ("sparse", "dense")))


def case(name, **options):
    configuration = replace(invented.CONFIGURATION, options=options)
    return Case("local", EngineRef(name, "default", "1"), invented.model(), configuration, ())


def test_every_job_becomes_one_for_each_share_with_its_other_options():
    expansion = Expansion((case("sparse", optimization_level="0"),), ("a note",))
    found = with_sparsities(NAMED, expansion, (0.0, 0.9), [SNAPSHOT])

    assert [one.configuration.options for one in found.cases] == [
        {"optimization_level": "0", "imposed_sparsity": "0"},
        {"optimization_level": "0", "imposed_sparsity": "0.9"},
    ]
    assert found.notes == ("a note",)


@pytest.mark.parametrize(("name", "level"), [("levels", "0"), ("words", None), ("sparse", None)])
def test_only_an_engine_that_has_levels_is_given_one(name, level):
    (found,) = with_sparsities(ALL, Expansion((case(name),), ()), (0.5,), [SNAPSHOT], 0).cases
    assert found.configuration.options.get("optimization_level") == level


def test_engines_that_cannot_are_left_out_of_all_and_refused_by_name():
    both = Expansion((case("sparse"), case("dense")), ())
    found = with_sparsities(ALL, both, (0.5,), [SNAPSHOT])
    assert [one.engine.name for one in found.cases] == ["sparse"]
    assert found.notes == ("dense is left out: it cannot impose sparsity",)

    with pytest.raises(PlanError, match="dense cannot impose sparsity: that takes an engine with the option"):
        with_sparsities(NAMED, both, (0.5,), [SNAPSHOT])
    with pytest.raises(PlanError, match="dense cannot impose sparsity"):
        with_sparsities(ALL, Expansion((case("dense"),), ()), (0.5,), [SNAPSHOT])


def test_two_answers_to_one_question_are_refused():
    with pytest.raises(PlanError, match="two answers"):
        with_sparsities(ALL, Expansion((case("sparse", imposed_sparsity="0.1"),), ()), (0.5,), [SNAPSHOT])


def test_shares_are_parsed_once_each_and_nonsense_is_named():
    assert parse_sparsities("0, .4,0.9,0.4") == (0.0, 0.4, 0.9)
    assert parse_sparsities(None) == ()
    for text in ("90%", "a", "1", "-0.1", "nan", "inf", "٠.٥", "0,05"):
        with pytest.raises(InputError, match="--sparsity"):
            parse_sparsities(text)
