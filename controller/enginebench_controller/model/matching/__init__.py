"""Layer identity: executed layers of any engine mapped to the nodes of the model as given, and profiles joined on that.

Pure functions over records. How a model is read, and how profiles are stored and shown, is elsewhere.
"""

from enginebench_controller.model.matching.correspondence import correspond
from enginebench_controller.model.matching.joined import Join, MatchedProfile, Row, Side
from enginebench_controller.model.matching.joining import join
from enginebench_controller.model.matching.layers import match_layers
from enginebench_controller.model.matching.matched import (
    Group,
    Layer,
    LayerCategory,
    Matching,
    NodeState,
    mean_layer_ns,
)

__all__ = [
    "Group",
    "Join",
    "Layer",
    "LayerCategory",
    "MatchedProfile",
    "Matching",
    "NodeState",
    "Row",
    "Side",
    "correspond",
    "join",
    "match_layers",
    "mean_layer_ns",
]
