"""The pages, one file each: Streamlit calls and nothing else. Streamlit runs them from the top at every interaction."""

from pathlib import Path

BENCHMARKS = Path(__file__).with_name("benchmarks.py")
BENCHMARK = Path(__file__).with_name("benchmark.py")
TARGETS = Path(__file__).with_name("targets.py")
