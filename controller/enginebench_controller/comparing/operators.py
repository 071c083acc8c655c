"""What a row is about, in the words of the model rather than of an engine: Conv and Convolution are one."""

from collections.abc import Iterator

from enginebench_controller.model.matching import LayerCategory, Row
from enginebench_controller.model.matching.words import family, is_light
from enginebench_controller.records import Profile, ProfileNode


def operator(profiles: tuple[Profile, Profile], row: Row) -> str:
    """The ONNX operator of the node that does most of a row's work, in all precisions the same word.

    For what is no part of the model its category: "reorder", "convert", "data" or "engine made". Where no graph is
    known the engine's own word.
    """
    if row.category is not LayerCategory.MATCHED:
        return row.category.value.replace("_", " ")
    node = dominant_node(profiles, row)
    if node is not None:
        return family(node.op_type)
    return next(
        profile.layers[position].type
        for profile, side in zip(profiles, row.sides, strict=True)
        for position in side.layers
    )


def dominant_node(profiles: tuple[Profile, Profile], row: Row) -> ProfileNode | None:
    """The node with most operations, of those that engines do not fuse into others where there are any, else the first.

    A QuantizeLinear over a large tensor has more operations than the pooling behind it, and still is no more than that.
    """
    nodes = list(_nodes(profiles, row))
    if not nodes:
        return None
    return max(nodes, key=lambda node: (not is_light(node.op_type), node.flops or 0))


def _nodes(profiles: tuple[Profile, Profile], row: Row) -> Iterator[ProfileNode]:
    """Of the first profile, or of the second where the first has none."""
    for profile, side in zip(profiles, row.sides, strict=True):
        if side.nodes and profile.nodes:
            yield from (profile.nodes[node] for node in side.nodes)
            return
