"""Raises as an engine does whose shared library is missing."""

raise RuntimeError("libbroken.so.1: cannot open shared object file")
