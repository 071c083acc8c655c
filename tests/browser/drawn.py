"""What the browser tests read off a page, and how they wait for it."""

import re

from playwright.sync_api import expect

PATIENCE_MS = 60_000


def cells(page, role="gridcell"):
    """The texts of the tables. They are painted on a canvas; beneath it stands the same table for screen readers."""
    page.locator(f"[role={role}]").first.wait_for(state="attached")
    return set(page.locator(f"[role={role}]").all_text_contents())


def settled(page):
    """Wait until the page's script has run to its end, and everything it sent is drawn; returns the page."""
    page.locator("h1").first.wait_for()
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
    """The charts that are drawn; waits until there are `count`."""
    found = page.locator(".js-plotly-plot .main-svg:first-of-type")
    if count is not None:
        expect(found).to_have_count(count, timeout=PATIENCE_MS)
    return found


def go(page, served, place):
    """Open a page by its address, and wait for all of it."""
    page.goto(f"{served.address}/{place}")
    return settled(page)


def choose(page, label, option):
    """Choose an option of a drop-down by its label; `option` is its text, or its beginning."""
    page.get_by_role("combobox", name=re.compile(re.escape(label))).first.click()
    page.get_by_role("option", name=re.compile(f"^{re.escape(option)}")).first.click()
    return settled(page)


def press(page, name, **exactly):
    """Press a button and wait for what comes of it."""
    page.get_by_role("button", name=name, **exactly).first.click()
    return settled(page)
