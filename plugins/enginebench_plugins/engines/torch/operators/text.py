"""Operators on text, which stays in NumPy's arrays of Python strings, and n-grams of words or numbers."""

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from enginebench_plugins.engines.torch.operators.registry import MICROSOFT, Node, functions, operator


@operator("StringNormalizer")
def _string_normalizer(node: Node) -> Any:
    action, exact = node.get("case_change_action", "NONE"), node.get("is_case_sensitive", 0)
    stops = [word if exact else word.lower() for word in node.get("stopwords") or []]

    def normalize(text: Any) -> Any:
        words = [word for word in text.ravel() if (word if exact else word.lower()) not in stops]
        change = {"LOWER": str.lower, "UPPER": str.upper}.get(action, str)
        words = [change(word) for word in words] or [""]
        return np.array(words, dtype=object).reshape((1, -1) if text.ndim == 2 else (-1,))

    return normalize


functions({"StringConcat": lambda a, b: np.asarray(a + b, dtype=object)})


@operator("StringSplit")
def _string_split(node: Node) -> Any:
    separator, most = node.get("delimiter") or None, node.get("maxsplit")

    def split(text: Any) -> Any:
        parts = [word.split(separator, -1 if most is None else most) for word in text.ravel()]
        widest = max(map(len, parts), default=0)
        filled = [[*words, *[""] * (widest - len(words))] for words in parts]
        counts = torch.tensor([len(words) for words in parts], dtype=torch.int64).reshape(text.shape)
        return np.array(filled, dtype=object).reshape(*text.shape, widest), counts

    return split


@operator("RegexFullMatch")
def _regex(node: Node) -> Any:
    pattern = re.compile(node.get("pattern", ""))

    def match(text: Any) -> Any:
        found = [pattern.fullmatch(word) is not None for word in text.ravel()]
        return torch.tensor(found, dtype=torch.bool).reshape(text.shape)

    return match


class _Grams(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """How often each n-gram occurs in a row, its words some steps apart.

    N-grams are a tree: each one is the place of what stands before its last word, and that word.
    """

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._skips, self._mode = node.get("max_skip_count"), node.get("mode")
        least, most = node.get("min_gram_length"), node.get("max_gram_length")
        pool = node.get("pool_strings") or node.get("pool_int64s")
        columns, weights = node.get("ngram_indexes"), node.get("weights")
        self._words = {word: place for place, word in enumerate(dict.fromkeys(pool))}
        starts = [*node.get("ngram_counts"), len(pool)]
        grams: list[tuple[int, ...]] = []
        for size, (start, end) in enumerate(itertools.pairwise(starts), start=1):
            numbers = [self._words[word] for word in pool[start:end]]
            grams += [tuple(numbers[place : place + size]) for place in range(0, len(numbers), size)]
        self._width, self._sizes = max(columns) + 1, range(least, most + 1)
        known = [word for word in self._words if not isinstance(word, str)]
        order = sorted(range(len(known)), key=known.__getitem__)
        self.register_buffer("numbers", torch.tensor([known[place] for place in order], dtype=torch.int64))
        self.register_buffer("order", torch.tensor(order, dtype=torch.int64))
        scale = torch.ones(self._width)
        if weights is not None:
            scale[torch.tensor(columns)] = torch.tensor(weights)
        self.register_buffer("scale", scale)
        self._put_tree(grams, columns, most)

    def _put_tree(self, grams: Sequence[tuple[int, ...]], columns: Sequence[int], most: int) -> None:
        """For each length the keys of all beginnings in order, with their places and the columns they count in."""
        places: dict[tuple[int, ...], int] = {(): 0}
        self._most = most
        by_gram = {gram: columns[place] for place, gram in enumerate(grams) if len(gram) in self._sizes}
        for size in range(1, most + 1):
            beginnings = dict.fromkeys(gram[:size] for gram in by_gram if len(gram) >= size)
            keys = {places[gram[:-1]] * len(self._words) + gram[-1]: gram for gram in beginnings}
            ordered = sorted(keys)
            places = {keys[key]: place for place, key in enumerate(ordered)}
            counts = [by_gram.get(keys[key], self._width) for key in ordered]
            self.register_buffer(f"keys_{size}", torch.tensor(ordered, dtype=torch.int64))
            self.register_buffer(f"columns_{size}", torch.tensor([*counts, self._width], dtype=torch.int64))

    def _get_name(self) -> str:
        return "TfIdfVectorizer"

    def forward(self, x: Any) -> Any:
        """A column for each n-gram."""
        words = self._numbered(x)
        grid = words.reshape(1, -1) if words.ndim < 2 else words
        counts = torch.zeros(len(grid), self._width + 1, device=self.scale.device)
        for skip in range(1, self._skips + 2):
            self._count(counts, grid, skip)
        counts = counts[:, :-1]
        if self._mode != "TF":
            counts = (counts if self._mode == "TFIDF" else (counts > 0).float()) * self.scale
        return counts if words.ndim == 2 else counts[0]

    def _count(self, counts: Any, grid: Any, skip: int) -> None:
        at = torch.zeros_like(grid)
        for size in range(1, self._most + 1):
            length = grid.shape[1] - skip * (size - 1)
            if length <= 0:
                return
            word = grid[:, skip * (size - 1) :]
            keys, columns = getattr(self, f"keys_{size}"), getattr(self, f"columns_{size}")
            at = _found(keys, at[:, :length] * len(self._words) + word, (at[:, :length] < 0) | (word < 0))
            if size in self._sizes and (size > 1 or skip == 1):
                counts.scatter_add_(1, columns[at], torch.ones(at.shape, device=at.device))

    def _numbered(self, x: Any) -> Any:
        """Words by their places among those that occur in n-grams; what does not is -1."""
        if isinstance(x, np.ndarray):
            found = [self._words.get(word, -1) for word in x.ravel()]
            return torch.tensor(found, dtype=torch.int64, device=self.scale.device).reshape(x.shape)
        at = _found(self.numbers, x.long().contiguous(), torch.zeros_like(x, dtype=torch.bool))
        return torch.where(at < 0, at, self.order[at])


def _found(keys: Any, wanted: Any, unknown: Any) -> Any:
    """Places among ordered keys, -1 where there is none."""
    if not len(keys):
        return torch.full_like(wanted, -1)
    near = torch.searchsorted(keys, wanted.contiguous()).clamp(max=len(keys) - 1)
    return torch.where((keys[near] == wanted) & ~unknown, near, -1)


operator("TfIdfVectorizer")(_Grams)


@operator("Tokenizer", domain=MICROSOFT)
def _tokenizer(node: Node) -> Any:
    shortest, padding = node.get("mincharnum"), node.get("pad_value")
    separators, expression = node.get("separators"), node.get("tokenexp")
    marks = bool(node.get("mark"))

    def words(text: str) -> list[str]:
        if expression:
            return [found for found in re.findall(expression, text) if len(found) >= shortest]
        if separators == [""]:
            return list(text)
        parts = [text]
        for separator in separators:
            parts = [piece for part in parts for piece in re.split(separator, part)]
        return [part for part in parts if part and len(part) >= shortest]

    def tokenize(text: Any) -> Any:
        found = [words(each) for each in text.ravel()]
        widest = max(map(len, found), default=0)
        marked = [["\x02", *each, "\x03"] for each in found] if marks and widest else found
        widest = max(map(len, marked), default=0)
        lines = [[*each, *[padding] * (widest - len(each))] for each in marked]
        return np.array(lines, dtype=object).reshape(*text.shape, widest)

    return tokenize
