"""Watches in which precision a network really computes, through the results of its layers."""

from collections.abc import Iterable
from typing import Any

from enginebench_plugins import spec

WORDS = {"torch.float32": "f32", "torch.bfloat16": "bf16", "torch.float16": "f16"}
MULTIPLYING = ("conv", "linear", "matmul", "gemm", "attention", "lstm", "gru")
"""Parts of the type names of layers that multiply and add: their precision is what makes a network fast."""


class PrecisionWitness:
    """Notes the result types of the multiplying layers in the first inference, then gets out of the way."""

    def __init__(self, module: Any, *, watch: bool, assume: bool) -> None:
        self._module = module
        self._assume = assume
        self._seen: set[str] = set()
        self._handles: list[Any] = []
        self._calls = 0
        if watch:
            self._handles = [layer.register_forward_hook(self._note) for layer in _multiplying(module)]

    def precision(self) -> spec.Readback[str] | None:
        """Observed once an inference has run; before, and for modules without hooks, assumed from the weights.

        Under mixed precision the weights do not tell, and nothing is assumed.
        """
        if self._seen:
            self._remove()
            return spec.Readback(_word(self._seen), spec.Source.OBSERVED)
        if not self._assume:
            return None
        weights = {WORDS[str(p.dtype)] for p in self._module.parameters() if str(p.dtype) in WORDS}
        return spec.Readback(_word(weights), spec.Source.ASSUMED) if weights else None

    def _note(self, layer: Any, _inputs: Any, result: Any) -> None:
        first = result[0] if isinstance(result, tuple) else result
        word = getattr(layer, "computes", None) or WORDS.get(str(getattr(first, "dtype", "")))
        if word is not None:
            self._seen.add(word)
        self._calls += 1
        if self._calls >= len(self._handles):
            self._remove()  # a hook that stays would cost a little in every inference that is measured

    def _remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []


def cast_weights(torch: Any, module: Any, dtype: Any) -> None:
    """Bring the weights of convolutions and linear layers to `dtype` once.

    Autocast would do so in every inference: it forgets what it cast when its block ends. Saved programs keep theirs.
    """
    for layer in module.modules():
        if isinstance(layer, _layers(torch)):
            layer.to(dtype)


def compute_in_floats(torch: Any, module: Any, dtypes: Iterable[Any]) -> int:
    """Let layers whose weights are of these types multiply in float32, their results as before; returns how many.

    PyTorch has no fast kernels for them on a processor without such instructions: one convolution takes seconds.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, _layers(torch)) and layer.weight.dtype in dtypes]
    for layer in layers:
        dtype = layer.weight.dtype
        layer.float()
        layer.forward = _through_floats(layer.forward, dtype)
        layer.computes = "f32"
    return len(layers)


def _through_floats(forward: Any, dtype: Any) -> Any:
    return lambda x: forward(x.float()).to(dtype)


def _layers(torch: Any) -> tuple[Any, ...]:
    return torch.nn.Linear, torch.nn.modules.conv._ConvNd


def _multiplying(module: Any) -> list[Any]:
    return [layer for layer in module.modules() if _is_leaf(layer) and _matches(layer, MULTIPLYING)]


def _is_leaf(layer: Any) -> bool:
    return not any(True for _ in layer.children())


def _matches(layer: Any, parts: Iterable[str]) -> bool:
    name = layer._get_name().lower()
    return any(part in name for part in parts)


def _word(words: set[str]) -> str:
    return next(iter(words)) if len(words) == 1 else "mixed"
