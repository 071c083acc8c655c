"""`enginebench recommend` from the command line, on an engine whose latency is known whatever the batch."""

import json
import re
import shlex
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from agent_server import AgentProcess
from enginebench_controller.home import Home
from enginebench_controller.plan.plan import read_plan
from enginebench_controller.runs.searches import recommend_ground
from enginebench_controller.runs.searches.recommending import so_far
from enginebench_controller.store.store import Store
from integration.bench import QUICK, Bench, started, wait_until
from integration.test_resume import kill_when

FAKE = ("--engine", "fake", "--option", "fake.latency_us=4000", "--option", "fake.wait=sleep", "--fix", "cores=1")
"""An inference takes as long for eight items as for one, so that the largest batch does most."""
SMALL = (*FAKE, "--among", "batch=1,8", "--fix", "load=sync", "--budget", "60s")
ONE = (*FAKE, "--fix", "batch=8", "--fix", "load=sync", "--budget", "60s")
"""Nothing to choose among: half as many processes, where the choice is not what is looked at."""
BOTH = ("--target", "nuc,board", "--budget", "90s")


@pytest.fixture(autouse=True)
def timed_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time less in each process: what is told apart here lies far apart, and it is the search that is looked at."""
    monkeypatch.setattr(recommend_ground, "LOOK_S", 0.1)
    monkeypatch.setattr(recommend_ground, "CONFIRM_S", 0.2)
    monkeypatch.setattr(recommend_ground, "RateTerms", partial(recommend_ground.RateTerms, least_s=0.5))


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
    assert found["sentence"].startswith("fake, FAKE:0, batch 8, 1 core: ")
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
    again = here.json(*words[1:], *QUICK)
    assert again["measurements"][0]["configuration"]["batch"] == 8

    for number, step in enumerate(found["steps"]):
        kept = Home(here.home).store.benchmark(step)
        assert (kept.plan["search"]["id"], kept.plan["search"]["step"]) == (found["search"]["id"], number)
        assert here.json("show", step)["measurements"], "its steps are benchmarks like all others"
    assert here.json("show", found["search"]["id"]) == found


def test_killed_half_way_it_goes_on_without_measuring_again_what_was_measured(
    here: Bench, model: Path, tmp_path: Path
) -> None:
    store, plan = Home(here.home).store, tmp_path / "plan.toml"
    kill_when(lambda: _first_step_is_there(store), here, "recommend", model, *ONE, "--plan", plan)
    (search,) = store.searches()
    before = {one.id for step in store.steps_of(search.id) for one in store.measurements(step.id)}
    assert before
    assert here.cli("show", search.id).stdout.startswith("unconfirmed, as the search was broken off: ")

    found = json.loads(here.cli("resume", search.id, "--json").stdout)
    assert (found["outcome"], found["search"]["id"]) == ("found", search.id)
    assert read_plan(plan).batch == (8,), "what the command was to write is written"
    after = [one.id for step in found["steps"] for one in store.measurements(step)]
    assert before <= set(after)
    assert len(after) == len(set(after))
    assert [store.benchmark(step).plan["search"]["step"] for step in found["steps"]] == list(range(len(found["steps"])))
    assert "has its answer" in here.cli("resume", search.id, expect=2).stderr


def test_cancelled_it_tells_the_best_so_far_and_can_be_gone_on_with(here: Bench, model: Path) -> None:
    store = Home(here.home).store
    with started(here, "recommend", model, *ONE) as command:
        wait_until(lambda: _first_step_is_there(store) or command.poll() is not None)
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=60)
    assert command.returncode == 130, said
    assert "unconfirmed, as the search was broken off: fake, FAKE:0, batch " in said
    (search,) = store.searches()
    assert search.answer is None
    assert said.count(f"`enginebench resume {search.id}`") == 2, "as it began, and in the end"


def _first_step_is_there(store: Store) -> bool:
    return store.path.exists() and bool(store.searches()) and len(store.steps_of(store.searches()[0].id)) > 1


def test_a_limit_that_nothing_holds_names_the_nearest_and_ends_with_4(here: Bench, model: Path) -> None:
    said = here.cli("recommend", model, *ONE, "--max-latency", "p95<2ms", expect=4)
    assert said.stdout.startswith("nothing meets p95 < 2 ms; the nearest is fake, FAKE:0, batch ")


def test_one_whose_outputs_are_wrong_is_no_answer(here: Bench, model: Path) -> None:
    wrong = here.json("recommend", model, *SMALL, "--option", "fake.wrong=ignored_input", expect=1)
    assert (wrong["outcome"], wrong["best"]) == ("nothing", None)
    assert wrong["sentence"].startswith("nothing could be measured: its outputs are wrong")


def test_the_most_requests_a_second_are_sought_in_an_open_loop(here: Bench, model: Path) -> None:
    asked = ("--maximize", "rate", "--max-latency", "latency<40ms", "--fix", "requests=1", "--budget", "150s")
    found = json.loads(here.cli("recommend", model, *FAKE, *asked, "--json", expect=None, timeout=300).stdout)
    assert found["outcome"] in ("found", "cannot_tell"), "a busy machine may hold no rate five times"
    rate = found["rate"]["rate_per_s"]
    assert 20 < rate < 250, "one request takes 4 ms"
    assert f"{rate:g} requests/s, p50 " in found["sentence"]
    assert "--load open-loop --requests 1 --rate" in found["command"]
    home = Home(here.home)
    (search,) = home.store.searches()
    again = so_far(home, replace(search, answer=None))
    assert again.rate is not None
    assert (again.rate.rate_per_s, again.best) == (rate, found["best"]), "what is stored tells the same"
    ran = [one for step in found["steps"] for one in home.store.measurements(step)]
    at_rates = [one for one in ran if str(one.configuration.load) == "open-loop"]
    assert {len(one.processes) for one in at_rates} == {2, 5}
    assert rate in {one.configuration.arrivals.rate_per_s for one in at_rates}


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Bench]:
    """A home that knows two targets with the fake engine only."""
    bench = Bench(tmp_path / "home")
    agents = {name: AgentProcess(tmp_path / name) for name in ("nuc", "board")}
    for name, agent in agents.items():
        bench.cli("targets", "add", name, agent.address)
    yield bench
    for agent in agents.values():
        agent.stop()


def test_of_two_targets_each_has_its_answer_and_one_is_for_all(two: Bench, model: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    asked = (*BOTH, "--max-latency", "p95<50ms", "--plan", plan)
    found = two.json("recommend", model, *SMALL, *asked, timeout=200)
    assert [(one["target"], one["outcome"]) for one in found["targets"]] == [("nuc", "found"), ("board", "found")]
    assert found["for_all"]["outcome"] == "found", found["sentence"]
    assert found["for_all"]["point"]["configuration"]["batch"] == 8
    assert list(found["for_all"]["ratios"]) == ["nuc", "board"]
    assert read_plan(plan).targets == ("nuc", "board")
    store = Home(two.home).store
    (search,) = store.searches()
    assert two.json("show", search.id) == found
    assert {tuple(store.benchmark(one).plan["targets"]) for one in found["targets"][1]["steps"]} == {("board",)}
    said = two.cli("show", search.id).stdout
    assert said.startswith("for all of nuc, board: fake, FAKE:0, batch 8, 1 core")
    assert "\nboard: fake, FAKE:0, batch 8, 1 core" in said


def test_killed_on_two_targets_it_goes_on_on_both(two: Bench, model: Path) -> None:
    store = Home(two.home).store

    def both_have_begun() -> bool:
        if not (store.path.exists() and store.searches()):
            return False
        steps = store.steps_of(store.searches()[0].id)
        return {step.plan["targets"][0] for step in steps if step.plan["search"]["step"] > 0} == {"nuc", "board"}

    kill_when(both_have_begun, two, "recommend", model, *ONE, *BOTH)
    (search,) = store.searches()
    before = {one.id for step in store.steps_of(search.id) for one in store.measurements(step.id)}
    assert "nuc: unconfirmed" in two.cli("show", search.id).stdout
    found = json.loads(two.cli("resume", search.id, "--json", timeout=200).stdout)
    assert {one["outcome"] for one in found["targets"]} == {"found"}
    after = [one.id for of in found["targets"] for step in of["steps"] for one in store.measurements(step)]
    assert before <= set(after)
    assert len(after) == len(set(after))


def test_a_limit_that_nothing_holds_on_any_target_ends_with_4(two: Bench, model: Path) -> None:
    asked = (*BOTH, "--max-latency", "p95<2ms")
    said = two.cli("recommend", model, *ONE, *asked, expect=4, timeout=200)
    assert said.stdout.startswith("no configuration holds p95 < 2 ms on all of nuc, board")
    assert "\nboard: nothing meets p95 < 2 ms" in said.stdout


def test_a_version_whose_outputs_are_too_far_off_is_refused_with_the_figure(model: Path, tmp_path: Path) -> None:
    bench = Bench.of_engines(tmp_path / "home", "onnxruntime")
    bench.cli("models", "quantize", model, "--samples", "4")
    small = ("--fix", "batch=1", "--fix", "cores=1", "--fix", "load=sync", "--budget", "60s", "--versions")
    asked = ("recommend", model, *small, "--engine", "onnxruntime")

    found = bench.json(*asked, "--max-output-difference", "0.0001%")
    fates = {one["output_difference"] is None: one for one in found["tried"]}
    assert fates[False]["fate"] == "refused"
    assert re.match(
        r"its outputs are [\d.]+ % off those of the model as given; 0.0001 % is allowed", fates[False]["why"]
    )
    assert found["tried"][found["best"]]["output_difference"] is None

    told = bench.json(*asked)
    (label,) = [one["output_difference"] for one in told["tried"] if one["output_difference"] is not None]
    assert 1e-6 < label < 0.2
    assert {one["fate"] for one in told["tried"]} == {"best", "runner_up"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--max-latency", "p95<20"), "has no unit: write p95<20ms"),
        (("--max-memory", "500"), "has no unit: write 500MB"),
        (("--max-output-difference", "1"), "has no unit: write 1%"),
        (("--maximize", "rate"), "needs a limit that tells when a rate is too high"),
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


def test_a_limit_below_what_the_work_of_the_model_allows_is_refused_with_the_figure(tmp_path: Path) -> None:
    bench = Bench.of_engines(tmp_path / "home", "onnxruntime")
    done = bench.cli("recommend", "zoo:squeezenet", "--engine", "onnxruntime", "--max-latency", "p95<1ns", expect=2)
    assert re.search(r"cannot be held: the work of zoo:squeezenet takes at least \S+ ms on this processor", done.stderr)
    assert not Home(bench.home).store.searches()


def test_a_rate_needs_a_budget_for_closed_loops_and_open_ones(here: Bench, model: Path) -> None:
    asked = ("--maximize", "rate", "--max-latency", "p99<50ms", "--budget", "60s")
    assert re.search(r"give \d+m or more", here.cli("recommend", model, *FAKE, *asked, expect=2).stderr)


def _without_cores(arguments: tuple[str, ...]) -> tuple[str, ...]:
    rest = () if "--leave-cores" in arguments else ("--fix", "cores=1", "--fix", "load=sync")
    return (*rest, *arguments)
