"""A served page and a browser to look at it."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

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


@pytest.fixture(scope="module")
def serve_pages():
    """Serves the pages over a home, on a port of their own; returns the address."""
    processes = []

    def serve(home):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-c", SERVE, home, str(port)]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert f":{port}" in processes[-1].stdout.readline()
        return f"http://127.0.0.1:{port}"

    yield serve
    for process in processes:
        process.terminate()
        process.communicate(timeout=20)


@pytest.fixture(scope="module")
def browser():
    installed = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    page = browser.new_page(viewport={"width": 1440, "height": 1500})
    page.set_default_timeout(PATIENCE_MS)
    yield page
    page.close()


@pytest.fixture
def screenshots(tmp_path):
    folder = Path(os.environ.get("ENGINEBENCH_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
