"""Projects over a real store: what counts as one, and which of its measurements is its best."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.records import EngineRef, Status
from enginebench_controller.store.models import ParameterCount
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.doubts import flags, status_words
from invented_profiles import profile


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    return store


def keep(store, *measurements):
    for one in measurements:
        store.add_measurement(one)


def test_a_store_without_measurements_has_no_projects(store, tmp_path):
    assert store.projects() == ()
    assert Store(tmp_path / "none.duckdb").projects() == ()


@pytest.mark.slow
def test_a_project_is_a_model_version_on_an_engine_of_a_target(store):
    keep(
        store,
        invented.measured("m1"),
        invented.measured("m2", batch=4),
        invented.measured("m3", engine="other"),
        invented.measured("m4", target="nuc"),
        invented.measured("m5", model_digest="cd" * 32),
        replace(invented.measured("m6"), engine=EngineRef("fake", "legacy", "0.9")),
        replace(invented.measured("m7"), engine=EngineRef("fake", "default", "2.0")),
    )

    found = {(one.model_digest[:2], one.engine, one.environment, one.target) for one in store.projects()}

    assert found == {
        ("ab", "fake", "default", "local"),
        ("ab", "other", "default", "local"),
        ("ab", "fake", "default", "nuc"),
        ("cd", "fake", "default", "local"),
        ("ab", "fake", "legacy", "local"),
    }


@pytest.mark.slow
def test_the_best_is_the_one_with_the_largest_throughput_and_comes_whole(store):
    fast = invented.measured("m2", latency_ms=2.0, batch=8, status=Status.INCONCLUSIVE)
    keep(store, invented.measured("m1"), fast, invented.measured("m3", latency_ms=9.0), invented.failed("m4"))

    ran, failed = store.projects()

    assert ran.best is not None
    assert (ran.best.id, ran.best.configuration, ran.best.status) == ("m2", fast.configuration, Status.INCONCLUSIVE)
    assert ran.best.throughput_interval == fast.throughput_interval
    assert ran.best.effective == fast.effective
    assert ran.counts == {Status.OK: 2, Status.INCONCLUSIVE: 1}
    assert (failed.engine, failed.best, failed.counts) == ("fake-broken", None, {Status.FAILED: 1})


@pytest.mark.slow
def test_of_equal_measurements_the_first_by_id_is_the_best(store):
    one = invented.measured("m1")
    keep(store, replace(one, id="m9"), replace(one, id="m2"), replace(one, id="m5"))

    (project,) = store.projects()

    assert project.best is not None
    assert project.best.id == "m2"


@pytest.mark.slow
def test_names_change_and_the_newest_holds(store):
    one = invented.measured("m1")
    keep(
        store,
        replace(one, started_at_unix_ns=5, model_name="new"),
        replace(one, id="m2", started_at_unix_ns=2, model_name="old"),
    )

    (project,) = store.projects()

    assert (project.model_name, project.begun_at_unix_ns, project.last_at_unix_ns) == ("new", 2, 5)


@pytest.mark.slow
def test_projects_come_by_model_and_then_the_fastest_first(store):
    keep(
        store,
        invented.measured("m1", engine="slow", latency_ms=9.0),
        invented.measured("m2", engine="fast", latency_ms=1.0),
        invented.measured("m3", engine="z", model_name="a", model_digest="cd" * 32),
        invented.failed("m4"),
    )

    assert [one.engine for one in store.projects()] == ["z", "fast", "slow", "fake-broken"]


@pytest.mark.slow
def test_parameters_are_known_of_models_that_were_profiled(store):
    keep(store, invented.measured("m1"), invented.measured("m2", model_digest="cd" * 32))
    found = profile("p1")
    store.add_profile(replace(found, model_digest="ab" * 32))

    counted = {one.model_digest[:2]: one.counted for one in store.projects()}

    assert found.work is not None
    assert counted == {"ab": ParameterCount(found.work.parameters, found.work.nonzero_parameters), "cd": None}


@pytest.mark.slow
def test_copies_for_other_batches_are_the_project_of_their_original(store):
    original = replace(invented.model(), digest="ab" * 32, name="net")
    copy = replace(
        original, digest="cd" * 32, name="net-batch4", parent_digest=original.digest, derivation=invented.BATCH_4
    )
    pruned = replace(copy, digest="ef" * 32, name="net-pruned", derivation=invented.PRUNED_90)
    for version in (original, copy, pruned):
        store.save_model(version)
    keep(
        store,
        replace(invented.measured("m1"), model_digest=original.digest, model_name="net"),
        replace(invented.measured("m2", batch=4), model_digest=copy.digest, model_name="net-batch4"),
        replace(invented.measured("m3"), model_digest=pruned.digest, model_name="net-pruned"),
    )

    assert [(one.model_digest[:2], one.model_name) for one in store.projects()] == [("ab", "net"), ("ef", "net-pruned")]
    net, _ = store.contenders()
    assert (net.model_digest, net.model_name, net.experiments) == (original.digest, "net", 2)
    assert [one.batch for one in store.experiments(net)] == [1, 4]


def test_a_copy_whose_original_is_not_kept_still_has_its_name(store):
    store.save_model(
        replace(
            invented.model(), digest="cd" * 32, name="net-batch4", parent_digest="ab" * 32, derivation=invented.BATCH_4
        )
    )
    keep(store, replace(invented.measured("m1", batch=4), model_digest="cd" * 32, model_name="net-batch4"))

    assert [(one.model_digest, one.model_name) for one in store.projects()] == [("ab" * 32, "net")]


def test_a_best_that_was_mostly_disturbed_says_so_as_everywhere(store):
    whole = invented.measured("m1")
    noisy = tuple(replace(block, disturbances=(invented.DISTURBANCE,)) for block in whole.blocks)
    keep(store, replace(whole, blocks=noisy))

    (project,) = store.projects()
    assert status_words(project.best) == "ok, disturbed"
    assert any("100% of the time was disturbed" in flag for flag in flags(project.best))
