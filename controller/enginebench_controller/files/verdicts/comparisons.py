"""Compared profiles, benchmarks and measurements as JSON documents."""

from collections.abc import Sequence
from dataclasses import asdict

from enginebench_controller.files.answers import AnswerForm, answers_document
from enginebench_controller.files.benchmarks import SubjectForm, subject_document
from enginebench_controller.files.documents import Document, head
from enginebench_controller.files.forms import (
    DocumentForm,
    EngineForm,
    Form,
    ModelForm,
    NamedForm,
    OutcomeForm,
    engine_document,
    with_fields_of,
)
from enginebench_controller.records import Benchmark, Configuration, Effective, Measurement, Profile
from enginebench_controller.records.fields import CONFIGURATION, EFFECTIVE, finite
from enginebench_controller.stats import layers as figures
from enginebench_controller.stats.comparison import ComparisonMethod, Verdict
from enginebench_controller.stats.layers import MeanRatio
from enginebench_controller.verdicts.conditions import Check, ConditionOutcome
from enginebench_controller.verdicts.layers.advice import Advice
from enginebench_controller.verdicts.layers.profiles import (
    JoinCoverage,
    ProfileComparison,
    ProfilePair,
    Transition,
    TypeRow,
)
from enginebench_controller.verdicts.layers.rows import LayerRow, LayerVerdict, RowSide
from enginebench_controller.verdicts.layers.summary import SettingDifference
from enginebench_controller.verdicts.pairing import Compared
from enginebench_controller.verdicts.subjects import BenchmarkComparison


def comparison_document(comparison: ProfileComparison, checks: Sequence[Check] | None = None) -> Document:
    """Describe a comparison; `checks` are those of `--fail-if`."""
    return {
        **head("profile_comparison"),
        "sides": [side_document(profile) for profile in comparison.profiles],
        "practical": comparison.practical,
        "remarks": list(comparison.remarks),
        "settings": [asdict(one) for one in comparison.settings],
        "comparisons": [_pair(pair) for pair in comparison.pairs],
        "advice": [finite(asdict(one)) for one in comparison.advice],
        "checks": None if checks is None else checks_document(checks),
    }


def side_document(profile: Profile) -> Document:
    """One side: what ran where, how long it took, and what it asked for. Passes are not metered: energy is null."""
    work, coverage = profile.work, profile.coverage
    return {
        **subject_document(profile),
        "name": profile.name,
        "created_at_unix_ns": profile.created_at_unix_ns,
        "cpu": profile.host.cpu_model or None,
        "iterations": profile.iterations,
        "unprofiled_latency_ns": profile.unprofiled_latency_ns,
        "profiled_latency_ns": profile.profiled_latency_ns,
        "profiled_to_unprofiled": figures.profiled_to_unprofiled(profile),
        "layers_ns": figures.total_ns(profile.layers),
        "layers_to_latency": figures.layers_to_latency(profile),
        "matched_share": coverage.share if coverage else None,
        "largest_group_share": coverage.largest_group_share if coverage else None,
        "flops": work.flops if work else None,
        "flops_coverage": work.coverage if work else None,
        "parameters": work.parameters if work else None,
        "nonzero_parameters": work.nonzero_parameters if work else None,
        "model_size_bytes": profile.model_size_bytes,
        "peak_rss_bytes": profile.peak_rss_bytes,
        "energy_uj": None,
        "imposed_sparsity": profile.imposed_sparsity,
        "optimization_level": profile.optimization_level,
    }


def checks_document(checks: Sequence[Check]) -> list[Document]:
    """The checks of `--fail-if`, one a condition and pair, or row."""
    return [
        {
            "pair": one.pair,
            "subject": one.subject,
            "condition": str(one.condition),
            "outcome": one.outcome.value,
            "sentence": one.sentence,
        }
        for one in checks
    ]


def _pair(pair: ProfilePair) -> Document:
    layers = asdict(pair.layers) if pair.layers else None
    return {
        "first": pair.first.id,
        "second": pair.second.id,
        "unprofiled_ratio": pair.latency_ratio,
        "layers_sum": finite(layers),
        "remarks": list(pair.remarks),
        "coverage": _coverage(pair.coverage),
        "verdicts": {verdict.value: pair.count(verdict) for verdict in LayerVerdict},
        "types": [asdict(one) for one in pair.types],
        "engine_types": [asdict(one) for one in pair.engine_types],
        "transitions": [asdict(one) for one in pair.transitions],
        "layers": [_row(row) for row in pair.rows],
    }


def _coverage(coverage: JoinCoverage) -> Document:
    return {
        "total_ns": list(coverage.total_ns),
        "joined_ns": list(coverage.joined_ns),
        "joined_share": list(coverage.shares),
        "rows": coverage.rows,
        "joined_rows": coverage.joined_rows,
        "exact_rows": coverage.exact_rows,
        "largest_share": coverage.largest_share,
        "operators": [asdict(one) for one in coverage.operators],
    }


def _row(row: LayerRow) -> Document:
    return {
        "name": row.name,
        "operator": row.operator,
        "category": row.category.value,
        "exact": row.exact,
        "first": _document_side(row.first),
        "second": _document_side(row.second),
        "contribution_ns": row.contribution_ns,
        "difference_ns": row.difference_ns,
        "ratio": finite(row.ratio),
        "ratio_low": finite(row.ratio_low),
        "ratio_high": finite(row.ratio_high),
        "p_value": finite(row.p_value),
        "verdict": row.verdict.value if row.verdict else None,
        "outcome": row.outcome,
        "differences": [asdict(one) for one in row.differences],
    }


def _document_side(side: RowSide) -> Document:
    return {
        "state": side.state.value,
        "layers": list(side.layers),
        "types": list(side.types),
        "kernels": list(side.kernels),
        "precision": side.precision or None,
        "nodes": list(side.nodes),
        "time_ns": side.time_ns,
        "timed_layers": side.timed_layers,
        "half_width_ns": finite(side.half_width_ns),
        "share": side.share,
        "peak_share": side.peak_share,
    }


def benchmarks_document(
    benchmarks: Sequence[Benchmark], found: BenchmarkComparison, checks: Sequence[Check] | None = None
) -> Document:
    """Describe the pairs and what came of them; `benchmarks` is empty where single measurements were compared.

    `checks` are those of `--fail-if`.
    """
    return {
        **head("comparison"),
        "answers": answers_document(found.answers),
        "benchmarks": [{"id": benchmark.id, "name": benchmark.name} for benchmark in benchmarks],
        "comparisons": [_comparison(one) for one in found.compared],
        "unmatched": [
            {"measurement_id": one.measurement.id, "benchmark_id": one.benchmark_id} for one in found.unmatched
        ],
        "checks": None if checks is None else checks_document(checks),
        "outcome": found.soundness.document,
    }


def _comparison(compared: Compared) -> Document:
    found = compared.comparison
    return {
        "first": _side(compared.first),
        "second": _side(compared.second),
        "ratio": finite(found.ratio),
        "ratio_low": finite(found.low),
        "ratio_high": finite(found.high),
        "p_value": finite(found.p_value),
        "verdict": found.verdict.value,
        "method": found.method.value if found.method else None,
        "paired": compared.is_paired,
        "note": found.note,
        "remarks": list(compared.remarks),
    }


def _side(measurement: Measurement) -> Document:
    return {
        "id": measurement.id,
        "benchmark_id": measurement.benchmark_id,
        "target": measurement.target,
        "engine": engine_document(measurement.engine),
        "model": {"name": measurement.model_name, "digest": measurement.model_digest},
        "configuration": CONFIGURATION.to_data(measurement.configuration),
        "effective": EFFECTIVE.to_data(measurement.effective),
        "median_ns": measurement.latency.median_ns if measurement.latency else None,
        "energy_j_per_inference": measurement.energy_j_per_inference,
        "energy_source": measurement.energy_source,
    }


class CheckForm(Form):
    """What came of a condition of `--fail-if`, for one pair, or one row of it."""

    pair: str
    subject: str
    condition: str
    outcome: ConditionOutcome
    sentence: str


class SideForm(Form):
    """One of two measurements that were compared."""

    id: str
    benchmark_id: str
    target: str
    engine: EngineForm
    model: ModelForm
    configuration: Configuration
    effective: Effective
    median_ns: float | None
    energy_j_per_inference: float | None
    energy_source: str | None


class ComparedForm(Form):
    """The second measurement compared with the first: 1.1 takes 10 % longer."""

    first: SideForm
    second: SideForm
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    p_value: float | None
    verdict: Verdict
    method: ComparisonMethod | None
    paired: bool
    note: str
    remarks: tuple[str, ...]


class UnmatchedForm(Form):
    """A measurement of the first benchmark, and another benchmark, in which nothing could be compared with it."""

    measurement_id: str
    benchmark_id: str


class ComparisonDocument(DocumentForm):
    """Pairs of measurements, and what came of them; `benchmarks` is empty where single measurements were compared."""

    document = "comparison"

    answers: tuple[AnswerForm, ...]
    benchmarks: tuple[NamedForm, ...]
    comparisons: tuple[ComparedForm, ...]
    unmatched: tuple[UnmatchedForm, ...]
    checks: tuple[CheckForm, ...] | None
    outcome: OutcomeForm


class ProfileSideForm(SubjectForm):
    """One of the profiles that were compared: how long it took, and what it asked for."""

    name: str
    created_at_unix_ns: int
    cpu: str | None
    iterations: int | None
    unprofiled_latency_ns: int | None
    profiled_latency_ns: int | None
    profiled_to_unprofiled: float | None
    layers_ns: float | None
    layers_to_latency: float | None
    matched_share: float | None
    largest_group_share: float | None
    flops: int | None
    flops_coverage: float | None
    parameters: int | None
    nonzero_parameters: int | None
    model_size_bytes: int | None
    peak_rss_bytes: int | None
    energy_uj: None
    imposed_sparsity: float | None
    optimization_level: int | None


@with_fields_of(RowSide)
class RowSideForm(Form):
    """One profile's part of a row, in the engine's own words; `precision` is made comparable."""

    precision: str | None


@with_fields_of(LayerRow, without=("order",))
class RowForm(Form):
    """Layers of two profiles that run the same source nodes; `outcome` is the verdict, or why there is none."""

    first: RowSideForm
    second: RowSideForm
    outcome: str


@with_fields_of(JoinCoverage)
class JoinCoverageForm(Form):
    """How much of each side's time stands in rows that both executed; `joined_share` as a share."""

    joined_share: tuple[float | None, float | None]


class PairForm(Form):
    """A profile compared with the first, layer by layer; both by id."""

    first: str
    second: str
    unprofiled_ratio: float | None
    layers_sum: MeanRatio | None
    remarks: tuple[str, ...]
    coverage: JoinCoverageForm
    verdicts: dict[LayerVerdict, int]
    types: tuple[TypeRow, ...]
    engine_types: tuple[TypeRow, ...]
    transitions: tuple[Transition, ...]
    layers: tuple[RowForm, ...]


class ProfileComparisonDocument(DocumentForm):
    """Profiles, each compared with the first one."""

    document = "profile_comparison"

    kind: str
    sides: tuple[ProfileSideForm, ...]
    practical: float
    remarks: tuple[str, ...]
    settings: tuple[SettingDifference, ...]
    comparisons: tuple[PairForm, ...]
    advice: tuple[Advice, ...]
    checks: tuple[CheckForm, ...] | None
    outcome: OutcomeForm
