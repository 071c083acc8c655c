"""What Streamlit serves: the pages, and what becomes of an error that nobody foresaw.

Streamlit's own page does not know it: opened at …/projects it first asks …/projects/_stcore/health, is refused, says so
on the console, and only then asks at the root. Where pages are served elsewhere than at their own root, its makers
write the address into the HTML; so does this, and whose messages it may heed, for it then connects at once instead of
asking twice whether somebody is there. The keys and the style of all pages stand beside it, and the way back: as parts
of a page they would be asked for, and drawn, with each.
"""

from pathlib import Path

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.starlette import App

from enginebench_controller.home import home_to_read
from enginebench_ui.launch import HOME_HEADER, home_mark
from enginebench_ui.shared.text import inert

_HEAD, _END = b"<head>", b"</body>"
_ADDRESS = """window.__streamlit = {
  BACKEND_BASE_URL: location.origin, MAIN_PAGE_BASE_URL: location.origin,
  HOST_CONFIG: {allowedOrigins: [location.origin], useExternalAuthToken: false},
};"""
_SCRIPTS = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("browsing.js", "keys.js")]
_SCRIPT = "\n".join([f"<script>{_ADDRESS}", *_SCRIPTS, "</script>"]).encode()
# Behind the head, where Streamlit puts its own: of rules that say the same as exactly, the last one holds.
_STYLE = f"<style>{Path(__file__).with_name('app.css').read_text(encoding='utf-8')}</style>".encode()


class BaseAddress:
    """ASGI middleware that writes the address of the root into every HTML page, and says which home is served."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; what a browser opens as a page comes back with our scripts in it."""
        if scope["type"] != "http" or "text/html" not in Headers(scope=scope).get("accept", ""):
            await self._app(scope, receive, send)
            return
        # Unpacked, or there would be nothing to write into.
        headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        page = _Page(send)
        await self._app({**scope, "headers": headers}, receive, page.send)


class _Page:
    """Holds back the start of an HTML response until all of it is there: its length changes."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_html(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        body = self._body.replace(_HEAD, _HEAD + _SCRIPT, 1).replace(_END, _STYLE + _END, 1)
        headers = MutableHeaders(raw=list(start["headers"]))
        read = home_to_read()
        headers[HOME_HEADER] = home_mark(read.path, read.reads)
        if "content-length" in headers:
            headers["content-length"] = str(len(body))
        await self._send({**start, "headers": headers.raw})
        await self._send({"type": "http.response.body", "body": body})


def _is_html(message: Message) -> bool:
    return message["status"] == 200 and Headers(raw=message["headers"]).get("content-type", "").startswith("text/html")


def tell(error: Exception) -> bool:
    """Say in a banner that the page met an error; the server prints where it came from. Returns that it is told."""
    told = f"{type(error).__name__}: {error}"[:500].rstrip(".")
    st.error(
        f"This page met an error that nobody foresaw: {inert(told)}. What was measured is safe. Reload the page; if "
        "it comes again, please report it with what the server printed.",
        icon=":material/bug_report:",
    )
    return True


app = App(Path(__file__).with_name("app.py"), middleware=[Middleware(BaseAddress)], on_script_error=tell)
