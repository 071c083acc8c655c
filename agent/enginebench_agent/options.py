"""Engine options between text, as the wire carries them, and typed values, checked against an allow-list."""

import difflib
import math
from collections.abc import Collection, Mapping, Sequence

from enginebench_plugins.types import OptionSpec, OptionValue, UnsupportedSettingsError


def to_option_text(value: OptionValue) -> str:
    """An option's value as text: `true` and `false` for bools, else as Python prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def from_option_text(option: OptionSpec, text: str) -> OptionValue:
    """The typed value of one option.

    Raises `UnsupportedSettingsError` for a wrong type or a value not offered.
    """
    try:
        value = _parse_option(option.type, text)
    except ValueError:
        kind = option.type.__name__
        raise UnsupportedSettingsError(f"Option '{option.name}' takes a value of type {kind}, not '{text}'.") from None
    if option.choices and value not in option.choices:
        offered = ", ".join(to_option_text(choice) for choice in option.choices)
        raise UnsupportedSettingsError(f"Option '{option.name}' is one of {offered}, not '{text}'.")
    return value


def _parse_option(kind: type, text: str) -> OptionValue:
    if kind is bool:
        return ("false", "true").index(text.lower()) == 1
    if kind is int:
        return int(text)
    if kind is float and not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text) if kind is float else text


def from_options(options: Sequence[OptionSpec], texts: Mapping[str, str]) -> dict[str, OptionValue]:
    """Typed values of all options given. Raises `UnsupportedSettingsError` for one not on the allow-list."""
    allowed = {option.name: option for option in options}
    for name in texts.keys() - allowed.keys():
        raise UnsupportedSettingsError(f"Unknown option '{name}'. {suggestion(name, allowed)}")
    return {name: from_option_text(allowed[name], texts[name]) for name in sorted(texts)}


def suggestion(name: str, known: Collection[str]) -> str:
    """The sentence that helps after a wrong name: the nearest known one, else all of them."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"Did you mean '{near[0]}'?"
    return f"There are {', '.join(sorted(known))}." if known else "There are none."
