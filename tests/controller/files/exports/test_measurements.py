"""Numbers for programs that watch them: named alike from run to run, with their evidence, and never an unknown one."""

import csv
import io
import json
import math
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import invented
from enginebench_controller.errors import InputError
from enginebench_controller.files.exports.formats import ExportFormat
from enginebench_controller.files.exports.measurements import export_measurements
from enginebench_controller.records import EngineRef, Interval, IntervalMethod, Readback, ReadbackSource, Status
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.soundness import soundness
from histories import Change, keep_history

NAME = "invented on fake (target=local, device=CPU, batch=1, cores=2, precision=f32, load=sync)"
HOSTILE = 'a "b",\n\\c\r\x1b[2J {d="e"} ünï\u2028=1'
NUMBERS = [ExportFormat.GAB, ExportFormat.GAB_BIGGER, ExportFormat.BMF, ExportFormat.OPENMETRICS]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results.duckdb")


def exported(form, *measurements):
    return export_measurements(None, measurements, soundness(measurements), form, None)


def as_json(form, *measurements):
    return json.loads(exported(form, *measurements), parse_constant=pytest.fail)


def gauges(*measurements):
    """By name, the values of each family with their labels, as the client of Prometheus reads them."""
    families = text_string_to_metric_families(exported(ExportFormat.OPENMETRICS, *measurements))
    return {family.name: [(one.labels, one.value) for one in family.samples] for family in families}


def with_latency(measurement, **fields):
    return replace(measurement, latency=replace(measurement.latency, **fields))


def interval(low, high):
    return Interval(low, high, 0.95, IntervalMethod.PROCESSES_T)


def test_gab_has_one_direction_a_file_with_range_and_evidence():
    measurement = invented.measured("m1", iterations=700, noisy=True)
    entries = {one["name"]: one for one in as_json(ExportFormat.GAB, measurement)}

    median = entries[f"{NAME} latency"]
    assert (median["value"], median["unit"]) == (measurement.latency.median_ns, "ns")
    found = measurement.latency.median_interval
    reach = max(found.high - measurement.latency.median_ns, measurement.latency.median_ns - found.low)
    assert float(median["range"].removeprefix("± ")) == pytest.approx(reach)
    lines = median["extra"].split("\n")
    assert lines[0].startswith("95 % interval: ") and lines[0].endswith("ns (t_over_processes)")
    assert {"engine_version: 1.0", "statistics: 700 samples of 3 processes", "status: ok", "measurement_id: m1"} <= set(
        lines
    )
    assert any(line.startswith("disturbed: 8.") for line in lines)
    assert entries[f"{NAME} peak-memory"]["unit"] == "bytes"
    assert not any("throughput" in name for name in entries)

    (rate,) = as_json(ExportFormat.GAB_BIGGER, measurement)
    assert (rate["name"], rate["unit"]) == (f"{NAME} throughput", "items/s")


def test_bmf_has_the_measures_that_bencher_knows_and_the_ends_of_intervals():
    measurement = invented.measured("m1", iterations=700)
    measures = as_json(ExportFormat.BMF, measurement)[NAME]

    median, found = measures["latency"], measurement.latency.median_interval
    assert median == {"value": measurement.latency.median_ns, "lower_value": found.low, "upper_value": found.high}
    assert measures["throughput"]["value"] == measurement.throughput_items_per_s
    assert measures["latency-p99"] == {"value": measurement.latency.percentile_ns(99)}, "it has no interval"
    assert measures["peak-memory"]["value"] == measurement.peak_rss_bytes
    assert "latency-p99.9" not in measures and "energy" not in measures


def test_bmf_has_no_interval_beside_its_number():
    beside = with_latency(invented.measured("m1"), median_ns=5.0, median_interval=interval(1.0, 4.0))
    assert as_json(ExportFormat.BMF, beside)[NAME]["latency"] == {"value": 5.0}
    (entry,) = [one for one in as_json(ExportFormat.GAB, beside) if one["name"].endswith(" latency")]
    assert entry["range"] == "± 4", "it reaches the farther end"


def test_openmetrics_has_base_units_and_evidence_as_an_info():
    measurement = invented.measured("m1", iterations=700, noisy=True)
    found = gauges(measurement)

    ((labels, value),) = found["enginebench_latency_seconds"]
    assert value == pytest.approx(measurement.latency.median_ns / 1e9)
    assert labels == {
        "model": "invented",
        "engine": "fake",
        "target": "local",
        "device": "CPU",
        "batch": "1",
        "cores": "2",
        "precision": "f32",
        "load": "sync",
    }
    low, high = (found[f"enginebench_latency_{end}_seconds"][0][1] for end in ("low", "high"))
    assert low < value < high
    assert found["enginebench_samples"][0][1] == 700
    assert found["enginebench_disturbed_ratio"][0][1] == pytest.approx(1 / 12, rel=0.1)
    assert found["enginebench_started_timestamp_seconds"][0][1] == pytest.approx(invented.CREATED_NS / 1e9)
    ((told, one),) = found["enginebench_measurement"]
    assert one == 1 and told == {**told, **labels, "engine_version": "1.0", "status": "ok", "measurement_id": "m1"}


@pytest.mark.parametrize("form", NUMBERS)
def test_what_failed_has_no_number_and_is_told_where_there_is_a_place(form):
    cancelled = invented.failed("m3", engine="other", status=Status.CANCELLED, failure=None)
    text = exported(form, invented.measured("m1"), invented.failed("m2"), cancelled)

    assert ("fake-broken" in text) is ("other" in text) is (form is ExportFormat.OPENMETRICS)
    if form is ExportFormat.OPENMETRICS:
        info = {
            labels["engine"]: labels
            for labels, _ in gauges(invented.failed("m2"), cancelled)["enginebench_measurement"]
        }
        assert (info["fake-broken"]["status"], info["fake-broken"]["failure"]) == ("failed", "crashed")
        assert info["other"]["status"] == "cancelled"


@pytest.mark.parametrize("form", [ExportFormat.GAB, ExportFormat.GAB_BIGGER, ExportFormat.BMF])
def test_nothing_with_numbers_is_a_sentence_and_no_file(form, tmp_path):
    for measurements in ([], [invented.failed("m1")]):
        why = f"nothing to export: of {len(measurements)} measurements none has numbers"
        with pytest.raises(InputError, match=why):
            export_measurements(None, measurements, soundness(measurements), form, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_without_a_measurement_openmetrics_is_only_its_end():
    assert exported(ExportFormat.OPENMETRICS).endswith("# EOF\n") and gauges() == {"enginebench_measurement": []}


def test_one_process_and_too_few_blocks_have_no_interval():
    alone = invented.measured("m1", iterations=3)
    alone = replace(with_latency(alone, median_interval=None), throughput_interval=None, processes=alone.processes[:1])

    assert as_json(ExportFormat.BMF, alone)[NAME]["latency"] == {"value": alone.latency.median_ns}
    assert all("range" not in one for one in as_json(ExportFormat.GAB, alone))
    assert not any(name.endswith(("_low_seconds", "_high_seconds")) for name in gauges(alone))


@pytest.mark.parametrize("form", NUMBERS)
def test_what_is_no_finite_number_is_left_out(form):
    odd = with_latency(invented.measured("m1"), median_ns=math.nan, median_interval=interval(math.nan, math.inf))
    odd = replace(odd, throughput_interval=interval(-math.inf, 1.0))
    if form is ExportFormat.OPENMETRICS:
        found = gauges(odd)
        assert "enginebench_latency_seconds" not in found and "enginebench_throughput_low_items_per_second" not in found
    else:
        assert all(word not in json.dumps(as_json(form, odd)) for word in ("Infinity", "NaN", "± inf", "± nan"))


@pytest.mark.parametrize("form", NUMBERS)
def test_names_from_elsewhere_are_text_and_nothing_else(form):
    text = exported(form, invented.measured("m1", model_name=HOSTILE, target=HOSTILE, engine=HOSTILE))
    assert all(one.isprintable() or one == "\n" for one in text)
    if form is ExportFormat.OPENMETRICS:
        read = {one.labels["model"] for family in text_string_to_metric_families(text) for one in family.samples}
        assert read == {'a "b",\n\\c��[2J {d="e"} ünï�=1'}
    else:
        document = json.loads(text)
        assert HOSTILE in (next(iter(document)) if form is ExportFormat.BMF else document[0]["name"])


def test_what_was_asked_for_tells_names_apart_and_equals_are_numbered():
    chosen = invented.measured("m2", configuration=invented.CONFIGURATION)
    there = invented.measured("m3", target="nuc")
    found = list(as_json(ExportFormat.BMF, invented.measured("m1"), chosen, there, invented.measured("m4")))

    assert found[0] == NAME and found[3] == NAME.replace("load=sync", "load=sync, number=2")
    assert "load=async 3, hint=latency, options=invented=yes" in found[1]
    assert "target=nuc" in found[2]


def test_a_name_has_no_version_and_outlives_one():
    newer = replace(invented.measured("m2"), engine=EngineRef("fake", "default", "2.0"), model_digest="cd" * 32)
    assert list(as_json(ExportFormat.BMF, newer)) == list(as_json(ExportFormat.BMF, invented.measured("m1")))


def test_wrong_outputs_are_told():
    wrong = invented.measured("m3", engine="wrong", captured_outputs=(invented.outputs(shift=0.5),))
    measurements = (invented.measured("m1"), invented.measured("m2", engine="other"), wrong)
    told = {labels["engine"]: labels for labels, _ in gauges(*measurements)["enginebench_measurement"]}
    assert "wrong_outputs" not in told["fake"] and told["wrong"]["wrong_outputs"]


@pytest.mark.parametrize("source", ReadbackSource)
def test_a_precision_has_how_it_is_known(source):
    measurement = invented.measured("m1")
    known = replace(measurement.effective, precision=Readback("bf16", source))
    ((told, _),) = gauges(replace(measurement, effective=known))["enginebench_measurement"]
    assert (told["effective_precision"], told["effective_precision_source"]) == ("bf16", source.value)


def otava(store, identity):
    text = export_measurements(store, [store.measurement(identity)], soundness([]), ExportFormat.OTAVA, None)
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_otava_gets_the_whole_history_of_a_measurement_oldest_first(store):
    keep_history(store, "net", Change(factor=1.2, version="2.0"))
    keep_history(store, "other", Change(), points=3)
    rows = otava(store, "m-net-004")

    assert [row["measurement_id"] for row in rows] == [f"m-net-{place:03}" for place in range(16)]
    assert rows[0]["time"] == "2023-11-14T22:13:20+00:00" and rows[-1]["engine_version"] == "2.0"
    (stored,) = store.measurements("b-net-000")
    assert float(rows[0]["median_ns"]) == stored.latency.median_ns
    assert float(rows[0]["median_low_ns"]) == stored.latency.median_interval.low
    assert all(float(row["reference_product_ns"]) > 0 and row["disturbed_share"] == "0.0" for row in rows)


def test_otava_gets_no_column_with_a_hole(store):
    keep_history(store, "net", Change(reference=None))
    (row, *_) = otava(store, "m-net-000")
    assert "reference_product_ns" not in row and float(row["throughput_items_per_s"]) > 0


def test_otava_gets_one_history_a_file_and_one_that_there_is(store, tmp_path):
    store.add_benchmark(invented.benchmark())
    measurements = [invented.measured("m1"), invented.measured("m2", engine="other")]
    for one in measurements:
        store.add_measurement(one)
    for given, why in (
        (measurements, r"these are 2 measurements; .*: m1 \(fake"),
        (measurements[:1], "m1 has no history"),
    ):
        with pytest.raises(InputError, match=why):
            export_measurements(store, given, soundness(given), ExportFormat.OTAVA, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", [ExportFormat.PARQUET, ExportFormat.PERFETTO, ExportFormat.JSON])
def test_a_form_that_measurements_do_not_have_is_a_sentence(form):
    with pytest.raises(InputError, match=f"cannot be exported as {form}, only as gab, .*, or as json with their bench"):
        exported(form, invented.measured("m1"))


def test_who_wants_a_table_of_measurements_is_told_how_to_have_one():
    with pytest.raises(InputError, match=r"enginebench query .* --csv"):
        exported(ExportFormat.CSV, invented.measured("m1"))
