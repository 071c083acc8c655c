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
    outcome = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(STORING), str(tmp_path / "results.duckdb")],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )

    grown_mb, stored = outcome.stdout.split()
    assert int(stored) == 10_000_000
    assert float(grown_mb) < ALLOWED_MB
