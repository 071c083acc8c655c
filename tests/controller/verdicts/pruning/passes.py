"""Passes over invented models: a layer a node unless told otherwise. Nothing here was measured."""

import invented_profiles
from enginebench_controller.records import (
    Configuration,
    Coverage,
    Effective,
    EngineRef,
    HostFacts,
    Layer,
    LayerState,
    ModelWork,
    ProfileNode,
)

MS = 1_000_000


def conv(index, *, parameters=100, nonzero=None, flops=2000, **fields):
    """A Conv of a hundred weights and no bias."""
    known = {"parameters": parameters, "nonzero_parameters": parameters if nonzero is None else nonzero, "flops": flops}
    known |= {"inputs": (f"x{index}", f"w{index}"), "weights": (f"w{index}",), "group": index}
    return ProfileNode(index, f"conv{index}", "Conv", **known | fields)


def relu(index, **fields):
    """A node without weights."""
    return ProfileNode(
        index, f"relu{index}", "Relu", parameters=0, nonzero_parameters=0, flops=10, group=index, **fields
    )


def layer(name, ms, group, *, type_="Conv", precision="f32", category="matched", **fields):
    """A layer that took so many milliseconds in each of three inferences; None for one that never ran."""
    state = LayerState.EXECUTED if ms is not None else LayerState.NOT_EXECUTED
    times = () if ms is None else (round(ms * MS),) * 3
    order = fields.pop("order", group or 0)
    known = {"source_nodes": (), "category": category, "group": group}
    return Layer(name, type_, order, state, times, 1, "", precision, (), **known | fields)


def one_pass(nodes, layers, *, sparsity=None, level=0, **fields):
    """A profile of these nodes and layers; its latencies are what the layers add up to."""
    options = {"optimization_level": str(level)}
    if sparsity is not None:
        options["imposed_sparsity"] = str(sparsity)
    total = sum(one.time_ns[0] for one in layers if one.time_ns)
    known = {
        "engine": EngineRef("invented", "default", "1.0"),
        "configuration": Configuration("CPU", batch=1, cores=2, options=options),
        "effective": Effective(),
        "profiled_latency_ns": total,
        "unprofiled_latency_ns": total,
        "layers": tuple(layers),
        "nodes": tuple(nodes),
        "work": ModelWork(0, sum(n.flops or 0 for n in nodes), sum(n.parameters or 0 for n in nodes), 0, 0, 0, 1.0),
        "coverage": Coverage(total, total, 0, 0.1),
        "host": HostFacts(isa=("avx2",)),
    }
    identity = fields.pop("identity", f"p{'copy' if sparsity is None else sparsity}")
    return invented_profiles.profile(identity, **known | fields)


def sweep(*steps, nodes=None):
    """Passes over conv0 → relu1 → conv2, from (sparsity, ms of each layer)."""
    nodes = nodes or (conv(0), relu(1), conv(2))
    return [one_pass(nodes, three_layers(ms), sparsity=sparsity) for sparsity, ms in steps]


def three_layers(ms):
    """A layer for each of conv0, relu1 and conv2."""
    return [layer(f"layer{group}", time, group) for group, time in enumerate(ms)]
