"""What this machine is and what it is doing, from /proc and /sys: facts, cores, memory, evidence, who else is there.

No engine, no gRPC, no NumPy: agent and worker both import it.
"""
