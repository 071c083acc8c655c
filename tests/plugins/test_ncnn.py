"""ncnn under the engine contract, and what is particular to it."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from enginebench_plugins import spec
from enginebench_plugins.engines.ncnn.compiled import quantized
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


def classifier(folder: Path, *, tells_shape: bool = True, in_int8: Sequence[str] = ()) -> ContractModel:
    """With layers `in_int8` that ncnn computes in integers, as its ncnn2int8 writes them."""
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
    layers = [f"{layer} 8=1" if layer.split()[1] in in_int8 else layer for layer in layers]
    path = folder / "classifier.param"
    path.write_text("\n".join(["7767517", f"{len(layers)} 9", *layers]) + "\n")
    stored = {"conv1": ("stem",), "conv2": ("body",), "gemm": ("head", "bias")}
    path.with_suffix(".bin").write_bytes(
        b"".join(
            RAW
            + b"".join(weights[name].tobytes() for name in names)
            + (scales(weights[names[0]]) if layer in in_int8 else b"")
            for layer, names in stored.items()
        )
    )
    image = spec.TensorSpec("image", "float32", (1, *contract_models.IMAGE))
    return Net(path, "ncnn", (image,), original.outputs, original)


def scales(weight: np.ndarray) -> bytes:
    """What follows the weights of a layer in INT8, by which ncnn stores them so: theirs by channel, and the input's."""
    largest = np.abs(weight.reshape(len(weight), -1)).max(axis=1)
    return np.append(127 / largest, 20).astype(np.float32).tobytes()


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

    @pytest.mark.parametrize(
        ("in_int8", "word"), [(["conv1", "conv2", "gemm"], "int8"), (["conv2"], "int8 (1 of 3 products)"), ([], "f32")]
    )
    def test_layers_with_scales_are_told_as_int8(
        self, engine: spec.Engine, tmp_path: Path, in_int8: list[str], word: str
    ) -> None:
        model = classifier(tmp_path, in_int8=in_int8)
        with self.compiled(engine, model.source(1), self.settings()) as compiled:
            assert compiled.effective().precision == spec.Readback(word, spec.Source.ASSUMED)
            inputs = model.inputs_for(1, seed=1)
            outputs = compiled.create_request().infer(inputs)
        error = np.abs(outputs["logits"] - model.reference(inputs)["logits"]).max()
        assert (error > 1e-4) == bool(in_int8)  # what is said is what is done

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


@pytest.mark.parametrize(
    ("layer", "word"),
    [
        ("LSTM cells 1 1 a b 0=8 1=64 2=0 8=2", "int8"),
        ("Gemm sum 2 1 a b c 2=0 3=1 18=1", "int8"),
        ("Gemm sum 1 1 a c 2=0 3=1 18=802", None),  # weights alone, in blocks
        ("MatMul sum 2 1 a b c 8=1", None),
        ("Embed words 1 1 a b 18=1", None),  # looks up
        ("Convolution conv 1 1 18=1 8=1 0=4", None),  # blobs of such names
    ],
)
def test_which_parameter_says_int8_depends_on_the_layer(layer: str, word: str | None) -> None:
    assert quantized(f"7767517\n1 2\n{layer}\n") == word


def test_without_its_package_it_is_missing_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ncnn", None)
    with pytest.raises(spec.EngineUnavailableError, match="environment add ncnn --engine ncnn"):
        import_ncnn()
