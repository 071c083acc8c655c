"""Processes share one file: nobody's acknowledged work is lost, and nobody is locked out for long."""

import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

import invented
from enginebench_controller.errors import StoreError
from enginebench_controller.store.store import Store

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results.duckdb", timeout_s=20)
    store.add_benchmark(invented.benchmark())
    return store


def start(program, *arguments):
    """Another process with `store` and `invented` at hand; its output is text, line by line."""
    opening = "import sys, invented; from pathlib import Path; from enginebench_controller.store.store import Store\n"
    return subprocess.Popen(
        [sys.executable, "-c", opening + textwrap.dedent(program), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )


WRITER = """
    store = Store(Path(sys.argv[1]))
    for number in range(int(sys.argv[3])):
        name = f"{sys.argv[2]}{number}"
        store.add_measurement(invented.measured(name, iterations=50), invented.samples(name, iterations=50))
        print(name, flush=True)
"""

READER = """
    store = Store(Path(sys.argv[1]))
    for _ in range(15):
        bundle = store.bundle("b0000001")
        for one in bundle.measurements:
            stored = sum(block.latency_ns.size for block in bundle.samples[one.id])
            assert stored == one.latency.samples, one.id
    print("consistent")
"""


@pytest.mark.fault(17)
def test_two_writers_and_a_reader_get_along(store):
    writers = [start(WRITER, store.path, name, 12) for name in ("a", "b")]
    reader = start(READER, store.path)

    acknowledged = [line for writer in writers for line in writer.communicate(timeout=60)[0].split()]
    assert reader.communicate(timeout=60)[0] == "consistent\n"
    assert [process.returncode for process in (*writers, reader)] == [0, 0, 0]
    assert {one.id for one in store.measurements("b0000001")} == set(acknowledged)
    assert len(acknowledged) == 24


@pytest.mark.fault(17)
def test_what_was_acknowledged_survives_a_kill_in_the_middle(store):
    for round_ in range(3):
        writer = start(WRITER, store.path, f"r{round_}-", 1000)
        acknowledged = [writer.stdout.readline().strip() for _ in range(5)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += writer.communicate(timeout=30)[0].split()

        stored = {one.id: store.samples(one.id) for one in store.measurements("b0000001")}
        assert set(acknowledged) <= set(stored)
        assert all(samples_ns.size == 50 for samples_ns in stored.values())
        name = f"after{round_}"
        assert store.add_measurement(invented.measured(name, iterations=50), invented.samples(name, iterations=50))


def test_threads_of_one_process_share_a_store_too(store):
    with ThreadPoolExecutor(4) as pool:
        stored = list(pool.map(lambda n: store.add_measurement(invented.measured(f"m{n}", iterations=3)), range(12)))
        read = list(pool.map(lambda _: len(store.measurements("b0000001")), range(4)))

    assert stored == [True] * 12
    assert read == [12] * 4


@pytest.mark.fault(17)
def test_a_program_that_holds_the_file_open_is_named(store):
    holder = start(
        "import duckdb; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()", store.path
    )
    try:
        holder.stdout.readline()
        impatient = Store(store.path, timeout_s=0.3)
        for use in (impatient.benchmarks, lambda: impatient.add_benchmark(invented.benchmark("b2"))):
            with pytest.raises(StoreError, match=rf"held open by process {holder.pid}.*close that program"):
                use()
    finally:
        holder.kill()
        holder.communicate()
    assert len(store.benchmarks()) == 1


def test_a_store_waits_for_a_program_that_lets_go(store):
    holder = start(
        "import duckdb, time; held = duckdb.connect(sys.argv[1]); print('held', flush=True); time.sleep(1)", store.path
    )
    holder.stdout.readline()

    assert store.add_measurement(invented.measured("m1"))
    assert holder.wait(10) == 0


@pytest.mark.fault(17)
def test_a_gate_that_stays_closed_is_a_sentence(store):
    holder = start(
        """
        from filelock import FileLock
        with FileLock(sys.argv[1] + ".lock"):
            print("held", flush=True)
            sys.stdin.read()
        """,
        store.path,
    )
    try:
        holder.stdout.readline()
        with pytest.raises(StoreError, match=r"in use by another enginebench process for 0\.3 s"):
            Store(store.path, timeout_s=0.3).benchmarks()
    finally:
        holder.kill()
        holder.communicate()


def test_nothing_is_held_between_calls(store):
    store.benchmarks()

    with duckdb.connect(store.path) as other:
        assert other.execute("SELECT count(*) FROM benchmarks").fetchall() == [(1,)]
