"""`enginebench recommend` from the command line, on an engine whose latency is known whatever the batch."""

import json
import re
import shlex
import signal
from pathlib import Path

import pytest

from enginebench_controller.home import Home
from enginebench_controller.plan.plan import read_plan
from enginebench_controller.store.store import Store
from integration.bench import Bench
from integration.test_resume import kill_when, started, wait_until

FAKE = ("--engine", "fake", "--option", "fake.latency_us=4000", "--option", "fake.wait=sleep", "--fix", "cores=1")
"""An inference takes as long for eight items as for one, so that the largest batch does most."""
SMALL = (*FAKE, "--among", "batch=1,8", "--fix", "load=sync", "--budget", "60s")


@pytest.fixture
def here(tmp_path: Path) -> Bench:
    """A home whose own agent has the fake engine only."""
    return Bench.of_engines(tmp_path / "home", "fake")


def test_what_wins_is_told_first_with_the_command_that_repeats_it(here: Bench, model: Path, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("plan.toml", "answer.md", "answer.html", "front.svg")}
    written = ("--plan", files["plan.toml"], "--markdown", files["answer.md"], "--chart", files["front.svg"])
    written += ("--html", files["answer.html"])
    found = here.json("recommend", model, *SMALL, "--max-latency", "p95<50ms", *written)

    assert found["outcome"] == "found"
    assert found["sentence"].startswith("fake, batch 8, 1 core: ")
    assert "(limit 50 ms, held with 95 % confidence)" in found["sentence"]
    best = found["tried"][found["best"]]
    assert best["configuration"]["batch"] == 8
    assert best["throughput_items_per_s"] > 1000
    rival = found["tried"][found["runner_up"]]
    assert rival["ratio"][1] > 2, "it does four times as much as the next best"

    assert read_plan(files["plan.toml"]).batch == (8,)
    assert files["answer.md"].read_text().startswith("## enginebench recommend:")
    assert found["sentence"].split(":")[0] in files["answer.html"].read_text()
    assert "p95 &lt; 50 ms" in files["front.svg"].read_text()
    words = shlex.split(found["command"])
    assert words[:2] == ["enginebench", "run"]
    again = here.json(*words[1:], "--duration", "200ms", "--processes", "1", "--interval", "0%", "--keep-noisy")
    assert again["measurements"][0]["configuration"]["batch"] == 8

    for number, step in enumerate(found["steps"]):
        kept = Home(here.home).store.benchmark(step)
        assert (kept.plan["search"]["id"], kept.plan["search"]["step"]) == (found["search"]["id"], number)
        assert here.json("show", step)["measurements"], "its steps are benchmarks like all others"
    assert here.json("show", found["search"]["id"]) == found


def test_killed_half_way_it_goes_on_without_measuring_again_what_was_measured(here: Bench, model: Path) -> None:
    store = Home(here.home).store
    kill_when(lambda: _first_step_is_there(store), here, "recommend", model, *SMALL)
    (search,) = store.searches()
    before = {one.id for step in store.steps_of(search.id) for one in store.measurements(step.id)}
    assert before
    assert here.cli("show", search.id).stdout.startswith("unconfirmed, as the search was broken off: ")

    found = json.loads(here.cli("resume", search.id, "--json").stdout)
    assert (found["outcome"], found["search"]["id"]) == ("found", search.id)
    after = [one.id for step in found["steps"] for one in store.measurements(step)]
    assert before <= set(after)
    assert len(after) == len(set(after))
    assert [store.benchmark(step).plan["search"]["step"] for step in found["steps"]] == list(range(len(found["steps"])))
    assert "has its answer" in here.cli("resume", search.id, expect=2).stderr


def test_cancelled_it_tells_the_best_so_far_and_can_be_gone_on_with(here: Bench, model: Path) -> None:
    store = Home(here.home).store
    with started(here, "recommend", model, *SMALL) as command:
        wait_until(lambda: _first_step_is_there(store) or command.poll() is not None)
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=60)
    assert command.returncode == 130, said
    assert "unconfirmed, as the search was broken off: fake, batch " in said
    assert store.searches()[0].answer is None


def _first_step_is_there(store: Store) -> bool:
    return store.path.exists() and bool(store.searches()) and len(store.steps_of(store.searches()[0].id)) > 1


def test_a_limit_that_nothing_holds_names_the_nearest_and_ends_with_4(here: Bench, model: Path) -> None:
    said = here.cli("recommend", model, *SMALL, "--max-latency", "p95<2ms", expect=4)
    assert said.stdout.startswith("nothing meets p95 < 2 ms; the nearest is fake, batch ")


def test_one_whose_outputs_are_wrong_is_no_answer(here: Bench, model: Path) -> None:
    wrong = here.json("recommend", model, *SMALL, "--option", "fake.wrong=ignored_input", expect=4)
    assert (wrong["outcome"], wrong["best"]) == ("nothing", None)
    assert wrong["sentence"].startswith("nothing could be measured: its outputs are wrong")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--max-latency", "p95<20"), "has no unit: write p95<20ms"),
        (("--budget", "3s"), r"is too short to tell anything of 3 points: .* give \d+s or more"),
        (("--maximize", "throughput", "--minimize", "latency"), "give --maximize or --minimize, not both"),
        (("--fix", "precision=bf16"), "there is nothing to choose from"),
        (("--leave-cores", "9999"), "leaves none to measure on"),
    ],
)
def test_bad_input_gets_a_sentence_before_anything_is_stored(here: Bench, model: Path, arguments, said) -> None:
    done = here.cli("recommend", model, *FAKE[:4], "--among", "batch=1,2,8", *_without_cores(arguments), expect=2)
    assert re.search(said, done.stderr), done.stderr
    assert not Home(here.home).store.searches()


def _without_cores(arguments: tuple[str, ...]) -> tuple[str, ...]:
    rest = () if "--leave-cores" in arguments else ("--fix", "cores=1", "--fix", "load=sync")
    return (*rest, *arguments)
