"""Files of older versions are brought up to date step by step; files of newer versions are left alone."""

import json

import duckdb
import numpy as np
import pytest

import invented
import invented_profiles
from enginebench_controller.errors import StoreError
from enginebench_controller.records import InputSet, LayerState, Load, PassKind, Percentile, StopRule
from enginebench_controller.store import migrations
from enginebench_controller.store.migrations import MIGRATIONS, Migration, migrate, schema_version
from enginebench_controller.store.store import Store

ADDS_COLUMN = Migration("adds a column", ("ALTER TABLE benchmarks ADD COLUMN mood VARCHAR DEFAULT 'calm'",))
BREAKS = Migration("breaks half-way", ("CREATE TABLE half (x INTEGER)", "SELECT no_such_function()"))

SAMPLES_NS = [*range(1_000_000, 1_000_199), 9_000_000]
CONFIGURATION_1 = {
    "device": "CPU",
    "batch": 1,
    "cores": 2,
    "streams": 1,
    "precision": "f32",
    "hint": "none",
    "load": "async",
    "requests": 3,
    "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 3], "integer_bound": None}],
    "input_seed": 7,
    "input_count": 4,
    "options": {},
    "stop": {
        "min_duration_ns": 5_000_000_000,
        "min_iterations": 11,
        "max_duration_ns": 0,
        "warmup_ns": 1_000_000_000,
    },
}
EFFECTIVE_1 = {"threads": {"value": 2, "source": "observed"}, "affinity": [0, 1]} | dict.fromkeys(
    ("streams", "precision", "provider", "isa")
)
MEASURED_1 = {
    "id": "m1",
    "benchmark_id": "b0000001",
    "position": 0,
    "target": "local",
    "engine": "fake",
    "engine_version": "1.0",
    "environment": "default",
    "model_digest": "ab" * 32,
    "model_name": "invented",
    "device": "CPU",
    "batch": 1,
    "cores": 2,
    "streams": 1,
    "precision": "f32",
    "hint": "none",
    "load": "async",
    "requests": 3,
    "status": "ok",
    "started_at_unix_ns": 5,
    "effective_threads": 2,
    "iterations": 200,
    "steady_state_ns": 300_000_000,
    "cpu_time_ns": 600_000_000,
    "input_set_sha256": "cd" * 32,
    "samples": 200,
    "mean_ns": 1_040_094.5,
    "sd_ns": 565_678.0,
    "min_ns": 1_000_000,
    "max_ns": 9_000_000,
    "median_ns": 1_000_099.5,
    "p90_ns": 1_000_179.1,
    "p95_ns": 1_000_189.05,
    "p99_ns": 1_000_198.0,
    "throughput_items_per_s": 666.7,
    "configuration": json.dumps(CONFIGURATION_1),
    "effective": json.dumps(EFFECTIVE_1),
    "phases": json.dumps([{"name": "compile", "duration_ns": 9, "peak_rss_bytes": None}]),
}
NUMBERS = (
    "iterations",
    "steady_state_ns",
    "cpu_time_ns",
    "samples",
    "mean_ns",
    "sd_ns",
    "min_ns",
    "max_ns",
    "median_ns",
)
FAILED_1 = MEASURED_1 | dict.fromkeys((*NUMBERS, "p90_ns", "p95_ns", "p99_ns", "throughput_items_per_s"))
FAILED_1 |= {
    "id": "m2",
    "position": 1,
    "status": "failed",
    "failure_kind": "crashed",
    "failure": json.dumps({"kind": "crashed", "message": "killed by SIGSEGV"}),
}


@pytest.fixture
def version_1(tmp_path):
    """A file as schema version 1 made it: a benchmark, a measurement with samples, and one that failed."""
    path = tmp_path / "results.duckdb"
    with duckdb.connect(path) as connection:
        migrate(connection, path, MIGRATIONS[:1])
        connection.execute(
            "INSERT INTO benchmarks VALUES ('b0000001', 'invented', ?, ?, NULL, false)",
            [invented.CREATED_NS, json.dumps(invented.benchmark().plan)],
        )
        for row in (MEASURED_1, FAILED_1):
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO measurements ({', '.join(row)}) VALUES ({marks})", list(row.values()))
        connection.execute("INSERT INTO samples VALUES ('m1', ?)", [SAMPLES_NS])
    return path


def query(path, text):
    with duckdb.connect(path, read_only=True) as connection:
        return connection.execute(text).fetchall()


def test_a_new_file_records_every_step_by_name(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())

    recorded = query(store.path, "SELECT version, name FROM migrations ORDER BY version")
    assert recorded == [(number, step.name) for number, step in enumerate(MIGRATIONS, start=1)]


def test_a_file_of_version_1_gets_the_steps_it_lacks_and_keeps_its_rows(version_1):
    with duckdb.connect(version_1) as connection:
        migrate(connection, version_1, (*MIGRATIONS[:1], ADDS_COLUMN))
        assert schema_version(connection) == 2

    assert query(version_1, "SELECT id, mood FROM benchmarks") == [("b0000001", "calm")]


def test_reading_an_older_file_brings_it_up_to_date_first(version_1, monkeypatch):
    steps = (*MIGRATIONS, ADDS_COLUMN)
    for step in (migrations.pending, migrations.migrate):
        monkeypatch.setattr(step, "__defaults__", (steps,))

    assert Store(version_1).benchmark("b0000001") == invented.benchmark()
    assert query(version_1, "SELECT mood FROM benchmarks") == [("calm",)]


def test_an_older_file_is_copied_before_it_is_brought_up_to_date(version_1):
    Store(version_1).add_benchmark(invented.benchmark("b2"))

    copy = version_1.with_name("results-of-schema-1.duckdb")
    assert query(copy, "SELECT max(version) FROM migrations") == [(1,)]
    assert query(copy, "SELECT id FROM benchmarks") == [("b0000001",)]
    assert query(version_1, "SELECT count(*) FROM benchmarks") == [(2,)]
    Store(version_1).restore(copy)
    assert [entry.benchmark.id for entry in Store(version_1).benchmarks()] == ["b0000001"]


def test_an_older_file_that_cannot_be_copied_stays_as_it_is(version_1):
    version_1.with_name("results-of-schema-1.duckdb").mkdir()

    with pytest.raises(StoreError):
        Store(version_1).benchmarks()
    assert query(version_1, "SELECT max(version) FROM migrations") == [(1,)]


def test_a_file_that_is_up_to_date_is_not_copied(tmp_path):
    for name in ("b1", "b2"):
        Store(tmp_path / "results.duckdb").add_benchmark(invented.benchmark(name))
    assert {one.name for one in tmp_path.iterdir()} <= {"results.duckdb", "results.duckdb.lock"}


def test_a_step_that_fails_leaves_no_trace_of_itself(version_1):
    with duckdb.connect(version_1) as connection:
        with pytest.raises(duckdb.Error):
            migrate(connection, version_1, (*MIGRATIONS[:1], ADDS_COLUMN, BREAKS))
        assert schema_version(connection) == 2

    tables = [name for (name,) in query(version_1, "SELECT table_name FROM duckdb_tables()")]
    assert "half" not in tables


@pytest.mark.fault(17)
def test_a_file_made_by_a_newer_enginebench_is_left_alone(version_1):
    with duckdb.connect(version_1) as connection:
        connection.execute("INSERT INTO migrations VALUES (99, 'from the future', 0, '9.0')")

    for use in (Store(version_1).benchmarks, lambda: Store(version_1).add_benchmark(invented.benchmark("b2"))):
        with pytest.raises(StoreError, match=r"made by a newer enginebench \(9\.0, schema 99"):
            use()
    assert query(version_1, "SELECT count(*) FROM benchmarks") == [(1,)]


def test_a_measurement_of_version_1_becomes_one_of_a_single_process_with_a_single_block(version_1):
    store = Store(version_1)
    measured, failed = store.measurements("b0000001")

    (process,), (block,) = measured.processes, measured.blocks
    assert (process.index, process.started_at_unix_ns, process.iterations) == (0, 5, 200)
    assert (process.steady_state_ns, process.cpu_time_ns) == (300_000_000, 600_000_000)
    assert (process.median_ns, process.effective, process.phases) == (
        measured.latency.median_ns,
        measured.effective,
        measured.phases,
    )
    assert (process.warm_up, process.calibration, process.stop_reason) == (None, None, None)
    assert (block.begin_ns, block.duration_ns, block.iterations, block.disturbances) == (0, 300_000_000, 200, ())
    assert (failed.processes, failed.blocks, failed.latency, failed.failure.kind) == ((), (), None, "crashed")
    assert np.array_equal(store.samples("m1"), SAMPLES_NS)
    assert [(one.process, one.block, one.latency_ns.tolist()) for one in store.block_samples("m1")] == [
        (0, 0, SAMPLES_NS)
    ]


def test_statistics_of_version_1_are_completed_from_the_samples_and_unsupported_percentiles_are_dropped(version_1):
    latency = Store(version_1).measurements("b0000001")[0].latency

    assert (latency.samples, latency.mean_ns, latency.median_ns) == (200, 1_040_094.5, 1_000_099.5)
    assert (latency.mad_ns, latency.outliers, latency.excluded) == (50.0, 1, 0)
    assert latency.cv == pytest.approx(565_678.0 / 1_040_094.5)
    assert latency.median_interval is None
    assert latency.percentiles == (
        Percentile(50, 1_000_099.5, 11),
        Percentile(90, 1_000_179.1, 64),
        Percentile(95, 1_000_189.05, 130),
        Percentile(99, None, 662),
        Percentile(99.9, None, 6636),
    )
    assert query(version_1, "SELECT p95_ns, p99_ns FROM measurements WHERE id = 'm1'") == [(1_000_189.05, None)]


def test_a_configuration_of_version_1_reads_as_what_it_was(version_1):
    configuration = Store(version_1).measurements("b0000001")[0].configuration

    assert configuration.input_set == InputSet(seed=7, count=4)
    assert (configuration.load, configuration.requests, configuration.arrivals) == (Load.ASYNC, 3, None)
    assert configuration.stop == StopRule(
        min_duration_ns=5_000_000_000,
        min_iterations=11,
        max_duration_ns=0,
        warmup_ns=1_000_000_000,
        target_relative_half_width=0.0,
        processes=1,
    )


def test_a_file_of_version_1_takes_new_measurements_and_gives_up_its_own(version_1):
    store = Store(version_1)
    assert store.add_measurement(invented.measured("m3"), invented.samples("m3"))
    assert [one.id for one in store.measurements("b0000001")] == ["m1", "m2", "m3"]

    store.remove_benchmark("b0000001")
    assert (store.benchmarks(), store.samples("m1")) == ((), None)


PROFILE_2 = {
    "id": "p1",
    "name": "old",
    "created_at_unix_ns": 7,
    "target": "local",
    "engine": "fake",
    "engine_version": "1.0",
    "environment": "default",
    "model_digest": "ab" * 32,
    "model_name": "invented",
    "device": "CPU",
    "batch": 1,
    "cores": 2,
    "status": "ok",
    "iterations": 2,
    "unprofiled_latency_ns": 30,
    "configuration": json.dumps({"device": "CPU", "batch": 1, "cores": 2}),
    "effective": json.dumps(EFFECTIVE_1),
}
LAYERS_2 = (
    ("p1", 0, "conv", "Conv", 0, "executed", 1, "jit", "f32", [10, 12], [[1, 2]], ["Conv_0"]),
    ("p1", 1, "drop", "Dropout", 1, "optimized_away", 0, "", "", [], [], []),
    ("p1", 2, "what", "Odd", 2, "unknown", 0, "", "", [], [], []),
)


@pytest.fixture
def version_2(tmp_path):
    """A file as schema version 2 made it, with a profile."""
    path = tmp_path / "results.duckdb"
    with duckdb.connect(path) as connection:
        migrate(connection, path, MIGRATIONS[:2])
        marks = ", ".join("?" * len(PROFILE_2))
        connection.execute(f"INSERT INTO profiles ({', '.join(PROFILE_2)}) VALUES ({marks})", list(PROFILE_2.values()))
        for row in LAYERS_2:
            connection.execute(f"INSERT INTO layers VALUES ({', '.join('?' * len(row))})", list(row))
    return path


def test_a_profile_of_version_2_keeps_its_layers_and_says_that_nothing_was_matched(version_2):
    profile = Store(version_2).profile("old")

    states = [LayerState.EXECUTED, LayerState.OPTIMIZED_AWAY, LayerState.NO_DATA]
    assert [layer.state for layer in profile.layers] == states
    assert (profile.layers[0].time_ns, profile.layers[0].source_nodes) == ((10, 12), ("Conv_0",))
    assert {(one.inputs, one.outputs, one.category, one.group, one.flops) for one in profile.layers} == {
        ((), (), "", None, None)
    }
    assert (profile.nodes, profile.work, profile.coverage, profile.phases) == ((), None, None, ())
    assert (profile.kind, profile.imported, profile.order_id) == (PassKind.AS_GIVEN, False, None)
    assert "earlier version" in profile.unmatched_reason


def test_a_file_of_version_2_takes_new_profiles_and_gives_up_its_own(version_2):
    store = Store(version_2)
    assert store.add_profile(invented_profiles.profile())
    store.remove_profile("p1")

    assert store.profile("p0000001") == invented_profiles.profile()
    assert query(version_2, "SELECT DISTINCT profile_id FROM layers") == [("p0000001",)]
