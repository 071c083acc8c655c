"""Version 1 of the wire, package `enginebench.v1`."""
