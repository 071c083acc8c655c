"""The table: what every operator costs. One of three things holds for each: it is counted, moves data only, or unknown.

Products (convolutions, matrix products, recurrent layers, attention) have multiply-adds; one is two operations. All
else has operations only: one an output element unless a number says otherwise, whatever the function: an exponential
counts as one, as in Sparsify and unlike in onnx-tool, which counts the instructions of one implementation.
Operations on integers count like those on floating numbers.
"""

from collections.abc import Mapping

from enginebench_controller.model.flops import pointwise, sequences
from enginebench_controller.model.flops import products as product
from enginebench_controller.model.flops.pointwise import Counter, per_input, per_output
from enginebench_controller.model.source_graph import SourceNode

STANDARD, CLASSIC, PREVIEW, TRAINING = "", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"
CONTRIB = "com.microsoft"

Key = tuple[str, str]
"""Domain and operator."""


def _in(domain: str, counters: Mapping[str, Counter]) -> dict[Key, Counter]:
    return {(domain, name): counter for name, counter in counters.items()}


def _names(domain: str, text: str) -> frozenset[Key]:
    return frozenset((domain, name) for name in text.split())


_PRODUCTS: dict[str, Counter] = {
    "AffineGrid": product.affine_grid,
    "Attention": sequences.attention,
    "CausalConvWithState": product.causal_convolution,
    "Conv": product.convolution,
    "ConvInteger": product.convolution,
    "ConvTranspose": product.transposed_convolution,
    "DeformConv": product.deformable_convolution,
    "Einsum": product.einsum,
    "Gemm": product.gemm,
    "GRU": sequences.recurrent(gates=3, others=8),  # 3 activations, r ⊙ h, and (1 − z) ⊙ n + z ⊙ h
    "LinearAttention": sequences.linear_attention,
    "LSTM": sequences.recurrent(gates=4, others=9),  # 5 activations, f ⊙ c + i ⊙ g, o ⊙ h
    "MatMul": product.matrix_product,
    "MatMulInteger": product.matrix_product,
    "QLinearConv": product.quantized_convolution,
    "QLinearMatMul": product.quantized_matrix_product,
    "RNN": sequences.recurrent(gates=1, others=1),
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
    "AveragePool": pointwise.window,
    "BatchNormalization": per_output(2),  # scale and shift, into which the statistics are folded
    "Col2Im": per_input(),
    "DFT": sequences.fourier_transform,
    "DequantizeLinear": per_output(2),
    "DynamicQuantizeLinear": per_output(4),  # minimum, maximum, scale, shift
    "GlobalAveragePool": per_input(),
    "GlobalLpPool": per_input(2),
    "GlobalMaxPool": per_input(),
    "GridSample": pointwise.grid_sample,
    "GroupNormalization": per_output(7),
    "Hardmax": per_input(),
    "InstanceNormalization": per_output(7),  # mean, difference, square, sum, division, scale, shift
    "LRN": pointwise.local_response,
    "LayerNormalization": per_output(7),
    "LogSoftmax": per_output(sequences.SOFTMAX),
    "LpNormalization": per_output(3),
    "LpPool": pointwise.powered_window,
    "Max": pointwise.many,
    "MaxPool": pointwise.window,
    "Mean": pointwise.mean_of_many,
    "MeanVarianceNormalization": per_output(5),
    "Min": pointwise.many,
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
    "Resize": pointwise.interpolation,
    "RoiAlign": pointwise.region_align,
    "RotaryEmbedding": sequences.rotary_embedding,
    "Softmax": per_output(sequences.SOFTMAX),
    "STFT": sequences.windowed_fourier_transform,
    "SoftmaxCrossEntropyLoss": per_input(sequences.SOFTMAX + 1),
    "Sum": pointwise.many,
    "SwiGLU": per_output(2),
    "Upsample": pointwise.interpolation,
}

_CLASSIC: dict[str, Counter] = {
    "Binarizer": per_output(),
    "Imputer": per_output(),
    "LinearClassifier": product.linear_model,
    "LinearRegressor": product.linear_model,
    "Normalizer": per_output(3),
    "Scaler": per_output(2),
}

_CONTRIB_PRODUCTS: dict[str, Counter] = {
    "Attention": sequences.projected_attention,
    "DynamicQuantizeLSTM": sequences.quantized_recurrent,
    "DynamicQuantizeMatMul": product.quantized_matrix_product,
    "FusedConv": product.fused_convolution,
    "FusedGemm": product.gemm,
    "FusedMatMul": product.fused_matrix_product,
    "GroupQueryAttention": sequences.grouped_attention,
    "MatMulIntegerToFloat": product.quantized_matrix_product,
    "MatMulNBits": product.blockwise_product,
    "MultiHeadAttention": sequences.multi_head_attention,
    "QAttention": sequences.projected_attention,
    "QGemm": product.quantized_gemm,
    "TransposeMatMul": product.fused_matrix_product,
}

_CONTRIB: dict[str, Counter] = {
    "BiasGelu": per_output(2),
    "BiasSoftmax": per_output(sequences.SOFTMAX + 1),
    "DequantizeLinear": per_output(2),
    "EmbedLayerNormalization": per_output(9),  # two sums of embeddings, and their normalization
    "FastGelu": per_output(),
    "Gelu": per_output(),
    "QLinearAdd": per_output(),
    "QLinearAveragePool": pointwise.window,
    "QLinearGlobalAveragePool": per_input(),
    "QLinearLeakyRelu": per_output(),
    "QLinearMul": per_output(),
    "QLinearReduceMean": per_input(),
    "QLinearSigmoid": per_output(),
    "QLinearSoftmax": per_output(sequences.SOFTMAX),
    "QuantizeLinear": per_output(2),
    "QuickGelu": per_output(),
    "RotaryEmbedding": sequences.rotary_embedding,
    "SimplifiedLayerNormalization": per_output(4),
    "SkipLayerNormalization": per_output(8),  # the sum, and the normalization
    "SkipSimplifiedLayerNormalization": per_output(5),
}

COUNTED: dict[Key, Counter] = {
    **_in(STANDARD, _PRODUCTS),
    **_in(STANDARD, _OTHERS),
    **_in(CLASSIC, _CLASSIC),
    **_in(PREVIEW, {"FlexAttention": sequences.attention}),
    **_in(CONTRIB, _CONTRIB_PRODUCTS),
    **_in(CONTRIB, _CONTRIB),
}
"""Operators with a formula."""

WITHOUT_ITS_DOMAIN = frozenset({"SimplifiedLayerNormalization"})
"""Operators of `CONTRIB` that ONNX Runtime writes as if they were ONNX's own."""

BODIES = _names(STANDARD, "If Loop Scan SequenceMap")
"""Operators that cost what their bodies cost (see `control_flow`); also every function of the model's own."""

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
"""Operators that read no more of a weight than they put out."""

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
