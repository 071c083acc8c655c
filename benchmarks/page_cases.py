"""Which pages are opened over the large store, and what is done on each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from playwright.sync_api import Locator, Page

from benchmarks.big_store import LADDER, LARGE, PROFILES, TYPICAL


@dataclass(frozen=True)
class Interaction:
    """Something that a person does again and again: `prepare` finds where, untimed, and `act` does it."""

    name: str
    prepare: Callable[[Page, int], Locator]
    act: Callable[[Locator], None]


@dataclass(frozen=True)
class PageCase:
    """A page with the address it is opened at; its interactions are done one after the other."""

    name: str
    address: str
    interactions: tuple[Interaction, ...] = ()


def press(name: str, key: str, *labels: str) -> Interaction:
    """Press the buttons of a widget in turn, by their labels."""

    def prepare(page: Page, place: int) -> Locator:
        return page.locator(f".st-key-{key}").get_by_text(labels[place % len(labels)], exact=True).first

    return Interaction(name, prepare, lambda element: element.click())


def tab(name: str, *labels: str) -> Interaction:
    """Change between tabs."""
    return Interaction(
        name,
        lambda page, place: page.get_by_role("tab", name=labels[place % len(labels)], exact=True),
        lambda element: element.click(),
    )


def choose(name: str, key: str, *options: int) -> Interaction:
    """Choose options of a list in turn, by their places in it."""

    def prepare(page: Page, place: int) -> Locator:
        page.locator(f".st-key-{key} input").first.click()
        return page.get_by_role("option").nth(options[place % len(options)])

    return Interaction(name, prepare, lambda element: element.click())


def write(name: str, key: str, texts: Sequence[str], end: str = "Enter") -> Interaction:
    """Write into a field and press the key that ends it."""
    written: list[str] = []

    def prepare(page: Page, place: int) -> Locator:
        field = page.locator(f".st-key-{key}").locator("input, textarea").first
        written.append(texts[place % len(texts)])
        field.fill(written[-1])
        return field

    return Interaction(name, prepare, lambda element: element.press(end))


_SQL = "SELECT engine, batch, median(median_ns) / 1e6 AS median_ms FROM measurements WHERE cores > {} GROUP BY ALL"
_VIEWS = press("another view", "view", "Core scaling", "Batch size scaling", "Baseline")

CASES = (
    PageCase("Home", "/"),
    PageCase(
        "Benchmarks, 1,000 of them",
        "/benchmarks",
        (write("searching", "search", ("typical 77", "long-3 desk-2", "")),),
    ),
    PageCase("Benchmark, 10 cells", f"/benchmark?id={TYPICAL}", (_VIEWS,)),
    PageCase("Benchmark, 200 cells", f"/benchmark?id={LARGE}", (_VIEWS,)),
    PageCase("Projects", "/projects", (write("searching", "q", ("desk-3", "long-2", "")),)),
    PageCase("Targets and engines", "/targets"),
    PageCase("New benchmark", "/new-benchmark"),
    PageCase("New profile", "/new-profile"),
    PageCase("Jobs", "/jobs"),
    PageCase(
        "Profiles",
        "/profiles",
        (press("other kind", "show", "FLOPS", "Baseline"), write("searching", "q", ("long 77", "desk-2", ""))),
    ),
    PageCase(
        "Profile, 3,000 layers",
        f"/profile?id={PROFILES['onnxruntime']}",
        (tab("another section", "Layer results", "Roofline", "Layer summaries"),),
    ),
    PageCase(
        "Compare, 3,000 layers and 1,500",
        "/compare",
        (
            write("latency threshold", "t", ("5", "50", "20", "10", "30")),
            tab("another tab", "Inference time", "Kernel-level performance", "Precisions", "Performance summary"),
        ),
    ),
    PageCase(
        "Ladders",
        f"/ladders?id={LADDER}",
        (press("throughput or latency", "bars", "latency", "throughput"),),
    ),
    PageCase(
        "Search by SQL",
        f"/search?sql={quote(_SQL.format(0))}",
        (
            press("table or chart", "view", "chart", "table"),
            write(
                "another query", "sql", tuple(_SQL.format(f"0.{number}") for number in range(1, 40)), "Control+Enter"
            ),
        ),
    ),
)
