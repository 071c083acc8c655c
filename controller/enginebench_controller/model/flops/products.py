"""Convolutions, matrix products and sums of products.

A dot product of length K takes K multiplications and K − 1 additions; the K-th addition is its bias's. So K
multiply-adds are 2·K operations with a bias, and are counted as 2·K without one too, as all tools do. Positions that
fall on padding are counted like any other.
"""

import math
from collections import Counter as Multiset
from collections.abc import Sequence

from enginebench_controller.model.flops.work import Count, Shape, UnknownWorkError, Work, operations, products


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
