"""Recurrent layers and attention.

Recurrent layers are counted for the whole length, whatever `sequence_lens` says; attention for every pair of positions,
also where a mask or causality hides some: that is what dense kernels compute, and what PyTorch's counter says.
"""

import math

from enginebench_controller.model.flops.work import Count, Shape, UnknownWorkError, Work, operations, products

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
    """MultiHeadAttention of ONNX Runtime with Q, K and V apart, (batch, length, hidden); packed is unknown."""
    batch, rows, width = _three(work.input())
    _, columns, value_width = _three(work.input(2))
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
