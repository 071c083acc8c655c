"""What `enginebench recommend` writes, prints and leaves with, where there is nothing to recommend."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import invented_recommendations
from enginebench_controller.cli import make_app
from enginebench_controller.cli.commands import recommend
from enginebench_controller.errors import InputError
from enginebench_controller.home import Home
from enginebench_controller.runs.searches.holding import held
from enginebench_controller.verdicts.recommend.search import Fate, SearchOutcome


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    return Home(tmp_path)


def recommended(monkeypatch: pytest.MonkeyPatch, asked, found, *words: str) -> Result:
    """What the command does where the search comes to what is `found`."""

    async def searched(home: Home, _: object, watcher: recommend.RecommendProgress) -> object:
        search = invented_recommendations.search(asked, found)
        with held(home, search.id):
            watcher.set_out(search)
        return search

    monkeypatch.setattr(recommend, "search_for", searched)
    return CliRunner().invoke(make_app(), ["recommend", "net", *words], catch_exceptions=False)


def test_where_nothing_holds_the_limit_no_plan_is_written_and_nothing_is_the_best(tmp_path, monkeypatch) -> None:
    asked, plan = invented_recommendations.order(max_latency="p95<1ms"), tmp_path / "none.toml"
    done = recommended(monkeypatch, asked, invented_recommendations.carried_out(asked), "--plan", str(plan))
    assert done.exit_code == 4
    assert not plan.exists()
    assert f"nothing is recommended: {plan} was not written" in done.stderr
    assert "The nearest of " in done.stdout and "nearest, breaks" in done.stdout
    assert "best" not in done.output and "enginebench run" not in done.output


def test_a_plan_has_the_ending_by_which_run_knows_one(tmp_path, monkeypatch) -> None:
    asked = invented_recommendations.order()
    with pytest.raises(InputError, match=r"plan\.yaml: a plan is TOML, .* end it in \.toml"):
        recommended(monkeypatch, asked, None, "--plan", str(tmp_path / "plan.yaml"))


def test_where_it_cannot_be_told_the_command_has_a_label(monkeypatch) -> None:
    asked = invented_recommendations.order()
    found = replace(invented_recommendations.carried_out(asked), outcome=SearchOutcome.CANNOT_TELL)
    done = recommended(monkeypatch, asked, found)
    assert done.exit_code == 5
    assert "not a recommendation, but what measures it again:" in done.stderr
    assert "enginebench run net" in done.stdout


@pytest.mark.parametrize("limit", [None, "p95<20ms"])
def test_where_nothing_could_be_measured_that_is_a_failure_and_no_limit(monkeypatch, limit) -> None:
    asked = invented_recommendations.order(max_latency=limit)
    every = range(len(invented_recommendations.points(asked).points))
    done = recommended(monkeypatch, asked, invented_recommendations.carried_out(asked, refused=every))
    assert done.exit_code == 1
    assert done.stdout.startswith("nothing could be measured: ")
    assert "points" not in done.stdout, "a table would have no figures"


def test_what_cannot_be_had_is_told_with_the_reason_and_is_not_counted_among_what_was_measured(monkeypatch) -> None:
    asked = invented_recommendations.order()
    found = invented_recommendations.carried_out(asked)
    ran = [one for one in found.tried if one.processes]
    lost = {one.title: replace(one, fate=Fate.REFUSED, processes=0, why="it crashed") for one in ran[-2:]}
    less = replace(found, tried=tuple(lost.get(one.title, one) for one in found.tried))
    done = recommended(monkeypatch, asked, less)
    assert f"The best of {len(ran) - 2} points that were measured, of {len(found.tried)}" in done.stdout
    names = "; ".join(found.words_of(one) for one in lost.values())
    assert f"  cannot be had: {names}: it crashed\n" in done.stderr


def test_of_many_reasons_the_commonest_are_told_and_in_which_process_it_was_makes_none(monkeypatch) -> None:
    asked = invented_recommendations.order()
    found = invented_recommendations.carried_out(asked)
    ran = [one for one in found.tried if one.processes]
    lost = {one.title for one in ran[1:]}
    alike = [f"process {number} of 5: it crashed" for number in (2, 3)] + ["it crashed"]
    whys = iter([*(f"reason {number}" for number in range(len(lost) - len(alike))), *alike])
    tried = tuple(
        replace(one, fate=Fate.REFUSED, processes=0, why=next(whys)) if one.title in lost else one
        for one in found.tried
    )
    assert len(lost) > 6
    told = recommended(monkeypatch, asked, replace(found, best=tried.index(ran[0]), tried=tried)).stderr
    lines = [line for line in told.splitlines() if line.startswith("  cannot be had: ")]
    names = "; ".join(found.words_of(one) for one in ran[-3:])
    assert lines[0] == f"  cannot be had: {names}: it crashed"
    assert [line.rpartition(": ")[2] for line in lines[1:-1]] == ["reason 0", "reason 1", "reason 2"]
    assert lines[-1] == f"  cannot be had: {len(lost) - 6} more: other reasons"


def test_a_search_without_an_answer_is_shown_as_unfinished(home: Home, monkeypatch, capsys) -> None:
    asked = invented_recommendations.order()
    search = invented_recommendations.search(asked)
    found = invented_recommendations.carried_out(asked, most_steps=1)
    monkeypatch.setattr(recommend, "so_far", lambda *_: found)
    recommend.print_search(home, search, as_json=False)
    said = f"it is unfinished: `enginebench resume {search.id}` goes on with it"
    assert said in capsys.readouterr().err
