"""A machine with a big and a little core: this one, whose /sys says so to an agent that sees another."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_server import AgentProcess
from integration.bench import QUICK, Bench

CPUS = sorted(os.sched_getaffinity(0))[:2]
FAKED = "/sys/devices/system/cpu"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(len(CPUS) < 2, reason="this machine has one processor"),
]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    folder = tmp_path_factory.mktemp("unlike")
    for cpu in sorted(os.sched_getaffinity(0)):
        core = folder / "cpu" / f"cpu{cpu}"
        (core / "topology").mkdir(parents=True)
        (core / "topology" / "core_cpus_list").write_text(f"{cpu}\n")
        (core / "cpu_capacity").write_text("446\n" if cpu == CPUS[1] else "1024\n")
    for name in ("online", "possible", "present"):
        (folder / "cpu" / name).write_text(Path(FAKED, name).read_text())
    own = () if os.getuid() == 0 else ("--user", "--map-root-user")
    script = f'mount --bind {shlex.quote(str(folder / "cpu"))} {FAKED} && exec {shlex.quote(sys.executable)} "$@"'
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec unshare --mount {" ".join(own)} sh -c {shlex.quote(script)} sh "$@"\n')
    python.chmod(0o755)
    if subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode != 0:
        pytest.skip("this kernel lets nobody mount anything, in a namespace of their own either")
    agent = AgentProcess(folder / "agent", python=str(python))
    yield agent
    agent.stop()


def test_each_kind_is_measured_by_itself_on_its_own_processor(bench: Bench, model: Path, agent: AgentProcess) -> None:
    order = ("run", model, "--engine", "fake", "--target", agent.address, *QUICK, "--name", "kinds")
    document = bench.json(*order, "--cores", "big:1,little,all")
    by_kind = {one["configuration"]["cluster"]: one for one in document["measurements"]}
    bound = {kind: one["effective"]["affinity"] for kind, one in by_kind.items()}
    everybody = sorted(os.sched_getaffinity(0))
    assert bound["little"] == [CPUS[1]]
    assert len(bound["big"]) == 1 and bound["big"] != bound["little"]
    assert bound[""] == everybody
    moves = {
        one.configuration.cluster: [block.evidence.cluster_migrations for block in one.blocks]
        for one in bench.measurements(document)
    }
    assert set(moves["big"] + moves["little"]) == {None}, "they could go nowhere"
    assert all(count is not None for count in moves[""])
    shown = bench.cli("show", document["benchmark"]["id"]).stdout
    assert "big:1" in shown and "little:1" in shown and "processors" in shown
    assert not document["answers"], "kinds are no rivals, as numbers of cores are none"


def test_the_default_is_the_fast_kind_and_others_are_refused(bench: Bench, model: Path, agent: AgentProcess) -> None:
    order = ("run", model, "--engine", "fake", "--target", agent.address)
    (planned,) = bench.json(*order, "--dry-run")["configurations"]
    assert planned["configuration"]["cluster"] == "big"
    assert "mid cores are asked for, and the target's cores are" in bench.cli(*order, "--cores", "mid", expect=2).stderr
