"""The work in a model: multiply-adds, operations, parameters and bytes of every node of its source graph.

What an operator costs stands in `counters`; nothing here runs a model. One multiply-add (MAC) is two FLOPs.
"""

from enginebench_controller.model.flops.cost import Method, ModelCost, NodeCost
from enginebench_controller.model.flops.counting import model_cost, node_costs, operator

__all__ = ["Method", "ModelCost", "NodeCost", "model_cost", "node_costs", "operator"]
