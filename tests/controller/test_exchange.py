"""Exports travel between stores without loss; what is no export changes nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest

import invented
from enginebench_controller.errors import InputError
from enginebench_controller.exchange import export_benchmarks, import_benchmarks
from enginebench_controller.store.store import Store


@pytest.fixture
def exporting(tmp_path):
    store = Store(tmp_path / "exporting" / "results.duckdb")
    store.add_benchmark(invented.benchmark(rerun_of="b0000000"), [invented.snapshot()])
    store.add_measurement(invented.measured("m1", configuration=invented.CONFIGURATION))
    store.add_measurement(invented.failed("m2"))
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
        assert replace(after, samples_ns=None).__dict__ == replace(before, samples_ns=None).__dict__
        assert np.array_equal(after.samples_ns, before.samples_ns)


def test_importing_again_changes_nothing(importing, exported):
    import_benchmarks(importing, exported)
    generation = importing.generation()
    before = importing.bundle("b0000001")

    assert import_benchmarks(importing, exported) == ()
    assert [one.id for one in importing.bundle("b0000001").measurements] == [one.id for one in before.measurements]
    assert len(importing.benchmarks()) == 1
    assert generation


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
    assert measurement["latency"]["samples"] == len(measurement["samples_ns"]) == 200


def test_an_unknown_benchmark_cannot_be_exported(exporting):
    with pytest.raises(InputError, match="no benchmark 'nope'"):
        export_benchmarks(exporting, ["nope"])


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
        (lambda d: d["benchmarks"][0]["measurements"][0].update(samples_ns=[1, -2]), "samples_ns.1"),
        (lambda d: d["benchmarks"][0]["measurements"][0].update(samples_ns=[2**63]), "samples_ns.0"),
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
