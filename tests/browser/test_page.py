"""A real browser over a real store: the pages draw, links work, names stay text, and nothing is fetched from elsewhere.

Screenshots go to the folder that ENGINEBENCH_SCREENSHOTS names, else to the test's own.
"""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect, sync_playwright

import invented
from enginebench_controller.records import Effective, Readback, Source
from enginebench_controller.store.store import Store

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SERVE = "import sys; from pathlib import Path; from enginebench_ui.launch import serve\n"
SERVE += "sys.exit(serve(Path(sys.argv[1]), int(sys.argv[2])))"
HOSTILE = "<img src=x onerror=alert(1)> https://example.com :smile: **b**"
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    store = Store(home / "results.duckdb")
    store.add_benchmark(invented.benchmark("b0000001", "Invented numbers"), [invented.snapshot()])
    bf16 = Effective(precision=Readback("bf16", Source.ENGINE_API), threads=Readback(2, Source.OBSERVED))
    for engine, latency_ms, fields in (
        ("fake", 8.0, {}),
        ("fake-fast", 5.0, {"effective": bf16}),
        ("fake-slow", 15.0, {}),
    ):
        for batch in (1, 4):
            identity = f"{engine}-{batch}"
            store.add_measurement(
                invented.measured(identity, latency_ms=latency_ms * batch**0.9, engine=engine, batch=batch, **fields)
            )
    store.add_measurement(invented.failed("broken"))
    store.add_benchmark(invented.benchmark("b0000002", HOSTILE))
    store.save_snapshot(invented.snapshot())
    return home


@pytest.fixture(scope="module")
def address(home):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", SERVE, home, str(port)], stdout=subprocess.PIPE, text=True)
    assert f":{port}" in process.stdout.readline()
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.communicate(timeout=20)


@pytest.fixture(scope="module")
def browser():
    installed = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    page = browser.new_page(viewport={"width": 1440, "height": 1500})
    page.set_default_timeout(PATIENCE_MS)
    yield page
    page.close()


@pytest.fixture
def screenshots(tmp_path):
    folder = Path(os.environ.get("ENGINEBENCH_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cells(page, role="gridcell"):
    """The texts of the tables. They are painted on a canvas; beneath it stands the same table for screen readers."""
    page.locator(f"[role={role}]").first.wait_for(state="attached")
    return set(page.locator(f"[role={role}]").all_text_contents())


def wait_until_drawn(page):
    """Wait for the table's first cell and for both charts with their legends."""
    cells(page)
    expect(page.locator(".js-plotly-plot .legend")).to_have_count(2, timeout=PATIENCE_MS)


def test_one_benchmark_is_drawn_whole(page, address, screenshots):
    asked = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).netloc))

    page.goto(f"{address}/benchmark?id=b0000001")
    wait_until_drawn(page)
    page.screenshot(path=screenshots / "benchmark.png")

    expect(page.get_by_role("heading", name="Invented numbers")).to_be_visible()
    expect(page.get_by_text("6 ok")).to_be_visible()
    expect(page.get_by_text("1 failed")).to_be_visible()
    expect(page.get_by_text("Not a comparison of equals")).to_be_visible()
    expect(page.get_by_text("was killed by SIGSEGV while it compiled the model")).to_be_visible()
    headings = {"Engine", "Version", "Precision", "Threads", "Median (ms)", "p95 (ms)", "Items/s"}
    assert headings <= cells(page, "columnheader")
    assert {"fake-fast", "bf16 (engine)", "2 (observed)", "crashed, SIGSEGV, in compile"} <= cells(page)
    assert page.locator(".js-plotly-plot .bars .point").count() == 6
    assert {where for where in asked if where} == {urlsplit(address).netloc}


def test_the_list_leads_to_a_benchmark(page, address, screenshots):
    page.goto(address)
    page.get_by_role("link", name="Invented numbers").wait_for()
    page.screenshot(path=screenshots / "benchmarks.png")

    page.get_by_role("link", name="Invented numbers").click()
    wait_until_drawn(page)
    assert page.url == f"{address}/benchmark?id=b0000001"


def test_a_name_from_elsewhere_is_only_text(page, address):
    page.on("dialog", lambda dialog: pytest.fail(f"the page ran a script: {dialog.message}"))

    page.goto(f"{address}/benchmark?id=b0000002")
    heading = page.locator("h1")
    heading.wait_for()

    assert heading.inner_text().replace("\u2060", "") == HOSTILE
    assert page.locator("h1 a, h1 img, h1 strong").count() == 0


def test_targets_and_engines_are_drawn(page, address, screenshots):
    page.goto(f"{address}/targets")
    shown = cells(page)
    page.screenshot(path=screenshots / "targets.png")

    expect(page.get_by_role("heading", name="local")).to_be_visible()
    assert "unavailable: fake-broken is not installed; install it" in shown
