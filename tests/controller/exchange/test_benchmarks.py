"""Exports travel between stores without loss; what is no export changes nothing."""

import json
from dataclasses import replace

import pytest

import invented
from controller.plain import fields, series
from enginebench_controller.errors import InputError
from enginebench_controller.exchange.benchmarks import export_benchmarks, import_benchmarks
from enginebench_controller.store.store import Store


@pytest.fixture
def exporting(tmp_path):
    store = Store(tmp_path / "exporting" / "results.duckdb")
    store.add_benchmark(invented.benchmark(rerun_of="b0000000"), [invented.snapshot()])
    configured = invented.measured("m1", configuration=invented.CONFIGURATION, noisy=True, interleaving_group="g1")
    store.add_measurement(configured, invented.samples("m1"))
    store.add_measurement(invented.failed("m2"))
    open_loop = invented.measured("m3", configuration=invented.OPEN_LOOP)
    store.add_measurement(open_loop, invented.samples("m3", open_loop=True))
    return store


@pytest.fixture
def importing(tmp_path):
    return Store(tmp_path / "importing" / "results.duckdb")


@pytest.fixture
def exported(exporting, tmp_path):
    file = tmp_path / "export.json"
    file.write_text(export_benchmarks(exporting, ["b0000001"]), encoding="utf-8")
    return file


def test_everything_arrives_and_is_marked_as_imported(exporting, importing, exported):
    assert import_benchmarks(importing, exported) == ("b0000001",)

    sent, arrived = exporting.bundle("b0000001"), importing.bundle("b0000001")
    assert arrived.benchmark == replace(sent.benchmark, imported=True)
    assert arrived.snapshots == sent.snapshots
    for before, after in zip(sent.measurements, arrived.measurements, strict=True):
        assert fields(after) == fields(before)
        assert series(arrived.samples[after.id]) == series(sent.samples[before.id])
    assert arrived.samples["m3"][0].scheduled_ns is not None


def test_importing_again_changes_nothing(importing, exported):
    import_benchmarks(importing, exported)
    before = importing.bundle("b0000001")

    assert import_benchmarks(importing, exported) == ()
    after = importing.bundle("b0000001")
    assert [fields(one) for one in after.measurements] == [fields(one) for one in before.measurements]
    assert {one: series(after.samples[one]) for one in after.samples} == {
        one: series(before.samples[one]) for one in before.samples
    }
    assert len(importing.benchmarks()) == 1


def test_the_own_benchmark_stays_ones_own_when_its_export_comes_back(exporting, exported):
    assert import_benchmarks(exporting, exported) == ()
    assert exporting.benchmark("b0000001").imported is False


def test_several_benchmarks_travel_in_one_file_each_once(exporting, importing, tmp_path):
    exporting.add_benchmark(invented.benchmark("b0000002", "other"))
    file = tmp_path / "both.json"
    file.write_text(export_benchmarks(exporting, ["b0000001", "b0000002", "b0000001"]))

    assert import_benchmarks(importing, file) == ("b0000001", "b0000002")


def test_an_export_holds_the_public_document_with_raw_samples(exporting):
    document = json.loads(export_benchmarks(exporting, ["b0000001"]))

    measurement = document["benchmarks"][0]["measurements"][0]
    assert sum(len(block["latency_ns"]) for block in measurement["samples"]) == measurement["latency"]["samples"] == 200
    assert [block["index"] for block in measurement["blocks"]] == [0, 1, 2, 3] * 3


def test_an_unknown_benchmark_cannot_be_exported(exporting):
    with pytest.raises(InputError, match="no benchmark 'nope'"):
        export_benchmarks(exporting, ["nope"])


def first_block(document):
    return document["benchmarks"][0]["measurements"][0]["samples"][0]


def output(document):
    return document["benchmarks"][0]["measurements"][0]["captured_outputs"][0]


def edited(file, change):
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(kind="other"), "is not an export"),
        (lambda d: d.update(schema_version=99), "newer enginebench"),
        (lambda d: d.update(schema_version="1"), "no usable schema_version"),
        (lambda d: d["benchmarks"][0].pop("measurements"), r"benchmarks\.0\.measurements: Field required"),
        (lambda d: first_block(d).update(latency_ns=[1, -2]), r"samples\.0\.latency_ns\.1"),
        (lambda d: first_block(d).update(latency_ns=[2**63]), r"samples\.0\.latency_ns\.0"),
        (lambda d: first_block(d).update(sent_ns=[1]), "differ in length"),
        (lambda d: output(d).update(values="AAA="), "values end"),
        (lambda d: output(d).update(stride=0), r"captured_outputs\.0\.stride"),
        (lambda d: output(d).update(stride=2), "of the shape"),
        (lambda d: output(d).update(shape=[2**62, 2**62]), "of the shape"),
        (lambda d: d["benchmarks"][0]["measurements"][1].update(status="splendid"), "status"),
        (lambda d: d["benchmarks"][0]["measurements"][1]["configuration"].update(batch="one"), "batch"),
        (lambda d: d["benchmarks"][0]["benchmark"].update(name="lone \ud800 surrogate"), "damaged"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_nothing_is_stored(importing, exported, change, says):
    with pytest.raises(InputError, match=says) as refusal:
        import_benchmarks(importing, edited(exported, change))

    assert str(exported) in str(refusal.value)
    assert not importing.path.exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x93NUMPY\xff", "not text"),
        (b'{"kind": "enginebench-export", "schema_version": 1', "not valid JSON"),
        (b'{"kind": "enginebench-export", "schema_version": NaN}', "NaN is not a JSON number"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "is not an export"),
    ],
)
def test_what_is_no_json_document_is_refused(importing, tmp_path, content, says):
    file = tmp_path / "broken.json"
    file.write_bytes(content)

    with pytest.raises(InputError, match=says):
        import_benchmarks(importing, file)


def test_a_missing_file_and_a_folder_are_refused(importing, tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        import_benchmarks(importing, tmp_path / "missing.json")
    with pytest.raises(InputError, match="could not be read"):
        import_benchmarks(importing, tmp_path)


def exported_by_version_1(change=lambda measurement: None):
    """The text of an export of schema version 1, with what is needed of it."""
    measurement = {
        "id": "m1",
        "target": "local",
        "engine": {"name": "fake", "version": "1.0", "environment": "default"},
        "model": {"name": "invented", "digest": "ab" * 32},
        "configuration": CONFIGURATION_1,
        "effective": {},
        "status": "ok",
        "failure": None,
        "started_at_unix_ns": 5,
        "phases": [],
        "iterations": 3,
        "steady_state_ns": 30,
        "cpu_time_ns": None,
        "input_set_sha256": None,
        "latency": {"samples": 3, "median_ns": 9.0},
        "throughput_items_per_s": 1e8,
        "samples_ns": [8, 9, 10],
    }
    change(measurement)
    heading = {"id": "b1", "name": "old", "created_at_unix_ns": 1, "rerun_of": None, "plan": {}}
    benchmark = {"schema_version": 1, "benchmark": heading, "targets": [], "measurements": [measurement]}
    return json.dumps({"schema_version": 1, "kind": "enginebench-export", "benchmarks": [benchmark]})


CONFIGURATION_1 = {
    "device": "CPU",
    "batch": 1,
    "cores": 2,
    "input_seed": 7,
    "input_count": 4,
    "stop": {"min_duration_ns": 5, "min_iterations": 11, "max_duration_ns": 0, "warmup_ns": 1},
}


def test_an_export_of_version_1_arrives_as_a_measurement_of_a_single_process(importing, tmp_path):
    file = tmp_path / "old.json"
    file.write_text(exported_by_version_1())

    assert import_benchmarks(importing, file) == ("b1",)
    (measurement,) = importing.measurements("b1")
    assert (measurement.latency.median_ns, measurement.latency.mad_ns) == (9.0, 1.0)
    assert (measurement.configuration.input_set.seed, measurement.configuration.stop.processes) == (7, 1)
    assert [(one.index, one.median_ns) for one in measurement.processes] == [(0, 9.0)]
    assert [(one.duration_ns, one.iterations) for one in measurement.blocks] == [(30, 3)]
    assert importing.samples("m1").tolist() == [8, 9, 10]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: m.update(samples_ns=[1, -2]), "samples_ns.1"),
        (lambda m: m.update(configuration=CONFIGURATION_1 | {"batch": "one"}), "batch"),
        (lambda m: m.update(configuration=CONFIGURATION_1 | {"stop": None}), "stop"),
        (lambda m: m.update(configuration={"input_seed": 7}), "configuration"),
    ],
)
def test_a_damaged_export_of_version_1_is_refused(importing, tmp_path, change, says):
    file = tmp_path / "old.json"
    file.write_text(exported_by_version_1(change))

    with pytest.raises(InputError, match=says):
        import_benchmarks(importing, file)
    assert not importing.path.exists()
