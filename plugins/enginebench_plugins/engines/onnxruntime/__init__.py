"""ONNX Runtime: one device an execution provider, and a profile from the runtime's own trace."""
