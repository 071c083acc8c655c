"""`enginebench models quantize` and `prune` say where nothing was made, and what there is in its place."""

from pathlib import Path

import pytest
from tiny_models import save, tiny_classifier
from typer.testing import CliRunner, Result

from enginebench_controller.cli import make_app


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    return str(save(tiny_classifier(), tmp_path / "net.onnx"))


def typed(*words: str) -> Result:
    return CliRunner().invoke(make_app(), ["models", *words])


def test_a_version_that_was_there_is_told_as_such(net: str) -> None:
    for words in (("quantize", net), ("prune", net, "--sparsity", "0.5")):
        first, again = typed(*words), typed(*words)
        assert (first.exit_code, again.exit_code) == (0, 0), first.output + again.output
        assert first.stdout == again.stdout
        assert "was there already" not in first.stderr
        assert "was there already: " in again.stderr
    assert "net-sparse50 was there already: magnitude pruning, sparsity=0.5" in again.stderr


def test_bytes_of_another_version_keep_its_name(net: str) -> None:
    typed("prune", net, "--sparsity", "0.5")
    more = typed("prune", net, "--sparsity", "0.9")
    same = typed("prune", "net-sparse50", "--sparsity", "0.9")
    assert same.stdout == more.stdout
    assert "these bytes are net-sparse90 already (magnitude pruning, sparsity=0.9 in every layer of " in same.stderr


def test_pruning_that_changes_nothing_is_refused_and_renames_nothing(net: str) -> None:
    typed("prune", net, "--sparsity", "0.9")
    refused = typed("prune", "net-sparse90", "--sparsity", "0.5")
    assert refused.exit_code != 0 and "net-sparse90" in typed("list").stdout
    assert "sparse50" not in typed("list").stdout
