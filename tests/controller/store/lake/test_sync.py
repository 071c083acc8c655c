"""What is brought into a lake is there whole and once, whoever brings it, how often, and whenever they are killed."""

import signal

import deltalake
import pyarrow
import pytest

import invented
from controller.store.lake.conftest import fill
from enginebench_controller.errors import InputError, StoreError
from enginebench_controller.store.lake.place import lake_at
from enginebench_controller.store.lake.reading import forget
from enginebench_controller.store.lake.tables import MODELS, PROFILE, TABLES
from enginebench_controller.store.lake.writing import sync
from enginebench_controller.store.store import LakeStore, Store

pytestmark = pytest.mark.slow


def counts(lake):
    """Rows of every table as readers see them, without the word of any cache."""
    forget(lake)
    store = LakeStore(lake_at("nowhere").url, [lake.url])
    with store._reading() as connection:
        return {
            table.name: connection.execute(f"SELECT count(*) FROM {table.name}").fetchall()[0][0] for table in TABLES
        }


def stored(store):
    with store._reading() as connection:
        return {
            table.name: connection.execute(f"SELECT count(*) FROM {table.name}").fetchall()[0][0] for table in TABLES
        }


def test_a_repeat_changes_nothing(own, lake):
    first = sync(own.path, lake)
    assert [(one.noun, len(one.new), one.known) for one in first] == [("benchmark", 2, 0), ("profile", 1, 0)]
    before = counts(lake)
    assert before == stored(own)

    again = sync(own.path, lake)
    assert [(one.new, one.known) for one in again] == [((), 2), ((), 1)]
    assert counts(lake) == before


def test_what_is_new_is_added_and_what_grew_is_told(own, synced):
    fill(own, "b0000003")
    own.add_measurement(invented.measured("late", "b0000001"))

    found = sync(own.path, synced, without={"b0000003"})[0]
    assert (found.new, found.behind) == ((), ("b0000001",))
    assert sync(own.path, synced)[0].new == ("b0000003",)
    assert counts(synced)["measurements"] == 9


def test_half_of_anything_is_never_seen_and_whoever_comes_next_goes_on(own, lake, writer):
    """Killed after so many commits each: the models, two tables, three, the samples; then the rows, and layers."""
    for dies_after in (1, 2, 3, 1):
        assert writer(own.path, lake, dies_after).wait(60) == -signal.SIGKILL
        assert {name for name, rows in counts(lake).items() if rows} == {MODELS.name}
    assert writer(own.path, lake, 2).wait(60) == -signal.SIGKILL
    there, all_of_it = counts(lake), stored(own)
    profiles = [table.name for table in (PROFILE.head, *PROFILE.parts)]
    assert there == all_of_it | dict.fromkeys(profiles, 0)
    assert deltalake.DeltaTable(f"{lake.url}/{PROFILE.parts[0].name}").to_pyarrow_table().num_rows

    assert [one.new for one in sync(own.path, lake)] == [(), ("p0000001",)]
    assert counts(lake) == all_of_it


def test_several_writers_at_once_bring_everything_once(own, lake, writer, tmp_path):
    """Two have the same, and one has a part of it, too."""
    other = Store(tmp_path / "other" / "results.duckdb")
    fill(other, "b0000002", "b0000003")

    begun = [writer(path, lake) for path in (own.path, other.path, own.path)]
    assert [(one.wait(120), one.stderr.read()) for one in begun] == [(0, "")] * 3
    found = counts(lake)
    assert found["benchmarks"] == 3
    assert found["measurements"] == 9
    assert found["models"] == 2
    assert found["block_samples"] == stored(own)["block_samples"] // 2 * 3


def test_of_two_who_bring_the_same_at_once_each_calls_new_what_it_brought(own, lake, monkeypatch):
    write, other = deltalake.write_deltalake, []

    def write_after_another(*arguments, **named):
        monkeypatch.setattr(deltalake, "write_deltalake", write)
        other.extend(sync(own.path, lake))
        write(*arguments, **named)

    monkeypatch.setattr(deltalake, "write_deltalake", write_after_another)
    found = sync(own.path, lake)
    assert [(len(one.new), one.known) for one in other] == [(2, 0), (1, 0)]
    assert [(one.new, one.known) for one in found] == [((), 2), ((), 1)]
    assert counts(lake) == stored(own)


def test_who_finds_a_half_doubles_nothing_that_others_bring_in_the_meantime(own, lake, writer, tmp_path, monkeypatch):
    killed, other = (Store(tmp_path / name / "results.duckdb") for name in ("killed", "other"))
    fill(killed, "b0000001")
    fill(other, "b0000002")
    assert writer(killed.path, lake, 2).wait(60) == -signal.SIGKILL
    write = deltalake.write_deltalake

    def write_and_let_another_write(*arguments, **named):
        monkeypatch.setattr(deltalake, "write_deltalake", write)
        write(*arguments, **named)
        sync(other.path, lake)

    monkeypatch.setattr(deltalake, "write_deltalake", write_and_let_another_write)
    sync(own.path, lake)
    assert counts(lake) == stored(own)


@pytest.mark.parametrize("name", ["notes.txt", "blocks/old.csv"])
def test_a_folder_with_something_else_in_it_is_left_alone(own, lake, tmp_path, name):
    foreign = tmp_path / "lake" / name
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")

    with pytest.raises(StoreError, match="has something else in it"):
        sync(own.path, lake)
    assert [path for path in (tmp_path / "lake").rglob("*") if path.is_file()] == [foreign]


def test_a_delta_table_of_somebody_else_is_left_alone(own, lake):
    deltalake.write_deltalake(f"{lake.url}/blocks", pyarrow.table({"id": ["x"]}))

    with pytest.raises(StoreError, match="not enginebench's"):
        sync(own.path, lake)
    with pytest.raises(StoreError, match="not enginebench's"):
        LakeStore(own.path, [lake.url]).benchmarks()
    assert deltalake.DeltaTable(f"{lake.url}/blocks").version() == 0
    assert {path.name for path in own.path.parents[1].joinpath("lake").iterdir()} == {"blocks"}


def test_a_lake_of_a_newer_enginebench_is_left_alone(own, synced):
    table = deltalake.DeltaTable(f"{synced.url}/blocks")
    table.alter.set_table_properties({"enginebench.schema": "99"}, raise_if_not_exists=False)
    forget(synced)

    for use in (lambda: sync(own.path, synced), LakeStore(own.path, [synced.url]).benchmarks):
        with pytest.raises(StoreError, match=r"newer enginebench \(schema 99.*upgrade"):
            use()


def test_a_store_that_is_busy_is_told_in_its_own_words(lake, tmp_path):
    broken = tmp_path / "home" / "results.duckdb"
    broken.parent.mkdir()
    broken.write_bytes(b"no database" * 1000)

    with pytest.raises(StoreError, match="is not a DuckDB file"):
        sync(broken, lake)


@pytest.mark.parametrize("folder", ["a[b", "a]b", "a|b", "a^b", "a\\b", "a%20b", "a\tb"])
def test_a_folder_that_the_library_takes_for_another_is_refused(tmp_path, folder):
    with pytest.raises(InputError, match=r"cannot have .* in its path"):
        lake_at(str(tmp_path / folder))


@pytest.mark.parametrize("folder", ["a b", "a%b", "a#b?", "ä{b}", "a'b\"*"])
def test_a_lake_in_a_folder_of_any_other_name_is_written_and_read(own, tmp_path, folder):
    lake = lake_at(str(tmp_path / folder))
    sync(own.path, lake)
    assert {one.benchmark.id for one in LakeStore(own.path, [lake.url]).benchmarks()} == {
        one.benchmark.id for one in own.benchmarks()
    }
