"""What a comparison looks like in a file: HTML for people, Markdown and JUnit XML for CI.

Each function returns the whole text; names of others are escaped for where they stand.
"""

from collections.abc import Callable
from dataclasses import dataclass

from enginebench_controller.comparing.gate import Check
from enginebench_controller.comparing.reports.benchmarks import benchmark_html, benchmark_markdown
from enginebench_controller.comparing.reports.junit import junit
from enginebench_controller.comparing.reports.profile_page import profile_html
from enginebench_controller.comparing.reports.profile_summary import profile_markdown


@dataclass(frozen=True)
class Contents:
    """The texts of the files that can be written of one comparison, each made when asked for, and its checks."""

    checks: tuple[Check, ...]
    html: Callable[[], str]
    markdown: Callable[[], str]
    junit: Callable[[], str]


__all__ = ["Contents", "benchmark_html", "benchmark_markdown", "junit", "profile_html", "profile_markdown"]
