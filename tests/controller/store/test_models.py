"""Model versions come out of the store as they went in, but for their names."""

import invented
from enginebench_controller.store.store import Store


def test_models_keep_their_files_and_parents_and_may_be_renamed(tmp_path):
    store = Store(tmp_path / "results.duckdb", timeout_s=5)
    child = invented.model("ef" * 32, "child", parent_digest="ab" * 32, derivation=invented.INT8)
    store.save_model(invented.model())
    store.save_model(child)
    store.save_model(invented.model(name="renamed"))

    assert store.models() == (invented.model(name="renamed"), child)
