"""Ordering a benchmark and a profile on the pages: what is offered, what it comes to, and a job that carries it out."""

import re
import time
import tomllib
from dataclasses import replace
from html import unescape
from urllib.parse import parse_qs

import numpy as np
import pytest
from PIL import Image

import invented
from controller.tiny_models import save, tiny_classifier
from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import cancel, jobs
from enginebench_controller.jobs.record import JobState
from enginebench_controller.plan.plan import make_plan
from enginebench_ui.pages import JOB, JOBS, NEW_BENCHMARK, NEW_PROFILE
from enginebench_ui.shared.order_fields import address_of
from integration.bench import Bench
from offered import engine, missing, target
from opened_pages import opened, texts

pytestmark = pytest.mark.slow

QUICK = {"sure": "own", "processes": "1", "duration": "100ms", "warmup": "50ms", "interval": "0%", "longest": "5s"}
WITHIN_S = 90


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
def asked(home):
    """This machine was asked for its engines; the fake one is real."""
    fake = engine("fake", hidden=True, devices=("FAKE:0", "FAKE:1"))
    seen = target(fake, engine("x"), engine("y", options=["imposed_sparsity"]), missing("lost", "no wheel"))
    home.store.save_snapshot(seen)
    return home


def until(condition):
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def grid(app):
    return app.dataframe[0].value.to_dict("records")


def test_without_a_model_the_form_says_what_to_do(home):
    app = opened(NEW_BENCHMARK)

    assert texts(app.title) == ["New benchmark"]
    assert any("Choose a model version" in text for text in texts(app.info))
    assert any("zoo:resnet50" in option for option in app.multiselect[0].options)


def test_a_machine_that_was_never_asked_is_asked_first(home, model):
    app = opened(NEW_BENCHMARK, model=model.digest)

    assert any("Nobody has asked this machine yet" in text for text in texts(app.warning))
    assert not [one for one in app.button if one.key == "run"]
    next(one for one in app.button if one.label == "Ask which engines there are").click().run()
    (job,) = jobs(home)
    assert job.arguments == ("devices", "--refresh", "--target", "local")


def test_several_batches_and_cores_make_a_grid_with_what_is_measured_already_marked(asked, model):
    asked.store.add_benchmark(invented.benchmark())
    fields = {"model_digest": model.digest, "configuration": invented.Configuration("CPU", 4, 1)}
    asked.store.add_measurement(invented.measured("m1", engine="x", **fields))

    query = {"model": model.digest[:12], "engine": "x", "batches_on": "true", "batches": ["1", "4"], "cores_on": "true"}
    app = opened(NEW_BENCHMARK, **query)

    assert [one.value for one in app.metric] == ["4", "54 s to 2 min"]
    assert grid(app) == [
        {"Batch": 1, "1 core": "new", "2 cores": "new"},
        {"Batch": 4, "1 core": "↻ again (4.01 ms)", "2 cores": "new"},
    ]
    assert any(text.startswith("3 new, 1 measured before") for text in texts(app.caption))
    assert any("lost is not available on local: no wheel" in text for text in texts(app.caption))


def test_the_impossible_is_told_in_the_planners_words_and_cannot_be_started(asked, model):
    app = opened(NEW_BENCHMARK, model=model.digest, engine="x,y", cores="7")

    (refusal,) = texts(app.error)
    assert "x on local CPU: 7 cores are asked for, and the target has 2" in refusal
    assert "y on local CPU: 7 cores are asked for, and the target has 2" in refusal
    assert app.button(key="run").disabled


def test_a_value_that_is_none_is_told(asked, model):
    app = opened(NEW_BENCHMARK, model=model.digest, sure="own", duration="soon")
    assert "'soon' is not a duration" in texts(app.error)[0]
    app = opened(NEW_BENCHMARK, model=model.digest, shape="nonsense")
    assert "nonsense" in texts(app.error)[0]


@pytest.mark.parametrize("page", [NEW_BENCHMARK, NEW_PROFILE])
def test_a_model_that_is_gone_is_told_until_another_is_chosen(asked, model, page):
    app = opened(page, model="feedfeedfeed")
    app.toggle(key="batches_on").set_value(True).run()
    assert "There is no model version feedfeedfeed in the library; it is left out." in texts(app.warning)
    assert any("Choose a model version" in text for text in texts(app.info))
    assert texts(opened(page, model="tiny").warning) == []


def test_a_benchmark_to_compare_with_that_is_gone_is_told(asked, model):
    app = opened(NEW_BENCHMARK, model=model.digest, **{"with": "feedfeed"})
    assert texts(app.warning) == ["There is no benchmark feedfeed in this store to compare with."]
    app.run()
    assert texts(app.warning) == ["There is no benchmark feedfeed in this store to compare with."]
    asked.store.add_benchmark(invented.benchmark("b0000001", "before"))
    for name in ("b0000001", "b00000"):
        assert texts(opened(NEW_BENCHMARK, **{"with": name}).warning) == []


def test_a_name_outlives_a_mistake_elsewhere_in_the_form(asked, model):
    app = opened(NEW_BENCHMARK, model=model.digest)
    app.text_input(key="name").set_value("Mine").run()
    app.text_input(key="shape").set_value("nonsense").run()
    assert texts(app.error)
    app.text_input(key="shape").set_value("").run()
    assert app.text_input(key="name").value == "Mine"


@pytest.mark.parametrize("page", [NEW_BENCHMARK, NEW_PROFILE])
def test_a_name_stands_in_the_address_so_that_a_reload_keeps_it(asked, model, page):
    assert opened(page, model=model.digest, name="Mine").text_input(key="name").value == "Mine"
    assert opened(page, name="Mine").text_input(key="name").value == "Mine"


def test_a_benchmark_is_started_as_a_job_and_its_page_shows_the_results(asked, model):
    query = {
        "model": "tiny",
        "engine": "fake",
        "device": "FAKE:0",
        "batches_on": "true",
        "batches": ["1", "3"],
        **QUICK,
    }
    asked.store.add_benchmark(invented.benchmark("b0000001", "before"))
    app = opened(NEW_BENCHMARK, **query, **{"with": "b0000001"})
    app.text_input(key="name").set_value("from the page").run()
    app.button(key="run").click().run()

    (job,) = jobs(asked)
    assert (job.title, job.kind, job.compare_with) == ("from the page", "run", "b0000001")
    assert job.plan["models"] == [model.digest]
    assert texts(app.title) == ["from the page"]
    until(lambda: jobs(asked)[0].state.has_ended)
    (done,) = jobs(asked)
    assert done.state is JobState.DONE, done

    page = opened(JOB, id=done.id)
    links = {link.label.replace("\\", ""): link.proto.query_string for link in page.get("page_link")}
    (benchmark,) = done.benchmarks
    assert links["**Show the results**"] == f"id={benchmark}"
    assert links["Beside benchmark b0000001"] == f"id={benchmark}&with=b0000001"
    assert list(page.dataframe[0].value["Batch"]) == [1, 3]
    assert asked.store.benchmark(benchmark).name == "from the page"
    assert "from the page" in opened(JOBS).get("page_link")[0].label


def test_the_configurations_of_another_benchmark_can_be_taken_over(asked, model):
    plan = {"schema_version": 1, "models": ["m"], "batch": [2, 8], "cores": [1], "load": ["async"], "streams": [1]}
    benchmark = invented.benchmark("b0000001", "before")
    asked.store.add_benchmark(type(benchmark)(benchmark.id, benchmark.name, benchmark.created_at_unix_ns, plan))

    app = opened(NEW_BENCHMARK, model=model.digest, engine="x", **{"with": "b0000001"})
    app = with_the_same_configurations(app)

    assert [row["Batch"] for row in grid(app)] == [2, 8]
    assert list(grid(app)[0]) == ["Batch", "1 core"]
    assert app.multiselect(key="load").value == ["async"]


@pytest.mark.parametrize(("cores", "columns"), [(["all"], 1), (["2"], 1), (["1", "all"], 2)])
def test_cores_said_by_a_word_are_taken_over_and_opened_from_an_address(asked, model, cores, columns):
    plan = {"schema_version": 1, "models": [model.digest], "engines": ["x"], "cores": cores}
    benchmark = invented.benchmark("b0000001", "before")
    asked.store.add_benchmark(type(benchmark)(benchmark.id, benchmark.name, benchmark.created_at_unix_ns, plan))
    taken_over = opened(NEW_BENCHMARK, model=model.digest, engine="x", **{"with": "b0000001"})
    taken_over = with_the_same_configurations(taken_over)
    opened_so = opened(NEW_BENCHMARK, **{**dict(address_of(plan)), **several_cores(plan)})
    for app in (taken_over, opened_so):
        assert not app.exception
        said = app.selectbox(key="cores").value if columns == 1 else app.multiselect(key="several_cores").value
        assert (said if columns == 1 else [*map(str, said)]) == (cores[0] if columns == 1 else cores)
        assert len(grid(app)[0]) == 1 + columns


def test_an_open_loop_on_inputs_of_ones_own_is_the_same_in_a_form_that_begins_with_it(asked, model, tmp_path):
    (folder := tmp_path / "photos").mkdir()
    np.save(folder / "a.npy", np.zeros((1, 3, 4, 4), np.float32))
    driven = {"load": ["open-loop"], "requests": [4], "rate": [50, 62.5], "arrivals": "constant"}
    image = {"resize": "crop", "layout": "nchw", "scale": 0.5, "mean": [0.1, 0.2, 0.3], "std": [2.0]}
    fed = {"input_folder": str(folder), "inputs": 3, "seed": 7, "image": image}
    plan = make_plan({"models": [model.digest], "engines": ["x"], "name": "tiny on x", **driven, **fed}, "t").document()
    app = opened(NEW_BENCHMARK, **dict(address_of(plan)))
    assert texts(app.error) == []
    assert make_plan(tomllib.loads(app.code[0].value), "t").document() == plan


@pytest.fixture
def photos(tmp_path):
    (folder := tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    return folder


def test_how_images_become_tensors_is_typed_as_people_write_it(asked, model, photos):
    typed = {"image_scale": "1/255", "image_mean": "0.485 0.456 0.406", "image_std": "58.395/255, 0.224 0.225"}
    app = opened(NEW_BENCHMARK, model=model.digest, engine="x", folder=str(photos), **typed)
    assert texts(app.error) == []
    image = tomllib.loads(app.code[0].value)["image"]
    assert image["scale"] == 1 / 255
    assert (image["mean"], image["std"]) == ([0.485, 0.456, 0.406], [58.395 / 255, 0.224, 0.225])
    for label, usual in (("scale", "1/255"), ("mean", "0"), ("deviation", "1")):
        (field,) = (one for one in app.text_input if one.label == f"Image {label}")
        assert field.placeholder == usual
        assert texts(field.set_value(usual).run().error) == []


@pytest.mark.parametrize(
    ("folder", "std", "told"),
    [
        ("photos", "0", "the standard deviation of an image's channel cannot be 0"),
        ("photos", "0.1,0.2", "2 numbers are given as std of 3 channels: give one each"),
        ("lost", "1", "cannot read the folder of inputs"),
        ("", "1", "holds no inputs"),
    ],
)
def test_inputs_that_a_run_would_refuse_cannot_be_started(asked, model, tmp_path, photos, folder, std, told):
    app = opened(NEW_BENCHMARK, model=model.digest, engine="x", folder=str(tmp_path / folder), image_std=std)
    assert told in texts(app.error)[0]
    assert app.button(key="run").disabled


def test_a_folder_is_named_in_full_as_a_job_runs_elsewhere(asked, model, photos, monkeypatch):
    monkeypatch.chdir(photos.parent)
    app = opened(NEW_BENCHMARK, model=model.digest, engine="x", folder="photos")
    assert tomllib.loads(app.code[0].value)["input_folder"] == str(photos)


def test_the_rate_of_an_open_loop_is_taken_over(asked, model):
    plan = make_plan({"models": ["m"], "load": ["open-loop"], "rate": [50, 62.5]}, "t").document()
    asked.store.add_benchmark(replace(invented.benchmark("b0000001"), plan=plan))
    app = opened(NEW_BENCHMARK, model=model.digest, engine="x", **{"with": "b0000001"})
    app = with_the_same_configurations(app)
    assert texts(app.error) == []
    assert app.text_input(key="rate").value == "50.0, 62.5"


def with_the_same_configurations(app):
    """The form that the link of this name leads to."""
    (link,) = (one.proto.body for one in app.get("html") if ">Same configurations as that one</a>" in one.proto.body)
    return opened(NEW_BENCHMARK, **parse_qs(re.search('href="[?](.*?)"', unescape(link))[1]))


def test_what_is_taken_over_replaces_all_that_the_form_had_of_it_and_nothing_else(asked, model):
    plan = make_plan({"models": ["m"], "batch": [2]}, "t").document()
    asked.store.add_benchmark(replace(invented.benchmark("b0000001"), plan=plan))
    had = {"batches_on": "true", "batches": ["1", "4"], "cores": "1", "load": ["async"], "requests": "3"}
    kept = {"model": model.digest[:12], "engine": "x", "with": "b0000001", "name": "<Mine> & yours", "seed": "5"}
    app = with_the_same_configurations(opened(NEW_BENCHMARK, **had, **kept))
    assert app.query_params == kept | {"batch": "2"}
    ordered = tomllib.loads(app.code[-1].value)
    assert (ordered["batch"], ordered["load"], ordered.get("requests", [])) == ([2], ["sync"], [])
    assert (ordered["name"], ordered["seed"]) == ("<Mine> & yours", 5)


def several_cores(plan):
    """The parts of the address that are there several times."""
    found = [value for name, value in address_of(plan) if name == "several_cores"]
    return {"several_cores": found} if found else {}


def test_what_is_taken_over_outlives_a_reload(asked, model):
    driven = {"load": ["async", "open-loop"], "requests": [4, 8], "rate": [50]}
    plan = make_plan({"models": ["m"], "batch": [2, 8, 32], "cores": [1, 2], **driven}, "t").document()
    asked.store.add_benchmark(replace(invented.benchmark("b0000001"), plan=plan))
    app = opened(NEW_BENCHMARK, model=model.digest, engine="x", **{"with": "b0000001"})
    app = with_the_same_configurations(app)
    reloaded = opened(NEW_BENCHMARK, **app.query_params)
    assert texts(reloaded.error) == []
    assert grid(reloaded) == grid(app)
    assert reloaded.code[-1].value == app.code[-1].value


def test_a_profile_is_ordered_with_zeros_where_an_engine_can_impose_them(asked, model):
    app = opened(NEW_PROFILE, model="tiny", engine="y", sparsity=["0.5", "0.9"])

    assert "2 passes: 1 configuration × 2 shares of zeros" in texts(app.caption)
    assert list(app.dataframe[0].value["Zeros imposed (%)"]) == [50, 90]
    app = opened(NEW_PROFILE, model="tiny", engine="x", sparsity=["0.5"])
    assert app.multiselect(key="sparsity").disabled
    assert "1 pass" in texts(app.caption)


def test_a_profile_is_started_as_a_job(asked, model):
    app = opened(NEW_PROFILE, model="tiny", engine="fake", device="FAKE:1", batch="2")
    app.button(key="run").click().run()

    (job,) = jobs(asked)
    assert (job.kind, job.title) == ("profile", "tiny on fake")
    assert job.arguments[-2:] == ("--", model.digest)
    until(lambda: jobs(asked)[0].state.has_ended)
    (done,) = jobs(asked)
    profile = asked.store.profile(done.profiles[0])
    assert (done.state, profile.name, profile.configuration.batch) == (JobState.DONE, "tiny on fake", 2)
