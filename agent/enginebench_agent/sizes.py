"""Sizes as a person writes and reads them: "8 GiB"."""

import re

_FACTORS = {"B": 1} | {
    prefix + suffix: base**power
    for suffix, base in (("iB", 1024), ("B", 1000))
    for power, prefix in enumerate("KMGT" if base == 1024 else "kMGT", start=1)
}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kKMGT]?i?B)")


def parse_size(value: object) -> int:
    """Bytes from a whole number or a text such as "512 MiB" or "8 GB". Raises `ValueError` for anything else."""
    if type(value) is int and value > 0:
        return value
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or found[2] not in _FACTORS or (size := int(float(found[1]) * _FACTORS[found[2]])) < 1:
        raise ValueError(f'{value!r} is no size; write "8 GiB", or the bytes as a whole number')
    return size


def shown_size(size_bytes: int) -> str:
    """A size for a person, to three digits: "7.45 GiB"."""
    factor = max((factor for unit, factor in _FACTORS.items() if "i" in unit and factor <= size_bytes), default=1)
    unit = next(unit for unit, known in _FACTORS.items() if known == factor)
    return f"{size_bytes / factor:.3g} {unit}" if factor > 1 else f"{size_bytes} B"
