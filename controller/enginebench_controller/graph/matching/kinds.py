"""What the words mean: engines' types of layers that only hold, move or convert data, and kinds of ONNX operators."""

from enginebench_controller.graph.matching.matched import ADDED, LayerCategory

_DATA = frozenset(
    {"input", "parameter", "output", "result", "const", "constant", "data", "assign", "readvalue", "source"}
)
_CONVERTS = frozenset(
    {"cast", "convert", "convertlike", "convertsaturation", "quantize", "dequantize"}
    | {"quantizelinear", "dequantizelinear"}
)
_MOVES = frozenset(
    {"copy", "downsample", "flatten", "identity", "intoshape", "layout", "lazyim2col", "memcpyfromhost"}
    | {"memcpytohost", "optmatmulpack", "pad", "permute", "reshape", "squeeze", "transpose", "unsqueeze"}
)

_CALCULATIONS = frozenset({
    "Abs", "Add", "And", "BatchNormalization", "BiasGelu", "Bernoulli", "Ceil", "Celu", "Clip", "Cos", "Div", "Elu",
    "Equal", "Erf", "Exp", "FastGelu", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish",
    "ImageScaler", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Min", "Mish", "Mul", "Neg", "Not", "Or", "PRelu",
    "Pow", "QLinearAdd", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid", "QuickGelu", "Reciprocal", "Relu", "Round",
    "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tanh",
    "ThresholdedRelu", "Where", "Xor",
})  # fmt: skip
_REARRANGEMENTS = frozenset({
    "Cast", "CastLike", "Concat", "DepthToSpace", "DequantizeLinear", "Dropout", "DynamicQuantizeLinear", "Expand",
    "Flatten", "Identity", "Pad", "QuantizeLinear", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Transpose",
    "Unsqueeze",
})  # fmt: skip

QUANTIZERS = frozenset({"DequantizeLinear", "QuantizeLinear"})
INVISIBLE = QUANTIZERS | {"Dropout", "Identity"}
"""Operators that stand between two versions' nodes without being one: seen through where graphs are compared."""

_PRECEDERS = frozenset({"DequantizeLinear", "Pad"})

_MAIN = frozenset(
    {"Attention", "Conv", "ConvTranspose", "Einsum", "GRU", "LSTM", "MatMul", "MultiHeadAttention", "RNN"}
)

_FAMILIES = {
    "ConvInteger": "Conv",
    "FusedConv": "Conv",
    "DynamicQuantizeMatMul": "MatMul",
    "FusedGemm": "MatMul",
    "FusedMatMul": "MatMul",
    "Gemm": "MatMul",
    "MatMulInteger": "MatMul",
    "MatMulIntegerToFloat": "MatMul",
    "QGemm": "MatMul",
}


def unmatched_category(layer_type: str) -> LayerCategory:
    """What a layer of this type is that stands for no source node."""
    word = plain(layer_type)
    if word in _DATA:
        return LayerCategory.DATA
    if word in _CONVERTS:
        return LayerCategory.CONVERT
    return LayerCategory.REORDER if word in _MOVES or word.startswith("reorder") else LayerCategory.ENGINE_MADE


def may_move(category: LayerCategory, layer_type: str) -> bool:
    """Whether such a layer may be a node of the model that moves or converts data: a reorder is none, a permute may."""
    return category in ADDED and not plain(layer_type).startswith("reorder")


def is_main(op_type: str) -> bool:
    """Whether such a node is what a layer is about: two of them are seldom fused without both being named."""
    return family(op_type) in _MAIN


def hosts(op_type: str) -> bool:
    """Whether a layer with such a node calculates, so that it can calculate what follows in passing."""
    return is_main(op_type) or op_type in _CALCULATIONS


def is_light(op_type: str) -> bool:
    """Whether engines fuse such a node into the one beside it, which holds most of the time of both."""
    return op_type in _CALCULATIONS or op_type in _REARRANGEMENTS


def is_rearrangement(op_type: str) -> bool:
    """Whether such a node only moves, converts or renames what it is given."""
    return op_type in _REARRANGEMENTS


def precedes(op_type: str) -> bool:
    """Whether such a node is fused into the one that reads its output."""
    return op_type in _PRECEDERS


def family(op_type: str) -> str:
    """One word for an operator in all its forms: QLinearConv and ConvInteger are Conv, and a Gemm is a MatMul."""
    return _FAMILIES.get(op_type, op_type.removeprefix("QLinear"))


def plain(word: str) -> str:
    """A type as engines and ONNX alike would write it: `Gather`, `gather` and `GATHER` are one."""
    return word.lower().replace("_", "")
