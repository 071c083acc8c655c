"""Lists of profiles need no layers, and whole profiles come several at once."""

from dataclasses import replace

import pytest

import invented_profiles
from enginebench_controller.records import Status
from enginebench_controller.store.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results.duckdb", timeout_s=5)


def test_an_empty_store_lists_nothing_and_knows_no_work(store):
    assert store.profile_entries() == ()
    assert store.whole_profiles(["nope"]) == ()
    assert store.whole_profiles([]) == ()
    assert store.stored_work("ab" * 32) is None


def test_an_entry_tells_what_a_list_needs(store):
    profile = invented_profiles.profile()
    store.add_profile(profile)

    (entry,) = store.profile_entries()
    same = ("id", "name", "created_at_unix_ns", "target", "engine", "model_digest", "model_name", "status", "order_id")
    assert all(getattr(entry, field) == getattr(profile, field) for field in same)
    assert (entry.device, entry.batch, entry.cores, entry.precision) == ("CPU", 1, 2, "f32")
    assert (entry.total_ns, entry.matched_ns) == (9, 6)
    assert (entry.imposed_sparsity, entry.optimization_level, entry.unprofiled_latency_ns) == (None, None, None)


def test_entries_are_newest_first_and_failures_are_among_them(store):
    older = invented_profiles.profile_of_failure()
    store.add_profile(older)
    store.add_profile(replace(invented_profiles.profile(), created_at_unix_ns=older.created_at_unix_ns + 1))

    assert [entry.status for entry in store.profile_entries()] == [Status.OK, Status.FAILED]


def test_whole_profiles_come_in_the_order_asked_for_each_with_its_own_layers(store):
    first = invented_profiles.profile("p0000001")
    second = invented_profiles.profile("p0000003", layers=invented_profiles.layers()[:2], nodes=())
    failed = invented_profiles.profile_of_failure()
    store.add_profiles([first, second, failed])

    assert store.whole_profiles([failed.id, "nope", second.id, first.id, first.id]) == (failed, second, first)


def test_the_work_in_a_model_comes_from_a_profile_of_it_at_the_batch(store):
    configuration = invented_profiles.profile().configuration
    of_four = replace(configuration, batch=4)
    one, four = invented_profiles.profile(), invented_profiles.profile("p0000004", configuration=of_four, nodes=())
    store.add_profiles([four, one, invented_profiles.profile_of_failure()])

    found = store.stored_work(one.model_digest)
    assert (found.profile_id, found.batch, found.nodes, found.work) == ("p0000001", 1, one.nodes, one.work)
    assert store.stored_work(one.model_digest, batch=4) is None
    assert store.stored_work("cd" * 32) is None
