"""(h) The pages over a large store, in a browser: how soon they stand, how soon they answer, and the memory they take.

The store has 1,000 benchmarks, 10 million samples and 1 million layer rows; see big_store.py. The server is warm and
the browser has been there before; nothing that was read is in memory when a page is opened for the first time.
"""

import shutil
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import big_store
from benchmarks.browsing import Browsing, browsing, served
from benchmarks.markdown import markdown_table
from benchmarks.page_cases import CASES, PageCase
from benchmarks.setting import RESULTS, Setting
from enginebench_controller.home import Home

PAINT_LIMIT_S, ANSWER_LIMIT_S, MEMORY_LIMIT_MB = 2.0, 0.5, 500.0
_ROUNDS = 5

Row = Mapping[str, Any]


def measure(setting: Setting) -> list[Row]:
    """A row a page, and one for the memory after all of them."""
    return opened(_big_home(quick=setting.quick), 2 if setting.quick else _ROUNDS)


def opened(home: Home, rounds: int) -> list[Row]:
    """The same rows, of any home that big_store.py filled, or of what `ENGINEBENCH_STORE` names."""
    with served(home.path) as server, browsing(server.url) as browser:
        browser.paint("/targets")
        rows = [_row(browser, case, rounds) for case in CASES]
        return [*rows, {"page": MEMORY, "rss_mb": server.rss_mb()}]


MEMORY = "memory of the server after all of these"


def _big_home(*, quick: bool) -> Home:
    """The large store, made once; a quick run has a smaller one."""
    home = Home(RESULTS / ("small" if quick else "big"))
    if not home.store.path.exists():
        shutil.rmtree(home.path, ignore_errors=True)
        sizes = {"benchmarks": 50, "samples": 100_000, "layer_rows": 10_000} if quick else {}
        big_store.make(home, **sizes)
    return home


def _row(browser: Browsing, case: PageCase, rounds: int) -> Row:
    paints = [browser.paint(case.address) for _ in range(rounds)]
    answers = {one.name: [browser.answer(one, place) for place in range(rounds)] for one in case.interactions}
    row = {
        "page": case.name,
        "address": case.address,
        "first_s": [paint.first_s for paint in paints],
        "whole_s": [paint.whole_s for paint in paints],
        "answers_s": answers,
    }
    print(f"  {'  '.join(_cells(row))}", flush=True)
    return row


def table(rows: Sequence[Row]) -> str:
    """Medians of the rounds, the first opening apart, and whether all keep within their limits."""
    return markdown_table(
        (
            "page",
            "first paint",
            "whole page",
            "opened first",
            f"< {PAINT_LIMIT_S:g} s",
            "slowest answer",
            "",
            f"< {ANSWER_LIMIT_S:g} s",
        ),
        map(_cells, rows),
    )


def _cells(row: Row) -> Sequence[str]:
    if row["page"] == MEMORY:
        verdict = "yes" if row["rss_mb"] < MEMORY_LIMIT_MB else "no"
        return row["page"], f"{row['rss_mb']:.0f} MB", "", "", "", "", f"< {MEMORY_LIMIT_MB:.0f} MB", verdict
    first, whole = statistics.median(row["first_s"]), statistics.median(row["whole_s"])
    answers = {name: statistics.median(each) for name, each in row["answers_s"].items()}
    slowest = max(answers, key=lambda name: answers[name], default=None)
    told = (
        ("–", "–", "–")
        if slowest is None
        else (slowest, _seconds(answers[slowest]), _verdict(answers[slowest], ANSWER_LIMIT_S))
    )
    return (
        row["page"],
        _seconds(first),
        _seconds(whole),
        _seconds(row["whole_s"][0]),
        _verdict(max(first, row["first_s"][0]), PAINT_LIMIT_S),
        *told,
    )


def _seconds(value: float) -> str:
    return f"{value:.2f} s"


def _verdict(value: float, limit: float) -> str:
    return "yes" if value < limit else "no"
