"""The pages, a folder each, and where Streamlit finds them.

What two pages need is in `shared`; no page imports another. Streamlit runs a page.py from the top at every interaction,
as `__main__`: nobody imports one, and none holds a class.
"""

from collections.abc import Mapping
from pathlib import Path

from enginebench_controller.records import SearchKind


def _page(name: str) -> Path:
    return Path(__file__).with_name(name) / "page.py"


HOME = _page("home")
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
RECOMMEND = _page("recommend")
BISECT = _page("bisect")
SEARCH = _page("search")

OF_SEARCH: Mapping[SearchKind, Path] = {SearchKind.RECOMMEND: RECOMMEND, SearchKind.BISECT: BISECT}
