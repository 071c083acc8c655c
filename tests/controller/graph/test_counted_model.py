"""A model is counted without being run, as a profile of it would count it."""

from dataclasses import replace

import pytest
from tiny_models import save, tiny_classifier

import invented_profiles
from enginebench_controller.errors import ModelError
from enginebench_controller.graph.analysis import SourceAnalysis, counted_model
from enginebench_controller.records import Configuration, InputTensor


def test_every_node_has_its_work_and_the_model_its_totals(tmp_path):
    found = counted_model(save(tiny_classifier(), tmp_path / "model.onnx"))

    assert [(node.name, node.op_type) for node in found.nodes][:3] == [
        ("conv", "Conv"), ("bn", "BatchNormalization"), ("relu", "Relu"),
    ]  # fmt: skip
    conv, fc = found.nodes[0], found.nodes[-1]
    assert (conv.macs, conv.flops, conv.parameters) == (4 * 16 * 27, 2 * 4 * 16 * 27, 4 * 27)
    assert fc.macs == 64 * 5
    assert (found.batch, found.work.macs) == (1, conv.macs + fc.macs)
    assert {node.group for node in found.nodes} == {None}


def test_it_counts_for_the_batch_asked_for(tmp_path):
    path = save(tiny_classifier(), tmp_path / "model.onnx")

    assert counted_model(path, 4).work.macs == 4 * counted_model(path).work.macs


def test_a_profile_brings_the_same_nodes(tmp_path, library):
    version = library.add(save(tiny_classifier(), tmp_path / "model.onnx"))
    asked = Configuration("CPU", batch=2, cores=1, inputs=(InputTensor("x", "float32", (2, 3, 4, 4)),))
    profile = SourceAnalysis(library.file_paths).analysed(invented_profiles.profile(configuration=asked), version)

    found = counted_model(library.main_path(version), 2)
    assert found.work == profile.work
    assert found.nodes == tuple(replace(node, state="", group=None) for node in profile.nodes)


def test_a_file_that_is_no_model_is_a_sentence(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x00not a model")

    with pytest.raises(ModelError, match=r"model\.onnx"):
        counted_model(path)
