"""Saved PyTorch programs are counted by PyTorch, in a process of its own, and only where somebody vouches for them."""

import importlib.util
from pathlib import Path

import pytest

from enginebench_controller.errors import ModelError
from enginebench_controller.graph.flops.saved_programs import count_program
from enginebench_controller.records import InputTensor

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

INPUTS = (InputTensor("x", "float32", (2, 3, 8, 8)),)
MACS = 2 * 4 * 8 * 8 * 27 + 2 * 256 * 5
"""3×3 from 3 to 4 channels over 8² in both items, then 256 → 5."""


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.fc = torch.nn.Linear(256, 5)
        torch.nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).flatten(1))


def saved(folder: Path, kind: str) -> Path:
    network, example = Network().eval(), torch.rand(2, 3, 8, 8)
    if kind == "torchscript":
        torch.jit.save(torch.jit.trace(network, example), path := folder / "model.pt")
    else:
        torch.export.save(torch.export.export(network, (example,)), path := folder / "model.pt2")
    return path


@pytest.mark.parametrize("kind", ["torchscript", "torch_export"])
def test_the_products_parameters_and_zeros_of_a_saved_program(tmp_path: Path, kind: str) -> None:
    cost = count_program(saved(tmp_path, kind), kind, INPUTS, trusted=True)
    assert cost.macs == MACS
    assert sum(cost.macs_by_operator.values()) == MACS
    assert (cost.parameters, cost.nonzero_parameters) == (112 + 1285, 112 + 1280)
    assert cost.weight_bytes == 4 * cost.parameters
    assert "aten.relu" in cost.uncounted_operators
    assert not set(cost.uncounted_operators) & set(cost.macs_by_operator)


class Bilinear(torch.nn.Module):
    def forward(self, x, y):
        return x @ y


def test_a_program_exported_with_keywords_is_counted_with_them(tmp_path: Path) -> None:
    keywords = {"y": torch.rand(8, 5), "x": torch.rand(2, 8)}
    torch.export.save(torch.export.export(Bilinear(), (), keywords), tmp_path / "model.pt2")
    inputs = (InputTensor("x", "float32", (2, 8)), InputTensor("y", "float32", (8, 5)))
    assert count_program(tmp_path / "model.pt2", "torch_export", inputs, trusted=True).macs == 2 * 8 * 5


def test_a_program_that_nobody_vouches_for_is_not_loaded(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="give --trust"):
        count_program(tmp_path / "absent.pt", "torchscript", INPUTS, trusted=False)


def test_without_pytorch_the_remedy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r'pip install "enginebench\[torch\]", or export the model to ONNX'):
        count_program(tmp_path / "model.pt", "torchscript", INPUTS, trusted=True)


def test_an_input_that_does_not_fit_is_told_in_pytorchs_words(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be counted: .*channels"):
        count_program(
            saved(tmp_path, "torchscript"), "torchscript", (InputTensor("x", "float32", (2, 9, 8, 8)),), trusted=True
        )
