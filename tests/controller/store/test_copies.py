"""Backups hold everything, restoring can be undone, and whatever goes wrong the results stay as they were."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from typer.testing import CliRunner

import invented
from controller.plain import fields
from enginebench_controller.cli import make_app
from enginebench_controller.errors import InputError, StoreError
from enginebench_controller.files.exports.benchmarks import export_benchmarks
from enginebench_controller.store import backups
from enginebench_controller.store.store import Store

pytestmark = pytest.mark.slow

UNFINISHED = """
import duckdb, os, sys
connection = duckdb.connect(sys.argv[1])
connection.execute("PRAGMA disable_checkpoint_on_shutdown")
connection.execute("UPDATE benchmarks SET name = 'in the log'")
print("written", flush=True)
os._exit(0)
"""
LONG_LOG = """
import duckdb, os, sys
connection = duckdb.connect(sys.argv[1], config={"checkpoint_threshold": "4GB"})
connection.execute("CREATE TABLE junk (number BIGINT, text VARCHAR)")
for part in range(150):
    connection.execute(f"INSERT INTO junk SELECT i, md5((i + {part * 7919})::varchar) FROM range(2000) t(i)")
connection.execute("DELETE FROM junk WHERE number % 2 = 1")
os._exit(0)
"""
HOLDING = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "home" / "results.duckdb", timeout_s=1.0)
    found.add_benchmark(invented.benchmark(name="first"), [invented.snapshot()])
    found.add_measurement(invented.measured("m1"), invented.samples("m1"))
    return found


def names(store):
    return [entry.benchmark.name for entry in store.benchmarks()]


def files(folder):
    return sorted(one.name for one in folder.iterdir() if not one.name.endswith(".lock"))


def damage(path, begin=0.25, end=0.5):
    """Flip bits in a part of the file."""
    content = bytearray(path.read_bytes())
    for place in range(int(begin * len(content)), int(end * len(content)), 97):
        content[place] ^= 0xFF
    path.write_bytes(content)


def test_a_backup_holds_everything_and_restoring_it_can_be_undone(store, tmp_path):
    copy = store.backup(tmp_path / "copy.duckdb")
    store.add_benchmark(invented.benchmark("b2", "second"))

    kept = store.restore(copy)
    assert names(store) == ["first"]
    assert store.measurement("m1").latency == Store(copy).measurement("m1").latency
    assert store.latency_curves(["m1"])["m1"].samples == 200

    assert store.restore(kept) is not None
    assert sorted(names(store)) == ["first", "second"]
    assert copy.exists()


def test_what_stands_in_the_log_alone_is_in_the_backup(store, tmp_path):
    subprocess.run([sys.executable, "-c", UNFINISHED, store.path], check=True, capture_output=True)
    assert store.path.with_name("results.duckdb.wal").stat().st_size

    copy = store.backup(tmp_path)

    assert copy.parent == tmp_path
    assert names(Store(copy)) == ["in the log"]
    assert [one.suffix for one in tmp_path.iterdir() if one.is_file() and one.suffix != ".lock"] == [".duckdb"]


def test_a_copy_with_its_log_is_restored_with_it(store, tmp_path):
    copy = store.backup(tmp_path / "copy.duckdb")
    subprocess.run([sys.executable, "-c", UNFINISHED, copy], check=True, capture_output=True)
    assert (tmp_path / "copy.duckdb.wal").stat().st_size

    store.restore(copy)

    assert names(store) == ["in the log"]


def test_a_link_to_the_results_stays_one_and_leads_to_what_is_restored(store, tmp_path):
    copy = store.backup(tmp_path / "copy.duckdb")
    store.remove_benchmark("b0000001")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    store.path.rename(elsewhere / "real.duckdb")
    store.path.symlink_to(elsewhere / "real.duckdb")

    kept = store.restore(copy)

    assert store.path.is_symlink() and names(store) == ["first"]
    assert kept is not None and kept.parent == elsewhere and not kept.is_symlink()


def test_what_was_removed_gives_its_room_back_and_the_rest_stays_as_it_is(store, monkeypatch):
    with pytest.raises(InputError, match="there are no results"):
        Store(store.path.with_name("none.duckdb")).compact()
    store.add_benchmark(invented.benchmark("b0000002", "large"))
    draws = np.random.default_rng(0)
    for number in range(4):
        one = replace(invented.measured(f"m{number}0", iterations=250_000), benchmark_id="b0000002")
        raw = invented.samples(f"m{number}0", iterations=250_000)
        store.add_measurement(
            one, [replace(each, latency_ns=draws.integers(1, 2**50, len(each.latency_ns))) for each in raw]
        )
    store.add_measurement(invented.measured("m9"), invented.samples("m9"))
    store.remove_benchmark("b0000002")
    kept = store.bundle("b0000001")

    monkeypatch.setenv("ENGINEBENCH_HOME", str(store.path.parent))
    done = CliRunner().invoke(make_app(), ["store", "compact", "--json"], catch_exceptions=False)

    told = json.loads(done.stdout)
    assert told["bytes_after"] < told["bytes_before"] and told["bytes_after"] == store.path.stat().st_size
    assert store.compact() == (told["bytes_after"],) * 2, "what cannot become smaller is left as it is"
    assert (told["lake"], told["joined"]) == (None, None)
    after = store.bundle("b0000001")
    assert [fields(one) for one in after.measurements] == [fields(one) for one in kept.measurements]
    assert store.check().problems == () and not list(store.path.parent.glob("*.coming*"))
    store.add_benchmark(invented.benchmark("b0000003", "later"))
    assert set(names(store)) == {"first", "later"}


def test_a_file_that_would_not_come_out_the_same_is_left_as_it_is(store, monkeypatch):
    monkeypatch.setattr(backups, "_contents", lambda _, database: {"of": (database,)})
    before = store.path.read_bytes()
    with pytest.raises(StoreError, match="nothing was changed"):
        store.compact()
    assert store.path.read_bytes() == before


@pytest.mark.parametrize("wanted", ["taken.duckdb", "no/such/folder/copy.duckdb"])
def test_a_backup_that_cannot_be_written_leaves_nothing_behind(store, tmp_path, wanted):
    (tmp_path / "taken.duckdb").write_text("mine")

    with pytest.raises((InputError, StoreError), match=r"there already|could not be copied"):
        store.backup(tmp_path / wanted)

    assert files(tmp_path) == ["home", "taken.duckdb"]
    assert (tmp_path / "taken.duckdb").read_text() == "mine"


def test_what_was_left_by_who_was_killed_is_cleared_away_and_nothing_else(store, tmp_path):
    home = store.path.parent
    (nightly := tmp_path / "nightly").mkdir()
    left = [
        *(nightly / f"results-20260102-030405.duckdb.part{end}" for end in ("", ".wal", ".lock")),
        nightly / ".results-20260102-030405.duckdb.part.1a2b3c4d.part",
        *(home / f"results.duckdb.4711.coming{end}" for end in ("", ".wal", ".lock")),
        home / ".results.duckdb.4711.coming.1a2b3c4d.part",
        home / ".results.duckdb.4711.coming.wal.1a2b3c4d.part",
        home / ".results-of-schema-3.duckdb.1a2b3c4d.part",
    ]
    kept = [nightly / "results-20260102-030405.duckdb", nightly / "other.duckdb.part", home / "results-before-1.duckdb"]
    at_work = nightly / "results-20260102-040506.duckdb.part"
    for one in (*left, *kept, at_work):
        one.touch()
    for one in (*left, *kept):
        os.utime(one, (0, time.time() - 86_400))

    copy = store.backup(nightly)

    assert set(nightly.iterdir()) == {copy, at_work, *kept[:2]}
    assert files(home) == ["results-before-1.duckdb", "results.duckdb"]


def test_a_backup_under_one_name_clears_away_what_was_left_of_it(store, tmp_path):
    (left := tmp_path / ".copy[1].duckdb.part.1a2b3c4d.part").touch()
    os.utime(left, (0, time.time() - 86_400))
    store.backup(tmp_path / "copy[1].duckdb")
    assert files(tmp_path) == ["copy[1].duckdb", "home"]


def test_without_results_there_is_nothing_to_back_up(tmp_path):
    with pytest.raises(InputError, match="nothing to back up"):
        Store(tmp_path / "results.duckdb").backup(tmp_path / "copy.duckdb")
    assert files(tmp_path) == []


def newer(path):
    with duckdb.connect(path) as connection:
        connection.execute("INSERT INTO migrations VALUES (99, 'of the future', 0, '9.9')")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.write_text("no database"), "not a DuckDB file"),
        (damage, "copy.duckdb"),
        (newer, "newer enginebench"),
        (Path.unlink, "there is no file"),
    ],
)
def test_what_is_no_sound_backup_is_refused_and_nothing_changes(store, tmp_path, spoil, words):
    copy = store.backup(tmp_path / "copy.duckdb")
    spoil(copy)
    before = store.path.read_bytes()

    with pytest.raises((InputError, StoreError), match=words):
        store.restore(copy)

    assert store.path.read_bytes() == before
    assert files(store.path.parent) == ["results.duckdb"]


def test_the_results_are_no_backup_of_themselves(store):
    with pytest.raises(InputError, match="the results themselves"):
        store.restore(store.path)


def test_damaged_results_are_kept_when_a_backup_takes_their_place(store, tmp_path):
    copy = store.backup(tmp_path / "copy.duckdb")
    damage(store.path)
    damaged = store.path.read_bytes()

    kept = store.restore(copy)

    assert names(store) == ["first"]
    assert kept.read_bytes() == damaged


@pytest.mark.fault(17)
def test_a_damaged_log_is_told_and_kept_when_a_backup_takes_the_place_of_the_results(store, tmp_path):
    copy = store.backup(tmp_path / "copy.duckdb")
    subprocess.run([sys.executable, "-c", UNFINISHED, store.path], check=True, capture_output=True)
    log = store.path.with_name("results.duckdb.wal")
    damage(log)
    damaged = log.read_bytes()

    for use in (store.benchmarks, store.check, lambda: store.backup(tmp_path / "other.duckdb")):
        with pytest.raises(StoreError, match=r"wal, which holds what was written last, is damaged; .* store restore"):
            use()
    kept = store.restore(copy)

    assert names(store) == ["first"]
    assert kept.with_name(kept.name + ".wal").read_bytes() == damaged
    assert files(tmp_path) == ["copy.duckdb", "home"]


@pytest.mark.fault(17)
def test_a_damaged_file_is_told_with_what_to_do(store):
    damage(store.path, 0.0, 0.02)
    with pytest.raises(StoreError, match=r"is damaged on the disk; .* store restore"):
        store.benchmarks()


@pytest.mark.fault(17)
def test_results_that_another_program_holds_are_not_replaced(store, tmp_path):
    copy = store.backup(tmp_path / "copy.duckdb")
    command = [sys.executable, "-c", HOLDING, store.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline()
        for act in (lambda: store.restore(copy), lambda: store.backup(tmp_path / "other.duckdb")):
            with pytest.raises(StoreError, match=f"held open by process {holder.pid}"):
                act()
        holder.stdin.close()
    assert names(store) == ["first"]
    assert files(tmp_path) == ["copy.duckdb", "home"]


def test_the_results_are_there_at_every_instant_of_restoring(store, tmp_path, monkeypatch):
    copy = store.backup(tmp_path / "copy.duckdb")
    store.add_benchmark(invented.benchmark("b2", "second"))

    def die(_folder):
        raise KeyboardInterrupt

    for step, expected in ((backups.Path, ["first", "second"]), (backups, ["first"])):
        with monkeypatch.context() as patched:
            patched.setattr(step, "sync_folder" if step is backups else "replace", lambda *_: die(None))
            with pytest.raises(KeyboardInterrupt):
                store.restore(copy)
        assert sorted(names(store)) == expected


def test_a_check_reads_everything_and_finds_what_belongs_to_nothing(store):
    found = store.check()
    assert (found.problems, found.rows["measurements"], found.rows["block_samples"]) == ((), 1, 200)

    with duckdb.connect(store.path) as connection:
        connection.execute("DELETE FROM block_samples WHERE latency_ns = (SELECT max(latency_ns) FROM block_samples)")
        connection.execute("DELETE FROM benchmarks")
    problems = store.check().problems
    assert "1 rows of measurements belong to 1 benchmarks that are not there" in problems
    assert any("measurement m1 has" in problem and "of 200 iterations" in problem for problem in problems)


def test_a_check_finds_samples_of_another_measurement(store):
    store.add_measurement(invented.measured("m9000000"), invented.samples("another", latency_ms=9))
    (problem,) = store.check().problems
    assert problem.startswith("measurement m9000000 has samples that are not its own")


def test_a_check_finds_them_also_where_samples_are_left_out(store):
    for identity in ("m2", "m3"):
        one, raw = invented.left_out(identity)
        store.add_measurement(one, raw if identity == "m2" else invented.samples("another", latency_ms=4.01))
    (problem,) = store.check().problems
    assert problem.startswith("measurement m3 has samples that are not its own")


IMPOSSIBLE = [
    "measurements SET batch = 0",
    "measurements SET median_ns = -5",
    "measurements SET mean_ns = -5",
    "measurements SET min_ns = max_ns + 1",
    "measurements SET sd_ns = -5",
    "measurements SET samples = 1000000",
    "measurements SET throughput_items_per_s = 0",
    "measurements SET throughput_items_per_s = 'nan'",
    "measurements SET throughput_items_per_s = 1e9",
    "measurements SET status = 'failed'",
    "measurements SET status = 'splendid'",
    "measurements SET outliers = NULL",
    "measurements SET mean_ns = NULL",
    "measurements SET median_high_ns = NULL",
    "measurements SET median_low_ns = 9e9, median_high_ns = 1",
    'measurements SET percentiles = replace(percentiles, \'"value_ns":\', \'"value_ns": 9e9, "was":\')',
    "processes SET median_ns = -1",
    "processes SET throughput_items_per_s = 0",
]


def stored(store, change):
    """Store a measurement that cannot be, as older imports allowed."""
    store.add_measurement(invented.measured("m2"), invented.samples("m2"))
    table, assignment = change.split(" SET ")
    of = "id" if table == "measurements" else "measurement_id"
    with duckdb.connect(store.path) as connection:
        connection.execute(f"UPDATE {table} SET {assignment} WHERE {of} = 'm2'")


@pytest.mark.parametrize("change", IMPOSSIBLE)
def test_a_check_finds_figures_that_cannot_be(store, change):
    stored(store, change)
    found = store.check()
    assert found.damage == ()
    assert any(
        one.startswith("measurement m2 has figures that cannot be: remove its benchmark, b0000001")
        for one in found.doubtful
    )


@pytest.mark.parametrize("change", ["batch = 0", "median_ns = -5"])
def test_nothing_that_is_stored_keeps_the_rest_from_leaving(store, change):
    stored(store, f"measurements SET {change}")
    assert "m2" in export_benchmarks(store, ["b0000001"])


@pytest.mark.parametrize("spoil", ["batch = 0", "min_ns = 1"])
def test_what_is_doubtful_stands_in_nobodys_way(store, tmp_path, monkeypatch, spoil):
    stored(store, f"measurements SET {spoil}")
    copy = store.backup(tmp_path / "copy.duckdb")
    store.compact()
    fresh = Store(tmp_path / "fresh" / "results.duckdb")
    fresh.restore(copy)
    assert len(fresh.measurements("b0000001")) == 2
    assert fresh.check().doubtful == store.check().doubtful != ()

    monkeypatch.setenv("ENGINEBENCH_HOME", str(fresh.path.parent))
    done = CliRunner().invoke(make_app(), ["store", "check"], standalone_mode=False)
    assert (done.return_value, "restore FILE" in done.stderr) == (1, False), "a backup has it, too"


def test_what_stands_in_the_log_alone_counts_as_taken_when_a_file_is_written_anew(store):
    subprocess.run([sys.executable, "-c", LONG_LOG, store.path], check=True)
    assert store.path.with_name("results.duckdb.wal").stat().st_size > store.path.stat().st_size
    before, after = store.compact()
    assert before >= after == store.path.stat().st_size
    assert store.compact() == (after, after)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--grace", "3"], "are of a lake"),
        (["--nobody-else"], "are of a lake"),
        ([""], "the name of the lake is empty"),
    ],
)
def test_what_is_meant_for_a_lake_never_changes_the_own_results(store, monkeypatch, words, says):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(store.path.parent))
    before = store.generation()
    done = CliRunner().invoke(make_app(), ["store", "compact", *words])
    assert isinstance(done.exception, InputError) and says in str(done.exception)
    assert store.generation() == before


@pytest.mark.fault(17)
def test_a_check_tells_damage(store):
    store.add_measurement(invented.measured("m2", iterations=50_000), invented.samples("m2", iterations=50_000))
    shutil.copy(store.path, sound := store.path.with_name("sound"))
    told = []
    for part in range(8):
        shutil.copy(sound, store.path)
        damage(store.path, part / 8, (part + 1) / 8)
        try:
            told += store.check().problems
        except StoreError as error:
            told.append(str(error))
    assert any("cannot be read" in words for words in told)
    assert any(str(store.path) in words for words in told)


def test_the_commands_copy_check_and_restore(store, tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(store.path.parent))

    def run(*arguments, **options):
        return CliRunner().invoke(make_app(), ["store", *arguments], **options)

    copy = tmp_path / "copy.duckdb"
    assert run("backup", str(copy)).exit_code == 0
    store.remove_benchmark("b0000001")
    assert run("restore", str(copy), input="n\n").exit_code == 0
    assert names(store) == []
    done = run("restore", str(copy), "--yes")
    assert "undoes this" in done.stderr
    assert names(store) == ["first"]

    document = json.loads(run("check", "--json").stdout)
    assert (document["schema_version"], document["problems"]) == (1, [])
    assert {"name": "measurements", "rows": 1} in document["tables"]
    assert "no problem was found" in run("check").stderr

    with duckdb.connect(store.path) as connection:
        connection.execute("DELETE FROM benchmarks")
    done = run("check", standalone_mode=False)
    assert done.return_value == 1
    assert "belong to 1 benchmarks" in done.stderr and "restore FILE" in done.stderr


def test_restoring_again_at_once_keeps_what_was_kept_before(store, tmp_path, monkeypatch):
    monkeypatch.setattr(backups, "_stamp", lambda: "20260102-030405")
    copy = store.backup(tmp_path / "copy.duckdb")
    store.add_benchmark(invented.benchmark("b2", "second"))

    first, second = store.restore(copy), store.restore(copy)

    assert first != second
    assert sorted(names(Store(first))) == ["first", "second"]
    assert names(Store(second)) == ["first"]
