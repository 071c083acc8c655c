"""What holds for every view over real results, wide and narrow, light and dark.

The answer is above the fold, nothing sticks out or is hidden sideways on a phone, nothing complains, and axe minds
nothing. Each look is walked through once, and what was seen then is held to one statement after the other.
`make screenshots` keeps the pictures, and the whole of each view in place of its upper part.
"""

import colorsys
import os
from dataclasses import dataclass

import pytest
from axe_playwright_python.sync_playwright import Axe

from browser.drawn import settled
from browser.screens import screens
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.home import Home

pytestmark = [pytest.mark.xdist_group("pages"), pytest.mark.slow, pytest.mark.timeout(2400)]

WIDE, PHONE = (1440, 900), (390, 844)
KEEPS_PICTURES = "ENGINEBENCH_SCREENSHOTS" in os.environ
LOOKS = [(*WIDE, "light"), (*PHONE, "dark"), *([(*WIDE, "dark"), (*PHONE, "light")] if KEEPS_PICTURES else [])]
"""Each width and each scheme once: what fits depends on the one, what can be read on the other. Pictures want all."""
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


# A page scrolls in a box of its own; to picture all of it, the window is made as tall as what is in there.
WHOLE_HEIGHT = """() => Math.ceil(Math.max(...Array.from(document.querySelectorAll('[data-testid=stMain], .stMain'))
    .map(each => each.scrollHeight))) || 1000"""
# What a box of its own cuts off or scrolls does not stick out of the page.
STICKING_OUT = """width => {
    const main = document.querySelector('[data-testid=stMainBlockContainer]');
    const isCut = each => {
        for (let box = each.parentElement; box && box !== main; box = box.parentElement) {
            const isBox = getComputedStyle(box).overflowX !== 'visible';
            if (isBox && box.getBoundingClientRect().right <= width + 1) return true;
        }
        return false;
    };
    return Array.from(main.querySelectorAll('*'))
        .filter(each => each.checkVisibility() && each.getBoundingClientRect().width > 0)
        .filter(each => each.getBoundingClientRect().right > width + 1 && !isCut(each))
        .map(each => `${each.tagName} ${each.dataset.testid || each.className} ${each.textContent.slice(0, 60)}`);
}"""

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


@dataclass
class Seen:
    """What one view showed in one look; `minded` are axe's serious violations by rule and widget, with where."""

    errors: list
    sticking_out: list
    sideways: list
    tables_alone: list
    answer_px: int
    drawn: list
    minded: dict


@pytest.fixture(scope="module")
def walked(real_home, real_pages, open_module_page, screenshots):
    """What a look's walk through all views saw, by the name of the view; each look is walked once."""
    walks = {}

    def walk(width, height, scheme):
        if (width, height, scheme) not in walks:
            page = open_module_page(width=width, height=height, color_scheme=scheme)
            walks[width, height, scheme] = {
                name: look(page, f"{real_pages.address}/{address}", name, screenshots, (width, height, scheme))
                for name, address in screens(Home(real_home)).items()
            }
            page.close()
        return walks[width, height, scheme]

    return walk


def look(page, address, name, screenshots, as_seen):
    width, height, scheme = as_seen
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    settled(page)
    seen = Seen(
        errors=page.locator("[data-testid=stAlertContentError]").all_inner_texts(),
        sticking_out=page.evaluate(STICKING_OUT, width)[:3],
        sideways=page.evaluate(SIDEWAYS)[:3],
        tables_alone=page.evaluate(TABLES_ALONE),
        answer_px=page.evaluate(SEEN_PX),
        drawn=page.evaluate(DRAWN),
        minded={} if name in ALIKE else minded(page),
    )
    if KEEPS_PICTURES:
        page.set_viewport_size({"width": width, "height": min(6000, page.evaluate(WHOLE_HEIGHT))})
        settled(page)
    page.screenshot(path=screenshots / f"{name}-{width}-{scheme}.png")
    return seen


ALIKE = ("benchmark-compared", "profile-layers", "profile-advice", "compare-setup", "compare-details")
"""Views that have nothing for axe that others of their page have not."""


def minded(page):
    return {
        (one["id"], page.evaluate(WIDGET, node["target"][-1])): node["html"][:160]
        for one in Axe().run(page).response["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    }


@pytest.mark.parametrize("as_seen", LOOKS)
def test_axe_finds_nothing_serious_but_in_widgets_of_streamlit(walked, as_seen):
    wrong = {
        key: (name, html)
        for name, seen in walked(*as_seen).items()
        for key, html in seen.minded.items()
        if key not in IN_STREAMLIT
    }
    assert wrong == {}


@pytest.mark.parametrize("as_seen", LOOKS)
def test_every_view_fits_and_complains_of_nothing(walked, as_seen):
    wrong = {name: [*seen.errors, *seen.sticking_out] for name, seen in walked(*as_seen).items()}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_an_engine_has_one_colour_on_every_page_also_as_a_or_b(walked):
    found, views = {}, walked(*LOOKS[0])
    for name, seen in views.items():
        for said, colours in seen.drawn if name.startswith((*OF_RESULTS, "targets")) else ():
            engine = next((one for one in ENGINES if said.startswith(one)), None)
            if engine and "no numbers" not in said:
                found.setdefault(engine, set()).update((round(hue(one)), name) for one in colours if one)
    # OpenVINO is A, ONNX Runtime B.
    bars = next(colours for said, colours in views["compare-inference"].drawn if len(colours) > 2)
    assert [one for one in bars if one] == [EngineLooks().of(one).colour for one in ("openvino", "onnxruntime")]
    assert EngineLooks().of("openvino").colour in str(views["profile-types"].drawn)
    assert set(found) | {"deepsparse"} == set(ENGINES)
    for engine, hues in found.items():
        own = hue(EngineLooks().of(engine).colour)
        assert {one for one in hues if abs(one[0] - own) > 4} == set(), engine
        assert len({name for _, name in hues}) > 3, f"{engine} is drawn on several views"


def test_the_answer_or_the_main_chart_is_above_the_fold(walked):
    results = {name: seen.answer_px for name, seen in walked(*LOOKS[0]).items() if name.startswith(OF_RESULTS)}
    assert {name: seen_px for name, seen_px in results.items() if seen_px < LEAST_SEEN_PX} == {}


def test_on_a_phone_every_fact_is_reached_without_scrolling_sideways(walked):
    wrong = {name: [*seen.sideways, *seen.tables_alone[:4]] for name, seen in walked(*LOOKS[1]).items()}
    assert {name: found for name, found in wrong.items() if found} == {}
