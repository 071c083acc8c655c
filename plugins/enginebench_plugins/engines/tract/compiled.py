"""From a model file to a runnable of tract: what it runs, tells about itself and times."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from enginebench_plugins import spec
from enginebench_plugins.toolkit.onnx_model import (
    SourceNames,
    dimension_names,
    float_precision,
    output_names,
    read_onnx,
    run_inputs,
    source_names,
)

SEPARATORS = ".-"
"""What tract puts between a name of the model and what it adds: "conv1.relu.low.prefused", "mean-dispose-dims-1"."""

CONSTANT = "Const"
PRODUCT = "OptMatMul"
PRODUCTS = frozenset({"Conv", "ConvTranspose", "Einsum", "Gemm", "MatMul"})
"""The operators that tract runs as its one kind of product."""
PREPARING = frozenset({"Downsample", "IntoShape", "LazyIm2col", "OptMatMulPack", "Pad"})
"""What brings data into the form that a product needs, and bears its name."""

MULTIPLICATIONS = "FMA("
NS_PER_S = 1_000_000_000

Node = Mapping[str, Any]


@dataclass(frozen=True)
class TractModel:
    """A model as tract has it, and what only the file tells: tract names an output after the node that makes it.

    `dimensions` has the names of an input's open dimensions, by place.
    """

    graph: Any
    inputs: tuple[spec.TensorSpec, ...]
    outputs: tuple[str, ...]
    dimensions: Mapping[str, Mapping[int, str]]
    precision: str | None
    names: SourceNames


def read_model(tract: Any, source: spec.ModelSource) -> TractModel:
    """Let tract read the file, and read its names. Raises what tract or ONNX raise, and for impossible shapes."""
    graph, file = tract.onnx().load(source.path), read_onnx(source.path, weights=False)
    return TractModel(
        graph=graph,
        inputs=run_inputs(file, source),
        outputs=output_names(file),
        dimensions=dimension_names(file),
        precision=float_precision(file),
        names=source_names(file, SEPARATORS),
    )


def fix_shapes(tract: Any, model: TractModel) -> TractModel:
    """The model in the shapes of this run, as tract can optimize it.

    A dimension with a name gets its size once all shapes are worked out: a file may say the name of further tensors,
    and tract then finds that "batch" is not 1.
    """
    sizes: dict[str, int | None] = {}
    specs = {tensor.name: tensor for tensor in model.inputs}
    for place in range(model.graph.input_count()):
        tensor = specs[model.graph.input_name(place)]
        shape = [*map(str, tensor.shape)]
        for axis, name in model.dimensions[tensor.name].items():
            if name.isidentifier() and sizes.setdefault(name, tensor.shape[axis]) == tensor.shape[axis]:
                shape[axis] = name
        model.graph.set_input_fact(place, ",".join([*shape, _element(tensor.dtype)]))
    typed = model.graph.into_model()
    if sizes:
        typed.transform(tract.SetSymbols(sizes))
    return replace(model, graph=typed)


def _element(dtype: str) -> str:
    """tract's word for a NumPy type: "f32", "i64", "bool"."""
    known = np.dtype(dtype)
    return "bool" if known.kind == "b" else f"{known.kind}{8 * known.itemsize}"


class CompiledTract(spec.CompiledModel):
    """A runnable, which any number of threads may run at once."""

    def __init__(self, model: TractModel) -> None:
        self._model = model
        self._order = [model.graph.input_name(place) for place in range(model.graph.input_count())]
        self._runnable = model.graph.into_runnable()

    @property
    def inputs(self) -> Sequence[spec.TensorSpec]:
        """The inputs with the shapes of this run."""
        return self._model.inputs

    def effective(self) -> spec.Effective:
        """What follows from how tract works; it tells nothing itself, so that its thread is left to be observed."""
        precision = self._model.precision
        return spec.Effective(
            streams=spec.Readback(1, spec.Source.ASSUMED),
            precision=None if precision is None else spec.Readback(precision, spec.Source.ASSUMED),
        )

    def create_request(self) -> spec.InferRequest:
        """A request that runs in the caller's thread."""
        return TractRequest(self._runnable, self._order, self._model.outputs)

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        """Layers with the means of tract's own profiler, over as many inferences as it makes in some five seconds."""
        report = json.loads(self._runnable.profile_json([inputs[0][name] for name in self._order]))
        layers = tuple(layers_of(report["nodes"], self._model.names, iterations))
        return spec.ModelProfile(layers, inferences=int(report["profiling_info"]["iterations"]))

    def close(self) -> None:
        """Drop the model."""
        del self._runnable, self._model


class TractRequest(spec.InferRequest):
    """A request that runs in the caller's thread, or started on a thread of its own.

    Each inference gets a new state from the runnable: one that is run again begins where a loop such as an LSTM
    ended, and is of no use after an error.
    """

    def __init__(self, runnable: Any, order: Sequence[str], outputs: Sequence[str]) -> None:
        self._runnable, self._order, self._outputs = runnable, order, outputs

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        """Run the model; tract's outputs, which are in the order of the model's, are copied into new arrays."""
        outputs = self._runnable.run([inputs[name] for name in self._order])
        return {name: tensor.to_numpy() for name, tensor in zip(self._outputs, outputs, strict=True)}

    def close(self) -> None:
        """End the request's thread and let go of the model."""
        super().close()
        del self._runnable


def layers_of(nodes: Sequence[Node], names: SourceNames, iterations: int) -> Iterator[spec.LayerProfile]:
    """What runs in an inference, in its order; the nodes of a loop's body are within the time of the loop."""
    outermost = [node for node in nodes if not node["qualified_id"][0] and node["op_name"] != CONSTANT]
    sources = {node["node_name"]: names.node_in(node["node_name"]) for node in outermost}
    named = {sources[node["node_name"]] for node in outermost if node["op_name"] not in PREPARING}
    for order, node in enumerate(sorted(outermost, key=lambda node: node["qualified_id"][1])):
        seconds, cost, source = node.get("secs_per_iter"), node.get("cost", {}), sources[node["node_name"]]
        fused = [_product(source, named, names)] if source and node["op_name"] == PRODUCT else []
        yield spec.LayerProfile(
            name=node["node_name"],
            type=node["op_name"],
            order=order,
            state=spec.LayerState.NOT_EXECUTED if seconds is None else spec.LayerState.EXECUTED,
            time_ns=() if seconds is None else (round(seconds * NS_PER_S),) * iterations,
            precision=_precision(cost),
            source_nodes=tuple(dict.fromkeys(filter(None, (source, *fused)))),
            parameters=cost,
        )


def _precision(cost: Iterable[str]) -> str:
    """The type that tract's word for a layer's multiplications ends with: "FMA(F32)"."""
    words = (word.removeprefix(MULTIPLICATIONS) for word in cost if word.startswith(MULTIPLICATIONS))
    return next(words, "").removesuffix(")").lower()


def _product(node: str, named: Collection[str | None], names: SourceNames) -> str | None:
    """The product that a layer computes whose name is that of the last node fused into it, such as a Relu.

    It is before that node, with nothing between that another layer is named after. A product that has a layer of its
    own is it only where there is no other: of a Concat's inputs tract makes products of their own, and adds them up.
    """
    found, waiting = [], [node]
    for each in waiting:
        if names.types[each] in PRODUCTS:
            found.append(each)
        elif each == node or each not in named:
            waiting += [before for before in names.before[each] if before not in waiting]
    return next((each for each in found if each not in named), next(iter(found), None))
