"""The public documents: complete, valid JSON, with unknown as null."""

import json
from dataclasses import replace

import pytest

import invented
from enginebench_controller.files.benchmarks import (
    benchmark_document,
    benchmark_list_document,
    measurement_document,
    model_document,
    target_document,
)
from enginebench_controller.records import Effective, HostFacts, Readback, ReadbackSource, Status
from enginebench_controller.store.benchmarks import BenchmarkEntry


def strict(document):
    """Through text and back, refusing what RFC 8259 does not know."""
    return json.loads(json.dumps(document, allow_nan=False))


def test_a_benchmark_document_has_what_the_readme_promises():
    document = strict(benchmark_document(invented.benchmark(), [invented.measured("m1")], [invented.snapshot()]))

    assert document["schema_version"] == 2
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
    assert set(measurement["latency"]) == {
        "samples",
        "mean_ns",
        "sd_ns",
        "cv",
        "min_ns",
        "max_ns",
        "median_ns",
        "median_interval",
        "median_relative_half_width",
        "mad_ns",
        "percentiles",
        "outliers",
        "excluded",
    }
    assert measurement["throughput_items_per_s"] > 0
    assert "blocks" not in measurement
    assert [phase["name"] for phase in measurement["phases"]] == ["compile", "steady_state"]


def test_a_percentile_has_an_interval_or_the_number_of_samples_it_lacks():
    latency = strict(measurement_document(invented.measured("m1")))["latency"]

    _, p90, _, p99, _ = latency["percentiles"]
    assert p90["interval"]["low"] < p90["value_ns"] < p90["interval"]["high"]
    assert p99 == {"percent": 99.0, "value_ns": None, "samples_needed": 662, "interval": None}
    interval = latency["median_interval"]
    assert (interval["level"], interval["method"]) == (0.95, "t_over_processes")
    half_width_ns = (interval["high"] - interval["low"]) / 2
    assert latency["median_relative_half_width"] == pytest.approx(half_width_ns / latency["median_ns"])


def test_every_process_says_how_it_warmed_up_and_what_measuring_cost():
    document = strict(measurement_document(invented.measured("m1", noisy=True)))

    assert [one["index"] for one in document["processes"]] == [0, 1, 2]
    assert document["processes"][1]["warm_up"] == {"steady": False, "iterations": 900, "reason": invented.UNSTEADY}
    assert document["processes"][0]["calibration"]["timer_ns"] == 38.5
    assert document["processes"][0]["stop_reason"] == "target_met"
    medians = [one["median_ns"] for one in document["processes"]]
    assert document["process_spread"] == pytest.approx(max(medians) / min(medians) - 1)
    assert any("never became steady" in flag for flag in document["flags"])


def test_evidence_says_how_much_was_disturbed_by_what_and_what_is_missing():
    evidence = strict(measurement_document(invented.measured("m1", noisy=True)))["evidence"]

    assert (evidence["blocks"], evidence["disturbed_blocks"]) == (12, 1)
    assert evidence["disturbed_share"] == pytest.approx(1 / 12, rel=0.1)
    assert evidence["disturbances"] == {"other processes": 1}
    assert list(evidence["missing"]) == ["energy_uj"]
    assert strict(measurement_document(invented.failed("m2")))["evidence"] is None


def test_a_pause_is_told_and_is_no_time_in_which_others_disturbed():
    noisy = invented.measured("m1", noisy=True)
    pause = {"duration_ns": 26_000_000_000, "paused_ns": 20_000_000_000, "disturbances": (invented.PAUSED,)}
    blocks = (replace(noisy.blocks[0], **pause), *noisy.blocks[1:])

    evidence = strict(measurement_document(replace(noisy, blocks=blocks)))["evidence"]
    assert evidence["disturbed_share"] == pytest.approx(1 / 11, rel=0.1)
    assert (evidence["disturbed_blocks"], evidence["disturbances"]["paused"]) == (2, 1)
    alone = strict(measurement_document(replace(noisy, blocks=blocks[:1])))["evidence"]
    assert alone["disturbed_share"] is None


def test_where_nobody_tells_of_others_the_disturbed_share_is_unknown_unless_a_block_was():
    told = invented.measured("m1")
    blind = tuple(
        replace(block, evidence=replace(block.evidence, other_cpu_time_ns=None, steal_ns=None)) for block in told.blocks
    )
    disturbed = (replace(blind[0], disturbances=(invented.STEAL,)), *blind[1:])

    def share(blocks):
        return strict(measurement_document(replace(told, blocks=blocks)))["evidence"]["disturbed_share"]

    assert (share(told.blocks), share(blind)) == (0, None)
    assert share(disturbed) == pytest.approx(1 / 12, rel=0.1)


def test_blocks_are_listed_only_where_they_are_wanted():
    measurement = invented.measured("m1", noisy=True)
    document = strict(benchmark_document(invented.benchmark(), [measurement], [], with_blocks=True))

    blocks = document["measurements"][0]["blocks"]
    assert len(blocks) == len(measurement.blocks)
    assert blocks[1]["disturbances"] == ["other processes 12 %"]
    assert (blocks[1]["evidence"]["other_cpu_time_ns"], blocks[1]["evidence"]["temperature_millicelsius"]) == (
        4_000_000,
        None,
    )


def test_used_cores_are_processor_time_by_wall_clock():
    measurement = invented.measured("m1")
    busy = replace(measurement, cpu_time_ns=2 * measurement.steady_state_ns)

    assert strict(measurement_document(busy))["cpu_cores_used"] == 2.0
    assert strict(measurement_document(measurement))["cpu_cores_used"] is None


def test_an_engine_that_computes_something_else_is_caught():
    wrong = invented.measured("m2", engine="fake-fast", captured_outputs=(invented.outputs(shift=0.5),))
    measurements = [invented.measured("m0"), invented.measured("m1", engine="fake-other"), wrong]

    document = strict(benchmark_document(invented.benchmark(), measurements, []))

    checks = [one["output_check"] for one in document["measurements"]]
    assert [bool(check["problem"]) for check in checks] == [False, False, True]
    assert checks[2]["max_absolute_error"] == pytest.approx(0.5)


def test_a_failure_has_its_words_and_no_numbers():
    document = strict(measurement_document(invented.failed("m1")))

    assert document["status"] == "failed"
    assert document["failure"]["kind"] == "crashed"
    assert document["failure"]["signal"] == "SIGSEGV"
    assert document["latency"] is None
    assert document["throughput_items_per_s"] is None
    assert document["effective"]["precision"] is None


def test_flags_and_remarks_label_unequal_settings():
    bf16 = Effective(
        precision=Readback("bf16", ReadbackSource.ENGINE_API), threads=Readback(2, ReadbackSource.OBSERVED)
    )
    fast = invented.measured("m2", engine="fake-fast", effective=bf16)

    document = strict(benchmark_document(invented.benchmark(), [invented.measured("m1"), fast], []))

    assert document["measurements"][0]["flags"] == []
    assert document["measurements"][1]["flags"] == ["precision: f32 requested, bf16 effective (as the engine reports)"]
    assert len(document["remarks"]) == 1


def test_numbers_that_json_lacks_become_null():
    measurement = replace(invented.measured("m1"), throughput_items_per_s=float("nan"))
    snapshot = replace(invented.snapshot(), host=HostFacts(cpu_quota_cores=float("inf")))

    assert strict(measurement_document(measurement))["throughput_items_per_s"] is None
    assert strict(target_document(snapshot))["host"]["cpu_quota_cores"] is None


def test_lists_models_and_profiles_are_documents_too():
    entry = BenchmarkEntry(invented.benchmark(), {Status.OK: 3, Status.FAILED: 1}, ("m",), ("e",), ("local",))

    (listed,) = strict(benchmark_list_document([entry]))["benchmarks"]
    assert (listed["measurements"], listed["statuses"]) == (4, {"ok": 3, "failed": 1})
    assert strict(model_document(invented.model()))["size_bytes"] == 2**33 + 10
