"""A DuckDB outlives the use of a file, and the file is open only as long as it is used."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import invented
from enginebench_controller.errors import StoreError
from enginebench_controller.store import connection
from enginebench_controller.store.connection import reading, transaction
from enginebench_controller.store.store import Store

TIMEOUT_S = 5.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "it's" / "results.duckdb"
    Store(path).add_benchmark(invented.benchmark())
    return path


def opened(path: Path) -> bool:
    """Whether this process has the file open."""
    there = Path("/proc/self/fd")
    return any(path.samefile(one) for one in there.iterdir() if one.exists())


def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files for which a DuckDB is made from now on."""
    asked: list[Path] = []
    make = connection._instance
    monkeypatch.setattr(connection, "_idle", {})
    monkeypatch.setattr(connection, "_instance", lambda one: asked.append(one) or make(one))
    return asked


def test_uses_of_a_file_share_what_is_made_for_the_first_and_leave_the_file_to_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = made(monkeypatch)
    for _ in range(2):
        with transaction(path, TIMEOUT_S):
            assert opened(path)
        assert not opened(path)
        with reading(path, TIMEOUT_S) as reader:
            assert reader.execute("SELECT count(*) FROM benchmarks").fetchall() == [(1,)]
        assert not opened(path)
    assert asked == [path]
    assert not path.with_name(path.name + ".wal").exists()


def test_nothing_outlives_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = made(monkeypatch)
    with pytest.raises(KeyboardInterrupt), transaction(path, TIMEOUT_S) as writer:
        writer.execute("DELETE FROM benchmarks")
        raise KeyboardInterrupt
    assert not opened(path)
    with pytest.raises(StoreError), reading(path, TIMEOUT_S) as reader:
        reader.execute("SELECT nonsense")
    assert not opened(path)
    assert len(Store(path).benchmarks()) == 1
    assert asked == [path] * 3


def test_of_many_files_a_few_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = made(monkeypatch)
    paths = [tmp_path / f"{number}.duckdb" for number in range(connection._MOST_IDLE + 1)]
    for path in (*paths, paths[-1], paths[0]):
        Store(path).add_benchmark(invented.benchmark(str(path.stem) * 8))
    assert asked == [*paths, paths[0]]


def test_a_child_that_was_forked_off_uses_the_store_and_ends_by_itself(tmp_path: Path) -> None:
    script = """
import os, sys
from pathlib import Path
from enginebench_controller.store.store import Store
first, *others = sys.argv[1:]
count = lambda path: len(Store(Path(path)).benchmarks())
print(count(first), flush=True)
if not (child := os.fork()):
    print([count(path) for path in (first, *others)], flush=True)
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), count(first))
"""
    paths = [tmp_path / f"{number}.duckdb" for number in range(connection._MOST_IDLE + 1)]
    for path in paths:
        Store(path).add_benchmark(invented.benchmark())
    command = [sys.executable, "-c", script, *map(str, paths)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("1\n[1, 1, 1]\n7 1\n", "")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('{other}')",
        "ATTACH '{other}' AS other",
        "COPY benchmarks TO '{other}'",
        "SET allowed_paths = ['{other}']",
        "SET enable_external_access = true",
    ],
)
@pytest.mark.parametrize("use", [reading, transaction])
def test_no_statement_reaches_another_file(path: Path, tmp_path: Path, statement: str, use: type) -> None:
    other = tmp_path / "other.txt"
    other.write_text("secret")
    with pytest.raises(StoreError) as refused, use(path, TIMEOUT_S) as session:
        session.execute(statement.format(other=other))
    assert isinstance(refused.value.__cause__, (duckdb.PermissionException, duckdb.InvalidInputException))
    assert other.read_text() == "secret"


def test_a_file_that_is_a_link_is_used_where_it_lies_also_once_it_leads_elsewhere(tmp_path: Path) -> None:
    link = tmp_path / "home" / "results.duckdb"
    link.parent.mkdir()
    for number in range(2):
        disk = tmp_path / f"disk{number}"
        disk.mkdir()
        Store(disk / "other.duckdb").add_benchmark(invented.benchmark())
        link.unlink(missing_ok=True)
        link.symlink_to(disk / "other.duckdb")
        Store(link).add_benchmark(invented.benchmark(f"c000000{number}"))
        assert {one.benchmark.id for one in Store(link).benchmarks()} == {"b0000001", f"c000000{number}"}


def test_what_took_much_memory_is_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = made(monkeypatch)
    sizes = iter([0, connection._MOST_GROWTH_BYTES + 1, 0, 0])
    monkeypatch.setattr(connection, "_resident_bytes", lambda: next(sizes))
    for _ in range(2):
        with reading(path, TIMEOUT_S):
            pass
    assert asked == [path] * 2


def test_a_schema_in_the_file_that_is_called_as_another_place_is_no_trouble(path: Path) -> None:
    with transaction(path, TIMEOUT_S) as writer:
        writer.execute("CREATE SCHEMA memory")
    Store(path).add_benchmark(invented.benchmark("c0000001"))
    assert len(Store(path).benchmarks()) == 2


def test_what_does_not_fit_into_memory_lies_beside_the_file_meanwhile(path: Path, tmp_path: Path) -> None:
    with reading(path, TIMEOUT_S) as reader:
        ((folder,),) = reader.execute("SELECT current_setting('temp_directory')").fetchall()
    assert folder == f"{path}.tmp"
