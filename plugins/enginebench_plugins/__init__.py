"""Engine plugins: the contract that an engine fulfils, and the engines that come with enginebench.

Nothing here knows about agents, wires or databases; `spec.py` is the one file a plugin author reads.
"""
