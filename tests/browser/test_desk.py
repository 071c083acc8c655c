"""What holds for every view: the answer above the fold, nothing hidden sideways on a phone, nothing that axe minds."""

import colorsys

import pytest
from axe_playwright_python.sync_playwright import Axe

from browser.drawn import settled
from browser.screens import screens
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.home import Home

pytestmark = [pytest.mark.xdist_group("pages"), pytest.mark.slow, pytest.mark.timeout(900)]

LOOKS = [(1440, 900, "light"), (390, 844, "dark"), (1440, 900, "dark"), (390, 844, "light")]
OF_RESULTS = ("home", "benchmark-", "profile-", "compare-", "ladders", "recommend", "bisect", "search")
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
    # Headings of sections stand in the list of pages as its items; their role is not said.
    ("list", "stSidebarNavItems"),
    ("listitem", "stSidebarNavItems"),
}
"""Rules that Streamlit's own widgets break, with the widget: the list may become shorter, and not longer."""

# The widget that an element belongs to; targets within a shadow root are lists.
WIDGET = """target => {
    let place = document;
    for (const selector of [target].flat().slice(0, -1)) place = place.querySelector(selector).shadowRoot;
    const found = place.querySelector([target].flat().at(-1));
    return found?.closest('[data-testid]')?.dataset.testid || 'ours';
}"""


@pytest.fixture
def views(real_home):
    return screens(Home(real_home))


@pytest.mark.parametrize(("width", "height", "scheme"), LOOKS)
def test_axe_finds_nothing_serious_but_in_widgets_of_streamlit(views, real_pages, open_page, width, height, scheme):
    page, axe = open_page(width=width, height=height, color_scheme=scheme), Axe()
    wrong = {}
    for name, address in one_of_each(views).items():
        page.goto(f"{real_pages.address}/{address}")
        settled(page)
        for one in axe.run(page).response["violations"]:
            if one["impact"] in ("serious", "critical"):
                for node in one["nodes"]:
                    widget = page.evaluate(WIDGET, node["target"][-1])
                    wrong.setdefault((one["id"], widget), (name, node["html"][:160]))
    assert {key: said for key, said in wrong.items() if key not in IN_STREAMLIT} == {}


def one_of_each(views):
    """The views, of a page with many only those that have something that the others have not."""
    alike = ("benchmark-compared", "profile-layers", "profile-advice", "compare-setup", "compare-details")
    return {name: address for name, address in views.items() if name not in alike}


# The name and the colours of everything that is drawn: lines, bars, marks, and the dots of the matrix.
DRAWN = """() => [
    ...Array.from(document.querySelectorAll('.js-plotly-plot'), chart => chart.data.map(trace =>
        [trace.name || '', [trace.line?.color, trace.marker?.color].flat()])).flat(),
    ...Array.from(document.querySelectorAll('[data-testid=stBidiComponentRegular], [data-testid*=BidiComponent]'),
        each => Array.from((each.shadowRoot || each.querySelector('*')?.shadowRoot || each).querySelectorAll('th .dot'),
            dot => [dot.parentElement.textContent, [dot.style.background]])).flat()]"""
ENGINES = ("onnxruntime", "openvino", "torch", "deepsparse")


def hue(colour):
    """The hue in degrees of a colour as #rrggbb or rgb(r, g, b)."""
    if colour.startswith("#"):
        parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    else:
        parts = [int(part) for part in colour[4:-1].split(",")]
    return 360 * colorsys.rgb_to_hls(*(part / 255 for part in parts))[0]


def test_an_engine_has_one_colour_on_every_page_also_as_a_or_b(views, real_pages, open_page):
    page, found = open_page(), {}
    for name, address in views.items():
        if name.startswith((*OF_RESULTS, "targets")):
            page.goto(f"{real_pages.address}/{address}")
            settled(page)
            for said, colours in page.evaluate(DRAWN):
                engine = next((one for one in ENGINES if said.startswith(one)), None)
                if engine and "no numbers" not in said:
                    found.setdefault(engine, set()).update((round(hue(one)), name) for one in colours if one)
            if name == "compare-inference":  # OpenVINO is A, ONNX Runtime B
                bars = next(colours for said, colours in page.evaluate(DRAWN) if len(colours) > 2)
                assert [one for one in bars if one] == [
                    EngineLooks().of(one).colour for one in ("openvino", "onnxruntime")
                ]
            if name == "profile-types":
                assert EngineLooks().of("openvino").colour in str(page.evaluate(DRAWN))
    assert set(found) | {"deepsparse"} == set(ENGINES)
    for engine, hues in found.items():
        own = hue(EngineLooks().of(engine).colour)
        assert {one for one in hues if abs(one[0] - own) > 4} == set(), engine
        assert len({name for _, name in hues}) > 3, f"{engine} is drawn on several views"


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
