"""A bisect with invented answers, for tests of what shows them. Nothing here was measured."""

from dataclasses import replace
from typing import Any

import invented
from enginebench_controller.plan.bisect import BisectKind, BisectOrder
from enginebench_controller.plan.plan import GateMetric
from enginebench_controller.records import Search, SearchKind
from enginebench_controller.verdicts.bisect.answer import BisectAnswer, BisectGate, Ratio
from enginebench_controller.verdicts.bisect.decision import BisectFinding, GatePurpose
from enginebench_controller.verdicts.gate.results import LayerShare
from enginebench_controller.verdicts.gate.rule import GateOutcome

ID = "5ea4c0000001"
VERSIONS = ("1.20.0", "1.20.1", "1.21.0", "1.22.0")
STEP = Ratio(ratio=1.098, low=1.07, high=1.13)
ORDER = BisectOrder(
    kind=BisectKind.VERSIONS, candidates=VERSIONS, engine="onnxruntime", model="net.onnx", package="onnxruntime"
)


def gate(purpose: GatePurpose, base: str, head: str, outcome: GateOutcome | None, **others: Any) -> BisectGate:
    """A gate on the way."""
    ratio = {GateOutcome.WORSE: STEP, GateOutcome.PASSES: Ratio(ratio=1.001, low=0.99, high=1.012)}.get(outcome)
    told: dict[str, Any] = {"better": False, "ratio": ratio, "benchmark": "b0000001", "patience": 1, **others}
    return BisectGate(purpose=purpose, base=base, head=head, outcome=outcome, **told)


ANSWER = BisectAnswer(
    finding=BisectFinding.CULPRIT,
    bisected=BisectKind.VERSIONS,
    subject="onnxruntime",
    model="net.onnx",
    engine="onnxruntime",
    option=None,
    metric=GateMetric.LATENCY,
    worse=0.05,
    budget="2m",
    candidates=VERSIONS,
    good="1.20.0",
    bad="1.22.0",
    culprit="1.22.0",
    before="1.21.0",
    suspects=("1.22.0",),
    step=STEP,
    whole=Ratio(ratio=1.2, low=1.17, high=1.23),
    share=0.51,
    further_steps=True,
    reason="",
    gates=(
        gate(GatePurpose.ENDS, "1.20.0", "1.22.0", GateOutcome.WORSE),
        gate(GatePurpose.STEP, "1.20.0", "1.20.1", None, reason="no wheel", benchmark=None),
        gate(GatePurpose.STEP, "1.20.0", "1.21.0", GateOutcome.PASSES, patience=3),
        gate(GatePurpose.NEIGHBOURS, "1.21.0", "1.22.0", GateOutcome.WORSE),
    ),
    skipped={"1.20.1": "no wheel"},
    layers=(LayerShare("Conv_4", "Conv", 310_000, 0.62),),
    layers_note="",
    target="local",
    machine={"processor": "a processor, 2 cores", "enginebench": "0.1.0"},
    measured="net, CPU, batch 1, 2 cores, f32, sync",
    command="enginebench bisect net.onnx --engine onnxruntime --good 1.20.0 --bad 1.22.0",
    remarks=(),
)


def search(answer: BisectAnswer | None = ANSWER) -> Search:
    """The search that it is stored as."""
    made = Search(ID, SearchKind.BISECT, ORDER.name, invented.CREATED_NS, ORDER.model_dump(mode="json"))
    if answer is None:
        return made
    return replace(made, answer=answer.model_dump(mode="json"), ended_at_unix_ns=invented.CREATED_NS + 1)
