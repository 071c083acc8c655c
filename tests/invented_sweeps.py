"""Listed profiles and sweeps over an invented model, for tests of what shows them. Nothing here was measured."""

from controller.verdicts.pruning.passes import conv, layer, one_pass, relu, three_layers
from enginebench_controller.records import EngineRef, Peak, PeakKind, ProfileEntry, Rate, Status

ENGINE = EngineRef("invented", "default", "1.0")
STEPS = ((0.0, (10, 2, 20)), (0.5, (8, 2, 12)), (0.9, (4, 2, 5)))
"""Shares of zeros imposed, with the milliseconds of conv0, relu1 and conv2."""


def entry(identity, order=None, sparsity=None, **fields):
    """A profile as it stands in a list."""
    known = {"name": identity, "target": "local", "engine": ENGINE, "model_digest": "ab" * 32, "model_name": "invented"}
    known |= {"device": "CPU", "batch": 1, "cores": 2, "precision": "f32", "status": Status.OK, "created_at_unix_ns": 1}
    return ProfileEntry(id=identity, order_id=order, imposed_sparsity=sparsity, **known | fields)


def baseline(identity="baseline", ms=(9, 1, 18), **fields):
    """A profile of conv0 → relu1 → conv2 and of a reorder that the engine made, of 2 ms."""
    known = {"name": "baseline", "order_id": None}
    made = layer("reorder", 2, None, type_="Reorder", category="reorder", order=3)
    return one_pass((conv(0), relu(1), conv(2)), [*three_layers(ms), made], identity=identity, **known | fields)


def passes(steps=STEPS, order="sweep"):
    """The passes of a sweep over the same model."""
    nodes = (conv(0), relu(1), conv(2))
    return [
        one_pass(nodes, three_layers(ms), sparsity=sparsity, identity=f"s{sparsity}", order_id=order, name="passes")
        for sparsity, ms in steps
    ]


def peaks():
    """Roofs of the invented engine: 1 GFLOP/s, 1 GB/s from memory and 10 from a cache."""
    rates = ((PeakKind.FLOPS, "f32", None, 1e9), (PeakKind.BANDWIDTH, None, 2**18, 1e10))
    rates += ((PeakKind.BANDWIDTH, None, 2**28, 1e9),)
    return [
        Peak(
            *("local", ENGINE, "CPU", 2, kind, "invented", 1),
            precision=precision,
            working_set_bytes=size,
            rate=Rate(rate, rate, rate, 9),
        )
        for kind, precision, size, rate in rates
    ]
