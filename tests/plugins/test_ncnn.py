"""ncnn under the engine contract, and what is particular to it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from enginebench_plugins import spec
from enginebench_plugins.engines.ncnn.plugin import import_ncnn
from enginebench_plugins.testing import EngineContract, contract_models
from enginebench_plugins.testing.contract_models import Arrays, ContractModel

RAW = b"\0\0\0\0"
"""Before weights that are 32-bit floats."""


@dataclass(frozen=True)
class Net(ContractModel):
    """A .param and its .bin, made of an ONNX model."""

    original: ContractModel = None  # type: ignore[assignment]  # always given

    def reference(self, inputs: Mapping[str, Any]) -> Arrays:
        return self.original.reference(inputs)


def classifier(folder: Path, *, tells_shape: bool = True) -> ContractModel:
    original = contract_models.classifier(folder)
    weights = {one.name: numpy_helper.to_array(one) for one in onnx.load(str(original.path)).graph.initializer}
    channels, height, width = contract_models.IMAGE
    sizes = f"0={width} 1={height} 2={channels}" if tells_shape else ""
    stem, body, head = (weights[name].size for name in ("stem", "body", "head"))
    convolution = f"0={contract_models.CHANNELS} 1=3 4=1 5=0 9=1"
    layers = [
        f"Input input 0 1 image {sizes}",
        f"Convolution conv1 1 1 image r1 {convolution} 6={stem}",
        f"Convolution conv2 1 1 r1 r2 {convolution} 6={body}",
        "Split copies 1 2 r2 r2a r2b",
        "BinaryOp sum 2 1 r2a r2b twice 0=0",
        "BinaryOp half 1 1 twice r3 0=2 1=1 2=0.5",
        "Pooling pool 1 1 r3 pooled 0=1 4=1",
        f"InnerProduct gemm 1 1 pooled logits 0={contract_models.CLASSES} 1=1 2={head}",
    ]
    path = folder / "classifier.param"
    path.write_text("\n".join(["7767517", f"{len(layers)} 9", *layers]) + "\n")
    parts = [RAW, weights["stem"], RAW, weights["body"], RAW, weights["head"], weights["bias"]]
    path.with_suffix(".bin").write_bytes(b"".join(one if isinstance(one, bytes) else one.tobytes() for one in parts))
    image = spec.TensorSpec("image", "float32", (1, *contract_models.IMAGE))
    return Net(path, "ncnn", (image,), original.outputs, original)


class TestNcnn(EngineContract):
    plugin = "enginebench_plugins.engines.ncnn.plugin"

    def classifier(self, folder: Path) -> ContractModel:
        return classifier(folder)

    def fixed_classifier(self, folder: Path, batch: int) -> ContractModel:
        return classifier(folder)

    def test_a_shape_that_the_file_does_not_tell_has_to_be_given(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = classifier(tmp_path, tells_shape=False)
        with (
            pytest.raises(spec.UnsupportedSettingsError, match="shape of input image: give it, such as --shape image="),
            self.compiled(engine, spec.ModelSource(model.path, model.format), self.settings()),
        ):
            pass
        inputs = model.inputs_for(1, seed=1)
        (outputs,) = self.infer(engine, model, 1, inputs)
        self.assert_same(outputs, model.reference(inputs))

        without_batch = spec.TensorSpec("image", "float32", contract_models.IMAGE)
        source = spec.ModelSource(model.path, model.format, (without_batch,))
        with (
            pytest.raises(spec.UnsupportedSettingsError, match="image is one item: 1x3x24x24, and not 3x24x24"),
            self.compiled(engine, source, self.settings()),
        ):
            pass

    def test_a_profile_has_every_layer_with_the_tensors_between_them(self, engine: spec.Engine, tmp_path: Path) -> None:
        profile, _ = self.profile(engine, tmp_path, iterations=3)
        found = {layer.name: layer for layer in profile.layers}
        assert list(found) == ["conv1", "conv2", "copies", "sum", "half", "pool", "gemm"]
        assert (found["sum"].type, found["sum"].inputs, found["sum"].outputs) == (
            "BinaryOp",
            ("r2a", "r2b"),
            ("twice",),
        )
        assert found["conv1"].output_shapes == ((contract_models.CHANNELS, 24, 24),)
        assert found["gemm"].output_shapes == ((contract_models.CLASSES,),)
        sums = np.sum([layer.time_ns for layer in profile.layers], axis=0)
        assert np.all(sums <= profile.latency_ns)

    @pytest.mark.parametrize("wrong", ["cut", "unknown"])
    def test_what_ncnn_does_not_load_is_refused(self, engine: spec.Engine, tmp_path: Path, wrong: str) -> None:
        model = classifier(tmp_path)
        if wrong == "cut":
            model.path.with_suffix(".bin").write_bytes(b"\0" * 100)
        else:
            model.path.write_text(model.path.read_text().replace("Pooling", "Poodling"))
        with (
            pytest.raises(ValueError, match=r"ncnn does not load classifier\.(param|bin)"),
            self.compiled(engine, model.source(1), self.settings()),
        ):
            pass


def test_without_its_package_it_is_missing_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ncnn", None)
    with pytest.raises(spec.EngineUnavailableError, match="environment add ncnn --engine ncnn"):
        import_ncnn()
