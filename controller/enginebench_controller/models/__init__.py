"""Model versions: their formats and inputs, the library that keeps them, and how one is made of another.

Nothing here runs a benchmark or talks to a target; ONNX Runtime is used only to check and to quantize what is made.
"""
