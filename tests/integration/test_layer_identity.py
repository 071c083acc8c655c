"""Layers of real engines are matched to the nodes of a real architecture, and to each other."""

import importlib
from pathlib import Path

import onnx
import pytest

from enginebench_controller.graph.matching.graph_to_graph import correspond
from enginebench_controller.graph.matching.layers_to_nodes import match_layers
from enginebench_controller.graph.matching.matched import MatchedProfile
from enginebench_controller.graph.matching.profile_to_profile import join
from enginebench_controller.graph.reading import read_source_graph
from enginebench_controller.models.derive.onnxruntime_int8 import quantized
from enginebench_controller.models.inputs.values import seeded_inputs
from enginebench_controller.models.zoo import build_bytes, zoo_model
from enginebench_controller.records import InputTensor
from enginebench_plugins import spec

ENGINES = ("onnxruntime", "openvino", "torch")
INPUT = InputTensor("input", "float32", (1, 3, 224, 224))
ITERATIONS = 5


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "squeezenet.onnx"
    path.write_bytes(build_bytes(zoo_model("squeezenet")))
    return path


@pytest.fixture(scope="module")
def int8_model(model: Path) -> Path:
    path = model.with_name("int8.onnx")
    (scratch := model.with_name("scratch")).mkdir()
    trials = [seeded_inputs([INPUT], seed) for seed in (0, 1)]
    onnx.save(quantized(onnx.load(model), trials, lambda: trials[:1], scratch), path)
    return path


@pytest.fixture(scope="module")
def profiles(model: Path) -> dict[str, MatchedProfile]:
    return {engine: profiled(engine, model) for engine in ENGINES}


def profiled(engine_name: str, path: Path) -> MatchedProfile:
    """What a worker does for a profile, and what the controller makes of it."""
    engine = importlib.import_module(f"enginebench_plugins.engines.{engine_name}.plugin").enginebench_engine()
    tensor = spec.TensorSpec(INPUT.name, INPUT.dtype, INPUT.shape)
    source = spec.ModelSource(path, spec.ModelFormat.ONNX, (tensor,))
    compiled = engine.compile(engine.convert(engine.read(source), source), source, spec.Settings(profiling=True))
    try:
        layers = compiled.profile([seeded_inputs([INPUT], 0)], ITERATIONS).layers
    finally:
        compiled.close()
    graph = read_source_graph(path, {INPUT.name: INPUT.shape}, 1)
    return MatchedProfile(graph, layers, match_layers(graph, layers))


def convolutions(profile: MatchedProfile) -> list[int]:
    return [node.index for node in profile.graph.nodes if node.op_type == "Conv"]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engines_layers_are_matched_in_small_groups(profiles: dict[str, MatchedProfile], engine: str) -> None:
    profile = profiles[engine]
    matching = profile.matching
    assert matching.matched_ns > 0.9 * matching.total_ns
    assert matching.matched_ns + matching.unmatched_ns == matching.total_ns
    assert matching.largest_group_share < 0.15
    groups = {matching.group_of_node[node] for node in convolutions(profile)}
    assert None not in groups
    assert len(groups) == len(convolutions(profile))


@pytest.mark.parametrize("other", ["openvino", "torch"])
def test_engines_are_joined_layer_by_layer(profiles: dict[str, MatchedProfile], other: str) -> None:
    joined = join(profiles["onnxruntime"], profiles[other])
    assert all(share is not None and share > 0.9 for share in joined.coverage)
    assert joined.joined_rows >= len(convolutions(profiles[other]))
    assert joined.largest_share < 0.15


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_every_floating_convolution_is_joined_with_its_quantized_self(
    profiles: dict[str, MatchedProfile], int8_model: Path, engine: str
) -> None:
    floating, quantized_profile = profiles[engine], profiled(engine, int8_model)
    counterparts = correspond(floating.graph, quantized_profile.graph)
    joined = [row for row in join(floating, quantized_profile).rows if row.is_joined]
    for node in convolutions(floating):
        there = counterparts[node]
        assert quantized_profile.graph.nodes[there].name == floating.graph.nodes[node].name
        (row,) = [row for row in joined if node in row.sides[0].nodes]
        assert there in row.sides[1].nodes
        assert len(set(convolutions(floating)) & set(row.sides[0].nodes)) == 1
