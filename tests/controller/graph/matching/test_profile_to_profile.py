"""Profiles are put side by side by the nodes that their layers run."""

from dataclasses import replace

from small_graphs import graph, idle, layer, profile, renamed

from enginebench_controller.graph.matching.matched import Join, LayerCategory, MatchedProfile
from enginebench_controller.graph.matching.profile_to_profile import join
from enginebench_controller.records import LayerState

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


def test_what_one_engine_adds_on_both_sides_is_one_row() -> None:
    added = [layer("r", "Reorder", time_ns=[7]), layer("r", "Reorder", time_ns=[5]), layer("q", "Reorder", time_ns=[3])]
    one, other = profile(NET, *fused().layers, *added[:2]), profile(NET, added[0], *fused().layers, *added[1:])
    found = join(*(replace(each, engine="ort") for each in (one, other)))
    assert [names for names in table(found, one, other) if set(names) & {"r", "q"}] == [
        ("r", "r"),
        ("r", "r"),
        ("absent", "q"),
    ]
    assert [row.sides[1].time_ns for row in found.rows if row.category is LayerCategory.REORDER] == [7, 5, 3]
    assert (found.joined_ns, is_conserved(found)) == ((412, 412), True)
    for engines in (("ort", "vino"), (None, None)):
        apart = join(*(replace(each, engine=engine) for each, engine in zip((one, other), engines, strict=True)))
        assert len([row for row in apart.rows if row.category is LayerCategory.REORDER]) == 5


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
