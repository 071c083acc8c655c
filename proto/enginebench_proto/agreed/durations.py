"""Durations in words, as a person wants to know them: in an agent's sentences, in a controller's and on the pages."""

_MINUTE_S = 60
_HOUR_S = 3600


def duration_words(seconds: float) -> str:
    """Say a duration as exactly as a person wants to know it: "45 s", "12 min", "2 h 5 min"."""
    if seconds < 1.5 * _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 1.5 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    hours, minutes = divmod(round(seconds / _MINUTE_S), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
