"""`enginebench ui` serves on loopback, tells nobody, and leaves nothing running."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from enginebench_controller.errors import InputError
from enginebench_ui.launch import serve

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
