"""The pages, one file each: Streamlit calls and nothing else. Streamlit runs them from the top at every interaction."""

from pathlib import Path


def _page(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.py")


PROJECTS = _page("projects")
TARGETS = _page("targets")
NEW_BENCHMARK = _page("new_benchmark")
NEW_PROFILE = _page("new_profile")
JOBS = _page("jobs")
JOB = _page("job")
BENCHMARKS = _page("benchmarks")
BENCHMARK = _page("benchmark")
PROFILES = _page("profiles")
PROFILE = _page("profile")
COMPARE = _page("compare")
LADDERS = _page("ladders")
SEARCH = _page("search")
