"""Ensembles of decision trees (`ai.onnx.ml`): all rows go down all trees at once, a step a level."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from enginebench_plugins.engines.torch.operators.registry import LEARNED, Node, operator
from enginebench_plugins.engines.torch.operators.scoring import Labels, both_classes, probit, rows, transformed

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "BRANCH_LEQ": torch.le, "BRANCH_LT": torch.lt, "BRANCH_GTE": torch.ge, "BRANCH_GT": torch.gt,
    "BRANCH_EQ": torch.eq, "BRANCH_NEQ": torch.ne,
}  # fmt: skip
_MODES = (*_COMPARE, "BRANCH_MEMBER")
"""By their numbers in TreeEnsemble; LEAF is the one after."""
_LEAF = len(_MODES)
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
# ONNX Runtime takes 1 for LOGISTIC and 2 for SOFTMAX here; the standard has them as they stand.
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

Array = Any
"""A NumPy array."""


@dataclass(frozen=True)
class _Forest:
    """All nodes of all trees by place. A leaf is its own child; `members` are the sets that BRANCH_MEMBER asks for.

    `owners` are the leaves that weigh something: leaf, target and weight by place.
    """

    modes: Array
    features: Array
    values: Array
    missing_is_true: Array
    true: Array
    false: Array
    roots: Array
    members: Sequence[Array]
    owners: tuple[Array, Array, Array]


class Trees(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """Where each row ends in each tree, and what the leaves there say."""

    def __init__(self, forest: _Forest, targets: int, how: str) -> None:
        super().__init__()
        self._targets, self._how, self._depth = targets, how, _depth(forest)
        self._modes = sorted({int(mode) for mode in forest.modes} - {_LEAF})
        self._misses = bool(forest.missing_is_true.any())
        for name in ("modes", "features", "values", "missing_is_true", "true", "false", "roots"):
            self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(getattr(forest, name))))
        self._put_members(forest)
        self._put_leaves(forest, targets)

    def _put_members(self, forest: _Forest) -> None:
        width = max(map(len, forest.members), default=0)
        sets = np.full((len(forest.members), width), np.nan, dtype=forest.values.dtype)
        for row, values in zip(sets, forest.members, strict=True):
            row[: len(values)] = values
        asks = forest.modes == _MODES.index("BRANCH_MEMBER")
        self.register_buffer("members", torch.from_numpy(sets))
        self.register_buffer("sets", torch.from_numpy(np.cumsum(asks) - asks))

    def _put_leaves(self, forest: _Forest, targets: int) -> None:
        """A row a leaf, as wide as the leaf that says most; what is left over falls to a target that is dropped."""
        leaves, ids, weights = forest.owners
        order = np.argsort(leaves, kind="stable")
        owners, first, counts = np.unique(leaves[order], return_index=True, return_counts=True)
        width = int(counts.max(initial=1))
        slots = np.zeros(len(forest.modes), dtype=np.int64)
        slots[owners] = np.arange(1, len(owners) + 1)
        row = np.repeat(np.arange(1, len(owners) + 1), counts)
        column = np.arange(len(order)) - np.repeat(first, counts)
        table = np.zeros((len(owners) + 1, width), dtype=weights.dtype)
        target = np.full(table.shape, targets, dtype=np.int64)
        table[row, column], target[row, column] = weights[order], ids[order]
        for name, values in (("slots", slots), ("weights", table), ("targets", target)):
            self.register_buffer(name, torch.from_numpy(values))

    def rows(self, x: Any) -> Any:
        """Doubles are compared as such, all else as the thresholds are."""
        return rows(x, x.dtype if x.dtype == torch.float64 else self.values.dtype)

    def leaves(self, x: Any) -> Any:
        """For each row and tree a place in the table of leaves."""
        at = self.roots.expand(len(x), -1)
        for _ in range(self._depth):
            values = x.gather(1, self.features[at])
            goes = self._compared(values, at)
            if self._misses:
                goes = goes | (self.missing_is_true[at] & values.isnan())
            at = torch.where(goes, self.true[at], self.false[at])
        return self.slots[at]

    def _compared(self, values: Any, at: Any) -> Any:
        goes = None
        for mode in self._modes:
            found = self._asked(_MODES[mode], values, at)
            goes = found if goes is None else torch.where(self.modes[at] == mode, found, goes)
        return goes

    def _asked(self, mode: str, values: Any, at: Any) -> Any:
        if mode == "BRANCH_MEMBER":
            sets = self.sets[at].clamp(max=len(self.members) - 1)
            return (self.members[sets] == values.unsqueeze(-1)).any(-1)
        return _COMPARE[mode](values, self.values[at])

    def gathered(self, x: Any, reduce: str = "sum") -> tuple[Any, Any]:
        """What the leaves say of each target, and whether any says something. In the order of the trees."""
        found = self.leaves(x)
        targets, weights = self.targets[found].flatten(1), self.weights[found].flatten(1).to(x.dtype)
        empty = weights.new_zeros(len(x), self._targets + 1)
        scores = empty.scatter_reduce(1, targets, weights, reduce, include_self=reduce == "sum")
        seen = torch.zeros_like(empty, dtype=torch.bool).scatter(1, targets, True)
        return scores[:, :-1], seen[:, :-1]


def _depth(forest: _Forest) -> int:
    """How many steps lead to the last leaf."""
    at, depth = np.unique(forest.roots), 0
    while (forest.modes[at] != _LEAF).any():
        at, depth = np.unique(np.concatenate((forest.true[at], forest.false[at]))), depth + 1
        if depth > len(forest.modes):
            raise ValueError("the trees of the model go round in a circle")
    return depth


class _Regressor(Trees):
    def __init__(self, forest: _Forest, targets: int, how: str, aggregate: str, base: Array) -> None:
        super().__init__(forest, targets, how)
        self._reduce = {"MIN": "amin", "MAX": "amax"}.get(aggregate, "sum")
        self._share = len(forest.roots) if aggregate == "AVERAGE" else 1
        self.register_buffer("base", torch.from_numpy(base) if len(base) == targets else None)

    def _get_name(self) -> str:
        return "TreeEnsembleRegressor"

    def forward(self, x: Any) -> Any:
        """A column a target."""
        scores, _ = self.gathered(self.rows(x), self._reduce)
        scores = scores / self._share if self._share != 1 else scores
        scores = scores if self.base is None else scores + self.base
        if self._targets > 1:
            return transformed(scores, self._how).to(self._result(x))
        return (probit(scores) if self._how == "PROBIT" else scores).to(self._result(x))

    def _result(self, _x: Any) -> Any:
        return torch.float32


class _Ensemble(_Regressor):
    """TreeEnsemble, whose result is of its input's type."""

    def _get_name(self) -> str:
        return "TreeEnsemble"

    def _result(self, x: Any) -> Any:
        return x.dtype


class _Classifier(Trees):
    """As ONNX Runtime has it: two classes may share one score, and are told apart by it."""

    def __init__(self, node: Node, forest: _Forest, base: Array) -> None:
        labels = node.get("classlabels_strings") or node.get("classlabels_int64s")
        super().__init__(forest, len(labels), node.get("post_transform", "NONE"))
        self.labels = Labels(labels)
        _, ids, weights = forest.owners
        self._positive, self._one = bool((weights >= 0).all()), len(set(ids.tolist())) == 1
        self._of_text = bool(node.get("classlabels_strings"))
        self._bases = len(base)
        self.register_buffer("base", torch.from_numpy(base))

    def _get_name(self) -> str:
        return "TreeEnsembleClassifier"

    def forward(self, x: Any) -> Any:
        """Labels and scores."""
        scores, seen = self.gathered(self.rows(x))
        if self._targets == 2:
            label, scores = self._of_two(scores, seen)
        elif self._targets == 1:
            scores = scores + self.base[:1] if self._bases == 1 else scores
            label, scores = (scores[:, 0] > 0).long(), probit(scores) if self._how == "PROBIT" else scores
        else:
            scores, seen = (scores + self.base, torch.ones_like(seen)) if self._bases else (scores, seen)
            place = scores.masked_fill(~seen, float("-inf")).argmax(1)
            label, scores = self.labels(place), transformed(scores, self._how)
        return label, scores.float()

    def _of_two(self, scores: Any, seen: Any) -> Any:
        first, second = scores.unbind(1)
        alone = ~seen[:, 1]
        if self._bases == 2:
            total = self.base[1] + first
            first, second = (
                torch.where(alone, first + self.base[0], -total),
                torch.where(alone, second + self.base[1], total),
            )
        elif self._bases == 1:
            first = first + self.base[0]
        label = self._told(torch.where(alone, first, second))
        first, second = (torch.where(has, score, 0) for has, score in zip(seen.unbind(1), (first, second), strict=True))
        both = transformed(torch.stack((first, second), -1), self._how)
        if self._bases == 2:
            return label, both
        return label, torch.where(alone[:, None], self._from_one(first), both)

    def _told(self, score: Any) -> Any:
        if not self._one:  # the runtime's own 0 and 1, whatever the classes are called
            place = (score > 0).long()
            return self.labels(place) if self._of_text else place
        return self.labels((score > (0.5 if self._positive else 0)).long())

    def _from_one(self, score: Any) -> Any:
        return both_classes(score, 1 - score if self._one and self._positive else -score, self._how)


def _numbers(node: Node, name: str) -> Array:
    """An attribute that has another one for doubles."""
    given = node.get(f"{name}_as_tensor")
    return np.asarray(node.get(name) or [], dtype=np.float32) if given is None else given.numpy()


def _listed(node: Node, owner: str) -> _Forest:
    """The nodes as TreeEnsembleClassifier and -Regressor list them, each named by its tree and its number there."""
    trees, numbers = (np.asarray(node.get(name), dtype=np.int64) for name in ("nodes_treeids", "nodes_nodeids"))
    span = int(numbers.max()) + 1
    names = trees * span + numbers
    order = np.argsort(names)

    def places(of_trees: Array, of_numbers: Array) -> Array:
        wanted = of_trees * span + of_numbers
        found = order[np.searchsorted(names, wanted, sorter=order).clip(max=len(order) - 1)]
        if (names[found] != wanted).any():
            raise ValueError(f"a tree of {node.outputs[0]} leads to a node that it has not")
        return found

    modes = np.array([_MODES.index(mode) if mode != "LEAF" else _LEAF for mode in node.get("nodes_modes")])
    own, inner = np.arange(len(modes)), np.flatnonzero(modes != _LEAF)
    children = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        children.append(own.copy())
        children[-1][inner] = places(trees[inner], np.asarray(node.get(name), dtype=np.int64)[inner])
    leaves = (np.asarray(node.get(f"{owner}_{name}"), dtype=np.int64) for name in ("treeids", "nodeids", "ids"))
    of_trees, of_numbers, ids = leaves
    missing = np.zeros(len(modes), dtype=bool)
    tracks = node.get("nodes_missing_value_tracks_true") or []
    missing[: len(tracks)] = np.asarray(tracks, dtype=bool)
    return _Forest(
        modes=modes,
        features=np.asarray(node.get("nodes_featureids"), dtype=np.int64),
        values=_numbers(node, "nodes_values"),
        missing_is_true=missing,
        true=children[0],
        false=children[1],
        roots=np.flatnonzero(np.diff(trees, prepend=trees[0] - 1)),
        members=(),
        owners=(places(of_trees, of_numbers), ids, _numbers(node, f"{owner}_weights")),
    )


@operator("TreeEnsembleRegressor", domain=LEARNED)
def _regressor(node: Node) -> Any:
    forest = _listed(node, "target")
    base = _numbers(node, "base_values")
    how, aggregate = node.get("post_transform", "NONE"), node.get("aggregate_function", "SUM")
    return _Regressor(forest, node.get("n_targets"), how, aggregate, base)


@operator("TreeEnsembleClassifier", domain=LEARNED)
def _classifier(node: Node) -> Any:
    forest = _listed(node, "class")
    return _Classifier(node, forest, _numbers(node, "base_values"))


@operator("TreeEnsemble", domain=LEARNED)
def _ensemble(node: Node) -> Any:
    how, aggregate = _TRANSFORMS[node.get("post_transform", 0)], _AGGREGATES[node.get("aggregate_function", 1)]
    forest = _apart(node)
    return _Ensemble(forest, node.get("n_targets"), how, aggregate, np.zeros(0, dtype=forest.values.dtype))


def _apart(node: Node) -> _Forest:
    """Inner nodes and leaves as TreeEnsemble has them, in lists of their own: the leaves come behind."""
    values, weights = node.get("nodes_splits").numpy(), node.get("leaf_weights").numpy()
    inner, leaves = len(values), len(weights)

    def integers(name: str) -> Array:
        return np.asarray(node.get(name), dtype=np.int64)

    def behind(array: Array, fill: Any = 0) -> Array:
        return np.concatenate((array, np.full(leaves, fill, dtype=array.dtype)))

    own = np.arange(inner, inner + leaves)
    children = [
        np.concatenate(
            (np.where(integers(f"nodes_{side}leafs") != 0, inner, 0) + integers(f"nodes_{side}nodeids"), own)
        )
        for side in ("true", "false")
    ]
    roots = integers("tree_roots")
    lone = (integers("nodes_trueleafs")[roots] != 0) & (integers("nodes_falseleafs")[roots] != 0)
    lone &= children[0][roots] == children[1][roots]
    roots = np.where(lone, children[0][roots], roots)
    missing = node.get("nodes_missing_value_tracks_true") or [0] * inner
    members = node.get("membership_values")
    return _Forest(
        modes=behind(node.get("nodes_modes").numpy().astype(np.int64), _LEAF),
        features=behind(integers("nodes_featureids")),
        values=behind(values),
        missing_is_true=behind(np.asarray(missing, dtype=bool)),
        true=children[0],
        false=children[1],
        roots=roots,
        members=() if members is None else _sets(members.numpy()),
        owners=(own, integers("leaf_targetids"), weights),
    )


def _sets(values: Array) -> list[Array]:
    """Runs of numbers with a NaN behind each."""
    ends = np.flatnonzero(np.isnan(values))
    ends = ends if len(ends) and ends[-1] == len(values) - 1 else np.append(ends, len(values))
    starts = np.concatenate(([0], ends[:-1] + 1))
    return [values[start:end] for start, end in zip(starts, ends, strict=True)]
