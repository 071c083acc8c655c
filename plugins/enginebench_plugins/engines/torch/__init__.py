"""PyTorch as an engine: ONNX as modules, one a node, TorchScript and exported programs as they are."""
