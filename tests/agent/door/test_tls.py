"""Mutual TLS in the agent: when it starts, how it follows its files, and what it writes down."""

import asyncio
import contextlib
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from agent_process import Client, digest, eventually, make_spec, run_command
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from agent_server import AgentProcess
from certified import Certified, credentials
from enginebench_agent import server
from enginebench_agent.door.audit import AuditLog
from enginebench_agent.door.permissions import THIS_MACHINE
from enginebench_agent.door.tls import MaterialFolder, load_material, server_credentials
from enginebench_agent.errors import SetupError
from enginebench_controller.targets.authority.certificates import authority_certificate, pem
from enginebench_proto.agreed.roles import CertificateKind, Role
from enginebench_proto.v1 import agent_pb2, agent_pb2_grpc, model_pb2

pytestmark = pytest.mark.slow


@pytest.fixture
def own(tmp_path: Path) -> Certified:
    return Certified(tmp_path)


@pytest.fixture
def tls(own: Certified) -> Path:
    return own.agent()


def secure(agent: AgentProcess, client: Path, tls: Path) -> grpc.Channel:
    return grpc.secure_channel(agent.address, credentials(client, tls))


def ask(channel: grpc.Channel) -> grpc.StatusCode:
    try:
        agent_pb2_grpc.AgentServiceStub(channel).GetHost(agent_pb2.GetHostRequest(), timeout=30)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def shown_serial(agent: AgentProcess, client: Path, tls: Path) -> int:
    """The serial number of the certificate that a new connection is shown."""
    context = ssl.create_default_context(cafile=tls / "ca.crt")
    context.load_cert_chain(client / "client.crt", client / "client.key")
    context.set_alpn_protocols(["h2"])
    host, _, port = agent.address.rpartition(":")
    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain, server_hostname=host) as seen:
        return x509.load_der_x509_certificate(seen.getpeercert(binary_form=True) or b"").serial_number


def refusal(tmp_path: Path, tls: Path, host: str = "127.0.0.1") -> str:
    done = run_command("serve", "--host", host, "--port", "0", "--data-dir", str(tmp_path / "data"), "--tls", str(tls))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


@pytest.mark.fault(14)
def test_it_listens_beyond_loopback_with_certificates(
    start_agent: Callable[..., AgentProcess], own: Certified, tls: Path
) -> None:
    agent = start_agent("--host", "0.0.0.0", "--tls", str(tls))
    agent.address = f"127.0.0.1:{agent.port}"
    with secure(agent, own.client("somebody"), tls) as channel:
        assert ask(channel) is grpc.StatusCode.OK


def test_files_in_the_data_folder_are_found(
    start_agent: Callable[..., AgentProcess], own: Certified, tls: Path
) -> None:
    data = own.folder / "agent-data"
    data.mkdir()
    tls.rename(data / "tls")
    agent = start_agent(folder="agent-data")
    with secure(agent, own.client("somebody"), data / "tls") as channel:
        assert ask(channel) is grpc.StatusCode.OK
    with grpc.insecure_channel(agent.address) as channel:
        assert ask(channel) is grpc.StatusCode.UNAVAILABLE


def test_plain_text_on_loopback_can_be_asked_for(
    start_agent: Callable[..., AgentProcess], own: Certified, tls: Path
) -> None:
    data = own.folder / "agent-data"
    data.mkdir()
    tls.rename(data / "tls")
    with grpc.insecure_channel(start_agent("--plain-text", folder="agent-data").address) as channel:
        assert ask(channel) is grpc.StatusCode.OK


def test_health_is_asked_with_a_certificate(
    start_agent: Callable[..., AgentProcess], own: Certified, tls: Path, tmp_path: Path
) -> None:
    agent = start_agent("--tls", str(tls))
    probe = own.client("probe", Role.READ)
    asked = run_command("health", agent.address, "--tls", str(probe))
    assert (asked.returncode, asked.stdout, asked.stderr) == (0, "serving\n", "")
    plain = run_command("health", agent.address, "--timeout", "1")
    assert plain.returncode == 1 and "--tls" in plain.stderr
    _, port = agent.address.rsplit(":", 1)
    elsewhere = run_command("health", f"localhost:{port}", "--tls", str(probe))
    assert elsewhere.returncode == 1 and "(its certificate names another host): " in elsewhere.stderr
    unready = run_command("health", agent.address, "--tls", str(tmp_path / "nowhere"))
    assert unready.returncode == 1 and "ca.crt" in unready.stderr and len(unready.stderr.splitlines()) == 1


@pytest.mark.fault(14)
def test_plain_text_beyond_loopback_is_refused_even_when_asked_for(tmp_path: Path) -> None:
    done = run_command(
        "serve", "--host", "0.0.0.0", "--plain-text", "--port", "0", "--data-dir", str(tmp_path / "data")
    )
    assert done.returncode == 2
    assert "without mutual TLS" in done.stderr


@pytest.mark.fault(14)
def test_nobody_is_told_of_an_agent_in_plain_text(tmp_path: Path) -> None:
    done = run_command("serve", "--announce", "--port", "0", "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 2
    assert "--announce" in done.stderr
    assert "ca issue agent" in done.stderr


@pytest.mark.fault(14)
@pytest.mark.parametrize("missing", ["agent.crt", "agent.key", "ca.crt", "ca.crl"])
def test_it_does_not_start_with_a_file_missing(tmp_path: Path, tls: Path, missing: str) -> None:
    (tls / missing).unlink()
    assert missing in refusal(tmp_path, tls, "0.0.0.0")


@pytest.mark.fault(14)
def test_it_does_not_start_with_files_that_do_not_fit(tmp_path: Path, own: Certified) -> None:
    foreign = Certified(tmp_path / "foreign").agent()
    for name, says in {"ca.crl": "not signed by", "ca.crt": "not issued by", "agent.key": "is not the key of"}.items():
        tls = own.agent(f"with-another-{name}")
        (tls / name).write_bytes((foreign / name).read_bytes())
        assert says in refusal(tmp_path, tls)
    damaged = own.agent("damaged")
    (damaged / "ca.crl").write_bytes(b"-----BEGIN X509 CRL-----\nnonsense\n-----END X509 CRL-----\n")
    assert "damaged" in refusal(tmp_path, damaged)


@pytest.mark.fault(14)
def test_a_certificate_is_worth_nothing_once_its_authority_has_ended(own: Certified, tls: Path) -> None:
    key = load_pem_private_key((own.authority.folder / "ca.key").read_bytes(), password=None)
    now = datetime.now(UTC)
    ended = authority_certificate(key, "tests", now - timedelta(days=2), now - timedelta(days=1))
    (tls / "ca.crt").write_bytes(pem(ended.certificate))
    with pytest.raises(SetupError, match=f"ended at {now - timedelta(days=1):%Y-%m-%d %H:%M} UTC"):
        load_material(tls)


@pytest.mark.fault(29)
def test_it_says_before_its_certificate_begins_that_nobody_is_let_in(
    own: Certified, tls: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A board without a clock of its own starts before it knows the time, and is right later."""
    later = datetime.now(UTC) + timedelta(days=1000)
    tomorrow = own._at(datetime.now(UTC) + timedelta(days=1))
    begins = tomorrow.clock() - timedelta(minutes=5)
    early = own.written(tomorrow.issue(CertificateKind.AGENT, "early", 10, hosts=["127.0.0.1"]))
    load_material(early)
    (said,) = caplog.messages
    assert f"the certificate in {early} begins at {begins:%Y-%m-%d %H:%M} UTC, and the clock of this machine" in said
    assert "set the clock" in said and "renew" in said

    key = load_pem_private_key((own.authority.folder / "ca.key").read_bytes(), password=None)
    of_later = authority_certificate(key, "tests", later, later + timedelta(days=9))
    (tls / "ca.crt").write_bytes(pem(of_later.certificate))
    load_material(tls)
    assert re.search(f"authority of the certificate in .* begins at {later:%Y-%m-%d %H:%M} UTC", caplog.messages[-1])


@pytest.mark.fault(14)
def test_it_does_not_start_with_a_key_that_others_can_read(tmp_path: Path, tls: Path) -> None:
    (tls / "agent.key").chmod(0o640)
    assert "chmod 600" in refusal(tmp_path, tls)


@pytest.mark.fault(14)
def test_a_key_that_is_taken_away_while_it_is_read_is_named(tls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_bytes = Path.read_bytes

    def read_and_take_away(path: Path) -> bytes:
        content = read_bytes(path)
        path.unlink()
        return content

    monkeypatch.setattr(Path, "read_bytes", read_and_take_away)
    with pytest.raises(SetupError, match=r"cannot read .*agent\.key \(No such file"):
        load_material(tls)


@pytest.mark.fault(14)
def test_a_renewed_certificate_is_shown_without_a_restart(
    start_agent: Callable[..., AgentProcess], own: Certified, tls: Path
) -> None:
    agent = start_agent("--tls", str(tls))
    somebody = own.client("somebody")
    before = shown_serial(agent, somebody, tls)

    renewed = own.authority.renew("agent")
    own.written(renewed)

    assert shown_serial(agent, somebody, tls) == int(renewed.issued.serial, 16) != before
    with secure(agent, somebody, tls) as channel:
        assert ask(channel) is grpc.StatusCode.OK


@pytest.mark.fault(14)
def test_a_newly_revoked_client_is_refused_on_its_open_connection(
    start_agent: Callable[..., AgentProcess], own: Certified, tls: Path
) -> None:
    agent = start_agent("--tls", str(tls))
    with secure(agent, own.client("left"), tls) as left, secure(agent, own.client("stays"), tls) as stays:
        assert ask(left) is ask(stays) is grpc.StatusCode.OK
        own.authority.revoke("left")
        (tls / "ca.crl").write_bytes(own.authority.revocations_file.read_bytes())
        assert ask(left) is grpc.StatusCode.UNAUTHENTICATED
        assert ask(stays) is grpc.StatusCode.OK


@pytest.mark.fault(14)
async def test_a_certificate_that_ends_is_refused_on_its_open_connection(
    start_agent: Callable[..., AgentProcess], own: Certified, tls: Path
) -> None:
    agent = start_agent("--tls", str(tls))
    client = own.client("brief", ends_in=timedelta(seconds=3))
    with secure(agent, client, tls) as channel:
        assert ask(channel) is grpc.StatusCode.OK
        await eventually(lambda: ask(channel) is grpc.StatusCode.UNAUTHENTICATED)


@pytest.mark.fault(14)
def test_a_list_of_revocations_by_somebody_else_changes_nothing(
    start_agent: Callable[..., AgentProcess], own: Certified, tls: Path, tmp_path: Path
) -> None:
    revoked = own.client("revoked")
    own.authority.revoke("revoked")
    (tls / "ca.crl").write_bytes(own.authority.revocations_file.read_bytes())
    agent = start_agent("--tls", str(tls))
    foreign = Certified(tmp_path / "foreign").agent()
    with secure(agent, revoked, tls) as channel:
        for content in ((foreign / "ca.crl").read_bytes(), b"", b"half a fi"):
            (tls / "ca.crl").write_bytes(content)
            assert ask(channel) is grpc.StatusCode.UNAUTHENTICATED
        (tls / "ca.crl").unlink()
        assert ask(channel) is grpc.StatusCode.UNAUTHENTICATED


async def test_what_changes_something_or_is_refused_leaves_a_line(
    start_agent: Callable[..., AgentProcess], own: Certified, tls: Path, model: bytes
) -> None:
    agent = start_agent("--tls", str(tls))
    spec = make_spec(model, "audited")
    async with grpc.aio.secure_channel(agent.address, credentials(own.client("ci"), tls)) as channel:
        client = Client(channel)
        await client.upload(model)
        await client.run(spec)
        await client.acknowledge("audited")
        with pytest.raises(grpc.aio.AioRpcError):
            await client.cancel("no-such-run")
    async with grpc.aio.secure_channel(agent.address, credentials(own.client("eve", Role.READ), tls)) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await Client(channel).start(spec)

    log = agent.data_dir / "audit.log"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    told = [tuple(line[key] for key in ("who", "role", "method", "subject", "outcome")) for line in lines]
    runs = "/enginebench.v1.RunService/"
    assert told == [
        ("ci", "run", "/enginebench.v1.ModelService/Upload", spec.model.digest, "OK"),
        ("ci", "run", f"{runs}Start", "audited", "OK"),
        ("ci", "run", f"{runs}Acknowledge", "audited", "OK"),
        ("ci", "run", f"{runs}Cancel", "no-such-run", "NOT_FOUND"),
        ("eve", "read", f"{runs}Start", None, "PERMISSION_DENIED"),
    ]
    assert all(line["at"].endswith("+00:00") and line["from"].startswith("ipv4:127.0.0.1") for line in lines)
    assert log.stat().st_mode & 0o777 == 0o600


async def test_a_call_that_was_cancelled_is_not_recorded_as_one_that_succeeded(
    client: Client, agent: AgentProcess, model: bytes
) -> None:
    async def half() -> AsyncIterator[model_pb2.UploadRequest]:
        yield model_pb2.UploadRequest(header=model_pb2.UploadHeader(sha256=digest(model), size_bytes=len(model)))
        yield model_pb2.UploadRequest(chunk=model[:100])
        await asyncio.Event().wait()

    call = client.models.Upload(half())
    await eventually((agent.data_dir / "files" / f"{digest(model)}.part").exists)
    call.cancel()
    log = agent.data_dir / "audit.log"
    await eventually(lambda: log.exists() and log.read_text().endswith("\n"))
    (line,) = map(json.loads, log.read_text().splitlines())
    assert (line["subject"], line["outcome"]) == (digest(model), "CANCELLED")


class Call:
    """As much of a call's context as the audit log asks for."""

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def code(self) -> Any:
        return None


def test_a_call_that_broke_down_is_recorded_as_what_its_caller_was_answered(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    with pytest.raises(RuntimeError), log.recorded(THIS_MACHINE, "/service/broken", object(), Call()):
        raise RuntimeError("a defect")
    assert json.loads((tmp_path / "audit.log").read_text())["outcome"] == "UNKNOWN"


def test_the_audit_log_has_a_bound(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log", max_file_bytes=4_000)
    for number in range(200):
        with log.recorded(THIS_MACHINE, f"/service/{number}", object(), Call()):
            pass
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["audit.log", "audit.log.1"]
    assert sum(path.stat().st_size for path in files) < 9_000
    kept = [json.loads(line)["method"] for path in reversed(files) for line in path.read_text().splitlines()]
    assert kept == [f"/service/{number}" for number in range(200 - len(kept), 200)]


def test_a_loopback_agent_loads_no_cryptography(agent: AgentProcess) -> None:
    maps = Path(f"/proc/{agent.pid}/maps").read_text()
    assert "cryptography" not in maps


@pytest.mark.fault(22)
def test_it_does_not_start_with_a_clients_certificate(tmp_path: Path, own: Certified, tls: Path) -> None:
    client = own.client("anna")
    for name in ("crt", "key"):
        (tls / f"agent.{name}").write_bytes((client / f"client.{name}").read_bytes())
    (tls / "agent.key").chmod(0o600)
    says = refusal(tmp_path, tls)
    assert "is a client's certificate" in says and "`enginebench ca issue agent NAME --host HOST`" in says


async def _silent_seconds(port: int, said: bytes, drip: bytes = b"") -> float:
    """How long a connection lasts that says so much, and then a byte now and then."""
    begin = asyncio.get_running_loop().time()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(20):
            while drip or not reader.at_eof():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        if not await reader.read(4096):
                            break
                writer.write(drip)
    writer.close()
    return asyncio.get_running_loop().time() - begin


@pytest.mark.fault(23)
@pytest.mark.parametrize("is_secure", [True, False])
async def test_handshakes_that_never_end_are_dropped(tls: Path, is_secure: bool) -> None:
    key = "grpc.server_handshake_timeout_ms"
    assert dict(server.SERVER_OPTIONS)[key] == 10_000
    served = grpc.aio.server(options=[*((k, v) for k, v in server.SERVER_OPTIONS if k != key), (key, 500)])
    credentials = server_credentials(MaterialFolder(tls))
    port = served.add_secure_port("127.0.0.1:0", credentials) if is_secure else served.add_insecure_port("127.0.0.1:0")
    await served.start()
    hello = bytes.fromhex("1603010200010001fc0303") if is_secure else b"PRI * HTTP/2.0\r\n"
    lasted = await asyncio.gather(
        *(_silent_seconds(port, said, drip) for said, drip in ((b"", b""), (hello, b""), (hello, hello[:1])))
    )
    await served.stop(None)
    assert max(lasted) < 5, "by default it would be two minutes"
