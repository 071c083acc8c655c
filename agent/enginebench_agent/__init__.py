"""The agent: the small gRPC server on a target, and the child processes in which engines live.

The server's process never imports an engine, NumPy or anything else that is not in the base of the distribution.
"""
