"""What optimization would bring: pruning estimated from passes with sparsity imposed, and an advisor of plain rules.

Pure functions over profiles. Carrying passes out, storing and showing them is elsewhere.
"""

from enginebench_controller.prospects.advice import Advice, AdvisedLayer, Severity
from enginebench_controller.prospects.advisor import advise
from enginebench_controller.prospects.estimate import Estimate, PartEstimate, Series, estimate, series_of, uniform
from enginebench_controller.prospects.outcomes import Outcome, PruningProspects, prospects_of, without_zeros
from enginebench_controller.prospects.parts import Part, parts_of
from enginebench_controller.prospects.policy import Policy, PrunableWeight, share_out
from enginebench_controller.prospects.savings import Saving, savings_by_layer
from enginebench_controller.prospects.sweeps import imposed_passes, sweep_for, sweeps
from enginebench_controller.prospects.thresholds import Thresholds

__all__ = [
    "Advice",
    "AdvisedLayer",
    "Estimate",
    "Outcome",
    "Part",
    "PartEstimate",
    "Policy",
    "PrunableWeight",
    "PruningProspects",
    "Saving",
    "Series",
    "Severity",
    "Thresholds",
    "advise",
    "estimate",
    "imposed_passes",
    "parts_of",
    "prospects_of",
    "savings_by_layer",
    "series_of",
    "share_out",
    "sweep_for",
    "sweeps",
    "uniform",
    "without_zeros",
]
