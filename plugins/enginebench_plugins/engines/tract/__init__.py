"""tract: ONNX files on one thread of the processor, and a profile of means from its own profiler."""
