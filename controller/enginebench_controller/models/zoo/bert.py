"""BERT-tiny (Turc et al., 2019): 2 layers, hidden size 128, 2 heads, 4.4 M parameters, integer inputs.

LayerNorm and GELU are written out in basic operators, as exporters at opset 13 write them.
"""

import math

import numpy as np
import onnx
from onnx import TensorProto

from enginebench_controller.models.zoo.builder import GraphBuilder

_LAYERS, _HIDDEN, _HEADS, _INTERMEDIATE = 2, 128, 2, 512
_VOCABULARY, _POSITIONS, _SEGMENTS = 30522, 512, 2
_HEAD_SIZE = _HIDDEN // _HEADS
_MASKED = -10000.0
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def bert_tiny() -> onnx.ModelProto:
    """Inputs `input_ids`, `attention_mask`, `token_type_ids`, int64 (batch, sequence ≤ 512).

    Outputs float32 `last_hidden_state` (batch, sequence, 128) and `pooler_output` (batch, 128).
    """
    graph = GraphBuilder("bert-tiny", seed=128)
    top = _embeddings(graph)
    mask = _additive_mask(graph)
    for layer in range(_LAYERS):
        last = layer == _LAYERS - 1
        top = _encoder_layer(graph, f"layer{layer}", top, mask, "last_hidden_state" if last else None)
    first = graph.node("Gather", "pooler.first", [top, graph.initializer("index_0", _index(0))], axis=1)
    pooled = _dense(graph, "pooler.dense", first, _HIDDEN, _HIDDEN, gain=1.0)
    graph.node("Tanh", "pooler_output", [pooled])
    return graph.model(
        [(name, TensorProto.INT64, ("batch", "sequence")) for name in _INPUTS],
        [("last_hidden_state", ("batch", "sequence", _HIDDEN)), ("pooler_output", ("batch", _HIDDEN))],
    )


def _index(value: int) -> "np.ndarray[tuple[()], np.dtype[np.int64]]":
    return np.array(value, np.int64)


def _embeddings(graph: GraphBuilder) -> str:
    """Words + segments + the first `sequence` rows of the positions, normalized."""
    limit = math.sqrt(3)
    words = graph.weights("embeddings.words.weight", (_VOCABULARY, _HIDDEN), limit)
    segments = graph.weights("embeddings.segments.weight", (_SEGMENTS, _HIDDEN), limit / 4)
    positions = graph.weights("embeddings.positions.weight", (_POSITIONS, _HIDDEN), limit / 4)
    shape = graph.node("Shape", "embeddings.shape", ["input_ids"])
    length = graph.node("Slice", "embeddings.length", [shape, graph.integers(1), graph.integers(2)])
    rows = graph.node("Slice", "embeddings.positions", [positions, graph.integers(0), length, graph.integers(0)])
    word = graph.node("Gather", "embeddings.words", [words, "input_ids"], axis=0)
    segment = graph.node("Gather", "embeddings.segments", [segments, "token_type_ids"], axis=0)
    both = graph.node("Add", "embeddings.word_segment", [word, segment])
    return _layer_norm(graph, "embeddings.norm", graph.node("Add", "embeddings.sum", [both, rows]))


def _additive_mask(graph: GraphBuilder) -> str:
    """0 where attention is allowed, -10000 where not, shape (batch, 1, 1, sequence)."""
    wide = graph.node("Unsqueeze", "mask.unsqueeze", ["attention_mask", graph.integers(1, 2)])
    numbers = graph.node("Cast", "mask.cast", [wide], to=TensorProto.FLOAT)
    hidden = graph.node("Sub", "mask.invert", [graph.scalar(1.0), numbers])
    return graph.node("Mul", "mask.scale", [hidden, graph.scalar(_MASKED)])


def _encoder_layer(graph: GraphBuilder, name: str, source: str, mask: str, output: str | None) -> str:
    attention = _dense(
        graph, f"{name}.attention.output", _attention(graph, f"{name}.attention", source, mask), _HIDDEN, _HIDDEN
    )
    total = graph.node("Add", f"{name}.attention.residual", [attention, source])
    middle = _layer_norm(graph, f"{name}.attention.norm", total)
    wide = _gelu(graph, f"{name}.gelu", _dense(graph, f"{name}.up", middle, _HIDDEN, _INTERMEDIATE))
    narrow = _dense(graph, f"{name}.down", wide, _INTERMEDIATE, _HIDDEN, gain=2.0)
    total = graph.node("Add", f"{name}.residual", [narrow, middle])
    return _layer_norm(graph, f"{name}.norm", total, output)


def _attention(graph: GraphBuilder, name: str, source: str, mask: str) -> str:
    """Scaled dot-product attention over the heads; returns (batch, sequence, hidden)."""
    query = _heads(graph, f"{name}.query", source, [0, 2, 1, 3])
    key = _heads(graph, f"{name}.key", source, [0, 2, 3, 1])
    value = _heads(graph, f"{name}.value", source, [0, 2, 1, 3])
    products = graph.node("MatMul", f"{name}.products", [query, key])
    scaled = graph.node("Div", f"{name}.scaled", [products, graph.scalar(math.sqrt(_HEAD_SIZE))])
    scores = graph.node("Add", f"{name}.scores", [scaled, mask])
    shares = graph.node("Softmax", f"{name}.softmax", [scores], axis=-1)
    mixed = graph.node("MatMul", f"{name}.mixed", [shares, value])
    back = graph.node("Transpose", f"{name}.back", [mixed], perm=[0, 2, 1, 3])
    return graph.node("Reshape", f"{name}.merged", [back, graph.integers(0, 0, _HIDDEN)])


def _heads(graph: GraphBuilder, name: str, source: str, order: list[int]) -> str:
    dense = _dense(graph, name, source, _HIDDEN, _HIDDEN)
    split = graph.node("Reshape", f"{name}.split", [dense, graph.integers(0, 0, _HEADS, _HEAD_SIZE)])
    return graph.node("Transpose", f"{name}.transpose", [split], perm=order)


def _dense(graph: GraphBuilder, name: str, source: str, inputs: int, outputs: int, gain: float = 1.0) -> str:
    """MatMul and bias over the last axis; the weight is (inputs, outputs)."""
    weight = graph.weights(f"{name}.weight", (inputs, outputs), math.sqrt(3 * gain / inputs))
    product = graph.node("MatMul", f"{name}.matmul", [source, weight])
    return graph.node("Add", f"{name}.add", [product, graph.around(f"{name}.bias", outputs, 0.0, 0.1)])


def _layer_norm(graph: GraphBuilder, name: str, source: str, output: str | None = None) -> str:
    mean = graph.node("ReduceMean", f"{name}.mean", [source], axes=[-1], keepdims=1)
    centred = graph.node("Sub", f"{name}.centred", [source, mean])
    squares = graph.node("Pow", f"{name}.squares", [centred, graph.scalar(2.0)])
    variance = graph.node("ReduceMean", f"{name}.variance", [squares], axes=[-1], keepdims=1)
    stable = graph.node("Add", f"{name}.stable", [variance, graph.scalar(1e-12)])
    deviation = graph.node("Sqrt", f"{name}.deviation", [stable])
    unit = graph.node("Div", f"{name}.unit", [centred, deviation])
    scaled = graph.node("Mul", f"{name}.scaled", [unit, graph.around(f"{name}.scale", _HIDDEN, 1.0, 0.1)])
    return graph.node("Add", output or name, [scaled, graph.around(f"{name}.bias", _HIDDEN, 0.0, 0.1)])


def _gelu(graph: GraphBuilder, name: str, source: str) -> str:
    """x · ½ · (1 + erf(x / √2)), Hendrycks and Gimpel, 2016."""
    ratio = graph.node("Div", f"{name}.ratio", [source, graph.scalar(math.sqrt(2))])
    erf = graph.node("Erf", f"{name}.erf", [ratio])
    shifted = graph.node("Add", f"{name}.shifted", [erf, graph.scalar(1.0)])
    product = graph.node("Mul", f"{name}.product", [source, shifted])
    return graph.node("Mul", name, [product, graph.scalar(0.5)])
