"""What products cost: convolutions, matrix products and sums of products, recurrent layers and attention.

Recurrent layers are counted for the whole length, whatever `sequence_lens` says; attention for every pair of positions,
also where a mask or causality hides some: that is what dense kernels compute, and what PyTorch's counter says.

A dot product of length K takes K multiplications and K − 1 additions; the K-th addition is its bias's. So K
multiply-adds are 2·K operations with a bias, and are counted as 2·K without one too, as all tools do. Positions that
fall on padding are counted like any other.
"""

import math
from collections import Counter as Multiset
from collections.abc import Sequence

from enginebench_controller.graph.flops.work import Count, Shape, UnknownWorkError, Work, operations, products

SOFTMAX = 5
"""Operations an element: maximum, difference, exponential, sum, division."""


def recurrent(gates: int, others: int) -> "RecurrentCounter":
    """A counter for RNN (1 gate), GRU (3) or LSTM (4); `others` are the elementwise operations a hidden unit a step."""
    return RecurrentCounter(gates, others)


class RecurrentCounter:
    """directions × steps × batch × gates × hidden × (inputs + hidden) multiply-adds.

    X is (steps, batch, inputs), W (directions, gates · hidden, inputs), R (directions, gates · hidden, hidden). The
    bias is the last addition of the products. An LSTM's peepholes add a multiplication and an addition for 3 gates.
    """

    def __init__(self, gates: int, others: int) -> None:
        self._gates = gates
        self._others = others

    def __call__(self, work: Work) -> Count:
        """Count one node."""
        steps, batch, inputs = work.input()
        directions, rows, _ = work.input(1)
        hidden = rows // self._gates
        units = directions * steps * batch * hidden
        peepholes = 6 if self._gates == 4 and work.has_input(7) else 0
        return products(units * self._gates * (inputs + hidden), units * (self._others + peepholes))


def attention(work: Work) -> Count:
    """Attention of ai.onnx and FlexAttention: Q·Kᵀ and P·V, softmax and scaling (and a mask) on the scores."""
    batch, heads, rows, width = _heads(work, 0, "q_num_heads")
    _, _, columns, _ = _heads(work, 1, "kv_num_heads")
    *_, value_width = _heads(work, 2, "kv_num_heads")
    columns += work.input(4)[2] if work.has_input(4) else 0
    scores = batch * heads * rows * columns
    return products(scores * (width + value_width), scores * (SOFTMAX + 1 + int(work.has_input(3))))


def _heads(work: Work, place: int, heads: str) -> tuple[int, int, int, int]:
    """(batch, heads, length, width) of a tensor that has them so, or as (batch, length, heads · width)."""
    shape = work.input(place)
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    if len(shape) != 3:
        raise UnknownWorkError("no heads")
    count = work.integer(heads)
    return shape[0], count, shape[1], shape[2] // count


def projected_attention(work: Work) -> Count:
    """Attention and QAttention of ONNX Runtime: the projection to Q, K and V, then attention.

    Input (batch, length, inputs), weight (inputs, hidden of Q + K + V).
    """
    batch, length, inputs = work.input()
    columns = work.input(1)[1]
    _, key_width, value_width = work.integers("qkv_hidden_sizes", (columns // 3,) * 3)
    past = _past_length(work)
    pairs = batch * length * (length + past)
    macs = batch * length * inputs * columns + pairs * (key_width + value_width)
    return products(macs, pairs * work.integer("num_heads") * (SOFTMAX + 1))


def _past_length(work: Work) -> int:
    """The memory of earlier positions is (2, batch, heads, length, width), if there is one."""
    place = 8 if work.node.op_type == "QAttention" else 4
    return work.input(place)[3] if work.has_input(place) else 0


def multi_head_attention(work: Work) -> Count:
    """MultiHeadAttention of ONNX Runtime with Q, K and V apart, (batch, length, hidden); packed is unknown.

    The keys of earlier positions are (batch, heads, length, width), if there are any.
    """
    batch, rows, width = _three(work.input())
    _, columns, value_width = _three(work.input(2))
    columns += work.input(6)[2] if work.has_input(6) else 0
    pairs = batch * rows * columns
    return products(pairs * (width + value_width), pairs * work.integer("num_heads") * (SOFTMAX + 1))


def grouped_attention(work: Work) -> Count:
    """GroupQueryAttention of ONNX Runtime with Q apart; the total length is that of its second output, the memory."""
    batch, rows, width = _three(work.input())
    if not work.has_input(1):
        raise UnknownWorkError("Q, K and V are packed")
    pairs = batch * rows * work.output(1)[2]
    return products(2 * pairs * width, pairs * work.integer("num_heads") * (SOFTMAX + 1))


def linear_attention(work: Work) -> Count:
    """LinearAttention, step by step: S ← S + k ⊗ v and q·S for every head; the delta rules also take S·k.

    S is (d_k, d_v). The decay multiplies S once a step, and β scales the update.
    """
    batch, steps, query_width = _three(work.input())
    heads, key_heads = work.integer("q_num_heads"), work.integer("kv_num_heads")
    state = (query_width // heads) * (_three(work.input(2))[2] // key_heads)
    rule = work.text("update_rule", "gated_delta")
    updates = 2 if "delta" in rule else 1
    macs = batch * steps * state * (heads + updates * key_heads)
    return products(macs, batch * steps * key_heads * state * int("gated" in rule))


def _three(shape: Shape) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise UnknownWorkError("packed")
    return shape[0], shape[1], shape[2]


def rotary_embedding(work: Work) -> Count:
    """Two multiplications and an addition for every element that is rotated."""
    width = work.integer("rotary_embedding_dim", 0)
    shape = work.input()
    if width == 0:
        return operations(3 * math.prod(shape))
    heads_width = shape[-1] if len(shape) == 4 else shape[-1] // work.integer("num_heads")
    return operations(3 * math.prod(shape) // heads_width * width)


def quantized_recurrent(work: Work) -> Count:
    """DynamicQuantizeLSTM of ONNX Runtime: W is (directions, inputs, 4 · hidden), turned over against LSTM's."""
    steps, batch, inputs = work.input()
    directions, _, rows = work.input(1)
    units = directions * steps * batch * (rows // 4)
    return products(units * 4 * (inputs + rows // 4), units * (9 + (6 if work.has_input(7) else 0)))


def fourier_transform(work: Work) -> Count:
    """DFT: 5·N·log₂ N operations a transform of N complex numbers, half of that where they are real.

    What FFTW's benchmark counts for any algorithm (Frigo and Johnson, "The design and implementation of FFTW3", 2005).
    """
    given, made = work.input(), work.output()
    axis = work.integer("axis", 1)
    if work.graph.opsets.get("", 20) >= 20:  # an input from then on, with another default
        axis = -2
        if work.has_input(2):
            known = work.graph.constants.get(work.node.inputs[2])
            if known is None:
                raise UnknownWorkError("its axis depends on the data")
            (axis,) = known
    length = max(given[axis], made[axis])
    return _transforms(math.prod(made[:-1]) // max(made[axis], 1), length, is_real=min(given[-1], made[-1]) == 1)


def windowed_fourier_transform(work: Work) -> Count:
    """STFT: for each frame a product with the window, and a transform of its length."""
    batch, frames, bins, _ = work.output()
    step = work.graph.constants.get(work.node.inputs[3]) if work.has_input(3) else None
    length = step[0] if step else work.input(2)[0] if work.has_input(2) else 2 * (bins - 1)
    windows = batch * frames * length if work.has_input(2) else 0
    is_real = work.input()[-1] == 1 or len(work.input()) == 2
    return operations(windows + _transforms(batch * frames, length, is_real=is_real).flops)


def _transforms(count: int, length: int, *, is_real: bool) -> Count:
    return operations(round(count * (2.5 if is_real else 5) * length * math.log2(max(length, 1))))


def convolution(work: Work, weight: int = 1) -> Count:
    """Output elements × (input channels ÷ groups) × kernel elements; the weight is (out, in ÷ groups, kernel …)."""
    return products(work.output_size * math.prod(work.input(weight)[1:]))


def quantized_convolution(work: Work) -> Count:
    """QLinearConv: the weight is the fourth input; rescaling takes 2 an output element."""
    count = convolution(work, weight=3)
    return products(count.macs, 2 * work.output_size)


def transposed_convolution(work: Work) -> Count:
    """Every input element meets (output channels ÷ groups) × kernel elements; the weight is (in, out ÷ groups, …)."""
    return products(work.input_size * math.prod(work.input(1)[1:]))


def fused_convolution(work: Work) -> Count:
    """FusedConv of ONNX Runtime: a residual and an activation in one pass, 1 an output element each."""
    extras = int(work.has_input(3)) + int(bool(work.text("activation")))
    return products(convolution(work).macs, extras * work.output_size)


def deformable_convolution(work: Work) -> Count:
    """A convolution whose samples are interpolated: 4 multiplications and 3 additions each, 1 more with a mask."""
    batch, channels = work.input()[:2]
    samples = batch * channels * math.prod(work.input(1)[2:]) * math.prod(work.output()[2:])
    return products(convolution(work).macs, samples * (8 if work.has_input(4) else 7))


def causal_convolution(work: Work) -> Count:
    """CausalConvWithState: depthwise, weight (channels, 1, k); an activation takes 1 an output element."""
    activation = work.text("activation", "none") not in {"", "none"}
    return products(convolution(work).macs, work.output_size if activation else 0)


def matrix_product(work: Work) -> Count:
    """Output elements × K, the last size of the first input; batches broadcast into the output's size."""
    return products(work.output_size * _last(work.input()))


def quantized_matrix_product(work: Work) -> Count:
    """QLinearMatMul: rescaling takes 2 an output element."""
    return products(matrix_product(work).macs, 2 * work.output_size)


def gemm(work: Work) -> Count:
    """Output elements (M·N) × K, which stands first in a transposed A; α and β are folded into the weights."""
    rows = work.input()
    return products(work.output_size * rows[0 if work.integer("transA", 0) else -1])


def quantized_gemm(work: Work) -> Count:
    """QGemm of ONNX Runtime: rescaling takes 2 an output element."""
    return products(gemm(work).macs, 2 * work.output_size)


def fused_matrix_product(work: Work) -> Count:
    """FusedMatMul of ONNX Runtime: K is the last but one size of a transposed A."""
    if work.integer("transBatchA", 0) or work.integer("transBatchB", 0):
        raise UnknownWorkError("batches are transposed")
    rows = work.input()
    return products(work.output_size * rows[-2 if work.integer("transA", 0) else -1])


def blockwise_product(work: Work) -> Count:
    """MatMulNBits of ONNX Runtime: its weight is packed, so K is an attribute."""
    return products(work.output_size * work.integer("K"))


def affine_grid(work: Work) -> Count:
    """AffineGrid: every coordinate is a row of θ, (d, d + 1), times a point."""
    return products(work.output_size * work.input()[-1])


def einsum(work: Work) -> Count:
    """Pairs from left to right, as ONNX Runtime and PyTorch without opt_einsum do it.

    A pair over whose labels a sum runs takes a multiply-add for every combination of its labels; one without a sum
    takes a multiplication for every output element. A single operand takes an addition an element if it is summed.
    """
    terms, output = _labelled(work)
    sizes = {label: size for term, shape in terms for label, size in zip(term, shape, strict=True) if size != 1}
    left, total = terms[0][0], Count(0, 0)
    if len(terms) == 1:
        return operations(work.input_size if set(left) - set(output) else 0)
    for place, (right, _) in enumerate(terms[1:], start=2):
        needed = set(output).union(*(term for term, _ in terms[place:]))
        labels = set(left) | set(right)
        combinations = math.prod(sizes.get(label, 1) for label in labels)
        pair = products(combinations) if labels - needed else operations(combinations)
        total = Count(total.macs + pair.macs, total.flops + pair.flops)
        left = tuple(label for label in labels if label in needed)
    return total


def linear_model(work: Work) -> Count:
    """LinearClassifier and LinearRegressor of ai.onnx.ml: rows × coefficients."""
    coefficients = work.node.attributes.get("coefficients", ())
    shape = work.input()
    rows = shape[0] if len(shape) > 1 else 1
    return products(rows * len(coefficients)) if isinstance(coefficients, tuple) else operations(0)


Term = tuple[str, ...]


def _labelled(work: Work) -> tuple[list[tuple[Term, Shape]], Term]:
    """The labels of each operand with its shape, and those of the output; "…" becomes a label for each dimension."""
    equation = work.text("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    texts, shapes = left.split(","), work.inputs()
    if len(texts) != len(shapes):
        raise UnknownWorkError("operands are missing")
    terms = [(_expand(text, len(shape)), shape) for text, shape in zip(texts, shapes, strict=True)]
    dots = max((term for term, _ in terms), key=lambda term: sum(one.startswith("…") for one in term))
    ellipsis = tuple(label for label in dots if label.startswith("…"))
    if arrow:
        return terms, tuple(one for part in _tokens(right) for one in (ellipsis if part == "..." else (part,)))
    seen = Multiset(label for text in texts for label in text if label.isalpha())
    return terms, (*ellipsis, *sorted(label for label, times in seen.items() if times == 1))


def _expand(text: str, rank: int) -> Term:
    """Labels of one operand; the dimensions of an ellipsis are counted from the right, as broadcasting does."""
    parts = _tokens(text)
    count = rank - sum(part != "..." for part in parts)
    dots = tuple(f"…{place}" for place in range(count, 0, -1))
    term = tuple(one for part in parts for one in (dots if part == "..." else (part,)))
    if len(term) != rank:
        raise UnknownWorkError(f"{text!r} does not label {rank} dimensions")
    return term


def _tokens(text: str) -> Sequence[str]:
    before, dots, after = text.partition("...")
    return [*before, *([dots] if dots else []), *after]


def _last(shape: Shape) -> int:
    if not shape:
        raise UnknownWorkError("a scalar has no rows")
    return shape[-1]
