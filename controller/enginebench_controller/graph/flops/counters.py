"""The table: what every operator costs. One of three things holds for each: it is counted, moves data only, or unknown.

Products (convolutions, matrix products, recurrent layers, attention) have multiply-adds; one is two operations. All
else has operations only: one an output element unless a number says otherwise, whatever the function: an exponential
counts as one, as in Sparsify and unlike in onnx-tool, which counts the instructions of one implementation.
Operations on integers count like those on floating numbers.
"""

import math
from collections.abc import Callable, Mapping

from enginebench_controller.graph.flops import products
from enginebench_controller.graph.flops.work import Count, UnknownWorkError, Work, operations
from enginebench_controller.graph.source_graph import SourceNode

Counter = Callable[[Work], Count]


def per_output(each: int = 1) -> Counter:
    """`each` operations an element of the first output."""
    return lambda work: operations(each * work.output_size)


def per_input(each: int = 1) -> Counter:
    """`each` operations an element of the first input, as in a sum over it."""
    return lambda work: operations(each * work.input_size)


def many(work: Work) -> Count:
    """Sum, Max, Min of several tensors: one operation an output element for every tensor but the first."""
    return operations((len(work.node.inputs) - 1) * work.output_size)


def mean_of_many(work: Work) -> Count:
    """The sum of several tensors, and a division."""
    return operations(len(work.node.inputs) * work.output_size)


def window(work: Work) -> Count:
    """Pooling: one operation for every element of the window, padding included, an output element."""
    return operations(work.output_size * math.prod(work.integers("kernel_shape")))


def powered_window(work: Work) -> Count:
    """LpPool: a power and an addition for every element of the window."""
    return operations(2 * window(work).flops)


def local_response(work: Work) -> Count:
    """LRN: squares and their sum over `size` channels, then scale, shift, power and division."""
    return operations(work.output_size * (2 * work.integer("size") + 4))


def interpolation(work: Work) -> Count:
    """Resize and Upsample: 2ᵈ neighbours for "linear", 4ᵈ for "cubic", over the d dimensions that change."""
    changed = sum(a != b for a, b in zip(work.input(), work.output(), strict=True))
    return operations(work.output_size * _taps(work.text("mode", "nearest"), changed))


def grid_sample(work: Work) -> Count:
    """GridSample: as `interpolation`, over all dimensions behind batch and channels."""
    return operations(work.output_size * _taps(work.text("mode", "linear"), len(work.input()) - 2))


def _taps(mode: str, dimensions: int) -> int:
    """A multiplication for every neighbour and an addition for all but one; the nearest is only copied."""
    neighbours = {"linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}.get(mode, 1) ** dimensions
    return 0 if neighbours == 1 else 2 * neighbours - 1


def region_align(work: Work) -> Count:
    """RoiAlign: bilinear samples (7), and their mean or maximum (1). How many is the data's choice if not stated."""
    samples = work.integer("sampling_ratio", 0)
    if samples <= 0:
        raise UnknownWorkError("the number of samples depends on the regions")
    return operations(work.output_size * samples * samples * 8)


STANDARD, CLASSIC, PREVIEW, TRAINING = "", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"
CONTRIB = "com.microsoft"

Key = tuple[str, str]
"""Domain and operator."""


def _in(domain: str, counters: Mapping[str, Counter]) -> dict[Key, Counter]:
    return {(domain, name): counter for name, counter in counters.items()}


def _names(domain: str, text: str) -> frozenset[Key]:
    return frozenset((domain, name) for name in text.split())


_PRODUCTS: dict[str, Counter] = {
    "AffineGrid": products.affine_grid,
    "Attention": products.attention,
    "CausalConvWithState": products.causal_convolution,
    "Conv": products.convolution,
    "ConvInteger": products.convolution,
    "ConvTranspose": products.transposed_convolution,
    "DeformConv": products.deformable_convolution,
    "Einsum": products.einsum,
    "Gemm": products.gemm,
    "GRU": products.recurrent(gates=3, others=8),  # 3 activations, r ⊙ h, and (1 − z) ⊙ n + z ⊙ h
    "LinearAttention": products.linear_attention,
    "LSTM": products.recurrent(gates=4, others=9),  # 5 activations, f ⊙ c + i ⊙ g, o ⊙ h
    "MatMul": products.matrix_product,
    "MatMulInteger": products.matrix_product,
    "QLinearConv": products.quantized_convolution,
    "QLinearMatMul": products.quantized_matrix_product,
    "RNN": products.recurrent(gates=1, others=1),
}

_ONE_AN_OUTPUT_ELEMENT = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Ceil
    Celu Clip Cos Cosh CumProd CumSum Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HammingWindow HannWindow
    HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu
    Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Swish Tan Tanh ThresholdedRelu Xor
"""

_OTHERS: dict[str, Counter] = {
    **dict.fromkeys(_ONE_AN_OUTPUT_ELEMENT.split(), per_output()),
    "ArgMax": per_input(),
    "ArgMin": per_input(),
    "AveragePool": window,
    "BatchNormalization": per_output(2),  # scale and shift, into which the statistics are folded
    "Col2Im": per_input(),
    "DFT": products.fourier_transform,
    "DequantizeLinear": per_output(2),
    "DynamicQuantizeLinear": per_output(4),  # minimum, maximum, scale, shift
    "GlobalAveragePool": per_input(),
    "GlobalLpPool": per_input(2),
    "GlobalMaxPool": per_input(),
    "GridSample": grid_sample,
    "GroupNormalization": per_output(7),
    "Hardmax": per_input(),
    "InstanceNormalization": per_output(7),  # mean, difference, square, sum, division, scale, shift
    "LRN": local_response,
    "LayerNormalization": per_output(7),
    "LogSoftmax": per_output(products.SOFTMAX),
    "LpNormalization": per_output(3),
    "LpPool": powered_window,
    "Max": many,
    "MaxPool": window,
    "Mean": mean_of_many,
    "MeanVarianceNormalization": per_output(5),
    "Min": many,
    "NegativeLogLikelihoodLoss": per_input(),
    "QuantizeLinear": per_output(2),
    "RMSNormalization": per_output(4),  # square, sum, division, scale
    "ReduceL1": per_input(2),
    "ReduceL2": per_input(2),
    "ReduceLogSum": per_input(),
    "ReduceLogSumExp": per_input(2),
    "ReduceMax": per_input(),
    "ReduceMean": per_input(),
    "ReduceMin": per_input(),
    "ReduceProd": per_input(),
    "ReduceSum": per_input(),
    "ReduceSumSquare": per_input(2),
    "Resize": interpolation,
    "RoiAlign": region_align,
    "RotaryEmbedding": products.rotary_embedding,
    "Softmax": per_output(products.SOFTMAX),
    "STFT": products.windowed_fourier_transform,
    "SoftmaxCrossEntropyLoss": per_input(products.SOFTMAX + 1),
    "Sum": many,
    "SwiGLU": per_output(2),
    "Upsample": interpolation,
}

_CLASSIC: dict[str, Counter] = {
    "Binarizer": per_output(),
    "Imputer": per_output(),
    "LinearClassifier": products.linear_model,
    "LinearRegressor": products.linear_model,
    "Normalizer": per_output(3),
    "Scaler": per_output(2),
}

_CONTRIB_PRODUCTS: dict[str, Counter] = {
    "Attention": products.projected_attention,
    "DynamicQuantizeLSTM": products.quantized_recurrent,
    "DynamicQuantizeMatMul": products.quantized_matrix_product,
    "FusedConv": products.fused_convolution,
    "FusedGemm": products.gemm,
    "FusedMatMul": products.fused_matrix_product,
    "GroupQueryAttention": products.grouped_attention,
    "MatMulIntegerToFloat": products.quantized_matrix_product,
    "MatMulNBits": products.blockwise_product,
    "MultiHeadAttention": products.multi_head_attention,
    "QAttention": products.projected_attention,
    "QGemm": products.quantized_gemm,
    "TransposeMatMul": products.fused_matrix_product,
}

_CONTRIB: dict[str, Counter] = {
    "BiasGelu": per_output(2),
    "BiasSoftmax": per_output(products.SOFTMAX + 1),
    "DequantizeLinear": per_output(2),
    "EmbedLayerNormalization": per_output(9),  # two sums of embeddings, and their normalization
    "FastGelu": per_output(),
    "Gelu": per_output(),
    "QLinearAdd": per_output(),
    "QLinearAveragePool": window,
    "QLinearGlobalAveragePool": per_input(),
    "QLinearLeakyRelu": per_output(),
    "QLinearMul": per_output(),
    "QLinearReduceMean": per_input(),
    "QLinearSigmoid": per_output(),
    "QLinearSoftmax": per_output(products.SOFTMAX),
    "QuantizeLinear": per_output(2),
    "QuickGelu": per_output(),
    "RotaryEmbedding": products.rotary_embedding,
    "SimplifiedLayerNormalization": per_output(4),
    "SkipLayerNormalization": per_output(8),  # the sum, and the normalization
    "SkipSimplifiedLayerNormalization": per_output(5),
}

COUNTED: dict[Key, Counter] = {
    **_in(STANDARD, _PRODUCTS),
    **_in(STANDARD, _OTHERS),
    **_in(CLASSIC, _CLASSIC),
    **_in(PREVIEW, {"FlexAttention": products.attention}),
    **_in(CONTRIB, _CONTRIB_PRODUCTS),
    **_in(CONTRIB, _CONTRIB),
}
"""Operators with a formula."""

WITHOUT_ITS_DOMAIN = frozenset({"SimplifiedLayerNormalization"})
"""Operators of `CONTRIB` that ONNX Runtime writes as if they were ONNX's own."""

BODIES = _names(STANDARD, "If Loop Scan SequenceMap")
"""Operators that cost what their bodies cost (see `counting`); also every function of the model's own."""

MOVES_DATA = (
    _names(
        STANDARD,
        """
        BitCast Cast CastLike CenterCropPad Compress Concat ConcatFromSequence Constant ConstantOfShape DepthToSpace
        Dropout Expand EyeLike Flatten Gather GatherElements GatherND Identity MaxUnpool NonZero OneHot Optional
        OptionalGetElement OptionalHasElement Pad Range Reshape ReverseSequence Scatter ScatterElements ScatterND
        SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Size Slice
        SpaceToDepth Split SplitToSequence Squeeze TensorScatter Tile Transpose Trilu Unsqueeze Where
        """,
    )
    | _names(
        CLASSIC,
        """
        ArrayFeatureExtractor CastMap CategoryMapper DictVectorizer FeatureVectorizer LabelEncoder OneHotEncoder ZipMap
        """,
    )
    | _names(CONTRIB, "QLinearConcat QLinearWhere")
)
"""Operators that compute nothing: they copy, select, convert or look up. Dropout is one, as it does nothing here."""

_SMALL: dict[Key, str] = {
    **dict.fromkeys(
        _names(STANDARD, "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"),
        "depends on the random generator",
    ),
    **dict.fromkeys(_names(STANDARD, "Det MelWeightMatrix TopK Unique"), "depends on the algorithm"),
    **dict.fromkeys(_names(STANDARD, "MaxRoiPool NonMaxSuppression"), "depends on the data"),
    **dict.fromkeys(
        _names(STANDARD, "ImageDecoder RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer"),
        "works on text or files",
    ),
    **dict.fromkeys(
        _names(CLASSIC, "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor"), "depends on the data"
    ),
}
UNKNOWN: dict[Key, str] = {
    **_SMALL,
    **dict.fromkeys(_names(CLASSIC, "SVMClassifier SVMRegressor"), "depends on the data and the kernel"),
    **dict.fromkeys(_names(TRAINING, "Adagrad Adam Gradient Momentum"), "trains"),
}
"""Operators without a formula, and why. An operator in none of the tables is unknown as well."""

WITHOUT_PRODUCTS = frozenset({*_in(STANDARD, _OTHERS), *_in(CONTRIB, _CONTRIB), *MOVES_DATA, *_SMALL})
"""Operators that have no multiply-adds of products, also where their sizes are unknown or they have no formula."""

READS_A_PART = _names(STANDARD, "Gather GatherElements GatherND Slice") | _names(CONTRIB, "EmbedLayerNormalization")
"""Operators that read no more of their data, be they a weight or not, than they put out."""

READS_NO_DATA = _names(STANDARD, "Shape Size")
"""Operators that ask for the sizes of a tensor, and read nothing of what is in it."""

SETTINGS: dict[Key, frozenset[int]] = {
    key: frozenset(places)
    for key, places in {
        (STANDARD, "Clip"): (1, 2),
        (STANDARD, "ConvInteger"): (2, 3),
        (STANDARD, "DequantizeLinear"): (1, 2),
        (STANDARD, "Dropout"): (1, 2),
        (STANDARD, "MatMulInteger"): (2, 3),
        (STANDARD, "OneHot"): (1, 2),
        (STANDARD, "Pad"): (1, 2, 3),
        (STANDARD, "QLinearConv"): (1, 2, 4, 5, 6, 7),
        (STANDARD, "QLinearMatMul"): (1, 2, 4, 5, 6, 7),
        (STANDARD, "QuantizeLinear"): (1, 2),
        (STANDARD, "Resize"): (1, 2, 3),
        (STANDARD, "Upsample"): (1,),
        (CONTRIB, "DequantizeLinear"): (1, 2),
        (CONTRIB, "DynamicQuantizeLSTM"): (8, 9, 10, 11),
        (CONTRIB, "DynamicQuantizeMatMul"): (2, 3),
        (CONTRIB, "MatMulIntegerToFloat"): (2, 3, 4, 5),
        (CONTRIB, "QAttention"): (3, 4, 5, 6, 7),
        (CONTRIB, "QGemm"): (1, 2, 4, 5, 7, 8),
        (CONTRIB, "QLinearAdd"): (1, 2, 4, 5, 6, 7),
        (CONTRIB, "QLinearMul"): (1, 2, 4, 5, 6, 7),
        (CONTRIB, "QLinearReduceMean"): (1, 2, 3, 4),
        (CONTRIB, "QuantizeLinear"): (1, 2),
    }.items()
}
"""Floating and small inputs that say how, and are no parameters: scales, zero points, limits, fill values."""

PACKED = _names(CONTRIB, "MatMulNBits")
"""Operators whose weight packs several parameters into an element; how many is not counted."""


def key_of(node: SourceNode) -> tuple[str, str]:
    """Under what a node is looked up: its domain and its operator."""
    return CONTRIB if not node.domain and node.op_type in WITHOUT_ITS_DOMAIN else node.domain, node.op_type
