"""A colour for each type of layer, the same in every chart of a profile; what the engine made for itself is grey."""

from collections.abc import Mapping, Sequence

from enginebench_ui.views.palette import NOISE, SERIES
from enginebench_ui.views.profiles.datasets import Dataset, total
from enginebench_ui.views.profiles.layers import LayerView

OTHERS = "other types"
ENGINE_MADE = "engine-made"
_MOST = 6
"""Types with a colour of their own; the seventh colour is for all others, and the eighth, grey, for the engine's."""


def type_colours(layers: Sequence[LayerView], dataset: Dataset) -> Mapping[str, str]:
    """Return a colour for each type, those with most of the figure first; after six they share one."""
    types = types_by_value(layers, dataset)
    made = {layer.type for layer in layers if layer.made_by}
    own = [name for name in types if name not in made]
    colours = dict(zip(own[:_MOST], SERIES, strict=False))
    return {name: NOISE if name in made else colours.get(name, SERIES[_MOST]) for name in types}


def legend_entry(name: str, colour: str) -> str:
    """The series of a chart that a type belongs to."""
    return {NOISE: ENGINE_MADE, SERIES[_MOST]: OTHERS}.get(colour, name)


def types_by_value(layers: Sequence[LayerView], dataset: Dataset) -> tuple[str, ...]:
    """Return the types, the one with most of the figure first, unknown ones last."""
    groups: dict[str, list[LayerView]] = {}
    for layer in layers:
        groups.setdefault(layer.type, []).append(layer)
    values = {name: total(members, dataset.type_value) for name, members in groups.items()}
    return tuple(sorted(groups, key=lambda name: (values[name] is None, -(values[name] or 0.0), name)))
