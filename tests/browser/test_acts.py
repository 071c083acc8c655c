"""What a person sets going on the pages: it runs on its own, is watched, ended and removed, and nothing is lost."""

import re
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from browser import real_runs
from browser.drawn import charts, go, grid, pick, press, rows, settled, tick
from browser.real_runs import GRID, SWEEP
from controller.tiny_models import save, tiny_classifier
from enginebench_controller.home import Home
from enginebench_controller.jobs.control import jobs
from enginebench_controller.jobs.record import JobState
from integration.bench import QUICK, Bench

pytestmark = [pytest.mark.xdist_group("acts"), pytest.mark.slow, pytest.mark.timeout(900)]

BRIEF = "sure=own&processes=1&duration=100ms&longest=1m&interval=0%25&warmup=50ms"
PATIENCE_MS = 120_000


@pytest.fixture(scope="module")
def home(real_home, tmp_path_factory):
    """A copy of the real results, to be changed."""
    return Home(real_runs.copy(real_home, tmp_path_factory.mktemp("acts")))


@pytest.fixture(scope="module")
def pages(home, serve_pages):
    return serve_pages(home.path)


def newest(home):
    return home.store.benchmarks()[0].benchmark


def named(home, name):
    return next(one.benchmark for one in home.store.benchmarks() if one.benchmark.name == name)


def measured(home):
    """How many measurements there are."""
    return next(table.rows for table in home.store.tables() if table.name == "measurements")


def numbers(home, benchmark):
    """What was measured, as it is shown."""
    return Bench(home.path).json("show", benchmark.id)["measurements"]


def ended(page):
    """Wait until the job on the page has ended well."""
    expect(page.locator("p", has_text=re.compile("done$")).first).to_be_visible(timeout=PATIENCE_MS)
    return settled(page)


def test_a_benchmark_is_ordered_watched_and_looked_at(page, home, pages):
    go(page, pages, f"new-benchmark?{BRIEF}&batches_on=true")
    pick(page, "Model versions", "tiny")
    pick(page, "Engines", "onnxruntime")
    assert "engine=onnxruntime" in page.url
    page.get_by_placeholder("tiny").fill("From the page")
    page.keyboard.press("Enter")
    settled(page)
    expect(page.get_by_text("Takes about")).to_be_visible()
    press(page, "Run", exact=True)

    expect(page.get_by_role("heading", name="From the page")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("textbox", name="Name")).to_have_value("From the page")
    expect(page).to_have_url(re.compile(r"/new-benchmark\?.*engine=onnxruntime"))
    settled(page).go_forward()
    expect(page.get_by_role("heading", name="From the page")).to_be_visible()
    ended(page)
    assert len(rows(grid(page))) == 2
    page.get_by_role("link", name="Show the results").click()
    settled(page)
    # Beside other programs a machine is too busy for "ok", and says so.
    expect(page.get_by_text(re.compile(r"^[12] (ok|inconclusive)")).first).to_be_visible()
    assert newest(home).name == "From the page"
    measured = home.store.measurements(newest(home).id)
    assert [one.status.has_numbers for one in measured] == [True, True]


def test_a_rerun_is_linked_and_leaves_the_old_one_alone(page, home, pages):
    old = newest(home)
    before = numbers(home, old)
    go(page, pages, f"benchmark?id={old.id}")
    press(page, "Re-run")
    page.get_by_role("link", name=re.compile("^Re-run on")).wait_for(timeout=PATIENCE_MS)
    page.get_by_role("link", name=re.compile("^Re-run on")).click()
    settled(page)
    expect(page.get_by_role("link", name=f"Re-run of {old.id}")).to_be_visible()
    assert newest(home).rerun_of == old.id
    assert numbers(home, old) == before


def test_removing_asks_first(page, home, pages):
    benchmark = named(home, SWEEP)
    go(page, pages, f"benchmark?id={benchmark.id}")
    press(page, "Remove")
    expect(page.get_by_text("will be gone for good")).to_be_visible()
    assert named(home, SWEEP) == benchmark
    page.keyboard.press("Escape")
    assert named(home, SWEEP) == benchmark

    press(page, "Remove")
    press(page, "Remove for good")
    expect(page.get_by_role("heading", name="Benchmarks")).to_be_visible()
    assert SWEEP not in {one.benchmark.name for one in home.store.benchmarks()}
    expect(page.get_by_role("link", name=SWEEP)).to_have_count(0)

    go(page, pages, f"benchmark?id={benchmark.id}")
    expect(page.locator("[data-testid=stAlertContentError]")).to_contain_text(benchmark.id)


def test_a_profile_is_ordered(page, home, pages):
    digest = home.store.profiles()[0].model_digest[:12]
    go(page, pages, f"new-profile?model={digest}&engine=onnxruntime&iterations=3")
    press(page, "Profile", exact=True)
    ended(page)
    page.get_by_role("link", name="Show the profile").click()
    settled(page)
    charts(page, 1)


def test_a_version_is_pruned(page, home, pages):
    go(page, pages, "projects")
    tick(page, grid(page, "Model versions"), 0)
    before = len(home.library.versions())
    page.get_by_role("tab", name="Prune").click()
    page.get_by_role("slider").press("ArrowLeft")
    page.get_by_role("button", name="Prune", exact=True).click()
    page.get_by_role("link", name="Show the version").wait_for(timeout=PATIENCE_MS)
    assert len(home.library.versions()) == before + 1


def test_a_job_outlives_its_pages_and_is_cancelled_from_others(page, home, serve_pages):
    first = serve_pages(home.path)
    digest = home.store.profiles()[0].model_digest[:12]
    go(page, first, f"new-benchmark?model={digest}&engine=torch&sure=own&processes=9&duration=60s&longest=90s")
    press(page, "Run", exact=True)
    expect(page).to_have_url(re.compile(r"/job\?id="), timeout=PATIENCE_MS)
    job = page.url.partition("id=")[2]
    expect(page.get_by_text(re.compile("steady|warm|process 1 of 9")).first).to_be_visible(timeout=PATIENCE_MS)
    page.goto("about:blank")
    first.stop()

    assert next(one for one in jobs(home) if one.id == job).state is JobState.RUNNING
    go(page, serve_pages(home.path), f"job?id={job}")
    press(page, "Cancel")
    press(page, "Cancel the job")
    expect(page.locator("p", has_text=re.compile("cancelled$")).first).to_be_visible(timeout=PATIENCE_MS)


def test_a_target_is_added_checked_and_removed(page, home, pages, tmp_path):
    with agent(tmp_path) as address:
        go(page, pages, "targets")
        press(page, "Add a target")
        page.get_by_role("textbox", name="Name").fill("bench")
        page.get_by_role("textbox", name="Address").fill(address)
        page.get_by_role("button", name="Add", exact=True).click()
        expect(page.get_by_role("heading", name="bench")).to_be_visible()
        expect(page.locator("[role=gridcell]", has_text=re.compile("● serving")).first).to_be_attached(
            timeout=PATIENCE_MS
        )
    press(page, "Remove")
    press(page, "Remove it")
    expect(page.get_by_role("heading", name="bench")).to_have_count(0)
    assert "bench" not in {target.name for target in home.store.targets()}


def test_a_form_that_waits_for_the_engines_goes_on_once_they_are_known(page, serve_pages, tmp_path):
    bench = Bench.of_engines(tmp_path / "home", "fake")
    Home(bench.home).library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    go(page, serve_pages(bench.home), "new-benchmark?model=tiny")
    press(page, "Ask which engines there are")
    expect(page.get_by_text("Engines and devices as of")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("asking for engines")).to_have_count(0)


def test_what_cannot_be_is_told_in_a_sentence(page, pages, tmp_path):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    go(page, pages, "new-benchmark")
    page.get_by_text("Upload a model file").click()
    page.locator("input[type=file]").set_input_files(broken)
    settled(page)
    press(page, "Add to the library")
    expect(page.locator("[data-testid=stAlertContentError]")).to_contain_text("broken.onnx")

    for address in ("benchmark?id=nothing", "profile?id=nothing", "job?id=0123", "compare?a=x~y@z~w&b=1"):
        go(page, pages, address)
        expect(page.locator("[data-testid=stAlert]").first).to_be_visible()
        assert "Traceback" not in page.content()


def test_five_open_pages_go_on_while_the_command_line_writes(open_page, home, pages):
    grid_id = named(home, GRID).id
    addresses = ["", f"benchmark?id={grid_id}", "projects", "compare", "search?sql=SELECT count(*) FROM measurements"]
    opened = [go(open_page(), pages, address) for address in addresses]
    before = measured(home)

    def write():
        bench = Bench(home.path)
        for number in range(3):
            arguments = ("--engine", "onnxruntime", "--name", f"written {number}", *QUICK)
            bench.cli("run", "tiny", *arguments, timeout=400)  # pages are drawn meanwhile, all the time

    writer = threading.Thread(target=write)
    writer.start()
    rounds = 0
    while writer.is_alive() or not rounds:
        for page, address in zip(opened, addresses, strict=True):
            go(page, pages, address)
            assert page.locator("[data-testid=stAlertContentError]").count() == 0, page.inner_text("body")
        rounds += 1
    writer.join()

    assert measured(home) == before + 3
    expect(go(opened[0], pages, "").get_by_role("link", name="written 2")).to_be_visible()
    assert rows(grid(go(opened[4], pages, addresses[4])))[0]["count_star()"] == str(before + 3)


@contextmanager
def agent(folder):
    """A real agent on a port of its own; gives its address."""
    command = [sys.executable, "-m", "enginebench_agent", "serve", "--port", "0", "--data-dir", folder / "agent"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield re.search(r"127\.0\.0\.1:\d+", process.stdout.readline()).group()
    finally:
        process.terminate()
        process.communicate(timeout=20)
