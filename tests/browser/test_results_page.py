"""The page over results of real engines. `make screenshot` takes the picture in docs/ of what `make demo` measured.

ENGINEBENCH_DEMO_HOME names a home with a benchmark called "demo"; without it a short one is measured here.
"""

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from browser.drawn import cells, wait_until_drawn
from enginebench_controller.store.store import Store
from integration.bench import Bench

ENGINES = {"onnxruntime", "openvino", "torch"}
"""Those of the environment the tests run in; DeepSparse joins them in a home that has its environment."""


@pytest.fixture(scope="module")
def results_home(tmp_path_factory) -> Path:
    if named := os.environ.get("ENGINEBENCH_DEMO_HOME"):
        return Path(named)
    home = tmp_path_factory.mktemp("results")
    quick = ("--duration", "300ms", "--warmup", "100ms", "--iterations", "20")
    Bench(home).cli("run", "zoo:squeezenet", "--engine", ",".join(sorted(ENGINES)), "--name", "demo", *quick)
    return home


def test_real_results_are_shown_with_what_really_ran(page, results_home, serve_pages, screenshots):
    address = serve_pages(results_home)
    listed = Store(results_home / "results.duckdb").benchmarks()
    benchmark = next(entry.benchmark for entry in listed if entry.benchmark.name == "demo")

    page.goto(f"{address}/benchmark?id={benchmark.id}")
    wait_until_drawn(page)
    page.wait_for_timeout(500)  # the charts fade in
    page.screenshot(path=screenshots / "demo.png", full_page=True)

    expect(page.get_by_role("heading", name="demo")).to_be_visible()
    shown = cells(page)
    assert {name for name in shown if name in ENGINES | {"deepsparse"}} >= ENGINES
    assert "2 (observed)" in shown or "1 (observed)" in shown


def test_the_devices_of_real_engines_are_listed(page, results_home, serve_pages):
    page.goto(f"{serve_pages(results_home)}/targets")

    assert cells(page) >= ENGINES
