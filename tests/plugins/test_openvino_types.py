"""What OpenVINO's element types become on the way in and out, those that NumPy does not have among them."""

from pathlib import Path

import ml_dtypes
import numpy as np
import openvino
import pytest
from openvino import opset15 as opset

from enginebench_plugins import spec
from enginebench_plugins.engines.openvino.plugin import OpenVino
from enginebench_plugins.testing import compiled


@pytest.mark.parametrize("load", [spec.Load.SYNC, spec.Load.ASYNC])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "f64", "i64", "i32", "u8", "boolean"])
def test_inputs_of_every_type_arrive(tmp_path: Path, name: str, shared: bool, load: spec.Load) -> None:
    element_type = getattr(openvino.Type, name)
    given = opset.parameter([2, 3], element_type, name="given")
    scalar = opset.parameter([], openvino.Type.i64, name="scalar")
    results = [opset.convert(given, "f32"), opset.convert(scalar, "f32")]
    path = tmp_path / "model.xml"
    openvino.save_model(openvino.Model(results, [given, scalar], "types"), path, compress_to_fp16=False)
    options = {"shared_memory": shared}
    network = compiled(OpenVino(), spec.ModelSource(path, spec.ModelFormat.OPENVINO_IR), load=load, options=options)
    request = network.create_request()
    for values in (np.array([[0, 1, 1], [1, 0, 1]], np.float32), np.array([[1, 0, 0], [0, 1, 0]], np.float32)):
        array = values.astype(ml_dtypes.bfloat16 if name == "bf16" else element_type.to_dtype())
        outputs = request.infer({"given": array, "scalar": np.array(values[0, 1], np.int64)})
        first, second = outputs.values()
        np.testing.assert_array_equal(first, values)
        assert second == values[0, 1]
    request.close()
    network.close()


def converting(tmp_path: Path, given: str, wanted: str) -> spec.ModelSource:
    x = opset.parameter([2, 2], getattr(openvino.Type, given), name="x")
    path = tmp_path / "model.xml"
    openvino.save_model(openvino.Model([opset.convert(x, wanted)], [x], "m"), path, compress_to_fp16=False)
    return spec.ModelSource(path, spec.ModelFormat.OPENVINO_IR)


@pytest.mark.parametrize("shared", [True, False])
def test_outputs_of_bfloat16_come_as_floats(tmp_path: Path, shared: bool) -> None:
    network = compiled(OpenVino(), converting(tmp_path, "f32", "bf16"), options={"shared_memory": shared})
    values = np.array([[1, 2.5], [-3, 2.0**100]], "f")
    (found,) = network.create_request().infer({"x": values}).values()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, values, rtol=2**-8)


@pytest.mark.parametrize(("kind", "told"), [("bf16", "bfloat16"), ("i4", "OpenVINO i4"), ("f16", "float16")])
def test_inputs_are_told_by_what_they_are(tmp_path: Path, kind: str, told: str) -> None:
    """NumPy takes "i4" for an int32."""
    (found,) = compiled(OpenVino(), converting(tmp_path, kind, "f32")).inputs
    assert found.dtype == told


@pytest.mark.parametrize("kind", ["i4", "u4", "f8e4m3"])
def test_outputs_that_numpy_has_no_type_for_are_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(spec.UnsupportedSettingsError, match=f"has the element type {kind}, which cannot be read"):
        compiled(OpenVino(), converting(tmp_path, "f32", kind))
