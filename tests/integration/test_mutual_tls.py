"""`enginebench` and an agent over mutual TLS: set up by commands, used, and told in a sentence when it cannot be."""

import asyncio
import json
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from typer.testing import CliRunner, Result

from agent_server import AgentProcess
from certified import DAY, Certified
from enginebench_controller.cli import make_app
from enginebench_controller.errors import InputError, UnreachableError
from enginebench_controller.targets.addresses import new_target, uses_tls
from enginebench_controller.targets.authority.authority import Authority
from enginebench_controller.targets.client import AgentClient
from enginebench_proto.agreed.roles import CertificateKind, Role
from integration.bench import QUICK, Bench


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return Certified(tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def agent(own: Certified, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent that serves mutual TLS on loopback."""
    folder = tmp_path_factory.mktemp("agent")
    agent = AgentProcess(folder, "--tls", str(own.agent()))
    yield agent
    agent.stop()


def shows(bench: Bench, client: Path) -> None:
    """Let the bench's commands show this certificate."""
    bench.home.mkdir(exist_ok=True)
    client.rename(bench.home / "tls")


def secured(agent: AgentProcess) -> str:
    return f"tls://{agent.address}"


@pytest.mark.fault(14)
def test_commands_set_it_up_and_a_benchmark_runs_over_it(bench: Bench, model: Path, tmp_path: Path) -> None:
    bench.cli("ca", "create")
    issued = bench.json("ca", "issue", "agent", "nuc", "--host", "127.0.0.1", "--out", tmp_path / "data" / "tls")
    bench.cli("ca", "issue", "client", "me", "--install")
    agent = AgentProcess(tmp_path / "data")
    try:
        bench.cli("targets", "add", "nuc", agent.address, "--tls")
        bench.cli("targets", "check", "nuc")
        (target,) = bench.json("devices", "--target", "nuc")["targets"]
        document = bench.json("run", model, "--engine", "fake", "--target", "nuc", *QUICK)
    finally:
        agent.stop()
    assert target["address"] == f"tls://{agent.address}"
    assert [one["status"] for one in document["measurements"]] == ["ok"]
    assert issued["hosts"] == ["127.0.0.1"]
    assert [(one["name"], one["kind"], one["role"]) for one in bench.json("ca", "list")] == [
        ("nuc", "agent", None),
        ("me", "client", "run"),
    ]
    assert bench.json("targets", "list")[0]["tls"] is True


@pytest.mark.fault(14)
@pytest.mark.fault(15)
def test_a_read_only_client_looks_but_does_not_run(
    bench: Bench, model: Path, own: Certified, agent: AgentProcess
) -> None:
    shows(bench, own.client("looker", Role.READ))
    bench.cli("devices", "--target", secured(agent))
    done = bench.cli("run", model, "--engine", "fake", "--target", secured(agent), *QUICK, expect=None)
    assert done.returncode != 0
    assert (
        "the certificate of 'looker' has the role read, and ModelService/Upload needs run" in done.stdout + done.stderr
    )


@pytest.mark.fault(15)
def test_of_a_run_that_was_refused_nothing_is_left_to_resume(
    bench: Bench, model: Path, own: Certified, agent: AgentProcess
) -> None:
    order = ("run", model, "--engine", "fake", "--target", secured(agent), *QUICK)
    shows(bench, own.client("runner", Role.RUN))
    bench.cli(*order)  # the model is there now
    shutil.rmtree(bench.home / "tls")
    shows(bench, own.client("spectator", Role.READ))
    done = bench.cli(*order, expect=1)
    assert "has the role read, and RunService/Start needs run" in done.stdout + done.stderr
    assert list((bench.home / "pending").iterdir()) == []


@pytest.mark.fault(14)
async def test_why_it_is_not_let_in_is_a_sentence(own: Certified, agent: AgentProcess, tmp_path: Path) -> None:
    async def told(client: Path, address: str = secured(agent)) -> str:
        with pytest.raises((InputError, UnreachableError)) as refused:
            async with AgentClient("nuc", address, client) as connection:
                await connection.host()
        return str(refused.value)

    assert "there is no certificate to show" in await told(tmp_path / "nothing")
    ended = await told(own.client("ended", ends_in=timedelta(seconds=-1)))
    assert "your certificate" in ended and "renew it" in ended

    stranger = Certified(tmp_path).client("stranger")
    assert "its certificate is not from your authority" in await told(stranger)
    (stranger / "ca.crt").write_bytes((own.folder / "agent" / "ca.crt").read_bytes())
    assert "it hung up on your certificate" in await told(stranger)

    known = own.client("somebody")
    assert "its certificate names another host" in await told(known, secured(agent).replace("127.0.0.1", "localhost"))
    assert "write tls:// before the address" in await told(known, agent.address)


@pytest.mark.fault(29)
async def test_certificates_of_another_time_are_told_as_such(tmp_path: Path) -> None:
    own = Certified(tmp_path)
    tomorrow = own._at(datetime.now(UTC) + DAY)
    later = own.written(tomorrow.issue(CertificateKind.CLIENT, "later", 10, role=Role.RUN))
    shown = tomorrow.issue(CertificateKind.AGENT, "agent", 10, hosts=["127.0.0.1"])
    server = grpc.aio.server()  # where the clock is fast: an agent would not start with it
    pair = (shown.key, shown.certificate)
    there = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair], shown.ca_certificate, True))
    await server.start()
    address, me = f"tls://127.0.0.1:{there}", own.client("me")
    try:
        with pytest.raises(UnreachableError, match="its certificate is not valid yet by the clock of this machine"):
            async with AgentClient("nuc", address, me) as connection:
                await connection.host()
        with pytest.raises(InputError, match=r"your certificate in .* is valid from .*: set the clock"):
            async with AgentClient("nuc", address, later):
                pass
        future = Certified(tmp_path / "future", made_in=1000 * DAY)
        for each in (me, later):
            (each / "ca.crt").write_bytes(future.authority.certificate_file.read_bytes())
            with pytest.raises(InputError, match=r"authority of your certificate in .* is valid from .*: set the"):
                async with AgentClient("nuc", address, each):
                    pass
    finally:
        await server.stop(None)


@pytest.mark.fault(29)
@pytest.mark.parametrize(
    ("address", "code", "told"),
    [
        ("no-such-machine.invalid:50151", 3, "no machine called 'no-such-machine.invalid' is known here"),
        ("http://127.0.0.1:50151", 2, "which does not speak http: write HOST:PORT"),
        ("192.0.2.1:99999", 2, "99999 is no port, which are 1 to 65535"),
        ("127.0.0.1:0", 2, "0 is no port"),
        ("127.0.0.1:1", 3, "does not answer (nothing listens on this port)"),
        ("tls://127.0.0.1:50151", 2, "there is no certificate to show"),
    ],
)
def test_an_address_that_leads_nowhere_is_told_with_its_true_cause(
    bench: Bench, address: str, code: int, told: str
) -> None:
    done = bench.cli("devices", "--target", address, expect=code)
    assert told in done.stderr
    assert "I0000" not in done.stderr and "E0000" not in done.stderr


@pytest.mark.fault(29)
@pytest.mark.parametrize("address", ["http://nuc:50151", "nuc:99999", "nuc:0", "nuc", ":50151", "::1:50151", "a/b:1"])
def test_what_is_no_address_is_no_target(address: str) -> None:
    with pytest.raises(InputError, match=r"address"):
        new_target("nuc", address)


@pytest.mark.fault(32)
async def test_a_target_that_is_just_starting_is_waited_for(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "data")
    agent.stop()
    async with AgentClient("nuc", agent.address) as client:
        asking = asyncio.create_task(client.host())
        await asyncio.sleep(0.5)
        assert not asking.done(), "nothing listens there, and that was taken for the last word"
        await asyncio.to_thread(agent.restart)
        try:
            assert (await asking).agent_version
        finally:
            agent.stop()


@pytest.mark.fault(14)
def test_a_revoked_client_is_told_so(bench: Bench, own: Certified, agent: AgentProcess) -> None:
    shows(bench, own.client("gone"))
    own.authority.revoke("gone")
    (own.folder / "agent" / "ca.crl").write_bytes(own.authority.revocations_file.read_bytes())
    assert "the certificate of 'gone' was revoked" in bench.cli("devices", "--target", secured(agent), expect=2).stderr
    bench.cli("targets", "add", "there", secured(agent))
    done = bench.cli("targets", "check", expect=3)
    assert "the certificate of 'gone' was revoked" in done.stderr


@pytest.mark.fault(14)
def test_an_agent_that_speaks_plain_text_is_not_believed(
    bench: Bench, own: Certified, shared_agent: AgentProcess
) -> None:
    shows(bench, own.client("careful"))
    done = bench.cli("devices", "--target", secured(shared_agent), expect=3)
    assert "it speaks plain text" in done.stderr


def test_a_local_agent_is_used_although_its_folder_has_tls_files(bench: Bench, model: Path, own: Certified) -> None:
    own.agent("local").rename(bench.home.parent / "files")
    (bench.home.parent / "files").rename(bench.home / "agent" / "tls")
    document = bench.json("run", model, "--engine", "fake", *QUICK)
    assert [one["status"] for one in document["measurements"]] == ["ok"]


@pytest.mark.parametrize(
    ("given", "tls", "kept", "secured"),
    [
        ("nuc:50151", False, "nuc:50151", True),
        ("nuc:50151", True, "nuc:50151", True),
        ("tls://nuc:50151", False, "nuc:50151", True),
        ("10.0.0.7:50151", False, "10.0.0.7:50151", True),
        ("127.0.0.1:50151", False, "127.0.0.1:50151", False),
        ("localhost:50151", False, "localhost:50151", False),
        ("[::1]:50151", False, "[::1]:50151", False),
        ("[::1]:50151", True, "tls://[::1]:50151", True),
        ("tls://127.0.0.1:50151", False, "tls://127.0.0.1:50151", True),
    ],
)
def test_an_address_says_how_its_target_is_spoken_to(given: str, tls: bool, kept: str, secured: bool) -> None:
    address = new_target("nuc", given, tls=tls).address
    assert (address, uses_tls(address)) == (kept, secured)


@pytest.fixture
def ca(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`enginebench ca …` in this process, with an authority."""
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(make_app(), ["ca", *map(str, arguments)])

    assert run("create").exit_code == 0
    return run


def test_keys_are_written_for_their_owner_and_over_nothing(ca: Callable[..., Result], tmp_path: Path) -> None:
    ca("issue", "client", "me", "--out", tmp_path / "me")
    key = tmp_path / "me" / "client.key"
    before = key.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    assert "never overwritten" in str(ca("issue", "client", "you", "--out", tmp_path / "me").exception)
    assert "never overwritten" in str(ca("create").exception)
    assert key.read_bytes() == before
    assert ca("renew", "me", "--out", tmp_path / "me").exit_code == 0
    assert key.read_bytes() != before


@pytest.mark.fault(29)
def test_what_does_not_begin_yet_is_listed_as_such(ca: Callable[..., Result], tmp_path: Path) -> None:
    now, folder = datetime.now(UTC), tmp_path / "home" / "ca"
    later = now + 900 * DAY
    ca("issue", "client", "me", "--out", tmp_path / "me")
    Authority(folder, lambda: later).issue(CertificateKind.CLIENT, "early", 10, role=Role.RUN)
    listed = ca("list")
    assert "ends (UTC)" in listed.stdout and listed.stdout.count("not yet valid") == 1
    assert f"which ends at {now + 3650 * DAY:%Y-%m-%d} UTC" in " ".join(listed.stdout.split())
    begins = f"{later - timedelta(minutes=5):%Y-%m-%d %H:%M} UTC"
    assert f"early begins at {begins}: set the clock, or renew it with `enginebench ca renew early`" in listed.stderr
    assert ca("renew", "early", "--out", tmp_path / "early").exit_code == 0
    assert "set the clock" not in ca("list").stderr

    shutil.rmtree(folder)
    Authority(folder, lambda: later).create("fast", 100)
    assert f"the authority begins at {begins}: set the clock, or make another" in ca("list").stderr
    assert "set the clock" in str(ca("issue", "client", "now", "--out", tmp_path / "now").exception)
    assert not (tmp_path / "now").exists()


def test_who_was_revoked_is_told_how_to_come_back(ca: Callable[..., Result], tmp_path: Path) -> None:
    assert ca("issue", "client", "me", "--install").exit_code == 0
    assert ca("revoke", "me").exit_code == 0
    assert "was revoked: `enginebench ca issue client me`" in str(ca("renew", "me", "--install").exception)
    told = str(ca("issue", "client", "me", "--install").exception)
    move = re.search("`mv (.*) (.*)`", told)
    assert move is not None
    Path(move[1]).rename(move[2])
    assert ca("issue", "client", "me", "--install").exit_code == 0


@pytest.mark.parametrize("issue", [("client",), ("agent", "--host", "nuc")], ids=lambda words: words[0])
def test_keys_are_written_over_nothing_in_a_folder_of_ones_home(
    issue: tuple[str, ...], ca: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ca("issue", *issue, "first", "--out=~/keys").exit_code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "keys").iterdir()}
    assert "never overwritten" in str(ca("issue", *issue, "second", "--out=~/keys").exception)
    assert before == {path: path.read_bytes() for path in (tmp_path / "keys").iterdir()}


def test_read_only_is_short_for_the_role_read(ca: Callable[..., Result], tmp_path: Path) -> None:
    made = ca("issue", "client", "me", "--read-only", "--json", "--out", tmp_path / "me")
    assert json.loads(made.stdout)["role"] == "read"
    both = ca("issue", "client", "you", "--read-only", "--role", "admin", "--out", tmp_path / "you")
    assert "contradicts" in str(both.exception)


def test_a_revocation_tells_which_file_agents_need(ca: Callable[..., Result], tmp_path: Path) -> None:
    ca("issue", "agent", "nuc", "--host", "nuc.lab", "--out", tmp_path / "nuc")
    told = json.loads(ca("revoke", "nuc", "--json").stdout)
    assert Path(told["revocations"]) == tmp_path / "home" / "ca" / "ca.crl"
    assert [one["name"] for one in told["certificates"]] == ["nuc"]
    (listed,) = json.loads(ca("list", "--json").stdout)
    assert listed["revoked_at_unix_ns"] is not None
    assert "revoked" in ca("list").stdout
