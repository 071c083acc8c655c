"""What the browser tests read off a page, and how they wait for it."""

import re

from playwright.sync_api import expect

PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)


def expect_cells(page, texts, role="gridcell"):
    """Wait until the tables hold all of these texts.

    Tables are painted on a canvas; beneath it stands the same table for screen readers, which is filled in after it.
    """
    for text in texts:
        expect(
            page.locator(f"[role={role}]").filter(has_text=re.compile(f"^{re.escape(text)}$")).first
        ).to_be_attached()


def settled(page):
    """Wait until the page's script has run to its end, and everything it sent is drawn; returns the page."""
    page.locator("h1, [data-testid=stAlert]").first.wait_for()
    page.wait_for_function(
        """() => {
            const app = document.querySelector('[data-testid=stApp]');
            const busy = '[data-testid=stSkeleton], [data-stale=true], [data-testid=stSpinner]';
            return app.getAttribute('data-test-script-state') === 'notRunning' && !document.querySelector(busy);
        }"""
    )
    page.wait_for_timeout(300)  # charts and tables fade in
    assert page.locator("[data-testid=stException]").count() == 0, page.locator(
        "[data-testid=stException]"
    ).inner_text()
    return page


def charts(page, count=None):
    """The charts that are to be seen; waits until there are `count`."""
    found = page.locator(".js-plotly-plot").filter(visible=True)
    if count is not None:
        expect(found).to_have_count(count, timeout=PATIENCE_MS)
    return found


def go(page, served, place):
    """Open a page by its address, and wait for all of it."""
    page.goto(f"{served.address}/{place}")
    return settled(page)


def choose(page, label, option):
    """Choose an option of a drop-down by its label; `option` is its text, or its beginning."""
    box = page.get_by_role("combobox", name=re.compile(re.escape(label))).first
    box.click()
    box.fill(option)  # long lists are only drawn in part
    page.get_by_role("option", name=re.compile(f"^{re.escape(option)}")).first.click()
    return settled(page)


def pick(page, label, option):
    """Add an option to those that are chosen in a list."""
    box = page.get_by_role("combobox", name=re.compile(re.escape(label))).first
    box.click()
    page.get_by_role("option", name=re.compile(f"^{re.escape(option)}")).first.click()
    settled(page)
    page.keyboard.press("Escape")
    return settled(page)


def switch(page, name):
    """Press one of several options that stand side by side."""
    page.locator("[data-testid=stButtonGroup]").get_by_text(name, exact=True).first.click()
    return settled(page)


def press(page, name, **exactly):
    """Press a button and wait for what comes of it."""
    page.get_by_role("button", name=name, **exactly).first.click()
    return settled(page)


_HEADER_PX, _ROW_PX, _MARK_PX = 36, 35, 17


def grid(page, about=None):
    """The table whose description begins like this, or the first one; its toolbar says what it is about."""
    tables = page.locator("[data-testid=stDataFrame]")
    return (tables.filter(has=page.locator(f'[aria-label*=": {about}"]')) if about else tables).first


def rows(table):
    """The texts of a table's rows, a dict by heading each, as far as it is scrolled."""
    table.locator("[role=gridcell]").first.wait_for(state="attached")
    headings = [text.strip() for text in table.locator("[role=columnheader]").all_text_contents()]
    lines = table.locator("tbody [role=row]").all()
    return [dict(zip(headings, line.locator("[role=gridcell]").all_text_contents(), strict=False)) for line in lines]


def tick(page, table, row, x_px=_MARK_PX):
    """Click in a row of a table, by default on its mark; wait for what comes of it."""
    table.evaluate("each => each.scrollIntoView({block: 'center'})")
    place = {"x": x_px, "y": _HEADER_PX + _ROW_PX * row + _ROW_PX // 2}
    table.locator(".dvn-scroller").first.click(position=place)
    page.wait_for_timeout(200)
    return settled(page)
