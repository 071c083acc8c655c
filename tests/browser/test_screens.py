"""Every view over real results, wide and narrow, light and dark: nothing complains, nothing sticks out.

`make screenshots` keeps the pictures, and the whole of each view in place of its upper part.
"""

import os

import pytest

from browser.drawn import settled
from browser.screens import screens
from enginebench_controller.home import Home

pytestmark = [pytest.mark.xdist_group("pages"), pytest.mark.slow, pytest.mark.timeout(900)]

LOOKS = [(1440, "light"), (390, "dark"), (1440, "dark"), (390, "light")]
KEEPS_PICTURES = "ENGINEBENCH_SCREENSHOTS" in os.environ

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


@pytest.mark.parametrize(("width", "scheme"), LOOKS if KEEPS_PICTURES else LOOKS[:2])
def test_every_view_fits_and_complains_of_nothing(real_home, real_pages, open_page, screenshots, width, scheme):
    page = open_page(width=width, height=1000, color_scheme=scheme)
    wrong = {}
    for name, address in screens(Home(real_home)).items():
        page.set_viewport_size({"width": width, "height": 1000})
        page.goto(f"{real_pages.address}/{address}")
        settled(page)
        if found := page.evaluate(STICKING_OUT, width):
            wrong[name] = found[:3]
        if page.locator("[data-testid=stAlertContentError]").count():
            wrong[name] = page.locator("[data-testid=stAlertContentError]").all_inner_texts()
        if KEEPS_PICTURES:
            page.set_viewport_size({"width": width, "height": min(6000, page.evaluate(WHOLE_HEIGHT))})
            settled(page)
        page.screenshot(path=screenshots / f"{name}-{width}-{scheme}.png")
    assert wrong == {}
