"""The child process in which one engine lives: it lists plugins, describes one, or runs one model on one engine.

It talks to the agent through frames on a private pipe. Timing lives here and is the same for every engine; sockets,
caches and leases do not live here. NumPy and engines are imported only while a model runs.
"""
