"""How much of a measurement was disturbed, by what, and what the machine would not tell. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.records import Block


@dataclass(frozen=True)
class EvidenceSummary:
    """Disturbed blocks among all; how many of them each kind of disturbance befell; why evidence is missing, by field.

    A block may be disturbed in several ways, so the counts may add up to more than `disturbed_blocks`.
    `disturbed_share` is that of the time, None without any block.
    """

    blocks: int
    disturbed_blocks: int
    disturbed_share: float | None
    disturbances: Mapping[str, int]
    missing: Mapping[str, str]


def summarize_evidence(blocks: Sequence[Block]) -> EvidenceSummary:
    """Summarize the evidence of a measurement's blocks, over all its processes."""
    disturbed = [block for block in blocks if block.disturbances]
    kinds = Counter(kind for block in disturbed for kind in {kind_of(one) for one in block.disturbances})
    whole_ns = sum(block.duration_ns for block in blocks)
    return EvidenceSummary(
        blocks=len(blocks),
        disturbed_blocks=len(disturbed),
        disturbed_share=sum(block.duration_ns for block in disturbed) / whole_ns if whole_ns else None,
        disturbances=dict(kinds.most_common()),
        missing={field: reason for block in blocks for field, reason in block.evidence.missing.items()},
    )


def kind_of(disturbance: str) -> str:
    """Return what a phrase such as "other processes 12 %" or "throttled for 3 ms" says, without how much."""
    return re.split(r"(?: for)? \d", disturbance, maxsplit=1)[0]
