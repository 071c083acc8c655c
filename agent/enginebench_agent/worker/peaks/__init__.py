"""What an engine can reach at best on this machine: operations and bytes per second, the roofs of a roofline.

Operations come from the engine's own kernels on generated models, timed like any model; bytes from NumPy's loops, which
need no engine. Models are written without the package `onnx`, which not every engine's environment has.
"""
