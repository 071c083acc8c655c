"""A search is one thing in lists, and is removed with all that it has left."""

import asyncio
import errno
import json
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

import invented
import invented_bisects
import invented_recommendations
from enginebench_agent.config import EnvironmentConfig, write_environment
from enginebench_controller.cli import make_app, searches
from enginebench_controller.cli.commands import bisect, recommend
from enginebench_controller.cli.searches import AskedFiles, asked_of, conclude, insist, keep_asked
from enginebench_controller.errors import ChangedTargetError, EnginebenchError, InputError
from enginebench_controller.home import Home
from enginebench_controller.plan.bisect import BisectKind
from enginebench_controller.records import Search
from enginebench_controller.runs.searches import bisecting, holding, recommending
from enginebench_controller.runs.searches.holding import FOLDER, answered, held, orders_file
from enginebench_controller.verdicts.bisect.decision import BisectFinding
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
        asked = invented_recommendations.order()
        return invented_recommendations.search(asked, invented_recommendations.carried_out(asked))

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
    done = CliRunner().invoke(make_app(), words, catch_exceptions=False)
    left = "; the environments that were made for it stay until then"
    assert f"`enginebench resume {made.id}` goes on with it{left}" in done.stderr.splitlines()
    monkeypatch.chdir("/")
    bisect.carry_on(home, made, as_json=None, trusted=False)
    assert "1.22.0" in (tmp_path / "issue.md").read_text()
    assert f"wrote {tmp_path / 'issue.md'}" in capsys.readouterr().err

    orders_file(home, made.id).write_text("{")
    with pytest.raises(InputError, match=f"{made.id}.json, which says what files {made.id} was to write, cannot be"):
        bisect.carry_on(home, made, as_json=None, trusted=False)


def test_a_bisect_of_what_is_there_leaves_no_environments_when_it_is_interrupted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    order = invented_bisects.search().order | {"kind": BisectKind.OPTIONS.value}
    with pytest.raises(KeyboardInterrupt), bisect.BisectProgress() as watcher:
        watcher.set_out(replace(invented_bisects.search(), order=order))
        raise KeyboardInterrupt
    told = capsys.readouterr().err.splitlines()
    assert told == [f"`enginebench resume {invented_bisects.ID}` goes on with it"]


def test_the_list_says_what_each_search_has_come_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    store = Home(tmp_path).store
    store.add_benchmark(invented.benchmark("b0000009"))
    assert "came to" not in CliRunner().invoke(make_app(), ["list"], catch_exceptions=False).stdout
    made = {id_: replace(invented_bisects.search(None), id=id_) for id_ in ("5ea4c0000001", "5ea4c0000002")}
    for one in made.values():
        store.add_search(one)
    answer = invented_bisects.ANSWER.model_copy(update={"finding": BisectFinding.ONE_OF})
    store.answer_search("5ea4c0000001", answer.model_dump(mode="json"))

    def came_to() -> dict[str, str]:
        printed = CliRunner().invoke(make_app(), ["list"], catch_exceptions=False).stdout
        cells = [[cell.strip() for cell in line.split("│")] for line in printed.splitlines() if "│" in line]
        return {row[1]: row[-2] for row in cells}

    found = {"b0000009": "", "5ea4c0000001": "one of several"}
    assert came_to() == {**found, "5ea4c0000002": "no answer yet"}
    (tmp_path / FOLDER).mkdir(exist_ok=True)
    (tmp_path / FOLDER / "5ea4c0000002.lock").touch()
    assert came_to() == {**found, "5ea4c0000002": "interrupted"}
    with monkeypatch.context() as patched:
        patched.setattr(holding, "is_held", _read_only)
        assert came_to() == {**found, "5ea4c0000002": "no answer yet"}


def _read_only(*_: object) -> bool:
    raise OSError(errno.EROFS, "Read-only file system")


@pytest.mark.parametrize("engine", ["onnxruntime==1.20.1", "plugin:mine"])
def test_an_engine_that_would_be_installed_is_refused_before_an_index_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(bisect, "releases_between", lambda *_: pytest.fail("the index was asked"))
    words = ["bisect", "net.onnx", "--engine", engine, "--good", "1.20.0", "--bad", "1.23.0"]
    with pytest.raises(InputError, match=f"--engine {engine} would have to be installed"):
        CliRunner().invoke(make_app(), words, catch_exceptions=False, standalone_mode=False)


def test_a_file_that_somebody_has_made_meanwhile_stays_and_the_answer_is_told_all_the_same(
    tmp_path: Path, interrupted: Search, capsys: pytest.CaptureFixture[str]
) -> None:
    CliRunner().invoke(make_app(), ASKED, catch_exceptions=False)
    theirs = tmp_path / "asked" / "plan.toml"
    theirs.write_text("theirs")
    with pytest.raises(InputError, match="has its answer, but what was asked for is not written: there is a file"):
        recommend.carry_on(Home(tmp_path / "home"), interrupted, as_json=False, trusted=False)
    assert (theirs.read_text(), "openvino" in capsys.readouterr().out) == ("theirs", True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home in which searches were carried out."""
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / FOLDER).mkdir(parents=True)
    return Home(tmp_path / "home")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the files are to be."""
    (tmp_path / "asked").mkdir()
    return tmp_path / "asked"


@pytest.fixture
def answered_search(home: Home, folder: Path) -> Search:
    """A search whose command was killed once the answer was stored: the three files of it are still to be written."""
    order = invented_recommendations.order()
    made: Search = invented_recommendations.search(order, invented_recommendations.carried_out(order))
    home.store.add_search(replace(made, answer=None, ended_at_unix_ns=None))
    home.store.answer_search(made.id, made.answer or {})
    asked = AskedFiles(folder / "plan.toml", folder / "answer.md", folder / "a.html")
    keep_asked(home, asked, made)
    return home.store.search(made.id)


def called(*words: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it says on both streams."""
    try:
        done: Result = CliRunner().invoke(make_app(), list(words), catch_exceptions=False, standalone_mode=False)
    except EnginebenchError as error:
        return int(error.exit_code), "", str(error)
    return int(done.return_value or 0), done.stdout, done.stderr


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


@pytest.mark.parametrize("named", [True, False])
def test_what_a_killed_command_was_to_write_of_its_answer_is_written_by_resume_and_asked_for_no_longer(
    home: Home, folder: Path, answered_search: Search, named: bool
) -> None:
    assert f"not all is written of search {answered_search.id}" in called("resume", "--dry-run")[2]
    code, out, said = called("resume", *([answered_search.id] if named else []))
    assert (code, names(folder), "openvino" in out) == (0, ["a.html", "answer.md", "plan.toml"], True)
    assert f"wrote {folder / 'answer.md'}" in said
    assert list((home.path / FOLDER).iterdir()) == [], "nothing is left to do, and nobody is asked to"
    with pytest.raises(InputError, match="has its answer"):
        CliRunner().invoke(make_app(), ["resume", answered_search.id], catch_exceptions=False, standalone_mode=False)


def test_ctrl_c_while_files_are_written_leaves_those_that_are_not_there_to_resume(
    home: Home,
    folder: Path,
    answered_search: Search,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted_in_the_page(*_: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(recommend, "recommendation_html", interrupted_in_the_page)
        conclude(home, answered_search, as_json=False)
    assert f"`enginebench resume {answered_search.id}` writes what was asked for" in capsys.readouterr().err
    assert names(folder) == ["answer.md", "plan.toml"]
    assert asked_of(home, answered_search) == AskedFiles(html=folder / "a.html")
    assert called("resume")[0] == 0
    assert names(folder) == ["a.html", "answer.md", "plan.toml"]


def test_a_file_that_cannot_be_written_keeps_no_other_back_and_stays_asked_for(
    home: Home, folder: Path, answered_search: Search
) -> None:
    (folder / "plan.toml").write_text("theirs")
    (folder / "answer.md").mkdir()
    code, _, said = called("resume", answered_search.id)
    path = orders_file(home, answered_search.id)
    assert (code, names(folder)) == (2, ["a.html", "answer.md", "plan.toml"])
    for told in (f"there is a file {folder / 'plan.toml'}", f"{folder / 'answer.md'} is a folder"):
        assert told in said
    assert f"`enginebench resume {answered_search.id}` tries it again, with --force" in said
    assert f"remove {path} to do without" in said
    assert asked_of(home, answered_search) == AskedFiles(folder / "plan.toml", folder / "answer.md")

    code, document, said = called("resume", "--json")
    (told,) = json.loads(document)["searches"]
    assert (code, told["outcome"], json.loads(document)["outcome"]["sound"]) == (2, "found", False)
    assert f"remove {path} to do without" in told["error"] and told["error"] in said

    (folder / "answer.md").rmdir()
    assert called("resume", answered_search.id, "--force")[0] == 0
    assert (folder / "plan.toml").read_text() != "theirs" and not path.exists()


def test_files_that_can_never_be_written_are_done_without_once_the_order_is_removed(
    home: Home, folder: Path, answered_search: Search
) -> None:
    for name in ("plan.toml", "answer.md", "a.html"):
        (folder / name).mkdir()
    assert called("resume")[0] == 2
    orders_file(home, answered_search.id).unlink()
    assert called("resume")[0] == 0
    assert home.store.search(answered_search.id).answer is not None


def test_force_is_about_one_search(home: Home) -> None:
    assert called("resume", "--force") == (2, "", "--force is for the files of one search: name it")


def test_files_that_another_command_writes_are_left_to_it(
    home: Home, folder: Path, answered_search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(home, answered_search.id):
        assert called("resume")[0] == 0
        assert "under way in another command" in called("resume", answered_search.id)[2]
        monkeypatch.setattr(searches, "_PATIENCE_S", 0.1)
        with pytest.raises(InputError, match=r"not written: the search .* is under way in another command"):
            conclude(home, answered_search, as_json=None)
        monkeypatch.setattr(
            searches.time, "sleep", lambda _: orders_file(home, answered_search.id).unlink(missing_ok=True)
        )
        assert conclude(home, answered_search, as_json=None) == 0, "as it is not yet let go of, but all is written"
    assert names(folder) == []


def _held_until_waited_for(home: Home, search: Search, monkeypatch: pytest.MonkeyPatch, left: AskedFiles) -> None:
    """Another has the search until somebody waits for that, and leaves so much to be written."""
    other = ExitStack()
    other.enter_context(held(home, search.id))
    other.callback(keep_asked, home, left, search)
    monkeypatch.setattr(searches.time, "sleep", lambda _: other.close())


@pytest.mark.parametrize("is_left", [True, False], ids=["a page that only looks", "a command that writes them"])
def test_files_are_written_once_another_has_let_go_of_the_search_as_far_as_they_are_asked_for_then(
    home: Home, folder: Path, answered_search: Search, monkeypatch: pytest.MonkeyPatch, is_left: bool
) -> None:
    left = AskedFiles(markdown=folder / "answer.md") if is_left else AskedFiles()
    _held_until_waited_for(home, answered_search, monkeypatch, left)
    assert conclude(home, answered_search, as_json=None) == 0
    assert names(folder) == (["answer.md"] if is_left else [])


def test_force_waits_for_who_writes_the_files_and_asks_for_none_that_is_there_then(
    home: Home, answered_search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    _held_until_waited_for(home, answered_search, monkeypatch, AskedFiles())
    insist(home, answered_search)
    assert not orders_file(home, answered_search.id).exists()


def test_force_asks_for_nothing_of_a_search_that_was_removed_meanwhile(home: Home, answered_search: Search) -> None:
    home.store.remove_search(answered_search.id)
    with pytest.raises(InputError, match="was removed meanwhile"):
        insist(home, answered_search)
    assert not asked_of(home, answered_search).force


def test_force_lets_resume_know_of_an_interrupted_search_all_the_same(home: Home, folder: Path) -> None:
    search = invented_bisects.search(None)
    home.store.add_search(search)
    keep_asked(home, AskedFiles(markdown=folder / "issue.md"), search)
    insist(home, search)
    assert asked_of(home, search) == AskedFiles(markdown=folder / "issue.md", force=True)
    assert [one.id for one in holding.interrupted(home)] == [search.id]


def test_of_searches_to_resume_one_that_was_removed_meanwhile_keeps_no_other_back(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"5ea4c000000{number}" for number in range(1, 4)]
    for number, id_ in enumerate(ids):
        home.store.add_search(replace(invented_bisects.search(None), id=id_, created_at_unix_ns=number))
    (home.path / FOLDER / "any.lock").touch()
    gone_on = bisecting.go_on

    def go_on(home: Home, search: Search, watcher: bisect.BisectProgress, *, trusted: bool) -> Search:
        if search.id == ids[0]:
            home.store.remove_search(ids[1])
        if search.id == ids[1]:
            return gone_on(home, search, watcher, trusted=trusted)
        return answered(home, search, invented_bisects.ANSWER.model_dump(mode="json"))

    monkeypatch.setattr(bisect, "go_on", go_on)
    code, out, _ = called("resume", "--json")
    told = {one["id"]: (one["outcome"], one["error"] or "") for one in json.loads(out)["searches"]}
    assert (code, list(told)) == (2, ids)
    assert [told[ids[0]], told[ids[2]]] == [("culprit", "")] * 2
    assert told[ids[1]][0] is None and f"the search {ids[1]} (" in told[ids[1]][1] and "was removed" in told[ids[1]][1]


def _go_on_with_a_recommendation(home: Home, search: Search) -> Search:
    watcher = recommend.RecommendProgress(invented_recommendations.order())
    return asyncio.run(recommending.go_on(home, search, watcher, trusted=False))


def _go_on_with_a_bisect(home: Home, search: Search) -> Search:
    return bisecting.go_on(home, search, bisect.BisectProgress(), trusted=False)


@pytest.mark.parametrize(
    ("search", "answer", "go_on"),
    [
        (
            invented_recommendations.search(invented_recommendations.order()),
            answer_document(invented_recommendations.carried_out(invented_recommendations.order())),
            _go_on_with_a_recommendation,
        ),
        (invented_bisects.search(None), invented_bisects.ANSWER.model_dump(mode="json"), _go_on_with_a_bisect),
    ],
    ids=["recommend", "bisect"],
)
def test_a_search_is_looked_at_anew_before_it_goes_on(
    home: Home, search: Search, answer: dict[str, object], go_on: Callable[[Home, Search], Search]
) -> None:
    with pytest.raises(InputError, match="was removed meanwhile"):
        go_on(home, search)
    with pytest.raises(InputError, match="was removed meanwhile"):
        answered(home, search, answer)
    home.store.add_search(search)
    assert answered(home, search, answer) == go_on(home, search) == home.store.search(search.id)
    assert home.store.steps_of(search.id) == ()


def test_a_removed_search_that_cannot_be_removed_whole_keeps_what_it_was_to_write(
    home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = invented_bisects.search(None)
    home.store.add_search(search)
    keep_asked(home, AskedFiles(markdown=folder / "issue.md"), search)

    async def stays(*_: object) -> None:
        raise EnginebenchError("the environment cannot be removed")

    with monkeypatch.context() as patch:
        patch.setattr(bisecting, "clear_away", stays)
        assert called("remove", search.id, "--yes") == (2, "", "the environment cannot be removed")
    assert asked_of(home, search).markdown == folder / "issue.md"
    assert called("remove", search.id, "--yes")[0] == 0
    assert (home.store.searches(), list((home.path / FOLDER).iterdir())) == ((), [])


def _full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


async def _set_out(one: bisecting._Bisect, **_: object) -> Search:
    await one._set_out(())
    raise AssertionError("nothing keeps it from beginning")


async def _refused(one: bisecting._Bisect, **_: object) -> Search:
    await one._set_out(())
    raise InputError("the engine has no such option")


async def _broken(one: bisecting._Bisect, **_: object) -> Search:
    await one._set_out(())
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("carry_out", "why"), [(_refused, "the engine has no such option"), (_broken, "No space left on device")]
)
def test_of_a_bisect_that_was_refused_before_its_first_gate_nothing_is_left(
    home: Home,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    carry_out: Callable[..., Coroutine[None, None, Search]],
    why: str,
) -> None:
    monkeypatch.setattr(bisecting, "_binder", lambda *_: SimpleNamespace(digests={}))
    monkeypatch.setattr(bisecting._Bisect, "carry_out", carry_out)
    watcher = bisect.BisectProgress(partial(keep_asked, home, AskedFiles(markdown=folder / "issue.md")))
    with pytest.raises((EnginebenchError, OSError), match=why):
        bisecting.bisect(home, invented_bisects.ORDER, watcher)
    assert (home.store.searches(), list((home.path / FOLDER).iterdir())) == ((), [])


@pytest.mark.parametrize("command", ["bisect", "recommend"])
def test_where_a_full_disk_keeps_no_word_of_what_is_to_be_written_no_search_is_kept(
    home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(searches, "write_whole", _full)
    begun = partial(keep_asked, home, AskedFiles(markdown=folder / "answer.md"))
    with pytest.raises(InputError, match=r"cannot keep .*\.json, .*No space left on device"):
        if command == "bisect":
            monkeypatch.setattr(bisecting, "_binder", lambda *_: SimpleNamespace(digests={}))
            monkeypatch.setattr(bisecting._Bisect, "carry_out", _set_out)
            bisecting.bisect(home, invented_bisects.ORDER, bisect.BisectProgress(begun))
        else:
            order = invented_recommendations.order()
            search = invented_recommendations.search(order)
            asyncio.run(recommending._set_out(home, search, recommend.RecommendProgress(order, begun)))
    assert home.store.searches() == ()


def test_several_are_removed_at_once_and_none_where_a_name_means_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    store = Home(tmp_path).store
    for number in range(3):
        store.add_benchmark(invented.benchmark(f"b000000{number}", f"duel {number}"))

    def removed(*words: str, answers: str | None = None) -> int:
        return CliRunner().invoke(make_app(), ["remove", *words], input=answers).exit_code

    def left() -> set[str]:
        return {one.benchmark.id for one in store.benchmarks()}

    assert removed("b0000000", "nothing", "--yes") != 0 and len(left()) == 3
    assert removed("b0000000", "duel 1", "duel 1", answers="n\ny\n") == 0
    assert left() == {"b0000000", "b0000002"}
    assert removed("b0000000", "b0000002", "--yes") == 0 and left() == set()


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 1)])
def test_a_step_that_is_named_beside_its_search_goes_or_stays_with_it(tmp_path, monkeypatch, answer, left) -> None:
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    store, search = Home(tmp_path).store, invented_bisects.search(None)
    store.add_search(search)
    plan = {"search": {"id": search.id, "step": 1}}
    store.add_benchmark(replace(invented.benchmark("b0000001", "a step"), plan=plan))
    for names in (["b0000001", search.id], [search.id, "b0000001"])[: 2 if left else 1]:
        found = CliRunner().invoke(make_app(), ["remove", *names], input=answer)
        assert found.exit_code == 0, found.output
        assert len(store.searches()) == len(store.steps_of(search.id)) == left
