"""The work in a model: multiply-adds, operations, parameters and bytes of every node of its source graph.

`counters` is the table of what operators cost; the formulas of convolutions and matrix products are in `products`.
Nothing here runs a model, but `saved_programs` has PyTorch run one. One multiply-add (MAC) is two FLOPs.
"""
