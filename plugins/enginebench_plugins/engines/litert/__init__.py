"""LiteRT, formerly TensorFlow Lite: .tflite files on the processor, by its kernels and XNNPACK's."""
