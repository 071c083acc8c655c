"""Agents on ARM: what they tell of their board, what they measure there, and what becomes of it when things break."""

import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_server import AgentProcess, only
from arm.boards import Board
from certified import Certified
from fault_proxy import fault_proxy_in_a_thread
from integration.bench import QUICK, Bench, started, tiny_model, wait_until
from integration.ssh_machine import SshMachine, another_build

EMULATED = "programs for aarch64 are translated on an x86_64 processor"
BRIEF = (*QUICK, "--iterations", "3", "--warmup", "1ms", "--inputs", "1")
SLEEPING = ("--engine", "fake", "--option", "fake.wait=sleep")
ENDLESS = (*QUICK, "--duration", "10m", "--max-duration", "20m")
BASE = ".local/share/enginebench"


@pytest.fixture
def bench(tmp_path: Path, agent: AgentProcess) -> Bench:
    """A desk that knows the board."""
    bench = Bench.of_engines(tmp_path / "home", "fake")
    bench.cli("targets", "add", "board", agent.address)
    return bench


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "tiny.onnx")


@pytest.fixture
def breakable(arm64: Board, tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent on the board for one test, to be killed."""
    agent = AgentProcess(tmp_path / "breakable", config=only("fake"), python=str(arm64.python))
    yield agent
    agent.stop(signal.SIGINT)


def test_the_board_is_told_as_what_it_is_and_nothing_of_the_machine_below_as_its_own(bench: Bench) -> None:
    (target,) = bench.json("devices", "--target", "board")["targets"]
    host = target["host"]
    assert (host["architecture"], host["emulation"], host["cpu_model"]) == ("aarch64", EMULATED, None)
    assert "asimd" in host["isa"] and not any(one.startswith(("avx", "sse", "amx")) for one in host["isa"])
    assert host["physical_cores"] == len(os.sched_getaffinity(0)), "QEMU tells nothing of threads that share a core"
    assert {one["name"] for one in target["engines"] if one["available"]} == {"fake", "onnxruntime"}
    print(bench.cli("devices", "--target", "board").stdout)


@pytest.mark.slow
def test_a_real_model_is_measured_marked_and_not_recommended(bench: Bench) -> None:
    order = ("zoo:squeezenet", "--engine", "onnxruntime", "--target", "board")
    document = bench.json("run", *order, *BRIEF, timeout=400)
    (one,) = document["measurements"]
    assert one["latency"]["median_ns"] > 0
    assert one["grounds"]["emulation"] == EMULATED and "emulated" in one["marks"]
    assert one["effective"]["isa"]["value"] in ("asimd", "sve", "sve2")
    assert one["processes"][0]["written_bytes"] is not None
    assert "emulated" in bench.cli("show", document["benchmark"]["id"]).stdout
    done = bench.cli("recommend", *order, "--minimize", "latency", expect=2)
    assert f"board is emulated ({EMULATED})" in done.stderr


@pytest.mark.slow
def test_layers_are_profiled_and_matched(bench: Bench) -> None:
    order = ("zoo:squeezenet", "--engine", "onnxruntime", "--target", "board", "--iterations", "2", "--warmup", "1ms")
    (profile,) = bench.json("profile", *order, timeout=400)["profiles"]
    assert profile["status"] == "ok"
    assert profile["coverage"]["matched_share"] > 0.9


def test_a_run_that_is_interrupted_ends_there_and_the_agent_goes_on(
    bench: Bench, model: Path, agent: AgentProcess
) -> None:
    with started(bench, "run", model, "--target", "board", *SLEEPING, *ENDLESS) as command:
        wait_until(agent.children)
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=60)
    wait_until(lambda: not agent.children())
    bench.cli("run", model, "--target", "board", "--engine", "fake", *QUICK)


def test_a_child_that_is_killed_is_a_failure_that_says_so(bench: Bench, model: Path, agent: AgentProcess) -> None:
    with started(bench, "run", model, "--target", "board", *SLEEPING, *ENDLESS, "--json") as command:
        wait_until(agent.children)
        time.sleep(3)  # it measures by now
        for pid in agent.children():
            os.kill(pid, signal.SIGKILL)
        printed, _ = command.communicate(timeout=120)
    (one,) = json.loads(printed)["measurements"]
    assert (one["status"], one["failure"]["kind"], one["failure"]["signal"]) == ("failed", "crashed", "SIGKILL")
    bench.cli("run", model, "--target", "board", "--engine", "fake", *QUICK)


def test_what_an_agent_held_when_it_was_killed_is_collected_after_it_starts_again(
    bench: Bench, model: Path, breakable: AgentProcess
) -> None:
    order = ("run", model, "--target", breakable.address, *SLEEPING, *QUICK, "--processes", "3", "--duration", "6s")
    with started(bench, *order) as command:
        wait_until(lambda: any(not one.suffix for one in (breakable.data_dir / "spool").iterdir()))  # a whole result
        command.kill()
        command.communicate()
    wait_until(lambda: not breakable.children())
    breakable.kill()
    breakable.restart()
    bench.cli("resume")
    (listed,) = bench.json("list")["benchmarks"]
    (one,) = bench.json("show", listed["id"])["measurements"]
    assert one["processes"], "the process that had ended is there"


@pytest.mark.slow
def test_an_upload_that_is_cut_off_goes_on_where_it_was(bench: Bench, tmp_path: Path, breakable: AgentProcess) -> None:
    large = tiny_model(tmp_path / "large.onnx", features=200_000)  # 12.8 MB of weights
    with fault_proxy_in_a_thread(breakable.port) as proxy:
        proxy.cut_at(10_000_000)
        done = bench.cli("run", large, "--target", proxy.address, "--engine", "fake", *QUICK, expect=None, timeout=200)
        assert done.returncode != 0
        sent = proxy.sent_bytes
        proxy.mend()
        bench.cli("run", large, "--target", proxy.address, "--engine", "fake", *QUICK, timeout=200)
        assert proxy.sent_bytes - sent < large.stat().st_size, "some of it was there already"


def test_mutual_tls_is_kept_by_the_board(arm64: Board, bench: Bench, model: Path, tmp_path: Path) -> None:
    own = Certified(tmp_path / "own")
    own.client("me").rename(bench.home / "tls")
    agent = AgentProcess(tmp_path / "tls-board", "--tls", str(own.agent()), python=str(arm64.python))
    try:
        bench.cli("run", model, "--target", f"tls://{agent.address}", "--engine", "fake", *QUICK)
    finally:
        agent.stop()


GUEST_ENDS = 1 << 40
"""QEMU gives programs of 64 bits the first 39 of them, and lives above."""


def own_bytes(pid: int) -> int:
    """What a translated program has in memory that is in no file; what QEMU has for it does not count."""
    found, is_guest = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if head := re.match(r"([0-9a-f]+)-[0-9a-f]+ ", line):
            is_guest = int(head[1], 16) < GUEST_ENDS
        elif is_guest and line.startswith("Private_Dirty:"):
            found += 1024 * int(line.split()[1])
    return found


def test_an_idle_agent_takes_little_memory(breakable: AgentProcess) -> None:
    time.sleep(1)
    held = own_bytes(breakable.pid)
    print(f"{held / 1e6:.0f} MB, and {breakable.resident_bytes() / 1e6:.0f} MB with QEMU and files")
    assert 5_000_000 < held < 45_000_000


@pytest.mark.slow
def test_it_is_installed_over_ssh_serves_and_is_upgraded(
    arm64: Board, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/opt/wheels"}
    machine = SshMachine(tmp_path / "machine", arm64.command("/usr/sbin/sshd"), pip)
    monkeypatch.setenv("PATH", f"{machine.bin}:{os.environ['PATH']}")
    wheel = ("--wheel", arm64.wheel)
    agent: subprocess.Popen[bytes] | None = None
    try:
        told = bench.cli("targets", "bootstrap", machine.address, "--name", "pi", *wheel, timeout=500).stderr
        by_hand = next(line for line in told.splitlines() if "start it by hand: " in line)
        agent = subprocess.Popen(shlex.split(by_hand.partition("start it by hand: ")[2]))
        wait_until(lambda: bench.cli("targets", "check", "pi", expect=None).returncode == 0)
        (target,) = bench.json("devices", "--target", "pi")["targets"]
        assert target["host"]["architecture"] == "aarch64"
        before = set((machine.home / BASE / "versions").iterdir())
        another = bench.cli("targets", "upgrade", "pi", "--wheel", another_build(arm64.wheel, tmp_path), timeout=500)
        assert set((machine.home / BASE / "versions").iterdir()) - before, another.stderr
    finally:
        if agent is not None:
            agent.kill()
            agent.wait()
        machine.stop()


def test_a_board_of_32_bits_serves_and_says_why_engines_are_not_there(
    armhf: Board, bench: Bench, tmp_path: Path
) -> None:
    agent = AgentProcess(tmp_path / "small", config=only("fake", "onnxruntime"), python=str(armhf.python))
    try:
        (target,) = bench.json("devices", "--target", agent.address)["targets"]
        assert target["host"]["architecture"] == "armv7l"
        assert target["host"]["emulation"] == "programs for armv7l are translated on an x86_64 processor"
        reasons = {one["name"]: one["unavailable"]["reason"] for one in target["engines"]}
        print(reasons)
        done = bench.cli("run", "zoo:squeezenet", "--target", agent.address, "--engine", "onnxruntime", expect=2)
        print(done.stderr)
    finally:
        agent.stop()


@pytest.mark.slow
def test_an_engine_without_a_wheel_for_the_board_is_refused_with_a_way_out(armhf: Board, tmp_path: Path) -> None:
    add = (
        "-m",
        "enginebench_agent",
        "environment",
        "add",
        "ort",
        "--engine",
        "onnxruntime",
        "--data-dir",
        str(tmp_path),
    )
    pip = os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/opt/wheels"}
    done = subprocess.run([armhf.python, *add], env=pip, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 2
    assert re.search(
        r"(numpy|onnxruntime) has no wheel for armv7l and Python 3\.11\.\d+ on the package index", done.stderr
    )
    assert "take a system of 64 bits" in done.stderr
    assert not list((tmp_path / "environments").iterdir())
