"""Layers are placed under the roofs of their own engine, cores and precision, and under no others."""

from dataclasses import replace

import pytest

import invented_profiles
from enginebench_controller.graph.roofline import Note, rooflines
from enginebench_controller.records import (
    Effective,
    EngineRef,
    Layer,
    LayerState,
    Peak,
    PeakKind,
    ProfileNode,
    Rate,
    Readback,
    ReadbackSource,
)

ENGINE = EngineRef("fake", "default", "1.0")


def peak(kind, rate, **fields):
    known = {"rate": Rate(rate, rate, rate, 9), "cpu_model": invented_profiles.profile().host.cpu_model}
    whole = Peak("local", ENGINE, "CPU", 2, kind, "work", 1, **known)
    return replace(whole, **fields)


PEAKS = (
    peak(PeakKind.FLOPS, 100e9, precision="f32"),
    peak(PeakKind.FLOPS, 300e9, precision="f32", may_be_winograd=True),
    peak(PeakKind.FLOPS, 400e9, precision="int8"),
    peak(PeakKind.BANDWIDTH, 10e9, working_set_bytes=2**20),
)


def layer(precision="f32", flops=50_000, data_bytes=1000, group=0, time_ns=(1000, 1000)):
    fixed = Layer("l", "Conv", 0, LayerState.EXECUTED, time_ns, 1, "jit", precision, (), ())
    return replace(fixed, flops=flops, data_bytes=data_bytes, group=group)


def placed(*layers, peaks=PEAKS, **fields):
    return rooflines(invented_profiles.profile(layers=layers, **fields), peaks)


def test_a_layer_is_held_against_the_peak_of_its_own_precision():
    f32, u8, odd = placed(layer("FP32"), layer("u8"), layer("f64"))
    assert (f32.share, u8.share, odd.share) == (pytest.approx(0.5), pytest.approx(0.125), None)
    assert f32.bound == "compute"
    assert odd.flops_per_s == pytest.approx(50e9)


def test_where_the_engine_does_not_tell_a_layers_precision_that_of_the_run_counts():
    effective = Effective(precision=Readback("f32", ReadbackSource.ENGINE_API))
    assert placed(layer(""), effective=effective)[0].share == pytest.approx(0.5)
    assert placed(layer(""), effective=Effective())[0].share is None


def test_what_runs_bodies_is_held_against_the_precision_of_the_run():
    """OpenVINO tells the type of an If's condition, and of a Loop's counter, which no product in a body has."""
    effective = Effective(precision=Readback("f32", ReadbackSource.ENGINE_API))
    for kind, told in (("If", "u8"), ("Loop", "i32"), ("TensorIterator", "i32"), ("Scan", "u8")):
        one = replace(layer(told), type=kind)
        assert placed(one, effective=effective)[0].share == pytest.approx(0.5), kind
        assert placed(one, effective=Effective())[0].share is None, kind


def test_a_stored_product_of_integers_that_was_told_by_its_output_is_held_against_the_int8_peak():
    engine = EngineRef("onnxruntime", "default", "1.0")
    peaks = [replace(one, engine=engine) for one in PEAKS]
    for kind, share in (("DynamicQuantizeMatMul", 0.125), ("MatMulIntegerToFloat", 0.125), ("MatMul", 0.5)):
        (place,) = placed(replace(layer("float"), type=kind), peaks=peaks, engine=engine)
        assert place.share == pytest.approx(share), kind
    (place,) = placed(replace(layer("float"), type="MatMulInteger"))
    assert place.share == pytest.approx(0.5), "another engine may compute it in floats, and then says so"


def nodes(*operators, **fields):
    return tuple(ProfileNode(at, f"n{at}", name, group=0, **fields) for at, name in enumerate(operators))


@pytest.mark.parametrize(
    ("engine", "operators", "has_roof"),
    [
        ("onnxruntime", ("Reshape",), False),
        ("openvino", ("Reshape", "Squeeze", "Identity", "Flatten", "Unsqueeze"), False),
        ("onnxruntime", ("Transpose", "Reshape"), True),
        ("onnxruntime", ("Slice",), True),
        ("torch", ("Slice",), False),
        ("torch", ("Transpose",), False),
        ("torch", ("Concat",), True),
    ],
)
def test_what_may_be_a_view_has_no_roof(engine, operators, has_roof):
    engine = EngineRef(engine, "default", "1.0")
    peaks = [replace(one, engine=engine) for one in PEAKS]
    (place,) = placed(layer(flops=0), peaks=peaks, engine=engine, nodes=nodes(*operators))
    assert (place.share is not None, place.bytes_per_s is not None) == (has_roof, has_roof)


def test_work_of_the_larger_branch_is_marked_and_explains_what_is_above_the_roof():
    bound = nodes("If", method="at most")
    above = layer(flops=200_000, time_ns=(1000, 1001))
    (place,) = placed(above, nodes=bound)
    assert place.share == pytest.approx(2.0, rel=0.01)
    assert place.notes == (Note.AT_MOST,) and not place.dense_equivalent
    (place,) = placed(above, nodes=nodes("If", method="counted"))
    assert place.notes == (Note.UNEXPLAINED,)


@pytest.mark.parametrize(
    "other",
    [
        {"target": "elsewhere"},
        {"cores": 1},
        {"device": "GPU"},
        {"engine": EngineRef("fake", "default", "2.0")},
        {"cpu_model": "Another 9000"},
        {"cpu_model": None},
    ],
)
def test_the_peaks_of_others_are_no_roofs(other):
    assert placed(layer(), peaks=[replace(one, **other) for one in PEAKS])[0].share is None


def test_a_layer_without_a_time_or_work_has_no_place():
    assert placed(*invented_profiles.layers()[1:], layer(flops=None, data_bytes=None)) == (None,) * 5


def test_only_a_plain_3x3_convolution_may_be_faster_than_products_by_winograd():
    plain = {"kernel_shape": (3, 3), "strides": (1, 1), "group": 1}
    for attributes, is_winograd in ((plain, True), ({**plain, "strides": (2, 2)}, False), ({"group": 1}, False)):
        node = ProfileNode(0, "conv", "Conv", attributes=attributes, group=0)
        (place,) = placed(layer(flops=200_000), nodes=(node,))
        assert place.share == pytest.approx(2.0)
        assert place.dense_equivalent is is_winograd
        assert (Note.WINOGRAD in place.notes) is is_winograd


def test_work_of_imposed_zeros_counts_as_dense_and_says_so():
    options = {"imposed_sparsity": "0.9"}
    configuration = replace(invented_profiles.profile().configuration, options=options)
    (place,) = placed(layer(), configuration=configuration)
    assert place.dense_equivalent and Note.SPARSE in place.notes
