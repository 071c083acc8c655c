"""The zoo is the same everywhere, and its outputs depend on its inputs."""

import hashlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from enginebench_controller.errors import ModelError
from enginebench_controller.models.formats.description import describe
from enginebench_controller.models.inputs.binding import bind
from enginebench_controller.models.inputs.values import seeded_inputs
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.models.zoo import ZOO, ZooModel, build_bytes, zoo_model

ARCHITECTURE = {
    # (convolutions, millions of weights), as published; batch norms count with mean and variance
    "resnet50": (53, 25.6),
    "squeezenet": (26, 1.24),
    "mobilenet_v2": (52, 3.5),
    "bert-tiny": (0, 4.4),
}


@pytest.fixture(scope="module", params=list(ZOO))
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[ZooModel, Path]:
    model = ZOO[request.param]
    path = tmp_path_factory.mktemp("zoo") / "model.onnx"
    path.write_bytes(build_bytes(model))  # raises when the digest is not the committed one
    return model, path


@pytest.mark.slow
def test_two_builds_are_the_same_bytes_and_those_committed(built: tuple[ZooModel, Path]) -> None:
    model, path = built
    assert hashlib.sha256(path.read_bytes()).hexdigest() == model.digest
    if model.name != "resnet50":  # the second build would say nothing new and takes seconds
        assert build_bytes(model) == path.read_bytes()


@pytest.mark.slow
def test_it_is_the_published_architecture_in_a_form_all_engines_read(built: tuple[ZooModel, Path]) -> None:
    model, path = built
    graph = onnx.load(path)
    onnx.checker.check_model(graph, full_check=True)
    assert [(entry.domain, entry.version) for entry in graph.opset_import] == [("", 13)]
    assert graph.ir_version == 8
    names = [node.name for node in graph.graph.node]
    assert all(names)
    assert len(set(names)) == len(names)
    assert all(value.type.tensor_type.shape.dim[0].dim_param == "batch" for value in graph.graph.input)
    convolutions = sum(node.op_type == "Conv" for node in graph.graph.node)
    millions = sum(int(np.prod(tensor.dims)) for tensor in graph.graph.initializer) / 1e6
    assert (convolutions, millions) == (
        ARCHITECTURE[model.name][0],
        pytest.approx(ARCHITECTURE[model.name][1], rel=0.02),
    )


@pytest.mark.slow
def test_outputs_depend_on_the_input_and_not_on_the_neighbours_in_the_batch(built: tuple[ZooModel, Path]) -> None:
    _, path = built
    inputs = seeded_inputs(bind(describe(path), 2).inputs, seed=4)
    session = onnxruntime.InferenceSession(path)
    both = session.run(None, inputs)
    second = session.run(None, {name: array[1:] for name, array in inputs.items()})
    for together, alone in zip(both, second, strict=True):
        scale = np.abs(together).max()
        assert 0.3 < together.std() < 10
        assert np.abs(together[0] - together[1]).max() > 0.05 * scale
        np.testing.assert_allclose(together[1:], alone, rtol=0, atol=1e-4 * scale)


def test_the_library_builds_a_zoo_model_when_it_is_first_asked_for(library: ModelLibrary) -> None:
    version = library.resolve("zoo:squeezenet")
    assert (version.name, version.digest) == ("zoo:squeezenet", ZOO["squeezenet"].digest)
    assert library.resolve("zoo:squeezenet") == version
    library.main_path(version).unlink()
    assert library.resolve("zoo:squeezenet") == version and library.main_path(version).is_file(), "and put back"
    assert library.versions() == [version]


def test_other_bytes_than_the_committed_ones_are_refused() -> None:
    drifted = ZooModel("squeezenet", "0" * 64, ZOO["squeezenet"].build)
    with pytest.raises(ModelError, match="zoo:squeezenet came out with other bytes"):
        build_bytes(drifted)


def test_an_unknown_zoo_model_brings_the_nearest_name() -> None:
    with pytest.raises(ModelError, match="did you mean zoo:bert-tiny"):
        zoo_model("zoo:bert_tiny")
    with pytest.raises(ModelError, match="it has zoo:resnet50"):
        zoo_model("zoo:gpt")
