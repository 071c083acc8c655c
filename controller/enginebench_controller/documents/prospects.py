"""Prospects and advice as public JSON documents, described in docs/prospects.md, by the rules of benchmarks.py."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from enginebench_controller.documents.benchmarks import Document, subject_document
from enginebench_controller.prospects import Advice, Estimate, Outcome, Part, PruningProspects, Series
from enginebench_controller.prospects.estimate import is_prunable
from enginebench_controller.records import Profile, ProfileNode

SCHEMA_VERSION = 1


def pruning_document(found: PruningProspects) -> Document:
    """Describe estimates, passes with sparsity imposed, and pruned copies; every time says which of these it is."""
    dense = found.series.dense
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "enginebench-pruning-prospects",
        "order_id": dense.order_id,
        "subject": subject_document(dense),
        "optimization_level": dense.optimization_level,
        "iterations": dense.iterations,
        "dense": {
            "profile_id": dense.id,
            "latency_ns": found.outcomes[0].dense_ns,
            "flops": dense.work.flops if dense.work else None,
            "parameters": dense.work.parameters if dense.work else None,
        },
        "outcomes": [_outcome(one) for one in found.outcomes],
        "parts": [part_document(found, place) for place in range(len(found.series.parts))],
        "failed": [_failure(one) for one in found.failed],
    }


def part_document(found: PruningProspects, place: int) -> Document:
    """Describe one part of the model: its times dense, with each sparsity imposed, and in each copy."""
    part, series = found.series.parts[place], found.series
    nodes = [series.dense.nodes[node] for node in part.nodes]
    return {
        "nodes": [node.name for node in nodes],
        "types": list(part.types),
        "handed_over": part.handed_over,
        "prunable": any(map(is_prunable, nodes)),
        "parameters": _sum(nodes, "parameters"),
        "flops": _sum(nodes, "flops"),
        "imposed": [
            {"sparsity": sparsity, "time_ns": time}
            for sparsity, time in zip(series.sparsities, part.times_ns, strict=False)
        ],
        "copies": [_part_in_copy(series, part, place, outcome) for outcome in found.outcomes if outcome.is_copy],
    }


def advice_document(profile: Profile, against: Profile | None, advice: Sequence[Advice]) -> Document:
    """Describe what the advisor says of a profile."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "enginebench-advice",
        "profile_id": profile.id,
        "against_id": against.id if against else None,
        "advice": advice_list(advice),
    }


def advice_list(advice: Iterable[Advice]) -> list[dict[str, Any]]:
    """Describe pieces of advice, for any document that has them."""
    return [
        {
            "rule": one.rule,
            "severity": one.severity.value,
            "sentence": one.sentence,
            "remedy": one.remedy,
            "profile_id": one.profile_id,
            "evidence": dict(one.evidence),
            "layers": [asdict(layer) for layer in one.layers],
        }
        for one in advice
    ]


def _outcome(one: Outcome) -> Document:
    return {
        "profile_id": one.profile.id,
        "model": {"name": one.profile.model_name, "digest": one.profile.model_digest},
        "is_copy": one.is_copy,
        "sparsity": one.sparsity,
        "estimated": _estimate(one.estimate),
        "imposed": {"latency_ns": one.imposed_ns, "speedup": one.imposed_speedup},
        "measured": {"latency_ns": one.measured_ns, "speedup": one.measured_speedup},
        "estimate_error": one.error,
        "estimated_flops": one.flops,
        "nonzero_parameters": one.parameters,
    }


def _estimate(found: Estimate | None) -> Document | None:
    if found is None:
        return None
    return {"latency_ns": found.time_ns, "speedup": found.speedup, "unknown_share": found.unknown_share}


def _part_in_copy(series: Series, part: Part, place: int, outcome: Outcome) -> Document:
    index = len(series.passes) + [one.id for one in series.copies].index(outcome.profile.id)
    expected = outcome.estimate.parts[place] if outcome.estimate else None
    return {
        "profile_id": outcome.profile.id,
        "sparsity": expected.sparsity if expected else None,
        "estimated_ns": expected.estimated_ns if expected else None,
        "measured_ns": part.times_ns[index],
    }


def _sum(nodes: Sequence[ProfileNode], figure: str) -> int | None:
    known = [value for node in nodes if (value := getattr(node, figure)) is not None]
    return sum(known) if known else None


def _failure(profile: Profile) -> Document:
    message = profile.failure.message if profile.failure else None
    return {"profile_id": profile.id, "imposed_sparsity": profile.imposed_sparsity, "message": message}
