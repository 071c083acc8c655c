"""Served pages, homes filled by real runs, and a browser that hears every complaint."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from filelock import FileLock
from playwright.sync_api import sync_playwright

from browser import real_runs
from browser.drawn import PATIENCE_MS

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SERVE = "import sys; from pathlib import Path; from enginebench_ui.launch import serve\n"
SERVE += "sys.exit(serve(Path(sys.argv[1]), int(sys.argv[2])))"


@dataclass
class Served:
    """Pages over a home, and the process that serves them."""

    address: str
    home: Path
    process: subprocess.Popen
    log: Path

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=20)


@pytest.fixture(scope="session")
def serve_pages(tmp_path_factory):
    """Serves the pages over a home, on a port of their own; returns where. The server must have nothing to log."""
    served = []

    def serve(home):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        log = tmp_path_factory.mktemp("log") / "server.log"
        command = [sys.executable, "-c", SERVE, home, str(port)]
        with log.open("w") as stderr:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        served.append(Served(f"http://127.0.0.1:{port}", Path(home), process, log))
        assert f":{port}" in process.stdout.readline()
        return served[-1]

    yield serve
    for one in served:
        one.stop()
    assert [one.log.read_text() for one in served if one.log.stat().st_size] == []


@pytest.fixture(scope="session")
def real_home(request, tmp_path_factory):
    """A home filled by real runs, once for all workers; ENGINEBENCH_PAGES_HOME names one that is there already.

    What failed, and is run once more, is run on the same one.
    """
    if named := os.environ.get("ENGINEBENCH_PAGES_HOME"):
        return Path(named).absolute()
    of_before = Path(request.config.cache.get("browser/real_home", ""))
    if request.config.getoption("lf") and (of_before / "filled").exists():
        return of_before
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "real"
    with FileLock(home.with_suffix(".lock")):
        if not (filled := home / "filled").exists():
            shutil.rmtree(home, ignore_errors=True)  # of a worker that failed to fill it
            home.mkdir(mode=0o700)
            real_runs.fill(home)
            filled.touch()
            request.config.cache.set("browser/real_home", str(home))
    return home


@pytest.fixture(scope="session")
def real_pages(real_home, serve_pages):
    """The pages over real results that no test changes."""
    return serve_pages(real_home)


@pytest.fixture(scope="module")
def browser():
    """A browser; not for the whole session, since Playwright's loop would be in the way of other tests' loops."""
    installed = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Opens windows; none may complain on its console, raise, or ask anything of another server."""
    yield from _opening(browser)


@pytest.fixture(scope="module")
def open_module_page(browser):
    """As `open_page`, for what several tests look at."""
    yield from _opening(browser)


def _opening(browser):
    pages, found = [], []

    def listen(page):
        page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: found.append(str(error)))
        page.on("request", lambda request: found.append(request.url) if is_elsewhere(request.url) else None)

    def open_one(width=1440, height=1500, **context):
        page = browser.new_page(viewport={"width": width, "height": height}, **context)
        page.set_default_timeout(PATIENCE_MS)
        listen(page)
        pages.append(page)
        return page

    yield open_one
    for page in pages:
        page.close()
    assert found == []


def is_elsewhere(url):
    parts = urlsplit(url)
    return parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1"


@pytest.fixture
def page(open_page):
    return open_page()


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory):
    folder = Path(os.environ.get("ENGINEBENCH_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
