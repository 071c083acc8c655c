"""`python -m benchmarks.fuzzing`: the recorded run of all fuzzed targets; its counts go to the page of reliability.

Nothing is written unless every one of them passes.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.markdown import fill, markdown_table
from enginebench_plugins.toolkit.engine import processor_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "reliability.md"
TESTS = (
    "tests/agent/test_fuzz_messages.py",
    "tests/agent/test_fuzz_models.py",
    "tests/agent/runs/test_run_machine.py",
    "tests/controller/models/formats/test_fuzz_models.py",
    "tests/controller/models/inputs/test_fuzz_inputs.py",
    "tests/controller/files/test_fuzz_imports.py",
    "tests/controller/store/test_store_machine.py",
)
AT_ONCE = 4
"""Processes: many wait for agents and disks."""

THROUGH_AN_AGENT = "agent: "
"""How the names of targets begin whose inputs a real agent got."""


def main() -> None:
    """Run everything, print the table, and put it on its page. Raises `CalledProcessError` where a test fails."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        variables = os.environ | {"ENGINEBENCH_FUZZ": "recorded", "ENGINEBENCH_FUZZ_COUNTS": folder}
        command = [sys.executable, "-m", "pytest", "-n", str(AT_ONCE), "--timeout", "3600", *TESTS]
        subprocess.run(command, check=True, cwd=ROOT, env=variables)
        parts = [Counter(json.loads(file.read_text(encoding="utf-8"))) for file in Path(folder).iterdir()]
    text = _report(sum(parts, Counter[str]()), time.perf_counter() - begin)
    print(text)
    fill(PAGE, "fuzzing", text)


def _report(counts: Counter[str], seconds: float) -> str:
    """A table of the targets, and what they come to. Every test asserts what is told as 0, and has passed."""
    table = markdown_table(("target", "inputs"), [(target, f"{number:,}") for target, number in sorted(counts.items())])
    agents = sum(number for target, number in counts.items() if target.startswith(THROUGH_AN_AGENT))
    return (
        f"{table}\n\n{counts.total():,} inputs in {seconds / 60:.0f} minutes, {agents:,} of them through a real agent: "
        f"agent deaths 0, planted secrets read 0, undocumented statuses 0, tracebacks 0. "
        f"{datetime.now(UTC):%Y-%m-%d}, {processor_name()}."
    )


if __name__ == "__main__":
    main()
