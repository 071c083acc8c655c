"""DeepSparse under the engine contract, and what is particular to it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
from contract import EngineContract
from contract_models import Arrays, ContractModel

from enginebench_plugins import spec


class QuickReference(ContractModel):
    """The evaluator of the old `onnx` that DeepSparse allows takes seconds for a small convolution."""

    def reference(self, inputs: Mapping[str, Any]) -> Arrays:
        session = onnxruntime.InferenceSession(str(self.path), providers=["CPUExecutionProvider"])
        return dict(zip(self.outputs, session.run(list(self.outputs), dict(inputs)), strict=True))


class TestDeepSparse(EngineContract):
    plugin = "enginebench_plugins.deepsparse.plugin"

    def classifier(self, folder: Path) -> ContractModel:
        return QuickReference(**vars(super().classifier(folder)))

    def fixed_classifier(self, folder: Path) -> ContractModel:
        return QuickReference(**vars(super().fixed_classifier(folder)))

    def embedding(self, folder: Path) -> ContractModel:
        return QuickReference(**vars(super().embedding(folder)))

    def test_it_does_not_touch_the_file_it_was_given(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        before = model.path.read_bytes()
        self.infer(engine, model, 3, model.inputs_for(3, seed=1))
        assert model.path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [model.path]

    def test_operators_that_went_to_the_fallback_are_told(self, engine: spec.Engine, tmp_path: Path) -> None:
        whole, partly = self.classifier(tmp_path), self.embedding(tmp_path)
        with self.compiled(engine, whole.source(1), self.settings()) as compiled:
            assert compiled.effective().provider == spec.Readback("deepsparse", spec.Source.ENGINE_API)
        with self.compiled(engine, partly.source(1), self.settings()) as compiled:
            provider = compiled.effective().provider
            assert provider is not None
            assert "the rest onnxruntime" in str(provider.value)

    def test_streams_are_given_or_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        source = self.classifier(tmp_path).source(1)
        with self.compiled(engine, source, self.settings(cores=2, streams=2)) as compiled:
            assert compiled.effective().streams == spec.Readback(2, spec.Source.ENGINE_API)
        self.assert_refused(engine, tmp_path, cores=1, streams=2)

    def test_layers_name_tensors_of_the_model(self, engine: spec.Engine, tmp_path: Path) -> None:
        layers, _ = self.profile(engine, tmp_path, iterations=2)
        nodes = onnx.load(str(tmp_path / "classifier.onnx")).graph.node
        sources = [source for layer in layers for source in layer.source_nodes]
        assert {"c1", "c2", "logits"} <= set(sources) <= {name for node in nodes for name in node.output}
        assert len(sources) == len(set(sources)), "two layers claim one tensor"

    def test_a_dimension_left_open_is_refused_with_the_way_out(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        source = spec.ModelSource(model.path, model.format)
        with pytest.raises(spec.UnsupportedSettingsError, match="--shape"):
            engine.convert(engine.read(source), source)
