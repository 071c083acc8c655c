"""The layers of a profile under the roofs of the machine they ran on."""

from collections.abc import Mapping, Sequence

from enginebench_controller.model.roofline import (
    LayerWork,
    Roofline,
    Roofs,
    place,
    resolution_ns,
    roof_precision,
    roofs_of,
)
from enginebench_controller.records import Layer, Peak, Profile, ProfileNode
from enginebench_controller.stats.profiles import mean_ns

_PLAIN_CONVOLUTIONS = frozenset({"Conv", "FusedConv"})


def rooflines(profile: Profile, peaks: Sequence[Peak]) -> tuple[Roofline | None, ...]:
    """The place of each layer in the profile's order; None for one without a time, or whose work is unknown.

    `peaks` are those of the profile's target. Without fitting ones a place has rates but no share of the attainable.
    """
    fitting = [peak for peak in peaks if peak.target == profile.target]
    plain = _plain_3x3_groups(profile.nodes)
    resolution = resolution_ns([time for layer in profile.layers for time in layer.time_ns])
    roofs: dict[str | None, Roofs | None] = {None: None}
    places: list[Roofline | None] = []
    for layer in profile.layers:
        precision = _precision(profile, layer)
        if precision is not None and precision not in roofs:
            asked = profile.configuration
            roofs[precision] = roofs_of(fitting, profile.engine, asked.device, asked.cores, precision)
        time = mean_ns(layer)
        known = time is not None and (layer.flops is not None or layer.data_bytes is not None)
        work = _work(profile, layer, is_plain=layer.group in plain)
        places.append(place(work, time, roofs[precision], resolution) if known else None)
    return tuple(places)


def _work(profile: Profile, layer: Layer, *, is_plain: bool) -> LayerWork:
    sparse = bool(profile.imposed_sparsity)
    return LayerWork(layer.flops, layer.data_bytes, layer.kernel, plain_3x3=is_plain, sparse=sparse)


def _precision(profile: Profile, layer: Layer) -> str | None:
    """The layer's own precision; where the engine does not tell, that of the whole run."""
    if layer.precision or profile.effective.precision is None:
        return roof_precision(layer.precision)
    return roof_precision(str(profile.effective.precision.value))


def _plain_3x3_groups(nodes: Sequence[ProfileNode]) -> set[int]:
    """The groups with a 3×3 convolution of stride and dilation 1 that is not grouped: what Winograd's trick fits."""
    return {node.group for node in nodes if node.group is not None and _is_plain_3x3(node)}


def _is_plain_3x3(node: ProfileNode) -> bool:
    said: Mapping[str, object] = node.attributes
    return (
        node.op_type in _PLAIN_CONVOLUTIONS
        and said.get("kernel_shape") == (3, 3)
        and set(_numbers(said.get("strides"))) | set(_numbers(said.get("dilations"))) <= {1}
        and said.get("group", 1) == 1
    )


def _numbers(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()
