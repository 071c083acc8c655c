"""How requests reach the engine, and what is noted of each: the same for every engine, block by block.

One module a load. Nothing here knows phases, evidence or the wire, and nothing is computed from the samples.
"""
