"""What models of `ai.onnx.ml` make of their scores, and those that are linear or of support vectors.

As ONNX Runtime has it where the standard leaves it open: which label two classes of one score get, what of it is
transformed. PyTorch computes all rows at once.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch

from enginebench_plugins.engines.torch.operators.registry import LEARNED, Node, operator


def rows(x: Any, dtype: Any = torch.float32) -> Any:
    """Features as a matrix of this type; one row may come as a vector."""
    return (x if x.ndim > 1 else x.reshape(1, -1)).to(dtype)


def transformed(scores: Any, how: str) -> Any:
    """Scores of several classes after `post_transform`."""
    if how == "LOGISTIC":
        return torch.sigmoid(scores)
    if how == "SOFTMAX":
        return torch.softmax(scores, -1)
    if how == "SOFTMAX_ZERO":
        return _softmax_but_zeros(scores)
    return probit(scores) if how == "PROBIT" else scores


def _softmax_but_zeros(scores: Any) -> Any:
    """Softmax that leaves a score of zero at zero."""
    highest = scores.amax(-1, keepdim=True)
    counts = scores.abs() > 1e-7
    powers = torch.where(counts, torch.exp(scores - highest), scores * torch.exp(-highest))
    return powers / (powers * counts).sum(-1, keepdim=True)


def probit(x: Any) -> Any:
    """The normal quantile, by Winitzki's approximation of the inverse error function, as ONNX Runtime has it."""
    x = 2 * x - 1
    logarithm = torch.log((1 - x) * (1 + x))
    half = 2 / (3.14159 * 0.147) + 0.5 * logarithm
    inverse = torch.sqrt(-half + torch.sqrt(half * half - logarithm / 0.147))
    return math.sqrt(2) * torch.where(x < 0, -inverse, inverse)


def both_classes(score: Any, opposite: Any, how: str) -> Any:
    """The scores of two classes where the second alone has one; a quantile stands alone."""
    if how == "PROBIT":
        return torch.stack((probit(score), torch.zeros_like(score)), -1)
    return torch.stack((torch.sigmoid(-score), torch.sigmoid(score)) if how == "LOGISTIC" else (opposite, score), -1)


class Labels(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """Classes by their places; text lies in an array beside PyTorch."""

    def __init__(self, values: Sequence[Any]) -> None:
        super().__init__()
        self._text = np.array(values, dtype=object) if values and isinstance(values[0], str) else None
        self.register_buffer("values", None if self._text is not None else torch.tensor(values, dtype=torch.int64))

    def forward(self, places: Any) -> Any:
        """The label of each place."""
        return self.values[places] if self._text is None else self._text[places.cpu().numpy()]


class _Linear(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """Products with a weight for each class or target."""

    def __init__(self, kind: str, coefficients: Sequence[float], intercepts: Sequence[float], count: int) -> None:
        super().__init__()
        self._kind = kind
        self.register_buffer("weight", torch.tensor(coefficients).reshape(count, -1))
        self.register_buffer("bias", torch.tensor(intercepts) if len(intercepts) == count else None)

    def _get_name(self) -> str:
        return self._kind

    def scores(self, x: Any) -> Any:
        """A column a class or target."""
        return torch.nn.functional.linear(rows(x), self.weight, self.bias)


class _LinearRegressor(_Linear):
    def __init__(self, node: Node) -> None:
        targets = node.get("targets", 1)
        super().__init__(node.type, node.get("coefficients"), node.get("intercepts") or (), targets)
        self._how = node.get("post_transform", "NONE")

    def forward(self, x: Any) -> Any:
        scores = self.scores(x)
        return transformed(scores, self._how) if scores.shape[1] > 1 or self._how == "PROBIT" else scores


operator("LinearRegressor", domain=LEARNED)(_LinearRegressor)


class _LinearClassifier(_Linear):
    def __init__(self, node: Node) -> None:
        labels = node.get("classlabels_strings") or node.get("classlabels_ints") or []
        intercepts = node.get("intercepts") or ()
        super().__init__(node.type, node.get("coefficients"), intercepts, len(intercepts) or len(labels))
        self._how = node.get("post_transform", "NONE")
        if len(self.weight) == 1 and len(labels) != 2:
            labels = ["0", "1"] if node.get("classlabels_strings") else [0, 1]
        self._second = len(node.get("classlabels_strings") or node.get("classlabels_ints") or ()) == 2
        self.labels = Labels(labels)

    def forward(self, x: Any) -> Any:
        scores = self.scores(x)
        if scores.shape[1] > 1:
            return self.labels(scores.argmax(1)), transformed(scores, self._how)
        label = self.labels((scores[:, 0] > 0).long())
        if self._second:
            return label, both_classes(scores[:, 0], 1 - scores[:, 0], self._how)
        return label, probit(scores) if self._how == "PROBIT" else scores


operator("LinearClassifier", domain=LEARNED)(_LinearClassifier)


class _SupportVectors(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """How near a row is to each support vector."""

    def __init__(self, node: Node, count: int) -> None:
        super().__init__()
        self._kernel = node.get("kernel_type", "LINEAR")
        parameters: list[float] = node.get("kernel_params") or [0.0, 0.0, 0.0]
        self._gamma, self._offset, self._degree = parameters
        self.register_buffer("vectors", torch.tensor(node.get("support_vectors")).reshape(count, -1))

    def forward(self, x: Any) -> Any:
        """A column a vector."""
        if self._kernel == "RBF":
            return torch.exp(-self._gamma * torch.cdist(x, self.vectors, compute_mode=EXACTLY) ** 2)
        products = x @ self.vectors.t()
        if self._kernel == "LINEAR":
            return products
        products = self._gamma * products + self._offset
        return torch.tanh(products) if self._kernel == "SIGMOID" else products**self._degree


EXACTLY = "donot_use_mm_for_euclid_dist"


class _SupportVectorRegressor(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    def __init__(self, node: Node) -> None:
        super().__init__()
        count = node.get("n_supports", 0)
        self.kernel = _SupportVectors(node, count) if count else None
        self.register_buffer("weight", torch.tensor(node.get("coefficients")).reshape(1, -1))
        self.register_buffer("bias", torch.tensor(node.get("rho")[:1]))
        self._one_class = node.get("one_class", 0)

    def _get_name(self) -> str:
        return "SVMRegressor"

    def forward(self, x: Any) -> Any:
        near = rows(x) if self.kernel is None else self.kernel(rows(x))
        result = torch.nn.functional.linear(near, self.weight, self.bias)
        return torch.where(result > 0, 1.0, -1.0) if self._one_class else result


operator("SVMRegressor", domain=LEARNED)(_SupportVectorRegressor)


class _SupportVectorClassifier(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """Votes of every pair of classes; without support vectors a linear score for each class."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        labels = node.get("classlabels_strings") or node.get("classlabels_ints")
        shares, weights = node.get("vectors_per_class") or [], torch.tensor(node.get("coefficients"))
        self._how, self._count, self._positive = (
            node.get("post_transform", "NONE"),
            len(labels),
            bool((weights >= 0).all()),
        )
        self.labels = Labels(labels)
        self.kernel = _SupportVectors(node, sum(shares)) if sum(shares) else None
        pairs = list(combinations(range(len(labels)), 2))
        bias = torch.tensor(node.get("rho"))
        if self.kernel is None:
            weights, bias = weights.reshape(len(labels), -1), bias[:1]
        else:
            weights, bias = _of_pairs(weights, shares, pairs), bias[: len(pairs)].double()
        self.register_buffer("weight", weights)
        self.register_buffer("bias", bias)
        self.register_buffer("pairs", torch.tensor(pairs))
        slopes = node.get("prob_a") or [], node.get("prob_b") or []
        self.register_buffer("slopes", torch.tensor(slopes)[:, : len(pairs)] if slopes[0] else None)

    def _get_name(self) -> str:
        return "SVMClassifier"

    def forward(self, x: Any) -> Any:
        """Labels and scores."""
        if self.kernel is None:
            return self._linear(rows(x))
        sums = torch.nn.functional.linear(self.kernel(rows(x)).double(), self.weight, self.bias)
        winners = torch.where(sums > 0, self.pairs[:, 0], self.pairs[:, 1])
        votes = torch.zeros(len(sums), self._count, dtype=torch.int64, device=sums.device)
        label = self.labels(votes.scatter_add(1, winners, torch.ones_like(winners)).argmax(1))
        scores = sums.float()
        if self.slopes is not None:
            return label, transformed(self._probabilities(scores), self._how)
        if self._count > 2:
            return label, transformed(scores, self._how)
        score = scores[:, 0]
        return label, both_classes(score, -score if self._how == "NONE" else 1 - score, self._how)

    def _linear(self, x: Any) -> Any:
        scores = x @ self.weight.t() + self.bias
        highest, place = scores.max(1)
        if self._count == 2:
            second = highest >= 0.5 if self._positive else highest > 0
            place = torch.where(second, torch.ones_like(place), place)
        return self.labels(place), transformed(scores, self._how)

    def _probabilities(self, scores: Any) -> Any:
        """https://www.csie.ntu.edu.tw/~cjlin/papers/svmprob/svmprob.pdf, its second method, as libsvm goes about it."""
        share = (1 - torch.sigmoid(scores * self.slopes[0] + self.slopes[1])).clamp(1e-7, 1 - 1e-7)
        first, second = self.pairs[:, 0], self.pairs[:, 1]
        wins = torch.zeros(len(scores), self._count, self._count, device=scores.device)
        wins[:, first, second], wins[:, second, first] = share, 1 - share
        q = -wins.transpose(1, 2) * wins
        q = q + torch.diag_embed((wins**2).sum(1))
        p = torch.full((len(scores), self._count), 1 / self._count, device=scores.device)
        for _ in range(100):
            qp = torch.einsum("nij,nj->ni", q, p)
            pqp = (p * qp).sum(1)
            going = (qp - pqp[:, None]).abs().amax(1) >= 0.005 / self._count
            if not going.any():
                break
            p = torch.where(going[:, None], _improved(p, q, qp, pqp), p)
        return p


operator("SVMClassifier", domain=LEARNED)(_SupportVectorClassifier)


def _improved(p: Any, q: Any, qp: Any, pqp: Any) -> Any:
    for place in range(p.shape[1]):
        step = (pqp - qp[:, place]) / q[:, place, place]
        more = 1 + step
        own = torch.nn.functional.one_hot(torch.tensor(place), p.shape[1]).to(p)
        pqp = (pqp + step * (step * q[:, place, place] + 2 * qp[:, place])) / more / more
        qp = (qp + step[:, None] * q[:, place]) / more[:, None]
        p = (p + step[:, None] * own) / more[:, None]
    return p


def _of_pairs(weights: Any, shares: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Any:
    """A row of weights for each pair of classes: the file holds, for each vector, those against every other class."""
    weights = weights.reshape(len(shares) - 1, -1).double()
    ends = np.cumsum(shares)
    of_class = [slice(end - share, end) for share, end in zip(shares, ends, strict=True)]
    result = torch.zeros(len(pairs), weights.shape[1], dtype=torch.float64)
    for row, (i, j) in enumerate(pairs):
        result[row, of_class[i]] = weights[j - 1, of_class[i]]
        result[row, of_class[j]] = weights[i, of_class[j]]
    return result
