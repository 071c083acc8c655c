"""What the browser tests read off a page."""

from playwright.sync_api import expect

PATIENCE_MS = 60_000


def cells(page, role="gridcell"):
    """The texts of the tables. They are painted on a canvas; beneath it stands the same table for screen readers."""
    page.locator(f"[role={role}]").first.wait_for(state="attached")
    return set(page.locator(f"[role={role}]").all_text_contents())


def wait_until_drawn(page):
    """Wait for the table's first cell and for both charts with their legends."""
    cells(page)
    expect(page.locator(".js-plotly-plot .legend")).to_have_count(2, timeout=PATIENCE_MS)
