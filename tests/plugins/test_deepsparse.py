"""DeepSparse. Needs the interpreter of an environment that has it; `make test` runs this module there."""

from pathlib import Path

import onnx
import pytest
from contract import EngineContract

from enginebench_plugins import spec


class TestDeepSparse(EngineContract):
    plugin = "enginebench_plugins.deepsparse.plugin"

    def test_it_does_not_touch_the_file_it_was_given(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        before = model.path.read_bytes()
        self.infer(engine, model, 3, model.inputs_for(3, seed=1))
        assert model.path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [model.path], "the copy with closed shapes was left behind"

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
        tensors = {name for node in onnx.load(tmp_path / "classifier.onnx").graph.node for name in node.output}
        sources = [source for layer in layers for source in layer.source_nodes]
        assert {"c1", "c2", "logits"} <= set(sources) <= tensors
        assert len(sources) == len(set(sources)), "two layers claim one tensor"

    def test_a_dimension_left_open_is_refused_with_the_way_out(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        source = spec.ModelSource(model.path, model.format)
        with pytest.raises(spec.UnsupportedSettingsError, match="--shape"):
            engine.convert(engine.read(source), source)
