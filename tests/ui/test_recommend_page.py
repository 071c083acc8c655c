"""The page of recommendations over a real store and a real search: the form, the answer, and where it leads."""

import time
from dataclasses import replace
from functools import partial
from urllib.parse import parse_qs

import pytest

import invented
import invented_recommendations
import opened_pages
from controller.tiny_models import save, tiny_classifier
from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import cancel, jobs, start_job
from enginebench_controller.jobs.folder import JobFolder
from enginebench_controller.jobs.record import JobEnding, JobState
from enginebench_controller.verdicts.recommend.answer import answer_document
from enginebench_ui.pages import BENCHMARK, HOME, JOB, NEW_BENCHMARK, RECOMMEND
from integration.bench import Bench
from offered import engine, target
from opened_pages import button, texts

pytestmark = pytest.mark.slow

opened = partial(opened_pages.opened, RECOMMEND)
WITHIN_S = 120


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(Bench.of_engines(tmp_path / "home", "fake").home))
    home = default_home()
    yield home
    for one in jobs(home):
        cancel(one)
    until(lambda: all(one.state.has_ended for one in jobs(home)))


@pytest.fixture
def model(home, tmp_path):
    return home.library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))


@pytest.fixture
def answered(home):
    asked = invented_recommendations.order()
    found = invented_recommendations.carried_out(asked)
    search = invented_recommendations.search(asked)
    home.store.add_search(search)
    home.store.answer_search(search.id, answer_document(found))
    return found


def until(condition):
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def links(app):
    return {link.label.replace("\\", ""): link.proto.query_string for link in app.get("page_link")}


def test_without_a_search_the_page_says_how_to_begin(home):
    app = opened()
    assert texts(app.title) == ["Recommend"]
    assert "enginebench recommend" in app.code[0].value
    assert app.button(key="run").disabled


def test_the_answer_comes_first_with_the_command_the_front_and_what_was_tried(answered):
    app = opened()
    sentence, command = texts(app.markdown)[0], app.code[0].value
    assert answered.sentence in sentence.replace("**", "")
    assert command == answered.command
    gains, tried = app.dataframe
    assert set(gains.value["Engine"]) == {"openvino", "torch"}
    assert list(tried.value["Found"][:2]) == ["the best", "the next best"]
    assert len(tried.value) == len(answered.tried)
    assert len(app.get("plotly_chart")) == 1
    assert {one.label for one in app.get("download_button")} == {
        *("Plan", "Share", "Answer (Markdown)", "Everything (JSON)")
    }


def test_use_it_opens_a_form_that_holds_the_configuration(home, answered, model):
    home.store.save_snapshot(target(engine("openvino", hints=("none", "throughput"), multiple_streams=True), cores=2))
    (search,) = home.store.searches()
    of_search = {"id": search.id, "step": 0, "title": "first"}
    odd = {"schema_version": 1, "models": ["net"], "search": of_search}
    home.store.add_benchmark(replace(invented.benchmark("b0000001"), plan=odd))
    home.store.add_benchmark(replace(invented.benchmark("b0000002"), plan=odd | {"digests": {"net": model.digest}}))
    query = parse_qs(links(opened())["Use it"])
    best = answered.best_point.configuration
    app = opened_pages.opened(NEW_BENCHMARK, **query)
    assert app.multiselect(key="model").value == [model.digest[:12]], "the version that was looked at, not a name"
    assert ["openvino"] in [box.value for box in app.multiselect]
    assert app.number_input(key="batch").value == best.batch
    assert app.selectbox(key="cores").value == str(best.cores)
    assert app.multiselect(key="load").value == [best.load.value]


def test_what_is_wrong_where_it_is_folded_up_is_told_beside_the_button(home, model):
    app = opened(model=model.digest[:12], shape="ids")
    (told,) = [text for text in texts(app.caption) if text.startswith("Put right what is wrong above: ")]
    assert "ids" in told
    assert button(app, "Search").disabled


def test_what_is_wrong_is_told_beside_the_field_and_nothing_can_be_started(home, model):
    app = opened(model=model.digest, max_latency="p95<20", budget="soon")
    told = texts(app.error)
    assert any("--max-latency 'p95<20' has no unit: write p95<20ms" in one for one in told)
    assert any(one.startswith("--budget") for one in told)
    assert app.button(key="run").disabled


def test_a_search_that_is_not_there_is_told_and_the_newest_shown(answered):
    app = opened(id="gone")
    assert "There is no search gone here" in texts(app.warning)[0]
    assert answered.sentence in texts(app.markdown)[0].replace("**", "")


def has_numbers(home, step):
    """Whether all that was measured of a step came to something."""
    measured = home.store.measurements(step.id)
    return bool(measured) and all(one.status.has_numbers for one in measured)


def test_a_search_is_a_job_that_says_what_it_learns_and_cancelled_shows_the_best_so_far(home, model):
    home.store.save_snapshot(target(engine("fake", hidden=True, devices=("FAKE:0", "FAKE:1"))))
    query = {"engine": "fake", "among": "batch=1,8; cores=1; load=sync", "budget": "60s", "max_latency": "p95<50ms"}
    app = opened(model=model.digest, **query)
    assert not app.error
    app.button(key="run").click().run()
    (job,) = jobs(home)
    assert (job.kind, job.arguments[-1]) == ("recommend", "tiny")

    def now():
        return jobs(home)[0]

    until(lambda: now().progress.doing.startswith("looking at") or now().state.has_ended)
    assert now().state is JobState.RUNNING, now()
    assert any("points on fake" in note for note in now().progress.notes)
    assert 0 < now().seconds_left <= 60
    (search,) = home.store.searches()
    assert now().searches == (search.id,)
    assert "This search is under way" in texts(opened().info)[0]
    assert links(opened_pages.opened(JOB, id=job.id))["The search"] == f"id={search.id}"

    until(lambda: any(has_numbers(home, one) for one in home.store.steps_of(search.id)))
    cancel(now())
    until(lambda: now().state.has_ended)
    assert now().state is JobState.CANCELLED
    assert links(opened_pages.opened(JOB, id=job.id))["The best so far"] == f"id={search.id}"
    app = opened()
    assert "This search was interrupted before its answer" in texts(app.warning)[0]
    assert "unconfirmed, as the search was broken off: fake, FAKE:0, batch" in texts(app.markdown)[0]
    step = home.store.steps_of(search.id)[0]
    assert links(opened_pages.opened(BENCHMARK, id=step.id))[f"Step 1 of the recommendation {search.name}"]

    button(app, "Go on with it").click().run()
    assert next(one.arguments for one in jobs(home)) == ("resume", search.id)
    until(lambda: home.store.search(search.id).answer is not None)
    until(lambda: now().state.has_ended)
    assert now().state is JobState.DONE
    sentence = home.store.search(search.id).answer["sentence"]
    assert sentence in texts(opened().markdown)[0]
    assert any(sentence in one for one in texts(opened_pages.opened(HOME).markdown))


def test_a_search_whose_answer_is_that_nothing_holds_the_limit_has_not_failed(home):
    one = start_job(home, "x", ["models", "list"])
    until(lambda: jobs(home)[0].state.has_ended)
    for code, state in ((4, JobState.DONE), (5, JobState.DONE), (1, JobState.FAILED), (2, JobState.FAILED)):
        JobFolder(one.folder).write_ending(JobEnding(code, time.time_ns()))
        assert jobs(home)[0].state is state
