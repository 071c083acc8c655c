"""Results sent to trackers, and read back by their own programs: `make exports-test` has an environment for both."""

import getpass
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import invented
from enginebench_controller.home import Home
from enginebench_controller.records import Measurement
from enginebench_controller.store.store import Store
from integration.bench import QUICK, tiny_model
from receiver import receiving

TRACKERS = Path(__file__).parents[2] / ".venvs" / "trackers" / "bin"
LONG = "m/" * 3000 + "ünï 'q' \"r\""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (TRACKERS / "wandb").exists(), reason="`make exports-test` installs the trackers"),
]

READ_MLFLOW = """
import json, sys
from mlflow import MlflowClient

client = MlflowClient(sys.argv[1])
(experiment,) = [one for one in client.search_experiments() if one.name == "enginebench"]
told = {}
for run in client.search_runs([experiment.experiment_id]):
    folder = client.download_artifacts(run.info.run_id, "measurement.json")
    told[run.data.tags["measurement_id"]] = {
        "name": run.info.run_name, "status": run.info.status, "start": run.info.start_time, "end": run.info.end_time,
        "metrics": run.data.metrics, "params": run.data.params, "tags": run.data.tags,
        "document": json.load(open(folder)),
    }
print(json.dumps(told))
"""

READ_WANDB = """
import json, sys
from wandb.proto.wandb_internal_pb2 import Record

WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4

def records(data):
    "Of LevelDB's log: blocks of 32 KiB after a head of 7 bytes; each part has a checksum, its length and its kind."
    place, so_far = 7, b""
    while place + 7 <= len(data):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        part = data[place + 7 : place + 7 + length]
        place += 7 + length
        so_far = part if kind in (WHOLE, FIRST) else so_far + part
        if kind in (WHOLE, LAST):
            yield Record.FromString(so_far)

told = {}
for file in sys.argv[1:]:
    run = {"summary": {}, "text": ""}
    for record in records(open(file, "rb").read()):
        run["text"] += str(record)
        if record.HasField("run"):
            run |= {name: getattr(record.run, name) for name in ("run_id", "project", "run_group", "display_name")}
            run["config"] = {one.key: json.loads(one.value_json) for one in record.run.config.update}
        for one in record.summary.update:
            run["summary"][one.key or "/".join(one.nested_key)] = json.loads(one.value_json)
        if record.HasField("exit"):
            run["exit"] = record.exit.exit_code
    told[run["run_id"]] = run
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a home in it: a measurement with numbers, one with a name that is long, and one that failed."""
    folder = tmp_path_factory.mktemp("trackers")
    store = Home(folder / "home").store
    store.add_benchmark(invented.benchmark("b0000001", "duel"), [invented.snapshot()])
    store.add_measurement(invented.measured("m1", iterations=700, noisy=True))
    store.add_measurement(invented.measured("m2", engine="other", model_name=LONG))
    store.add_measurement(invented.failed("m3"))
    return folder


@pytest.fixture(scope="module")
def stored(folder: Path) -> dict[str, Measurement]:
    return {one.id: one for one in Store(folder / "home" / "results.duckdb").measurements("b0000001")}


def done(folder: Path, *words: object, code: int = 0, **variables: str) -> "subprocess.CompletedProcess[str]":
    """What a command of the trackers' environment printed, in a folder of its own."""
    environment = {**os.environ, "ENGINEBENCH_HOME": str(folder / "home"), "WANDB_MODE": "offline", **variables}
    command = [str(TRACKERS / str(words[0])), *map(str, words[1:])]
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=200
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended


def assert_tells_nobody(told: str, folder: Path) -> None:
    """As whole words: what a tracker draws by lot (a slot of twelve letters) may hold a short host's name."""
    for private in (os.uname().nodename, getpass.getuser()):
        assert not re.search(rf"(?<![\w/]){re.escape(private)}(?!\w)", told), private
    assert str(folder) not in told


def check_numbers(found: dict[str, Any], measurement: Measurement) -> None:
    """The numbers are those of the store, their units in their names; what is unknown is not among them."""
    latency, rate = measurement.latency, measurement.throughput_interval
    assert latency is not None and latency.median_interval is not None and rate is not None
    numbers = {
        "latency_ns": latency.median_ns,
        "latency_low_ns": latency.median_interval.low,
        "latency_high_ns": latency.median_interval.high,
        "latency_p99_ns": latency.percentile_ns(99),
        "throughput_items_per_s": measurement.throughput_items_per_s,
        "throughput_low_items_per_s": rate.low,
        "throughput_high_items_per_s": rate.high,
        "peak_memory_bytes": measurement.peak_rss_bytes,
    }
    assert found | numbers == found
    assert not {name for name in found if "energy" in name or name.startswith("latency_p99_low")}


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Any]:
    """What MLflow's client reads from a store of its own, to which everything was sent twice."""
    for _ in range(2):
        said = done(folder, "enginebench", "export", "duel", "--log-to", "mlflow:sqlite:///runs.db").stderr
        assert said.startswith("mlflow:sqlite:///runs.db has 3 of 3 measurements\n1 of 3 without numbers")
    return json.loads(done(folder, "python", "-c", READ_MLFLOW, "sqlite:///runs.db").stdout)


def test_mlflow_has_a_run_a_measurement_with_numbers_intervals_and_evidence(
    runs: dict[str, Any], stored: dict[str, Measurement]
) -> None:
    assert runs.keys() == stored.keys(), "nothing is there twice"
    run = runs["m1"]
    check_numbers(run["metrics"], stored["m1"])
    assert run["params"] == {
        "model": "invented",
        "engine": "fake",
        "target": "local",
        "device": "CPU",
        "batch": "1",
        "cores": "2",
        "precision": "f32",
        "load": "sync",
    }
    tags = {"engine": "fake", "target": "local", "engine_version": "1.0", "benchmark_id": "b0000001"}
    assert run["tags"] | tags == run["tags"] and run["tags"]["status"].startswith("ok")
    assert (run["status"], run["start"], run["end"]) == ("FINISHED", invented.CREATED_NS // 1_000_000, None)
    assert [one["id"] for one in run["document"]["measurements"]] == ["m1"]


def test_mlflow_has_no_number_of_what_failed_and_shortens_what_is_long(runs: dict[str, Any]) -> None:
    failed, long = runs["m3"], runs["m2"]
    assert (failed["status"], failed["metrics"], failed["tags"]["failure"]) == ("FAILED", {}, "crashed")
    assert len(long["name"]) == 250 and long["name"].endswith("…") and len(long["params"]["model"]) == 500
    assert long["document"]["measurements"][0]["model"]["name"] == LONG


def test_mlflow_is_not_told_who_sends(runs: dict[str, Any], folder: Path) -> None:
    for run in runs.values():
        assert "mlflow.user" not in run["tags"] and "mlflow.source.name" not in run["tags"]
        assert_tells_nobody(json.dumps(run), folder)


def test_mlflow_is_told_when_outputs_are_judged_otherwise(tmp_path: Path) -> None:
    store = Home(tmp_path / "home").store
    store.add_benchmark(invented.benchmark("b0000001", "duel"), [invented.snapshot()])

    def measured(shift: float, *engines: str) -> None:
        for engine in engines:
            outputs = (invented.outputs(shift=shift),)
            store.add_measurement(invented.measured(f"m-{engine}", engine=engine, captured_outputs=outputs))

    def sent() -> Any:
        done(tmp_path, "enginebench", "export", "duel", "--log-to", "mlflow:sqlite:///runs.db")
        return json.loads(done(tmp_path, "python", "-c", READ_MLFLOW, "sqlite:///runs.db").stdout)

    def wrong(runs: Any) -> list[str]:
        assert all(run["status"] == "FINISHED" and run["end"] is None for run in runs.values())
        told = sorted(id_ for id_, run in runs.items() if "wrong_outputs" in run["tags"])
        assert all(sorted(run["document"]["outcome"]["wrong_outputs"]) == told for run in runs.values())
        return told

    measured(0.5, "odd")
    assert not wrong(first := sent())
    measured(0, "a", "b")
    assert wrong(more := sent()) == ["m-odd"]
    measured(0.5, "c", "d", "e")
    assert wrong(sent()) == ["m-a", "m-b"]
    assert first["m-odd"]["metrics"] == more["m-odd"]["metrics"]


def test_a_deleted_experiment_of_mlflow_is_told_before_anything_is_sent(folder: Path, tmp_path: Path) -> None:
    delete = (
        "from mlflow import MlflowClient as C; c = C('sqlite:///x.db'); c.delete_experiment(c.create_experiment('x'))"
    )
    done(tmp_path, "python", "-c", delete)
    words = ("enginebench", "export", "duel", "--log-to", "mlflow:sqlite:///x.db")
    variables = {"ENGINEBENCH_HOME": str(folder / "home"), "MLFLOW_EXPERIMENT_NAME": "x"}
    said = done(tmp_path, *words, code=2, **variables).stderr
    assert "would take no results: its experiment x is deleted: restore it, or set MLFLOW_EXPERIMENT_NAME." in said


def test_weights_and_biases_keep_a_run_a_measurement_offline(folder: Path, stored: dict[str, Measurement]) -> None:
    done(folder, "enginebench", "export", "duel", "--log-to", "wandb")
    files = sorted((folder / "wandb").glob("offline-run-*/run-*.wandb"))
    runs = json.loads(done(folder, "python", "-c", READ_WANDB, *files).stdout)
    assert runs.keys() == stored.keys()
    run = runs["m1"]
    assert (run["project"], run["run_group"], run["exit"], runs["m3"]["exit"]) == ("enginebench", "b0000001", 0, 1)
    check_numbers(run["summary"], stored["m1"])
    words = {"engine_version": "1.0", "measurement_id": "m1", "benchmark_name": "duel"}
    words |= {"statistics": "700 samples of 3 processes", "started_at": "2023-11-14T22:13:20.123+00:00"}
    assert run["summary"] | words == run["summary"] and run["summary"]["samples"] == 700
    assert "started_at" not in runs["m3"]["summary"], "it never began"
    assert run["config"] | {"model": "invented", "engine": "fake", "batch": 1, "cores": 2} == run["config"]
    assert runs["m3"]["summary"]["failure"] == "crashed" and "latency_ns" not in runs["m3"]["summary"]
    assert len(runs["m2"]["display_name"]) == 128
    assert not list((folder / "wandb").glob("*/files/*")), "packages, code and commands are nobody's business"
    told = "".join(one["text"] for one in runs.values())
    assert_tells_nobody(told, folder)


def test_nobody_logged_in_to_weights_and_biases_is_told_before_anything_is_measured(folder: Path) -> None:
    model = tiny_model(folder / "tiny.onnx")
    words = ("enginebench", "run", model, "--engine", "fake", "--log-to", "wandb")
    nobody = {"WANDB_MODE": "online", "WANDB_API_KEY": "", "HOME": str(folder), "NETRC": str(folder / "none")}
    said = done(folder, *words, code=2, **nobody).stderr
    assert "--log-to wandb would take no results: No API key configured. Use `wandb login` to log in." in said


def test_a_benchmark_goes_to_three_trackers_while_it_runs(folder: Path, tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "tiny.onnx")
    (tmp_path / "home" / "agent").mkdir(parents=True)
    with receiving() as receiver:
        trackers = ("mlflow:sqlite:///live.db", "wandb", f"otlp:{receiver.url}")
        words = [word for one in trackers for word in ("--log-to", one)]
        two = ("--engine", "fake", "--batch", "1,2", *QUICK, "--json")
        document = json.loads(done(tmp_path, "enginebench", "run", model, *two, *words).stdout)
    medians = {one["id"]: one["latency"]["median_ns"] for one in document["measurements"]}
    runs = json.loads(done(tmp_path, "python", "-c", READ_MLFLOW, "sqlite:///live.db").stdout)
    assert {id_: run["metrics"]["latency_ns"] for id_, run in runs.items()} == medians
    files = sorted((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    runs = json.loads(done(tmp_path, "python", "-c", READ_WANDB, *files).stdout)
    assert {id_: run["summary"]["latency_ns"] for id_, run in runs.items()} == medians
    values = [one.value for one in receiver.gauges if one.name == "enginebench.latency"]
    assert sorted(values) == sorted(median / 1e9 for median in medians.values())
