"""PyTorch under the engine contract, and what is particular to it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from contract import EngineContract

from enginebench_plugins import spec
from enginebench_plugins.torch.plugin import Torch

INPUT = spec.TensorSpec("x", "float32", (2, 3))
TENSORS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}


class TestTorch(EngineContract):
    plugin = "enginebench_plugins.torch.plugin"


class Twice(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.linear(x)
        return y, 2 * y


@pytest.fixture
def network() -> Twice:
    torch.manual_seed(0)
    return Twice().eval()


def _saved(network: Twice, folder: Path, kind: spec.ModelFormat) -> Path:
    example = (torch.from_numpy(TENSORS["x"]),)
    if kind is spec.ModelFormat.TORCHSCRIPT:
        path = folder / "net.pt"
        torch.jit.save(torch.jit.trace(network, example), str(path))
    else:
        path = folder / "net.pt2"
        torch.export.save(torch.export.export(network, example), str(path))
    return path


def _compiled(source: spec.ModelSource, **options: spec.OptionValue) -> spec.CompiledModel:
    engine = Torch()
    return engine.compile(engine.convert(engine.read(source), source), source, spec.Settings(options=options))


@pytest.mark.parametrize("kind", [spec.ModelFormat.TORCHSCRIPT, spec.ModelFormat.TORCH_EXPORT])
def test_saved_programs_run_with_the_inputs_given(network: Twice, tmp_path: Path, kind: spec.ModelFormat) -> None:
    source = spec.ModelSource(_saved(network, tmp_path, kind), kind, (INPUT,))
    compiled = _compiled(source)
    request = compiled.create_request()
    outputs = request.infer(TENSORS)
    expected = network(torch.from_numpy(TENSORS["x"]))[0].detach().numpy()
    np.testing.assert_allclose(outputs["output_0"], expected, rtol=1e-5)
    np.testing.assert_allclose(outputs["output_1"], 2 * expected, rtol=1e-5)
    precision = compiled.effective().precision
    assert precision is not None and precision.value == "f32"
    with pytest.raises(spec.UnsupportedSettingsError, match="without layers"):
        compiled.profile([TENSORS], 1)
    request.close()
    compiled.close()


def test_a_saved_program_without_inputs_asks_for_them(network: Twice, tmp_path: Path) -> None:
    source = spec.ModelSource(_saved(network, tmp_path, spec.ModelFormat.TORCHSCRIPT), spec.ModelFormat.TORCHSCRIPT)
    with pytest.raises(spec.UnsupportedSettingsError, match="--shape"):
        _compiled(source)


def test_onednn_can_be_left_out_and_the_provider_tells(network: Twice, tmp_path: Path) -> None:
    path = _saved(network, tmp_path, spec.ModelFormat.TORCHSCRIPT)
    source = spec.ModelSource(path, spec.ModelFormat.TORCHSCRIPT, (INPUT,))
    providers = []
    for mkldnn in (True, False):
        provider = _compiled(source, mkldnn=mkldnn).effective().provider
        providers.append(provider.value if provider else None)
    assert providers == ["cpu (oneDNN)", "cpu"]


def test_precision_is_observed_once_an_inference_has_run(tmp_path: Path) -> None:
    contract = TestTorch()
    model = contract.classifier(tmp_path)
    with contract.compiled(Torch(), model.source(1), contract.settings()) as compiled:
        before = compiled.effective().precision
        compiled.create_request().infer(model.inputs_for(1, seed=1))
        after = compiled.effective().precision
    assert before is not None and before.source is spec.Source.ASSUMED
    assert after == spec.Readback("f32", spec.Source.OBSERVED)
