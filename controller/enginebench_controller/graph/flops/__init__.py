"""The work in a model: multiply-adds, operations, parameters and bytes of every node of its source graph.

What an operator costs stands in `counters`; nothing here runs a model, but `saved_programs` has PyTorch run one. One
multiply-add (MAC) is two FLOPs.
"""
