"""A child has no network, and neither its processors nor what it sees of the machine change with that."""

import ctypes
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.worker.pliable import engine_with
from enginebench_agent.worker import confine
from enginebench_proto.v1 import run_pb2

LEAVE = "from enginebench_agent.worker.confine import leave_network; print(leave_network())"
SOMEBODY = """
import ctypes, os
from enginebench_agent.worker.confine import leave_network
os.setgroups([]), os.setgid(1234), os.setuid(1234)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: as after the exec of somebody who was never root
print(leave_network())
print(os.getuid(), os.getgid())
"""


@pytest.fixture
def service() -> Iterator[int]:
    """The port of something on this machine that a child could talk to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    refusal = subprocess.check_output([sys.executable, "-c", LEAVE], text=True).strip()
    others = subprocess.run(["unshare", "--net", "--map-root-user", "true"], check=False, capture_output=True)
    if others.returncode:
        pytest.skip(refusal or "nobody may make a network of its own here")
    assert not refusal


def connecting(port: int) -> dict[str, str]:
    return {"compile": f"import socket; socket.create_connection(('127.0.0.1', {port}), 2).close()"}


@pytest.mark.fault(11)
def test_an_engine_reaches_nothing(run_mine: Callable, service: int) -> None:
    failure = run_mine(connecting(service)).result.failure
    assert failure.kind == run_pb2.FAILURE_KIND_COMPILE_FAILED
    assert "unreachable" in failure.detail


@pytest.mark.slow
def test_the_owner_may_let_engines_into_the_network(
    run_worker: Callable, install_plugin: Callable, make_spec: Callable, tiny_model: Path, service: int
) -> None:
    folder = install_plugin("mine", engine_with(**connecting(service)))
    child = run_worker("--keep-network", "run", str(tiny_model), spec=make_spec("mine"), folders=[folder])
    assert child.result.outcome == run_pb2.OUTCOME_OK, child.result.failure


@pytest.mark.slow
def test_processors_threads_and_evidence_are_the_same_without_a_network(
    run_worker: Callable, install_plugin: Callable, make_spec: Callable, tiny_model: Path
) -> None:
    folder = install_plugin("mine", engine_with())
    seen = []
    for words in (("run",), ("--keep-network", "run")):
        child = run_worker(*words, str(tiny_model), spec=make_spec("mine"), folders=[folder])
        evidence = child.blocks[0].evidence
        told = {field.name for field, _ in evidence.ListFields() if not field.name.startswith("reference_")}
        seen.append((list(child.result.measurement.effective.affinity), dict(evidence.missing), told))
    # Counters of nothing that happened are 0 or 1 by chance; which of them are known at all is not. Reference work is
    # left out where it would take too long.
    assert seen[0][:2] == seen[1][:2]
    assert seen[0][2] == seen[1][2]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_process_without_rights_takes_a_namespace_of_users_along_and_stays_who_it_is() -> None:
    refusal, identity = subprocess.check_output([sys.executable, "-c", SOMEBODY], text=True).splitlines()
    if refusal:
        pytest.skip(refusal)
    assert identity == "1234 1234"


def test_where_the_kernel_refuses_a_child_stays_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def unshare(self, flags: int) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1

    monkeypatch.setattr(confine.ctypes, "CDLL", lambda *_, **__: Library())
    assert confine.leave_network() == "the kernel refuses a namespace (operation not permitted)"
