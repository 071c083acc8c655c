"""Profiles with invented numbers, for tests of what keeps and shows them. Nothing here was measured."""

from dataclasses import replace

import invented
from enginebench_controller.records import (
    Bystanders,
    Coverage,
    Effective,
    EngineRef,
    Failure,
    FailureKind,
    HostFacts,
    Layer,
    LayerState,
    MachineUse,
    ModelWork,
    Phase,
    Profile,
    ProfileNode,
    Readback,
    ReadbackSource,
    Status,
)


def layers():
    """A matched layer, one the engine made, and one each that did not run, was optimized away, and tells nothing."""
    ran = Layer(
        *("conv1", "Conv", 0, LayerState.EXECUTED, (5, 6, 7), 1, "jit_avx2", "f32", ((1, 8, 4, 4),)),
        source_nodes=("Conv_0", "Relu_1"),
        inputs=("pixels", "w"),
        outputs=("r",),
        parameters={"strides": "2,2"},
        category="matched",
        group=0,
        flops=None,
        data_bytes=2144,
    )
    reorder = Layer("r1", "Reorder", 1, LayerState.EXECUTED, (3, 3, 4), 2, "", "u8", (), (), category="reorder")
    states = (LayerState.NOT_EXECUTED, LayerState.OPTIMIZED_AWAY, LayerState.NO_DATA)
    silent = [Layer(f"=drop{i}", "Dropout", 2 + i, state, (), 0, "", "", (), ()) for i, state in enumerate(states)]
    return (ran, reorder, *silent)


def nodes():
    """Three source nodes: two in the first layer's group, of one of which little is known, and one folded."""
    conv = ProfileNode(
        *(0, "Conv_0", "Conv", "", ("pixels", "w", ""), ("c",), ("w",), ((1, 8, 4, 4),)),
        attributes={"group": 1, "strides": (2, 2), "auto_pad": "VALID", "alpha": 0.5},
        macs=3456,
        flops=6912,
        parameters=216,
        nonzero_parameters=200,
        weight_bytes=864,
        activation_bytes=1280,
        method="counted",
        state="named",
        group=0,
    )
    odd = ProfileNode(1, "Odd_1", "Odd", "org.odd", ("c",), ("r", ""), (), (None, (1, 2)), state="inferred", group=0)
    return conv, odd, ProfileNode(2, "Constant_2", "Constant", folded=True, macs=0, flops=0, state="folded")


def profile(identity="p0000001", **fields):
    """A profile of five layers in five states of knowledge, matched to three source nodes."""
    whole = Profile(
        id=identity,
        name="invented",
        target="local",
        engine=EngineRef("fake", "default", "1.0"),
        model_digest="ab" * 32,
        model_name="invented",
        configuration=invented.CONFIGURATION,
        status=Status.OK,
        created_at_unix_ns=invented.CREATED_NS,
        effective=Effective(isa=Readback("avx2", ReadbackSource.ASSUMED)),
        iterations=3,
        profiled_latency_ns=20,
        unprofiled_latency_ns=None,
        layers=layers(),
        nodes=nodes(),
        work=ModelWork(3456, 6912, 216, 200, 864, None, 0.5),
        coverage=Coverage(total_ns=9, matched_ns=6, unmatched_ns=3, largest_group_share=2 / 3),
        model_size_bytes=10 + 2**33,
        phases=(Phase("compile", 5_000_000, 2**28), Phase("profile", 60, None)),
        host=HostFacts(cpu_model="Invented 3000", isa=("avx2",)),
        plan={"models": ["model.onnx"], "options": {}},
        order_id="o0000001",
        bystanders=Bystanders(meanwhile=MachineUse(10**9, 4, 10**8), unseen=("who else uses the device",)),
    )
    return replace(whole, **fields)


def profile_of_failure(identity="p0000002"):
    """A profile that came to nothing, of a model without an ONNX graph."""
    unknown = dict.fromkeys(("iterations", "profiled_latency_ns", "work", "coverage", "model_size_bytes", "order_id"))
    crashed = Failure(FailureKind.CRASHED, "the engine's process was killed by SIGSEGV", signal="SIGSEGV")
    parts = dict.fromkeys(("layers", "nodes", "phases"), ()) | {"host": HostFacts(), "plan": {}}
    reason = "layers are matched to the nodes of ONNX models only"
    return profile(identity, status=Status.FAILED, failure=crashed, unmatched_reason=reason, **unknown, **parts)
