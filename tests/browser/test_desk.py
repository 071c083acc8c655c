"""What holds for every view: the answer above the fold, nothing hidden sideways on a phone, nothing that axe minds."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from browser.drawn import settled
from browser.screens import screens
from enginebench_controller.home import Home

pytestmark = [pytest.mark.xdist_group("pages"), pytest.mark.slow, pytest.mark.timeout(900)]

LOOKS = [(1440, 900, "light"), (390, 844, "dark"), (1440, 900, "dark"), (390, 844, "light")]
OF_RESULTS = ("home", "benchmark-", "profile-", "compare-", "ladders", "search")
"""Views, by how their names begin, that people open for an answer or a chart."""
LEAST_SEEN_PX = 60

# An answer, a verdict, a chart: how many pixels of the tallest of each are above the fold.
SEEN_PX = """() => Math.max(0, ...Array.from(
    document.querySelectorAll('.st-key-answer, .st-key-verdict, .js-plotly-plot, [data-testid=stMetric]'))
    .filter(each => each.checkVisibility())
    .map(each => each.getBoundingClientRect())
    .map(box => Math.min(box.bottom, window.innerHeight) - Math.max(box.top, 0)))"""

# Boxes that are wider inside than outside. Those of a table are for people who look at it in spite of its cards.
SIDEWAYS = """() => Array.from(document.querySelectorAll('[data-testid=stMain] *'))
    .filter(each => each.checkVisibility() && each.clientWidth && each.scrollWidth > each.clientWidth + 1)
    .filter(each => ['auto', 'scroll'].includes(getComputedStyle(each).overflowX))
    .filter(each => !each.closest('[data-testid=stDataFrame], [data-testid=stTabs] [role=tablist], pre, code'))
    .map(each => `${each.tagName} ${each.dataset.testid || each.className} ${each.textContent.slice(0, 60)}`)"""

# Tables whose facts stand nowhere else: without cards beside them, on a phone.
TABLES_ALONE = """() => Array.from(document.querySelectorAll('[data-testid=stDataFrame]'))
    .filter(each => each.checkVisibility())
    .filter(each => !each.closest('[data-testid=stLayoutWrapper], [data-testid=stVerticalBlock]')
        .parentElement.querySelector('.eb-cards'))
    .map(each => each.getAttribute('aria-label') || each.textContent.slice(0, 80))"""

IN_STREAMLIT = {
    "aria-allowed-attr",
    "aria-input-field-name",
    "aria-required-children",
    "aria-valid-attr-value",
    "button-name",
    "label",
    "nested-interactive",
    "scrollable-region-focusable",
}


@pytest.fixture
def views(real_home):
    return screens(Home(real_home))


@pytest.mark.parametrize(("width", "height", "scheme"), LOOKS)
def test_axe_finds_nothing_serious_in_what_is_ours(views, real_pages, open_page, width, height, scheme):
    page, axe = open_page(width=width, height=height, color_scheme=scheme), Axe()
    wrong = {}
    for name, address in views.items():
        page.goto(f"{real_pages.address}/{address}")
        settled(page)
        found = axe.run(page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        for one in serious:
            for node in one["nodes"]:
                wrong.setdefault((one["id"], str(node["target"])[:120]), (name, node["html"][:160]))
    assert wrong == {}


def test_the_answer_or_the_main_chart_is_above_the_fold(views, real_pages, open_page):
    page = open_page(width=1440, height=900)
    hidden = {}
    for name, address in views.items():
        if name.startswith(OF_RESULTS):
            page.goto(f"{real_pages.address}/{address}")
            settled(page)
            if (seen_px := page.evaluate(SEEN_PX)) < LEAST_SEEN_PX:
                hidden[name] = seen_px
    assert hidden == {}


def test_on_a_phone_every_fact_is_reached_without_scrolling_sideways(views, real_pages, open_page):
    page = open_page(width=390, height=844)
    wrong = {}
    for name, address in views.items():
        page.goto(f"{real_pages.address}/{address}")
        settled(page)
        if found := [*page.evaluate(SIDEWAYS), *page.evaluate(TABLES_ALONE)]:
            wrong[name] = found[:4]
    assert wrong == {}
