"""The agent as a service: its systemd unit, what it tells systemd, and `health`, by which others watch it."""

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_process import run_command

from agent_server import ONLY_FAKE, AgentProcess
from enginebench_agent.service import SYSTEM_DATA_DIR, Manager, UnitOptions, unit_text

ANALYZE = shutil.which("systemd-analyze")
OPEN = ("--host", "0.0.0.0")
MOST_EXPOSURE = 3.5
"""What `systemd-analyze security` may say at most, of 10."""


def unit(*arguments: str) -> dict[str, list[str]]:
    """The entries of the unit file that the command prints."""
    done = run_command("service", "unit", *arguments)
    assert done.returncode == 0, done.stderr
    entries: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if re.match(r"\w+=", line):
            name, _, value = line.partition("=")
            entries.setdefault(name, []).append(value)
    return entries


@pytest.mark.parametrize("manager", ["--user", "--system"])
def test_either_unit_restarts_the_agent_within_limits_and_lets_engines_compile(manager: str) -> None:
    entries = unit(manager)
    assert entries["Type"] == ["notify"]
    assert entries["Restart"] == ["on-failure"]
    assert {"StartLimitBurst", "StartLimitIntervalSec", "TimeoutStopSec"} <= set(entries)
    assert (entries["KillMode"], entries["OOMPolicy"]) == (["mixed"], ["continue"])
    assert entries["NoNewPrivileges"] == ["yes"]
    assert entries["MemoryDenyWriteExecute"] == ["no"]
    assert entries["SystemCallFilter"][0].startswith("@system-service")
    assert not [name for name, values in entries.items() if len(values) > 1]


@pytest.mark.slow
def test_a_system_service_may_write_to_its_own_folder_only() -> None:
    entries = unit("--system")
    assert (entries["ProtectSystem"], entries["PrivateTmp"]) == (["strict"], ["yes"])
    assert entries["CapabilityBoundingSet"] == [""]
    assert (entries["User"], entries["StateDirectory"]) == (["enginebench"], ["enginebench"])
    assert f"--data-dir {SYSTEM_DATA_DIR}" in entries["ExecStart"][0]
    assert "ReadWritePaths" not in entries
    elsewhere = unit("--system", "--data-dir", "/srv/bench")
    assert elsewhere["ReadWritePaths"] == ["/srv/bench"]
    assert "StateDirectory" not in elsewhere


def test_homes_are_hidden_unless_something_that_the_agent_needs_lives_in_one() -> None:
    def homes(**needed: Path) -> str:
        outside = {"data_dir": SYSTEM_DATA_DIR, "python": Path("/opt/enginebench/bin/python"), "tls": Path("/etc/tls")}
        text = unit_text(UnitOptions(Manager.SYSTEM, host="127.0.0.1", port=50151, **(outside | needed)))
        return next(line for line in text.splitlines() if line.startswith("ProtectHome="))

    assert homes() == "ProtectHome=yes"
    assert homes(python=Path("/home/me/venv/bin/python")) == "ProtectHome=read-only"
    assert homes(data_dir=Path("/home/me/agent")) == "ProtectHome=read-only"
    assert homes(tls=Path("/root/tls")) == "ProtectHome=read-only"


def test_the_unit_starts_what_was_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "50% of $HOME"
    (command,) = unit("--host", "::1", "--port", "50199", "--data-dir", str(folder))["ExecStart"]
    assert command.endswith(f'--host ::1 --port 50199 --data-dir "{tmp_path}/50%% of $$HOME"')


@pytest.mark.slow
def test_the_unit_says_as_serve_does_who_is_let_in() -> None:
    assert (
        "--host 0.0.0.0 --port 50151 --tls /etc/enginebench" in unit(*OPEN, "--tls", "/etc/enginebench")["ExecStart"][0]
    )
    assert "--plain-text" in unit("--plain-text")["ExecStart"][0]
    assert "--announce" in unit(*OPEN, "--announce")["ExecStart"][0]
    assert "--announce" not in unit(*OPEN)["ExecStart"][0]


@pytest.mark.slow
@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed here")
@pytest.mark.parametrize("manager", ["--user", "--system"])
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path, manager: str) -> None:
    file = tmp_path / "enginebench-agent.service"
    file.write_text(run_command("service", "unit", manager).stdout)
    done = subprocess.run(
        [str(ANALYZE), "verify", "--man=no", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert not [line for line in (done.stdout + done.stderr).splitlines() if "enginebench-agent.service" in line]


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed here")
def test_systemd_finds_the_system_service_little_exposed(tmp_path: Path) -> None:
    file = tmp_path / "enginebench-agent.service"
    file.write_text(run_command("service", "unit", "--system").stdout)
    command = [str(ANALYZE), "security", "--offline=true", "--no-pager", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert float(found[1]) <= MOST_EXPOSURE, done.stdout


@pytest.mark.slow
def test_systemd_is_told_when_the_agent_serves_and_when_it_stops(
    start_agent: Callable[..., AgentProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.settimeout(20)
        systemd.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        agent = start_agent(config=f"drain_seconds = 90\n{ONLY_FAKE}")
        assert systemd.recv(100) == b"READY=1"
        agent.process.send_signal(signal.SIGTERM)
        # Longer than the unit allows: systemd would kill it in the middle of what its owner granted to runs.
        assert systemd.recv(100).splitlines() == [b"STOPPING=1", b"EXTEND_TIMEOUT_USEC=150000000"]
        assert agent.stop() == 0


def test_health_exits_with_zero_for_an_agent_that_serves(shared_agent: AgentProcess) -> None:
    done = run_command("health", shared_agent.address)
    assert (done.returncode, done.stdout, done.stderr) == (0, "serving\n", "")


@pytest.mark.slow
def test_health_exits_with_one_where_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        done = run_command("health", address, "--timeout", "0.2")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"no agent answers at {address} (nothing within 0.2 s): " in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:1", "nothing listens on this port"),
        ("127.1:1", "nothing listens on this port"),  # which the system makes an address of, and DNS does not
        ("no-such-host.invalid:50061", "no machine is known by this name"),
        ("", "it cannot be reached"),
    ],
)
def test_health_says_in_a_sentence_why_nobody_answers(
    address: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRPC_DNS_RESOLVER", raising=False)  # as this process has set it
    done = run_command("health", address, "--timeout", "5")
    assert done.returncode == 1
    assert f"no agent answers at {address or repr(address)} ({reason}): start `enginebench-agent serve`" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and "UN" not in done.stderr


@pytest.mark.slow
def test_health_exits_with_one_for_an_agent_that_was_stopped(start_agent: Callable[..., AgentProcess]) -> None:
    agent = start_agent()
    os.kill(agent.pid, signal.SIGSTOP)
    try:
        assert run_command("health", agent.address, "--timeout", "0.5").returncode == 1
    finally:
        os.kill(agent.pid, signal.SIGCONT)
