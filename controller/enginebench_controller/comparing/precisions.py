"""Engines' words for precisions, made comparable: "float" on one side and "FP32" on the other are no transition."""

from collections.abc import Iterable
from functools import cache

_PLAIN = {
    "float": "f32",
    "float32": "f32",
    "fp32": "f32",
    "float16": "f16",
    "fp16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "double": "f64",
    "float64": "f64",
    "uint8": "u8",
    "quint8": "u8",
    "int8": "i8",
    "qint8": "i8",
    "s8": "i8",
    "int32": "i32",
    "s32": "i32",
    "int64": "i64",
    "s64": "i64",
}


@cache
def plain_precision(word: str) -> str:
    """One word for a precision, whoever says it; an unknown word stays as it is."""
    return _PLAIN.get(word.lower(), word.lower())


def joint_precision(words: Iterable[str]) -> str:
    """The precisions of layers that stand in one row, each once, in their order; "" where none is known."""
    return "+".join(dict.fromkeys(plain_precision(word) for word in words if word))
