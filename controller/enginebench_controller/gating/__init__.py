"""Gates: is head worse than base? Two sides and a control arm, measured as process pairs until the verdict stands.

The rule itself is in `comparing.gate`, the statistics in `stats.paired`; here are the sides, the way of a gate from
order to result, and what it looks like in a document or a file.
"""

from enginebench_controller.gating.gate import GateOrder, gate, gate_of
from enginebench_controller.gating.results import GateResult

__all__ = ["GateOrder", "GateResult", "gate", "gate_of"]
