"""Compared benchmarks and measurements as a public JSON document, described in docs/cli.md."""

from collections.abc import Sequence
from typing import Any

from enginebench_controller.comparing.answers import Answer, answers_document
from enginebench_controller.comparing.document import checks_document
from enginebench_controller.comparing.gate import Check
from enginebench_controller.comparing.pairing import Compared
from enginebench_controller.documents.benchmarks import SCHEMA_VERSION, engine_document
from enginebench_controller.records import Benchmark, Measurement
from enginebench_controller.records.json_form import CONFIGURATION, EFFECTIVE, finite
from enginebench_controller.trust.soundness import Soundness


def benchmarks_document(
    benchmarks: Sequence[Benchmark],
    compared: Sequence[Compared],
    checks: Sequence[Check] | None = None,
    outcome: Soundness | None = None,
    answers: Sequence[Answer] = (),
) -> dict[str, Any]:
    """Describe the pairs and what came of them; `benchmarks` is empty where single measurements were compared.

    `outcome` says of all that was given what could not be compared, or not be used.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "answers": answers_document(answers),
        "benchmarks": [{"id": benchmark.id, "name": benchmark.name} for benchmark in benchmarks],
        "comparisons": [_comparison(one) for one in compared],
        "checks": None if checks is None else checks_document(checks),
        "outcome": outcome.document if outcome else None,
    }


def _comparison(compared: Compared) -> dict[str, Any]:
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


def _side(measurement: Measurement) -> dict[str, Any]:
    return {
        "id": measurement.id,
        "benchmark_id": measurement.benchmark_id,
        "target": measurement.target,
        "engine": engine_document(measurement.engine),
        "model": {"name": measurement.model_name, "digest": measurement.model_digest},
        "configuration": CONFIGURATION.to_data(measurement.configuration),
        "effective": EFFECTIVE.to_data(measurement.effective),
        "median_ns": measurement.latency.median_ns if measurement.latency else None,
    }
