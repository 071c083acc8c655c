"""Standard operators with the same output shape as operators that ONNX's inference does not know.

Those of ONNX Runtime: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from collections.abc import Callable, Mapping

import onnx
from onnx import TensorProto, helper

CONTRIB = "com.microsoft"
CLASSIC = "ai.onnx.ml"

Weights = Mapping[str, TensorProto]
Rule = Callable[[onnx.NodeProto, Weights, onnx.GraphProto], list[onnx.NodeProto]]

_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_RECURRENT = ("direction", "hidden_size", "layout")
_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def stand_ins(node: onnx.NodeProto, weights: Weights, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """What to infer the shapes of `node` from; itself where nothing stands in. May add a weight to `graph`."""
    rule = _rule(node)
    return (rule(node, weights, graph) if rule is not None else []) or [node]


def has_stand_in(node: onnx.NodeProto) -> bool:
    """Whether something may stand in for such a node."""
    return _rule(node) is not None


def _rule(node: onnx.NodeProto) -> Rule | None:
    if node.domain in {"", "ai.onnx"}:
        return _STANDARD_RULES.get(node.op_type)
    return {CONTRIB: _RULES, CLASSIC: _CLASSIC_RULES}.get(node.domain, {}).get(node.op_type)


def _one_sided(node: onnx.NodeProto, _: Weights, __: onnx.GraphProto) -> list[onnx.NodeProto]:
    """ONNX's inference (1.23) forgets that half of the spectrum is the default."""
    if not any(one.name == "onesided" for one in node.attribute):
        node.attribute.append(helper.make_attribute("onesided", 1))
    return [node]


def _normalized(node: onnx.NodeProto, _: Weights, __: onnx.GraphProto) -> list[onnx.NodeProto]:
    """What ONNX Runtime writes into models of any opset, as if it were ONNX's own there."""
    return [helper.make_node("Identity", node.input[:1], node.output[:1])] if len(node.output) == 1 else []


def _like(op_type: str, *places: int, keep: tuple[str, ...] = ()) -> Rule:
    """The operator of this type on the inputs at `places`, with the attributes named."""

    def rule(node: onnx.NodeProto, _: Weights, __: onnx.GraphProto) -> list[onnx.NodeProto]:
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute if one.name in keep}
        if any(one.name == "channels_last" and one.i for one in node.attribute):
            return []
        inputs = [node.input[place] for place in places if place < len(node.input)]
        if len(inputs) < len(places) or not all(inputs):
            return []
        return [helper.make_node(op_type, inputs, node.output[:1], **attributes)]

    return rule


def _concat(node: onnx.NodeProto, _: Weights, __: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Scale and zero point of the output, then (tensor, scale, zero point) of each input."""
    axis = next((one.i for one in node.attribute if one.name == "axis"), 0)
    return [helper.make_node("Concat", list(node.input[2::3]), node.output[:1], axis=axis)]


def _as_floats(node: onnx.NodeProto, _: Weights, __: onnx.GraphProto) -> list[onnx.NodeProto]:
    return [helper.make_node("Cast", node.input[:1], node.output[:1], to=TensorProto.FLOAT)]


def _quantized(node: onnx.NodeProto, weights: Weights, _: onnx.GraphProto) -> list[onnx.NodeProto]:
    zero = weights.get(node.input[2]) if len(node.input) > 2 else None
    kind = zero.data_type if zero is not None else TensorProto.UINT8
    return [helper.make_node("Cast", node.input[:1], node.output[:1], to=kind)]


def _fused_product(node: onnx.NodeProto, weights: Weights, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """FusedMatMul, one or both factors of which may be turned over in their last two axes."""
    turned = {one.name for one in node.attribute if one.name.startswith("trans") and one.i}
    if not turned <= {"transA", "transB"}:
        return []
    factors = list(node.input[:2])
    for place, name in enumerate(("transA", "transB")):
        weight = weights.get(factors[place])
        if name in turned and weight is not None and len(weight.dims) > 1:
            turned.remove(name)
            factors[place] = f"{node.output[0]}//stand-in {place}"
            dims = (*weight.dims[:-2], weight.dims[-1], weight.dims[-2])
            graph.initializer.append(TensorProto(name=factors[place], data_type=weight.data_type, dims=dims))
    if not turned:
        return [helper.make_node("MatMul", factors, node.output[:1])]
    first, second = "...ji" if "transA" in turned else "...ij", "...kj" if "transB" in turned else "...jk"
    return [helper.make_node("Einsum", factors, node.output[:1], equation=f"{first},{second}->...ik")]


def _attention(node: onnx.NodeProto, weights: Weights, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """(batch, length, inputs) → (batch, length, hidden of the values): a product with a weight of that shape."""
    weight = weights.get(node.input[1])
    if weight is None or len(weight.dims) != 2:
        return []
    sizes = next((list(one.ints) for one in node.attribute if one.name == "qkv_hidden_sizes"), [])
    hidden = sizes[2] if len(sizes) == 3 else weight.dims[1] // 3
    return _product(node, (weight.dims[0], hidden), graph)


def _quantized_recurrent(node: onnx.NodeProto, weights: Weights, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """DynamicQuantizeLSTM: an LSTM whose weights, (directions, inputs, 4 · hidden), are turned over."""
    names = []
    for place in (1, 2):
        weight = weights.get(node.input[place])
        if weight is None or len(weight.dims) != 3:
            return []
        names.append(f"{node.output[0]}//stand-in {place}")
        directions, rows, columns = weight.dims
        graph.initializer.append(
            TensorProto(name=names[-1], data_type=TensorProto.FLOAT, dims=(directions, columns, rows))
        )
    kept = {one.name: helper.get_attribute_value(one) for one in node.attribute if one.name in _RECURRENT}
    return [helper.make_node("LSTM", [node.input[0], *names], list(node.output), **kept)]


def _blockwise_product(node: onnx.NodeProto, _: Weights, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """MatMulNBits: its packed weight stands for a K × N matrix."""
    sizes = {one.name: one.i for one in node.attribute}
    return _product(node, (sizes["K"], sizes["N"]), graph) if {"K", "N"} <= sizes.keys() else []


def _product(node: onnx.NodeProto, dims: tuple[int, int], graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    name = f"{node.output[0]}//stand-in"
    graph.initializer.append(TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims))
    return [helper.make_node("MatMul", [node.input[0], name], node.output[:1])]


_SAME_SHAPE = (
    "BiasGelu", "BiasSoftmax", "FastGelu", "Gelu", "QuickGelu", "QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax",
    "RotaryEmbedding", "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
)  # fmt: skip

_RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME_SHAPE, _like("Identity", 0)),
    "Attention": _attention,
    "DequantizeLinear": _as_floats,
    "DynamicQuantizeLSTM": _quantized_recurrent,
    "DynamicQuantizeMatMul": _like("MatMul", 0, 1),
    "EmbedLayerNormalization": _like("Gather", 2, 0),
    "FusedConv": _like("Conv", 0, 1, keep=_CONV),
    "FusedGemm": _like("Gemm", 0, 1, keep=("transA", "transB")),
    "FusedMatMul": _fused_product,
    "MatMulIntegerToFloat": _like("MatMul", 0, 1),
    "MatMulNBits": _blockwise_product,
    "QAttention": _attention,
    "QGemm": _like("Gemm", 0, 3, keep=("transA", "transB")),
    "QLinearAdd": _like("Add", 0, 3),
    "QLinearAveragePool": _like("AveragePool", 0, keep=_POOL),
    "QLinearConcat": _concat,
    "QLinearGlobalAveragePool": _like("GlobalAveragePool", 0),
    "QLinearMul": _like("Mul", 0, 3),
    "QuantizeLinear": _quantized,
    "TransposeMatMul": _fused_product,
}

_STANDARD_RULES: dict[str, Rule] = {
    **dict.fromkeys(("LayerNormalization", "SimplifiedLayerNormalization"), _normalized),
    "STFT": _one_sided,
}

_CLASSIC_RULES: dict[str, Rule] = {
    **dict.fromkeys(("Binarizer", "Imputer"), _like("Identity", 0)),
    **dict.fromkeys(("Normalizer", "Scaler"), _as_floats),
}
