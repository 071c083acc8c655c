"""LiteRT under the engine contract, and what is particular to it."""

import sys
from pathlib import Path

import numpy as np
import pytest
import tflite_models

from enginebench_plugins import spec
from enginebench_plugins.engines.litert.compiled import output_places
from enginebench_plugins.engines.litert.plugin import TFLITE, import_interpreter
from enginebench_plugins.testing import EngineContract
from enginebench_plugins.testing.contract_models import ContractModel


class TestLiteRt(EngineContract):
    plugin = "enginebench_plugins.engines.litert.plugin"

    def classifier(self, folder: Path) -> ContractModel:
        return tflite_models.classifier(folder)

    def fixed_classifier(self, folder: Path, batch: int) -> ContractModel:
        return tflite_models.classifier(folder, batch)

    def embedding(self, folder: Path) -> ContractModel:
        return tflite_models.embedding(folder)

    def test_it_tells_who_computes_and_in_what(self, engine: spec.Engine, tmp_path: Path) -> None:
        with self.compiled(engine, self.classifier(tmp_path).source(1), self.settings()) as compiled:
            told = compiled.effective()
        assert told.provider == spec.Readback("XNNPACK", spec.Source.ENGINE_API)
        assert told.precision == spec.Readback("f32", spec.Source.ASSUMED)
        assert told.threads is None, "it tells none, so they are observed"

    def test_a_batch_that_the_file_fixes_is_another_only_where_a_shape_says_so(
        self, engine: spec.Engine, tmp_path: Path
    ) -> None:
        model = self.fixed_classifier(tmp_path, 2)
        nothing_given = spec.ModelSource(model.path, model.format)
        with (
            pytest.raises(spec.UnsupportedSettingsError, match="no input of this model has the batch 3: image is 2x24"),
            self.compiled(engine, nothing_given, self.settings(batch=3)),
        ):
            pass
        open_model = self.classifier(tmp_path)
        given = spec.ModelSource(model.path, model.format, open_model.at(3))
        with self.compiled(engine, given, self.settings(batch=3)) as compiled:
            outputs = compiled.create_request().infer(open_model.inputs_for(3, seed=1))
        self.assert_same(outputs, open_model.reference(open_model.inputs_for(3, seed=1)))

    def test_a_shape_that_the_model_cannot_have_is_refused_with_what_litert_says(
        self, engine: spec.Engine, tmp_path: Path
    ) -> None:
        model = self.classifier(tmp_path)
        source = spec.ModelSource(model.path, model.format, (spec.TensorSpec("image", "float32", (1, 24, 24, 5)),))
        with (
            pytest.raises(spec.UnsupportedSettingsError, match="does not run with image=1x24x24x5: "),
            self.compiled(engine, source, self.settings()),
        ):
            pass

    def test_cores_are_shared_by_requests_in_flight(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        with self.requests(engine, model, 1, count=2, cores=2) as requests:
            inputs = [model.inputs_for(1, seed) for seed in (1, 2)]
            outputs = [request.infer(each) for request, each in zip(requests, inputs, strict=True)]
        for each, found in zip(inputs, outputs, strict=True):
            self.assert_same(found, model.reference(each))


def test_outputs_that_are_called_alike_are_told_apart() -> None:
    details = [{"name": name, "index": index} for index, name in enumerate(("y", "z", "y", "y"))]
    assert output_places(details, {}) == {"y": 0, "z": 1, "y:2": 2, "y:3": 3}
    assert output_places(details, {0: "logits", 3: "boxes"}) == {"logits": 0, "z": 1, "y": 2, "boxes": 3}


def test_a_file_of_noise_that_begins_as_a_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3" + np.random.default_rng(1).bytes(300))
    assert TFLITE.begins_in(path)
    with pytest.raises(Exception, match=r"\w"):
        import_interpreter()(model_content=path.read_bytes()).allocate_tensors()


def test_without_its_package_it_is_missing_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    monkeypatch.delitem(sys.modules, "ai_edge_litert.interpreter", raising=False)
    with pytest.raises(spec.EngineUnavailableError, match="environment add litert --engine litert"):
        import_interpreter()
