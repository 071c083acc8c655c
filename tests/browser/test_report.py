"""The compare report in a browser: it opens from the disk without a murmur, and its table sorts and filters."""

import pytest

from controller.verdicts.chains import chain, conv_nodes, layer, reorder
from enginebench_controller.files.reports import profile_html
from enginebench_controller.verdicts.layers.profiles import compare_profiles


@pytest.fixture
def report(tmp_path):
    """A report of four layers, of which the second side is slower, faster, without time and alone."""
    nodes = tuple(conv_nodes(3, "<b>conv</b>"))
    first = chain("a", [layer(0, 100_000), layer(1, 300_000), layer(2, 200_000)], nodes)
    second = chain("b", [layer(0, 140_000), layer(1, 90_000), layer(2, None), reorder(9, 5_000)], nodes)
    path = tmp_path / "report.html"
    path.write_text(profile_html(compare_profiles([first, second])), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def complaints(page):
    """What the page says on the console, raises, or asks of anything but its own file."""
    found = []
    page.on("console", lambda message: found.append(message.text))
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on(
        "request", lambda request: found.append(request.url) if not request.url.startswith(("file:", "data:")) else None
    )
    return found


def names(page):
    return page.locator("#layers-1 tbody tr:visible summary").all_text_contents()


def test_the_table_sorts_with_unknowns_last_and_filters(page, report, complaints):
    page.goto(report)
    assert names(page) == ["<b>conv</b>0", "<b>conv</b>1", "<b>conv</b>2", "reorder9"]

    ratio = page.get_by_role("button", name="ratio")
    ratio.click()
    assert names(page) == ["<b>conv</b>0", "<b>conv</b>1", "<b>conv</b>2", "reorder9"]
    ratio.click()
    assert names(page)[:2] == ["<b>conv</b>1", "<b>conv</b>0"]
    assert page.locator("th[aria-sort=ascending]").inner_text() == "ratio"

    page.get_by_label("Filter layers by verdict").select_option("worse")
    assert names(page) == ["<b>conv</b>0"]
    page.get_by_label("Filter layers by verdict").select_option("")
    page.get_by_label("Filter layers by words").fill("REORDER")
    assert names(page) == ["reorder9"]
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_it_fits_wide_and_narrow_screens_in_light_and_dark(page, report, complaints, screenshots, width, scheme):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.goto(report)
    page.screenshot(path=screenshots / f"report-{width}-{scheme}.png", full_page=True)

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 200) == (scheme == "dark")
    assert complaints == []
