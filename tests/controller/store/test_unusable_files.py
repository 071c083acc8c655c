"""A file that cannot be used is a sentence that names it, and stays as it is."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pytest

import invented
from enginebench_controller.errors import StoreError
from enginebench_controller.store.connection import reading
from enginebench_controller.store.failures import explain
from enginebench_controller.store.store import Store

TESTS = Path(__file__).parents[2]


@pytest.mark.parametrize("content", [b"", b"hello", b"not a database " * 1000])
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
        f"the results in {store.path} could not be written: the disk is full; free some space and try again\n"
    ), outcome.stderr
    assert (len(store.benchmarks()), store.measurements("b0000001")) == (1, ())
    assert store.add_measurement(invented.measured("m1"))


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
