"""The operators of ONNX Runtime's own domain and those of old files in PyTorch, beside the runtime itself."""

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from beside_onnxruntime import assert_equal, assert_same, model_of, run_onnxruntime, run_torch
from numpy.typing import NDArray
from onnxruntime.capi._pybind_state import get_all_opkernel_def

from enginebench_plugins.engines.torch.operators import known

MS = "com.microsoft/"
RANDOM = np.random.default_rng(0)
BEGINNING = RANDOM.bit_generator.state


@pytest.fixture(autouse=True)
def _same_numbers_whatever_ran_before() -> None:
    RANDOM.bit_generator.state = BEGINNING


def _floats(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype(np.float32)


def _bytes(*shape: int, dtype: Any = np.uint8) -> Any:
    return RANDOM.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)


def _scale(value: float) -> Any:
    return np.float32(value)


def _zero(value: int, dtype: Any = np.uint8) -> Any:
    return np.array(value, dtype)


def _inputs(*arrays: Any) -> dict[str, Any]:
    return {f"input_{place}": array for place, array in enumerate(arrays)}


def _whole(*values: Any, dtype: Any = np.int64) -> Any:
    return np.array(values, dtype)


@pytest.mark.parametrize(("turned", "batched"), list(itertools.product(itertools.product((0, 1), repeat=2), repeat=2)))
def test_fused_products(turned: tuple[int, int], batched: tuple[int, int]) -> None:
    def of(rows: int, columns: int, turn: int, batch: int) -> Any:
        first, last = (columns, rows) if turn else (rows, columns)
        return _floats(first, 2, 3, last) if batch else _floats(2, 3, first, last)

    inputs = _inputs(of(4, 5, turned[0], batched[0]), of(5, 6, turned[1], batched[1]))
    attributes = {"transA": turned[0], "transB": turned[1], "transBatchA": batched[0], "transBatchB": batched[1]}
    assert_same(f"{MS}FusedMatMul", inputs, alpha=0.5, **attributes)


def test_products_of_vectors_and_turned_ones() -> None:
    assert_same(f"{MS}FusedMatMul", _inputs(_floats(4), _floats(4, 3)), alpha=2.0)
    assert_same(f"{MS}TransposeMatMul", _inputs(_floats(5, 4), _floats(6, 5)), transA=1, transB=1)


CONVOLVED = {"Relu": [], "Sigmoid": [], "Tanh": [], "LeakyRelu": [0.2], "Clip": [-0.3, 0.4], "HardSigmoid": [0.3, 0.4]}


@pytest.mark.parametrize("activation", [*CONVOLVED, ""])
def test_fused_convolutions(activation: str) -> None:
    more: dict[str, Any] = {"activation": activation} if activation else {}
    more |= {"activation_params": CONVOLVED[activation]} if CONVOLVED.get(activation) else {}
    x, weight, bias = _floats(1, 3, 6, 6), _floats(4, 3, 3, 3), _floats(4)
    assert_same(f"{MS}FusedConv", _inputs(x, weight, bias, _floats(1, 4, 4, 4)), kernel_shape=[3, 3], **more)
    if activation:
        assert_same(f"{MS}FusedConv", _inputs(x, weight), pads=[1, 1, 1, 1], kernel_shape=[3, 3], **more)


MULTIPLIED: dict[str, dict[str, float]] = {
    "Relu": {}, "Sigmoid": {}, "Tanh": {}, "Softplus": {}, "Softsign": {}, "LeakyRelu": {"alpha": 0.3},
    "Elu": {"alpha": 0.7}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4}, "Selu": {"alpha": 1.5, "gamma": 1.1},
    "ThresholdedRelu": {"alpha": 0.5},
}  # fmt: skip


@pytest.mark.parametrize("activation", MULTIPLIED)
def test_fused_linear_layers(activation: str) -> None:
    more = {f"activation_{name}": value for name, value in MULTIPLIED[activation].items()}
    inputs = _inputs(_floats(3, 4), _floats(5, 4), _floats(5))
    assert_same(f"{MS}FusedGemm", inputs, activation=activation, transB=1, alpha=0.7, beta=0.3, **more)


def test_fused_activations_and_sums() -> None:
    x, bias = _floats(3, 4), _floats(4)
    for name, inputs in (("Gelu", (x,)), ("BiasGelu", (x, bias)), ("FastGelu", (x, bias)), ("FastGelu", (x,))):
        assert_same(MS + name, _inputs(*inputs))
    assert_same(f"{MS}QuickGelu", _inputs(x), alpha=1.5)
    assert_same(f"{MS}ScaledSiLU", _inputs(x), alpha=0.7)
    assert_same(f"{MS}ScaledSiLU", _inputs(x, _scale(0.4)))
    assert_same(f"{MS}GatedAdd", _inputs(x, _floats(3, 4), _floats(3, 1)))
    for activation in ("silu", "sigmoid"):
        inputs = _inputs(_floats(2, 8), _floats(4), _floats(2, 8))
        assert_same(f"{MS}GatedRMSNorm", inputs, activation=activation)


def test_normalizations_with_a_skipped_layer() -> None:
    x, scale, bias = _floats(2, 3, 8), _floats(8), _floats(8)
    for skip in (_floats(2, 3, 8), _floats(1, 3, 8), _floats(3, 8)):
        assert_same(f"{MS}SkipLayerNormalization", _inputs(x, skip, scale, bias, _floats(8)))
        assert_same(f"{MS}SkipSimplifiedLayerNormalization", _inputs(x, skip, scale, bias), epsilon=1e-5)
    assert_same(f"{MS}SkipLayerNormalization", _inputs(x, _floats(2, 3, 8), scale))
    assert_same("SimplifiedLayerNormalization", _inputs(x, _floats(3, 8)), epsilon=1e-5, axis=1)


TOKENS, KINDS = RANDOM.integers(0, 7, (2, 5)).astype(np.int32), RANDOM.integers(0, 2, (2, 5)).astype(np.int32)
KEPT = _whole([1, 1, 1, 0, 0], [1, 1, 1, 1, 1], dtype=np.int32)


def test_embeddings() -> None:
    tables = (_floats(7, 8), _floats(9, 8), _floats(2, 8), _floats(8), _floats(8))
    without = (tables[0], tables[1], None, tables[3], tables[4])
    positions = RANDOM.integers(0, 9, (2, 5)).astype(np.int32)
    assert_same(f"{MS}EmbedLayerNormalization", _inputs(TOKENS, KINDS, *tables, KEPT), 3)
    assert_same(f"{MS}EmbedLayerNormalization", _inputs(TOKENS, KINDS, *tables, KEPT, positions), 2)
    assert_same(f"{MS}EmbedLayerNormalization", _inputs(TOKENS, None, *without), 2)
    small = (_bytes(7, 8), _bytes(9, 8), _bytes(2, 8), _bytes(8), _bytes(8))
    steps = [_scale(0.1 / place) for place in range(1, 6)] + [_zero(place) for place in range(1, 6)]
    assert_same(f"{MS}QEmbedLayerNormalization", _inputs(TOKENS, KINDS, *small, KEPT, *steps), 2)


MASKS = {
    "none": None,
    "lengths": _whole(3, 5, dtype=np.int32),
    "ends and starts": _whole(5, 4, 2, 0, dtype=np.int32),
    "keys": KEPT,
    "keys by query": np.tril(np.ones((2, 5, 5), np.int32)),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(mask: str, unidirectional: int) -> None:
    inputs = _inputs(_floats(2, 5, 8), _floats(8, 24), _floats(24), MASKS[mask])
    attributes = {"num_heads": 2, "unidirectional": unidirectional}
    assert_same(f"{MS}Attention", inputs, tolerance=1e-4, **attributes)


def test_attention_with_a_past_a_bias_and_other_sizes() -> None:
    x, weight, bias = _floats(2, 3, 8), _floats(8, 24), _floats(24)
    common = {"num_heads": 2, "tolerance": 1e-4}
    mask = _whole([1] * 7, [0] + [1] * 6, dtype=np.int32)
    for kept in (None, mask):
        inputs = _inputs(x, weight, bias, kept, _floats(2, 2, 2, 4, 4))
        assert_same(f"{MS}Attention", inputs, 2, unidirectional=1, **common)
    assert_same(f"{MS}Attention", _inputs(x, weight, bias, None, None, _floats(1, 2, 3, 3)), **common)
    sizes = {"qkv_hidden_sizes": [8, 8, 6], "scale": 0.3}
    assert_same(f"{MS}Attention", _inputs(x, _floats(8, 22), _floats(22)), **common, **sizes)


MULTI: dict[str, tuple[Any, ...]] = {
    "apart": (_floats(2, 3, 8), _floats(2, 5, 8), _floats(2, 5, 8)),
    "bias": (_floats(2, 3, 8), _floats(2, 5, 8), _floats(2, 5, 8), _floats(24)),
    "wider values": (_floats(2, 3, 8), _floats(2, 5, 8), _floats(2, 5, 12), _floats(28)),
    "lengths": (_floats(2, 3, 8), _floats(2, 5, 8), _floats(2, 5, 8), None, MASKS["lengths"]),
    "mask": (_floats(2, 3, 8), _floats(2, 5, 8), _floats(2, 5, 8), None, KEPT),
    "added": (_floats(2, 3, 8), _floats(2, 5, 8), _floats(2, 5, 8), None, None, _floats(1, 2, 3, 5)),
    "heads": (_floats(2, 3, 8), _floats(2, 2, 5, 4), _floats(2, 2, 5, 4)),
}


@pytest.mark.parametrize("inputs", MULTI)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_multi_head_attention(inputs: str, unidirectional: int) -> None:
    attributes = {"num_heads": 2, "unidirectional": unidirectional}
    assert_same(f"{MS}MultiHeadAttention", _inputs(*MULTI[inputs]), tolerance=1e-4, **attributes)


def test_multi_head_attention_with_a_past() -> None:
    new = [_floats(2, 1, 8) for _ in range(3)]
    past = [_floats(2, 2, 4, 4) for _ in range(2)]
    inputs = _inputs(*new, _floats(24), None, None, *past)
    assert_same(f"{MS}MultiHeadAttention", inputs, 3, num_heads=2, tolerance=1e-4)


ANGLES = (_floats(32, 4), _floats(32, 4))
GROUPED: dict[str, dict[str, Any]] = {
    "prompt": {},
    "packed": {"packed": True, "do_rotary": 1},
    "turned": {"do_rotary": 1},
    "turned in pairs": {"do_rotary": 1, "rotary_interleaved": 1},
    "told where": {"do_rotary": 1, "batch": 1, "more": (np.arange(4).reshape(1, 4),)},
    "one more": {"new": 1, "past": 5, "do_rotary": 1},
    "one more, of other lengths": {"new": 1, "past": 5, "lengths": [3, 5]},
    "three more": {"new": 3, "past": 5, "batch": 1},
    "a longer cache": {"new": 1, "past": 5, "cache": 9},
    "window": {"local_window_size": 3, "new": 6},
    "window and past": {"local_window_size": 3, "new": 1, "past": 5},
    "softcap": {"softcap": 2.0, "more": (None, _floats(1, 4, 4, 4))},
    "smooth": {"smooth_softmax": 1},
    "sink": {"more": (None, None, _floats(4))},
    "scale": {"scale": 0.2},
    "both ways": {"causal": 0},
}


@pytest.mark.parametrize("case", GROUPED)
def test_grouped_attention(case: str) -> None:
    given = dict(GROUPED[case])
    batch, new, past = given.pop("batch", 2), given.pop("new", 4), given.pop("past", 0)
    packed, more, cache = given.pop("packed", False), given.pop("more", ()), given.pop("cache", past)
    lengths = given.pop("lengths", [past + new - 1] * batch)
    query = [_floats(batch, new, 128), None, None]
    query = query if packed else [_floats(batch, new, width) for width in (64, 32, 32)]
    kept = [_floats(batch, 2, cache, 16) for _ in range(2)]
    told = [_whole(*lengths, dtype=np.int32), np.array(past + new, np.int32)]
    angles = (_floats(32, 8), _floats(32, 8)) if given.get("do_rotary") else (None, None)
    inputs = _inputs(*query, *kept, *told, *angles, *more)
    assert_same(f"{MS}GroupQueryAttention", inputs, 3, num_heads=4, kv_num_heads=2, tolerance=1e-4, **given)


def test_grouped_attention_with_a_quantized_cache_is_refused() -> None:
    names, attributes = (
        ["x", "", "", "", "", "l", "t"],
        {"num_heads": 2, "kv_num_heads": 1, "k_quant_type": "PER_TENSOR"},
    )
    node = onnx.helper.make_node("GroupQueryAttention", names, ["y"], domain="com.microsoft", **attributes)
    inputs = {"x": _floats(1, 2, 32), "l": _whole(1, dtype=np.int32), "t": np.array(2, np.int32)}
    with pytest.raises(NotImplementedError, match="quantized"):
        run_torch(model_of([node], inputs, {}, {}), inputs)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embeddings(interleaved: int) -> None:
    places = RANDOM.integers(0, 12, (2, 5))
    assert_same(f"{MS}RotaryEmbedding", _inputs(_floats(2, 5, 16), _whole(2), *ANGLES), interleaved=interleaved)
    assert_same(f"{MS}RotaryEmbedding", _inputs(_floats(2, 2, 5, 8), places, *ANGLES), interleaved=interleaved)
    part = {"num_heads": 2, "rotary_embedding_dim": 4, "interleaved": interleaved}
    inputs = _inputs(_floats(2, 5, 16), places, _floats(12, 2), _floats(12, 2))
    assert_same(f"{MS}RotaryEmbedding", inputs, **part)


def _assert_within_a_step(operator: str, *inputs: Any, **attributes: Any) -> None:
    """The runtime rounds sums of its own; what lies between two steps may go to either."""
    assert_same(f"{MS}{operator}", _inputs(*inputs), tolerance=1.0, **attributes)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantized_elements(dtype: Any) -> None:
    step, zeros = [_scale(0.1), _scale(0.05), _scale(0.2)], [_zero(3, dtype), _zero(5, dtype), _zero(1, dtype)]
    for second in (_bytes(2, 3, 4, dtype=dtype), _bytes(4, dtype=dtype)):
        pair = (_bytes(2, 3, 4, dtype=dtype), step[0], zeros[0], second, step[1], zeros[1], step[2], zeros[2])
        for operator in ("QLinearAdd", "QLinearMul"):
            _assert_within_a_step(operator, *pair)
        condition = RANDOM.random((2, 3, 1)) > 0.5
        _assert_within_a_step("QLinearWhere", condition, *pair)
    one = (_bytes(3, 4, dtype=dtype), _scale(0.05), zeros[0], _scale(0.01), zeros[1])
    _assert_within_a_step("QLinearSigmoid", *one)
    _assert_within_a_step("QLinearLeakyRelu", *one, alpha=0.2)


def test_quantized_joins_and_softmax() -> None:
    parts = (_bytes(2, 3), _scale(0.2), _zero(3), _bytes(2, 2), _scale(0.1), _zero(10))
    _assert_within_a_step("QLinearConcat", _scale(0.1), _zero(10), *parts, axis=1)
    for axis, opset in itertools.product((-1, 1), (12, 13)):
        x = (_bytes(2, 3, 4), _scale(0.05), _zero(100), _scale(1 / 256), _zero(0))
        _assert_within_a_step("QLinearSoftmax", *x, axis=axis, opset=opset)


def _weights(*shape: int) -> NDArray[np.int8]:
    """Of seven bits: without VNNI, ONNX Runtime adds pairs of products of eight bits in sixteen, which saturate."""
    return RANDOM.integers(-64, 64, shape).astype(np.int8)


@pytest.mark.parametrize("last", [0, 1])
def test_quantized_images(last: int) -> None:
    x = _bytes(1, 6, 6, 3) if last else _bytes(1, 3, 6, 6)
    pooled = (x, _scale(0.1), _zero(10), _scale(0.1), _zero(10))
    for more in ({}, {"pads": [1, 1, 1, 1], "count_include_pad": 1, "strides": [2, 2]}, {"pads": [0, 0, 1, 1]}):
        _assert_within_a_step("QLinearAveragePool", *pooled, channels_last=last, kernel_shape=[3, 3], **more)
    _assert_within_a_step("QLinearGlobalAveragePool", *pooled, channels_last=last)
    known = {
        "w": _weights(4, 3, 3, 3), "ws": _scale(0.02), "wz": _zero(0, np.int8), "ys": _scale(0.3),
        "yz": _zero(120), "b": RANDOM.integers(-500, 500, 4).astype(np.int32),
    }  # fmt: skip
    image, attributes = _inputs(*pooled[:3]), {"channels_last": last, "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    assert_same(f"{MS}QLinearConv", image, constants=known, tolerance=1.0, **attributes)
    assert_same(f"{MS}QLinearConv", image | known, tolerance=1.0, **attributes)


def test_images_with_channels_last_are_pooled() -> None:
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}
    assert_same(f"{MS}NhwcMaxPool", _inputs(_bytes(1, 6, 6, 3)), **attributes)
    assert_same(f"{MS}NhwcMaxPool", _inputs(_bytes(1, 6, 6, 3, dtype=np.int8)), kernel_shape=[2, 2])


@pytest.mark.parametrize("turned", [0, 1])
def test_quantized_products(turned: int) -> None:
    bias = RANDOM.integers(-500, 500, 5).astype(np.int32)
    weight = _weights(5, 4) if turned else _weights(4, 5)
    columns = (RANDOM.random(5).astype(np.float32), np.zeros(5, np.int8))
    x = (_bytes(3, 4), _scale(0.1), _zero(100))
    whole = (_scale(0.05), _zero(20, np.int8))
    _assert_within_a_step("QGemm", *x, weight, *whole, bias, _scale(0.2), _zero(110), transB=turned)
    assert_same(f"{MS}QGemm", _inputs(*x, weight, *columns, bias), transB=turned, tolerance=1e-4)
    inner = weight.T if turned else weight
    apart = (_bytes(2, 3, 4), inner, _scale(0.1), columns[0], _zero(100), columns[1], _floats(5))
    assert_same(f"{MS}MatMulIntegerToFloat", _inputs(*apart), tolerance=1e-4)
    for scales in (columns, whole):
        inputs = _inputs(_floats(2, 3, 4), inner, *scales, _floats(5))
        assert_same(f"{MS}DynamicQuantizeMatMul", inputs, tolerance=1e-4)
    wide = [RANDOM.integers(-300, 300, shape).astype(np.int16) for shape in ((3, 4), (4, 5))]
    assert_same(f"{MS}MatMulInteger16", _inputs(*wide))


def test_quantized_attention() -> None:
    steps = (_scale(0.02), _scale(0.02), MASKS["lengths"], _zero(120), _zero(0, np.int8))
    inputs = _inputs(_bytes(2, 5, 8), _weights(8, 24), _floats(24), *steps)
    assert_same(f"{MS}QAttention", inputs, num_heads=2, tolerance=1e-3)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_of_a_few_bits(bits: int) -> None:
    sizes, blocks = {"K": 40, "N": 6, "bits": bits, "block_size": 16}, 3
    given = {"w": _bytes(6, blocks, 2 * bits), "s": RANDOM.random(6 * blocks).astype(np.float32)}
    for zeros in ({}, {"z": _bytes(6 * -(-blocks * bits // 8))}):
        inputs = _inputs(_floats(2, 3, 40))
        assert_same(f"{MS}MatMulNBits", inputs, constants=given | zeros, tolerance=1e-3, **sizes)


@pytest.mark.parametrize("kind", [0, 1])
def test_weights_by_quantiles(kind: int) -> None:
    given = {"w": _bytes(80), "largest": RANDOM.random(10).astype(np.float32)}
    sizes = {"K": 32, "N": 5, "block_size": 16, "quant_type": kind}
    assert_same(f"{MS}MatMulBnb4", _inputs(_floats(3, 32)), constants=given, tolerance=1e-3, **sizes)


@pytest.mark.parametrize(("bits", "shifted"), list(itertools.product((4, 8), (False, True))))
def test_rows_of_quantized_tables(bits: int, shifted: bool) -> None:
    table = {"table": _bytes(7, 4 * bits), "scales": _floats(7, 2)}
    table |= {"zeros": _bytes(7, -(-2 * bits // 8))} if shifted else {}
    names = ["table", "places", *list(table)[1:]]
    sizes = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
    node = onnx.helper.make_node("GatherBlockQuantized", names, ["y"], domain="com.microsoft", **sizes)
    inputs = {"places": RANDOM.integers(-7, 7, (2, 3))}
    model = model_of([node], inputs, table, {})
    assert_equal(run_torch(model, inputs), run_onnxruntime(model, inputs))


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 1), (1, 3)])
def test_regions_are_cropped_and_resized(mode: str, size: tuple[int, int]) -> None:
    regions = [[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [-0.2, 0, 1.3, 0.5], [0.9, 0.9, 0.1, 0.1]]
    batch, shape = _whole(0, 1, 1, 0, dtype=np.int32), _whole(*size, dtype=np.int32)
    inputs = _inputs(_floats(2, 3, 6, 5), np.array(regions, np.float32), batch, shape)
    assert_same(f"{MS}CropAndResize", inputs, mode=mode, extrapolation_value=0.5)


@pytest.mark.parametrize("pads", [[1, 1, 1, 1], [0, 1, 2, 0], [0, 0, 0, 0]])
def test_transposed_convolutions_padded_by_an_input(pads: list[int]) -> None:
    inputs = _inputs(_floats(1, 3, 5, 5), _floats(3, 2, 3, 3), _whole(*pads), _floats(2))
    attributes = {"strides": [2, 2], "kernel_shape": [3, 3]}
    assert_same(f"{MS}ConvTransposeWithDynamicPads", inputs, tolerance=1e-4, **attributes)


def test_operators_that_the_standard_has_too() -> None:
    grid = (RANDOM.random((1, 3, 4, 2)) * 2.4 - 1.2).astype(np.float32)
    for mode, aligned in itertools.product(("bilinear", "nearest", "bicubic"), (0, 1)):
        inputs = _inputs(_floats(1, 2, 5, 5), grid)
        assert_same(f"{MS}GridSample", inputs, mode=mode, align_corners=aligned, tolerance=1e-4)
    for upper, offset in itertools.product((0, 1), ((), (np.array(-1),), (np.array(2),))):
        assert_same(f"{MS}Trilu", _inputs(_floats(2, 3, 4), *offset), upper=upper)
    assert_same(f"{MS}Range", _inputs(_scale(1), _scale(5), _scale(1.5)))
    assert_same(f"{MS}Range", _inputs(np.int64(1), np.int64(5)))
    assert_same(f"{MS}Pad", _inputs(_floats(2, 3), _whole([0, 1, 2, 0]), np.array([0.5], np.float32)))
    assert_same(f"{MS}Pad", _inputs(_floats(2, 3), _whole(0, 1, 0, 2)), mode="reflect")
    assert_same(f"{MS}GatherND", _inputs(_floats(2, 3, 4), _whole([0, 1], [1, 2])))
    assert_same(f"{MS}ExpandDims", _inputs(_floats(2, 3), np.array(-1, np.int32)))
    assert_same(f"{MS}Unique", _inputs(np.array([2, 1, 1, 3, 4, 3], np.float32)), 3)
    state = (_floats(2, 3, 5), _floats(3, 1, 4), _floats(3), _floats(2, 3, 3))
    assert_same(f"{MS}CausalConvWithState", _inputs(*state), 2, activation="silu")


def test_operators_that_only_the_runtime_has() -> None:
    assert_same(f"{MS}Inverse", _inputs(_floats(2, 3, 3)), tolerance=1e-3)
    assert_same(f"{MS}UnfoldTensor", _inputs(_floats(2, 8)), dim=1, size=3, step=2)
    for metric in ("sqeuclidean", "euclidean"):
        assert_same(f"{MS}CDist", _inputs(_floats(3, 4), _floats(5, 4)), metric=metric, tolerance=1e-4)
    tokens = _whole([1, 2, 3, 1, 2, 4, 1, 2], [5, 5, 5, 5, 1, 2, 3, 4])
    for size in (1, 3, 9):
        assert_same(f"{MS}NGramRepeatBlock", _inputs(tokens, _floats(2, 8)), ngram_size=size)


@pytest.mark.parametrize("mark", [0, 1])
def test_words_are_cut(mark: int) -> None:
    text = np.array(["hello big, world", "a b", "xyz"], dtype=object)
    for how in ({"separators": [" "]}, {"separators": [" ", ","]}, {"separators": [""]}, {"tokenexp": "[a-z]+"}):
        for shortest in (1, 2)[: 1 if how == {"separators": [""]} else 2]:
            attributes = {"mark": mark, "pad_value": "#", "mincharnum": shortest, **how}
            assert_same(f"{MS}Tokenizer", {"x": text}, **attributes)


def test_operators_of_old_files() -> None:
    x = _floats(1, 3, 5, 6)
    shapes = ({"border": [1, 0, 2, 1]}, {"border": [1, 1, 0, 0], "scale": [2, 3]})
    old: list[tuple[str, dict[str, Any]]] = [
        ("Affine", {"alpha": 2.0, "beta": 3.0}),
        ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}),
        ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}),
        ("Scale", {"scale": 2.0}),
        ("ImageScaler", {"scale": 2.0, "bias": [0.1, 0.2, 0.3]}),
        *(("Crop", shape) for shape in shapes),
    ]
    for name, attributes in old:
        assert_same(name, {"x": x}, version=9, **attributes)
    assert_same("DynamicSlice", _inputs(_floats(4, 5), _whole(1, 0), _whole(3, -1)), version=9)
    assert_same("DynamicSlice", _inputs(_floats(4, 5), _whole(1), _whole(1000), _whole(1)), version=9)


REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nothing_is_reduced(reduction: str) -> None:
    axes, version = {"axes": _whole(1)}, 13 if reduction == "Sum" else 18
    inputs = {"x": np.zeros((2, 0, 3), np.float32)}
    assert_same(f"Reduce{reduction}", inputs, constants=axes, version=version)


def test_single_values_and_places_in_larger_images() -> None:
    for value in (0.0, 2.0):
        assert_same("NonZero", {"x": np.array(value, np.float32)})
    places = _whole([[[5, 7], [13, 15]], [[36, 40], [50, 51]]]).reshape(1, 2, 2, 2)
    shape = {"kernel_shape": [2, 2], "strides": [2, 2]}
    assert_same("MaxUnpool", _inputs(_floats(1, 2, 2, 2), places, _whole(1, 2, 5, 6)), **shape)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("places", ["pytorch_half_pixel", "half_pixel", "align_corners", "half_pixel_symmetric"])
def test_images_become_points(mode: str, places: str) -> None:
    for size in ((1, 1), (1, 4), (3, 1), (7, 7)):
        inputs = _inputs(_floats(1, 1, 4, 5), None, None, _whole(1, 1, *size))
        assert_same("Resize", inputs, mode=mode, coordinate_transformation_mode=places, tolerance=1e-4)


BY_THE_STANDARD = frozenset({("", "Attention"), ("", "RotaryEmbedding")})
"""What the standard defines by other operators, which PyTorch runs."""
NOT_COVERED = frozenset(
    {
        # Of maps, which no model may take in here.
        ("ai.onnx.ml", "CastMap"), ("ai.onnx.ml", "DictVectorizer"),
        # Whole searches with a model within, and what only those hold.
        *(("com.microsoft", name) for name in ("BeamSearch", "BifurcationDetector", "DecoderMaskedMultiHeadAttention",
                                               "GreedySearch", "NGramHashMapping", "Sampling", "VarlenNGramHashMapping",
                                               "WhisperBeamSearch")),
        # Layers of few language models.
        *(("com.microsoft", name) for name in ("BranchwiseRMSNorm", "EngramGate", "HyperConnectionPostMix",
                                               "HyperConnectionPreMix", "LinearAttention", "LinearAttentionGate",
                                               "MRotaryEmbedding", "MoE", "QMoE", "SparseAttention")),
        # Internal, or written by no tool that is known.
        *(("com.microsoft", name) for name in ("AttnLSTM", "DynamicTimeWarping", "MatMulFpQ4", "MaxpoolWithMask",
                                               "MurmurHash3", "SparseToDenseMatMul", "WordConvEmbedding")),
        ("", "MemcpyFromHost"), ("", "MemcpyToHost"),
    }
)  # fmt: skip
"""Operators that ONNX Runtime runs and PyTorch does not: none may join them. Nor does it run those whose weights lie in
blocks as one processor wants them (`com.microsoft.nchwc`)."""


def test_what_the_runtime_runs_and_pytorch_does_not_is_listed() -> None:
    kernels = [each for each in get_all_opkernel_def() if each.provider == "CPUExecutionProvider"]
    names = {("" if each.domain == "ai.onnx" else each.domain, each.op_name) for each in kernels}
    names = {(domain, name) for domain, name in names if domain != "com.microsoft.nchwc"}
    assert len(names) > 200
    assert names - known() - BY_THE_STANDARD == NOT_COVERED
