"""Runs from Start to Acknowledge: whether one may start, its turn, its child, its end, and its result on disk.

What happens in the child is in `worker`.
"""
