"""Exports travel between stores without loss; what is no export changes nothing."""

import json
from copy import deepcopy
from dataclasses import fields as fields_of
from dataclasses import replace

import pytest

import invented
from controller.plain import fields, series
from enginebench_controller.errors import InputError
from enginebench_controller.files.exports.benchmarks import (
    export_benchmarks,
    import_benchmarks,
    left_out_measurements,
)
from enginebench_controller.files.reading import read_file
from enginebench_controller.records import (
    Derivation,
    DerivationKind,
    Disturbance,
    DisturbanceKind,
    Measurement,
    Process,
)
from enginebench_controller.records.fields import DERIVATION
from enginebench_controller.records.figures import figures
from enginebench_controller.records.model import Calibration
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.soundness import soundness

B1, B2 = "b00000000001", "b00000000002"
M1, M2, M3 = (f"{number:032}" for number in (1, 2, 3))


@pytest.fixture
def exporting(tmp_path):
    store = Store(tmp_path / "exporting" / "results.duckdb")
    store.save_model(invented.model())
    store.add_benchmark(invented.benchmark(B1, rerun_of="b0000000"), [invented.snapshot()])
    configured = invented.measured(M1, B1, configuration=invented.CONFIGURATION, noisy=True, interleaving_group="g1")
    store.add_measurement(configured, invented.samples(M1))
    store.add_measurement(invented.failed(M2, B1))
    open_loop = invented.measured(M3, B1, configuration=invented.OPEN_LOOP)
    store.add_measurement(open_loop, invented.samples(M3, open_loop=True))
    return store


@pytest.fixture
def importing(tmp_path):
    return Store(tmp_path / "importing" / "results.duckdb")


@pytest.fixture
def exported(exporting, tmp_path):
    file = tmp_path / "export.json"
    file.write_text(export_benchmarks(exporting, [B1]), encoding="utf-8")
    return file


@pytest.mark.slow
def test_everything_arrives_and_is_marked_as_imported(exporting, importing, exported):
    assert import_benchmarks(importing, read_file(exported)) == (B1,)

    sent, arrived = exporting.bundle(B1), importing.bundle(B1)
    assert arrived.benchmark == replace(sent.benchmark, imported=True)
    assert arrived.snapshots == sent.snapshots
    assert arrived.models == sent.models == (invented.model(),)
    for before, after in zip(sent.measurements, arrived.measurements, strict=True):
        assert fields(after) == fields(before)
        assert series(arrived.samples[after.id]) == series(sent.samples[before.id])
    assert arrived.samples[M3][0].scheduled_ns is not None


def judged(store, identity):
    return soundness(store.measurements(identity), store.models())


@pytest.mark.slow
def test_outputs_are_judged_alike_where_they_arrive(importing, tmp_path):
    made, quantized = "cd" * 32, Derivation(DerivationKind.QUANTIZED, said="5 samples")
    exporting = Store(tmp_path / "exporting.duckdb")
    exporting.save_model(invented.model())
    exporting.save_model(invented.model(made, "invented-int8", parent_digest="ab" * 32, derivation=quantized))
    exporting.save_model(invented.model("ef" * 32, "another"))
    for identity, of_base, shift in ((B1, True, 9.0), (B2, False, 0.03)):
        exporting.add_benchmark(invented.benchmark(identity))
        digest = {} if of_base else {"model_digest": made}
        exporting.add_measurement(invented.measured(f"{identity}{1:020}", identity, **digest), ())
        outputs = (invented.outputs(shift),)
        wrong = invented.measured(
            f"{identity}{2:020}", identity, model_digest=made, engine="other", captured_outputs=outputs
        )
        exporting.add_measurement(wrong, ())
    file = tmp_path / "export.json"
    file.write_text(export_benchmarks(exporting, [B1, B2]))
    told = [one["outcome"]["sound"] for one in json.loads(file.read_text())["benchmarks"]]

    importing.save_model(invented.model(name="my-own-name"))
    import_benchmarks(importing, read_file(file))

    for identity, exported_as, sound in zip((B1, B2), told, (False, True), strict=True):
        assert [bool(judged(one, identity)) for one in (exporting, importing)] == [sound, sound]
        assert exported_as is sound
    assert sorted(one.name for one in importing.models()) == ["invented-int8", "my-own-name"]


@pytest.mark.slow
def test_an_export_of_before_has_no_models(importing, exported):
    def older(document):
        assert document["benchmarks"][0].pop("models")

    assert import_benchmarks(importing, read_file(edited(exported, older))) == (B1,)
    assert importing.models() == ()


@pytest.mark.slow
def test_what_an_int8_version_was_calibrated_on_travels_with_it(importing, exported):
    calibration = Calibration("photos", "ab" * 8, count=8, samples=8, images=("imagenet",), values=("mask=1",))
    told = DERIVATION.to_data(Derivation(DerivationKind.QUANTIZED, said="8 inputs of photos", calibration=calibration))

    def quantized(document):
        document["benchmarks"][0]["models"][0]["derivation"] = told

    assert import_benchmarks(importing, read_file(edited(exported, quantized))) == (B1,)
    assert [one.derivation.calibration for one in importing.models() if one.derivation] == [calibration]


@pytest.mark.slow
@pytest.mark.parametrize("sparsity", [None, 1.5, 1e999])
def test_a_model_that_was_pruned_by_no_share_is_refused(importing, exported, sparsity):
    def pruned(document):
        document["benchmarks"][0]["models"][0]["derivation"] = {"kind": "pruned", "sparsity": sparsity}

    text = json.dumps(json.loads(edited(exported, pruned).read_text())).replace("Infinity", "1e999")
    exported.write_text(text)
    with pytest.raises(InputError, match="the sparsity is"):
        import_benchmarks(importing, read_file(exported))


@pytest.mark.slow
def test_importing_again_changes_nothing(importing, exported):
    import_benchmarks(importing, read_file(exported))
    before = importing.bundle(B1)

    assert import_benchmarks(importing, read_file(exported)) == ()
    after = importing.bundle(B1)
    assert [fields(one) for one in after.measurements] == [fields(one) for one in before.measurements]
    assert {one: series(after.samples[one]) for one in after.samples} == {
        one: series(before.samples[one]) for one in before.samples
    }
    assert len(importing.benchmarks()) == 1


@pytest.mark.slow
def test_numbers_without_end_are_refused(importing, exported):
    text = exported.read_text()
    rate = json.loads(text)["benchmarks"][0]["measurements"][0]["throughput_items_per_s"]
    exported.write_text(text.replace(f'"throughput_items_per_s": {rate}', '"throughput_items_per_s": 1e999'))
    with pytest.raises(InputError, match="a throughput of inf cannot be"):
        import_benchmarks(importing, read_file(exported))


@pytest.mark.slow
def test_a_mark_in_front_that_an_editor_puts_there_is_no_damage(importing, exported):
    exported.write_text(exported.read_text(), encoding="utf-8-sig")
    assert import_benchmarks(importing, read_file(exported)) == (B1,)


@pytest.mark.slow
def test_what_is_left_out_of_a_benchmark_of_ones_own_is_told(exporting, importing, exported):
    def more(document):
        one = deepcopy(measured(document))
        document["benchmarks"][0]["measurements"].append(one | {"id": "c0ffee000000"})

    read = read_file(edited(exported, more))
    assert import_benchmarks(exporting, read) == ()
    assert left_out_measurements(exporting, read) == {B1: 1}
    assert import_benchmarks(importing, read) == (B1,)
    assert left_out_measurements(importing, read) == {}


@pytest.mark.slow
def test_the_own_benchmark_stays_ones_own_when_its_export_comes_back(exporting, exported):
    assert import_benchmarks(exporting, read_file(exported)) == ()
    assert exporting.benchmark(B1).imported is False


@pytest.mark.slow
def test_several_benchmarks_travel_in_one_file_each_once(exporting, importing, tmp_path):
    exporting.add_benchmark(invented.benchmark(B2, "other"))
    file = tmp_path / "both.json"
    file.write_text(export_benchmarks(exporting, [B1, B2, B1]))

    assert import_benchmarks(importing, read_file(file)) == (B1, B2)


def test_an_export_holds_the_public_document_with_raw_samples(exporting):
    document = json.loads(export_benchmarks(exporting, [B1]))

    measurement = document["benchmarks"][0]["measurements"][0]
    assert sum(len(block["latency_ns"]) for block in measurement["samples"]) == measurement["latency"]["samples"] == 200
    assert [block["index"] for block in measurement["blocks"]] == [0, 1, 2, 3] * 3


@pytest.mark.slow
def test_an_export_of_before_has_disturbances_in_words_alone(importing, exported):
    def older(document):
        blocks = [one for measured in document["benchmarks"][0]["measurements"] for one in measured["blocks"]]
        assert [block.pop("disturbed_by") for block in blocks if block["disturbances"]] == [
            [{"kind": "other processes", "share": 0.1234, "duration_ns": None, "frequency_hz": None, "said": ""}]
        ]

    import_benchmarks(importing, read_file(edited(exported, older)))
    disturbed = [one for one in importing.measurements(B1)[0].blocks if one.disturbances]
    assert [one.disturbances for one in disturbed] == [(Disturbance(DisturbanceKind.OTHER_PROCESSES, share=0.12),)]


@pytest.mark.slow
def test_a_disturbance_of_a_kind_that_only_a_newer_version_knows_is_kept_in_its_words(importing, exported):
    def newer(document):
        disturbed = document["benchmarks"][0]["measurements"][0]["blocks"][1]
        disturbed.update(disturbances=["a ghost 3 %"], disturbed_by=[{"kind": "ghost", "share": 0.0312}])

    import_benchmarks(importing, read_file(edited(exported, newer)))
    assert [*map(str, importing.measurements(B1)[0].blocks[1].disturbances)] == ["a ghost 3 %"]


def test_an_unknown_benchmark_cannot_be_exported(exporting):
    with pytest.raises(InputError, match="no benchmark 'nope'"):
        export_benchmarks(exporting, ["nope"])


def measured(document):
    return document["benchmarks"][0]["measurements"][0]


def first_block(document):
    return document["benchmarks"][0]["measurements"][0]["samples"][0]


def target(document):
    return document["benchmarks"][0]["targets"][0]


def block(document):
    return document["benchmarks"][0]["measurements"][0]["blocks"][0]


def output(document):
    return document["benchmarks"][0]["measurements"][0]["captured_outputs"][0]


def edited(file, change):
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))
    return file


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(kind="other"), "is not an export"),
        (lambda d: d.update(schema_version=99), "newer enginebench"),
        (lambda d: d.update(schema_version="1"), "no usable schema_version"),
        (lambda d: d.update(schema_version=1), "by an older enginebench .schema 1; this one knows 2.; export it again"),
        (lambda d: d["benchmarks"][0]["benchmark"].update(id="nightly"), r"benchmark\.id: .* hexadecimal digits"),
        (lambda d: measured(d).update(id="nightly"), r"measurements\.0\.id: .* hexadecimal digits"),
        (lambda d: d["benchmarks"][0].pop("measurements"), r"benchmarks\.0\.measurements: Field required"),
        (lambda d: first_block(d).update(latency_ns=[1, -2]), r"samples\.0\.latency_ns\.1"),
        (lambda d: first_block(d).update(latency_ns=[2**63]), r"samples\.0\.latency_ns\.0"),
        (lambda d: first_block(d).update(sent_ns=[1]), "differ in length"),
        (lambda d: output(d).update(values="AAA="), "values end"),
        (lambda d: output(d).update(stride=0), r"captured_outputs\.0\.stride"),
        (lambda d: output(d).update(stride=2), "of the shape"),
        (lambda d: output(d).update(shape=[2**62, 2**62]), "of the shape"),
        (lambda d: d["benchmarks"][0]["measurements"][1].update(status="splendid"), "status"),
        (lambda d: target(d).update(engines=[{"name": 3}]), r"targets\.0\.engines"),
        (lambda d: target(d).update(engines=["torch"]), r"targets\.0\.engines"),
        (lambda d: target(d)["host"].update(physical_cores="many"), r"targets\.0\.host\.physical_cores"),
        (lambda d: block(d).update(disturbances=3), r"blocks\.0\.disturbances"),
        (lambda d: block(d).update(disturbances=[3]), r"blocks\.0\.disturbances\.0"),
        (lambda d: block(d).update(disturbed_by=[{"kind": [], "share": 1.0}]), r"blocks\.0\.disturbances\.0"),
        (lambda d: block(d).update(disturbed_by=[{"kind": "steal", "share": "all"}]), "share"),
        (lambda d: d["benchmarks"][0]["measurements"][1]["configuration"].update(batch="one"), "batch"),
        (lambda d: measured(d)["configuration"].update(batch=2**40), "a count of the configuration is out of range"),
        (lambda d: measured(d)["configuration"].update(batch=0), "a count of the configuration is out of range"),
        (lambda d: measured(d)["processes"][0].update(index=2**40), "index of a process or block is out of range"),
        (lambda d: block(d).update(index=2**40), "index of a process or block is out of range"),
        (lambda d: block(d).update(begin_ns=2**63), "a number of a process or block is out of range"),
        (lambda d: block(d)["evidence"].update(cpu_time_ns=2**63), "a number of a process or block is out of range"),
        (lambda d: first_block(d).update(process=2**40), r"samples\.0\.process"),
        (lambda d: first_block(d)["latency_ns"].pop(), "there are 199 samples of 200 iterations"),
        (lambda d: first_block(d)["latency_ns"].__setitem__(0, 1), "lie between 1 and .*: they are another's"),
        (lambda d: measured(d)["processes"].append(measured(d)["processes"][0]), "process 0 is there twice"),
        (lambda d: measured(d)["blocks"].append(block(d)), r"block \(0, 0\) is there twice"),
        (
            lambda d: measured(d)["samples"].append(first_block(d) | {"latency_ns": []}),
            "with samples .* is there twice",
        ),
        (lambda d: d["benchmarks"][0]["measurements"].append(measured(d)), f"measurement {M1} is there twice"),
        (lambda d: measured(d)["latency"].update(median_ns=-5.0), "has no median of -5"),
        (lambda d: measured(d)["latency"].update(median_ns=1.0), "has no median of 1"),
        (lambda d: measured(d)["latency"].update(mean_ns=9e12), "has .* no mean of 9e\\+12"),
        (lambda d: measured(d)["latency"]["median_interval"].update(low=9e9, high=1.0), "ends before it begins"),
        (lambda d: measured(d).update(throughput_items_per_s=0.0), "a throughput of 0 cannot be"),
        (lambda d: measured(d).update(throughput_items_per_s=-3.0), "a throughput of -3 cannot be"),
        (lambda d: measured(d).update(status="failed"), "ended as failed has no latency and no throughput"),
        (lambda d: measured(d).update(throughput_items_per_s=1e9), "a throughput of 1e\\+09 is not between"),
        (lambda d: measured(d)["latency"].update(sd_ns=-5.0), "a standard deviation of -5 cannot be"),
        (lambda d: measured(d)["latency"].update(samples=10**6), "1,000,000 samples .* are not 200 iterations"),
        (lambda d: measured(d)["latency"]["percentiles"][1].update(value_ns=9e12), "percentiles do not rise from"),
        (lambda d: measured(d)["processes"][0].update(median_ns=-1.0), "a process has no median of -1"),
        (lambda d: measured(d)["processes"][0].update(throughput_items_per_s=-3.0), "has no throughput of -3"),
        (lambda d: d["benchmarks"][0]["benchmark"].update(name="lone \ud800 surrogate"), "damaged"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_nothing_is_stored(importing, exported, change, says):
    with pytest.raises(InputError, match=says) as refusal:
        import_benchmarks(importing, read_file(edited(exported, change)))

    assert str(exported) in str(refusal.value)
    assert not importing.path.exists()


def test_samples_of_another_are_told_also_where_some_are_left_out(importing, tmp_path):
    exporting = Store(tmp_path / "exporting.duckdb")
    exporting.add_benchmark(invented.benchmark(B1))
    one, raw = invented.left_out(M1)
    exporting.add_measurement(replace(one, benchmark_id=B1), raw)
    file = tmp_path / "export.json"
    file.write_text(export_benchmarks(exporting, [B1]))

    def mixed(document):
        other = invented.samples("another", latency_ms=4.01)
        for place, block in enumerate(measured(document)["samples"]):
            block["latency_ns"] = other[place].latency_ns.tolist()

    with pytest.raises(InputError, match="they are another's"):
        import_benchmarks(importing, read_file(edited(file, mixed)))
    file.write_text(export_benchmarks(exporting, [B1]))
    assert import_benchmarks(importing, read_file(file)) == (B1,)


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
        import_benchmarks(importing, read_file(file))


def test_an_export_that_was_saved_in_another_encoding_says_how_to_save_it(exported, tmp_path):
    (file := tmp_path / "wide.json").write_text(exported.read_text(encoding="utf-8"), encoding="utf-16")
    with pytest.raises(InputError, match=r"wide\.json is not text in UTF-8, so it is no export as it is: save it"):
        read_file(file)


def test_an_export_from_before_a_figure_is_taken_without_it(importing, exported):
    """A field with a default of None may be that of a figure which came later."""
    of_measurement, of_process = (
        {one.name for one in fields_of(record) if one.default is None} & figures(record).keys()
        for record in (Measurement, Process)
    )

    def older(document):
        for measurement in document["benchmarks"][0]["measurements"]:
            for name in of_measurement:
                del measurement[name]
            for process in measurement["processes"]:
                for name in of_process:
                    del process[name]

    import_benchmarks(importing, read_file(edited(exported, older)))
    (found, *_) = importing.measurements(B1)
    assert of_measurement and {getattr(found, name) for name in of_measurement} == {None}
    assert of_process and {getattr(one, name) for one in found.processes for name in of_process} == {None}


def test_a_missing_file_and_a_folder_are_refused(importing, tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        import_benchmarks(importing, read_file(tmp_path / "missing.json"))
    with pytest.raises(InputError, match="could not be read"):
        import_benchmarks(importing, read_file(tmp_path))
