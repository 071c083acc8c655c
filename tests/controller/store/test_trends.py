"""A trend holds the same model and configuration of every benchmark and engine, and nothing else."""

import time
from dataclasses import replace

import pytest

import invented
from enginebench_controller.records import Arrivals, Configuration, EngineRef, Hint, InputTensor, Load, Status
from enginebench_controller.records.run import Evidence
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.disturbances import summarize_evidence
from histories import Change, digest, keep_history

DAY_NS = 86_400_000_000_000


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results.duckdb", timeout_s=5)
    for number in range(1, 4):
        created = invented.CREATED_NS + number
        one = replace(invented.benchmark(f"b000000{number}", f"run {number}"), created_at_unix_ns=created)
        store.add_benchmark(one, [invented.snapshot()])
    return store


def measured(identity, number, *, version="1.0", **fields):
    one = invented.measured(identity, f"b000000{number}", **fields)
    return replace(
        one,
        engine=EngineRef(one.engine.name, "default", version),
        started_at_unix_ns=invented.CREATED_NS + 10 * number,
    )


@pytest.mark.slow
def test_the_like_of_all_benchmarks_come_in_the_order_of_time(store):
    for one in (measured("m3", 3, version="3.0"), measured("m1", 1), measured("m2", 2, engine="other")):
        store.add_measurement(one)

    points = store.trend("m1")

    assert [point.measurement_id for point in points] == ["m1", "m2", "m3"]
    assert [(point.engine.name, point.engine.version) for point in points] == [
        ("fake", "1.0"),
        ("other", "1.0"),
        ("fake", "3.0"),
    ]
    assert [point.benchmark_name for point in points] == ["run 1", "run 2", "run 3"]
    assert {point.cpu_model for point in points} == {"Invented CPU"}


def test_a_point_has_the_numbers_of_its_measurement(store):
    measurement = measured("m1", 1)
    store.add_measurement(measurement)

    (point,) = store.trend("m1")

    assert (point.median_ns, point.mean_ns) == (measurement.latency.median_ns, measurement.latency.mean_ns)
    assert point.median_interval == measurement.latency.median_interval
    assert point.throughput_items_per_s == measurement.throughput_items_per_s
    assert point.throughput_interval == measurement.throughput_interval
    assert (point.effective_precision, point.effective_threads, point.status) == ("f32", 2, Status.OK)


def test_a_point_is_disturbed_for_the_share_of_its_time_that_its_measurement_tells(store):
    disturbed, paused, *others = invented.measured("m1").blocks
    blocks = (
        replace(disturbed, duration_ns=3 * disturbed.duration_ns, disturbances=(invented.STEAL,)),
        replace(paused, duration_ns=20_000_000_000, paused_ns=19_000_000_000, disturbances=(invented.PAUSED,)),
        *others,
    )
    measurement = replace(measured("m1", 1), blocks=blocks)
    store.add_measurement(measurement)
    store.add_measurement(measured("quiet", 2))

    shares = [point.disturbed for point in store.trend("m1")]

    assert shares == [pytest.approx(summarize_evidence(blocks).disturbed_share), 0]
    assert shares[0] == pytest.approx(3 / 13, rel=0.05), "three of the thirteen blocks' times in which it went on"


def test_where_no_block_tells_of_others_nobody_knows_what_was_disturbed(store):
    """As on a kernel without /proc/stat."""
    whole = measured("m1", 1)
    unseen = [replace(one, evidence=Evidence(), disturbances=()) for one in whole.blocks]
    store.add_measurement(replace(whole, blocks=tuple(unseen)))
    assert summarize_evidence(unseen).disturbed_share is None
    assert [point.disturbed for point in store.trend("m1")] == [None]
    assert store.noise(0)[whole.target].disturbed is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "unlike",
    [
        {"batch": 4},
        {"configuration": Configuration("CPU", 1, cores=1)},
        {"configuration": Configuration("GPU", 1, cores=2)},
        {"configuration": Configuration("CPU", 1, cores=2, precision="bf16")},
        {"configuration": Configuration("CPU", 1, cores=2, arrivals=Arrivals(250.0))},
        {"model_digest": "cd" * 32},
        {"target": "nuc"},
    ],
)
def test_another_model_target_or_configuration_is_no_point(store, unlike):
    store.add_measurement(measured("m1", 1))
    store.add_measurement(measured("m2", 2, **unlike))

    assert [point.measurement_id for point in store.trend("m1")] == ["m1"]


@pytest.mark.slow
def test_a_failed_measurement_is_a_point_without_numbers(store):
    store.add_measurement(measured("m1", 1))
    store.add_measurement(invented.failed("m2", "b0000002", engine="fake"))

    failed = store.trend("m1")[0]

    assert (failed.measurement_id, failed.failure_kind) == ("m2", "crashed")
    assert (failed.median_ns, failed.median_interval, failed.throughput_items_per_s) == (None, None, None)
    assert failed.at_unix_ns == invented.CREATED_NS + 2  # it never started: its benchmark did


@pytest.mark.slow
def test_options_are_told_and_only_the_newest_points_are_read(store):
    options = Configuration("CPU", 1, cores=2, options={"openmp": "off"})
    for number in (1, 2, 3):
        store.add_measurement(measured(f"m{number}", number, configuration=options))

    points = store.trend("m1", most=2)

    assert [point.measurement_id for point in points] == ["m2", "m3"]
    assert points[0].options == {"openmp": "off"}
    assert store.trend("nobody") == ()


@pytest.mark.slow
def test_of_each_history_the_newest_points_are_read_however_many_there_are(store):
    plain = Configuration("CPU", 1, cores=2)
    waiting = replace(plain, load=Load.OPEN_LOOP, arrivals=Arrivals(100.0))
    many = [
        plain,
        replace(plain, streams=2),
        replace(plain, precision="bf16"),
        replace(plain, hint=Hint.LATENCY),
        replace(plain, load=Load.ASYNC, requests=2),
        replace(plain, load=Load.ASYNC, requests=4),
        waiting,
        replace(waiting, arrivals=Arrivals(200.0)),
        replace(plain, inputs=(InputTensor("ids", "int64", (1, 128)),)),
        replace(plain, options={"arena": "off"}),
    ]
    for place, configuration in enumerate(many):
        for number in (1, 2, 3):
            store.add_measurement(measured(f"m{place}-{number}", number, iterations=4, configuration=configuration))

    found = {tuple(point.measurement_id for point in one.points) for one in store.histories(most=2)}

    assert found == {(f"m{place}-2", f"m{place}-3") for place in range(len(many))}


@pytest.mark.fault(29)
@pytest.mark.parametrize("ahead_days", [1, 20 * 365, None])
def test_what_a_wrong_clock_dated_is_no_point_and_is_told_of(store, monkeypatch, ahead_days):
    """`first` is the place after those that are there already."""
    misdated_ns = 47 * DAY_NS if ahead_days is None else time.time_ns() + ahead_days * DAY_NS
    keep_history(store, "net", Change(), points=3)
    with monkeypatch.context() as clock:
        clock.setattr(invented, "CREATED_NS", misdated_ns)
        keep_history(store, "net", Change(), first=3, points=4)
        keep_history(store, "other", Change(), first=2, points=3, target="nuc")

    (history,) = store.histories()
    assert [point.measurement_id for point in history.points] == ["m-net-000", "m-net-001", "m-net-002"]
    assert [point.measurement_id for point in store.trend("m-net-000")] == ["m-net-000", "m-net-001", "m-net-002"]
    assert {(one.benchmark_id, one.points) for one in store.misdated()} == {("b-net-003", 1), ("b-other-002", 1)}
    assert [one.benchmark_id for one in store.misdated(digest("net"))] == ["b-net-003"]
    assert [one.benchmark_id for one in store.misdated(target="nuc")] == ["b-other-002"]
    assert store.misdated(engine="another") == ()


def test_a_clock_that_is_a_little_behind_another_leaves_nothing_out(store, monkeypatch):
    monkeypatch.setattr(invented, "CREATED_NS", time.time_ns() + DAY_NS // 24 // 20)
    keep_history(store, "net", Change(), points=1)
    assert (len(store.histories(fewest=1)), store.misdated()) == (1, ())


def test_a_clock_from_before_there_was_enginebench_makes_nothing_late(store, monkeypatch):
    keep_history(store, "net", Change(), points=2)
    monkeypatch.setattr(time, "time_ns", lambda: 47 * DAY_NS)
    assert (len(store.histories()), store.misdated()) == (1, ())


def test_what_others_have_dated_is_left_to_them(store, monkeypatch):
    monkeypatch.setattr(invented, "CREATED_NS", time.time_ns() + DAY_NS)
    keep_history(store, "net", Change(), points=2, imported_from="Their CPU")
    assert (len(store.histories()), store.misdated()) == (1, ())


def test_a_benchmark_that_a_wrong_clock_began_is_misdated_though_its_points_are_not(store):
    one = replace(invented.benchmark("b0000009", "late"), created_at_unix_ns=time.time_ns() + DAY_NS)
    store.add_benchmark(one)
    assert [(found.benchmark_id, found.points) for found in store.misdated()] == [("b0000009", 0)]
    store.add_measurement(measured("m9", 9))
    assert [(found.benchmark_id, found.points) for found in store.misdated()] == [("b0000009", 0)]
