"""What each ONNX operator is in PyTorch, by subject: importing this room enters them all in the registry.

A maker turns a node into a module or a function; graph.py, above, joins those to a network. A new operator is a
function with `@operator("Name")` in the file of its subject.
"""

from enginebench_plugins.engines.torch.operators import (
    attending,
    control,
    convolving,
    elementwise,
    features,
    fused,
    gathering,
    making,
    normalizing,
    pooling,
    quantized,
    quantized_contributed,
    recurrent,
    reducing,
    sampling,
    scoring,
    shaping,
    text,
    trees,
)
from enginebench_plugins.engines.torch.operators.registry import entry, known

__all__ = [
    "attending",
    "control",
    "convolving",
    "elementwise",
    "entry",
    "features",
    "fused",
    "gathering",
    "known",
    "making",
    "normalizing",
    "pooling",
    "quantized",
    "quantized_contributed",
    "recurrent",
    "reducing",
    "sampling",
    "scoring",
    "shaping",
    "text",
    "trees",
]
