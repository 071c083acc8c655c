"""Model files: what they need as inputs, where they are kept, and how one version is made from another.

Nothing here runs a benchmark or talks to a target; ONNX Runtime is used only to check and to quantize what is made.
"""
