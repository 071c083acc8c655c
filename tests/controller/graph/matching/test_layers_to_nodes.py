"""Executed layers are matched to disjoint sets of source nodes, by what engines tell and by place."""

from small_graphs import graph, idle, layer, match, named_groups, profile

from enginebench_controller.graph.matching.matched import LayerCategory, NodeState
from enginebench_controller.records import LayerState

BLOCK = graph("""
    conv1: Conv(x, w_1, w_1_bias) -> c1
    bn1: BatchNormalization(c1, w_scale) -> n1
    relu1: Relu(n1) -> r1
    conv2: Conv(r1, w_2) -> c2
    add: Add(c2, r1) -> s
    relu2: Relu(s) -> y
""")


def test_a_layer_a_node() -> None:
    matched = profile(BLOCK, *(layer(f"run_{node.name}", node.op_type, node.name) for node in BLOCK.nodes))
    assert named_groups(matched) == {f"run_{node.name}": node.name for node in BLOCK.nodes}
    assert set(matched.matching.nodes) == {NodeState.NAMED}


def test_nodes_that_the_engine_does_not_name_are_where_it_can_only_have_fused_them() -> None:
    matched = profile(BLOCK, layer("a", "Conv", "conv1"), layer("b", "Conv", "conv2"))
    assert named_groups(matched) == {"a": "conv1 bn1 relu1", "b": "conv2 add relu2"}
    assert matched.matching.nodes == (
        *(NodeState.NAMED, NodeState.INFERRED, NodeState.INFERRED),
        *(NodeState.NAMED, NodeState.INFERRED, NodeState.INFERRED),
    )


def test_labels_tensors_weights_and_extended_names_all_name_a_node() -> None:
    for name in ("conv1", "c1", "w_1", "conv1_token_3", "c1_nchwc", "conv1/WithoutBiases", "fused conv1"):
        assert match(BLOCK, layer("a", "Conv", name)).nodes[0] is NodeState.NAMED, name


def test_a_number_behind_a_name_makes_another_name() -> None:
    numbered = graph("Relu: Relu(x) -> a\nConv: Conv(a, w_1) -> y")
    assert match(numbered, layer("made", "Unheard", "Conv_97")).groups == ()


def test_a_weight_that_two_nodes_share_names_neither() -> None:
    shared = graph("one: Gemm(x, w_1) -> a\ntwo: Gemm(a, w_1) -> y")
    assert match(shared, layer("made", "Unheard", "w_1")).groups == ()


def test_an_engine_may_name_only_the_end_of_what_it_fused() -> None:
    matched = profile(BLOCK, layer("a", "convolution", "bn1"), layer("b", "convolution", "relu2"))
    assert named_groups(matched) == {"a": "conv1 bn1 relu1", "b": "conv2 add relu2"}


def test_a_decomposed_normalization_goes_to_the_layer_that_computes_it() -> None:
    norm = graph("""
        in: MatMul(x, w_0) -> a
        mean: ReduceMean(a) -> m
        centred: Sub(a, m) -> c
        squares: Pow(c, w_two) -> p
        variance: ReduceMean(p) -> v
        root: Sqrt(v) -> r
        unit: Div(c, r) -> u
        scaled: Mul(u, w_g) -> y
    """)
    matched = profile(norm, layer("gemm", "MatMul", "in"), layer("norm", "MVN", "unit"), layer("mul", "Mul", "scaled"))
    assert named_groups(matched)["norm"] == "mean centred squares variance root unit"


def test_the_end_of_a_fused_layer_says_nothing_of_the_convolution_before_it() -> None:
    matched = profile(
        BLOCK, layer("?", "Unheard"), layer("b", "convolution", "relu2"), layer("?#1", "Unheard", time_ns=(9,))
    )
    assert named_groups(matched) == {"b": "conv2 add relu2"}
    assert matched.matching.nodes[:3] == (NodeState.UNMATCHED,) * 3


def test_what_is_calculated_after_pooling_is_in_the_layer_that_reads_it() -> None:
    pooled = graph("""
        conv: Conv(x, w_1) -> a
        pool: MaxPool(a) -> b
        scale: Mul(b, w_2) -> c
        shift: Add(c, w_3) -> d
        relu: Relu(d) -> y
    """)
    layers = [layer("c", "Convolution", "conv"), layer("p", "Pooling", "pool")]
    assert named_groups(profile(pooled, *layers, layer("s", "Subgraph", "relu")))["s"] == "scale shift relu"
    assert named_groups(profile(pooled, *layers))["p"] == "pool scale shift relu"


def test_layers_that_share_working_nodes_are_one_group() -> None:
    matched = profile(
        BLOCK, layer("a", "Conv", "conv1"), layer("b", "Conv", "conv1 relu1 conv2"), layer("c", "R", "relu2")
    )
    assert named_groups(matched) == {"a b": "conv1 bn1 relu1 conv2 add", "c": "relu2"}


def test_one_node_split_over_several_layers_is_one_group() -> None:
    lstm = graph("lstm: LSTM(x, w_1, w_2) -> y, h")
    matched = profile(lstm, layer("a", "FullyConnected", "lstm"), layer("b", "LSTMCell", "lstm"))
    assert named_groups(matched) == {"a b": "lstm"}


def test_layers_that_share_only_a_light_node_stay_apart() -> None:
    fork = graph("""
        quantize: QuantizeLinear(x, w_s) -> q
        dequantize: DequantizeLinear(q, w_s) -> d
        left: Conv(d, w_1) -> a
        right: Conv(d, w_2) -> b
        add: Add(a, b) -> y
    """)
    matched = profile(
        fork,
        layer("l", "Convolution", "quantize dequantize left"),
        layer("r", "Convolution", "quantize dequantize right"),
        layer("s", "Eltwise", "add"),
    )
    assert named_groups(matched) == {"l": "quantize dequantize left", "r": "right", "s": "add"}


def test_quantize_follows_its_producer_and_dequantize_goes_to_its_reader() -> None:
    quantized = graph("""
        q0: QuantizeLinear(x, w_s) -> a
        dq0: DequantizeLinear(a, w_s) -> b
        dqw: DequantizeLinear(w_int, w_s) -> wf
        conv: Conv(b, wf) -> c
        relu: Relu(c) -> r
        q1: QuantizeLinear(r, w_s) -> d
        dq1: DequantizeLinear(d, w_s) -> e
        pool: MaxPool(e) -> f
        q2: QuantizeLinear(f, w_s) -> g
        dq2: DequantizeLinear(g, w_s) -> y
    """)
    matched = profile(
        quantized,
        layer("first", "QuantizeLinear", "q0"),
        layer("conv", "QLinearConv", "conv_token_1"),
        layer("pool", "NhwcMaxPool", "pool"),
    )
    assert named_groups(matched) == {"first": "q0", "conv": "dq0 conv relu q1", "pool": "dq1 pool q2 dq2"}
    assert matched.matching.nodes[2] is NodeState.FOLDED


def test_tensors_of_the_executed_graph_bound_what_a_nameless_layer_covers() -> None:
    gelu = graph("""
        in: MatMul(x, w_0) -> a
        half: Div(a, w_root) -> b
        erf: Erf(b) -> c
        shift: Add(c, w_one) -> d
        product: Mul(a, d) -> e
        result: Mul(e, w_half) -> f
        out: MatMul(f, w_1) -> y
    """)
    matched = profile(
        gelu,
        layer("m", "MatMul", "in", reads="x w_0", writes="a"),
        layer("nameless", "Gelu", "Gelu_token_1", reads="a", writes="f"),
        layer("n", "MatMul", "out", reads="f w_1", writes="y"),
    )
    assert named_groups(matched) == {"m": "in", "nameless": "half erf shift product result", "n": "out"}


def test_tensors_are_followed_through_reorders() -> None:
    matched = profile(
        BLOCK,
        layer("in", "ReorderInput", "", reads="x", writes="t1"),
        layer("a", "Conv", "c1_nchwc", reads="t1 w_made", writes="t2"),
        layer("b", "Conv", "", reads="t2 w_made2 t2", writes="t3"),
        layer("out", "ReorderOutput", "", reads="t3", writes="y"),
    )
    assert named_groups(matched) == {"a": "conv1 bn1 relu1", "b": "conv2 add relu2"}
    assert matched.matching.categories[0] is matched.matching.categories[3] is LayerCategory.REORDER


def test_what_comes_after_a_tensor_that_is_written_is_not_in_the_layer_that_writes_it() -> None:
    matched = profile(
        BLOCK, layer("a", "Conv", "conv1", reads="x", writes="n1"), layer("b", "Conv", "conv2", reads="n1", writes="y")
    )
    assert named_groups(matched) == {"a": "conv1 bn1", "b": "relu1 conv2 add relu2"}


def test_data_moved_for_the_engines_own_sake_has_categories() -> None:
    kinds = {
        "Reorder": LayerCategory.REORDER,
        "ReorderOutput": LayerCategory.REORDER,
        "Transpose": LayerCategory.REORDER,
        "OptMatMulPack": LayerCategory.REORDER,
        "Pad": LayerCategory.REORDER,
        "Convert": LayerCategory.CONVERT,
        "Cast": LayerCategory.CONVERT,
        "Input": LayerCategory.DATA,
        "Const": LayerCategory.DATA,
        "ORT": LayerCategory.ENGINE_MADE,
    }
    found = match(BLOCK, *(layer(kind, kind) for kind in kinds))
    assert dict(zip(kinds, found.categories, strict=True)) == kinds


def test_padding_for_a_convolution_is_not_it_and_padding_of_the_model_is() -> None:
    padded = graph("pad: Pad(x) -> p\nconv: Conv(p, w_1) -> y")
    matched = profile(padded, layer("own", "Pad", "pad"), layer("made", "Pad", "conv"), layer("c", "OptMatMul", "conv"))
    assert named_groups(matched) == {"own": "pad", "c": "conv"}


def test_a_reorder_with_the_name_of_a_convolution_claims_nothing() -> None:
    matched = profile(BLOCK, layer("r", "Reorder", "conv1"), layer("a", "Conv", "conv1"), layer("b", "Conv", "conv2"))
    assert matched.matching.categories[0] is LayerCategory.REORDER
    assert named_groups(matched) == {"a": "conv1 bn1 relu1", "b": "conv2 add relu2"}


def test_a_conversion_that_is_the_models_own_is_matched() -> None:
    casts = graph("cast: Cast(x) -> a\nmove: Transpose(a) -> b\nfc: MatMul(b, w_1) -> y")
    matched = profile(
        casts, layer("c", "Convert", "cast"), layer("t", "Reorder", "move"), layer("m", "FullyConnected", "fc")
    )
    assert named_groups(matched) == {"c": "cast", "t": "move", "m": "fc"}


def test_nameless_layers_of_one_kind_are_the_only_nodes_of_that_kind() -> None:
    embedding = graph("""
        words: Gather(w_words, x) -> a
        places: Gather(w_places, x) -> b
        sum: Add(a, b) -> c
        out: MatMul(c, w_1) -> y
    """)
    layers = [layer("g0", "gather"), layer("g1", "gather"), layer("s", "eltwise", "sum"), layer("m", "gemm", "out")]
    assert named_groups(profile(embedding, *layers)) == {"g0": "words", "g1": "places", "s": "sum", "m": "out"}
    assert "g0" not in named_groups(profile(embedding, *layers[:1], *layers[2:]))


def test_nameless_layers_with_results_of_another_size_are_something_else() -> None:
    pooled = graph("pool: MaxPool(x) -> y", {"y": (1, 8, 4, 4)})
    assert match(pooled, layer("p", "maxpool", shapes=[(1, 8, 2, 2)])).groups == ()
    assert len(match(pooled, layer("p", "maxpool", shapes=[(1, 4, 4, 8)])).groups) == 1


def test_what_depends_on_no_input_is_folded_also_over_known_shapes() -> None:
    shapes = graph(
        """
        shape: Shape(x) -> s
        size: Gather(s, w_zero) -> n
        flat: Reshape(x, n) -> f
        fc: Gemm(f, w_1) -> y
        """,
        {"x": (1, 3, 2, 2)},
    )
    found = match(shapes, layer("a", "Gemm", "fc"))
    assert found.nodes == (NodeState.FOLDED, NodeState.FOLDED, NodeState.INFERRED, NodeState.NAMED)


def test_work_that_nothing_tells_of_stays_unmatched() -> None:
    found = match(BLOCK, layer("a", "Conv", "conv1"), layer("?", "Unheard"))
    assert found.nodes[3] is NodeState.UNMATCHED
    assert found.categories[1] is LayerCategory.ENGINE_MADE


def test_one_layer_without_names_does_not_swallow_the_model() -> None:
    found = match(BLOCK, layer("everything", "ORT", time_ns=(5, 6)))
    assert found.groups == ()
    assert (found.total_ns, found.matched_ns, found.largest_group_share) == (6, 0, 0.0)


def test_a_group_that_swallows_the_model_shows() -> None:
    found = match(BLOCK, layer("everything", "Subgraph", " ".join(node.name for node in BLOCK.nodes)))
    assert found.largest_group_share == 1.0


def test_folded_nodes_do_not_make_a_giant_group_look_smaller() -> None:
    padded = graph("c0: Constant() -> w0\nc1: Constant() -> w1\none: Conv(x, w0) -> a\ntwo: Conv(a, w1) -> y")
    assert match(padded, layer("all", "Subgraph", "one two")).largest_group_share == 1.0


def test_a_layer_that_was_optimized_away_belongs_to_the_layer_that_took_its_node() -> None:
    matched = profile(
        BLOCK,
        layer("a", "Convolution", "conv1 bn1 relu1"),
        idle("relu1", "Relu", state=LayerState.OPTIMIZED_AWAY),
        layer("b", "Convolution", "conv2 add relu2"),
    )
    assert named_groups(matched) == {"a relu1": "conv1 bn1 relu1", "b": "conv2 add relu2"}


def test_a_layer_that_did_not_run_keeps_what_no_other_has() -> None:
    branch = graph("conv: Conv(x, w_1) -> a\nflat: Reshape(a, w_s) -> b\nfc: Gemm(b, w_2) -> y")
    matched = profile(branch, layer("c", "Conv", "conv"), idle("flat", "Reshape", "flat"), layer("g", "Gemm", "fc"))
    assert named_groups(matched) == {"c": "conv", "flat": "flat", "g": "fc"}
    assert matched.matching.unmatched_ns == 0


def test_times_are_conserved_to_the_nanosecond() -> None:
    found = match(
        BLOCK,
        layer("a", "Conv", "conv1", time_ns=(10, 11)),
        layer("r", "Reorder", time_ns=(7, 8, 8)),
        layer("b", "Conv", "conv2", time_ns=(1, 2)),
        layer("?", "Unheard", time_ns=(3,)),
    )
    assert (found.matched_ns, found.unmatched_ns, found.total_ns) == (12, 11, 23)


GELU = graph("""
    conv1: Conv(x, w_1) -> c1
    div: Div(c1, w_root) -> d
    erf: Erf(d) -> e
    add: Add(e, w_one) -> a
    mul: Mul(c1, a) -> m
    conv2: Conv(m, w_2) -> y
""")
FUSED = (
    layer("c1_nchwc", "Conv", "conv1", writes="reorder_token_1"),
    layer("Gelu_token_0", "Gelu", reads="reorder_token_1", writes="reorder_token_2"),
)


def test_a_layer_that_nothing_names_stands_for_what_is_between_its_neighbours() -> None:
    read = layer("y_nchwc", "Conv", "conv2", reads="reorder_token_2", writes="y")
    assert named_groups(profile(GELU, *FUSED, read))["Gelu_token_0"] == "div erf add mul"


def test_what_moves_data_is_looked_through_on_the_way_to_a_neighbour() -> None:
    moved = layer("ReorderOutput", "ReorderOutput", reads="reorder_token_2", writes="plain")
    read = layer("conv", "Conv", "conv2", reads="plain", writes="y")
    matched = profile(GELU, *FUSED, moved, read)
    assert named_groups(matched)["Gelu_token_0"] == "div erf add mul"
    assert matched.matching.group_of_layer[2] is None


def test_of_two_nameless_layers_in_a_row_nobody_can_tell_what_each_does() -> None:
    other = layer("Unheard", "Unheard", reads="reorder_token_2", writes="reorder_token_3")
    read = layer("y_nchwc", "Conv", "conv2", reads="reorder_token_3", writes="y")
    matched = profile(GELU, *FUSED, other, read).matching
    assert matched.group_of_layer[1] is None
    assert matched.group_of_layer[2] is None
