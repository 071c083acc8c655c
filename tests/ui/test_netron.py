"""Netron is started when asked, on loopback, apart from the pages, and once for a file. A stand-in serves its place."""

import os
import stat
import sys
import urllib.request

import psutil
import pytest

from enginebench_ui.pages.profile import netron

STAND_IN = """#!{python}
import argparse, http.server
options = argparse.ArgumentParser()
options.add_argument("--host"); options.add_argument("--port", type=int); options.add_argument("file")
given = options.parse_args()
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(given.file.encode())
    def log_message(self, *_): pass
http.server.HTTPServer((given.host, given.port), Page).serve_forever()
"""


def install(folder, monkeypatch, program=STAND_IN):
    path = folder / "netron"
    path.write_text(program.format(python=sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "-model.onnx"
    path.write_bytes(b"onnx")
    yield path
    netron.stop(path)


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """Neither beside this Python nor on the PATH."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def test_it_shows_the_file_on_loopback_only_in_a_session_of_its_own(tmp_path, monkeypatch, model):
    install(tmp_path, monkeypatch)

    url = netron.start(model)

    with urllib.request.urlopen(url) as page:
        assert page.read().decode() == str(model)
    assert url.startswith("http://127.0.0.1:")
    port = int(url.rsplit(":", 1)[1])
    (listening,) = [
        one
        for one in psutil.net_connections()
        if one.laddr and one.laddr.port == port and one.pid and one.status == psutil.CONN_LISTEN
    ]
    assert listening.laddr.ip == "127.0.0.1"
    assert os.getsid(listening.pid) == listening.pid != os.getsid(0)


def test_one_is_enough_for_a_file_and_it_stops_when_told(tmp_path, monkeypatch, model):
    install(tmp_path, monkeypatch)

    url = netron.start(model)
    assert netron.start(model) == url == netron.running(model)
    netron.stop(model)
    assert netron.running(model) is None
    netron.stop(model)


def test_where_it_is_missing_the_sentence_says_how_to_install_it(nowhere, model):
    assert netron.program() is None
    with pytest.raises(netron.NetronError, match="pip install netron"):
        netron.start(model)


def test_one_that_ends_at_once_is_a_sentence(tmp_path, monkeypatch, model):
    install(tmp_path, monkeypatch, "#!/bin/sh\nexit 3\n")
    with pytest.raises(netron.NetronError, match="did not start"):
        netron.start(model)


def test_a_file_that_is_gone_is_a_sentence(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch)
    with pytest.raises(netron.NetronError, match="no file"):
        netron.start(tmp_path / "gone.onnx")
