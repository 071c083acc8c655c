"""What comes before a model of `ai.onnx.ml`, and behind it: features scaled, encoded and chosen, classes named."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from enginebench_plugins.engines.torch.dtypes import to_array
from enginebench_plugins.engines.torch.operators.registry import LEARNED, Node, operator


class _WithValues(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A function of its input and of tensors that lie where the module lies."""

    def __init__(self, kind: str, function: Callable[..., Any], *values: Any) -> None:
        super().__init__()
        self._kind, self._function, self._count = kind, function, len(values)
        for place, value in enumerate(values):
            self.register_buffer(f"value_{place}", value)

    def _get_name(self) -> str:
        return self._kind

    def forward(self, x: Any) -> Any:
        return self._function(x, *(getattr(self, f"value_{place}") for place in range(self._count)))


@operator("Scaler", domain=LEARNED)
def _scaler(node: Node) -> Any:
    def scale(x: Any, offset: Any, factor: Any) -> Any:
        return ((x - offset.to(x.dtype if x.is_floating_point() else offset.dtype)) * factor).float()

    return _WithValues(node.type, scale, torch.tensor(node.get("offset")), torch.tensor(node.get("scale")))


@operator("Normalizer", domain=LEARNED)
def _normalizer(node: Node) -> Any:
    norm = node.get("norm", "MAX")

    def normalize(x: Any) -> Any:
        x = x.float()
        if norm == "MAX":
            size = x.nan_to_num(nan=torch.finfo(x.dtype).min).amax(-1, keepdim=True)
        elif norm == "L1":
            size = x.abs().sum(-1, keepdim=True)
        else:  # of squares, which may be too large, as the runtime has it
            square = (x * x).sum(-1, keepdim=True)
            return torch.where(square == 0, x, torch.sqrt(x * x / square).copysign(x))
        return x / torch.where(size == 0, torch.ones_like(size), size)

    return normalize


@operator("Imputer", domain=LEARNED)
def _imputer(node: Node) -> Any:
    floats = node.get("imputed_value_floats")
    values = torch.tensor(floats) if floats else torch.tensor(node.get("imputed_value_int64s"), dtype=torch.int64)
    replaced = node.get("replaced_value_float" if floats else "replaced_value_int64", 0)

    def impute(x: Any, new: Any) -> Any:
        missing = x.isnan() if math.isnan(replaced) else x == replaced
        new = new if len(new) == x.shape[min(1, x.ndim - 1)] else new[:1]
        return torch.where(missing, new.to(x.dtype), x)

    return _WithValues(node.type, impute, values)


@operator("Binarizer", domain=LEARNED)
def _binarizer(node: Node) -> Any:
    threshold = node.get("threshold", 0.0)
    return lambda x: (x > threshold).to(x.dtype)


@operator("ArrayFeatureExtractor", domain=LEARNED)
def _feature_extractor(_node: Node) -> Any:
    def extract(x: Any, places: Any) -> Any:
        x = x.reshape(1, -1) if x.ndim == 1 else x
        flat = places.reshape(-1).long()
        return x.take(flat.cpu().numpy(), -1) if isinstance(x, np.ndarray) else x.index_select(-1, flat)

    return extract


@operator("FeatureVectorizer", domain=LEARNED)
def _feature_vectorizer(node: Node) -> Any:
    widths = node.get("inputdimensions")

    def join(*parts: Any) -> Any:
        flat = [part.reshape(1, -1) if part.ndim == 1 else part.flatten(1) for part in parts]
        pairs = zip(flat, widths or [part.shape[1] for part in flat], strict=True)
        cut = [torch.nn.functional.pad(part.float(), (0, width - part.shape[1])) for part, width in pairs]
        return torch.cat(cut, 1)

    return join


@operator("OneHotEncoder", domain=LEARNED)
def _one_hot_encoder(node: Node) -> Any:
    words, zeros = node.get("cats_strings"), node.get("zeros", 1)
    places = {word: place for place, word in enumerate(words or ())}

    def hot(found: Any) -> Any:
        if not zeros and not found.any(-1).all():
            raise ValueError(f"a value is none of the categories of {node.outputs[0]}")
        return found.float()

    if words:

        def encode(text: Any) -> Any:
            chosen = torch.tensor([places.get(word, -1) for word in text.ravel()]).reshape(text.shape)
            return hot(chosen.unsqueeze(-1) == torch.arange(len(words)))

        return encode
    categories = node.get("cats_int64s")
    last = {category: place for place, category in enumerate(categories)}
    counts = torch.tensor([last[category] == place for place, category in enumerate(categories)])
    return _WithValues(
        node.type,
        lambda x, known, counts: hot((x.long().unsqueeze(-1) == known) & counts),
        torch.tensor(categories, dtype=torch.int64),
        counts,
    )


class _LabelEncoder(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A value for each key; the last one for what is no key."""

    def __init__(self, keys: Any, values: Any, *, finds_nan: bool) -> None:
        super().__init__()
        self._places = {word: place for place, word in reversed(list(enumerate(keys)))}
        self._nan = None
        if isinstance(keys, torch.Tensor):
            missing = keys.isnan()
            self._nan = int(missing.nonzero()[0]) if finds_nan and missing.any() else None
            kept = np.flatnonzero(~missing.numpy())
            unique, first = np.unique(keys.numpy()[kept], return_index=True)
            self.register_buffer("keys", torch.from_numpy(unique))
            self.register_buffer("order", torch.from_numpy(kept[first]))
        self._unknown = len(keys)
        self._text = values if isinstance(values, np.ndarray) else None
        self.register_buffer("values", values if self._text is None else None)

    def _get_name(self) -> str:
        return "LabelEncoder"

    def forward(self, x: Any) -> Any:
        """The values, in the shape of `x`."""
        places = self._of_text(x) if isinstance(x, np.ndarray) else self._of_numbers(x)
        return self.values[places.to(self.values.device)] if self._text is None else self._text[places.cpu().numpy()]

    def _of_text(self, text: Any) -> Any:
        found = [self._places.get(word, self._unknown) for word in text.ravel()]
        return torch.tensor(found, dtype=torch.int64).reshape(text.shape)

    def _of_numbers(self, x: Any) -> Any:
        x = x.to(self.keys.dtype).contiguous()
        places = torch.full(x.shape, self._unknown, dtype=torch.int64, device=x.device)
        if len(self.keys):
            near = torch.searchsorted(self.keys, x).clamp(max=len(self.keys) - 1)
            places = torch.where(self.keys[near] == x, self.order[near], places)
        return places if self._nan is None else places.masked_fill(x.isnan(), self._nan)


@operator("LabelEncoder", domain=LEARNED)
def _label_encoder(node: Node) -> Any:
    words = node.get("classes_strings")
    if words is not None:  # opset 1
        return _both_ways(node, words, range(len(words)))
    values, default = _listed(node, "values"), node.get("default_tensor")
    if isinstance(values, np.ndarray):
        other = node.get("default_string", "_Unused") if default is None else default.ravel()[0]
        values = np.array([*values, other], dtype=object)
    else:
        if default is None:
            usual = ("default_float", -0.0) if values.is_floating_point() else ("default_int64", -1)
            default = torch.tensor([node.get(*usual)], dtype=values.dtype)
        values = torch.cat((values, default.reshape(-1)[:1].to(values.dtype)))
    return _LabelEncoder(_listed(node, "keys"), values, finds_nan=node.opset >= 4)


@operator("CategoryMapper", domain=LEARNED)
def _category_mapper(node: Node) -> Any:
    return _both_ways(node, node.get("cats_strings"), node.get("cats_int64s"))


def _both_ways(node: Node, words: Sequence[str], numbers: Sequence[int]) -> Any:
    """From text to numbers, or from numbers to text: which, the input tells."""
    to_number = dict(zip(words, numbers, strict=True))
    to_word = dict(zip(numbers, words, strict=True))
    other_number, other_word = node.get("default_int64", -1), node.get("default_string", "_Unused")

    def encode(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            found = [to_number.get(each, other_number) for each in x.ravel()]
            return torch.tensor(found, dtype=torch.int64).reshape(x.shape)
        named = [to_word.get(each, other_word) for each in x.flatten().tolist()]
        return np.array(named, dtype=object).reshape(tuple(x.shape))

    return encode


def _listed(node: Node, name: str) -> Any:
    """Keys or values in one of the ways to give them: a tensor, or text."""
    given = node.get(f"{name}_tensor")
    if given is not None:
        return given.reshape(-1)
    for kind, dtype in (("int64s", torch.int64), ("floats", torch.float32)):
        if (values := node.get(f"{name}_{kind}")) is not None:
            return torch.tensor(values, dtype=dtype)
    return np.array(node.get(f"{name}_strings"), dtype=object)


@operator("ZipMap", domain=LEARNED)
def _zip_map(node: Node) -> Any:
    names = node.get("classlabels_strings") or node.get("classlabels_int64s")

    def named(x: Any) -> Any:
        return [dict(zip(names, row, strict=True)) for row in to_array(x.reshape(-1, len(names))).tolist()]

    return named
