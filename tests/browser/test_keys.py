"""Without a mouse, and in one click: keys that search, step, lead back and are listed; what is copied and saved."""

import re

import pytest
from playwright.sync_api import expect

from browser.drawn import go, grid, rows, settled, tick
from browser.real_runs import GRID
from browser.screens import screens
from enginebench_controller.home import Home

pytestmark = [pytest.mark.xdist_group("pages"), pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def views(real_home):
    return screens(Home(real_home))


def strike(page, key):
    page.keyboard.press(key)
    page.wait_for_timeout(300)
    return settled(page)


def test_a_slash_goes_to_the_search_of_this_page_else_to_that_of_benchmarks(page, real_pages):
    go(page, real_pages, "projects")
    page.keyboard.press("/")
    search = page.get_by_role("textbox", name="Search")
    expect(search).to_be_focused()
    page.keyboard.type("a/?npb")
    expect(search).to_have_value("a/?npb"), "keys are letters where a person types"

    go(page, real_pages, "ladders")
    page.keyboard.press("/")
    expect(page.get_by_role("heading", name="Benchmarks")).to_be_visible()
    expect(page.get_by_role("textbox", name="Search")).to_be_focused()
    page.keyboard.type("side by")
    page.keyboard.press("Enter")
    expect(page.get_by_text(re.compile(r"^1 of \d+ benchmarks$"))).to_be_visible()


def test_n_and_p_step_through_the_cells_of_a_benchmark(page, real_pages, views):
    go(page, real_pages, views["benchmark-baseline"])
    cells = page.locator("button[data-cell]")
    cells.first.wait_for()  # the matrix is drawn by a module of its own, which a busy machine loads later
    order = [one.get_attribute("data-cell") for one in cells.all()]
    current = page.locator("button[data-cell][aria-current=true]")
    begun = current.get_attribute("data-cell")
    step = 1 if begun != order[-1] else -1
    there, back = ("n", "p") if step == 1 else ("p", "n")

    strike(page, there)
    expect(current).to_have_attribute("data-cell", order[order.index(begun) + step])
    strike(page, back)
    expect(current).to_have_attribute("data-cell", begun)


def test_the_cell_that_is_pressed_keeps_the_focus(page, real_pages, views):
    go(page, real_pages, views["benchmark-baseline"])
    pressed = page.locator("button[data-cell]:not([aria-current])").last
    pressed.focus()
    named = pressed.get_attribute("data-cell")
    strike(page, "Enter")
    chosen = page.locator("button[data-cell][aria-current=true]")
    expect(chosen).to_have_attribute("data-cell", named)
    expect(chosen).to_be_focused()


@pytest.mark.parametrize(
    ("view", "about", "told"), [("profile-layers", None, "layer="), ("compare-kernels", "Layers of A and B", "row=")]
)
def test_n_and_p_step_through_layers_in_the_order_of_their_table(page, real_pages, views, view, about, told):
    go(page, real_pages, views[view])
    listed = rows(grid(page, about))
    assert len(listed) > 1 and told not in page.url
    seen = [strike(page, "n").url for _ in range(2)]
    assert told in seen[0] and seen[0] != seen[1]
    assert strike(page, "p").url == seen[0]
    expect(page.get_by_role("button", name=re.compile("^Previous"))).to_be_disabled()


def test_b_leads_back_and_a_question_mark_lists_the_keys(page, real_pages):
    go(page, real_pages, "benchmarks")
    page.get_by_role("link", name=GRID).click()
    expect(page.get_by_role("heading", name=GRID)).to_be_visible()
    strike(page, "b")
    expect(page.get_by_role("heading", name="Benchmarks")).to_be_visible()

    expect(page.get_by_text("the next cell or layer")).to_be_hidden()
    page.keyboard.press("?")
    expect(page.get_by_text("the next cell or layer")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_text("the next cell or layer")).to_be_hidden()


def test_keys_can_be_switched_off_and_on_again(page, real_pages, views):
    go(page, real_pages, views["profile-layers"])
    page.keyboard.press("?")
    switch = page.get_by_role("checkbox", name="Keys are on")
    expect(switch).to_be_checked()
    switch.click()
    page.reload()
    begun = settled(page).url
    for key in "nb/":
        assert strike(page, key).url == begun
    page.keyboard.press("?")
    expect(switch).to_be_hidden()

    page.get_by_text("Keys", exact=True).click()
    expect(switch).not_to_be_checked()
    switch.click()
    page.get_by_text("Keys", exact=True).focus()
    assert strike(page, "n").url != begun


def test_the_way_back_from_a_row_that_was_selected_leads_to_the_list_as_it_was_filtered(page, real_pages):
    go(page, real_pages, "profiles")
    search = page.get_by_role("textbox", name="Search")
    search.fill("onnx")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/profiles\?q=onnx$"))
    settled(page)
    tick(page, grid(page), 0)
    expect(page).to_have_url(re.compile(r"/profile\?id="))
    opened = page.url

    strike(page, "b")
    expect(page.get_by_role("heading", name="Performance profiles")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/profiles\?q=onnx$"))
    expect(search).to_have_value("onnx")
    settled(page).go_forward()
    expect(page).to_have_url(opened)
    settled(page)


def test_what_is_copied_from_a_page_can_be_searched_for(page, real_pages, views):
    go(page, real_pages, views["benchmark-baseline"])
    identity = re.search(r"id=(\w+)", page.url)[1]
    facts = page.locator("[data-testid=stCaptionContainer]", has_text=identity).first
    assert "\u2060" in facts.text_content(), "an instant has a colon"
    facts.evaluate("each => getSelection().selectAllChildren(each)")
    page.keyboard.press("Control+c")

    page.keyboard.press("/")
    search = page.get_by_role("textbox", name="Search")
    expect(search).to_be_focused()
    page.keyboard.press("Control+v")
    expect(search).to_have_value(re.compile(rf"^{identity} · \d{{4}}-\d\d-\d\d \d\d:\d\d$"))


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ("benchmark-baseline", r"is fastest|are the same within|too early to tell|cannot tell"),
        ("compare-inference", r"<h2>Layers"),
        ("compare-kernels", r"<h2>Layers"),
    ],
)
def test_one_click_saves_the_report(page, real_pages, views, tmp_path, view, said):
    go(page, real_pages, views[view])
    button = page.get_by_role("button", name="Share", exact=True)
    expect(button).to_be_in_viewport()
    with page.expect_download() as download:
        button.click()
    download.value.save_as(tmp_path / "report.html")
    report = (tmp_path / "report.html").read_text()
    assert report.startswith("<!DOCTYPE html>") and re.search(said, report)
