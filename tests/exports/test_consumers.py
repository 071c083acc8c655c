"""Exports read back by the programs they are for: `make exports-test` installs these beside the project."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from typer.testing import CliRunner

import invented_profiles
from enginebench_controller.cli import make_app
from enginebench_controller.home import Home
from every_document import MODEL, fill
from histories import Change, keep_history

CONSUMERS = Path(__file__).parents[2] / ".venvs" / "exports" / "bin"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CONSUMERS / "otava").exists(), reason="`make exports-test` installs the programs"),
]

OTAVA = """\
tests:
  net:
    type: csv
    file: {file}
    time_column: time
    attributes: [engine_version, benchmark_id]
    metrics:
      median_ns: {{direction: -1}}
      throughput_items_per_s: {{direction: 1}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a home in it that has some of everything, a change in a history, and a profile of the model beside it."""
    folder = tmp_path_factory.mktemp("exports")
    home = Home(folder / "home")
    fill(home, folder)
    keep_history(home.store, "slowed", Change(at=20, factor=1.3, version="2.0"), points=40)
    conv, odd, folded = invented_profiles.nodes()
    nodes = (replace(conv, name="matmul_1"), replace(odd, name="relu"), replace(folded, name="matmul_2", group=1))
    second = replace(invented_profiles.layers()[0], name="second", time_ns=(9_000, 9_000, 9_000), group=1)
    layers = (*invented_profiles.layers(), second)
    home.store.add_profiles([invented_profiles.profile("tiny", name="tiny", nodes=nodes, layers=layers)])
    return folder


def export(folder: Path, *words: str) -> Path:
    file = folder / "-".join(words).replace("/", "-")
    arguments = ["export", *words, "-o", str(file), "--force"]
    done = CliRunner(env={"ENGINEBENCH_HOME": str(folder / "home")}).invoke(make_app(), arguments)
    assert done.exit_code == 0, done.stderr
    return file


def consumed(*command: object, **environment: str) -> str:
    words = [str(CONSUMERS / str(command[0])), *map(str, command[1:])]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, env=os.environ | environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_otava_finds_the_change_that_is_in_a_history(folder: Path) -> None:
    file = export(folder, "m-slowed-000", "--format", "otava")
    (folder / "otava.yaml").write_text(OTAVA.format(file=file))
    told = consumed(
        *("otava", "analyze", "net", "--since", "2020-01-01", "--output", "json"),
        OTAVA_CONFIG=str(folder / "otava.yaml"),
    )
    changes = json.loads(told)["net"]
    assert [change["time"] for change in changes] == [1_700_000_000 + 20 * 3600]
    (median,) = [one for one in changes[0]["changes"] if one["metric"] == "median_ns"]
    assert float(median["forward_change_percent"]) == pytest.approx(30, abs=1)


READ_NODE_DATA = """
import json, sys
from model_explorer.node_data_builder import GradientItem, GraphNodeData, NodeDataResult
from model_explorer_onnx.main import ONNXAdapter

model, *files = sys.argv[1:]
(graph,) = ONNXAdapter().convert(model, {})["graphs"]
ids = {node.id for node in graph.nodes}
for file in files:
    told = json.load(open(file))
    results = {key: NodeDataResult(**value) for key, value in told.pop("results").items()}
    gradient = [GradientItem(**one) for one in told.pop("gradient")]
    data = GraphNodeData(results=results, gradient=gradient, **told)
    found = {key: one.value for key, one in data.results.items() if key in ids}
    print(json.dumps({"name": data.name, "strange": sorted(results.keys() - ids), "values": found}))
"""


def test_model_explorer_finds_the_nodes_of_the_model(folder: Path) -> None:
    files = [export(folder, "tiny", "--format", form) for form in ("model-explorer", "model-explorer-flops")]
    times, flops = map(json.loads, consumed("python", "-c", READ_NODE_DATA, folder / MODEL, *files).splitlines())
    assert times == {
        "name": "time in µs, invented on fake 1.0",
        "strange": [],
        "values": {"matmul_1": 0.006, "matmul_2": 9.0},
    }
    assert (flops["strange"], flops["values"]) == ([], {"matmul_1": 6912, "matmul_2": 0})


@pytest.mark.parametrize("name", ["duel", "open", "gated"])
def test_the_client_of_prometheus_reads_gauges(folder: Path, name: str) -> None:
    text = export(folder, name, "--format", "openmetrics").read_text(encoding="utf-8")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert {family.type for family in families.values()} == {"gauge", "info"}
    latency = families["enginebench_latency_seconds"]
    assert (latency.unit, latency.documentation) == ("seconds", "Median latency of an inference")
    assert all(1e-4 < one.value < 1 for one in latency.samples)
