"""`enginebench targets bootstrap` and `upgrade`: from a machine with Python and sshd to a target that answers."""

import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_server import ONLY_FAKE
from enginebench_controller.errors import RemoteError
from enginebench_controller.targets import addresses
from enginebench_controller.targets.addresses import SshError, SshPlace
from enginebench_controller.targets.bootstrap import AgentInstallation, WantedAgent, Wheel
from enginebench_controller.targets.client import AgentClient
from enginebench_controller.targets.remote_machine import Remote, look_at
from fault_proxy import fault_proxy_in_a_thread
from integration import pretended_systemctl
from integration.bench import ROOT, Bench
from integration.ssh_machine import SshMachine, another_build

BASE = ".local/share/enginebench"
SPOOL = ROOT / "tests" / "agent" / "runs" / "spool_0_1"
"""A result that nobody has collected."""
NO_SYSTEMD = "#!/bin/sh\nexit 1\n"


def program(machine: SshMachine, name: str, text: str) -> None:
    path = machine.programs / name
    path.write_text(text)
    path.chmod(0o755)


def give_systemd(machine: SshMachine) -> None:
    program(machine, "systemctl", f"#!{sys.executable}\n{Path(pretended_systemctl.__file__).read_text()}")
    program(machine, "loginctl", "#!/bin/sh\nexit 0\n")


def systemctl_calls(machine: SshMachine) -> list[str]:
    """What was asked of systemd since the last look."""
    calls = machine.home / "systemctl.calls"
    words = calls.read_text().split()
    calls.unlink()
    return [word for word in words if word != "show-environment"]


def outcomes(stderr: str) -> list[str]:
    """How each step went."""
    return [line.strip() for line in stderr.splitlines() if line.startswith("    ")]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pack = [sys.executable, "-m", "enginebench_agent", "wheel", str(folder)]
    return Path(subprocess.run(pack, capture_output=True, text=True, check=True).stdout.strip())


def test_the_wheel_made_here_holds_every_room(wheel: Path) -> None:
    rooms = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    others = {f"enginebench_{room}" for room in ("proto", "plugins", "agent", "controller", "ui")}
    assert others | {"enginebench"} <= rooms


@pytest.mark.slow
@pytest.mark.timeout(600)  # pip works for most of it
async def test_a_machine_is_bootstrapped_used_and_upgraded_without_losing_a_result(
    bench: Bench, machine: SshMachine, wheel: Path, tmp_path: Path, free_port: int
) -> None:
    data_dir = machine.home / BASE / "agent"
    shutil.copytree(SPOOL, data_dir / "spool")
    (data_dir / "agent.toml").write_text(ONLY_FAKE)
    order = ("targets", "bootstrap", machine.address, "--name", "board", "--port", free_port, "--wheel", wheel)

    program(machine, "systemctl", NO_SYSTEMD)
    by_hand = outcomes(bench.cli(*order, timeout=280).stderr)[-1].removeprefix("start it by hand: ")
    assert shlex.split(by_hand)[0] == "ssh"
    assert [t["address"] for t in bench.json("targets", "list")] == [f"{machine.address}/{free_port}"]

    give_systemd(machine)
    try:
        told = outcomes(bench.cli(*order).stderr)
        assert told[1:5] == ["done already", "done already", "restarted", "done already"]
        assert systemctl_calls(machine) == ["daemon-reload", "enable", "restart"]
        assert outcomes(bench.cli(*order).stderr)[3] == "running"
        assert systemctl_calls(machine) == ["daemon-reload", "enable", "start"]

        async with AgentClient("board", f"{machine.address}/{free_port}") as client:
            before = [part async for part in client.result("left-behind")]
            assert before

        bench.cli("targets", "upgrade", "board", "--wheel", another_build(wheel, tmp_path), timeout=280)
        assert systemctl_calls(machine) == ["is-active", "stop", "daemon-reload", "enable", "restart"]
        assert len(list((machine.home / BASE / "versions").iterdir())) == 1
        async with AgentClient("board", f"{machine.address}/{free_port}") as client:
            assert [part async for part in client.result("left-behind")] == before
    finally:
        subprocess.run([machine.programs / "systemctl", "stop"], env={"HOME": str(machine.home)}, check=False)


AGENT = """#!/bin/sh
case "$1 $2" in
"environment list") echo '{"environments": [{"name": "onnxruntime"}]}' ;;
"service unit") echo "ExecStart=$0" ;;
*) echo "$*" ;;
esac
"""
"""Has the environment `onnxruntime` and a unit of its own, and tells what else it is asked."""


def installation(machine: SshMachine, build: bytes, *engines: str) -> AgentInstallation:
    """One of a build that is there already, with this agent."""
    wheel = Wheel("enginebench-0-py3-none-any.whl", build)
    version = machine.home / BASE / "versions" / wheel.sha256[:16]
    agent = version / "venv" / "bin" / "enginebench-agent"
    agent.parent.mkdir(parents=True, exist_ok=True)
    agent.write_text(AGENT)
    agent.chmod(0o755)
    (version / "installed").touch()
    return AgentInstallation(WantedAgent(SshPlace.parse(machine.address), lambda: wheel, engines))


@pytest.mark.slow
def test_a_login_finds_the_agent_by_its_name_but_keeps_a_program_of_that_name(machine: SshMachine) -> None:
    found = machine.home / ".local" / "bin" / "enginebench-agent"
    for build in (b"the first", b"the second"):
        told = [step.do() for step in installation(machine, build).steps()[:3]]
        assert told[-1] == "done already"
        assert found.resolve().parents[2].name == hashlib.sha256(build).hexdigest()[:16]
        assert subprocess.check_output([found, "tune"], text=True) == "tune\n"

    found.unlink()
    found.write_text("of somebody else")
    assert [step.do() for step in installation(machine, b"the first").steps()[:3]][-1] == "done already"
    assert found.read_text() == "of somebody else"


@pytest.mark.slow
def test_what_is_installed_is_brought_to_the_disk_and_no_other_file_system_is_waited_for(machine: SshMachine) -> None:
    steps = installation(machine, b"a build").steps()[:3]
    python_that_says(machine, "python3", {"home": str(machine.home), "has_systemd": False})
    program(machine, "sync", "#!/bin/sh\n! ls $2/installed && echo $* > ~/synced\n")
    (version,) = machine.home.glob(f"{BASE}/versions/*")
    (version / "installed").unlink()
    (version / "venv" / "bin" / "python").symlink_to("/bin/true")
    assert [step.do() for step in steps][-1] == "--version"
    assert (machine.home / "synced").read_text() == f"-f {version}\n"
    assert (version / "installed").exists()


@pytest.mark.slow
def test_an_engine_of_a_version_has_an_environment_of_its_own(machine: SshMachine) -> None:
    steps = installation(machine, b"a build", "onnxruntime", "onnxruntime==1.24.1").steps()[:5]
    assert [step.do() for step in steps][-2:] == [
        "done already",
        "environment add onnxruntime-1.24.1 --engine onnxruntime==1.24.1",
    ]


def python_that_says(machine: SshMachine, name: str, facts: dict[str, object]) -> None:
    """A command there that tells of a board which is fit for an agent, but for these facts."""
    good = {
        "python": [3, 12],
        "can_make_environments": True,
        "system": "Linux",
        "architecture": "aarch64",
        "built_for": "aarch64-linux-gnu",
        "home": "/home/pi",
        "has_systemd": True,
    }
    program(machine, name, f"#!/bin/sh\necho {shlex.quote(json.dumps(good | facts))}\n")


@pytest.mark.slow
def test_an_engine_that_is_not_built_for_the_c_library_there_is_told_with_the_system_to_take(
    machine: SshMachine,
) -> None:
    steps = installation(machine, b"a build", "openvino").steps()[:4]
    python_that_says(machine, "python3", {"home": str(machine.home), "built_for": "aarch64-alpine-linux-musl"})
    (agent,) = machine.home.glob(f"{BASE}/versions/*/venv/bin/enginebench-agent")
    pip = "ERROR: No matching distribution found for openvino"
    agent.write_text(f"#!/bin/sh\n[ $2 = list ] && echo '{{\"environments\": []}}' || {{ echo {pip} >&2; exit 2; }}\n")
    *before, add = steps
    for step in before:
        step.do()
    with pytest.raises(RemoteError, match=r"aarch64 with musl and Python 3\.12 .* with glibc, such as Debian"):
        add.do()


NOTING_SYSTEMD = """#!/bin/sh
echo "$2" >> ~/systemctl.calls
[ "$2" != daemon-reload ] || [ ! -e ~/broken ]
"""
"""Loads no unit as long as there is a file `broken`."""


@pytest.mark.slow
def test_whoever_goes_on_after_a_break_restarts_the_agent_and_only_then_forgets_its_version(
    machine: SshMachine,
) -> None:
    program(machine, "systemctl", NOTING_SYSTEMD)
    program(machine, "loginctl", "#!/bin/sh\nexit 0\n")
    assert all(step.do() for step in installation(machine, b"the first").steps())
    assert systemctl_calls(machine) == ["daemon-reload", "enable", "restart"]

    with_an_engine = installation(machine, b"the first", "onnxruntime==1.24.1").steps()
    assert [step.do() for step in with_an_engine[:-1]], "and there it breaks off"
    assert [step.do() for step in installation(machine, b"the first").steps()][-1] == "restarted"
    assert systemctl_calls(machine) == ["daemon-reload", "enable", "restart"]

    (machine.home / "broken").touch()
    with pytest.raises(RemoteError, match="load the unit file"):
        assert all(step.do() for step in installation(machine, b"the second").steps())
    assert len(list((machine.home / BASE / "versions").iterdir())) == 2
    (machine.home / "broken").unlink()
    assert systemctl_calls(machine) == ["daemon-reload"]
    for told, verb in (("restarted", "restart"), ("running", "start")):
        assert [step.do() for step in installation(machine, b"the second").steps()][-1] == told
        assert systemctl_calls(machine) == ["daemon-reload", "enable", verb]
    assert len(list((machine.home / BASE / "versions").iterdir())) == 1


def refused(bench: Bench, machine: SshMachine, *arguments: str) -> str:
    """The sentence of a bootstrap that cannot be, which leaves nothing."""
    done = bench.cli("targets", "bootstrap", machine.address, *arguments, expect=2)
    assert bench.json("targets", "list") == []
    assert list(machine.home.iterdir()) == []
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"python": [3, 9]}, "is Python 3.9, and 3.11 or newer is needed"),
        ({"architecture": "riscv64"}, "of the architecture riscv64"),
        ({"system": "Darwin"}, "cannot run an agent: agents run on Linux, and this is macOS"),
        ({"can_make_environments": False}, "python3-venv"),
    ],
)
def test_a_machine_that_cannot_run_an_agent_is_told_why(
    bench: Bench, machine: SshMachine, facts: dict[str, object], sentence: str
) -> None:
    python_that_says(machine, "odd-python", facts)
    assert sentence in refused(bench, machine, "--python", "odd-python")


@pytest.mark.parametrize("python", ["true", "echo"])
def test_what_is_no_python_is_told(bench: Bench, machine: SshMachine, python: str) -> None:
    sentence = refused(bench, machine, "--python", python)
    assert f"{python} on 127.0.0.1 is no Python" in sentence and "--python" in sentence


def test_what_a_login_prints_is_not_what_a_command_says(machine: SshMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine.bin), prepend=":")
    (machine.home / ".bashrc").write_text("echo hello\n")
    remote = Remote(SshPlace.parse(machine.address))
    (machine.home / "said").write_text("what stands there\n")
    said = str(machine.home / "said")
    assert remote.run("cat", said, to="read") == "what stands there\n"
    assert remote.read(said) == "what stands there\n"


def test_a_machine_is_looked_at_whose_login_shell_takes_one_line_at_a_time(machine: SshMachine) -> None:
    """As csh and tcsh do, whose quotes end with the line."""
    shell = machine.programs / "csh"
    program(machine, shell.name, "#!/bin/bash\n[[ $2 == *$'\\n'* ]] && echo Unmatched >&2 && exit 1\nexec sh \"$@\"\n")
    keys = machine.folder / "authorized_keys"
    keys.write_text(f'command="exec {shell} -c \\"$SSH_ORIGINAL_COMMAND\\"" {keys.read_text()}')
    found = look_at(Remote(SshPlace.parse(machine.address)), "python3")
    assert found.home == str(machine.home)
    assert "linux" in found.built_for


def test_a_line_that_goes_dead_in_silence_is_noticed(machine: SshMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = [option.replace("ServerAliveInterval=5", "ServerAliveInterval=1") for option in addresses._OPTIONS]
    monkeypatch.setattr(addresses, "_OPTIONS", quick)
    with ThreadPoolExecutor(1) as threads, fault_proxy_in_a_thread(machine.port) as line:
        machine.port = int(line.address.rpartition(":")[2])
        machine.trust_host(machine.folder / "host_key.pub")
        begun, remote = machine.home / "begun", Remote(SshPlace.parse(machine.address))
        running = threads.submit(remote.succeeds, "sh", "-c", f"echo > {begun}; sleep 20")
        while not begun.exists():
            assert not running.done(), running.result()
            time.sleep(0.02)
        line.stall()
        with pytest.raises(SshError, match="the connection broke"):
            running.result(timeout=15)


def test_a_missing_python_is_told_in_the_machines_own_words(bench: Bench, machine: SshMachine) -> None:
    sentence = refused(bench, machine, "--python", "python3.99")
    assert "python3.99" in sentence and "not found" in sentence and "--python" in sentence


def test_what_is_no_wheel_of_ours_is_refused(bench: Bench, machine: SshMachine, tmp_path: Path) -> None:
    (tmp_path / "other-1.0-py3-none-any.whl").write_text("")
    assert "no wheel of enginebench" in refused(bench, machine, "--wheel", str(tmp_path / "other-1.0-py3-none-any.whl"))


def test_the_steps_are_printed_without_going_there(bench: Bench) -> None:
    done = bench.cli("targets", "bootstrap", "pi@nowhere.invalid", "--engine", "onnxruntime, openvino", "--dry-run")
    titles = done.stdout.splitlines()
    assert [title.partition(". ")[0] for title in titles] == [str(number) for number in range(1, 9)]
    assert [title for title in titles if "onnxruntime" in title or "openvino" in title] == titles[3:5]
    assert bench.json("targets", "list") == []


def test_a_name_that_is_taken_is_refused_before_anything_is_done(bench: Bench) -> None:
    bench.cli("targets", "add", "board", "elsewhere:50151")
    done = bench.cli("targets", "bootstrap", "pi@nowhere.invalid", "--name", "board", expect=2)
    assert "already" in done.stderr
    assert "only ssh:// targets" in bench.cli("targets", "upgrade", "board", expect=2).stderr
    assert "no target 'other'" in bench.cli("targets", "upgrade", "other", expect=2).stderr


def test_a_file_that_arrives_cut_is_not_kept(machine: SshMachine) -> None:
    remote = Remote(SshPlace.parse(machine.address))
    path = machine.home / "a folder" / "it's.whl"
    whole = b"all of it"
    with pytest.raises(RemoteError, match="could not write"):
        remote.write(str(path), whole[:4], hashlib.sha256(whole).hexdigest())
    assert not path.exists()
    remote.write(str(path), whole, hashlib.sha256(whole).hexdigest())
    assert path.read_bytes() == whole
