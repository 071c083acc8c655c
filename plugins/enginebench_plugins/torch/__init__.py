"""PyTorch as an engine: ONNX through onnx2torch, TorchScript and exported programs as they are."""
