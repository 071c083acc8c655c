"""Files of older versions are brought up to date step by step; files of newer versions are left alone."""

from dataclasses import replace

import duckdb
import pytest

import invented
import invented_profiles
from controller.plain import fields
from enginebench_controller.errors import StoreError
from enginebench_controller.records import (
    Derivation,
    DerivationKind,
    Disturbance,
    DisturbanceKind,
    EngineRef,
    Peak,
    PeakKind,
    Phase,
    Target,
)
from enginebench_controller.store import schema
from enginebench_controller.store.schema import FIRST_VERSION, MIGRATIONS, Migration, migrate, schema_version
from enginebench_controller.store.store import Store

LAST_VERSION = FIRST_VERSION + len(MIGRATIONS) - 1
ADDS_COLUMN = Migration("adds a column", ("ALTER TABLE benchmarks ADD COLUMN mood VARCHAR DEFAULT 'calm'",))
BREAKS = Migration("breaks half-way", ("CREATE TABLE half (x INTEGER)", "SELECT no_such_function()"))


@pytest.fixture
def of_today(tmp_path):
    """A file as this version makes it, with a benchmark."""
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark("b0000001"))
    return store.path


@pytest.fixture
def one_step_more(of_today, monkeypatch):
    """A later version, which has one step more than the file."""
    for function in (schema.pending, schema.migrate):
        monkeypatch.setattr(function, "__defaults__", ((*MIGRATIONS, ADDS_COLUMN),))


def query(path, text):
    with duckdb.connect(path, read_only=True) as connection:
        return connection.execute(text).fetchall()


def test_a_new_file_records_every_step_by_name(of_today):
    recorded = query(of_today, "SELECT version, name FROM migrations ORDER BY version")
    assert recorded == [(number, step.name) for number, step in enumerate(MIGRATIONS, start=FIRST_VERSION)]


def test_a_file_gets_the_steps_it_lacks_and_keeps_its_rows(of_today):
    with duckdb.connect(of_today) as connection:
        migrate(connection, of_today, (*MIGRATIONS, ADDS_COLUMN))
        assert schema_version(connection) == LAST_VERSION + 1

    assert query(of_today, "SELECT id, mood FROM benchmarks") == [("b0000001", "calm")]


@pytest.mark.usefixtures("one_step_more")
def test_reading_an_older_file_brings_it_up_to_date_first(of_today):
    assert Store(of_today).benchmark("b0000001") == invented.benchmark("b0000001")
    assert query(of_today, "SELECT mood FROM benchmarks") == [("calm",)]


@pytest.mark.slow
@pytest.mark.usefixtures("one_step_more")
def test_an_older_file_is_copied_before_it_is_brought_up_to_date(of_today):
    Store(of_today).remove_benchmark("b0000001")

    copy = of_today.with_name(f"results-of-schema-{LAST_VERSION}.duckdb")
    assert query(copy, "SELECT max(version) FROM migrations") == [(LAST_VERSION,)]
    assert query(copy, "SELECT id FROM benchmarks") == [("b0000001",)]
    assert query(of_today, "SELECT count(*) FROM benchmarks") == [(0,)]
    Store(of_today).restore(copy)
    assert [entry.benchmark.id for entry in Store(of_today).benchmarks()] == ["b0000001"]


@pytest.mark.usefixtures("one_step_more")
def test_an_older_file_that_cannot_be_copied_stays_as_it_is(of_today):
    of_today.with_name(f"results-of-schema-{LAST_VERSION}.duckdb").mkdir()

    with pytest.raises(StoreError):
        Store(of_today).benchmarks()
    assert query(of_today, "SELECT max(version) FROM migrations") == [(LAST_VERSION,)]


def test_a_file_that_is_up_to_date_is_not_copied(of_today):
    Store(of_today).add_benchmark(invented.benchmark("b2"))
    assert {one.name for one in of_today.parent.iterdir()} <= {"results.duckdb", "results.duckdb.lock"}


def test_a_step_that_fails_leaves_no_trace_of_itself(of_today):
    with duckdb.connect(of_today) as connection:
        with pytest.raises(duckdb.Error):
            migrate(connection, of_today, (*MIGRATIONS, ADDS_COLUMN, BREAKS))
        assert schema_version(connection) == LAST_VERSION + 1

    tables = [name for (name,) in query(of_today, "SELECT table_name FROM duckdb_tables()")]
    assert "half" not in tables


@pytest.mark.fault(17)
def test_a_file_made_by_a_newer_enginebench_is_left_alone(of_today):
    with duckdb.connect(of_today) as connection:
        connection.execute("INSERT INTO migrations VALUES (99, 'from the future', 0, '9.0')")

    for use in (Store(of_today).benchmarks, lambda: Store(of_today).add_benchmark(invented.benchmark("b2"))):
        with pytest.raises(StoreError, match=r"made by a newer enginebench \(9\.0, schema 99"):
            use()
    assert query(of_today, "SELECT count(*) FROM benchmarks") == [(1,)]


def test_a_word_of_a_newer_enginebench_is_told_as_one(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark("b1"), ())
    store.add_measurement(invented.measured("m1", "b1"))
    with duckdb.connect(store.path) as connection:
        connection.execute("UPDATE measurements SET status = 'won'")
    with pytest.raises(StoreError, match=r"results\.duckdb holds what only a newer enginebench knows.*'won'.*update"):
        store.measurements("b1")


def test_a_file_from_before_the_first_release_is_left_alone_and_told_what_to_do(of_today):
    with duckdb.connect(of_today) as connection:
        earlier = [LAST_VERSION - FIRST_VERSION + 1]
        connection.execute("UPDATE migrations SET version = version - ?, enginebench_version = '0.0.9'", earlier)

    for use in (Store(of_today).benchmarks, lambda: Store(of_today).add_benchmark(invented.benchmark("b2"))):
        with pytest.raises(StoreError, match=r"before its first release \(0\.0\.9, schema 5; .* move it away"):
            use()
    assert query(of_today, "SELECT count(*) FROM benchmarks") == [(1,)]


def test_what_a_profile_of_before_says_of_memory_is_without_its_counters(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    alone = (Phase("compile", 1, 100), Phase("warm_up", 1, 300), Phase("steady_state", 1))
    counted = (Phase("compile", 1, 900), Phase("profile", 1, 700))
    phases = {"p1": alone + counted, "p2": counted, "p3": alone[2:], "p4": ()}
    for identity, these in phases.items():
        store.add_profile(invented_profiles.profile(identity, phases=these))
    with duckdb.connect(store.path) as connection:
        connection.execute("UPDATE profiles SET peak_rss_bytes = 1000")
        take_back_to_the_first_step(connection)

    assert {one.id: one.peak_rss_bytes for one in store.profiles()} == {"p1": 300, "p2": 900, "p3": None, "p4": None}
    assert dict(query(store.path, "SELECT id, peak_rss_bytes FROM profiles")) == {
        one.id: one.peak_rss_bytes for one in store.profiles()
    }


@pytest.mark.parametrize(
    ("added_ns", "seen_before", "imported", "processor"),
    [
        (None, "Invented CPU", False, "Invented CPU"),
        (5, "Another CPU", True, "Invented CPU"),
        (5, "Another CPU", False, None),
        (15, "Invented CPU", False, None),
    ],
)
def test_calibrations_of_before_are_of_their_targets_processor_where_it_had_no_other(
    tmp_path, added_ns, seen_before, imported, processor
):
    store = Store(tmp_path / "results.duckdb")
    last = invented.snapshot("nuc")
    store.save_snapshot(last)
    seen = replace(last, host=replace(last.host, cpu_model=seen_before))
    store.add_benchmark(replace(invented.benchmark(), imported=imported), [seen])
    if added_ns is not None:
        store.add_target(Target("nuc", "nuc:50051", added_ns))
    engine = EngineRef("openvino", "default", "1.0")
    store.add_peaks([Peak("nuc", engine, "CPU", 2, PeakKind.FLOPS, "MatMul", 10, precision="f32")])
    with duckdb.connect(store.path) as connection:
        take_back_to_the_first_step(connection)

    assert [one.cpu_model for one in store.peaks()] == [processor]


SENTENCES = {
    "batch=4, batch axis tokens=1": Derivation(DerivationKind.REBATCHED, batch=4, said="tokens=1"),
    "magnitude pruning, sparsity=1e-05 in every layer": Derivation(DerivationKind.PRUNED, sparsity=1e-5),
    "smoothed by hand": Derivation(DerivationKind.UNKNOWN, said="smoothed by hand"),
}
PHRASES = {
    "other processes 12 %": Disturbance(DisturbanceKind.OTHER_PROCESSES, share=0.12),
    "paused for 20 s": Disturbance(DisturbanceKind.PAUSED, duration_ns=20_000_000_000),
    "a ghost 3 %": Disturbance(DisturbanceKind.SOMETHING_ELSE, said="a ghost 3 %"),
}


def columns(connection):
    return set(connection.execute("SELECT table_name, column_name FROM duckdb_columns()").fetchall())


def take_back_to_the_first_step(connection):
    """Drop all that later steps have added."""
    with duckdb.connect(":memory:") as first:
        migrate(first, "nowhere", MIGRATIONS[:1])
        known = {table for table, _ in columns(first)}
        added = columns(connection) - columns(first)
    for table in {table for table, _ in added} - known:
        connection.execute(f"DROP TABLE {table}")
    for table, column in sorted(one for one in added if one[0] in known):
        connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    connection.execute("DELETE FROM migrations WHERE version > ?", [FIRST_VERSION])


@pytest.mark.slow
def test_what_a_file_of_before_has_in_words_alone_is_told_by_kind_from_then_on(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    given = invented.model()
    made = [invented.model(f"{place}a" * 32, derivation=one) for place, one in enumerate(SENTENCES.values())]
    for model in (given, *made):
        store.save_model(model)
    clean = invented.measured("m1")
    by_place = {0: tuple(PHRASES.values()), 1: tuple(PHRASES.values())[:1]}
    blocks = tuple(replace(one, disturbances=by_place.get(place, ())) for place, one in enumerate(clean.blocks))
    store.add_benchmark(invented.benchmark())
    store.add_measurement(replace(clean, blocks=blocks))
    with duckdb.connect(store.path) as connection:
        take_back_to_the_first_step(connection)
        words = connection.execute("SELECT derivation FROM models ORDER BY derivation").fetchall()
        assert words == [*((one,) for one in sorted(SENTENCES)), (None,)]

    assert {one.digest: one.derivation for one in store.models()} == {
        one.digest: one.derivation for one in (given, *made)
    }
    (found,) = store.measurements("b0000001")
    assert fields(found) == fields(replace(clean, blocks=blocks))
    words = "SELECT disturbances FROM blocks WHERE disturbed_by IS NOT NULL ORDER BY process, block"
    assert query(store.path, words) == [(list(PHRASES),), (list(PHRASES)[:1],)]
