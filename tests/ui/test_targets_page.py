"""The page of targets over a real store, with real agents to ask, to add and to remove."""

import time
from dataclasses import replace
from functools import partial

import pytest

import invented
import invented_sweeps
import opened_pages
from agent_server import AgentProcess, nobody
from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import cancel, jobs
from enginebench_controller.plan.expand import Case
from enginebench_controller.records import Configuration, EngineRef, ModelVersion, Target
from enginebench_controller.runs.undertaking import Pending, written
from enginebench_ui.pages import TARGETS
from enginebench_ui.shared.text import instant
from opened_pages import button, texts

pytestmark = pytest.mark.slow

opened = partial(opened_pages.opened, TARGETS)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    home = default_home()
    yield home
    for job in jobs(home):
        cancel(job)


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    process = AgentProcess(tmp_path_factory.mktemp("agent"))
    yield process
    process.stop()


def fill(app, name, address):
    next(one for one in app.text_input if one.label == "Name").set_value(name)
    next(one for one in app.text_input if one.label == "Address").set_value(address)


def test_no_target_tells_how_to_find_one(home):
    app = opened()

    assert texts(app.title) == ["Targets and engines"]
    assert "enginebench devices" in app.code[0].value


def test_health_is_asked_for_as_the_page_is_opened(home, agent):
    home.store.add_target(Target("awake", agent.address, 0))
    home.store.add_target(Target("gone", nobody(), 0))

    table = opened().dataframe[0].value

    assert list(table["Health"]) == ["● serving", "○ unreachable"]
    assert table["Why"].isna()[0]
    assert table["Why"][1] == "nothing listens on this port"
    assert table["Answer (ms)"][0] > 0


def test_the_button_asks_again(home, tmp_path):
    agent = AgentProcess(tmp_path / "agent")
    home.store.add_target(Target("nuc", agent.address, 0))
    app = opened()
    assert app.dataframe[0].value["Health"][0] == "● serving"

    agent.stop()
    app.run()
    assert app.dataframe[0].value["Health"][0] == "● serving", "an answer holds for a while"
    button(app, "Check health").click().run()
    assert app.dataframe[0].value["Health"][0] == "○ unreachable"


def test_a_target_shows_its_host_engines_with_reasons_and_devices(home):
    home.store.add_target(Target("nuc", nobody(), 0))
    home.store.save_snapshot(invented.snapshot())

    app = opened()

    assert texts(app.header) == ["local"], "the one that has told what it is"
    _, engines, missing, devices = (one.value for one in app.dataframe)
    assert (list(engines["Engine"]), list(missing["Engine"])) == (["fake"], ["fake-broken"])
    assert missing["Why"][0].startswith("fake-broken is not installed")
    assert app.expander[0].label == "1 engine unavailable, and why" and not app.expander[0].proto.expanded
    assert list(devices["Precisions"]) == ["f32, bf16"]
    assert any("Invented CPU" in text for text in texts(app.markdown))


def test_a_link_leads_to_a_target_that_was_never_seen(home):
    home.store.add_target(Target("nuc", nobody(), 0))
    home.store.save_snapshot(invented.snapshot())

    app = opened(target="nuc")

    assert texts(app.header) == ["nuc"]
    assert app.code[0].value == "enginebench devices --target nuc"


def test_peaks_are_drawn_for_the_cores_chosen(home):
    home.store.save_snapshot(invented.snapshot())
    peaks = invented_sweeps.peaks()
    home.store.add_peaks(replace(peak, target="local", cores=cores) for peak in peaks for cores in (1, 2))

    app = opened(cores="1")

    assert len(app.get("plotly_chart")) == 2
    assert app.segmented_control[0].value == "1"


def test_peaks_of_the_machine_that_had_the_name_before_are_not_drawn(home):
    seen = invented.snapshot()
    home.store.save_snapshot(seen)
    home.store.add_peaks(invented_sweeps.peaks())
    host = replace(seen.host, cpu_model="Another CPU")
    home.store.save_snapshot(replace(seen, host=host, seen_at_unix_ns=invented.CREATED_NS + 5))

    app = opened()

    assert not app.get("plotly_chart")
    assert any("targets calibrate local" in one.value for one in app.code)


def test_a_target_that_was_not_calibrated_says_how(home):
    home.store.save_snapshot(invented.snapshot())

    assert any("targets calibrate local" in one.value for one in opened().code)


@pytest.mark.parametrize(
    ("name", "address", "sentence"),
    [
        ("two words", "nuc:50151", "Not added: 'two words' cannot name a target"),
        ("nuc", "nuc", "Not added: 'nuc' is not an address: write HOST:PORT"),
        ("nuc", "{nobody}", "does not answer (nothing listens on this port)"),
    ],
)
def test_a_target_that_cannot_be_added_is_refused_in_one_sentence(home, name, address, sentence):
    app = opened()
    fill(app, name, address.format(nobody=nobody()))

    button(app, "Add").click().run()

    (error,) = texts(app.error)
    assert sentence in error
    assert home.store.targets() == ()


def test_a_target_that_answers_is_added_shown_and_looked_at(home, agent):
    app = opened()
    fill(app, "nuc", agent.address)

    button(app, "Add").click().run()

    assert not app.error
    assert [target.name for target in home.store.targets()] == ["nuc"]
    assert texts(app.header) == ["nuc"]
    assert [job.arguments for job in jobs(home)] == [("devices", "--target=nuc", "--refresh")]


def test_a_silent_target_is_added_only_where_a_person_says_so(home):
    app = opened()
    fill(app, "nuc", nobody())
    app.checkbox[0].check()

    button(app, "Add").click().run()

    assert [target.name for target in home.store.targets()] == ["nuc"]
    assert jobs(home) == ()


def test_a_name_that_is_taken_is_refused(home, agent):
    home.store.add_target(Target("nuc", agent.address, 0))
    app = opened()
    fill(app, "nuc", agent.address)

    button(app, "Add").click().run()

    assert "there is a target 'nuc' already" in texts(app.error)[0]


def test_a_target_is_removed_after_a_question(home, agent):
    home.store.add_target(Target("nuc", agent.address, 0))
    app = opened()

    assert any("What is stored of it stays." in text for text in texts(app.markdown))
    assert not any("It may still have" in text for text in texts(app.markdown))
    button(app, "Remove it").click().run()

    assert home.store.targets() == ()
    assert "No target is known yet" in texts(app.info)[0]


def test_the_question_says_what_a_target_may_still_have_of_an_interrupted_command(home, agent):
    home.store.add_target(Target("nuc", agent.address, 0))
    configuration = Configuration("CPU", batch=1, cores=1)
    model = ModelVersion("a" * 64, "net", "onnx", (), 1)
    case = Case("nuc", EngineRef("fake", "default", "1.0"), model, configuration, ("fake:0",), outcome_id="m1")
    home.store.add_benchmark(invented.benchmark("b1"), [invented.snapshot("nuc")])
    with written(home.path, Pending("b1", "net", 10**9, (case,))):
        pass

    assert any("It may still have 1 of the results" in text for text in texts(opened().markdown))


def test_this_machine_cannot_be_removed(home):
    home.store.save_snapshot(invented.snapshot())

    assert "Remove it" not in [one.label for one in opened().button]


def test_engines_and_cores_to_calibrate_become_a_job(home):
    home.store.save_snapshot(invented.snapshot())
    app = opened()
    next(one for one in app.text_input if one.label == "Cores").set_value("1, 2")

    button(app, "Calibrate").click().run()

    (job,) = jobs(home)
    assert job.arguments == ("targets", "calibrate", "local", "--engine=all", "--cores=1,2")
    assert any("Calibrate local" in link.label for link in app.get("page_link"))


def test_many_targets_are_chosen_from_a_list(home):
    for number in range(8):
        home.store.save_snapshot(replace(invented.snapshot(f"t{number}"), address=nobody()))
    started = time.monotonic()

    app = opened(target="t5")

    assert time.monotonic() - started < 20
    assert texts(app.header) == ["t5"]
    assert len(app.dataframe[0].value) == 8


@pytest.mark.parametrize("others", [1, 8])
def test_names_of_targets_read_as_they_are_however_many_there_are(home, others):
    for name in ("edge-01.lab", *(f"t{number}" for number in range(others))):
        home.store.save_snapshot(replace(invented.snapshot(name), address=nobody()))

    app = opened(target="edge-01.lab")

    if others == 8:  # a drop-down shows what it is given
        assert "edge-01.lab" in app.selectbox[0].options
    else:  # side by side, labels are Markdown
        assert r"edge\-01\.lab" in app.segmented_control[0].options


def test_a_store_that_cannot_be_read_is_a_banner(home):
    home.store.path.parent.mkdir(parents=True)
    home.store.path.write_text("not a database " * 1000)

    (banner,) = texts(opened().error)
    assert "is not a DuckDB file" in banner


def test_a_crowd_is_a_line_of_trouble_a_map_and_those_that_are_looked_for(home):
    for number in range(40):
        name = f"board-{number:02}"
        home.store.add_target(Target(name, f"10.0.0.{number}:50151", number, {"site": f"lab{number % 2}"}))
        if number:
            home.store.save_snapshot(replace(invented.snapshot(name, time.time_ns()), address=f"10.0.0.{number}:50151"))

    assert texts(opened(target="board-07").header) == ["board-07"], "the one that was meant is shown, and no other"

    app = opened()
    assert "1 not yet seen" in texts(app.warning)[0], "nobody was asked"
    assert len(app.dataframe[0].value) == 40

    next(one for one in app.text_input if one.label == "Find").set_value("site=lab1 07").run()
    assert list(app.dataframe[0].value["Target"]) == ["board-07"]
    next(one for one in app.text_input if one.label == "Find").set_value("site=lab7").run()
    assert texts(app.info) == ["No target is like that."]


def test_whoever_did_not_answer_is_silent_until_somebody_asks_again(home):
    for number in range(40):
        home.store.add_target(Target(f"board-{number:02}", nobody(), number))
    app = opened()
    next(one for one in app.text_input if one.label == "Find").set_value("board-07").run()
    button(app, "Check health of 1 target").click().run(timeout=60)
    assert "1 does not answer" in texts(app.warning)[0]
    hours_ago_ns = time.time_ns() - 5 * 3_600 * 10**9
    answers = app.session_state["health of targets"]
    app.session_state["health of targets"] = {name: (hours_ago_ns, one) for name, (_, one) in answers.items()}
    app.run()
    assert "1 does not answer" in texts(app.warning)[0]
    assert any(instant(hours_ago_ns) in text for text in texts(app.caption))
