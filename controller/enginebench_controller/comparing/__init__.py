"""Comparison: profiles and measurements put side by side, as one document.

Pure functions over records. Where records come from, and the statistics themselves, is elsewhere; what a comparison
looks like in a file is in `reports`.
"""

from enginebench_controller.comparing.conditions import Condition, Metric, parse_conditions
from enginebench_controller.comparing.gate import Check, Outcome, check_measurements, check_profiles, exit_code
from enginebench_controller.comparing.layer_rows import LayerRow, RowSide, Verdict
from enginebench_controller.comparing.profiles import ProfileComparison, ProfilePair, compare_profiles

__all__ = [
    "Check",
    "Condition",
    "LayerRow",
    "Metric",
    "Outcome",
    "ProfileComparison",
    "ProfilePair",
    "RowSide",
    "Verdict",
    "check_measurements",
    "check_profiles",
    "compare_profiles",
    "exit_code",
    "parse_conditions",
]
