"""OpenVINO IR with FP16 weights: a child that computes the same, made once, and never by running untrusted code."""

import sys
from pathlib import Path

import numpy as np
import openvino
import pytest
import torch
from tiny_models import save, tiny_classifier

from enginebench_controller.errors import ModelError
from enginebench_controller.models.derive import convert
from enginebench_controller.models.derive.convert import convert_to_ir
from enginebench_controller.models.formats.description import describe
from enginebench_controller.models.inputs.shapes import parse_shapes
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.records import Derivation, DerivationKind, ModelVersion
from enginebench_plugins import spec
from enginebench_plugins.engines.openvino.plugin import OpenVino
from enginebench_plugins.engines.torch.plugin import Torch
from enginebench_plugins.testing import compiled

X = np.random.default_rng(0).standard_normal((2, 3, 4, 4)).astype("f")
SHAPES = parse_shapes({"picture": "1x3x4x4"})


@pytest.fixture
def library(tmp_path: Path) -> ModelLibrary:
    return ModelLibrary(tmp_path / "models")


@pytest.fixture
def onnx_version(library: ModelLibrary, tmp_path: Path) -> ModelVersion:
    return library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))


def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.Flatten(), torch.nn.Linear(8, 5)).eval()


@pytest.fixture(params=["pt", "pt2"])
def program(request: pytest.FixtureRequest, library: ModelLibrary, tmp_path: Path) -> ModelVersion:
    path = tmp_path / f"net.{request.param}"
    if request.param == "pt":
        torch.jit.save(torch.jit.trace(module(), torch.zeros(1, 3, 4, 4)), path)
    else:
        batch = ({0: torch.export.Dim("batch")},)
        torch.export.save(torch.export.export(module(), (torch.zeros(2, 3, 4, 4),), dynamic_shapes=batch), path)
    return library.add(path)


def computed(library: ModelLibrary, version: ModelVersion) -> np.ndarray:
    return openvino.Core().compile_model(str(library.main_path(version)), "CPU")([X])[0]


@pytest.mark.slow
def test_the_child_computes_the_same_with_weights_half_the_size(
    library: ModelLibrary, onnx_version: ModelVersion
) -> None:
    child = convert_to_ir(library, onnx_version)
    np.testing.assert_allclose(computed(library, child), computed(library, onnx_version), rtol=0.01, atol=0.02)
    weights = next(file for file in child.files if file.name == "model.bin")
    assert weights.size_bytes < 0.6 * 4 * (4 * 27 + 64 * 5)
    assert (child.format, child.name) == ("openvino_ir", "tiny-ir-fp16")
    assert (child.parent_digest, str(child.derivation)) == (onnx_version.digest, "OpenVINO IR, FP16 weights")


@pytest.mark.slow
def test_names_and_the_open_batch_stay(library: ModelLibrary, onnx_version: ModelVersion) -> None:
    described = describe(library.main_path(convert_to_ir(library, onnx_version)))
    assert [(one.name, one.dims) for one in described.inputs] == [("x", (None, 3, 4, 4))]
    assert [one.name for one in described.outputs] == ["y"]


@pytest.mark.slow
def test_it_is_made_once(library: ModelLibrary, onnx_version: ModelVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    child = convert_to_ir(library, onnx_version)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert convert_to_ir(library, onnx_version) == child


@pytest.mark.slow
def test_a_trusted_program_is_converted_under_the_names_given(library: ModelLibrary, program: ModelVersion) -> None:
    child = convert_to_ir(library, program, SHAPES, trusted=True)
    described = describe(library.main_path(child))
    assert [one.name for one in described.inputs] == ["picture"]
    assert [one.name for one in described.outputs] == ["output_0"]
    with torch.no_grad():
        expected = module()(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(computed(library, child), expected, rtol=0.01, atol=0.02)


@pytest.mark.slow
def test_a_copy_from_before_outputs_were_named_as_in_the_program_is_not_taken(
    library: ModelLibrary, program: ModelVersion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Derivation(DerivationKind.CONVERTED, said="picture=float32:?x3x4x4")
    library.add(save(tiny_classifier(), tmp_path / "before.onnx"), parent=program.digest, derivation=before)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ModelError, match="cannot be converted"):
        convert_to_ir(library, program, SHAPES, trusted=True)


class Subtracting(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y


@pytest.mark.slow
def test_inputs_given_by_the_names_of_the_program_find_their_places(library: ModelLibrary, tmp_path: Path) -> None:
    keywords = {"y": torch.zeros(1, 3), "x": torch.zeros(1, 3)}
    torch.export.save(torch.export.export(Subtracting(), (), keywords), tmp_path / "net.pt2")
    version = library.add(tmp_path / "net.pt2")
    child = convert_to_ir(library, version, parse_shapes({"x": "1x3", "y": "1x3"}), trusted=True)
    network = openvino.Core().compile_model(str(library.main_path(child)), "CPU")
    found = network({"x": np.full((1, 3), 3, "f"), "y": np.ones((1, 3), "f")})[0]
    np.testing.assert_array_equal(found, np.full((1, 3), 2, "f"))


class Keyed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, object]:
        return {"scores": x + 1, "past": ({"key": x * 2}, None, [x * 3])}


class Nested(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, tuple[torch.Tensor]]]:
        return x + 1, (x * 2, (x * 3,))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["keyed.pt2", "nested.pt2", "nested.pt"])
def test_outputs_are_named_as_the_programs_own_engine_names_them(
    library: ModelLibrary, tmp_path: Path, kind: str
) -> None:
    network, example, path = Keyed() if kind == "keyed.pt2" else Nested(), (torch.zeros(1, 3),), tmp_path / kind
    if path.suffix == ".pt2":
        torch.export.save(torch.export.export(network, example), path)
    else:
        torch.jit.save(torch.jit.trace(network, example), path)
    version = library.add(path)
    child = convert_to_ir(library, version, parse_shapes({"x": "1x3"}), trusted=True)
    ones, found = np.ones((1, 3), "f"), {}
    for one, engine in ((version, Torch()), (child, OpenVino())):
        source = spec.ModelSource(
            library.main_path(one), spec.ModelFormat(one.format), (spec.TensorSpec("x", "float32", (1, 3)),)
        )
        outputs = compiled(engine, source).create_request().infer({"x": ones})
        found[one.format] = {name: array.tolist() for name, array in outputs.items()}
    assert found[version.format] == found[child.format]


@pytest.mark.slow
def test_an_untrusted_program_is_not_loaded(library: ModelLibrary, program: ModelVersion) -> None:
    with pytest.raises(ModelError, match="can run any code when it is loaded; give --trust"):
        convert_to_ir(library, program, SHAPES)


@pytest.mark.slow
def test_a_program_needs_its_inputs_named(library: ModelLibrary, program: ModelVersion) -> None:
    with pytest.raises(ModelError, match="does not tell its inputs"):
        convert_to_ir(library, program, trusted=True)


@pytest.mark.slow
def test_the_converters_own_words_are_told(library: ModelLibrary, onnx_version: ModelVersion) -> None:
    library.main_path(onnx_version).write_bytes(b"no model any more")
    with pytest.raises(ModelError, match="tiny cannot be converted to OpenVINO IR: ") as caught:
        convert_to_ir(library, onnx_version)
    assert "ended with code" not in str(caught.value)


def test_a_converter_that_never_ends_is_stopped(library: ModelLibrary, onnx_version: ModelVersion) -> None:
    with pytest.raises(ModelError, match="was not converted within 0 s"):
        convert_to_ir(library, onnx_version, time_limit_s=0.01)


def test_a_missing_openvino_is_told_with_the_remedy(
    library: ModelLibrary, onnx_version: ModelVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModelError, match=r"pip install \"enginebench\[openvino\]\""):
        convert_to_ir(library, onnx_version)


@pytest.mark.slow
def test_an_ir_is_no_source(library: ModelLibrary, onnx_version: ModelVersion) -> None:
    child = convert_to_ir(library, onnx_version)
    with pytest.raises(ModelError, match="is an OpenVINO IR already"):
        convert_to_ir(library, child)
