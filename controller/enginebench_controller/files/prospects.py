"""Pruning prospects and advice as JSON, and prospects as CSV: what is estimated and what measured says so."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from enginebench_controller.files.benchmarks import SubjectForm, subject_document
from enginebench_controller.files.csv_cells import cell
from enginebench_controller.files.documents import Document, head
from enginebench_controller.files.forms import DocumentForm, Form, ModelForm
from enginebench_controller.records import Profile, ProfileNode
from enginebench_controller.verdicts.layers.advice import Advice
from enginebench_controller.verdicts.pruning.estimate import PruningEstimate, Series, TimedPart, is_prunable
from enginebench_controller.verdicts.pruning.prospects import PruningOutcome, PruningProspects


def pruning_document(found: PruningProspects) -> Document:
    """Describe estimates, passes with sparsity imposed, and pruned copies; every time says which of these it is."""
    dense = found.series.dense
    return {
        **head("prospects"),
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
        **head("advice"),
        "profile_id": profile.id,
        "against_id": against.id if against else None,
        "advice": advice_list(advice),
    }


def advice_list(advice: Iterable[Advice]) -> list[Document]:
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


def _outcome(one: PruningOutcome) -> Document:
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


def _estimate(found: PruningEstimate | None) -> Document | None:
    if found is None:
        return None
    return {"latency_ns": found.time_ns, "speedup": found.speedup, "unknown_share": found.unknown_share}


def _part_in_copy(series: Series, part: TimedPart, place: int, outcome: PruningOutcome) -> Document:
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


def prospects_csv(found: PruningProspects) -> str:
    """The text of the table. Times are in nanoseconds; each heading says what is estimated and what measured."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_headings(found))
    for place in range(len(found.series.parts)):
        writer.writerow(map(cell, _values(part_document(found, place))))
    return text.getvalue()


def _headings(found: PruningProspects) -> list[str]:
    headings = ["nodes", "types", "handed_over", "prunable", "parameters", "flops"]
    headings += [f"imposed_{sparsity:g}_ns" for sparsity in found.series.sparsities]
    for copy in (one for one in found.outcomes if one.is_copy):
        name = copy.profile.model_name
        headings += [f"{name} sparsity", f"{name} estimated_ns", f"{name} measured_ns"]
    return headings


def _values(part: Document) -> Iterator[object]:
    yield from (part[key] for key in ("nodes", "types", "handed_over", "prunable", "parameters", "flops"))
    yield from (step["time_ns"] for step in part["imposed"])
    for copy in part["copies"]:
        yield from (copy["sparsity"], copy["estimated_ns"], copy["measured_ns"])


class DenseForm(Form):
    """The pass with no zeros imposed."""

    profile_id: str
    latency_ns: float | None
    flops: int | None
    parameters: int | None


class ReachedForm(Form):
    """A latency, and how many times as fast as dense it is."""

    latency_ns: float | None
    speedup: float | None


class EstimatedForm(ReachedForm):
    """The same estimated; nobody knows what `unknown_share` of the layers' time would save."""

    unknown_share: float


class PruningOutcomeForm(Form):
    """Zeros imposed on every layer alike, or a copy that really has them."""

    profile_id: str
    model: ModelForm
    is_copy: bool
    sparsity: float | None
    estimated: EstimatedForm | None
    imposed: ReachedForm
    measured: ReachedForm
    estimate_error: float | None
    estimated_flops: int | None
    nonzero_parameters: int | None


class ImposedForm(Form):
    """The time of a part with zeros imposed."""

    sparsity: float
    time_ns: float | None


class PartInCopyForm(Form):
    """A part of the model in a pruned copy."""

    profile_id: str
    sparsity: float | None
    estimated_ns: float | None
    measured_ns: float | None


class PartForm(Form):
    """Nodes that run together; `handed_over` where another than the sparse engine runs them."""

    nodes: tuple[str, ...]
    types: tuple[str, ...]
    handed_over: bool
    prunable: bool
    parameters: int | None
    flops: int | None
    imposed: tuple[ImposedForm, ...]
    copies: tuple[PartInCopyForm, ...]


class FailedPassForm(Form):
    """A pass that came to nothing."""

    profile_id: str
    imposed_sparsity: float | None
    message: str | None


class ProspectsDocument(DocumentForm):
    """What pruning would bring: estimated, with zeros imposed, and measured of copies."""

    document = "prospects"

    kind: str
    order_id: str | None
    subject: SubjectForm
    optimization_level: int | None
    iterations: int | None
    dense: DenseForm
    outcomes: tuple[PruningOutcomeForm, ...]
    parts: tuple[PartForm, ...]
    failed: tuple[FailedPassForm, ...]


class AdviceDocument(DocumentForm):
    """What a profile suggests."""

    document = "advice"

    kind: str
    profile_id: str
    against_id: str | None
    advice: tuple[Advice, ...]
