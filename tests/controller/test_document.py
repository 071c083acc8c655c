"""The public documents: complete, valid JSON, with unknown as null."""

import json
from dataclasses import replace

import invented
from enginebench_controller.document import (
    benchmark_document,
    benchmark_list_document,
    measurement_document,
    model_document,
    profile_document,
    target_document,
)
from enginebench_controller.records import Effective, Readback, Source, Status
from enginebench_controller.store.queries import BenchmarkEntry


def strict(document):
    """Through text and back, refusing what RFC 8259 does not know."""
    return json.loads(json.dumps(document, allow_nan=False))


def test_a_benchmark_document_has_what_the_readme_promises():
    document = strict(benchmark_document(invented.benchmark(), [invented.measured("m1")], [invented.snapshot()]))

    assert document["schema_version"] == 1
    assert document["benchmark"]["id"] == "b0000001"
    assert document["benchmark"]["created_at"] == "2023-11-14T22:13:20.123+00:00"
    assert document["benchmark"]["created_at_unix_ns"] == invented.CREATED_NS
    assert document["benchmark"]["plan"]["models"] == ["zoo:invented"]
    assert [target["name"] for target in document["targets"]] == ["local"]
    (measurement,) = document["measurements"]
    assert measurement["target"] == "local"
    assert measurement["engine"] == {"name": "fake", "version": "1.0", "environment": "default"}
    assert measurement["device"] == "CPU"
    assert measurement["configuration"]["cores"] == 2
    assert measurement["effective"]["threads"] == {"value": 2, "source": "observed"}
    assert measurement["status"] == "ok"
    assert measurement["latency"]["samples"] == 200
    assert set(measurement["latency"]) == {"samples", "mean_ns", "sd_ns", "min_ns", "max_ns", "median_ns"} | {
        "p90_ns",
        "p95_ns",
        "p99_ns",
    }
    assert measurement["throughput_items_per_s"] > 0
    assert [phase["name"] for phase in measurement["phases"]] == ["compile", "steady_state"]


def test_a_failure_has_its_words_and_no_numbers():
    document = strict(measurement_document(invented.failed("m1")))

    assert document["status"] == "failed"
    assert document["failure"]["kind"] == "crashed"
    assert document["failure"]["signal"] == "SIGSEGV"
    assert document["latency"] is None
    assert document["throughput_items_per_s"] is None
    assert document["effective"]["precision"] is None


def test_flags_and_remarks_label_unequal_settings():
    bf16 = Effective(precision=Readback("bf16", Source.ENGINE_API), threads=Readback(2, Source.OBSERVED))
    fast = invented.measured("m2", engine="fake-fast", effective=bf16)

    document = strict(benchmark_document(invented.benchmark(), [invented.measured("m1"), fast], []))

    assert document["measurements"][0]["flags"] == []
    assert document["measurements"][1]["flags"] == ["precision: f32 requested, bf16 effective (as the engine reports)"]
    assert len(document["remarks"]) == 1


def test_numbers_that_json_lacks_become_null():
    measurement = replace(invented.measured("m1"), throughput_items_per_s=float("nan"))
    snapshot = replace(invented.snapshot(), host={"cpu_quota_cores": float("inf")})

    assert strict(measurement_document(measurement))["throughput_items_per_s"] is None
    assert strict(target_document(snapshot))["host"] == {"cpu_quota_cores": None}


def test_lists_models_and_profiles_are_documents_too():
    entry = BenchmarkEntry(invented.benchmark(), {Status.OK: 3, Status.FAILED: 1}, ("m",), ("e",), ("local",))

    (listed,) = strict(benchmark_list_document([entry]))["benchmarks"]
    assert (listed["measurements"], listed["statuses"]) == (4, {"ok": 3, "failed": 1})
    assert strict(model_document(invented.model()))["size_bytes"] == 2**33 + 10
    profile = strict(profile_document(invented.profile()))
    assert [layer["state"] for layer in profile["layers"]] == ["executed", "optimized_away"]
    assert profile["unprofiled_latency_ns"] is None
