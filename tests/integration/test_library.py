"""enginebench as a library: real runs by the functions that a notebook calls, and what they hand back."""

import asyncio
import inspect
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from filelock import FileLock

import enginebench
from agent_server import AgentProcess
from enginebench.results import Run, listed, model_named, through
from enginebench_controller.errors import UnknownFormatError, UnknownModelError, UnreadableFileError
from enginebench_controller.files.csv_tables import measurements_csv
from enginebench_controller.plan.plan import make_plan
from integration.bench import BRIEF, ROOT, Bench, tiny_model
from receiver import receiving

QUICK: Mapping[str, Any] = {
    **{"processes": 1, "interval": 0, "duration": 0.1, "warmup": "50ms", "max_duration": "1m"},
    **{"retry_noisy": False, "wait_quiet": 0},
}
SLOW, SLOWER = ("fake:latency_us=3000,wait=sleep", "fake:latency_us=30000,wait=sleep")
NOTEBOOK = ROOT / "docs" / "guide" / "notebook.ipynb"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("library")]  # one worker measures for all of them


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.of_engines(tmp_path_factory.mktemp("library") / "home", "fake", "onnxruntime")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model") / "tiny.onnx")


@pytest.fixture(scope="module")
def measured(bench: Bench, model: Path) -> Run:
    return enginebench.run(
        model, engines="onnxruntime", batch=[1, 2], precision=["f32", "default"], home=bench.home, name="both", **QUICK
    )


def test_a_run_is_what_the_command_shows(bench: Bench, measured: Run) -> None:
    shown = bench.json("show", "both")
    assert json.loads(json.dumps(measured.document)) == shown
    assert [one.id for one in measured.measurements] == [one["id"] for one in shown["measurements"]]
    assert [one.partition("\n")[0] for one in measured.answers] == [one["sentence"] for one in shown["answers"]]
    assert len(measured.answers) == 2 and measured.problem == ""
    assert str(measured).startswith("tiny on onnxruntime, batch 1, ")


def test_results_go_to_a_tracker_and_one_that_fails_is_logged(
    bench: Bench, model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with receiving() as receiver:
        asked = {"engines": "fake", "home": bench.home, "log_to": f"otlp:{receiver.url}", **QUICK}
        measured = enginebench.run(model, **asked)
        assert receiver.named("latency")["fake"].value == measured.rows[0]["median_ns"] / 1e9
        receiver.refuses = True
        assert enginebench.run(model, **asked).problem == ""
    (record,) = [one for one in caplog.records if one.name == "enginebench.results"]
    assert "takes no more results: it answers with HTTP 503" in record.getMessage()
    with pytest.raises(enginebench.InputError, match="would take no results: Connection refused"):
        enginebench.run(model, **asked)


def test_a_table_is_pandas_and_its_columns_are_those_of_csv(measured: Run) -> None:
    table = measured.table()
    assert isinstance(table, pandas.DataFrame)
    assert sorted(table["batch"]) == [1, 1, 2, 2]
    assert (table["median_ns"] > 0).all()
    assert list(table.columns) == measurements_csv(measured.measurements).splitlines()[0].split(",")


def test_without_pandas_it_is_polars_and_without_both_a_list(measured: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = measured.table()
    assert type(table).__module__.startswith("polars")
    assert table["median_ns"].to_list() == [row["median_ns"] for row in measured.rows]
    monkeypatch.setitem(sys.modules, "polars", None)
    assert measured.table() == [dict(row) for row in measured.rows]


def test_a_notebook_shows_the_answers_and_what_others_wrote_as_text(measured: Run) -> None:
    shown = replace(measured, problem="<b>odd</b>")._repr_html_()
    assert "&lt;b&gt;odd" in shown and "<b>" not in shown
    assert "<th>median ms</th>" in shown and shown.count("<tr>") == 5
    assert measured.answers[0].partition("\n")[0] in unescape(shown)


def test_what_fails_on_its_engine_is_told_and_raises_nothing(bench: Bench, model: Path) -> None:
    told: list[str] = []
    failed = enginebench.run(
        model, engines="fake", options={"fake.fault": "inference_error"}, home=bench.home, progress=told.append, **QUICK
    )
    assert failed.problem.startswith("1 of 1 without numbers: tiny on fake")
    assert "failed: tiny on fake" in failed.problem.splitlines()[1], "with the reason"
    assert failed.table()["failure"][0]
    assert any("tiny on fake" in one or "failed" in one for one in told)


def test_one_measurement_alone_is_told_with_its_doubts_and_read_back_by_its_name(bench: Bench, model: Path) -> None:
    def tell(sentence: str) -> None:
        raise ValueError("a widget that is closed")

    asked = {**QUICK, "iterations": 1_000_000, "max_duration": "200ms", "progress": tell}
    alone = enginebench.run(model, engines="fake", home=bench.home, name="alone", **asked)
    (line,) = alone.answers
    assert line.startswith("tiny on fake") and "median" in line
    assert "of 1,000,000 --iterations" in alone.rows[0]["flags"]
    assert all(flag in line for flag in alone.rows[0]["flags"].split("; "))
    again = enginebench.show("alone", home=bench.home)
    assert isinstance(again, enginebench.Run)
    assert (again.id, again.answers, again.rows) == (alone.id, alone.answers, alone.rows)
    with pytest.raises(enginebench.InputError, match="no benchmark"):
        enginebench.show("nobody", home=bench.home)
    itself = enginebench.compare(alone, alone.id, practical=2, home=bench.home)
    assert itself.answers[-1] == f"note: {alone.id} is compared with itself: a self-test, in which nothing can differ"


def test_numbers_of_numpy_and_paths_are_what_they_stand_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somebody")
    said = listed({"batch": np.int64(4), "cores": np.array([1, 2]), "input_folder": Path("~/images"), "rate": None})
    assert said == {"batch": (4,), "cores": (1, 2), "input_folder": "/somebody/images"}
    numbers = {"cores": np.int64(2), "batch": [np.int32(1), 2], "duration": np.float32(0.5), "streams": np.array(1)}
    plan = make_plan({"models": ["net"], **listed(numbers)}, "run()")
    assert (plan.cores, plan.batch, plan.duration, plan.streams) == ((2,), (1, 2), "0.5s", (1,))
    assert (model_named("~/net.onnx"), model_named(Path("net.onnx"))) == ("/somebody/net.onnx", "net.onnx")


@pytest.mark.parametrize(
    "error",
    [
        UnreadableFileError(Path("net.onnx"), FileNotFoundError(2, "gone")),
        UnknownModelError("2 are called net", "a\nb"),
        UnknownFormatError("unknown", "what engines read"),
        enginebench.UnreachableError("nobody answers"),
    ],
)
def test_errors_come_out_of_other_processes_as_they_are(error: enginebench.EnginebenchError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


def test_a_gate_decides_itself_how_long_it_takes(bench: Bench, model: Path) -> None:
    for field in ({"processes": 3}, {"duration": 1}, {"engines": "fake"}, {"gate": {"tolerate": "90%"}}):
        with pytest.raises(enginebench.InputError, match=f"a gate decides {next(iter(field))} itself"):
            enginebench.gate(SLOW, SLOWER, model, home=bench.home, **field)


def test_wrong_input_is_the_sentence_of_a_command(bench: Bench, model: Path) -> None:
    with pytest.raises(enginebench.InputError, match="and not of type int: save it to a file"):
        enginebench.run(3, home=bench.home)
    with pytest.raises(enginebench.InputError, match="there is no lake"):
        enginebench.compare("both", home=bench.home, stores=[str(model.parent / "none")])
    with pytest.raises(enginebench.InputError, match="there is no lake"):
        enginebench.show("both", home=bench.home, stores=model.parent / "none")
    with pytest.raises(enginebench.InputError, match="there is no model file /"):
        enginebench.gate(Path("~/none.onnx"), Path("~/neither.onnx"), engine="fake", home=bench.home)
    with pytest.raises(enginebench.InputError, match=r"^run\(\): batch: 0 is not a number of at least 1$"):
        enginebench.run(model, batch=0, home=bench.home)
    with pytest.raises(enginebench.InputError, match=r"^run\(\): batches: there is no such entry$"):
        enginebench.run(model, batches=1, home=bench.home)
    with pytest.raises(enginebench.EnginebenchError, match="nowhere"):
        enginebench.run("nowhere.onnx", home=bench.home)
    with pytest.raises(enginebench.InputError, match="there is no benchmark, profile or measurement 'nobody'"):
        enginebench.compare("nobody", home=bench.home)
    with pytest.raises(enginebench.InputError, match="name a benchmark"):
        enginebench.compare(home=bench.home)


def test_where_a_loop_runs_already_it_measures_all_the_same(bench: Bench, model: Path) -> None:
    async def cell() -> Run:
        return enginebench.run(model, engines="fake", home=bench.home, **QUICK)

    assert not asyncio.run(cell()).problem


def test_a_label_chooses_only_the_targets_that_answer(tmp_path: Path, model: Path) -> None:
    agent, bench, told = AgentProcess(tmp_path / "agent"), Bench(tmp_path / "home"), list[str]()
    bench.cli("targets", "add", "here", agent.address, "--label", "site=lab1")
    bench.cli("targets", "add", "gone", "127.0.0.1:9", "--label", "site=lab1", "--label", "name=a")

    async def cell() -> Run:
        return enginebench.run(
            model, engines="fake", targets="label:site=lab1", home=bench.home, progress=told.append, **QUICK
        )

    try:
        assert [one.target for one in asyncio.run(cell()).measurements] == ["here"]
        assert any("left out, as they do not answer: gone" in sentence for sentence in told)
        with pytest.raises(enginebench.UnreachableError, match="no target with name=a answers"):
            enginebench.gate(str(model), str(model), engine="fake", targets="label:name=a", home=bench.home)
    finally:
        agent.stop()


@pytest.mark.parametrize("where", ["notebook", "script"])
def test_an_interrupted_cell_ends_and_keeps_what_was_finished(bench: Bench, model: Path, where: str) -> None:
    name = f"cut in a {where}"

    def interrupt(sentence: str) -> None:
        if "· ok" in sentence:
            os.kill(os.getpid(), signal.SIGINT)

    async def cell() -> None:
        if where == "notebook":
            signal.signal(signal.SIGINT, signal.default_int_handler)  # that of a script is asyncio's
        before = signal.getsignal(signal.SIGINT)
        try:
            enginebench.run(
                model, engines="fake", batch=[1, 2], home=bench.home, progress=interrupt, name=name, **QUICK
            )
        finally:
            assert signal.getsignal(signal.SIGINT) == before

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())
    store = enginebench.open_store(bench.home)
    assert {one.status for one in store.measurements(store.benchmark(name).id)} == {"ok", "cancelled"}


def test_a_handler_of_ones_own_is_left_alone() -> None:
    heard: list[object] = []

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):
            await asyncio.sleep(0.02)
            if heard:
                return

    async def script(own: Any) -> None:
        before = signal.signal(signal.SIGINT, own)
        with suppress(KeyboardInterrupt):
            through(work())
        signal.signal(signal.SIGINT, before)

    for own in (lambda *_: heard.append("interrupted"), heard.insert):
        heard.clear()
        asyncio.run(script(own))
        assert len(heard) == 1


def test_a_loop_that_has_a_handler_of_ctrl_c_is_interrupted_as_one_without() -> None:
    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)

    heard: list[str] = []

    async def script() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, heard.append, "interrupted")
        with pytest.raises(KeyboardInterrupt):
            through(work())
        assert heard == [], "the loop waits for the call"
        await asyncio.sleep(0.1)
        loop.remove_signal_handler(signal.SIGINT)

    asyncio.run(script())
    assert heard == ["interrupted"]


def test_waiting_for_another_command_is_told_to_progress_alone(
    bench: Bench, model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lock = FileLock(bench.home / "local-agent.lock", thread_local=False)
    lock.acquire()
    told: list[str] = []

    def progress(sentence: str) -> None:
        told.append(sentence)
        lock.release()

    released = threading.Timer(10, lock.release)
    released.start()
    enginebench.run(model, engines="fake", home=bench.home, progress=progress, **QUICK)
    released.cancel()
    assert told[0] == "another enginebench command uses this machine; waiting for it to finish"
    assert "another" not in capfd.readouterr().err


def test_a_name_that_no_file_can_have_is_refused_in_a_sentence(bench: Bench) -> None:
    for refused in (
        lambda: enginebench.run("x" * 300, engines="fake", home=bench.home),
        lambda: enginebench.gate(SLOW, SLOWER, "x" * 300, home=bench.home),
        lambda: enginebench.gate("x" * 300 + ".own", SLOWER, "model", home=bench.home),
    ):
        with pytest.raises(enginebench.InputError, match=r"^cannot use x+(\.own)?: File name too long; mind its name"):
            refused()


def test_runs_are_compared_as_by_the_command(bench: Bench, measured: Run) -> None:
    found = enginebench.compare(measured, home=bench.home)
    assert json.loads(json.dumps(found.document)) == bench.json("compare", measured.id)
    assert {row["batch"] for row in found.rows} == {1, 2}
    assert found.answers == measured.answers
    again = enginebench.compare(measured, "both", practical="5%", home=bench.home)
    assert len(again.rows) == 4
    with pytest.raises(enginebench.InputError, match=r"^practical: 'much' is not a percentage"):
        enginebench.compare(measured, practical="much", home=bench.home)


def test_a_row_says_in_what_single_measurements_are_unlike(bench: Bench, measured: Run) -> None:
    of = {one.configuration.batch: one.id for one in measured.measurements}
    found = enginebench.compare(of[1], of[2], home=bench.home)
    (row,) = found.rows
    assert row["remarks"].startswith("the batch differs: 1 and 2")
    assert "<th>remarks</th>" in found._repr_html_() and row["remarks"] in unescape(found._repr_html_())


def test_profiles_are_compared_layer_by_layer(bench: Bench, model: Path) -> None:
    bench.cli("profile", model, "--engine", "fake,onnxruntime", "--name", "duel", *BRIEF)
    found = enginebench.compare("duel", home=bench.home)
    assert json.loads(json.dumps(found.document)) == bench.json("compare", "duel")
    assert {"matmul_1", "matmul_2"} <= {row["layer"] for row in found.rows}
    told = found.document["remarks"]
    assert told and set(told) <= set(found.answers[0].splitlines()), "what they are unlike in"


def test_a_gate_says_worse_with_its_metrics(bench: Bench, model: Path) -> None:
    told: list[str] = []
    asked = {"budget": 30, "layers": False, "batch": 2, "progress": told.append}
    found = enginebench.gate(SLOW, SLOWER, model, home=bench.home, **asked)
    assert (found.outcome, found.is_better, found.problem) == ("worse", False, "")
    assert found.answers[0] == found.document["sentence"] and found.answers[0].startswith("worse: head takes ")
    assert found.table().set_index("metric")["decides"].to_dict()["latency"]
    assert any("process pairs" in one for one in told)
    assert bench.json("show", found.id)["gate"] == json.loads(json.dumps(found.document))


def test_the_store_is_asked_by_name_and_by_sql(bench: Bench, measured: Run) -> None:
    store = enginebench.open_store(bench.home)
    assert store.benchmark("both").id == measured.id
    sql = f"SELECT batch, precision FROM measurements WHERE benchmark_id = '{measured.id}' ORDER BY ALL"
    table = enginebench.table(store.query(sql))
    assert table.to_dict("list") == {"batch": [1, 1, 2, 2], "precision": ["default", "f32"] * 2}
    assert list(enginebench.table(store.query("SELECT 1 AS a, 2 AS a, 3 AS b WHERE false")).columns) == [
        "a",
        "a_1",
        "b",
    ]
    many = store.query("SELECT * FROM range(25000)")
    with pytest.warns(UserWarning, match="only the first 10,000 rows are here"):
        table = enginebench.table(many)
    assert len(table) == 10_000


def test_it_is_imported_without_what_only_a_call_needs() -> None:
    heavy = "{'numpy', 'duckdb', 'pydantic', 'grpc', 'onnx', 'scipy', 'asyncio', 'pandas'}"
    code = f"import sys, enginebench; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.engines("onnxruntime", "openvino")
def test_the_notebook_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Bench.of_engines(tmp_path / "home", "onnxruntime", "openvino").home
    monkeypatch.setenv("ENGINEBENCH_HOME", str(home))
    brief = {name: QUICK[name] for name in ("warmup", "interval", "retry_noisy")}  # which the notebook leaves out
    monkeypatch.setattr(enginebench, "run", partial(enginebench.run, **brief))
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for cell in cells:
        exec("".join(cell["source"]), names)
    assert not names["measured"].problem and len(names["measured"].answers) == 2
    assert names["gated"].outcome != "pass"
    assert not [one for one in cells if one["outputs"] or one["execution_count"]], "what a machine printed stays there"


def test_every_function_and_what_it_is_given_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "library.md").read_text(encoding="utf-8")
    rows = {line.partition("(")[0].removeprefix("| `"): line for line in page.splitlines() if line.startswith("| `")}
    functions = {name: one for name in enginebench.__all__ if inspect.isfunction(one := getattr(enginebench, name))}
    assert functions.keys() <= rows.keys()
    everywhere = {"home", "trust", "log_to", "progress", "asked"}
    for name, function in functions.items():
        for parameter in inspect.signature(function).parameters.keys() - everywhere:
            assert parameter in rows[name], (name, parameter)
    assert all(f"`{name}" in page for name in everywhere - {"asked"})
