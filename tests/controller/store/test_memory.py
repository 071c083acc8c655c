"""Storing takes little memory, however many samples there are."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
ALLOWED_MB = 40
"""Ten million samples take 25 to 29 MB and thirty million 32 MB; as one list a block, ten million took 400 MB."""

ALLOWED_A_STORING_MB = 22
"""Of 64 results it takes 14 to 16 MB; 26 in each 32nd with DuckDB's own groups of rows, and ever more later."""

STORING = """
    import sys, invented
    from pathlib import Path
    import numpy as np
    from enginebench_controller.records import BlockSamples
    from enginebench_controller.store.store import Store

    def memory_mb(field):
        status = Path("/proc/self/status").read_text()
        return int(status.split(field + ":")[1].split()[0]) / 1024

    def blocks():
        latency_ns = np.random.default_rng(0).integers(1_000_000, 9_000_000, 100_000)
        for index in range(100):
            yield BlockSamples(0, index, np.roll(latency_ns, index))

    store = Store(Path(sys.argv[1]))
    store.add_benchmark(invented.benchmark())
    store.add_measurement(invented.measured("m1"), invented.samples("m1"))
    Path("/proc/self/clear_refs").write_text("5")
    before = memory_mb("VmRSS")
    store.add_measurement(invented.measured("m2"), blocks())
    print(memory_mb("VmHWM") - before, store.samples("m2").size)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_samples(tmp_path):
    grown_mb, stored = _run(STORING, tmp_path).split()
    assert int(stored) == 10_000_000
    assert float(grown_mb) < ALLOWED_MB


STORING_OFTEN = """
    import ctypes, sys, invented
    from pathlib import Path
    from enginebench_controller.store.store import Store

    def memory_mb(field):
        status = Path("/proc/self/status").read_text()
        return int(status.split(field + ":")[1].split()[0]) / 1024

    ctypes.CDLL(None).mallopt(-1, 1 << 16)  # M_TRIM_THRESHOLD, as the command sets it
    store = Store(Path(sys.argv[1]))
    store.add_benchmark(invented.benchmark())
    most = 0
    for turn in range(40):
        some = [f"m{turn}-{number}" for number in range(64)]
        results = [(invented.measured(one), invented.samples(one)) for one in some]
        Path("/proc/self/clear_refs").write_text("5")
        before = memory_mb("VmRSS")
        store.add_measurements(results)
        most = max(most, memory_mb("VmHWM") - before) if turn else 0
    print(most)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_results(tmp_path):
    assert float(_run(STORING_OFTEN, tmp_path)) < ALLOWED_A_STORING_MB


def _run(program: str, folder: Path) -> str:
    # A file of its own: of what `-c` gets DuckDB thinks that a person types it, and shows how far a query is.
    (folder / "program.py").write_text(textwrap.dedent(program))
    return subprocess.run(
        [sys.executable, folder / "program.py", folder / "results.duckdb"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    ).stdout
