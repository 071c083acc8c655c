"""Profiles come out of the file as they went in, with layers and source nodes, and go altogether."""

from dataclasses import replace

import duckdb
import pytest

import invented
import invented_profiles
from enginebench_controller.errors import InputError
from enginebench_controller.store.store import Store

TABLES = ("profiles", "layers", "profile_nodes")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results.duckdb", timeout_s=5)


def rows(store):
    with duckdb.connect(store.path, read_only=True) as connection:
        return [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES]


def test_a_profile_comes_back_whole_with_its_model(store):
    assert store.add_profile(invented_profiles.profile(), invented.model()) is True
    assert store.add_profile(invented_profiles.profile(), invented.model()) is False

    assert store.profile("p0000001") == invented_profiles.profile()
    assert store.models() == (invented.model(),)
    assert rows(store) == [1, 5, 3]


def test_a_profile_without_layers_or_nodes_comes_back_too(store):
    store.add_profile(invented_profiles.profile_of_failure())
    assert store.profile("p0000002") == invented_profiles.profile_of_failure()


def test_parts_that_are_empty_in_every_row_come_back_empty(store):
    bare = [
        replace(one, output_shapes=(), source_nodes=(), inputs=(), time_ns=()) for one in invented_profiles.layers()
    ]
    nodes = [replace(one, inputs=(), outputs=(), weights=(), output_shapes=()) for one in invented_profiles.nodes()]
    profile = invented_profiles.profile(layers=tuple(bare), nodes=tuple(nodes))

    store.add_profile(profile)
    assert store.profile(profile.id) == profile


def test_a_list_has_no_layers_and_the_newest_first(store):
    later = invented_profiles.profile("p0000003", created_at_unix_ns=invented.CREATED_NS + 1)
    for profile in (invented_profiles.profile(), later):
        store.add_profile(profile)

    assert store.profiles() == tuple(replace(one, layers=(), nodes=()) for one in (later, invented_profiles.profile()))


@pytest.mark.slow
def test_a_profile_is_found_by_id_name_and_start_of_an_id_unless_several_are_meant(store):
    store.add_profile(invented_profiles.profile("p1aaaaaa", name="first"))
    store.add_profile(invented_profiles.profile("p1bbbbbb", name="second"))

    assert [store.profile(named).id for named in ("p1aaaaaa", "second", "p1b")] == ["p1aaaaaa", "p1bbbbbb", "p1bbbbbb"]
    with pytest.raises(InputError, match=r"'p1' means 2 profiles; name one by its id: p1aaaa \(.*\), p1bbbb \("):
        store.profile("p1")
    for unknown in ("nope", ""):
        with pytest.raises(InputError, match=f"no profile '{unknown}'; `enginebench profiles list` shows"):
            store.profile(unknown)


@pytest.mark.slow
def test_what_belongs_to_a_removed_profile_goes_with_it_and_nothing_else(store):
    store.add_profile(invented_profiles.profile())
    store.add_profile(invented_profiles.profile("p0000003"))

    store.remove_profile("p0000001")
    assert rows(store) == [1, 5, 3]
    assert store.profile("p0000003") == invented_profiles.profile("p0000003")
    with pytest.raises(InputError, match="no profile 'p0000001'"):
        store.remove_profile("p0000001")


def test_a_count_beyond_what_a_column_holds_is_unknown_and_costs_nothing_else(store):
    node, *others = invented_profiles.nodes()
    store.add_profile(invented_profiles.profile(nodes=(replace(node, macs=2**70, flops=2**71), *others)))

    found = store.profile("p0000001").nodes[0]
    assert (found.macs, found.flops, found.parameters) == (None, None, 216)


def test_the_file_can_be_asked_without_us(store):
    store.add_profile(invented_profiles.profile(configuration=replace(invented.CONFIGURATION, options=SPARSE)))

    with duckdb.connect(store.path, read_only=True) as connection:
        query = """
            SELECT imposed_sparsity, optimization_level, matched_ns / total_ns, peak_rss_bytes,
                (SELECT list(name) FROM profile_nodes
                 WHERE profile_id = p.id AND matching_group = l.matching_group)
            FROM profiles AS p JOIN layers AS l ON l.profile_id = p.id WHERE l.category = 'matched'"""
        assert connection.execute(query).fetchall() == [(0.9, 0, 6 / 9, 2**28, ["Conv_0", "Odd_1"])]


@pytest.mark.parametrize(
    "options",
    [
        {"optimization_level": "O2", "imposed_sparsity": "structured"},
        {"optimization_level": "1.5", "imposed_sparsity": "nan"},
        {"optimization_level": "true"},
        {"optimization_level": str(2**40)},
    ],
)
def test_an_option_that_is_no_level_or_no_share_costs_no_profile(store, options):
    profile = invented_profiles.profile(configuration=replace(invented.CONFIGURATION, options=options))
    store.add_profile(profile)

    assert store.profile(profile.id) == profile
    (entry,) = store.profiles()
    assert (entry.imposed_sparsity, entry.optimization_level) == (None, None)


SPARSE = {"imposed_sparsity": "0.9", "optimization_level": "0"}
