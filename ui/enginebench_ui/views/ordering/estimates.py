"""Durations in words. What is still to come is an estimate, and read as one."""

_MINUTE_S = 60
_HOUR_S = 3600
_ALIKE = 1.3
"""A range whose ends differ by less is told as one number."""


def duration_words(seconds: float) -> str:
    """Say a duration as exactly as a person wants to know it: "45 s", "12 min", "2 h 5 min"."""
    if seconds < 1.5 * _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 1.5 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    hours, minutes = divmod(round(seconds / _MINUTE_S), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def range_words(shortest_ns: int, longest_ns: int) -> str:
    """Say an estimated range: "2 to 9 min", or one duration where its ends are alike."""
    shortest, longest = duration_words(shortest_ns / 1e9), duration_words(longest_ns / 1e9)
    if shortest == longest or longest_ns < _ALIKE * shortest_ns:
        return longest
    number, _, unit = shortest.partition(" ")
    return f"{number} to {longest}" if longest.endswith(f" {unit}") and " " not in unit else f"{shortest} to {longest}"


def left_words(seconds: float | None) -> str:
    """Say how long a job will go on: "about 3 min left"; "" where nobody can tell."""
    if seconds is None:
        return ""
    return f"about {duration_words(seconds)} left" if seconds >= 1 else "nearly done, or longer than estimated"
