"""A store with benchmarks and profiles of every kind, and writers that are processes of their own."""

import shutil
import subprocess
import sys

import pytest

import invented
import invented_profiles
from enginebench_controller.store.lake.place import lake_at
from enginebench_controller.store.lake.writing import sync
from enginebench_controller.store.store import Store

_WRITER = """
import os, signal, sys
from pathlib import Path
import deltalake
from enginebench_controller.store.lake.place import lake_at
from enginebench_controller.store.lake.writing import sync

path, lake, dies_after = Path(sys.argv[1]), lake_at(sys.argv[2]), int(sys.argv[3])
write, committed = deltalake.write_deltalake, 0

def counted(*arguments, **named):
    global committed
    write(*arguments, **named)
    committed += 1
    if committed == dies_after:
        os.kill(os.getpid(), signal.SIGKILL)

deltalake.write_deltalake = counted
sync(path, lake)
"""


def fill(store, *ids):
    """Keep a benchmark of each id: one with numbers, one of an open loop, one that failed; with two models."""
    store.save_model(invented.model())
    store.save_model(invented.model("cd" * 32, "child", parent_digest="ab" * 32, derivation=invented.BATCH_4))
    for identity in ids:
        store.add_benchmark(invented.benchmark(identity, f"name of {identity}"), [invented.snapshot()])
        store.add_measurement(
            invented.measured(f"{identity}-m1", identity, noisy=True), invented.samples(f"{identity}-m1")
        )
        timed = invented.measured(f"{identity}-m2", identity, configuration=invented.OPEN_LOOP, model_digest="cd" * 32)
        store.add_measurement(timed, invented.samples(f"{identity}-m2", open_loop=True))
        store.add_measurement(invented.failed(f"{identity}-m3", identity))


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """A store and a lake with all of it, of which each test has copies."""
    folder = tmp_path_factory.mktemp("filled")
    store = Store(folder / "home" / "results.duckdb", timeout_s=30)
    fill(store, "b0000001", "b0000002")
    store.add_profile(invented_profiles.profile(), invented.model())
    sync(store.path, lake_at(str(folder / "lake")))
    return folder


@pytest.fixture(scope="session")
def filled_again(filled, tmp_path_factory):
    """The same after two others have written to the lake, one after the other; the store has what they had."""
    folder = tmp_path_factory.mktemp("again")
    shutil.copytree(filled, folder, dirs_exist_ok=True)
    for identity in ("b0000003", "b0000004"):
        one = Store(folder / identity / "results.duckdb")
        fill(one, identity)
        sync(one.path, lake_at(str(folder / "lake")))
        fill(Store(folder / "home" / "results.duckdb"), identity)
    return folder


def copied(folder, tmp_path):
    """The store and the lake of such a folder, for one test."""
    for name in ("home", "lake"):
        shutil.copytree(folder / name, tmp_path / name)
    return Store(tmp_path / "home" / "results.duckdb", timeout_s=30), lake_at(str(tmp_path / "lake"))


@pytest.fixture
def own(filled, tmp_path):
    shutil.copytree(filled / "home", tmp_path / "home")
    return Store(tmp_path / "home" / "results.duckdb", timeout_s=30)


@pytest.fixture
def lake(tmp_path):
    return lake_at(str(tmp_path / "lake"))


@pytest.fixture
def synced(filled, lake):
    """The lake, with all of the own store in it."""
    shutil.copytree(filled / "lake", lake.url)
    return lake


@pytest.fixture
def writer():
    """Starts a process that synchronizes; it kills itself after so many commits, 0 for none."""
    begun = []

    def start(path, lake, dies_after=0):
        command = [sys.executable, "-c", _WRITER, str(path), lake.url, str(dies_after)]
        begun.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        return begun[-1]

    yield start
    for one in begun:
        one.kill()
        one.communicate()
