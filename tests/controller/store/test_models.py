"""Model versions come out of the store as they went in, or as their owner knew them last."""

import invented
from enginebench_controller.store.store import BenchmarkBundle, Store


def test_models_keep_their_files_and_parents_and_may_be_renamed(tmp_path):
    store = Store(tmp_path / "results.duckdb", timeout_s=5)
    child = invented.model("ef" * 32, "child", parent_digest="ab" * 32, derivation=invented.INT8)
    store.save_model(invented.model())
    store.save_model(child)
    store.save_model(invented.model(name="renamed"))

    assert store.models() == (invented.model(name="renamed"), child)


def test_what_an_import_says_of_a_version_holds_until_it_is_ones_own(tmp_path):
    store = Store(tmp_path / "results.duckdb", timeout_s=5)
    own = invented.model(name="mine")
    told = invented.model(parent_digest="ef" * 32, derivation=invented.INT8)
    bundle = BenchmarkBundle(invented.benchmark(imported=True), (), (), models=(told,))

    store.add_bundles([bundle])
    assert store.models() == (told,)
    store.save_model(own)
    assert store.models() == (own,)
    store.add_bundles([bundle])
    assert store.models() == (own,)
