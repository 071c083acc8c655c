"""A real browser over a store of invented numbers: failures are told, links work, names from elsewhere stay text."""

import pytest
from playwright.sync_api import expect

import invented
from browser.drawn import charts, expect_cells, go, settled
from enginebench_controller.records import Effective, Readback, ReadbackSource
from enginebench_controller.store.store import Store

pytestmark = pytest.mark.xdist_group("page")  # one worker has the browser and the server for all of them

HOSTILE = "<img src=x onerror=alert(1)> https://example.com :smile: **b**"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    store = Store(home / "results.duckdb")
    store.add_benchmark(invented.benchmark("b0000001", "Invented numbers"), [invented.snapshot()])
    bf16 = Effective(
        precision=Readback("bf16", ReadbackSource.ENGINE_API), threads=Readback(2, ReadbackSource.OBSERVED)
    )
    for engine, fastest_ms, fields in (
        ("fake", 8.0, {}),
        ("fake-fast", 5.0, {"effective": bf16}),
        ("fake-slow", 15.0, {}),
    ):
        for batch in (1, 4):
            identity, latency_ms = f"{engine}-{batch}", fastest_ms * batch**0.9
            measurement = invented.measured(identity, latency_ms=latency_ms, engine=engine, batch=batch, **fields)
            store.add_measurement(measurement, invented.samples(identity, latency_ms=latency_ms))
    store.add_measurement(invented.failed("broken"))
    store.add_benchmark(invented.benchmark("b0000002", HOSTILE))
    store.save_snapshot(invented.snapshot())
    return home


@pytest.fixture(scope="module")
def pages(home, serve_pages):
    return serve_pages(home)


def test_one_benchmark_is_drawn_whole(open_page, pages):
    page = go(open_page(width=2000), pages, "benchmark?id=b0000001")
    charts(page, 2)

    expect(page.get_by_role("heading", name="Invented numbers")).to_be_visible()
    expect(page.get_by_text("6 ok")).to_be_visible()
    expect(page.get_by_text("1 failed")).to_be_visible()
    expect(page.get_by_text("Not a comparison of equals").first).to_be_visible()
    expect(page.get_by_text("was killed by SIGSEGV while it compiled the model").first).to_be_visible()
    headings = {"Engine", "Version", "Precision", "Threads", "Median (ms)", "p95 (ms)", "Items/s"}
    expect_cells(page, headings, "columnheader")
    expect_cells(page, {"fake-fast", "bf16 (engine)", "2 (observed)", "crashed, SIGSEGV, in compile"})


def test_the_list_leads_to_a_benchmark(page, pages):
    go(page, pages, "benchmarks")
    page.get_by_role("link", name="Invented numbers").click()
    settled(page)
    charts(page, 2)
    assert page.url == f"{pages.address}/benchmark?id=b0000001"


def test_a_name_from_elsewhere_is_only_text(page, pages):
    page.on("dialog", lambda dialog: pytest.fail(f"the page ran a script: {dialog.message}"))

    go(page, pages, "benchmark?id=b0000002")
    heading = page.locator("h1")

    assert heading.inner_text().replace("\u2060", "") == HOSTILE
    assert page.locator("h1 a, h1 img, h1 strong").count() == 0


def test_a_page_stands_before_its_server_has_been_asked_whether_it_is_there(page, pages):
    page.route("**/_stcore/h*", lambda _: None)  # health and host-config: never answered

    page.goto(f"{pages.address}/targets")

    expect(page.get_by_role("heading", name="Targets and engines")).to_be_visible()


def test_targets_and_engines_are_drawn(page, pages):
    go(page, pages, "targets")

    expect(page.get_by_role("heading", name="local")).to_be_visible()
    expect_cells(page, {"fake", "1.0"})
    page.get_by_text("1 engine unavailable, and why").click()
    expect_cells(page, {"fake-broken is not installed; install it"})
