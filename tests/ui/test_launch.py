"""`enginebench ui` serves on loopback, tells nobody, and leaves nothing running."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import webbrowser
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import invented
import invented_bisects
import invented_profiles
from enginebench_controller.errors import InputError
from enginebench_controller.records import EngineRef
from enginebench_controller.store.store import Store
from enginebench_ui.command import page_of
from enginebench_ui.launch import serve, show

pytestmark = pytest.mark.slow

PROGRAM = "import sys; from pathlib import Path; from enginebench_ui.launch import serve\n"
PROGRAM += "sys.exit(serve(Path(sys.argv[1]), int(sys.argv[2])))"


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def served(tmp_path, port):
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, tmp_path, str(port)], stdout=subprocess.PIPE, text=True)
    yield process
    process.terminate()
    process.communicate(timeout=20)


def test_the_address_is_printed_once_it_answers_and_only_loopback_listens(served, port):
    assert f"http://127.0.0.1:{port}" in served.stdout.readline()

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as page:
        assert page.status == 200
    (child,) = psutil.Process(served.pid).children()
    listening = [one.laddr.ip for one in child.net_connections() if one.status == psutil.CONN_LISTEN]
    assert set(listening) == {"127.0.0.1"}


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_told_and_takes_streamlit_along(served, told):
    served.stdout.readline()
    (child,) = psutil.Process(served.pid).children()

    served.send_signal(told)

    assert served.wait(20) == 0
    assert not child.is_running()


HOSTILE = """
[server]
enableXsrfProtection = false
enableCORS = false
corsAllowedOrigins = ["https://elsewhere.example"]
address = "0.0.0.0"
baseUrlPath = "elsewhere"
cookieSecret = "known to others"
customComponentBaseUrlPath = "https://elsewhere.example"
sslCertFile = "/nowhere.crt"
sslKeyFile = "/nowhere.key"
[browser]
serverAddress = "elsewhere.example"
[client]
allowedOrigins = ["https://elsewhere.example"]
showErrorDetails = "full"
"""


@pytest.mark.fault(28)
def test_no_configuration_of_streamlit_takes_the_protection_away(tmp_path, port):
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "config.toml").write_text(HOSTILE)
    variables = {"STREAMLIT_SERVER_ENABLE_XSRF_PROTECTION": "false", "STREAMLIT_SERVER_ADDRESS": "0.0.0.0"}
    command = [sys.executable, "-c", PROGRAM, tmp_path, str(port)]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=os.environ | variables
    ) as process:
        try:
            assert url in process.stdout.readline()
            (child,) = psutil.Process(process.pid).children()
            assert {one.laddr.ip for one in child.net_connections() if one.status == psutil.CONN_LISTEN} == {
                "127.0.0.1"
            }
            assert status_of_upload(url, {}) == 403
            with urllib.request.urlopen(f"{url}/_stcore/health") as page:
                headers = page.headers
            token = headers["Set-Cookie"].split("=", 1)[1].split(";")[0]
            assert status_of_upload(url, {"Cookie": f"_streamlit_xsrf={token}", "X-Xsrftoken": token}) != 403
            with urllib.request.urlopen(f"{url}/_stcore/host-config") as page:
                assert b"elsewhere" not in page.read()
        finally:
            process.terminate()


def status_of_upload(url: str, headers: dict[str, str]) -> int:
    """What the pages answer to somebody who wants to put a file into a session."""
    request = urllib.request.Request(f"{url}/_stcore/upload_file/a/b", b"", headers, method="PUT")
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_page_opens_where_the_same_results_are_served(served, tmp_path, port, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    served.stdout.readline()
    assert show(tmp_path, port, "benchmark?id=b0000001") == 0
    address = f"http://127.0.0.1:{port}/benchmark?id=b0000001"
    assert opened == [address] and capsys.readouterr().out == f"{address}\n"
    for other in ((tmp_path / "elsewhere", ()), (tmp_path, ("/data/lake",))):
        with pytest.raises(InputError, match=r"cannot be used.*--port"):
            show(other[0], port, "benchmark?id=b0000001", other[1])


def test_the_pages_of_what_is_named(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark("b0000001", "net & more"))
    store.add_measurement(invented.measured("m0000001"), invented.samples("m0000001"))
    for identity in ("p0000001", "p0000002"):
        engine = EngineRef(identity, "default", "1.0")
        store.add_profile(invented_profiles.profile(identity, name="pass", engine=engine))
    found = {named: page_of(store, named) for named in ("net & more", "b00", "m0000001", "p0000001")}
    assert set(found.values()) == {"benchmark?id=b0000001", "profile?id=p0000001"} and "profile" in found["p0000001"]
    store.add_search(invented_bisects.search())
    other = replace(invented_bisects.search(), id="7ea4c0000002", name="net & more")
    store.add_search(other)
    for named in (invented_bisects.ID, "5ea4c", invented_bisects.search().name):
        assert page_of(store, named) == f"bisect?id={invented_bisects.ID}"
    assert page_of(store, other.id) == f"bisect?id={other.id}"
    assert page_of(store, other.name) == "benchmark?id=b0000001", "as `show` takes it"
    with pytest.raises(InputError, match="means 2 profiles"):
        page_of(store, "pass")
    with pytest.raises(InputError, match="there is no benchmark, profile or measurement"):
        page_of(store, "absent")


def test_a_port_in_use_is_a_sentence(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match=r"port \d+ on 127\.0\.0\.1 cannot be used.*--port"):
            serve(tmp_path, taken.getsockname()[1])


def test_a_privileged_or_foreign_address_is_a_sentence_too(tmp_path, port):
    with pytest.raises(InputError, match="cannot be used"):
        serve(tmp_path, port, host="192.0.2.1")
    assert not list(Path(tmp_path).iterdir())
    assert os.environ.get("ENGINEBENCH_HOME") != str(tmp_path)
