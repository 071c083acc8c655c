"""Counts against values worked out by hand; each derivation stands beside its number. 1 MAC = 2 FLOPs."""

from pathlib import Path

import numpy as np
import pytest
from counted import cost_of
from onnx import TensorProto, helper

from enginebench_controller.records.profile import CountMethod


def floats(*shape: int) -> np.ndarray:
    return np.ones(shape, "f")


def node(op_type: str, inputs: list[str], outputs: list[str] | None = None, **attributes: object):
    return helper.make_node(op_type, inputs, outputs or ["y"], **attributes)


def test_a_plain_convolution(tmp_path: Path) -> None:
    """7×7, 3 → 64 channels, stride 2, 224² → 112²: 64·112·112 outputs, each 3·7·7 MACs = 118 013 952."""
    conv = node("Conv", ["x", "w", "b"], strides=[2, 2], pads=[3, 3, 3, 3])
    cost = cost_of(conv, tmp_path, [("x", [1, 3, 224, 224])], {"w": floats(64, 3, 7, 7), "b": floats(64)})
    assert cost.macs == 64 * 112 * 112 * 3 * 7 * 7 == 118_013_952
    # The bias is the last of the additions of each dot product: 147 multiplications, 146 additions, and one.
    assert cost.flops == 2 * cost.macs
    assert cost.parameters == cost.nonzero_parameters == 64 * 147 + 64
    assert cost.weight_bytes == 4 * (64 * 147 + 64)
    assert cost.activation_bytes == 4 * (3 * 224 * 224 + 64 * 112 * 112)
    assert cost.intensity == pytest.approx(236_027_904 / (37_888 + 3_813_376))


def test_a_grouped_convolution(tmp_path: Path) -> None:
    """3×3, 64 → 128 channels in 4 groups, 14², batch 2: an output sees 64/4 = 16 channels.

    2·128·14·14 outputs × 16·9 MACs = 50 176 × 144 = 7 225 344.
    """
    conv = node("Conv", ["x", "w"], group=4, pads=[1, 1, 1, 1])
    cost = cost_of(conv, tmp_path, [("x", [2, 64, 14, 14])], {"w": floats(128, 16, 3, 3)})
    assert cost.macs == 7_225_344


def test_a_depthwise_convolution(tmp_path: Path) -> None:
    """3×3 over 32 channels of 112², one channel each: 32·112·112 × 9 = 3 612 672 (Sparsify said 112 896)."""
    conv = node("Conv", ["x", "w"], group=32, pads=[1, 1, 1, 1])
    cost = cost_of(conv, tmp_path, [("x", [1, 32, 112, 112])], {"w": floats(32, 1, 3, 3)})
    assert (cost.macs, cost.flops) == (3_612_672, 7_225_344)


def test_a_transposed_convolution_in_groups(tmp_path: Path) -> None:
    """4×4, 16 → 8 channels in 2 groups, stride 2, 7² → 14².

    Each of 16·7·7 = 784 inputs is spread over 8/2 = 4 channels × 16 places: 784 × 64 = 50 176 MACs.
    """
    conv = node("ConvTranspose", ["x", "w"], group=2, strides=[2, 2], pads=[1, 1, 1, 1])
    cost = cost_of(conv, tmp_path, [("x", [1, 16, 7, 7])], {"w": floats(16, 4, 4, 4)})
    assert cost.macs == 50_176
    assert cost.activation_bytes == 4 * (16 * 7 * 7 + 8 * 14 * 14)


def test_a_convolution_of_integers(tmp_path: Path) -> None:
    """1×1, 8 → 4 channels, 5²: 4·25 × 8 = 800 MACs; a byte an element of x and w, four of the int32 output."""
    conv = node("ConvInteger", ["x", "w", "zero", "zero"])
    weights = {"w": np.full((4, 8, 1, 1), 3, np.uint8), "zero": np.array(1, np.uint8)}
    cost = cost_of(conv, tmp_path, [("x", [1, 8, 5, 5], TensorProto.UINT8)], weights, kind=TensorProto.INT32)
    assert (cost.macs, cost.flops, cost.parameters) == (800, 1600, 32)
    assert (cost.weight_bytes, cost.activation_bytes) == (32 + 1, 8 * 25 + 4 * 4 * 25)


def test_a_quantized_convolution(tmp_path: Path) -> None:
    """3×3, 2 → 4 channels, 6² padded: 4·36 × 18 = 2592 MACs, and 2 operations to rescale each of 144 outputs."""
    scales = ["s", "z"]
    conv = node("QLinearConv", ["x", *scales, "w", *scales, *scales, "b"], pads=[1, 1, 1, 1])
    weights = {
        "s": np.array(0.1, "f"),
        "z": np.array(128, np.uint8),
        "w": np.full((4, 2, 3, 3), 7, np.uint8),
        "b": np.array([1, 0, 2, 3], np.int32),
    }
    cost = cost_of(conv, tmp_path, [("x", [1, 2, 6, 6], TensorProto.UINT8)], weights, kind=TensorProto.UINT8)
    assert (cost.macs, cost.flops) == (2592, 2 * 2592 + 2 * 144)
    assert (cost.parameters, cost.nonzero_parameters) == (72 + 4, 72 + 3)


@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm_counts_every_row_of_the_batch(tmp_path: Path, transposed: tuple[int, int]) -> None:
    """8 rows × 512 → 1000: 8·1000 outputs × 512 = 4 096 000 MACs, however A and B lie (Sparsify forgot the 8)."""
    rows, columns = [8, 512], (512, 1000)
    gemm = node("Gemm", ["x", "w", "b"], transA=transposed[0], transB=transposed[1])
    x, w = (rows[::-1] if transposed[0] else rows), (columns[::-1] if transposed[1] else columns)
    cost = cost_of(gemm, tmp_path, [("x", x)], {"w": floats(*w), "b": floats(1000)})
    assert (cost.macs, cost.flops) == (4_096_000, 8_192_000)


def test_a_quantized_gemm_of_onnx_runtime_rescales_too(tmp_path: Path) -> None:
    """8 rows × 512 → 1000: 4 096 000 MACs, and 2 more operations for each of 8 000 outputs."""
    inputs = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "", "y_scale", "y_zero"]
    gemm = node("QGemm", inputs, domain="com.microsoft", transB=1)
    fixed = {name: np.array(0.1, np.float32) for name in ("x_scale", "w_scale", "y_scale")}
    fixed |= {"x_zero": np.uint8(3).reshape(()), "w_zero": np.int8(0).reshape(()), "y_zero": np.uint8(7).reshape(())}
    weight = {"w": np.ones((1000, 512), np.int8)}
    cost = cost_of(gemm, tmp_path, [("x", [8, 512], TensorProto.UINT8)], fixed | weight, kind=TensorProto.UINT8)
    assert (cost.macs, cost.flops) == (4_096_000, 2 * 4_096_000 + 2 * 8_000)


@pytest.mark.parametrize(
    ("a", "b", "macs"),
    [
        ([4, 8, 128, 64], [4, 8, 64, 128], 4 * 8 * 128 * 128 * 64),  # 33 554 432: one product a head
        ([4, 8, 128, 64], [64, 32], 4 * 8 * 128 * 32 * 64),  # the right matrix is broadcast over 32 batches
        ([5, 1, 6, 7], [3, 7, 2], 5 * 3 * 6 * 2 * 7),  # batches 5×1 and 3 broadcast to 5×3
        ([9], [9], 9),  # a dot product
        ([4, 9], [9], 36),  # a matrix times a vector
        ([9], [2, 9, 3], 54),  # a vector times two matrices
    ],
)
def test_matmul_in_batches(tmp_path: Path, a: list[int], b: list[int], macs: int) -> None:
    cost = cost_of(node("MatMul", ["x", "z"]), tmp_path, [("x", a), ("z", b)])
    assert (cost.macs, cost.flops, cost.parameters) == (macs, 2 * macs, 0)


def test_products_of_integers(tmp_path: Path) -> None:
    """(3×4)·(4×5): 15 outputs × 4 = 60 MACs; int32 comes out."""
    inputs = [("x", [3, 4], TensorProto.UINT8), ("z", [4, 5], TensorProto.INT8)]
    cost = cost_of(node("MatMulInteger", ["x", "z"]), tmp_path, inputs, kind=TensorProto.INT32)
    assert (cost.macs, cost.flops, cost.activation_bytes) == (60, 120, 12 + 20 + 4 * 15)


@pytest.mark.parametrize(
    ("op_type", "gates", "elementwise"),
    [("RNN", 1, 1), ("GRU", 3, 8), ("LSTM", 4, 9)],
)
@pytest.mark.parametrize("directions", [1, 2])
def test_recurrent_layers(tmp_path: Path, op_type: str, gates: int, elementwise: int, directions: int) -> None:
    """10 steps, batch 3, 16 inputs, 32 hidden units.

    A unit of a gate takes 16 MACs on the input and 32 on the state, a step, item and direction. LSTM:
    10·3·32 units × 4 gates × 48 = 184 320 MACs, and 9 elementwise operations a unit (3 sigmoids, 2 hyperbolic tangents,
    f·c + i·g, o·h): 8640. GRU: 3 activations, r·h, (1 − z)·n + z·h: 8. RNN: its activation.
    """
    layer = node(op_type, ["x", "w", "r"], hidden_size=32, direction="forward" if directions == 1 else "bidirectional")
    weights = {"w": floats(directions, gates * 32, 16), "r": floats(directions, gates * 32, 32)}
    cost = cost_of(layer, tmp_path, [("x", [10, 3, 16])], weights)
    units = directions * 10 * 3 * 32
    assert cost.macs == units * gates * (16 + 32)
    assert cost.flops == 2 * cost.macs + units * elementwise
    if (op_type, directions) == ("LSTM", 1):
        assert (cost.macs, cost.flops) == (184_320, 368_640 + 8640)


def test_the_peepholes_of_an_lstm(tmp_path: Path) -> None:
    """p ⊙ c added in 3 gates is 6 operations a unit: 2·1·4 units × (9 + 6)."""
    layer = node("LSTM", ["x", "w", "r", "", "", "", "", "p"], hidden_size=4)
    weights = {"w": floats(1, 16, 5), "r": floats(1, 16, 4), "p": floats(1, 12)}
    cost = cost_of(layer, tmp_path, [("x", [2, 1, 5])], weights)
    assert cost.flops - 2 * cost.macs == 8 * 15


@pytest.mark.parametrize(
    ("equation", "shapes", "macs", "flops"),
    [
        ("bij,bjk->bik", [[2, 3, 4], [2, 4, 5]], 120, 240),  # 2·3·5 outputs × 4
        ("bij,jk", [[2, 3, 4], [4, 5]], 120, 240),  # implicit output bik
        ("...ij,...jk->...ik", [[6, 2, 3, 4], [2, 4, 5]], 720, 1440),  # 6·2 products of 3×5×4
        ("i,j->ij", [[7], [8]], 0, 56),  # no sum: multiplications only
        ("ij->i", [[7, 8]], 0, 56),  # an addition an element
        ("ij->ji", [[7, 8]], 0, 0),  # nothing but a transposition
        ("ij,jk,kl->il", [[2, 3], [3, 4], [4, 5]], 2 * 3 * 4 + 2 * 4 * 5, 128),  # from left to right
    ],
)
def test_einsum(tmp_path: Path, equation: str, shapes: list[list[int]], macs: int, flops: int) -> None:
    names = ["a", "b", "c"][: len(shapes)]
    cost = cost_of(node("Einsum", names, equation=equation), tmp_path, list(zip(names, shapes, strict=True)))
    assert (cost.macs, cost.flops) == (macs, flops)


def test_attention_with_fewer_heads_for_keys(tmp_path: Path) -> None:
    """Batch 2, 8 heads over 2, 10 queries, 6 new and 4 remembered keys, width 16 and 32.

    2·8·10·10 = 1600 scores; 16 MACs each for Q·Kᵀ, 32 for P·V; softmax 5 and scaling 1.
    """
    shapes = [("q", [2, 8, 10, 16]), ("k", [2, 2, 6, 16]), ("v", [2, 2, 6, 32])]
    past = [("pk", [2, 2, 4, 16]), ("pv", [2, 2, 4, 32])]
    layer = node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "pk2", "pv2"])
    cost = cost_of(layer, tmp_path, [*shapes, *past], opset=23)
    assert (cost.macs, cost.flops) == (1600 * 48, 2 * 1600 * 48 + 1600 * 6)


def test_attention_on_packed_heads(tmp_path: Path) -> None:
    """(batch, length, heads · width) = (1, 5, 4·8): 4·5·5 = 100 scores × (8 + 8)."""
    shapes = [(name, [1, 5, 32]) for name in "qkv"]
    layer = node("Attention", ["q", "k", "v"], q_num_heads=4, kv_num_heads=4)
    assert cost_of(layer, tmp_path, shapes, opset=23).macs == 1600


@pytest.mark.parametrize(("remembered", "pairs"), [(0, 2 * 3 * 5), (7, 2 * 3 * (5 + 7))])
def test_the_attention_of_a_decoder_looks_at_what_it_remembers_too(tmp_path: Path, remembered: int, pairs: int) -> None:
    """2·3 queries by 5 keys, and those remembered, × (32 + 32); softmax and scaling of 4 heads."""
    names, inputs = ["q", "k", "v"], [("q", [2, 3, 32]), ("k", [2, 5, 32]), ("v", [2, 5, 32])]
    if remembered:
        names += ["", "", "", "past_k", "past_v"]
        inputs += [(name, [2, 4, remembered, 8]) for name in ("past_k", "past_v")]
    layer = node("MultiHeadAttention", names, domain="com.microsoft", num_heads=4)
    cost = cost_of(layer, tmp_path, inputs)
    assert (cost.macs, cost.flops) == (pairs * 64, 2 * pairs * 64 + 4 * pairs * 6)


def test_the_attention_of_onnx_runtime_projects_first(tmp_path: Path) -> None:
    """(2, 8, 16) × (16, 48): 2·8·16·48 = 12 288 MACs; 2·8·8 pairs × (16 + 16) = 4096; 4 heads × 128 pairs × 6."""
    layer = node("Attention", ["x", "w", "b"], domain="com.microsoft", num_heads=4)
    cost = cost_of(layer, tmp_path, [("x", [2, 8, 16])], {"w": floats(16, 48), "b": floats(48)})
    assert (cost.macs, cost.flops) == (16_384, 32_768 + 4 * 128 * 6)
    assert cost.activation_bytes == 2 * 4 * 2 * 8 * 16, "input and output have the same shape"


def test_the_attention_of_onnx_runtime_looks_at_what_it_remembers_too(tmp_path: Path) -> None:
    """12 288 MACs of the projection as above; 2·8·(8 + 7) = 240 pairs × (16 + 16) = 7680."""
    layer = node("Attention", ["x", "w", "b", "", "past"], ["y", "present"], domain="com.microsoft", num_heads=4)
    inputs = [("x", [2, 8, 16]), ("past", [2, 2, 4, 7, 4])]
    cost = cost_of(layer, tmp_path, inputs, {"w": floats(16, 48), "b": floats(48)})
    assert (cost.macs, cost.flops) == (12_288 + 7680, 2 * (12_288 + 7680) + 4 * 240 * 6)


@pytest.mark.parametrize(
    ("layer", "shape", "flops"),
    [
        (node("Relu", ["x"]), [2, 3], 6),
        (node("Exp", ["x"]), [2, 3], 6),
        (node("Softmax", ["x"]), [2, 3], 30),  # maximum, difference, exponential, sum, division
        (node("MaxPool", ["x"], kernel_shape=[2, 2], strides=[2, 2]), [1, 1, 4, 4], 16),  # 4 windows of 4
        (node("GlobalAveragePool", ["x"]), [1, 2, 3, 3], 18),
        (node("LRN", ["x"], size=5), [1, 2, 3, 3], 18 * 14),
        (node("ReduceMean", ["x"], axes=[1]), [4, 5], 20),
        (node("Sum", ["x", "x", "x"]), [4], 8),  # three tensors, two additions
        (node("Transpose", ["x"], perm=[1, 0]), [4, 5], 0),
    ],
    ids=lambda value: getattr(value, "op_type", None),
)
def test_other_operators(tmp_path: Path, layer, shape: list[int], flops: int) -> None:
    cost = cost_of(layer, tmp_path, [("x", shape)])
    assert (cost.macs, cost.flops) == (0, flops)


def test_a_resize_counts_the_neighbours_of_what_it_changes(tmp_path: Path) -> None:
    """Two of four dimensions grow: 4 neighbours, 4 multiplications and 3 additions for each of 64 outputs."""
    layer = node("Resize", ["x", "", "", "sizes"], mode="linear")
    cost = cost_of(layer, tmp_path, [("x", [1, 1, 4, 4])], {"sizes": np.array([1, 1, 8, 8], np.int64)})
    assert (cost.flops, cost.parameters) == (64 * 7, 0)
    nearest = node("Resize", ["x", "", "", "sizes"], mode="nearest")
    assert cost_of(nearest, tmp_path, [("x", [1, 1, 4, 4])], {"sizes": np.array([1, 1, 8, 8], np.int64)}).flops == 0


def test_an_operator_without_a_formula_is_unknown_and_not_nothing(tmp_path: Path) -> None:
    layer = node("TopK", ["x", "k"], ["y", "places"])
    cost = cost_of(layer, tmp_path, [("x", [8])], {"k": np.array([3], np.int64)})
    assert (cost.macs, cost.flops, cost.intensity, cost.method) == (0, None, None, CountMethod.UNKNOWN)
    assert cost.reason == "depends on the algorithm"
    assert cost.activation_bytes == 4 * (8 + 3), "the output that nobody reads is not written"
    custom = helper.make_node("Secret", ["x"], ["z"], domain="com.example")
    cost = cost_of(custom, tmp_path, [("x", [8])])
    assert (cost.macs, cost.flops, cost.reason) == (None, None, "nothing is known of this operator")


def test_fourier_transforms_count_as_in_the_benchmark_of_fftw(tmp_path: Path) -> None:
    """5·N·log₂ N for complex numbers, half of that for real ones: 2 transforms of 16, and 2 × 3 windowed ones of 8."""
    given = {"axis": np.array(1, np.int64), "step": np.array(4, np.int64), "long": np.array(8, np.int64)}
    layer = node("DFT", ["x"], axis=1)
    assert cost_of(layer, tmp_path, [("x", [2, 16, 2])]).flops == 2 * 5 * 16 * 4
    assert cost_of(node("DFT", ["x"]), tmp_path, [("x", [2, 16, 4, 2])]).flops == 2 * 4 * 5 * 16 * 4, "axis 1, of old"
    unknown = cost_of(node("DFT", ["x", "", "axis"]), tmp_path, [("x", [2, 16, 2]), ("axis", [])], opset=20)
    assert (unknown.flops, unknown.reason) == (None, "its axis depends on the data")
    layer = node("DFT", ["x", "", "axis"], onesided=1)
    assert cost_of(layer, tmp_path, [("x", [2, 16, 1])], {"axis": given["axis"]}, opset=20).flops == 5 * 16 * 4
    layer = node("STFT", ["x", "step", "window", "long"])
    weights = {name: given[name] for name in ("step", "long")} | {"window": floats(8)}
    cost = cost_of(layer, tmp_path, [("x", [2, 16, 1])], weights)
    assert (cost.macs, cost.flops) == (0, 2 * 3 * (8 + 2.5 * 8 * 3))


def test_linear_attention_steps_through_a_state_for_every_head(tmp_path: Path) -> None:
    """2 heads, 1 of keys, d_k = d_v = 4: a state of 16; batch 3 × 5 steps, each q·S twice, S·k and k ⊗ v once.

    3·5·16·(2 + 2) = 960 MACs; the decay multiplies the state once a step: 3·5·16 = 240.
    """
    names = ["q", "k", "v", "", "decay", "beta"]
    layer = node("LinearAttention", names, ["y", "state"], q_num_heads=2, kv_num_heads=1)
    inputs = [("q", [3, 5, 8]), ("k", [3, 5, 4]), ("v", [3, 5, 4]), ("decay", [3, 5, 1]), ("beta", [3, 5, 1])]
    cost = cost_of(layer, tmp_path, inputs, opset=27)
    assert (cost.macs, cost.flops) == (960, 2 * 960 + 240)


def test_a_slice_reads_no_more_than_it_puts_out(tmp_path: Path) -> None:
    """The last of 2048 rows of 512: 2 kB read, 2 kB written, and none of the other rows."""
    cut = node("Slice", ["x", "starts", "ends", "axes"])
    ends = {name: np.array([value]) for name, value in (("starts", -1), ("ends", 2**31), ("axes", 1))}
    cost = cost_of(cut, tmp_path, [("x", [1, 2048, 512])], ends)
    assert cost.activation_bytes == 2 * 4 * 512


def test_a_lookup_in_an_activation_reads_the_rows_it_puts_out_and_its_indices(tmp_path: Path) -> None:
    cost = cost_of(node("Gather", ["x", "i"]), tmp_path, [("x", [100, 8]), ("i", [3], TensorProto.INT64)])
    assert cost.activation_bytes == 2 * 4 * 3 * 8 + 3 * 8
    itself = cost_of(node("Gather", ["x", "x"]), tmp_path, [("x", [100], TensorProto.INT64)], kind=TensorProto.INT64)
    assert itself.activation_bytes == 2 * 8 * 100, "its own indices are read whole"


@pytest.mark.parametrize(("operator", "elements"), [("Shape", 3), ("Size", 1)])
def test_the_shape_of_a_tensor_costs_nothing_of_its_content(operator: str, elements: int, tmp_path: Path) -> None:
    asked = node(operator, ["x"])
    cost = cost_of(asked, tmp_path, [("x", [1, 2048, 512])], kind=TensorProto.INT64)
    assert cost.activation_bytes == 8 * elements
