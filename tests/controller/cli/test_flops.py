"""`enginebench flops`: the table, the document, and the sentences where a model cannot be counted."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from typer.testing import CliRunner

from enginebench_controller.cli import make_app
from enginebench_controller.cli.commands.flops import print_program
from enginebench_controller.errors import ModelError
from enginebench_controller.graph.flops.saved_programs import ProgramCost
from enginebench_controller.records import ModelVersion


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the command with a home of its own; errors come through as they are raised."""
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))

    def invoke(*arguments: object):
        return CliRunner().invoke(make_app(), ["flops", *map(str, arguments)], catch_exceptions=False)

    return invoke


def model(folder: Path, batch: int | str = "n") -> Path:
    """x (batch, 4) · w (4, 5) → the 2 greatest of each row, of which the work is unknown."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "product"),
        helper.make_node("TopK", ["p", "k"], ["y", "places"], "best"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [batch, 4])],
        [helper.make_tensor_value_info("y", 1, [batch, 2])],
        [numpy_helper.from_array(np.eye(4, 5, dtype="f"), "w"), numpy_helper.from_array(np.array([2]), "k")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "m.onnx")
    return folder / "m.onnx"


@pytest.mark.slow
def test_the_document_has_every_node_the_totals_and_the_convention(run, tmp_path: Path) -> None:
    document = json.loads(run(model(tmp_path), "--batch", 3, "--json").stdout)
    assert (document["convention"], document["batch"]) == ("1 MAC = 2 FLOPs", 3)
    assert document["inputs"] == {"x": [3, 4]}
    product, best = document["nodes"]
    assert (product["name"], product["macs"], product["flops"]) == ("product", 60, 120)
    assert (product["parameters"], product["nonzero_parameters"]) == (20, 4)
    assert product["intensity"] == pytest.approx(120 / (80 + 48 + 60))
    assert (best["flops"], best["method"]) == (None, "unknown")
    total = document["total"]
    assert (total["flops"], total["coverage_percent"], total["unknown_operators"]) == (120, 50.0, {"TopK": 1})


def test_the_table_says_what_is_unknown(run, tmp_path: Path) -> None:
    result = run(model(tmp_path), "--batch", 3)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert rows[0][:5] == ["1", "best", "TopK", "0", "–"], "what is unknown comes first"
    assert rows[1][:6] == ["0", "product", "MatMul", "60", "120", "20"]
    assert "coverage: 50.0 % of the nodes; unknown: TopK ×1" in result.stderr
    assert "1 MAC = 2 FLOPs" in result.stderr


@pytest.mark.parametrize(
    ("batch", "wish", "heading"),
    [
        (256, [], "m as given (x 256×4), 2 nodes"),
        (256, ["--batch-axis", "x=0"], "m, batch 256, 2 nodes"),
        (256, ["--batch", 256], "m, batch 256, 2 nodes"),
        (1, [], "m, batch 1, 2 nodes"),
        ("n", [], "m, batch 1, 2 nodes"),
        ("n", ["--batch", 3], "m, batch 3, 2 nodes"),
    ],
)
def test_the_heading_takes_a_fixed_first_axis_for_a_batch_only_where_somebody_says_so(
    batch: int | str, wish: list[object], heading: str, run, tmp_path: Path
) -> None:
    assert run(model(tmp_path, batch), *wish).stdout.splitlines()[0].strip() == heading


def test_rows_by_operator_and_only_so_many(run, tmp_path: Path) -> None:
    result = run(model(tmp_path), "--by", "type", "--top", 1)
    rows = [line for line in result.stdout.splitlines() if "│" in line]
    assert len(rows) == 1
    assert "MatMul" in rows[0]
    assert "1 more rows" in result.stderr


def test_a_fixed_batch_is_counted_on_a_rewritten_copy(run, tmp_path: Path) -> None:
    path = model(tmp_path, batch=1)
    before = path.read_bytes()
    own, other = (json.loads(run(path, *wish, "--json").stdout) for wish in ([], ["--batch", 6]))
    assert [one["total"]["macs"] for one in (own, other)] == [20, 120]
    assert own["model"]["digest"] != other["model"]["digest"]
    assert path.read_bytes() == before


def test_an_openvino_ir_is_sent_to_the_model_it_was_made_from(run, tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    network = openvino.Core().read_model(model(tmp_path))
    openvino.save_model(network, tmp_path / "m.xml")
    with pytest.raises(ModelError, match="whose operators are not counted; count the model that it was made from"):
        run(tmp_path / "m.xml")


@pytest.mark.slow
def test_a_saved_program_needs_trust_and_then_shows_what_pytorch_counts(run, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.jit.save(torch.jit.trace(torch.nn.Linear(4, 5), torch.rand(1, 4)), tmp_path / "m.pt")
    wish = (tmp_path / "m.pt", "--shape", "x=1x4", "--batch", 3)
    with pytest.raises(ModelError, match="give --trust"):
        run(*wish)
    total = json.loads(run(*wish, "--trust", "--json").stdout)["total"]
    assert (total["macs"], total["flops"], total["parameters"]) == (60, None, 25)


def test_the_table_of_a_saved_program_says_what_pytorch_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    version = ModelVersion("0" * 64, "net", "torchscript", (), 0)
    print_program(version, ProgramCost(2000, {"aten.addmm": 2000}, {"aten.relu": 3}, 25, 20, 100))
    out, err = capsys.readouterr()
    assert "aten.addmm │ 2.00 k │ 4.00 k" in out
    assert "2.00 k MACs in products; 25 parameters, 20 of them not zero; 1 MAC = 2 FLOPs" in err
    assert "not counted by PyTorch: aten.relu ×3" in err
