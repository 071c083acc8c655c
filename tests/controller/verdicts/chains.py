"""Invented profiles of chains of convolutions, as two engines would tell of them. Nothing here was measured."""

from dataclasses import replace

import invented
import invented_profiles
from enginebench_controller.records import (
    Coverage,
    EngineRef,
    Layer,
    LayerState,
    ProfileNode,
)

ENGINE, OTHER_ENGINE = EngineRef("fake", "default", "1.0"), EngineRef("fake-other", "default", "2.0")
TYPES = {"fake": "Conv", "fake-other": "Convolution"}


def times(mean_ns, count=20, spread=0.01):
    """As many times around a mean, which they have exactly, without any trend."""
    step = round(mean_ns * spread)
    return tuple(mean_ns + (step if place % 2 else -step) for place in range(count))


def conv_nodes(count, prefix="conv"):
    """A chain of Conv and Relu, in groups of two."""
    for place in range(count):
        before = f"relu{place - 1}" if place else "x"
        conv = {"macs": 500, "flops": 1000, "weight_bytes": 36, "method": "counted", "state": "named"}
        name, weight = f"{prefix}{place}", f"w{place}"
        yield ProfileNode(
            *(2 * place, name, "Conv", "", (before, weight), (f"c{place}",), (weight,), ((1, 8, 4, 4),)),
            group=place,
            **conv,
        )
        yield ProfileNode(
            *(2 * place + 1, f"relu_{name}", "Relu", "", (f"c{place}",), (f"relu{place}",), (), ((1, 8, 4, 4),)),
            flops=128,
            state="inferred",
            group=place,
        )


def layer(order, time_ns, *, engine=ENGINE, precision="f32", **fields):
    """The layer of one Conv with its Relu; `time_ns` are its times, or their mean, or None where it did not run."""
    known = times(time_ns) if isinstance(time_ns, int) else time_ns or ()
    state = LayerState.EXECUTED if known else LayerState.NOT_EXECUTED
    whole = Layer(
        *(f"fused{order}", TYPES[engine.name], order, state, known, 1, "jit", precision, ((1, 8, 4, 4),), ()),
        category="matched",
        group=order,
    )
    return replace(whole, **fields)


def reorder(order, mean_ns):
    """A layer that the engine made for itself."""
    return Layer(
        f"reorder{order}",
        "Reorder",
        order,
        LayerState.EXECUTED,
        times(mean_ns),
        1,
        "",
        "f32",
        (),
        (),
        category="reorder",
    )


def chain(identity, layers, nodes=None, *, engine=ENGINE, unprofiled_ns=None, **fields):
    """A profile with these layers, matched to a chain with a Conv for each of the matched ones."""
    groups = [one for one in layers if one.group is not None]
    sums = [sum(one.time_ns) / len(one.time_ns) for one in layers if one.time_ns]
    matched = [sum(one.time_ns) / len(one.time_ns) for one in groups if one.time_ns]
    total, known = round(sum(sums)), round(sum(matched))
    nodes = tuple(conv_nodes(len(groups)) if nodes is None else nodes)
    return invented_profiles.profile(
        identity,
        name=f"profile of {identity}",
        engine=engine,
        configuration=replace(invented.CONFIGURATION, options={}),
        layers=tuple(layers),
        nodes=nodes,
        unprofiled_latency_ns=total if unprofiled_ns is None else unprofiled_ns,
        profiled_latency_ns=total,
        iterations=20,
        coverage=Coverage(total, known, total - known, 1 / max(len(groups), 1)),
        **fields,
    )
