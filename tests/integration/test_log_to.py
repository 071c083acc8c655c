"""Results sent on while a benchmark runs: between measurements, and never to the harm of one."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from enginebench_controller.home import Home
from enginebench_controller.records import Status
from integration.bench import QUICK, Bench
from receiver import receiving

pytestmark = pytest.mark.slow

TWO = ("--engine", "fake", "--batch", "1,2", *QUICK)


def log_to(url: str) -> tuple[str, str]:
    return "--log-to", f"otlp:{url}"


def test_each_measurement_is_sent_once_it_is_stored_and_while_none_is_timed(bench: Bench, model: Path) -> None:
    with receiving() as receiver:
        document = bench.json("run", model, *TWO, *log_to(receiver.url))
    made = bench.measurements(document)
    latencies = {one.attributes["batch"]: one.value for one in receiver.gauges if one.name == "enginebench.latency"}
    assert latencies == {str(one.configuration.batch): one.latency.median_ns / 1e9 for one in made if one.latency}
    assert len(receiver.arrived_unix_ns) == 2, "one after the other"
    for process in (process for one in made for process in one.processes):
        began = process.started_at_unix_ns
        assert began is not None and process.phases
        ended = began + sum(phase.duration_ns for phase in process.phases)
        assert not any(began < arrived < ended for arrived in receiver.arrived_unix_ns)


def test_a_receiver_that_is_not_there_is_told_before_anything_is_measured(bench: Bench, model: Path) -> None:
    with receiving() as gone:
        pass
    done = bench.cli("run", model, *TWO, *log_to(gone.url), expect=2)
    assert f"--log-to otlp:{gone.url}/v1/metrics would take no results: Connection refused" in done.stderr
    assert not Home(bench.home).store.benchmarks()


def test_a_receiver_that_fails_harms_no_measurement_and_gets_the_results_later(bench: Bench, model: Path) -> None:
    with receiving() as receiver:
        receiver.refuses = True
        done = bench.cli("run", model, *TWO, *log_to(receiver.url))
        assert done.stderr.count("takes no more results: it answers with HTTP 503 (Service Unavailable)") == 1
        (entry,) = Home(bench.home).store.benchmarks()
        assert (entry.measurements, entry.failed) == (2, 0)
        id_ = entry.benchmark.id
        assert f"`enginebench export {id_} --log-to otlp:{receiver.url}/v1/metrics`" in done.stderr
        receiver.refuses = False
        sent = bench.cli("export", id_, *log_to(receiver.url))
    assert sent.stderr == f"otlp:{receiver.url}/v1/metrics has 2 of 2 measurements\n"
    assert {one.attributes["batch"] for one in receiver.gauges} == {"1", "2"}


def test_the_same_again_and_a_plan_of_a_file_are_sent_too(bench: Bench, model: Path, tmp_path: Path) -> None:
    with receiving() as receiver:
        first = bench.json("run", model, "--engine", "fake", *QUICK)
        again = bench.json("rerun", first["benchmark"]["id"], *log_to(receiver.url))
        plan = bench.cli("run", model, "--engine", "fake", *QUICK, "--print-plan").stdout
        (tmp_path / "plan.toml").write_text(plan)
        third = bench.json("run", tmp_path / "plan.toml", *log_to(receiver.url))
    arrived = [one.attributes["benchmark_id"] for one in receiver.gauges if one.name == "enginebench.measurement"]
    assert arrived == [again["benchmark"]["id"], third["benchmark"]["id"]]


def test_a_gate_sends_base_head_and_control(bench: Bench, model: Path) -> None:
    sides = ("--base", "fake:latency_us=2000,wait=sleep", "--head", "fake:latency_us=3000,wait=sleep")
    with receiving() as receiver:
        bench.cli("gate", model, *sides, "--budget", "30s", "--no-layers", *log_to(receiver.url), expect=4)
    assert len([one for one in receiver.gauges if one.name == "enginebench.latency"]) == 3


def test_ctrl_c_while_results_are_sent_ends_at_once_with_them_stored(bench: Bench, model: Path) -> None:
    command = [sys.executable, "-m", "enginebench_controller", "run", str(model), *TWO]
    with receiving() as receiver:
        receiver.stalls = threading.Event()
        running = subprocess.Popen(
            [*command, *log_to(receiver.url)], env=bench.variables, stderr=subprocess.PIPE, text=True
        )
        try:
            assert receiver.stalled.wait(60)
            running.send_signal(signal.SIGINT)
            began = time.monotonic()
            _, remarks = running.communicate(timeout=30)
            assert time.monotonic() - began < 8, "it does not wait for the receiver"
        finally:
            receiver.stalls.set()
            running.kill()
    assert running.returncode == 130 and "Traceback" not in remarks, remarks
    store = Home(bench.home).store
    (entry,) = store.benchmarks()
    measured, never_ran = (one.status for one in store.measurements(entry.benchmark.id))
    assert measured.has_numbers and never_ran is Status.CANCELLED


def test_what_cannot_be_sent_by_export_is_a_sentence(bench: Bench, model: Path) -> None:
    document = bench.json("run", model, "--engine", "fake", *QUICK)
    id_ = document["benchmark"]["id"]
    with receiving() as gone:
        pass
    done = bench.cli("export", id_, *log_to(gone.url), expect=2)
    assert f"--log-to otlp:{gone.url}/v1/metrics would take no results: Connection refused" in done.stderr
    with receiving() as receiver:
        receiver.refuses = True
        done = bench.cli("export", id_, *log_to(receiver.url), expect=2)
    assert f"otlp:{receiver.url}/v1/metrics has 0 of 1 measurements" in done.stderr
    assert f"error: otlp:{receiver.url}/v1/metrics: it answers with HTTP 503" in done.stderr
    for words in (("--format", "bmf"), ("-o", "file")):
        done = bench.cli("export", id_, *log_to(gone.url), *words, expect=2)
        assert "--log-to sends results and writes no file: leave --format and --output out" in done.stderr
