"""A walk over the pages, with real results of all engines: what a person does there, and what then stands there."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from browser.drawn import charts, choose, expect_cells, go, grid, press, rows, settled, switch, tick
from browser.real_runs import BASELINE, GRID, QUANTIZED
from browser.screens import screens
from enginebench_controller.home import Home
from enginebench_ui import pages

pytestmark = [pytest.mark.xdist_group("pages"), pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def views(real_home):
    return screens(Home(real_home))


def test_the_sidebar_leads_to_every_page(page, real_pages):
    go(page, real_pages, "")
    links = page.get_by_test_id("stSidebarNav").get_by_role("link").all_inner_texts()
    names = [link.splitlines()[-1] for link in links]  # the icon before it is a word, too
    hidden = {pages.BENCHMARK, pages.PROFILE, pages.JOB}
    assert len(names) == sum(isinstance(one, Path) for one in vars(pages).values()) - len(hidden)
    for name in names:
        page.get_by_test_id("stSidebarNav").get_by_role("link", name=name, exact=True).click()
        expect(page).to_have_title(re.compile(re.escape(name)))
        settled(page)
        assert page.locator("h1").count() == 1


def test_on_a_phone_the_sidebar_opens_and_closes_behind_the_page_that_was_chosen(open_page, real_pages):
    page = go(open_page(width=390, height=844), real_pages, "")
    expect(page.get_by_test_id("stSidebarNav")).not_to_be_in_viewport()
    page.get_by_test_id("stExpandSidebarButton").click()
    page.get_by_test_id("stSidebarNav").get_by_role("link", name="Compare", exact=True).click()
    expect(page).to_have_title(re.compile("Compare"))
    settled(page)


# Words of what is pressed that do not fit into it.
CUT_OFF = """() => Array.from(document.querySelectorAll('[data-testid=stMain] :is(a, button, label) *'))
    .filter(each => each.checkVisibility() && each.clientWidth && each.textContent.trim())
    .filter(each => each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX === 'hidden')
    .map(each => each.textContent)"""


def test_in_a_narrow_window_beside_the_sidebar_no_word_is_cut_off(open_page, real_pages, views):
    page = open_page(width=900, height=1000)
    found = {
        name: go(page, real_pages, views[name]).evaluate(CUT_OFF)
        for name in ("home", "targets", "compare-summary", "new-benchmark", "recommend", "benchmark-baseline")
    }
    assert {name: cut for name, cut in found.items() if cut} == {}


def test_home_tells_what_was_measured_last_and_leads_on(page, real_pages):
    go(page, real_pages, "")
    expect(page.locator(".st-key-answer")).to_be_visible()
    expect(page.get_by_role("heading", name="Targets")).to_be_visible()
    page.get_by_role("link", name="Measure something").click()
    expect(page.get_by_role("heading", name="New benchmark")).to_be_visible()


def test_a_cell_of_the_matrix_opens_its_baseline(page, real_pages, views):
    go(page, real_pages, views["benchmark-cores"])
    cell = page.get_by_role("button", name=re.compile("^torch .*batch 2, 1 core:"))
    cell.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=re.compile("^Batch 2 on 1 core: torch"))).to_be_visible()
    settled(page)
    assert {"batch=2", "cores=1"} <= set(re.split("[?&]", page.url))
    assert "view=" not in page.url
    expect(page.locator("[aria-current=true]")).to_have_count(1)


def test_a_benchmark_is_found_and_its_scaling_seen(page, real_pages):
    go(page, real_pages, "benchmarks")
    page.get_by_placeholder("Name, id, model, engine or target").fill("side by")
    page.keyboard.press("Enter")
    expect(page.get_by_text(re.compile(r"^1 of \d+ benchmarks"))).to_be_visible()
    settled(page)  # the number is there before the old list has gone
    page.get_by_role("link", name=GRID).click()
    settled(page)
    charts(page, 2)
    expect_cells(page, {"onnxruntime", "openvino", "torch"})

    switch(page, "Core scaling")
    charts(page, 2)  # of one item, its time is that of the batch
    assert "view=cores" in page.url
    expect(page.get_by_text(re.compile("with twice the cores"))).to_be_visible()
    choose(page, "Batch", "2")
    charts(page, 3)
    assert "batch=2" in page.url
    expect_cells(page, {"Speed-up", "Efficiency (%)"}, "columnheader")

    switch(page, "Batch size scaling")
    charts(page, 3)
    choose(page, "Cores", "1")
    choose(page, "Based on", "torch")
    assert {"view=batches", "cores=1"} <= set(re.split("[?&]", page.url))

    expect(page.get_by_role("combobox", name=re.compile("Based on"))).to_have_value(re.compile("torch"))


def unfold(page):
    """Open what is folded once both sides of a comparison are chosen."""
    page.get_by_text("What is compared").click()
    return settled(page)


def test_a_threshold_moves_the_sweet_spot(open_page, real_pages, views):
    page = open_page(width=2000)  # what a table has further to the right is not in the page
    go(page, real_pages, views["compare-setup"].replace("&t=20", ""))
    unfold(page)
    expect(page.get_by_text(re.compile("sweet spot, which"))).to_have_count(0)

    points = rows(grid(page, "Experiments of project A"))
    by_latency = sorted(points, key=lambda one: float(one["Median (ms)"]))
    for threshold_ms in (float(by_latency[-1]["Median (ms)"]) + 1, float(by_latency[0]["Median (ms)"])):
        within = [one for one in points if float(one["Median (ms)"]) <= threshold_ms]
        best = max(within, key=lambda one: float(one["Items/s"]))
        set_threshold(page, threshold_ms)
        (spot,) = [one for one in rows(grid(page, "Experiments of project A")) if "sweet spot" in one["Point"]]
        assert spot["Items/s"] == best["Items/s"]
    set_threshold(page, 0.001)
    assert not [one for one in rows(grid(page, "Experiments of project A")) if "sweet spot" in one["Point"]]
    expect(page.get_by_text(re.compile("A has no sweet spot")).first).to_be_visible()


def set_threshold(page, milliseconds):
    field = page.get_by_role("spinbutton", name="Latency threshold (ms)")
    field.fill(f"{milliseconds:.3f}")
    field.press("Enter")
    page.wait_for_timeout(200)
    settled(page)
    expect(field).to_have_value(f"{milliseconds:.3f}")


def test_a_selected_row_is_the_point_and_its_mark_takes_it_off_the_chart(page, real_pages, views):
    go(page, real_pages, views["compare-setup"])
    unfold(page)
    table = grid(page, "Experiments of project A")
    other = next(place for place, one in enumerate(rows(table)) if not one["Point"].startswith("A"))
    tick(page, table, other)
    for _ in range(50):  # first the table hears of it, then the page
        if rows(grid(page, "Experiments of project A"))[other]["Point"].startswith("A"):
            break
        page.wait_for_timeout(100)
    assert rows(grid(page, "Experiments of project A"))[other]["Point"].startswith("A")
    assert "ea=" in page.url

    tick(page, grid(page, "Experiments of project A"), other, x_px=60)
    assert "off=" in page.url
    expect(page.get_by_text(re.compile("^A has no point")).first).to_be_visible()


def test_the_verdict_of_a_comparison_stays_in_sight(page, real_pages, views):
    go(page, real_pages, views["compare-summary"])
    verdict = page.locator(".st-key-verdict")
    # Of one process each, as tests measure, not every pair tells.
    expect(verdict).to_contain_text(re.compile("× as long as A|cannot be told"))
    page.evaluate("document.querySelector('[data-testid=stMain]').scrollTo(0, 1e6)")
    expect(verdict).to_be_in_viewport(ratio=1)


def test_an_unticked_type_leaves_the_chart_and_the_shares_stay(page, real_pages, views):
    go(page, real_pages, views["compare-summary"])
    table = grid(page, "Layer types")
    before = rows(table)
    bars = page.locator("[data-testid=stPlotlyChart]").last.locator(".bars .point")
    expect(bars.first).to_be_attached()
    drawn = bars.count()

    tick(page, table, 0, x_px=35)
    assert "without=" in page.url
    expect(bars).to_have_count(drawn - 2)
    assert [one["A (%)"] for one in rows(table)] == [one["A (%)"] for one in before]


def test_a_layer_that_b_did_not_execute_is_found_and_said_so(page, open_page, real_pages, views):
    go(page, real_pages, views["compare-kernels"])
    choose(page, "Filter by", "time B")
    choose(page, "Condition", "not executed")
    press(page, "Add filter")
    table = grid(page, "Layers of A and B")
    found = rows(table)
    assert found and all(one["Time B (ms)"] in ("", "–", "None") for one in found)

    tick(page, table, 0)
    expect(page.get_by_text(re.compile("^This layer was not executed in B")).first).to_be_visible()
    page.get_by_role("tab", name="Fusing").click()
    settled(page)

    shared = go(open_page(), real_pages, page.url.removeprefix(f"{real_pages.address}/"))
    expect(shared.get_by_text(re.compile("^This layer was not executed in B")).first).to_be_visible()
    assert rows(grid(shared, "Layers of A and B")) == found


def test_two_projects_are_ticked_and_compared(page, real_pages):
    go(page, real_pages, "projects")
    for row in (0, 2):
        tick(page, grid(page, "Projects"), row)
    models = [rows(grid(page, "Projects"))[row]["Model"] for row in (0, 2)]
    press(page, "Compare")
    expect(page.get_by_role("heading", name="Compare")).to_be_visible()
    unfold(page)
    for letter, model in zip("AB", models, strict=True):
        expect(page.get_by_role("combobox", name=re.compile(f"Project {letter}"))).to_have_value(re.compile(model))


def test_a_profile_is_read_from_its_summary_down_to_a_layer(page, real_pages):
    go(page, real_pages, "profiles")
    listed = rows(grid(page))
    place = next(place for place, one in enumerate(listed) if one["Name"] == BASELINE and "openvino" in one["Engine"])
    tick(page, grid(page), place)
    expect(page.get_by_role("heading", name=BASELINE)).to_be_visible()
    charts(page, 1)

    page.get_by_role("tab", name="Layer results").click()
    settled(page)
    choose(page, "Figure", "FLOPS")
    switch(page, "Log")
    switch(page, "Bars")
    tick(page, page.locator("[data-testid=stDataFrame]").last, 2)
    expect(page.get_by_text("No layer is selected")).to_have_count(0)
    for name in ("Roofline", "Pruning", "Advice"):
        page.get_by_role("tab", name=name).click()
        settled(page)
    choose(page, "Performance profile of this model", "FLOPS")
    expect(page.get_by_text("nothing was run")).to_be_visible()


def test_quantized_layers_are_listed_with_their_precision(page, real_pages):
    go(page, real_pages, "profiles?q=quantized")
    names = {one["Name"] for one in rows(grid(page))}
    assert names == {QUANTIZED}


def test_a_ladder_shows_speeds_and_what_is_not_available(page, real_pages):
    go(page, real_pages, "ladders")
    charts(page, 2)
    expect(page.get_by_text(re.compile("^not available")).first).to_be_visible()
    switch(page, "latency")
    assert "bars=latency" in page.url
    expect_cells(page, {"Throughput (FPS)", "First inference (ms)"}, "columnheader")


def test_a_recommendation_is_read_and_used(page, real_pages, views):
    go(page, real_pages, views["recommend"])
    charts(page, 1)
    expect(page.locator(".st-key-answer")).to_contain_text(re.compile("batch"))
    expect_cells(page, {"the best"})
    with page.expect_download() as download:
        page.get_by_role("button", name="Plan").click()
    assert "models" in Path(download.value.path()).read_text()
    page.get_by_role("link", name="Use it").click()
    expect(page.get_by_role("heading", name="New benchmark")).to_be_visible()
    settled(page)
    expect(page.get_by_text("What this comes to")).to_be_visible()
    expect(page.locator("[data-testid=stMetric]").first).to_contain_text("1")


def test_the_way_of_a_bisect_is_a_line_and_on_a_phone_a_list(page, open_page, real_pages, views):
    go(page, real_pages, views["bisect"])
    steps = page.locator(".eb-way li")
    expect(steps.first).to_contain_text("good")
    tops = {round(each.bounding_box()["y"]) for each in steps.all()}
    assert len(tops) == 1
    narrow = go(open_page(width=390, height=844), real_pages, views["bisect"])
    tops = {round(each.bounding_box()["y"]) for each in narrow.locator(".eb-way li").all()}
    assert len(tops) == steps.count() > 1


def test_a_question_in_sql_is_answered_drawn_and_saved(page, real_pages, tmp_path):
    go(page, real_pages, "search")
    press(page, "Which engine is the fastest for each model?")
    charts(page, 1)
    assert "sql=" in page.url
    switch(page, "table")
    assert len(rows(grid(page))) >= 3
    with page.expect_download() as download:
        page.get_by_test_id("stDownloadButton").click()
    download.value.save_as(tmp_path / "answer.csv")
    assert (tmp_path / "answer.csv").read_text().count("\n") > 3

    editor = page.get_by_label("SQL")
    editor.fill("DROP TABLE measurements")
    editor.press("Control+Enter")
    settled(page)
    expect(page.locator("[data-testid=stAlertContentError]")).to_be_visible()


def test_targets_show_engines_devices_and_peaks(page, real_pages):
    go(page, real_pages, "targets")
    expect_cells(page, {"onnxruntime", "openvino", "torch"})
    charts(page, 2)
    press(page, "Check health")
    expect(page.get_by_role("heading", name="local")).to_be_visible()
