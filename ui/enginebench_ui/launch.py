"""Serving the pages: Streamlit in a child process, on loopback, telling nobody anything."""

import hashlib
import http.client
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from enginebench_controller.errors import InputError
from enginebench_proto.agreed.home import HOME_VARIABLE

APP = Path(__file__).with_name("entry") / "server.py"
LOOPBACK = "127.0.0.1"
HOME_HEADER = "enginebench-home"
"""By this header of a page those who open another know what is served there."""
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Past every proxy: one elsewhere cannot reach this machine's loopback."""
_READY_WITHIN_S = 60.0
_ANSWER_WITHIN_S = 1.0
_STOP_WITHIN_S = 5.0


def serve(home: Path, port: int, host: str = LOOPBACK, *, open_browser: bool = False, page: str = "") -> int:
    """Serve the pages over the results in `home` until interrupted; print the address, of a `page`, once they answer.

    Returns the exit code: 0 after an interruption, else Streamlit's own. Raises `InputError` when the port cannot be
    had.
    """
    _require_free(host, port)
    url = f"http://{host}:{port}"
    with _streamlit(home, host, port) as child:
        try:
            if _wait_until_ready(child, url):
                address = f"{url}/{page}" if page else url
                print(f"enginebench pages: {address}  (Ctrl-C to stop)", flush=True)
                if open_browser:
                    webbrowser.open(address)
            return child.wait()
        except KeyboardInterrupt:
            return 0


def show(home: Path, port: int, page: str, reads: Sequence[str] = ()) -> int:
    """Open a page, such as "benchmark?id=ID", where the results in `home`, or in lakes in their place, are served;
    serve them where they are not.

    Returns the exit code, and raises, as `serve` does.
    """
    url = f"http://{LOOPBACK}:{port}"
    if not _serves(url, home_mark(home, reads)):
        return serve(home, port, open_browser=True, page=page)
    print(f"{url}/{page}", flush=True)
    webbrowser.open(f"{url}/{page}")
    return 0


def home_mark(home: Path, reads: Sequence[str] = ()) -> str:
    """What pages say of the home, or of the lakes in its place, that they serve: enough to know it again, and not where
    it is.
    """
    return hashlib.sha256("\0".join([str(home.resolve()), *reads]).encode()).hexdigest()[:16]


def _serves(url: str, mark: str) -> bool:
    """Whether these are pages over the home of this mark; another program may have the port, or pages over another."""
    request = urllib.request.Request(url, headers={"Accept": "text/html"})  # noqa: S310 (the address is our own)
    try:
        with _OPENER.open(request, timeout=_ANSWER_WITHIN_S) as response:
            return bool(response.headers.get(HOME_HEADER) == mark)
    except (OSError, http.client.HTTPException):
        return False


def _require_free(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # Without it, the port of pages stopped a moment ago would count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise InputError(
                f"port {port} on {host} cannot be used ({error.strerror}); name another with --port"
            ) from None


def _command(host: str, port: int) -> list[str]:
    # Left to itself Streamlit listens everywhere, sends usage statistics and shows tracebacks. What protects is said
    # here even where it is the default: a config.toml in the user's home or in the current folder says otherwise, and
    # only arguments are above both.
    options = {
        "server.address": host,
        "server.port": str(port),
        "server.headless": "true",
        "server.baseUrlPath": "",
        "server.enableXsrfProtection": "true",
        "server.xsrfCookieSameSite": "strict",
        "server.enableCORS": "true",
        "server.corsAllowedOrigins": "",
        "server.enableAgentApi": "false",
        "server.enableStaticServing": "false",
        "server.customComponentBaseUrlPath": "",
        "server.trustedUserHeaders": "{}",
        "server.scriptHealthCheckEnabled": "false",
        "server.sslCertFile": "",
        "server.sslKeyFile": "",
        "server.maxUploadSize": "200",
        "server.maxMessageSize": "200",
        "server.maxWidgetStateSize": "25",
        "server.runOnSave": "false",
        "server.allowRunOnSave": "false",
        "server.fileWatcherType": "none",
        "browser.serverAddress": host,
        "browser.serverPort": str(port),
        "client.allowedOrigins": f"http://{host}:{port}",
        "client.disableDataExport": "false",
        "global.developmentMode": "false",
        "runner.magicEnabled": "false",
        # Otherwise each answer ends with a full garbage collection, which holds the answer itself up: 0.2 s with what
        # a large store leaves in memory. Python collects by itself as well.
        "runner.postScriptGC": "false",
        "browser.gatherUsageStats": "false",
        # Streamlit's own is red, which says that something is wrong.
        "theme.light.primaryColor": "#1F6FB5",
        "theme.dark.primaryColor": "#5AA9E6",
        "client.showErrorDetails": "none",
        "client.showErrorLinks": "false",
        "client.toolbarMode": "minimal",
        "logger.hideWelcomeMessage": "true",
        "logger.level": "warning",
    }
    # Against pages elsewhere that point a name of theirs at this machine (DNS rebinding).
    allowed = [("server.allowedHosts", name) for name in (host, "localhost")]
    arguments = [f"--{name}={value}" for name, value in (*options.items(), *allowed)]
    return [sys.executable, "-P", "-m", "streamlit", "run", str(APP), *arguments]


@contextmanager
def _streamlit(home: Path, host: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run the child; it is gone when the block ends, also when this process is told to terminate."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("STREAMLIT_")}
    # The secret that signs cookies is the one setting that Streamlit takes from no argument.
    environment = others | {HOME_VARIABLE: str(home), "STREAMLIT_SERVER_COOKIE_SECRET": secrets.token_hex()}
    with _terminate_as_interrupt():
        child = subprocess.Popen(_command(host, port), env=environment, stdin=subprocess.DEVNULL)
        try:
            yield child
        finally:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(_STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait_until_ready(child: subprocess.Popen[bytes], url: str) -> bool:
    deadline = time.monotonic() + _READY_WITHIN_S
    while child.poll() is None and time.monotonic() < deadline:
        if _answers(f"{url}/_stcore/health"):
            return True
        time.sleep(0.1)
    return False


def _answers(url: str) -> bool:
    try:
        with _OPENER.open(url, timeout=_ANSWER_WITHIN_S) as response:
            return bool(response.status == 200)
    except OSError:
        return False
