"""Every ONNX operator in PyTorch, by the node tests that the ONNX project ships."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator

from enginebench_plugins import spec
from enginebench_plugins.engines.torch.dtypes import from_array, to_array
from enginebench_plugins.engines.torch.graph import convert_graph

pytestmark = pytest.mark.xdist_group("torch-operators")  # one worker tries all operators

NOT_COVERED = frozenset(
    {
        # Trees and text tables of classical machine learning, which ONNX Runtime runs and this does not.
        "ai.onnx.ml.ArrayFeatureExtractor",
        "ai.onnx.ml.Binarizer",
        "ai.onnx.ml.LabelEncoder",
        "ai.onnx.ml.TreeEnsemble",
        "TfIdfVectorizer",
        # Training, and files of images within a graph.
        "ai.onnx.preview.training.Adagrad",
        "ai.onnx.preview.training.Adam",
        "ai.onnx.preview.training.Momentum",
        "ImageDecoder",
    }
)
"""Operators that are not in PyTorch: none may join them."""
UNLIKE = frozenset({"Bernoulli"})
"""Its tests expect certain random numbers."""
FAILING = frozenset(
    {
        "test_attention_4d_causal_bf16",  # by no more than bf16 rounds
        "test_cast_FLOAT_to_UINT2",
        "test_castlike_FLOAT_to_FLOAT4E2M1",
        "test_castlike_FLOAT_to_FLOAT8E5M2FNUZ",  # beyond the ends of the type
        "test_castlike_FLOAT_to_FLOAT8E5M2_expanded",
        "test_dequantizelinear_float4e2m1",
        # Its places count in an image smaller than the one it asks for; ONNX Runtime, and who pooled a larger one, has
        # them in that one.
        "test_maxunpool_export_with_output_shape",
        "test_quantizelinear_uint2",
        "test_training_dropout_default",  # random
    }
)
"""Tests of other operators that fail: none may join them."""
TESTS_OF_AN_OPERATOR = 3
ALL_OF = frozenset({"AveragePool", "Conv", "ConvInteger", "ConvTranspose", "LpPool", "MatMulInteger", "MaxPool", "Pad"})
"""Operators with a way of their own for each kind of padding or constant: all their tests."""


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _flat(each)
    else:
        yield value


def _given(value: Any) -> Any:
    if isinstance(value, list):
        return [_given(each) for each in value]
    return None if value is None else from_array(_array(value))


def _array(value: Any) -> Any:
    """Some tests give tensors as the file format has them."""
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.array(value)


def _run(model: Any, inputs: Any) -> list[Any]:
    named = zip(model.graph.input, inputs, strict=False)
    specs = [spec.TensorSpec(value.name, "float32", _array(array).shape) for value, array in named if _is_tensor(value)]
    others = [value for value in model.graph.input if not _is_tensor(value)]
    specs += [spec.TensorSpec(value.name, "float32", ()) for value in others]
    order = [value.name for value in model.graph.input]
    specs.sort(key=lambda each: order.index(each.name))
    with torch.no_grad():
        outputs = convert_graph(model, specs).module(*map(_given, inputs))
    return list(_flat([to_array(each) for each in outputs]))


def _is_tensor(value: Any) -> bool:
    return bool(value.type.HasField("tensor_type"))


def _same(got: Any, expected: Any, case: Any) -> bool:
    got, expected = np.asarray(got), _array(expected)
    if got.shape != expected.shape:
        return False
    if expected.dtype.kind in "OUS":
        return [str(each) for each in got.ravel()] == [_text(each) for each in expected.ravel()]
    if expected.dtype.kind in "fV":
        close = {"rtol": max(case.rtol, 1e-3), "atol": max(case.atol, 1e-5), "equal_nan": True}
        return bool(np.allclose(got.astype(np.float64), expected.astype(np.float64), **close))
    return bool((got == expected).all())


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _passes(case: Any) -> bool:
    inputs, outputs = case.data_sets[0]
    try:
        got, expected = _run(case.model, list(inputs)), list(_flat(list(outputs)))
        pairs = zip(got, expected, strict=True)
        return all(want is None or _same(have, want, case) for have, want in pairs)
    except (ArithmeticError, AttributeError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return False


def _operators(case: Any) -> set[str]:
    return {f"{node.domain}.{node.op_type}".lstrip(".") for node in case.model.graph.node}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, dict[str, bool]]:
    """By operator: its first tests, those spread over its types and attributes, and whether they pass."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        by_operator: dict[str, list[Any]] = {}
        for case in collect_testcases(None):
            if len(operators := _operators(case)) == 1:
                by_operator.setdefault(operators.pop(), []).append(case)
        few = TESTS_OF_AN_OPERATOR
        chosen = {name: cases if name in ALL_OF else _spread(cases, few) for name, cases in by_operator.items()}
        found = {name: {case.name: _passes(case) for case in cases} for name, cases in chosen.items()}
    torch.set_num_threads(threads)
    return found


def _spread(cases: list[Any], count: int) -> list[Any]:
    return cases[:: max(1, len(cases) // count)]


def test_every_operator_that_has_tests_is_covered_but_those_listed(verdicts: dict[str, dict[str, bool]]) -> None:
    assert len(verdicts) > 180
    assert {name for name, tests in verdicts.items() if not any(tests.values())} <= NOT_COVERED | UNLIKE


def test_their_tests_pass_but_those_listed(verdicts: dict[str, dict[str, bool]]) -> None:
    covered = [tests for name, tests in verdicts.items() if name not in NOT_COVERED | UNLIKE]
    assert sum(map(len, covered)) > 400
    assert {test for tests in covered for test, passes in tests.items() if not passes} <= FAILING


def test_an_operator_nobody_knows_is_refused_by_its_name() -> None:
    node = onnx.helper.make_node("Frobnicate", ["x"], ["y"], domain="elsewhere")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, [1])], [value("y", 1, [1])])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("elsewhere", 3)])
    with pytest.raises(NotImplementedError, match=r"elsewhere\.Frobnicate \(opset 3\)"):
        convert_graph(model, [spec.TensorSpec("x", "float32", (1,))])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_aligned_corners_are_those_of_the_scaled_length_which_need_not_be_whole(mode: str) -> None:
    node = onnx.helper.make_node(
        "Resize", ["x", "", "by"], ["y"], mode=mode, coordinate_transformation_mode="align_corners"
    )
    value = onnx.helper.make_tensor_value_info
    scales = onnx.numpy_helper.from_array(np.array([1, 1, 0.6, 1.5], "f"), "by")
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, [1, 1, 4, 5])], [value("y", 1, None)], [scales])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    x = np.arange(20, dtype="f").reshape(1, 1, 4, 5) ** 2
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(_run(model, [x])[0], expected, rtol=1e-5, atol=1e-4)


def _of_uint64(operator: str, *values: np.ndarray, **attributes: Any) -> Any:
    names = ["a", "b"][: len(values)]
    value, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto.UINT64
    result = onnx.TensorProto.BOOL if operator in {"Less", "Equal"} else kind
    node = onnx.helper.make_node(operator, names, ["y"], **attributes)
    graph = onnx.helper.make_graph([node], "g", [value(name, kind, [3]) for name in names], [value("y", result, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    return _run(model, values)[0], ReferenceEvaluator(model).run(None, dict(zip(names, values, strict=True)))[0]


LARGE = np.array([2**63 + 5, 7, 2**64 - 1], np.uint64)


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Equal", "BitwiseAnd", "BitwiseNot", "ReduceSum"])
def test_unsigned_integers_of_64_bits_come_out_right(operator: str) -> None:
    given = [LARGE] if operator in {"BitwiseNot", "ReduceSum"} else [LARGE, LARGE[::-1].copy()]
    got, expected = _of_uint64(operator, *given)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("operator", ["Div", "Mod", "Less", "Max", "Min", "BitShift", "ReduceMax"])
def test_those_that_pytorch_takes_for_negative_are_refused(operator: str) -> None:
    attributes = {"direction": "RIGHT"} if operator == "BitShift" else {}
    two = [] if operator == "ReduceMax" else [np.array([2, 3, 5], np.uint64)]
    got, expected = _of_uint64(operator, LARGE // 2, *two, **attributes)
    np.testing.assert_array_equal(got, expected)
    with pytest.raises(NotImplementedError, match=rf"no {operator} of uint64: values of 2\^63 and above"):
        _of_uint64(operator, LARGE, *two, **attributes)


def _moved(node: onnx.NodeProto, *inputs: str) -> Any:
    """The first output of a node whose module was moved to a device that holds no numbers."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [value(name, 1, [2]) for name in inputs], [value("y", 1, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    module = convert_graph(model, [spec.TensorSpec(name, "float32", (2,)) for name in inputs]).module
    return module.to("meta")(*(torch.zeros(2, device="meta") for _ in inputs))[0]


def test_what_is_made_of_numbers_lies_where_the_module_lies() -> None:
    make = onnx.helper.make_node
    assert _moved(make("RandomUniform", [], ["y"], shape=[2, 3])).device.type == "meta"
    assert _moved(make("OptionalHasElement", ["x"], ["y"]), "x").device.type == "meta"


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin", "NonZero"])
@pytest.mark.parametrize("kind", ["uint16", "uint32", "uint64"])
def test_places_are_int64_whatever_they_are_places_of(operator: str, kind: str) -> None:
    value, dtype = onnx.helper.make_tensor_value_info, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    node = onnx.helper.make_node(operator, ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [value("x", dtype, [3])], [value("y", onnx.TensorProto.INT64, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    x = np.array([0, 7, 2], kind)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    (got,) = _run(model, [x])
    assert np.asarray(got).dtype == np.int64
    np.testing.assert_array_equal(got, expected)
