"""The pages as a person has them: a server of their own, and a browser that takes the times."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from benchmarks.page_cases import Interaction

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
_PATIENCE_MS = 60_000
_QUIET_MS = 300
"""A page that has not changed for so long is done."""


@dataclass(frozen=True)
class Served:
    """A server of pages: its address, and the process of the pages themselves."""

    url: str
    pid: int

    def rss_mb(self) -> float:
        """Memory that the process of the pages occupies now, in millions of bytes."""
        text = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        return int(text.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


@dataclass(frozen=True)
class Paint:
    """Seconds from asking for a page until its title stands, and until nothing changes any more."""

    first_s: float
    whole_s: float


@contextmanager
def served(home: Path) -> Iterator[Served]:
    """Serve the pages over a home, on a port of their own. Raises `RuntimeError` where they do not come up."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "enginebench_controller", "ui", "--port", str(port)]
    variables = os.environ | {"ENGINEBENCH_HOME": str(home)}
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as server:
        try:
            said = server.stdout.readline() if server.stdout else ""
            if str(port) not in said:
                raise RuntimeError(f"the pages did not come up: {said}")
            (child,) = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
            yield Served(f"http://127.0.0.1:{port}", int(child))
        finally:
            server.send_signal(signal.SIGTERM)


@contextmanager
def browsing(url: str) -> Iterator["Browsing"]:
    """A browser with one window."""
    installed = next(filter(None, map(shutil.which, _BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed, args=_ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.set_default_timeout(_PATIENCE_MS)
        page.add_init_script(_WATCH)
        yield Browsing(url, page)
        browser.close()


# Times are the browser's own, so that asking for them costs nothing. What moves by itself is left out – the mark of a
# running script – and what nobody sees: the words beneath a table's canvas, for screen readers, that follow it later.
_WATCH = """
    window.lastChange = performance.now();
    window.titleAt = window.actedAt = null;
    for (const kind of ['pointerdown', 'keydown'])
        window.addEventListener(kind, event => { window.actedAt ??= event.timeStamp; }, true);
    const seen = () => {
        window.lastChange = performance.now();
        if (window.titleAt === null && document.querySelector('h1')) window.titleAt = performance.now();
    };
    new MutationObserver(changes => {
        const unseen = '[data-testid=stStatusWidget], canvas';
        const own = change => !(change.target.nodeType === 1 ? change.target : change.target.parentElement)
            ?.closest(unseen);
        if (changes.some(own)) seen();
    }).observe(document, {childList: true, subtree: true, attributes: true, characterData: true});
    window.isDone = () => {
        const app = document.querySelector('[data-testid=stApp]');
        return app && app.getAttribute('data-test-script-state') === 'notRunning'
            && !document.querySelector('[data-testid=stSkeleton]')
            && performance.now() - window.lastChange > QUIET_MS;
    };""".replace("QUIET_MS", str(_QUIET_MS))


class Browsing:
    """Opens pages and does what a person does, and takes the times."""

    def __init__(self, url: str, page: Page) -> None:
        self._url = url
        self._page = page

    def paint(self, address: str) -> Paint:
        """Open a page."""
        self._page.goto(self._url + address, wait_until="commit")
        self._page.wait_for_function("window.titleAt !== null && window.isDone()")
        first_ms, whole_ms = self._page.evaluate("[window.titleAt, window.lastChange]")
        return Paint(first_ms / 1e3, whole_ms / 1e3)

    def answer(self, interaction: Interaction, place: int) -> float:
        """Do something on the page that is open, for the `place`-th time; the seconds until nothing changes more."""
        element = interaction.prepare(self._page, place)
        self._page.evaluate("window.lastChange = performance.now(), window.actedAt = null")
        interaction.act(element)
        self._page.wait_for_function("window.actedAt !== null && window.isDone()")
        return float(self._page.evaluate("window.lastChange - window.actedAt")) / 1e3
