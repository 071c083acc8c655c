"""Versions made of others: another batch, INT8, zeros, another format; each is proven or checked, and says how.

INT8: `quantize` says what it is calibrated on, `onnxruntime_int8` makes it. What is kept, and where, is the library's;
which version a plan needs is decided in `plan`.
"""
