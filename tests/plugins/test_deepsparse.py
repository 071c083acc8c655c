"""DeepSparse under the engine contract, and what is particular to it."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

from enginebench_plugins import spec
from enginebench_plugins.engines.deepsparse.compiled import layers_of
from enginebench_plugins.engines.deepsparse.devices import import_deepsparse, missing
from enginebench_plugins.engines.deepsparse.network import restamp
from enginebench_plugins.testing import EngineContract
from enginebench_plugins.testing.contract_models import Arrays, ContractModel


class QuickReference(ContractModel):
    """The evaluator of the old `onnx` that DeepSparse allows takes seconds for a small convolution."""

    def reference(self, inputs: Mapping[str, Any]) -> Arrays:
        session = onnxruntime.InferenceSession(str(self.path), providers=["CPUExecutionProvider"])
        return dict(zip(self.outputs, session.run(list(self.outputs), dict(inputs)), strict=True))


class TestDeepSparse(EngineContract):
    plugin = "enginebench_plugins.engines.deepsparse.plugin"

    def classifier(self, folder: Path) -> ContractModel:
        return QuickReference(**vars(super().classifier(folder)))

    def fixed_classifier(self, folder: Path, batch: int) -> ContractModel:
        return QuickReference(**vars(super().fixed_classifier(folder, batch)))

    def embedding(self, folder: Path) -> ContractModel:
        return QuickReference(**vars(super().embedding(folder)))

    def test_it_does_not_touch_the_file_it_was_given(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        before = model.path.read_bytes()
        self.infer(engine, model, 3, model.inputs_for(3, seed=1))
        assert model.path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [model.path]

    def test_a_newer_stamp_on_what_it_knows_is_lowered_and_told(self, engine: spec.Engine, tmp_path: Path) -> None:
        given, newer = self.classifier(tmp_path), tmp_path / "newer.onnx"
        model = onnx.load(str(given.path))
        model.ir_version = 11
        model.opset_import[0].version = 21
        model.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 5))
        onnx.save(model, str(newer))
        restamped = replace(given, path=newer)
        inputs = restamped.inputs_for(2, seed=1)
        (outputs,) = self.infer(engine, restamped, 2, inputs)
        self.assert_same(outputs, restamped.reference(inputs))
        with self.compiled(engine, restamped.source(2), self.settings()) as compiled:
            assert compiled.effective().prepared == (
                "operator set ONNX 21 restamped as 18, which computes these nodes alike",
                "operator set ai.onnx.ml 5 left out, for no node uses it",
                "IR version 11 restamped as 9",
            )

    def test_a_model_that_it_reads_is_given_as_it_is(self, engine: spec.Engine, tmp_path: Path) -> None:
        with self.compiled(engine, self.classifier(tmp_path).source(1), self.settings()) as compiled:
            assert compiled.effective().prepared == ()

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
        profile, _ = self.profile(engine, tmp_path, iterations=2)
        layers = profile.layers
        nodes = onnx.load(str(tmp_path / "classifier.onnx")).graph.node
        sources = [source for layer in layers for source in layer.source_nodes]
        assert {"c1", "c2", "logits"} <= set(sources) <= {name for node in nodes for name in node.output}
        assert len(sources) == len(set(sources)), "two layers claim one tensor"

    def test_a_dimension_left_open_is_refused_with_the_way_out(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        source = spec.ModelSource(model.path, model.format)
        with pytest.raises(spec.UnsupportedSettingsError, match="--shape"):
            engine.convert(engine.read(source), source)

    def test_the_instructions_are_those_of_the_processor(self, engine: spec.Engine, tmp_path: Path) -> None:
        with self.compiled(engine, self.classifier(tmp_path).source(1), self.settings()) as compiled:
            isa = compiled.effective().isa
        assert isa is not None
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        assert isa.value.split()[0] in flags
        assert ("vnni" in isa.value) <= ("vnni" in flags)

    def test_several_streams_and_the_scheduler_for_one_are_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        self.assert_refused(engine, tmp_path, cores=2, streams=2, options={"scheduler": "single_stream"})

    def test_what_only_an_analysis_has_is_refused_in_a_benchmark(self, engine: spec.Engine, tmp_path: Path) -> None:
        for option in ({"optimization_level": 0}, {"imposed_sparsity": 0.5}):
            self.assert_refused(engine, tmp_path, options=option)
        for sparsity in (-0.1, 1.5):
            self.assert_refused(engine, tmp_path, options={"imposed_sparsity": sparsity}, profiling=True)

    def test_imposed_sparsity_is_that_of_the_layers_kernels(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        options: dict[str, spec.OptionValue] = {"optimization_level": 0}
        seen = []
        for sparsity in (0.0, 0.9):
            settings = self.settings(options=options | {"imposed_sparsity": sparsity}, profiling=True)
            with self.compiled(engine, model.source(1), settings) as compiled:
                profile = compiled.profile([model.inputs_for(1, seed=1)], 1)
            assert len(profile.latency_ns) == 1
            told = [layer.parameters.get("kernel_sparsity") for layer in profile.layers]
            seen.append([float(one) for one in told if one is not None])
        # Which kernel a layer gets depends on the machine, and an FFT's has none; one of three is sparse everywhere.
        assert all(one < 0.01 for one in seen[0])
        assert seen[1] and all(0.85 < one < 0.95 for one in seen[1])

    @pytest.mark.parametrize("scheduler", ["single_stream", "multi_stream", "elastic"])
    def test_every_scheduler_infers_and_profiles(self, engine: spec.Engine, tmp_path: Path, scheduler: str) -> None:
        model = self.classifier(tmp_path)
        inputs = model.inputs_for(1, seed=1)
        settings = self.settings(options={"scheduler": scheduler}, profiling=True)
        with self.compiled(engine, model.source(1), settings) as compiled:
            request = compiled.create_request()
            self.assert_same(request.infer(inputs), model.reference(inputs))
            request.close()
            assert all(len(layer.time_ns) == 2 for layer in compiled.profile([inputs], 2).layers)


def _record(name: str, time_ms: float, origins: str = "<none>", size: int = 1) -> dict[str, Any]:
    dims = dict.fromkeys(("batches", "channels", "z", "y", "x"), size)
    return {"name": name, "average_run_time_in_ms": time_ms, "canonical_name": origins, "output_dims": dims}


@pytest.mark.parametrize(
    "node",
    [
        onnx.helper.make_node("Gelu", ["x"], ["y"]),
        onnx.helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=1),
        onnx.helper.make_node("DequantizeLinear", ["x", "s"], ["y"], block_size=2),
        onnx.helper.make_node("DFT", ["x", "n", "axis"], ["y"]),
    ],
    ids=lambda node: node.op_type,
)
@pytest.mark.parametrize("in_a_body", [False, True])
def test_a_stamp_stays_where_an_operator_is_truly_newer(node: onnx.NodeProto, *, in_a_body: bool) -> None:
    nodes = [node]
    if in_a_body:
        branch = onnx.helper.make_graph([node], "branch", [], [])
        nodes = [onnx.helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch)]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [], []), ir_version=8)
    model.opset_import[0].version = 21
    assert restamp(model) == ()
    assert model.opset_import[0].version == 21


@pytest.mark.parametrize(
    ("operator", "given", "lowered"),
    [("Cast", 19, 18), ("Cast", 20, 18), ("DeformConv", 20, 19), ("DeformConv", 19, 19)],
)
def test_a_stamp_is_lowered_to_the_set_that_it_has_kernels_for(operator: str, given: int, lowered: int) -> None:
    """Set 19 is read, but Cast, which DeepSparse leaves to its fallback, has no kernel there."""
    node = onnx.helper.make_node(operator, ["x", "w", "o"][: 1 if operator == "Cast" else 3], ["y"])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], []), ir_version=8)
    model.opset_import[0].version = given
    assert bool(restamp(model)) == (given != lowered)
    assert model.opset_import[0].version == lowered


def test_a_type_that_no_older_version_has_keeps_every_stamp() -> None:
    int4 = onnx.TensorProto(name="w", data_type=22, dims=[2], raw_data=b"\x21")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Cast", ["w"], ["y"], to=1)], "g", [], [], [int4])
    model = onnx.helper.make_model(graph, ir_version=10)
    model.opset_import[0].version = 21
    assert restamp(model) == ()
    assert model.ir_version == 10


def test_layers_of_analyses_are_joined_by_their_place() -> None:
    runs = [[_record("Naive Subgraph 0", ms, size=-1), _record("sub_2_1", 2 * ms, "a,b")] for ms in (0.25, 0.5)]
    fallback, layer = layers_of(runs)
    assert (fallback.type, fallback.output_shapes, fallback.source_nodes) == ("ORT", (), ())
    assert (layer.type, layer.output_shapes, layer.source_nodes) == ("sub_2", ((1, 1, 1, 1, 1),), ("a", "b"))
    assert fallback.time_ns == (250_000, 500_000)
    assert layer.time_ns == (500_000, 1_000_000)


def test_a_layers_number_and_sparsity_are_no_part_of_its_type() -> None:
    (layer,) = layers_of([[_record("ks_convolution-89.9%_41", 1.0, "r1")]])
    assert (layer.type, layer.kernel) == ("ks_convolution", "ks_convolution-89.9%")


def test_constants_are_told_once_and_measured_values_as_the_mean() -> None:
    calls = [
        _record("conv_0", 1.0, "a") | {"kernel_sparsity": 0.9, "average_utilization": share, "kernel_dims": {"x": 3}}
        for share in (0.2, 0.4)
    ]
    (layer,) = layers_of([[call] for call in calls])
    assert layer.parameters == {"kernel_sparsity": "0.9", "average_utilization": "0.3", "kernel_dims": "x=3"}


def test_a_tensor_that_deepsparse_put_in_belongs_to_the_node_that_reads_what_it_is_named_after() -> None:
    runs = [[_record("softmax_0", 1.0, "r65_internal_b"), _record("pooling_1", 1.0, "r65,,other_internal_a")]]
    softmax, pooling = layers_of(runs, {"r65": "softmax"})
    assert (softmax.source_nodes, pooling.source_nodes) == (("softmax",), ("r65",))


def test_layers_that_share_a_name_are_told_apart() -> None:
    assert [layer.name for layer in layers_of([[_record("gemm_0", 1.0)] * 2])] == ["gemm_0#0", "gemm_0#1"]


def test_an_absent_package_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepsparse", None)
    with pytest.raises(spec.EngineUnavailableError, match="environment add deepsparse --engine deepsparse") as caught:
        import_deepsparse()
    assert not caught.value.installed


def test_a_python_too_new_is_told_to_bring_another() -> None:
    assert "--python" not in missing((3, 11))
    assert "supports Python < 3.12, and this is 3.12" in missing((3, 12))
    assert "supports Python < 3.12, and this is 3.13" in missing((3, 13))
    assert "--python PATH" in missing((3, 13))
