"""A file that cannot be used is a sentence that names it, and stays as it is."""

import errno
import os
import resource
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pytest
from filelock import FileLock

import invented
from enginebench_controller.errors import StoreError
from enginebench_controller.store import connection, schema
from enginebench_controller.store.connection import reading
from enginebench_controller.store.failures import explain
from enginebench_controller.store.store import Store

TESTS = Path(__file__).parents[2]


def sqlite_file():
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE benchmarks (id TEXT)")
        return connection.serialize()


@pytest.mark.parametrize("content", [b"", b"hello", b"not a database " * 1000, sqlite_file()], ids=len)
def test_something_else_than_a_duckdb_file_is_refused_and_kept(tmp_path, content):
    path = tmp_path / "results.duckdb"
    path.write_bytes(content)

    for use in (Store(path).benchmarks, lambda: Store(path).add_benchmark(invented.benchmark())):
        with pytest.raises(StoreError, match=rf"{path} is not a DuckDB file; move it away"):
            use()
    assert path.read_bytes() == content


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "home").write_text("")

    with pytest.raises(StoreError, match="is not a folder"):
        Store(tmp_path / "home" / "results.duckdb").add_benchmark(invented.benchmark())


def test_a_folder_without_permission_is_refused():
    # Root may write everywhere but into the kernel's own file systems.
    place = Path("/proc/enginebench") if os.geteuid() == 0 else Path("/enginebench")

    with pytest.raises(StoreError, match=str(place)):
        Store(place / "results.duckdb").add_benchmark(invented.benchmark())


@pytest.mark.parametrize("words", ["Permission denied", "Operation not permitted"])
def test_missing_permission_is_told_with_what_to_do(tmp_path, words):
    path = tmp_path / "results.duckdb"

    assert explain(OSError(1, words), path) == (
        f"no permission to use {path}; make the file and its folder {tmp_path} writable for you"
    )


@pytest.mark.slow
@pytest.mark.fault(17)
def test_a_full_disk_is_told_and_what_was_stored_before_is_kept(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    program = """
        import resource, sys, invented
        from pathlib import Path
        from enginebench_controller.errors import StoreError
        from enginebench_controller.store.store import Store
        store = Store(Path(sys.argv[1]))
        limit = store.path.stat().st_size + 65536
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            store.add_measurement(invented.measured("m1"), invented.samples("m1", iterations=2_000_000))
        except StoreError as error:
            print(error)
    """
    outcome = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(store.path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )

    assert outcome.stdout == (
        f"the results in {store.path} could not be written: the disk is full; free some space and try again, "
        "with `enginebench resume --finish` where something was being measured\n"
    ), outcome.stderr
    assert (len(store.benchmarks()), store.measurements("b0000001")) == (1, ())
    assert store.add_measurement(invented.measured("m1"))


@contextmanager
def no_file_longer_than(size):
    """A bound on the size of files stands for the end of the disk, which says the same."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def names(folder):
    return sorted(one.name for one in folder.iterdir())


@pytest.mark.fault(17)
@pytest.mark.parametrize("room", [0, 4096, 8192, 12_288, 16_384, 100_000])
def test_a_first_store_on_a_full_disk_leaves_nothing_and_is_made_once_there_is_room(tmp_path, room):
    store = Store(tmp_path / "results.duckdb")

    with no_file_longer_than(room), pytest.raises(StoreError, match="the disk is full; free some space and try again"):
        store.add_benchmark(invented.benchmark())
    assert names(tmp_path) == ["results.duckdb.lock"]
    assert store.benchmarks() == ()

    store.add_benchmark(invented.benchmark())
    assert len(store.benchmarks()) == 1
    assert names(tmp_path) == ["results.duckdb", "results.duckdb.lock"]


@pytest.mark.fault(17)
@pytest.mark.parametrize("has_links", [True, False])
def test_a_first_store_takes_the_place_of_a_draft_that_was_left_and_of_nothing_else(tmp_path, monkeypatch, has_links):
    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError(errno.EPERM, "no links")))
    path = tmp_path / "results.duckdb"
    for ending in ("", ".wal"):
        path.with_name(f"{path.name}.first.coming{ending}").write_bytes(b"cut o")

    Store(path).add_benchmark(invented.benchmark())
    assert len(Store(path).benchmarks()) == 1
    assert names(tmp_path) == ["results.duckdb", "results.duckdb.lock"]


@pytest.mark.fault(17)
def test_the_log_of_a_file_that_was_moved_away_is_kept_and_not_read_with_the_next(tmp_path):
    path, moved = tmp_path / "results.duckdb", tmp_path / "moved.duckdb"
    with connection.transaction(path, 5):
        pass
    with no_file_longer_than(path.stat().st_size):
        Store(path).add_benchmark(invented.benchmark())
    path.rename(moved)

    Store(path).add_benchmark(invented.benchmark("c0000001"))
    assert [one.benchmark.id for one in Store(path).benchmarks()] == ["c0000001"]
    (log,) = tmp_path.glob("results-before-*.duckdb.wal")
    log.rename(tmp_path / "moved.duckdb.wal")
    assert [one.benchmark.id for one in Store(moved).benchmarks()] == ["b0000001"]


@pytest.mark.fault(17)
@pytest.mark.parametrize("room", [100_000, None])
def test_a_file_that_another_program_makes_meanwhile_is_kept(tmp_path, monkeypatch, room):
    path, migrate = tmp_path / "results.duckdb", schema.migrate

    def make_theirs(*arguments):
        monkeypatch.setattr(schema, "migrate", migrate)
        with duckdb.connect(path) as theirs:
            theirs.execute("CREATE TABLE theirs AS SELECT 7 AS seven")
        migrate(*arguments)

    monkeypatch.setattr(schema, "migrate", make_theirs)
    if room:
        with no_file_longer_than(room), pytest.raises(StoreError, match="the disk is full"):
            Store(path).add_benchmark(invented.benchmark())
    else:
        Store(path).add_benchmark(invented.benchmark())
    with duckdb.connect(path) as theirs:
        assert theirs.execute("FROM theirs").fetchall() == [(7,)]
    Store(path).add_benchmark(invented.benchmark())
    assert len(Store(path).benchmarks()) == 1


@pytest.mark.fault(17)
def test_what_a_full_disk_leaves_in_the_log_is_stored_and_nobody_copies_the_file_without_it(tmp_path, caplog):
    store, log = Store(tmp_path / "results.duckdb"), tmp_path / "results.duckdb.wal"
    store.add_benchmark(invented.benchmark())
    copy = tmp_path / "copy.duckdb"

    with no_file_longer_than(store.path.stat().st_size):
        for number in range(2):
            store.add_benchmark(invented.benchmark(f"c000000{number}"))
            assert log.stat().st_size > 0
            assert len(store.benchmarks()) == 2 + number
        with pytest.raises(StoreError, match="the disk is full; free some space"):
            store.backup(copy)
        with pytest.raises(StoreError, match="the disk is full; free some space"):
            store.compact()
        assert store.check().problems == ()
    assert not copy.exists()
    (told,) = [one.getMessage() for one in caplog.records if "the disk is full" in one.getMessage()]
    assert f"what is stored in {store.path} now is kept in results.duckdb.wal" in told

    assert len(Store(store.backup(copy)).benchmarks()) == 3
    assert not log.exists()


@pytest.mark.fault(17)
def test_an_older_file_is_not_copied_without_what_a_full_disk_left_in_its_log(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    size = store.path.stat().st_size

    with no_file_longer_than(size):
        with connection.transaction(store.path, 5) as writer:
            writer.execute("DELETE FROM migrations WHERE version = (SELECT max(version) FROM migrations)")
        assert store.path.with_name("results.duckdb.wal").exists()
        with pytest.raises(StoreError, match="the disk is full; free some space"):
            store.add_benchmark(invented.benchmark("c0000001"))
    assert names(tmp_path) == ["results.duckdb", "results.duckdb.lock", "results.duckdb.wal"]


@pytest.mark.fault(17)
def test_what_does_not_come_into_the_file_for_another_reason_is_an_error(tmp_path, monkeypatch):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    monkeypatch.setattr(connection, "is_full_disk", lambda _: False)

    with no_file_longer_than(store.path.stat().st_size), pytest.raises(StoreError, match="could not be written"):
        store.add_benchmark(invented.benchmark("c0000001"))


def test_a_query_reaches_no_file_and_no_setting(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    (tmp_path / "secret.csv").write_text("secret\n1\n")

    with reading(store.path, 5) as connection:
        for attempt in (
            f"SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')",
            f"COPY benchmarks TO '{tmp_path / 'stolen.csv'}'",
            "SET enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(attempt)
    assert not (tmp_path / "stolen.csv").exists()


@pytest.mark.slow
@pytest.mark.fault(30)
@pytest.mark.parametrize("left", [12, 4096, 20_000, 0.5])
def test_a_store_that_is_cut_off_is_told_with_what_is_left_and_replaced_by_a_backup(tmp_path, left):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    copy = store.backup(tmp_path / "copy.duckdb")
    whole = store.path.stat().st_size
    os.truncate(store.path, left if left > 1 else int(whole * left))
    shown = rf"{store.path} is cut off: there are [\d,]+ bytes left.*enginebench store restore FILE"

    with pytest.raises(StoreError, match=shown):
        store.benchmarks()
        store.add_benchmark(invented.benchmark("second"))
    store.restore(copy)
    assert len(store.benchmarks()) == 1


@pytest.mark.fault(30)
def test_a_link_that_leads_nowhere_is_not_taken_for_nothing(tmp_path):
    (tmp_path / "home").symlink_to(tmp_path / "unmounted")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "results.duckdb").symlink_to(tmp_path / "lost.duckdb")

    for path in (tmp_path / "home" / "results.duckdb", tmp_path / "other" / "results.duckdb"):
        store = Store(path)
        for use in (store.benchmarks, store.check, lambda one=store: one.add_benchmark(invented.benchmark())):
            with pytest.raises(StoreError, match=r"is a link to .*, which is not there; mount that"):
                use()
    (tmp_path / "unmounted").mkdir()
    assert Store(tmp_path / "home" / "results.duckdb").benchmarks() == ()


@pytest.mark.fault(30)
def test_a_file_in_the_place_of_the_home_is_not_taken_for_nothing(tmp_path):
    (tmp_path / "home").write_text("")

    with pytest.raises(StoreError, match="is not a folder"):
        Store(tmp_path / "home" / "results.duckdb").benchmarks()


@pytest.mark.fault(31)
@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_where_nothing_can_be_written_results_are_read_all_the_same(tmp_path, monkeypatch, caplog, number):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())

    def refused(lock: FileLock, *_: object) -> None:
        raise OSError(number, os.strerror(number), str(lock.lock_file))

    monkeypatch.setattr(FileLock, "acquire", refused)
    assert len(store.benchmarks()) == 1
    assert store.check().problems == ()
    assert store.backup(tmp_path / "copy.duckdb").exists()
    assert "its results are only read" in caplog.text
    with pytest.raises(StoreError, match=r"read-only file system|no permission"):
        store.add_benchmark(invented.benchmark("second"))


READ_ONLY = """
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 77
export ENGINEBENCH_HOME="$1"
"$2" -m enginebench_controller list && "$2" -m enginebench_controller query "SELECT count(*) AS found FROM benchmarks" \
  && ! "$2" -m enginebench_controller targets add nuc nuc:1
"""


@pytest.mark.slow
@pytest.mark.fault(31)
def test_a_home_on_a_read_only_file_system_is_listed_and_queried(tmp_path):
    Store(tmp_path / "results.duckdb").add_benchmark(invented.benchmark())
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", READ_ONLY, "sh", str(tmp_path), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 77 or done.stderr.startswith("unshare:"):
        pytest.skip("no file system can be mounted here")

    assert done.returncode == 0, done.stderr
    assert invented.benchmark().name in done.stdout
    assert "its results are only read" in done.stderr
    assert "lies on a read-only file system" in done.stderr


@pytest.mark.fault(33)
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_a_home_is_its_owners_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        Store(tmp_path / "new" / "home" / "results.duckdb").add_benchmark(invented.benchmark())
    finally:
        os.umask(before)

    assert (tmp_path / "new" / "home").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
