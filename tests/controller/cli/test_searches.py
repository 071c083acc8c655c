"""A search is one thing in lists, and is removed with all that it has left."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import invented_bisects
import invented_recommendations
from enginebench_agent.config import EnvironmentConfig, write_environment
from enginebench_controller.cli import make_app
from enginebench_controller.cli.commands import bisect, recommend
from enginebench_controller.cli.searches import AskedFiles, asked_of, keep_asked
from enginebench_controller.errors import ChangedTargetError, InputError
from enginebench_controller.home import Home
from enginebench_controller.records import Search
from enginebench_controller.runs.searches.holding import FOLDER, orders_file
from enginebench_controller.verdicts.recommend.answer import answer_document
from printed import check_command


@pytest.mark.slow
def test_an_interrupted_bisect_is_removed_with_its_environments_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    home = Home(tmp_path)
    home.store.add_search(invented_bisects.search(None))
    (own, _) = invented_bisects.ORDER.environments(invented_bisects.ID, 0)
    for name in (own, "mine"):
        place = home.agent_data / "environments" / name
        place.mkdir(parents=True)
        write_environment(place, EnvironmentConfig(name, place / "python", ("onnxruntime",)))
    done = CliRunner().invoke(make_app(), ["remove", invented_bisects.ID, "--yes"], catch_exceptions=False)
    assert done.exit_code == 0
    assert [one.name for one in (home.agent_data / "environments").iterdir()] == ["mine"]
    assert home.store.searches() == ()


def test_a_search_that_cannot_go_on_now_keeps_no_other_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    home, gone_on = Home(tmp_path), []
    for id_ in ("5ea4c0000001", "5ea4c0000002"):
        home.store.add_search(replace(invented_bisects.search(None), id=id_))
    (home.path / FOLDER).mkdir()
    (home.path / FOLDER / "any.lock").touch()

    def carry_on(_: Home, one: Search, **__: object) -> int:
        gone_on.append(one.id)
        if len(gone_on) == 1:
            raise ChangedTargetError("another machine")
        return 0

    monkeypatch.setattr(bisect, "carry_on", carry_on)
    done = CliRunner().invoke(make_app(), ["resume"], catch_exceptions=False, standalone_mode=False)
    assert sorted(gone_on) == ["5ea4c0000001", "5ea4c0000002"]
    assert (done.return_value, "error: another machine" in done.stderr) == (3, True)


def test_the_document_of_resume_has_what_came_of_each_search_and_is_not_sound_where_one_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    home, asked = Home(tmp_path), invented_recommendations.order()
    found = invented_recommendations.carried_out(asked)
    lost = "5ea4c0000002"
    home.store.add_search(invented_recommendations.search(asked))
    home.store.add_search(invented_bisects.search(None))
    home.store.add_search(replace(invented_bisects.search(None), id=lost))
    (home.path / FOLDER).mkdir()
    (home.path / FOLDER / "any.lock").touch()

    def bisected(_: Home, one: Search, **__: object) -> int:
        if one.id == lost:
            raise ChangedTargetError("another machine")
        home.store.answer_search(one.id, invented_bisects.ANSWER.model_dump(mode="json"))
        return 0

    def recommended(_: Home, one: Search, **__: object) -> int:
        home.store.answer_search(one.id, answer_document(found))
        return 0

    monkeypatch.setattr(bisect, "carry_on", bisected)
    monkeypatch.setattr(recommend, "carry_on", recommended)

    def resumed() -> tuple[int, dict[str, dict[str, object]], bool]:
        words = ["resume", "--json"]
        done = CliRunner().invoke(make_app(), words, catch_exceptions=False, standalone_mode=False)
        check_command(words, done.stdout)
        document = json.loads(done.stdout)
        return done.return_value, {one["id"]: one for one in document["searches"]}, document["outcome"]["sound"]

    code, told, sound = resumed()
    assert (code, sound) == (3, False)
    ends = {id_: (one["outcome"], one["error"]) for id_, one in told.items()}
    assert ends == {
        invented_recommendations.ID: ("found", None),
        invented_bisects.ID: ("culprit", None),
        lost: (None, "another machine"),
    }
    assert told[invented_recommendations.ID]["sentence"] == found.sentence
    assert "1.22.0" in str(told[invented_bisects.ID]["sentence"]) and told[lost]["sentence"] is None

    lost = ""
    code, told, sound = resumed()
    assert (code, sound, [one["outcome"] for one in told.values()]) == (0, True, ["culprit"])


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Search:
    """A search that was to write a plan and Markdown, by paths of its folder, and was interrupted by Ctrl-C."""
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    (tmp_path / "asked").mkdir()
    (tmp_path / "home" / FOLDER).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "asked")
    made: Search = invented_recommendations.search(invented_recommendations.order())

    async def broken_off(_: Home, __: object, watcher: recommend.RecommendProgress) -> None:
        watcher.set_out(made)
        raise KeyboardInterrupt

    async def found(_: Home, one: Search, watcher: recommend.RecommendProgress, **__: object) -> object:
        watcher.set_out(one)
        return invented_recommendations.carried_out(invented_recommendations.order())

    monkeypatch.setattr(recommend, "search_for", broken_off)
    monkeypatch.setattr(recommend, "go_on", found)
    return made


ASKED = ["recommend", "net.onnx", "--plan", "plan.toml", "--markdown", "answer.md"]


def test_a_recommendation_says_as_it_begins_and_when_it_is_interrupted_how_it_goes_on(interrupted: Search) -> None:
    done = CliRunner().invoke(make_app(), ASKED, catch_exceptions=False)
    resume = f"`enginebench resume {interrupted.id}`"
    told = done.stderr.splitlines()
    assert f"recommend {interrupted.id}; interrupted, it goes on with {resume}" in told
    assert f"{resume} goes on with it" in told


def test_what_an_interrupted_recommendation_was_to_write_is_written_once_it_has_gone_on(
    tmp_path: Path, interrupted: Search, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    CliRunner().invoke(make_app(), ASKED, catch_exceptions=False)
    monkeypatch.chdir(tmp_path)
    assert recommend.carry_on(Home(tmp_path / "home"), interrupted, as_json=None, trusted=False) == 0
    asked = tmp_path / "asked"
    assert sorted(one.name for one in asked.iterdir()) == ["answer.md", "plan.toml"]
    assert f"wrote {asked / 'answer.md'}" in capsys.readouterr().err
    assert not orders_file(Home(tmp_path / "home"), interrupted.id).exists()


def test_a_name_that_is_no_text_is_remembered_as_it_is(tmp_path: Path, interrupted: Search) -> None:
    home, named = Home(tmp_path / "home"), tmp_path / "odd\udcff.toml"
    keep_asked(home, AskedFiles(plan=named, force=True), interrupted)
    assert asked_of(home, interrupted) == AskedFiles(plan=named, force=True)


def test_so_is_the_issue_of_a_bisect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path / "home")
    (tmp_path / "home" / FOLDER).mkdir(parents=True)
    made = invented_bisects.search()

    def broken_off(_: Home, __: object, watcher: bisect.BisectProgress) -> None:
        watcher.set_out(made)
        raise KeyboardInterrupt

    monkeypatch.setenv("ENGINEBENCH_HOME", str(home.path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bisect, "run_bisect", broken_off)
    monkeypatch.setattr(bisect, "go_on", lambda *_, **__: made)
    words = ["bisect", "--models", "a.onnx,b.onnx", "--engine", "fake", "--markdown", "issue.md"]
    CliRunner().invoke(make_app(), words, catch_exceptions=False)
    monkeypatch.chdir("/")
    bisect.carry_on(home, made, as_json=None, trusted=False)
    assert "1.22.0" in (tmp_path / "issue.md").read_text()
    assert f"wrote {tmp_path / 'issue.md'}" in capsys.readouterr().err

    orders_file(home, made.id).write_text("{")
    with pytest.raises(InputError, match=f"{made.id}.json, which says what files {made.id} was to write, cannot be"):
        bisect.carry_on(home, made, as_json=None, trusted=False)


def test_a_file_that_somebody_has_made_meanwhile_stays_and_the_answer_is_told_all_the_same(
    tmp_path: Path, interrupted: Search, capsys: pytest.CaptureFixture[str]
) -> None:
    CliRunner().invoke(make_app(), ASKED, catch_exceptions=False)
    theirs = tmp_path / "asked" / "plan.toml"
    theirs.write_text("theirs")
    with pytest.raises(InputError, match="has its answer, but what was asked for is not written: there is a file"):
        recommend.carry_on(Home(tmp_path / "home"), interrupted, as_json=False, trusted=False)
    assert (theirs.read_text(), "openvino" in capsys.readouterr().out) == ("theirs", True)
