"""`enginebench ca invite` and `enginebench-agent join`: a certificate for a token, once, and for nobody else."""

import base64
import hashlib
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from agent_server import AgentProcess
from certified import Certified
from enginebench_agent.door.joining import join
from enginebench_agent.errors import SetupError
from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.targets.authority.authority import Authority
from enginebench_controller.targets.authority.invitation import (
    Invitation,
    WantedCertificate,
    make_invitation,
    wait_for_agent,
)
from enginebench_controller.targets.authority.issued import Issued
from integration.bench import Bench

pytestmark = pytest.mark.fault(14)


class Waiting:
    """An invitation that waits in a thread, and what became of it."""

    def __init__(self, authority: Authority, seconds: float = 60) -> None:
        self.invitation: Invitation = make_invitation(authority)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.outcome: Issued | EnginebenchError | None = None
        self._thread = threading.Thread(target=self._wait, args=(authority, seconds))
        self._thread.start()

    def end(self) -> Issued | EnginebenchError | None:
        self._thread.join(60)
        return self.outcome

    def _wait(self, authority: Authority, seconds: float) -> None:
        with self._server:
            try:
                self.outcome = wait_for_agent(
                    authority, WantedCertificate("nuc", ("127.0.0.1",), 30), self.invitation, self._server, seconds
                )
            except EnginebenchError as error:
                self.outcome = error


@pytest.fixture
def own(tmp_path: Path) -> Certified:
    return Certified(tmp_path)


@contextmanager
def impostor() -> Iterator[tuple[str, list[bytes]]]:
    """Who speaks TLS with a certificate of his own, and what he was told."""
    invitation = make_invitation(Authority(Path("unused")))
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            plain, _ = server.accept()
            with plain:
                try:
                    with invitation.context.wrap_socket(plain, server_side=True) as stream:
                        heard.append(stream.recv(4096))
                except OSError:
                    heard.append(b"")

        thread = threading.Thread(target=listen)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", heard
        thread.join(30)


def test_commands_bring_a_certificate_to_an_agent_that_made_its_own_key(bench: Bench, tmp_path: Path) -> None:
    bench.cli("ca", "create")
    bench.cli("ca", "issue", "client", "me", "--install")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        at = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, "-m", "enginebench_controller", "ca", "invite", "nuc", "--host", "127.0.0.1", "--at", at]
    inviting = subprocess.Popen(command, stdout=subprocess.PIPE, env=bench.variables, text=True)
    assert inviting.stdout is not None
    typed = inviting.stdout.readline().split()
    assert typed[:2] == ["enginebench-agent", "join"]
    data = tmp_path / "data"
    joining = [sys.executable, "-m", "enginebench_agent", *typed[1:], "--data-dir", str(data)]
    subprocess.run(joining, check=True, timeout=60)
    assert inviting.wait(60) == 0

    assert {path.stat().st_mode & 0o777 for path in (data / "tls").iterdir()} == {0o600}
    agent = AgentProcess(data)
    try:
        bench.cli("devices", "--target", f"tls://{agent.address}")
    finally:
        agent.stop()
    elsewhere = [*joining[:-1], str(tmp_path / "another")]
    again = subprocess.run(elsewhere, capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 2
    assert "good for one agent" in again.stderr


def test_no_token_looks_like_an_option(own: Certified) -> None:
    invitation = make_invitation(own.authority)
    for first in range(256):
        secret = bytes([first]) * len(invitation.secret)
        assert replace(invitation, secret=secret).token.isalnum()


def test_a_token_is_good_for_one_agent(own: Certified, tmp_path: Path) -> None:
    waiting = Waiting(own.authority)
    join(waiting.address, waiting.invitation.token, tmp_path / "first")
    assert isinstance(waiting.end(), Issued)
    with pytest.raises(SetupError, match="good for one agent and some minutes"):
        join(waiting.address, waiting.invitation.token, tmp_path / "second")
    assert not (tmp_path / "second").exists()
    assert [one.name for one in own.authority.certificates()] == ["nuc"]


@pytest.mark.parametrize("said", [b"[" * 10_000, b"{}", b"[]", b'"text"', b'{"secret": 5}', b"\xff", b""])
def test_what_a_stranger_says_does_not_end_an_invitation(own: Certified, tmp_path: Path, said: bytes) -> None:
    waiting = Waiting(own.authority)
    host, _, port = waiting.address.rpartition(":")
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, int(port))) as plain, anybody.wrap_socket(plain) as stream:
        stream.sendall(said + b"\n")
    join(waiting.address, waiting.invitation.token, tmp_path / "joined")
    assert isinstance(waiting.end(), Issued)


def test_a_token_ends(own: Certified, tmp_path: Path) -> None:
    waiting = Waiting(own.authority, seconds=0.05)
    assert isinstance(waiting.end(), InputError)
    with pytest.raises(SetupError, match="cannot join"):
        join(waiting.address, waiting.invitation.token, tmp_path / "late")
    assert own.authority.certificates() == ()


def test_another_secret_is_refused_and_the_right_one_still_works(own: Certified, tmp_path: Path) -> None:
    waiting = Waiting(own.authority)
    fingerprint = hashlib.sha256(waiting.invitation.certificate_der).digest()
    forged = base64.b32encode(bytes(24) + fingerprint).decode()
    with pytest.raises(SetupError, match="refused, as the token is not the one of this invitation"):
        join(waiting.address, forged, tmp_path / "forged")
    join(waiting.address, waiting.invitation.token, tmp_path / "tls")
    assert isinstance(waiting.end(), Issued)
    assert not (tmp_path / "forged").exists()


def test_an_impostor_is_told_nothing(own: Certified, tmp_path: Path) -> None:
    token = make_invitation(own.authority).token
    with impostor() as (address, heard), pytest.raises(SetupError, match="so it was told nothing"):
        join(address, token, tmp_path / "tls")
    assert heard == [b""]
    assert not (tmp_path / "tls").exists()


@pytest.mark.parametrize(
    "said",
    [b"", b"nonsense\n", b"[]\n", b'{"secret": 1}\n', b"x" * 100_000 + b"\n"],
    ids=lambda said: said[:9].decode(),
)
def test_nonsense_does_not_end_the_invitation(own: Certified, tmp_path: Path, said: bytes) -> None:
    waiting = Waiting(own.authority)
    host, _, port = waiting.address.rpartition(":")
    with socket.create_connection((host, int(port))) as plain:
        plain.sendall(said or b"GET / HTTP/1.0\r\n\r\n")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        suppress(OSError),  # it hangs up on too much of it
        socket.create_connection((host, int(port))) as plain,
        context.wrap_socket(plain) as stream,
    ):
        stream.sendall(said)
    join(waiting.address, waiting.invitation.token, tmp_path / "tls")
    assert isinstance(waiting.end(), Issued)


def test_a_damaged_request_is_not_certified(own: Certified, tmp_path: Path) -> None:
    waiting = Waiting(own.authority)
    host, _, port = waiting.address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain) as stream:
        question = {"secret": waiting.invitation.secret.hex(), "request": "-----BEGIN CERTIFICATE REQUEST-----"}
        stream.sendall(json.dumps(question).encode() + b"\n")
        assert stream.recv(1) == b""
    assert own.authority.certificates() == ()
    join(waiting.address, waiting.invitation.token, tmp_path / "tls")
    assert isinstance(waiting.end(), Issued)


def test_files_that_are_there_stay(own: Certified, tmp_path: Path) -> None:
    (tmp_path / "tls").mkdir()
    with pytest.raises(SetupError, match="move it away first"):
        join("127.0.0.1:1", "token", tmp_path / "tls")


@pytest.mark.parametrize("token", ["", "short", "not base32 ä!", "=" * 80])
def test_half_a_token_is_told(tmp_path: Path, token: str) -> None:
    with pytest.raises(SetupError, match="no whole token"):
        join("127.0.0.1:1", token, tmp_path / "tls")
