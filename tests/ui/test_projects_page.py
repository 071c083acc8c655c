"""The page of projects over a real store and a real library: empty, filled, compared, and versions made from it."""

import re
import time
from dataclasses import replace
from functools import partial

import pytest

import invented
import opened_pages
from controller.tiny_models import save, tiny_classifier
from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import jobs
from enginebench_ui.pages import PROJECTS
from enginebench_ui.shared.project_key import project_key
from opened_pages import button, texts

pytestmark = pytest.mark.slow

HOSTILE = "**b** <img src=x> [x](javascript:1) $x$ "
FAKE = project_key("ab" * 32, "fake", "default", "local")
OTHER = project_key("ab" * 32, "other", "default", "local")


opened = partial(opened_pages.opened, PROJECTS)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    return default_home()


@pytest.fixture
def measured(home):
    """Two engines that worked and one that did not, on one model version."""
    store = home.store
    store.save_model(invented.model())
    store.add_benchmark(invented.benchmark())
    store.add_measurement(invented.measured("m1"))
    store.add_measurement(invented.measured("m2", engine="other", latency_ms=2.0))
    store.add_measurement(invented.failed("m3"))
    return home


@pytest.fixture
def tiny(home, tmp_path):
    """A model in the library that was never measured."""
    return home.library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))


def until_jobs_end(home):
    deadline = time.monotonic() + 60
    while not all(job.state.has_ended for job in jobs(home)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return jobs(home)


def test_nothing_at_all_tells_how_to_begin(home):
    app = opened()

    assert "There is no model and no measurement yet" in texts(app.info)[0]
    assert "enginebench models add" in app.code[0].value
    assert not app.dataframe


def test_projects_are_listed_with_the_best_of_each(measured):
    app = opened()

    table = app.dataframe[0].value
    assert list(table["Engine"]) == ["other 1.0", "fake 1.0", "fake-broken"]
    assert table["Best (items/s)"][0] > table["Best (items/s)"][1] > 0
    assert table["Best (items/s)"].isna()[2]
    assert list(table["Status"]) == ["ok", "ok", "failed"]
    assert "3 projects" in texts(app.caption)


def test_the_best_of_a_project_computes_what_its_model_does(measured):
    wrong = (invented.outputs(shift=0.5),)
    measured.store.add_measurement(invented.measured("m4", batch=4, latency_ms=3.0, captured_outputs=wrong))
    for place, engine in enumerate(("other", "third")):
        again = invented.measured(f"m{5 + place}", engine=engine, batch=4, latency_ms=9.0)
        measured.store.add_measurement(again)
    bad = invented.measured("m9", engine="bad", latency_ms=0.5, captured_outputs=wrong)
    measured.store.add_measurement(bad)

    table = opened().dataframe[0].value.set_index("Engine")
    assert table["Reached with"]["fake 1.0"] == "CPU · batch 1 · 2 cores"
    assert table["Status"]["bad"] == "≠ or impossible"
    assert table["Best (items/s)"].isna()["bad"]


def test_a_search_leaves_what_contains_its_words(measured):
    app = opened(q="OTHER")
    assert list(app.dataframe[0].value["Engine"]) == ["other 1.0"]
    assert "1 of 3 projects" in texts(app.caption)

    app.text_input(key="q").set_value("nothing like it").run()
    assert "No project contains all of these words." in texts(app.info)


def test_a_link_that_names_two_projects_ticks_them_and_compare_takes_them_along(measured):
    app = opened(a=FAKE, b=OTHER)

    sides = [text for text in texts(app.markdown) if "-badge[" in text]
    assert ["fake 1.0" in sides[0], "other 1.0" in sides[1]] == [True, True]
    button(app, "Compare").click().run()
    assert dict(app.query_params) == {"a": FAKE, "b": OTHER}
    assert "Projects" not in texts(app.title)


def test_what_an_address_names_and_nobody_knows_does_no_harm(measured):
    app = opened(a="none~x@y~z", model="ffff", b="~~~")

    assert len(app.dataframe) == 2
    assert not app.error


def test_projects_of_an_address_that_are_gone_leave_room_for_two_others(measured):
    app = opened(a="none~x@y~z", b="gone~x@y~z")
    assert not {"a", "b"} & set(app.query_params)

    app = opened(a="none~x@y~z", b=FAKE)
    assert not button(app, "Compare").disabled
    assert dict(app.query_params) == {"a": FAKE}


def test_a_project_that_a_search_hides_stays_chosen(measured):
    app = opened(a=FAKE, q="other")
    assert dict(app.query_params)["a"] == FAKE
    app = opened(a=FAKE, b=OTHER, q="other")
    (card,) = [text for text in texts(app.markdown) if "-badge[**" in text]
    assert "[**B**]" in card, "that the search hides A makes nobody else A"


def test_versions_stand_below_those_they_were_made_from(measured, tiny):
    measured.library.add(measured.library.main_path(tiny), name="given")
    measured.store.save_model(
        replace(invented.model("cd" * 32, "child"), parent_digest="ab" * 32, derivation=invented.BATCH_4)
    )

    versions = app_versions(opened())

    assert versions == ["given", "invented", "└─ child"]


def app_versions(app):
    return list(app.dataframe[-1].value["Version"])


def test_a_library_without_measurements_leads_to_the_first_one(tiny):
    app = opened()

    assert "Nothing has been measured yet" in texts(app.info)[0]
    assert app_versions(app) == ["tiny"]


def test_a_version_whose_files_are_not_here_says_so_and_has_no_form(measured):
    app = opened(model="abab")

    assert any("Its files are not in this library" in text for text in texts(app.info))
    assert "Prune" not in [one.label for one in app.button]


@pytest.mark.parametrize(("label", "child"), [("Prune", "tiny-sparse90"), ("Quantize", "tiny-int8")])
def test_a_form_makes_a_child_in_a_job_of_its_own(home, tiny, label, child):
    app = opened(model=tiny.digest[:12])

    button(app, label).click().run()
    (job,) = until_jobs_end(home)
    app.run()

    assert job.exit_code == 0
    assert job.kind == f"models {label.lower()}"
    assert app_versions(app) == ["tiny", f"└─ {child}"]
    assert any(f"{label} tiny" in link.label and "done" in link.label for link in app.get("page_link"))


def test_files_to_calibrate_on_are_looked_for_before_a_job_begins(home, tiny):
    app = opened(model=tiny.digest[:12])
    app.segmented_control[0].set_value("Files in a folder").run()

    button(app, "Quantize").click().run()
    assert texts(app.error) == ["Name the folder that the calibration inputs lie in."]

    next(one for one in app.text_input if one.label == "Folder").set_value("/nowhere")
    button(app, "Quantize").click().run()
    assert texts(app.error) == ["There is no folder /nowhere on the machine that serves these pages."]
    assert jobs(home) == ()


def test_a_job_that_fails_says_why(home, tiny):
    app = opened(model=tiny.digest[:12])
    next(one for one in app.text_input if one.label == "Shapes of open inputs").set_value("nonsense")

    button(app, "Quantize").click().run()
    until_jobs_end(home)
    app.run()

    (line,) = [link.label for link in app.get("page_link") if "Quantize tiny" in link.label]
    assert "failed" in line
    assert "nonsense" in line


def test_names_from_elsewhere_are_only_text(home, tiny):
    home.store.add_benchmark(invented.benchmark())
    home.store.add_measurement(invented.measured("m1", model_name=HOSTILE * 20, target=HOSTILE))

    app = opened(a=project_key("ab" * 32, "fake", "default", HOSTILE))

    shown = " ".join(one.value for one in app.markdown if "-badge[" in one.value)
    assert r"\<img" in shown
    assert not re.search(r"(?<!\\)(<img|\]\()", shown)
    assert len(shown) < 400, "long names are cut"


def test_a_store_that_cannot_be_read_is_a_banner(home):
    home.store.path.parent.mkdir(parents=True)
    home.store.path.write_text("not a database " * 1000)

    (banner,) = texts(opened().error)
    assert "is not a DuckDB file" in banner
