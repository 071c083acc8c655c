"""`enginebench trend` from the command line, up to the gate of two real environments; wrong input gets a sentence."""

import shutil
from dataclasses import replace

import pytest
from benchmarks.trend_live import doubling_model, install, make_version

from enginebench_controller.home import Home
from histories import Change, keep_history
from integration.bench import QUICK, Bench, tiny_model

SLOWER = 6
"""No machine is too busy to tell, in three or four process pairs."""


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path / "home")


@pytest.mark.slow
def test_a_candidate_is_a_regression_only_once_a_gate_of_both_versions_has_said_so(bench, tmp_path):
    versions = {
        version: make_version(tmp_path / version, version, products)
        for version, products in (("1.0", 400), ("2.0", round(400 * SLOWER)))
    }
    install(bench.home, versions, "1.0")
    model = doubling_model(tmp_path / "doubling.onnx")
    measured = bench.json("run", model, "--engine", "planted@default", *QUICK)
    (one,) = bench.measurements(measured)
    assert any(block.evidence.reference_product_ns for block in one.blocks), "reference work is done before blocks"
    assert any(block.evidence.reference_stream_ns for block in one.blocks)
    repeat(Home(bench.home).store, one)
    renamed = shutil.copy(model, tmp_path / "renamed.onnx")
    assert bench.cli("trend", renamed).stdout == bench.cli("trend", "doubling").stdout
    other = tiny_model(model)
    assert "what is in" in bench.cli("trend", other, expect=2).stderr, "its name is no longer what it says"
    model = shutil.copy(renamed, model)

    (found,) = bench.json("trend", "doubling", "--alerts")["histories"]
    (alert,) = found["alerts"]
    assert (alert["cause"], alert["finding"], alert["gate"]) == ("candidate", "unconfirmed", None)
    assert "--base planted==1.0 --head planted==2.0" in alert["finding_sentence"]
    told = bench.cli("trend", "--alerts").stdout
    assert "regression" not in told and "perhaps planted 1.0 → 2.0" in told

    # It ends once it can tell; where the machine is busy, a pair takes half a minute, and two pairs alone tell nothing.
    arguments = ("trend", "--alerts", "--confirm", "--budget", "5m")
    (found,) = bench.json(*arguments, expect=4, timeout=500)["histories"]
    (alert,) = found["alerts"]
    assert alert["finding"] == "regression"
    assert alert["finding_sentence"].startswith("worse: head takes ")
    assert bench.json("show", alert["gate"])["gate"]["outcome"] == "worse"

    (again,) = bench.json("trend", "--alerts")["histories"]
    assert again["alerts"][0]["gate"] == alert["gate"], "what a gate has said is known from then on"
    assert again["points"] == found["points"], "a gate is no point of the history that it is about"
    assert "regression: worse: head" in bench.cli("trend", "--alerts").stdout


def repeat(store, one):
    """More points like this one: eight more of the same version, then six of the next, which takes longer."""
    plan = store.benchmark(one.benchmark_id)
    snapshots = store.benchmark_snapshots(one.benchmark_id)
    for number in range(1, 15):
        since = number > 8
        at_ns = plan.created_at_unix_ns + number * 10_000_000_000  # later dates than soon cannot be
        benchmark = replace(plan, id=f"b{number:07}", created_at_unix_ns=at_ns)
        latency = replace(
            one.latency, median_ns=one.latency.median_ns * (SLOWER if since else 1) * (1 + number % 3 / 500)
        )
        engine = replace(one.engine, version="2.0" if since else "1.0")
        store.add_benchmark(benchmark, snapshots)
        point = replace(one, id=f"m{number:07}", benchmark_id=benchmark.id, started_at_unix_ns=at_ns)
        store.add_measurement(replace(point, engine=engine, latency=latency))


def test_what_is_there_is_told_and_what_is_not_gets_a_sentence(bench):
    assert "nothing has been measured more than once" in bench.cli("trend", expect=2).stderr
    store = Home(bench.home).store
    keep_history(store, "net", Change(factor=1.2, reference=1.2, version="2.0"))
    keep_history(store, "short", Change(), points=4)
    keep_history(store, "far", Change(factor=1.2, version="2.0"), target="nuc")
    keep_history(store, "gone", Change(factor=1.2, version="2.0"))

    listed = bench.cli("trend").stdout
    assert "net on fake" in listed and "1.0 → 2.0" in listed
    assert bench.cli("trend", "models/net.onnx").stdout == bench.cli("trend", "net").stdout
    assert "no model '6e.onnx'" in bench.cli("trend", "6e.onnx", expect=2).stderr, "a file is no start of a digest"
    assert bench.cli("trend", "6e6574").stdout == bench.cli("trend", "net").stdout
    told = bench.cli("trend", "net", "--alerts")
    assert "the machine: the engine's version was 1.0 and is 2.0, but the reference work" in told.stdout
    assert "4 points with numbers, and 10 are needed" in bench.cli("trend", "short", "--alerts").stderr
    assert "--target nuc" in bench.cli("trend", "far", "--alerts").stdout
    assert "no gate could be run: " in bench.cli("trend", "gone", "--alerts", "--confirm").stdout
    assert "no model 'nets' was measured, gates aside; these were: far, gone, net, short" in (
        bench.cli("trend", "nets", expect=2).stderr
    )
    assert "nothing of engine onnxruntime" in bench.cli("trend", "--engine", "onnxruntime", expect=2).stderr
    assert "write --alerts --confirm" in bench.cli("trend", "--confirm", expect=2).stderr
    for wrong in ("soon", "1s", "2h"):
        assert "budget" in bench.cli("trend", "--alerts", "--confirm", "--budget", wrong, expect=2).stderr
