"""Profiles are put side by side by the nodes that their layers run."""

from dataclasses import replace

from small_graphs import graph, idle, layer, profile, renamed

from enginebench_controller.graph.matching.layers_to_nodes import match_layers
from enginebench_controller.graph.matching.matched import Join, LayerCategory, MatchedProfile
from enginebench_controller.graph.matching.profile_to_profile import join
from enginebench_controller.records import Layer, LayerState

NET = graph("""
    conv1: Conv(x, w_1) -> c1
    relu1: Relu(c1) -> r1
    conv2: Conv(r1, w_2) -> c2
    relu2: Relu(c2) -> r2
    pool: MaxPool(r2) -> p
    fc: Gemm(p, w_3) -> y
""")


def fused(prefix: str = "", time_ns: int = 100) -> MatchedProfile:
    names = {"conv1": "conv1 relu1", "conv2": "conv2 relu2", "pool": "pool", "fc": "fc"}
    return profile(NET, *(layer(prefix + name, "?", nodes, time_ns=[time_ns]) for name, nodes in names.items()))


def table(joined: Join, *profiles: MatchedProfile) -> list[tuple[str, ...]]:
    """The rows as the names of the layers on each side, or why there are none."""
    return [
        tuple(
            " ".join(one.layers[position].name for position in side.layers) or side.state.value
            for one, side in zip(profiles, row.sides, strict=True)
        )
        for row in joined.rows
    ]


def is_conserved(joined: Join) -> bool:
    sums = (sum(row.sides[side].time_ns or 0 for row in joined.rows) for side in range(len(joined.total_ns)))
    return tuple(sums) == joined.total_ns


def test_equal_groups_are_rows() -> None:
    one, other = fused("a_"), fused("b_", 70)
    found = join(one, other)
    assert table(found, one, other) == [(f"a_{name}", f"b_{name}") for name in ("conv1", "conv2", "pool", "fc")]
    assert (found.joined_rows, found.exact_rows, found.coverage) == (4, 4, (1.0, 1.0))
    assert [row.sides[1].time_ns for row in found.rows] == [70] * 4


def test_a_fused_layer_stands_beside_all_its_parts() -> None:
    single = profile(NET, *(layer(node.name, node.op_type, node.name, time_ns=[10]) for node in NET.nodes))
    found = join(fused(), single)
    assert table(found, fused(), single)[:2] == [("conv1", "conv1 relu1"), ("conv2", "conv2 relu2")]
    assert found.rows[0].sides[1].time_ns == 20
    assert is_conserved(found)


def test_groups_that_overlap_in_work_are_one_row() -> None:
    one = profile(NET, layer("a", "?", "conv1 relu1"), layer("b", "?", "conv2 relu2 pool"), layer("c", "?", "fc"))
    other = profile(NET, layer("k", "?", "conv1 relu1 conv2 relu2"), layer("l", "?", "pool fc"))
    found = join(one, other)
    assert table(found, one, other) == [("a b c", "k l")]
    assert found.largest_share == 1.0


def test_a_light_node_fused_to_either_side_does_not_chain_rows_together() -> None:
    before = profile(NET, layer("a", "?", "conv1 relu1"), layer("b", "?", "conv2 relu2"), layer("c", "?", "pool fc"))
    after = profile(NET, layer("k", "?", "conv1"), layer("l", "?", "relu1 conv2"), layer("m", "?", "relu2 pool fc"))
    found = join(before, after)
    assert table(found, before, after) == [("a", "k"), ("b", "l"), ("c", "m")]
    assert (found.joined_rows, found.exact_rows) == (3, 0)
    assert is_conserved(found)


def test_layers_that_are_no_part_of_the_model_have_rows_of_their_own() -> None:
    other = profile(NET, layer("r", "Reorder", time_ns=[7]), *fused().layers)
    found = join(fused(), other)
    (row,) = [row for row in found.rows if row.category is LayerCategory.REORDER]
    assert (row.sides[0].state, row.sides[1].time_ns) == (LayerState.ABSENT, 7)
    assert found.joined_ns == (400, 400)
    assert found.total_ns == (400, 407)


def strangers(engines: tuple[str | None, str | None], *sides: list[Layer]) -> list[tuple[str, ...]]:
    """The rows of what engines added to the fused layers."""
    added = {one.name for side in sides for one in side}
    made = [
        replace(profile(NET, *fused().layers, *side), engine=engine)
        for side, engine in zip(sides, engines, strict=True)
    ]
    found = join(*made)
    assert is_conserved(found)
    return [names for names in table(found, *made) if set(names) & added]


ORT = ("ort", "ort")


def test_what_one_engine_adds_on_both_sides_by_a_name_that_tells_is_one_row() -> None:
    one, other = [layer("x_abcd_conv1", "Reorder")], [layer("c2_abcd_fc", "Reorder"), layer("x_abcd_conv1", "Reorder")]
    assert strangers(ORT, one, other) == [("x_abcd_conv1", "x_abcd_conv1"), ("absent", "c2_abcd_fc")]
    for engines in (("ort", "vino"), (None, None)):
        assert len(strangers(engines, one, other)) == 3


def moving(name: str, reads: str, writes: str, shape: tuple[int, ...] = (1, 8, 4, 4)) -> Layer:
    return layer(name, "ReorderOutput", reads=reads, writes=writes, shapes=[shape])


def test_numbered_names_are_joined_by_what_is_moved_and_never_by_their_numbers() -> None:
    def made(*added: Layer) -> MatchedProfile:
        convs = [
            layer(f"conv{number}", "Conv", f"conv{number} relu{number}", reads="x", writes=f"reorder_token_{number}")
            for number in (1, 2)
        ]
        return replace(profile(NET, *convs, *added), engine="ort")

    first, last = ("reorder_token_1", "r1"), ("reorder_token_2", "r2")
    one = made(moving("ReorderOutput", *first), moving("ReorderOutput_token_7", *last))
    other = made(moving("ReorderOutput_token_7", *first, (4, 8, 4, 4)), moving("ReorderOutput", *last))
    found = join(one, other)
    assert table(found, one, other)[2:] == [
        ("ReorderOutput", "ReorderOutput_token_7"),
        ("ReorderOutput_token_7", "ReorderOutput"),
    ]
    assert found.joined_rows == 4
    others = made(moving("ReorderOutput_token_7", *first, (1, 2, 16, 4)), moving("ReorderOutput", *last))
    assert table(join(one, others), one, others)[2:] == [
        ("ReorderOutput", "no_data"),
        ("ReorderOutput_token_7", "ReorderOutput"),
        ("no_data", "ReorderOutput_token_7"),
    ]
    twice = made(moving("ReorderOutput", *first), moving("ReorderOutput_token_7", *first))
    assert ("ReorderOutput", "no_data") in table(join(one, twice), one, twice), "either of the two may be it"


def test_what_moves_a_part_of_a_row_is_not_known_by_the_row() -> None:
    def made(reorder: Layer, *convs: tuple[str, str]) -> MatchedProfile:
        parts = [layer(nodes, "Conv", nodes, writes=writes) for nodes, writes in convs]
        return replace(profile(NET, *parts, reorder), engine="ort")

    one = made(moving("ReorderOutput", "t1", "r1"), ("conv1 relu1", "t1"), ("conv2 relu2", "t2"), ("pool fc", "y"))
    whole = made(moving("ReorderOutput", "t2", "r2"), ("conv1 relu1 conv2 relu2", "t2"), ("pool fc", "y"))
    assert ("ReorderOutput", "no_data") in table(join(one, whole), one, whole)


def test_what_moves_an_input_is_known_by_it() -> None:
    chains = [
        [layer("input", "Input", writes="x", shapes=[(1, 3)]), moving(name, "x", "blocked")]
        for name in ("ReorderInput_1", "ReorderInput_4")
    ]
    assert strangers(ORT, *chains) == [("input", "input"), ("ReorderInput_1", "ReorderInput_4")]

    def made(*names: str) -> MatchedProfile:
        net = replace(graph(f"a: Add({', '.join(names)}) -> y"), inputs=names)
        moved = [moving(f"ReorderInput_{number}", name, f"{name}_moved") for number, name in enumerate(names)]
        return replace(profile(net, layer("a", "Add", "a"), *moved), engine="ort")

    one, other = made("mask", "ids"), made("ids", "mask")
    assert table(join(one, other), one, other)[1:] == [
        ("ReorderInput_0", "ReorderInput_1"),
        ("ReorderInput_1", "ReorderInput_0"),
    ]


def test_what_stands_behind_something_unknown_or_another_output_is_not_the_same() -> None:
    def made(*added: Layer) -> MatchedProfile:
        parts = [layer("conv1", "Conv", "conv1 relu1", writes="a b"), layer("conv2", "Conv", "conv2 relu2", reads="r")]
        return replace(profile(NET, *parts, *added), engine="ort")

    one = made(moving("ReorderOutput", "a", "r"))
    for other in (
        made(moving("ReorderOutput", "b", "r")),
        made(layer("u1", "Mystery", reads="a", writes="u"), moving("ReorderOutput", "u", "r")),
        made(moving("ReorderOutput", "a b", "r")),
        made(replace(moving("ReorderOutput", "a", "r"), output_shapes=())),
        made(layer("convert", "Convert", reads="a", writes="c"), moving("ReorderOutput", "c", "r")),
    ):
        assert ("ReorderOutput", "no_data") in table(join(one, other), one, other)
    assert ("ReorderOutput", "ReorderOutput") in table(join(one, one), one, one)


def test_a_number_behind_the_operator_tells_nothing_whatever_the_layer_is_called() -> None:
    one, other = [layer("Multiply_1234", "Reorder")], [layer("Multiply_1234", "Reorder")]
    assert strangers(("vino", "vino"), one, other) == [("Multiply_1234", "no_data"), ("no_data", "Multiply_1234")]


def test_what_only_bears_another_name_is_not_absent() -> None:
    def made(of: str) -> MatchedProfile:
        net = graph(f"{of}1: Conv(x, w_1) -> a\n{of}2: Gemm(a, w_2) -> y")
        return replace(profile(net, *(layer(one, "?", one) for one in (f"{of}1", f"{of}2")), moved(of)), engine="vino")

    def moved(of: str) -> Layer:
        return layer(f"x_abcd_{of}1", "Reorder")

    one, other = made("conv"), made("renamed")
    assert table(join(one, other), one, other)[2:] == [("x_abcd_conv1", "no_data"), ("no_data", "x_abcd_renamed1")]


def test_a_node_that_moves_data_and_a_layer_that_does_may_be_the_same() -> None:
    net = graph("conv: Conv(x, w_1) -> a\ntr: Transpose(a) -> b\nlast: Gemm(b, w_2) -> y")
    parts = [layer("c", "?", "conv"), layer("g", "?", "last")]
    one, other = profile(net, *parts, layer("t", "?", "tr")), profile(net, *parts, layer("permute_4", "Permute"))
    assert table(join(one, other), one, other) == [("c t", "c"), ("g", "g"), ("no_data", "permute_4")]
    other = profile(net, *parts, layer("reorder_4", "Reorder"))
    assert table(join(one, other), one, other)[-1] == ("absent", "reorder_4"), "no node of a model is one"


def test_what_an_engine_computes_may_be_any_node() -> None:
    one = fused()
    other = profile(NET, *(part for part in fused().layers if part.name != "pool"), layer("kernel_7", "Mystery"))
    assert [names for names in table(join(one, other), one, other) if "no_data" in names] == [
        ("pool", "no_data"),
        ("no_data", "kernel_7"),
    ]
    timeless = profile(NET, *other.layers[:-1], layer("kernel_7", "Mystery", time_ns=()))
    assert ("pool", "no_data") in table(join(one, timeless), one, timeless)


def test_numbered_names_of_which_nothing_else_is_known_stay_apart() -> None:
    one, other = [layer("Reorder_1", "Reorder")], [layer("Reorder_1", "Reorder"), layer("Reorder_2", "Reorder")]
    assert strangers(ORT, one, other) == [("Reorder_1", "no_data"), ("no_data", "Reorder_1"), ("no_data", "Reorder_2")]


def test_equal_names_on_one_side_are_not_joined_by_their_order() -> None:
    one = [layer("a_to_b", "Reorder", time_ns=[7])]
    other = [layer("a_to_b", "Reorder", time_ns=[3]), layer("a_to_b", "Reorder", time_ns=[7])]
    assert strangers(ORT, one, other) == [("a_to_b", "no_data"), ("no_data", "a_to_b"), ("no_data", "a_to_b")]


def test_without_a_graph_nobody_knows_what_is_absent() -> None:
    bare = MatchedProfile(graph(""), fused("b_").layers, match_layers(graph(""), fused("b_").layers), "vino")
    found = join(fused("a_"), bare)
    assert {side.state for row in found.rows for side in row.sides if not side.layers} == {LayerState.NO_DATA}


def test_why_a_side_is_missing_is_told_apart() -> None:
    plain = "conv: Conv(x, w_1) -> a\nmask: Conv(a, w_2) -> b\n"
    one = graph(plain + "last: Gemm(b, w_3) -> y")
    parts = [layer("c", "?", "conv"), layer("m", "?", "mask")]
    full = profile(one, *parts, layer("g", "?", "last"))

    shorter = graph(plain.replace("-> b", "-> y"))
    assert table(join(full, absent := profile(shorter, *parts)), full, absent)[-1] == ("g", "absent")

    skipped = profile(one, *parts)
    assert table(join(full, skipped), full, skipped)[-1] == ("g", "not_executed")

    unknown = profile(one, *parts, layer("?", "Unheard"))
    assert ("g", "no_data") in table(join(full, unknown), full, unknown)

    said = profile(one, *parts, idle("last", "Gemm", "last", LayerState.OPTIMIZED_AWAY))
    row = join(full, said).rows[-1]
    assert (row.sides[1].state, row.is_joined) == (LayerState.OPTIMIZED_AWAY, False)

    constant = graph(plain + "made: Constant() -> k\nlast: Gemm(b, k) -> y")
    naming = profile(constant, *parts, layer("k", "?", "made"), layer("g", "?", "last"))
    silent = profile(constant, *parts, layer("g", "?", "last"))
    assert ("k", "optimized_away") in table(join(naming, silent), naming, silent)


def test_a_layer_without_a_time_is_no_data() -> None:
    timeless = profile(NET, *(layer(one.name, "?", " ".join(one.source_nodes), time_ns=()) for one in fused().layers))
    found = join(fused(), timeless)
    assert {row.sides[1].state for row in found.rows} == {LayerState.NO_DATA}
    assert found.coverage == (0.0, None)


def test_versions_with_other_names_are_joined() -> None:
    other_graph = renamed(NET)
    layers = [layer("k", "?", "other0 other1"), layer("l", "?", "other2 other3"), layer("m", "?", "other4 other5")]
    other = profile(other_graph, *layers)
    assert table(join(fused(), other), fused(), other) == [("conv1", "k"), ("conv2", "l"), ("pool fc", "m")]


def test_more_than_two_profiles_share_their_rows() -> None:
    single = profile(NET, *(layer(node.name, node.op_type, node.name) for node in NET.nodes))
    found = join(fused("a_"), single, fused("c_"))
    assert table(found, fused("a_"), single, fused("c_"))[0] == ("a_conv1", "conv1 relu1", "c_conv1")
    assert is_conserved(found)
    assert len(found.coverage) == 3


def test_only_rows_that_every_side_executed_are_joined() -> None:
    partial = profile(NET, *fused("b_").layers[:2])
    found = join(fused(), partial, fused("c_"))
    assert (found.joined_rows, found.joined_ns) == (2, (200, 200, 200))
