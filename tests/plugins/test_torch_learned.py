"""The operators of classical machine learning in PyTorch, beside ONNX Runtime."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from beside_onnxruntime import assert_equal, assert_same, model_of, run_onnxruntime, run_torch

from enginebench_plugins import spec
from enginebench_plugins.engines.torch.plugin import Torch
from enginebench_plugins.testing import compiled

ML = "ai.onnx.ml/"
TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]
BRANCHES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
tensor = onnx.numpy_helper.from_array
ROWS = pytest.mark.parametrize("rows", [1, 3])


def _features(rows: int, seed: int = 0, dtype: Any = np.float32, missing: float = 0.0) -> Any:
    """Multiples of a half, so that many equal a threshold."""
    generator = np.random.default_rng(seed)
    values = np.round(generator.normal(size=(rows, 4)) * 2) / 2
    values[generator.random(values.shape) < missing] = np.nan
    return values.astype(dtype)


def _text(*words: str) -> Any:
    return np.array(words, dtype=object)


def _trees(
    owner: str, count: int, leaves: Callable[[int], Sequence[int]], modes: Sequence[str], *, tracks: bool = False,
    weigh: Callable[[float], float] = lambda value: value,
) -> dict[str, Any]:  # fmt: skip
    """Full trees of depth three as the file has them; `leaves` tells the targets that a tree's leaves weigh for."""
    generator = np.random.default_rng(1)
    nodes: list[tuple[Any, ...]] = []
    weights: list[tuple[Any, ...]] = []
    for tree in range(count):
        for node in range(15):
            if node < 7:
                feature, value = int(generator.integers(4)), float(np.round(generator.normal() * 2) / 2)
                mode, track = modes[int(generator.integers(len(modes)))], int(tracks and generator.integers(2))
                nodes.append((tree, node, feature, value, mode, 2 * node + 1, 2 * node + 2, track))
                continue
            nodes.append((tree, node, 0, 0.0, "LEAF", 0, 0, 0))
            weights += [(tree, node, target, weigh(float(generator.normal()))) for target in leaves(tree)]
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    columns = dict(zip((*names, "missing_value_tracks_true"), map(list, zip(*nodes, strict=True)), strict=True))
    owned = dict(zip(("treeids", "nodeids", "ids", "weights"), map(list, zip(*weights, strict=True)), strict=True))
    return {f"nodes_{name}": column for name, column in columns.items()} | {
        f"{owner}_{name}": column for name, column in owned.items()
    }


@ROWS
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
def test_trees_regress(rows: int, aggregate: str, targets: int) -> None:
    """With features that are missing, ties with thresholds, and every way to branch."""
    trees = _trees("target", 5, lambda tree: [tree % targets], BRANCHES, tracks=True)
    x = _features(rows, missing=0.3)
    for transform in TRANSFORMS[:4]:
        more = {"n_targets": targets, "aggregate_function": aggregate, "post_transform": transform}
        assert_same(f"{ML}TreeEnsembleRegressor", {"x": x}, **trees, **more)
    based = trees | {"base_values": [0.25, -1.0, 2.0][:targets]}
    assert_same(f"{ML}TreeEnsembleRegressor", {"x": x}, n_targets=targets, aggregate_function=aggregate, **based)


def test_trees_of_probabilities_become_quantiles() -> None:
    trees = _trees("target", 4, lambda tree: [tree % 2], BRANCHES, weigh=lambda value: 0.2 + 0.1 * np.tanh(value))
    attributes = {"n_targets": 2, "post_transform": "PROBIT"}
    assert_same(f"{ML}TreeEnsembleRegressor", {"x": _features(3)}, tolerance=1e-4, **trees, **attributes)


LEAVES: dict[str, Callable[[int], Callable[[int], Sequence[int]]]] = {
    "the last class": lambda classes: lambda _tree: [classes - 1],
    "the first class": lambda _classes: lambda _tree: [0],
    "every class": lambda classes: lambda _tree: range(classes),
    "a class a tree": lambda classes: lambda tree: [tree % classes],
}


@pytest.mark.parametrize("transform", TRANSFORMS[:4])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("leaves", LEAVES)
def test_trees_classify(leaves: str, classes: int, positive: bool, transform: str) -> None:
    weigh = (lambda value: abs(value) / 4) if positive else (lambda value: value)
    trees = _trees("class", 5, LEAVES[leaves](classes), ["BRANCH_LEQ"], weigh=weigh)
    for bases in {0, classes, classes - 1} - {2 if classes == 3 else classes + 1}:
        more = {"base_values": [0.25, -0.5, 0.125][:bases]} if bases else {}
        for rows, labels in ((1, {"classlabels_int64s": [7, 5, 9]}), (3, {"classlabels_strings": ["a", "b", "c"]})):
            named = {name: values[:classes] for name, values in labels.items()}
            inputs = {"x": _features(rows)}
            assert_same(
                f"{ML}TreeEnsembleClassifier", inputs, 2, **trees, **named, post_transform=transform, **more
            )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32])
def test_trees_take_other_numbers(dtype: Any) -> None:
    trees = _trees("class", 4, lambda _tree: range(3), ["BRANCH_LEQ"])
    labels = {"classlabels_int64s": [1, 2, 3]}
    assert_same(f"{ML}TreeEnsembleClassifier", {"x": _features(3, dtype=dtype)}, 2, **trees, **labels)


def test_thresholds_in_doubles_are_not_rounded() -> None:
    trees = _trees("target", 4, lambda _tree: [0], ["BRANCH_LEQ"])
    for name in ("nodes_values", "target_weights"):
        trees[f"{name}_as_tensor"] = tensor(np.array(trees.pop(name)) - 1e-12)
    inputs = {"x": _features(3, dtype=np.float64)}
    assert_same(f"{ML}TreeEnsembleRegressor", inputs, n_targets=1, **trees)


def _ensemble(dtype: Any, targets: int, **more: int) -> dict[str, Any]:
    """Two trees with a set and a root whose branches are one leaf."""
    return {
        "n_targets": targets,
        "nodes_splits": tensor(np.array([3.14, 1.2, np.nan, 4.2], dtype)),
        "nodes_featureids": [0, 0, 0, 1],
        "nodes_modes": tensor(np.array([0, 0, 6, 1], np.uint8)),
        "nodes_truenodeids": [1, 0, 2, 5],
        "nodes_trueleafs": [0, 1, 1, 1],
        "nodes_falsenodeids": [2, 1, 3, 5],
        "nodes_falseleafs": [0, 1, 1, 1],
        "tree_roots": [0, 3],
        "membership_values": tensor(np.array([1.2, 3.7, 8, 9, np.nan], dtype)),
        "leaf_targetids": [0, targets - 1] * 3,
        "leaf_weights": tensor(np.array([0.52, 0.12, 0.53, 0.43, 0.2, 0.3], dtype)),
        "nodes_missing_value_tracks_true": [1, 0, 0, 1],
    } | more


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("aggregate", range(4))
def test_ensembles_with_sets(dtype: Any, targets: int, aggregate: int) -> None:
    x = np.array([[1.2, 3.4], [8, 4.4], [np.nan, np.nan], [3.7, 4.2]], dtype)
    for transform in (0, 3):
        attributes = _ensemble(dtype, targets, aggregate_function=aggregate, post_transform=transform)
        assert_same(f"{ML}TreeEnsemble", {"x": x}, version=5, **attributes)


@pytest.mark.parametrize(("number", "runtimes"), [(1, 2), (2, 1)])
def test_transforms_of_ensembles_are_those_of_the_standard(number: int, runtimes: int) -> None:
    """ONNX Runtime has softmax and logistic the other way round."""
    x = np.array([[1.2, 3.4], [8, 4.4]], np.float32)
    named: dict[int, Any] = {
        1: lambda z: np.exp(z) / np.exp(z).sum(1, keepdims=True),
        2: lambda z: 1 / (1 + np.exp(-z)),
    }

    def made(transform: int) -> Any:
        attributes = _ensemble(np.float32, 2, post_transform=transform)
        node = onnx.helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **attributes)
        return run_torch(model_of([node], {"x": x}, {}, {"ai.onnx.ml": 5}), {"x": x})[0]

    plain, ours = made(0), made(number)
    np.testing.assert_allclose(ours, named[number](plain), rtol=1e-5)
    assert not np.allclose(ours, named[runtimes](plain))


def test_trees_that_go_in_circles_or_nowhere_are_refused() -> None:
    trees = _trees("target", 1, lambda _tree: [0], ["BRANCH_LEQ"])
    for child, words in ((0, "circle"), (99, "has not")):
        broken = trees | {"nodes_truenodeids": [child, *trees["nodes_truenodeids"][1:]], "n_targets": 1}
        node = onnx.helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **broken)
        inputs = {"x": _features(1)}
        with pytest.raises(ValueError, match=words):
            run_torch(model_of([node], inputs, {}, {}), inputs)


@ROWS
@pytest.mark.parametrize("transform", TRANSFORMS[:4])
def test_linear_models(rows: int, transform: str) -> None:
    generator, x = np.random.default_rng(2), _features(rows)
    for targets in (1, 3):
        weights = {"coefficients": generator.normal(size=4 * targets).tolist(), "targets": targets}
        assert_same(f"{ML}LinearRegressor", {"x": x}, post_transform=transform, **weights)
        bias = {"intercepts": [0.1, -0.2, 0.3][:targets]}
        assert_same(f"{ML}LinearRegressor", {"x": x}, post_transform=transform, **weights, **bias)
    for rowsof, labels in ((1, ["no", "yes"]), (2, [3, 4]), (3, [1, 5, 2])):
        named = {"classlabels_strings" if isinstance(labels[0], str) else "classlabels_ints": labels}
        weights = {"coefficients": generator.normal(size=4 * rowsof).tolist(), "intercepts": [0.1, -0.2, 0.3][:rowsof]}
        for dtype in (np.float32, np.float64, np.int64):
            inputs = {"x": _features(rows, dtype=dtype)}
            assert_same(f"{ML}LinearClassifier", inputs, 2, post_transform=transform, **weights, **named)


def _vectors(classes: int, seed: int = 3) -> dict[str, Any]:
    generator, shares = np.random.default_rng(seed), [3, 2, 4][:classes]
    pairs = classes * (classes - 1) // 2
    return {
        "vectors_per_class": shares,
        "support_vectors": generator.normal(size=4 * sum(shares)).tolist(),
        "coefficients": generator.normal(size=(classes - 1) * sum(shares)).tolist(),
        "rho": generator.normal(size=pairs).tolist(),
        "prob_a": (-0.5 - generator.random(pairs)).tolist(),
        "prob_b": generator.normal(size=pairs).tolist(),
    }


@ROWS
@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vectors(rows: int, kernel: str) -> None:
    inputs, generator = {"x": _features(rows)}, np.random.default_rng(4)
    shape = {"kernel_type": kernel, "kernel_params": [0.3, 0.2, 3.0]}
    near = {"support_vectors": generator.normal(size=20).tolist(), "coefficients": generator.normal(size=5).tolist()}
    for one_class in (0, 1):
        assert_same(f"{ML}SVMRegressor", inputs, n_supports=5, rho=[0.2], one_class=one_class, **shape, **near)
    for classes in (2, 3):
        vectors = _vectors(classes)
        votes = {name: values for name, values in vectors.items() if not name.startswith("prob")}
        for transform in TRANSFORMS[:4]:
            names = {"classlabels_strings": ["a", "b", "c"][:classes], "post_transform": transform}
            assert_same(f"{ML}SVMClassifier", inputs, 2, **votes, **names, **shape, tolerance=1e-4)
            assert_same(f"{ML}SVMClassifier", inputs, 2, **vectors, **names, **shape, tolerance=1e-4)


@ROWS
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("positive", [False, True])
def test_support_vector_machines_without_vectors(rows: int, classes: int, positive: bool) -> None:
    weights = np.random.default_rng(5).normal(size=4 * classes)
    shape = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "rho": [0.2]}
    chosen = (np.abs(weights) if positive else weights).tolist()
    inputs = {"x": _features(rows)}
    assert_same(f"{ML}SVMClassifier", inputs, 2, coefficients=chosen, classlabels_ints=[4, 9, 2][:classes], **shape)
    assert_same(f"{ML}SVMRegressor", inputs, coefficients=chosen[:4], n_supports=0, **shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_features_are_scaled_and_normalized(dtype: Any) -> None:
    x = np.concatenate([_features(3, dtype=dtype), np.zeros((1, 4), dtype)])
    for count in (1, 4):
        scale = {"offset": [0.5, 1.0, -2.0, 0.25][:count], "scale": [2.0, 0.3, 0.1, -1.0][:count]}
        assert_same(f"{ML}Scaler", {"x": x}, **scale)
    for norm in ("MAX", "L1", "L2"):
        assert_same(f"{ML}Normalizer", {"x": x}, norm=norm)
        assert_same(f"{ML}Normalizer", {"x": x[0]}, norm=norm)


def test_what_is_missing_is_filled_in() -> None:
    x = _features(3, missing=0.3)
    for replaced in (float("nan"), 0.5):
        for count in (1, 4):
            values = {"imputed_value_floats": [9.0, 8.0, 7.0, 6.0][:count], "replaced_value_float": replaced}
            assert_same(f"{ML}Imputer", {"x": x}, **values)
            assert_same(f"{ML}Imputer", {"x": x[0]}, **values)
    whole = {"imputed_value_int64s": [9, 8, 7, 6], "replaced_value_int64": 1}
    assert_same(f"{ML}Imputer", {"x": _features(3, dtype=np.int64)}, **whole)
    assert_same(f"{ML}Normalizer", {"x": x}, norm="MAX")
    assert_same(f"{ML}Normalizer", {"x": np.full((1, 3), 1e20, np.float32)}, norm="L2")


def test_features_are_chosen_joined_and_encoded() -> None:
    x = _features(6)
    assert_same(f"{ML}Binarizer", {"x": x}, threshold=0.5)
    for array, places in ((x, [[2, 0]]), (x[0], [2, 0, 1]), (x.reshape(2, 3, 4), [2]), (_text("a", "b"), [1, 1])):
        assert_same(f"{ML}ArrayFeatureExtractor", {"x": array, "places": np.array(places)})
    pair = {"a": x[:, :2], "b": x}
    assert_same(f"{ML}FeatureVectorizer", pair, inputdimensions=[3, 2])
    for dtype in (np.float32, np.float64, np.int64):
        assert_same(f"{ML}OneHotEncoder", {"x": x.astype(dtype)}, cats_int64s=[1, 0, -1, 2])
    assert_same(f"{ML}OneHotEncoder", {"x": np.array([1, 2, 7])}, cats_int64s=[1, 1, 2])
    assert_same(f"{ML}OneHotEncoder", {"x": _text("a", "q", "b").reshape(3, 1)}, cats_strings=["b", "a"])
    assert_same(f"{ML}ZipMap", {"x": x[:, :2]}, classlabels_strings=["a", "b"])
    assert_same(f"{ML}ZipMap", {"x": x[0, :2]}, classlabels_int64s=[3, 4])


def test_an_unknown_category_is_refused_where_it_must_be_known() -> None:
    node = onnx.helper.make_node("OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", cats_int64s=[1], zeros=0)
    inputs = {"x": np.array([1, 2])}
    with pytest.raises(ValueError, match="none of the categories of y"):
        run_torch(model_of([node], inputs, {}, {}), inputs)


NUMBERS, FLOATS = np.array([[1, 2], [7, 5]]), np.array([1, np.nan, 7, 3], np.float32)
ENCODINGS: list[tuple[Any, dict[str, Any]]] = [
    (NUMBERS, {"keys_int64s": [5, 1, 7], "values_int64s": [10, 20, 30]}),
    (NUMBERS, {"keys_int64s": [5, 1, 7], "values_floats": [10.0, 20.0, 30.0], "default_float": 0.5}),
    (NUMBERS, {"keys_int64s": [5, 1], "values_strings": ["x", "y"]}),
    (FLOATS, {"keys_floats": [7.0, float("nan"), 1.0], "values_floats": [10.0, 20.0, 30.0]}),
    (FLOATS, {"keys_floats": [7.0, 1.0], "values_strings": ["x", "y"]}),
    (_text("a", "b", "c"), {"keys_strings": ["c", "a"], "values_int64s": [4, 5]}),
    (_text("a", "b", "c"), {"keys_strings": ["c", "a"], "values_floats": [4.0, 5.0]}),
    (_text("a", "b", "c"), {"keys_strings": ["c", "a"], "values_strings": ["x", "y"], "default_string": "none"}),
]


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize(("x", "mapping"), ENCODINGS)
def test_labels_are_mapped(x: Any, mapping: dict[str, Any], version: int) -> None:
    assert_same(f"{ML}LabelEncoder", {"x": x}, version=version, **mapping)


def test_labels_are_mapped_by_tensors_and_as_before() -> None:
    small = {"values_tensor": tensor(np.array([1, 2], np.int16)), "default_tensor": tensor(np.array([9], np.int16))}
    assert_same(f"{ML}LabelEncoder", {"x": _text("a", "c")}, version=4, keys_tensor=tensor(_text("a", "b")), **small)
    for x in (_text("a", "b", "z"), np.array([0, 1, 5])):
        words = {"default_int64": -3, "default_string": "no"}
        assert_same(f"{ML}LabelEncoder", {"x": x}, version=1, classes_strings=["b", "a"], **words)
        assert_same(f"{ML}CategoryMapper", {"x": x}, cats_strings=["b", "a"], cats_int64s=[5, 1], **words)


GRAMS = {
    "ngram_counts": [0, 4, 10],
    "ngram_indexes": [0, 1, 2, 3, 4, 5, 6, 8, 7],
}
POOL = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 3, 5, 4, 1, 1, 3]


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("lengths", [(1, 1), (1, 2), (2, 2), (1, 3), (2, 3)])
def test_n_grams_are_counted(mode: str, lengths: tuple[int, int]) -> None:
    x = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8], [2, 3, 5, 4, 7, 1]])
    for skips, more in ((0, {}), (1, {"weights": [0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]}), (5, {})):
        sizes = {"min_gram_length": lengths[0], "max_gram_length": lengths[1], "max_skip_count": skips}
        common = {"mode": mode, **sizes, **GRAMS, **more}
        words = {"pool_strings": [str(number) for number in POOL]}
        assert_same("TfIdfVectorizer", {"x": x}, pool_int64s=POOL, **common)
        assert_same("TfIdfVectorizer", {"x": x[0].astype(np.int32)}, pool_int64s=POOL, **common)
        assert_same("TfIdfVectorizer", {"x": x.astype(str).astype(object)}, **words, **common)


def test_words_are_filtered_and_their_case_changed() -> None:
    for x in (_text("Monday", "tuesday", "monday"), _text("monday", "MONDAY").reshape(1, 2)):
        for case in ("LOWER", "UPPER", "NONE"):
            for exact in (0, 1):
                attributes = {
                    "case_change_action": case,
                    "is_case_sensitive": exact,
                    "stopwords": ["monday"],
                    "locale": "C",
                }
                assert_same("StringNormalizer", {"x": x}, **attributes)


def test_each_node_is_a_layer_and_text_comes_out_as_text(tmp_path: Path) -> None:
    trees = _trees("class", 3, lambda _tree: range(3), ["BRANCH_LEQ"])
    make = onnx.helper.make_node
    nodes = [
        make("Scaler", ["x"], ["scaled"], "scaler", domain="ai.onnx.ml", offset=[0.5], scale=[2.0]),
        make(
            "TreeEnsembleClassifier", ["scaled"], ["label", "scores"], "trees", domain="ai.onnx.ml",
            classlabels_strings=["a", "b", "c"], **trees,
        ),
        make("LabelEncoder", ["label"], ["named"], "names", domain="ai.onnx.ml", keys_strings=["a", "b", "c"],
             values_strings=["x", "y", "z"]),
        make("Identity", ["named"], ["text"], "last"),
    ]  # fmt: skip
    x = _features(3)
    model = model_of(nodes, {"x": x}, {}, {})
    model.graph.output.append(onnx.ValueInfoProto(name="scores"))
    path = tmp_path / "trees.onnx"
    onnx.save(model, path)
    program = compiled(Torch(), spec.ModelSource(path, spec.ModelFormat.ONNX))
    outputs = program.create_request().infer({"x": x})
    assert_equal(list(outputs.values()), run_onnxruntime(model, {"x": x}))
    layers = program.profile([{"x": x}], 2).layers
    assert [layer.source_nodes for layer in layers] == [("scaler",), ("trees",), ("names",), ("last",)]
    assert [layer.state for layer in layers] == [spec.LayerState.EXECUTED] * 4
