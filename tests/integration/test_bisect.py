"""`enginebench bisect` from the command line: over an option of an engine whose latency is known, and over wheels."""

import json
import signal
from pathlib import Path

import numpy as np
import onnx
import pytest
from benchmarks.planted_wheels import layered_model, make_wheels
from onnx import TensorProto, helper, numpy_helper

from enginebench_controller.home import Home
from enginebench_controller.plan.bisect import prefix
from enginebench_controller.records import SearchKind
from enginebench_controller.runs.searches.holding import new_search
from integration.bench import Bench, started, tiny_model, wait_until
from integration.test_resume import kill_when, spooled
from silent_index import silent_index, wait_for_the_end_of

SLEEPING = ("--option", "fake.wait=sleep", "--worse", "20%", "--budget", "30s")
"""Ten times as slow is what is planted: two or three process pairs tell it, however busy the machine is."""
FOUR = "fake.latency_us=3000,3001,30002,30003"
THREE = "fake.latency_us=3000,3001,30002"


@pytest.fixture
def here(tmp_path: Path) -> Bench:
    """A home whose own agent has the fake engine only."""
    return Bench.of_engines(tmp_path / "home", "fake")


def test_the_value_that_made_it_slower_is_named_with_the_way_there_and_shown_again(
    here: Bench, model: Path, tmp_path: Path
) -> None:
    issue = tmp_path / "issue.md"
    found = here.json("bisect", model, "--options", FOUR, *SLEEPING, "--markdown", issue, timeout=280)

    assert (found["finding"], found["culprit"], found["before"]) == ("culprit", "30002", "3001")
    assert found["sentence"].startswith("fake.latency_us=30002 is ")
    assert [one["purpose"] for one in found["gates"]] == ["ends", "step", "step", "neighbours"]
    # Two pairs say how wide they are: on a busy machine they reach far down, and still tell worse from as good.
    assert 1 < found["step"]["low"] < found["step"]["ratio"] < found["step"]["high"]
    assert found["step"]["ratio"] > 2
    assert found["share"] > 0.6
    assert found["machine"]["enginebench"]
    text = issue.read_text()
    assert text.startswith("## fake.latency&#95;us=30002 is slower than 3001\n\n**fake.latency&#95;us=30002 is ")
    assert "\n    enginebench bisect " in text
    assert "\n- processor: " in text

    identity = found["search"]["id"]
    assert here.json("show", identity) == found
    told = here.cli("show", identity).stdout
    assert told.startswith(found["sentence"])
    assert "3000 good · 3001 as good · 30002 culprit · 30003 bad" in told
    listed = here.json("list")
    assert [one["id"] for one in listed["searches"]] == [identity]
    assert {one["search"] for one in listed["benchmarks"]} == {identity}
    assert here.cli("list").stdout.count("bisect of fake.latency_us") == 1, "the steps are folded"
    gate = here.json("show", found["gates"][-1]["benchmark"])
    assert gate["gate"]["outcome"] == "worse", "each step is a benchmark like others"
    here.cli("remove", identity, "--yes")
    assert here.json("list")["benchmarks"] == []


def test_exchanged_and_alike_ones_are_told_by_the_first_gate(here: Bench, model: Path) -> None:
    found = here.json("bisect", model, "--options", "fake.latency_us=30000,3001,3000", *SLEEPING, expect=5)
    assert (found["finding"], len(found["gates"])) == ("exchanged", 1)
    assert found["sentence"].startswith("good and bad are exchanged: fake.latency_us=3000 is better than")
    found = here.json("bisect", model, "--options", "fake.latency_us=3000,3001,3002", *SLEEPING, expect=5)
    assert (found["finding"], len(found["gates"]), found["culprit"]) == ("not_apart", 1, None)


def test_models_are_bisected_in_their_order_and_one_that_cannot_be_run_is_passed_over(tmp_path: Path) -> None:
    here = Bench.of_engines(tmp_path / "home", "onnxruntime")
    # By name they stand in another order.
    models = [
        chain(tmp_path / "light.onnx", 8, seed=0),
        tiny_model(tmp_path / "odd.onnx"),
        chain(tmp_path / "heavy.onnx", 80, seed=1),
    ]
    listed = ",".join(map(str, models))
    arguments = ("--models", listed, "--engine", "onnxruntime", "--worse", "50%", "--budget", "30s", "--cores", "1")
    found = here.json("bisect", *arguments, timeout=280)
    assert found["finding"] == "one_of"
    assert (found["suspects"], found["before"]) == (["odd.onnx", "heavy.onnx"], "light.onnx")
    assert "the two models take other inputs" in found["skipped"]["odd.onnx"]


def chain(path: Path, products: int, *, seed: int) -> Path:
    """So many products of matrices in a row."""
    random = np.random.default_rng(seed)
    weights = [
        numpy_helper.from_array(random.standard_normal((256, 256), dtype=np.float32) / 16, f"w{layer}")
        for layer in range(products)
    ]
    names = ["x", *(f"t{layer}" for layer in range(products - 1)), "y"]
    nodes = [
        helper.make_node("MatMul", [names[layer], f"w{layer}"], [names[layer + 1]], f"product_{layer}")
        for layer in range(products)
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 256]) for name in "xy")
    graph = helper.make_graph(nodes, "chain", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def test_killed_half_way_it_goes_on_without_measuring_again_what_was_measured(here: Bench, model: Path) -> None:
    store = Home(here.home).store

    def second_gate_has_begun() -> bool:
        return spooled(here.home / "agent", "-1-0.blocks") and len(store.benchmarks()) == 2

    kill_when(second_gate_has_begun, here, "bisect", model, "--options", THREE, *SLEEPING)
    first, second = reversed([one.benchmark.id for one in store.benchmarks()])
    (search,) = store.searches()
    assert (search.kind, search.answer) == (SearchKind.BISECT, None)
    assert "no answer yet" in here.cli("show", search.id).stderr
    (waiting,) = here.json("resume", "--dry-run")["searches"]
    assert waiting["id"] == search.id

    assert [one["id"] for one in here.json("resume", timeout=280)["searches"]] == [search.id]
    found = here.json("show", search.id)
    assert found["culprit"] == "30002"
    assert [one["benchmark"] for one in found["gates"]][:2] == [first, second]
    assert len(store.benchmarks()) == len(found["gates"]), "no gate was carried out twice"
    assert here.json("resume")["searches"] == []
    assert f"has its answer: `enginebench show {search.id}`" in here.cli("resume", search.id, expect=2).stderr


def test_ctrl_c_leaves_a_search_that_can_be_gone_on_with(here: Bench, model: Path) -> None:
    with started(here, "bisect", model, "--options", THREE, *SLEEPING) as running:
        wait_until(lambda: any((here.home / "pending").glob("*.json")) and bool(Home(here.home).store.benchmarks()))
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=30) == 130
    (search,) = Home(here.home).store.searches()
    assert search.answer is None


def test_a_bisect_that_is_killed_while_it_installs_leaves_neither_pip_nor_what_that_has_begun(
    here: Bench, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheels(tmp_path / "wheels", {}, count=3)
    arguments = ("--engine", "planted", "--good", "1.0", "--bad", "1.2", "--wheels", tmp_path / "wheels")
    with silent_index() as index:
        for name, value in index.variables.items():
            monkeypatch.setenv(name, value)
        with started(here, "bisect", model, *arguments) as running, index.asked() as pip:
            running.kill()
            wait_for_the_end_of(pip)
    environments = here.home / "agent" / "environments"
    wait_until(lambda: not list(environments.iterdir()), seconds=30)


def test_what_a_kill_has_left_half_made_is_removed_with_the_search(here: Bench) -> None:
    search = new_search(SearchKind.BISECT, "bisect of planted", {})
    Home(here.home).store.add_search(search)
    environments = here.home / "agent" / "environments"
    (environments / f"{prefix(search.id)}0" / "venv").mkdir(parents=True)
    (environments / "mine" / "venv").mkdir(parents=True)
    here.cli("remove", search.id, "--yes")
    assert [one.name for one in environments.iterdir()] == ["mine"]


def test_versions_are_bisected_over_wheels_in_environments_that_are_gone_afterwards(
    here: Bench, tmp_path: Path
) -> None:
    make_wheels(tmp_path / "wheels", {2: 1.5}, count=3, broken=(1,), layer=3)
    model = layered_model(tmp_path / "layered.onnx")
    arguments = ("--engine", "planted", "--good", "1.0", "--bad", "1.2", "--wheels", tmp_path / "wheels")
    done = here.cli("bisect", model, *arguments, "--worse", "20%", "--budget", "30s", "--json", timeout=280)

    told = [line.partition(" (")[0] for line in done.stderr.splitlines()]
    verdict = next(line for line in reversed(told) if line.startswith("gate ") and " is worse than " in line)
    assert told.index(verdict) < told.index("removing the environments that were made for it"), "which takes a while"
    found = json.loads(done.stdout)
    assert (found["finding"], found["suspects"], found["before"]) == ("one_of", ["1.1", "1.2"], "1.0")
    assert "requires a different Python" in found["skipped"]["1.1"]
    assert found["sentence"].startswith("one of 1.1, 1.2 has made it slower: planted 1.2 is ")
    assert found["layers"][0]["name"] == "layer_3"
    assert not list((here.home / "agent" / "environments").glob("*")), "what was made for it is gone"
    (listed,) = json.loads(here.cli("list", "--json").stdout)["searches"]
    assert listed["name"] == "bisect of planted 1.0 to 1.2 with layered.onnx"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--engine", "fake", "--good", "1.0", "--bad", "2.0"), "fake is built into enginebench and has no versions"),
        (("--engine", "planted", "--good", "1.0", "--bad", "1.0", "--wheels", "W"), "--good and --bad are both 1.0"),
        (("--engine", "planted", "--good", "1.2", "--bad", "1.0", "--wheels", "W"), "--good 1.2 is newer than --bad"),
        (
            ("--engine", "planted", "--good", "1.0", "--bad", "1.9", "--wheels", "W"),
            "--bad 1.9 is no version of planted in WHEELS; the nearest is 1.2",
        ),
        (
            ("--engine", "planted", "--good", "1.0.5", "--bad", "1.2", "--wheels", "W"),
            "--good 1.0.5 is no version of planted in WHEELS; the nearest are 1.0 and 1.1",
        ),
        (
            ("--engine", "other", "--good", "1.0", "--bad", "1.1", "--wheels", "W"),
            "WHEELS has no wheel of other",
        ),
        (("--engine", "planted", "--good", "one", "--bad", "1.2", "--wheels", "W"), "--good 'one' is no version"),
        (("--engine", "planted", "--good", "1.0", "--wheels", "W"), "--bad is missing"),
        (
            ("--engine", "planted", "--good", "1.0", "--bad", "1.2", "--wheels", "W", "--target", "127.0.0.1:1"),
            "not on target '127.0.0.1:1': run enginebench there",
        ),
        (
            ("--engine", "planted", "--good", "1.0", "--bad", "1.2", "--wheels", "W", "--precision", "f32,bf16"),
            "a gate is of one configuration: give --precision one value",
        ),
        (("--options", "fake.latency_us=1,2", "--metric", "speed"), "--metric speed cannot be bisected: give one of "),
        (("--options", "fake.latency_us=1,2", "--metric", "size"), "--metric size cannot be bisected"),
        (("--options", "fake.latency_us=1,2", "--budget", "1s"), "--budget 1s is too short: "),
        (("--options", "fake.latency_us=1,2", "--worse", "0%"), "--worse 0% is nothing that noise does not do"),
        (("--options", "fake.latency_us=1"), "a bisect needs two options or more"),
        (("--options", "fake.latency_us=1,2,1"), "1 is there twice"),
        (("--options", "latency_us=1,2"), "not of the form E.O=1,2,3"),
        (("--options", "fake.nosuch=1,2"), "fake has no option 'nosuch'"),
        (
            ("--options", "fake.latency_us=1,fast,3"),
            "fake.latency_us cannot be 'fast': it takes a value of type int",
        ),
        (("--options", "fake.latency_us=1,2,3", "--good", "3", "--bad", "1"), "--good 3 stands behind --bad 1"),
        (("--options", "fake.latency_us=1,2", "--engine", "fake", "--versions", "1,2"), "exclude each other"),
        (("--models", "a.onnx,b.onnx", "--engine", "fake"), "takes the place of MODEL"),
        ((), "--engine is missing"),
    ],
)
def test_bad_input_gets_a_sentence_before_anything_is_measured(
    here: Bench, model: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    wheels = tmp_path / "wheels"
    make_wheels(wheels, {}, count=3)
    words = [str(wheels) if one == "W" else one for one in arguments]
    done = here.cli("bisect", model, *words, expect=2)
    assert sentence.replace("WHEELS", str(wheels)) in done.stderr
    assert "it goes on with" not in done.stderr
    assert Home(here.home).store.searches() == ()
    assert Home(here.home).store.benchmarks() == ()
