"""`enginebench prospects show` tells of one sweep, and lists them where more than one is meant."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import invented_sweeps
from enginebench_controller.cli import make_app
from enginebench_controller.errors import InputError
from enginebench_controller.store.store import Store

SLOW_STEPS = ((0.0, (40, 2, 20)), (0.9, (4, 2, 5)))


def on_one_core(one):
    return replace(one, id=f"one-{one.id}", configuration=replace(one.configuration, cores=1))


@pytest.fixture
def show(tmp_path, monkeypatch):
    """Two orders: one command with two numbers of cores, and a plain profile."""
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    slow = map(on_one_core, invented_sweeps.passes(SLOW_STEPS, order="both"))
    fast = invented_sweeps.passes(order="both")
    Store(tmp_path / "results.duckdb").add_profiles([*fast, *slow, invented_sweeps.baseline(order_id="plain")])

    def run(*arguments):
        return CliRunner().invoke(make_app(), ["prospects", "show", *arguments], catch_exceptions=True)

    return run


def speedups(done):
    return [one["imposed"]["speedup"] for one in json.loads(done.stdout)["outcomes"]]


@pytest.mark.slow
@pytest.mark.parametrize("named", ["both", "passes"])
def test_an_order_with_two_numbers_of_cores_is_two_sweeps_to_choose_from(show, named):
    said = str(show(named).exception)

    assert f"{named} names 2 sweeps" in said
    assert "- s0.9: invented on invented@default, local CPU, batch 1, 2 cores, f32" in said
    assert "- one-s0.9: invented on invented@default, local CPU, batch 1, 1 core, f32" in said


@pytest.mark.slow
def test_a_profile_names_its_own_sweep_and_times_are_divided_within_it(show):
    assert speedups(show("one-s0.9", "--json")) == [1, pytest.approx(62 / 11)]
    assert speedups(show("s0.9", "--json")) == [1, pytest.approx(32 / 22), pytest.approx(32 / 11)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("plain", "plain has no passes with sparsity imposed"),
        ("nothing", "no profile 'nothing'"),
        ("", "no profile ''"),
    ],
)
def test_what_is_no_sweep_is_said_in_a_sentence(show, named, said):
    error = show(named).exception

    assert isinstance(error, InputError)
    assert said in str(error)
