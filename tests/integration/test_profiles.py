"""Profiles from the command line: made by real engines through a real agent, listed, shown, exported, removed."""

import csv
import json
from pathlib import Path

import duckdb
import pytest

from agent_server import AgentProcess
from integration.bench import BRIEF, Bench

QUICK = ("--iterations", "3", "--cores", "1", *BRIEF)

pytestmark = pytest.mark.xdist_group("profiles")  # one worker makes them for all


@pytest.fixture(scope="module")
def made(shared_agent: AgentProcess, tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, dict]:
    """A bench with a profile of the fake engine and one of ONNX Runtime, and the document that was printed."""
    from integration.bench import tiny_model

    folder = tmp_path_factory.mktemp("profiles")
    bench = Bench(folder / "home")
    model = tiny_model(folder / "tiny.onnx")
    where = ("--engine", "fake,onnxruntime", "--target", shared_agent.address)
    return bench, bench.json("profile", model, *where, "--name", "mine", "--batch", "2", *QUICK)


def of_engine(document: dict, name: str) -> dict:
    return next(one for one in document["profiles"] if one["engine"]["name"] == name)


def test_a_profile_leads_its_layers_back_to_the_model(made: tuple[Bench, dict]) -> None:
    profile = of_engine(made[1], "fake")
    assert (profile["name"], profile["status"], profile["kind"]) == ("mine", "ok", "as_given")
    assert {node["name"]: node["state"] for node in profile["nodes"]} == {
        "matmul_1": "named",
        "relu": "named",
        "matmul_2": "named",
    }
    coverage = profile["coverage"]
    assert coverage["matched_ns"] + coverage["unmatched_ns"] == coverage["total_ns"] == 1_000_000
    assert coverage["matched_share"] == 1.0
    # Batch 2: products of 8×16 and 16×4, and a Relu of 16.
    assert profile["work"]["macs"] == 2 * (8 * 16 + 16 * 4)
    assert profile["work"]["parameters"] == 8 * 16 + 16 * 4
    assert profile["figures"]["layers_ns"] == pytest.approx(1_000_000)
    assert profile["figures"]["layers_to_latency"] == pytest.approx(1_000_000 / profile["unprofiled_latency_ns"])
    assert profile["bystanders"]["meanwhile"]["duration_ns"] > 0, "who else used the machine"
    assert profile["host"]["cpu_model"] is not None and profile["model_size_bytes"] > 0
    assert profile["phases"] and profile["peak_rss_bytes"] > 0
    assert profile["plan"]["batch"] == [2] and profile["order_id"]


def test_a_real_engine_is_matched_too(made: tuple[Bench, dict]) -> None:
    profile = of_engine(made[1], "onnxruntime")
    assert profile["coverage"]["matched_share"] == 1.0
    assert profile["order_id"] == of_engine(made[1], "fake")["order_id"]


def test_what_was_made_is_listed_and_shown_as_it_was_printed(made: tuple[Bench, dict]) -> None:
    bench, document = made
    listed = bench.json("profiles", "list")["profiles"]
    assert {one["id"] for one in listed} == {one["id"] for one in document["profiles"]}
    for profile in document["profiles"]:
        assert bench.json("profiles", "show", profile["id"][:10])["profiles"] == [profile]


def test_tables_have_the_summary_the_types_and_the_slowest_layers(made: tuple[Bench, dict]) -> None:
    bench, document = made
    identity = of_engine(document, "fake")["id"]
    shown = bench.cli("profiles", "show", identity, "--most", "1").stdout
    for words in ("Σ layers ÷ unprofiled latency", "time matched to source nodes", "Time by layer type", "MatMul"):
        assert words in shown
    assert shown.count("│ matched ") == 1
    assert "Time by layer type" not in bench.cli("profiles", "show", identity, "--by", "layer").stdout
    assert "Layers, slowest" not in bench.cli("profiles", "show", identity, "--by", "type").stdout
    assert bench.cli("profiles", "list").stdout.count("mine") == 2


def test_exports_read_back(made: tuple[Bench, dict], tmp_path: Path) -> None:
    bench, document = made
    ids = [one["id"] for one in document["profiles"]]
    layers = sum(len(one["layers"]) for one in document["profiles"])
    for form in ("json", "csv", "parquet", "perfetto"):
        bench.cli("profiles", "export", *ids, "--format", form, "-o", tmp_path / form)

    exported = {key: value for key, value in document.items() if key != "outcome"}  # which is the command's
    assert json.loads((tmp_path / "json").read_text()) == exported
    assert len(list(csv.DictReader((tmp_path / "csv").open(newline="")))) == layers
    with duckdb.connect() as connection:
        found = connection.execute("SELECT count(*) FROM read_parquet(?)", [str(tmp_path / "parquet")]).fetchone()
    assert found == (layers,)
    slices = [one for one in json.loads((tmp_path / "perfetto").read_text())["traceEvents"] if one["ph"] == "X"]
    assert len(slices) == (3 + 1) * layers, "one for each inference, and one side by side"
    assert json.loads(bench.cli("profiles", "export", *ids).stdout) == exported


def test_wrong_words_are_told_in_a_sentence(made: tuple[Bench, dict], tmp_path: Path) -> None:
    bench, document = made
    identity = document["profiles"][0]["id"]
    assert "there is no profile 'nope'" in bench.cli("profiles", "show", "nope", expect=2).stderr
    assert "'mine' means 2 profiles" in bench.cli("profiles", "show", "mine", expect=2).stderr
    assert "'xls'" in bench.cli("profiles", "export", identity, "--format", "xls", expect=2).stderr
    assert "name a file" in bench.cli("profiles", "export", identity, "--format", "parquet", expect=2).stderr
    (tmp_path / "there").write_text("mine")
    assert "--force" in bench.cli("profiles", "export", identity, "-o", tmp_path / "there", expect=2).stderr
    assert "cannot write" in bench.cli("profiles", "export", identity, "-o", "/proc/none/out", expect=2).stderr


def test_imposed_sparsity_is_refused_where_no_engine_can(bench: Bench, model: Path, shared_agent: AgentProcess) -> None:
    where = ("--engine", "onnxruntime", "--target", shared_agent.address)
    said = bench.cli("profile", model, *where, "--sparsity", "0,0.9", *QUICK, expect=2).stderr
    assert "onnxruntime cannot impose sparsity" in said
    assert bench.json("profiles", "list")["profiles"] == []


def test_a_pass_that_crashes_is_kept_with_its_failure_and_stops_no_other(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    where = ("--engine", "fake", "--target", shared_agent.address, "--option", "fake.fault=segfault")
    document = bench.json("profile", model, *where, "--batch", "1,2", *QUICK, expect=1)
    assert [one["status"] for one in document["profiles"]] == ["failed", "failed"]
    assert {one["failure"]["kind"] for one in bench.json("profiles", "list")["profiles"]} == {"crashed"}


def test_removing_asks_first(bench: Bench, model: Path, shared_agent: AgentProcess) -> None:
    where = ("--engine", "fake", "--target", shared_agent.address)
    (profile,) = bench.json("profile", model, *where, *QUICK)["profiles"]
    assert "remove profile" in bench.cli("profiles", "remove", profile["id"], expect=2).stderr
    assert len(bench.json("profiles", "list")["profiles"]) == 1
    bench.cli("profiles", "remove", profile["id"], "--yes")
    assert bench.json("profiles", "list")["profiles"] == []
