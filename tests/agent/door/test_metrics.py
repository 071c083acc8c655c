"""The figures an agent serves for Prometheus, asked for over HTTP while it works."""

import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from agent_process import ENDLESS_MS, Client, connected, eventually, make_spec, refused, run_command
from grpc_health.v1 import health_pb2
from logging_agent import LoggingAgent, logging_agent
from prometheus_client.parser import text_string_to_metric_families

from agent_server import serve_command
from enginebench_proto.v1 import agent_pb2

pytestmark = pytest.mark.slow

Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]
ASKED_FOR = ("--metrics-port", "0", "--verbose", "--log-format", "json")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[LoggingAgent]:
    with logging_agent(tmp_path, *ASKED_FOR) as agent:
        yield agent


def _url(agent: LoggingAgent) -> str:
    (line,) = agent.lines("metrics served")
    assert line["host"] == "127.0.0.1"
    return f"http://127.0.0.1:{line['port']}/metrics"


def _figures(agent: LoggingAgent) -> Figures:
    with urllib.request.urlopen(_url(agent), timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        (sample.name.removeprefix("enginebench_agent_"), frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def _key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


async def test_runs_are_counted_by_state_and_by_how_they_ended(agent: LoggingAgent, model: bytes) -> None:
    async with connected(agent) as client:
        await client.upload(model)
        await client.run(make_spec(model, "good"))
        await client.run(make_spec(model, "bad", options={"fault": "exit"}))
        await client.acknowledge("bad")
        await client.start(make_spec(model, "endless", duration_ms=ENDLESS_MS))
        await client.wait_for_phase("endless", "steady_state")
        await client.start(make_spec(model, "waiting"))
        during = _figures(agent)
        await client.cancel("waiting")
        await client.cancel("endless")
        after = _figures(agent)
    assert [during[_key("runs", state=state)] for state in ("queued", "running", "finished")] == [1, 1, 1]
    assert [after[_key("runs", state=state)] for state in ("queued", "running", "finished")] == [0, 0, 3]
    ended = {labels: count for (name, labels), count in after.items() if name == "runs_ended_total"}
    assert ended == {
        frozenset({("kind", "measure"), ("outcome", "ok"), ("failure", "none")}): 1,
        frozenset({("kind", "measure"), ("outcome", "failed"), ("failure", "crashed")}): 1,
        frozenset({("kind", "measure"), ("outcome", "cancelled"), ("failure", "cancelled")}): 2,
    }


async def test_the_spool_and_the_cache_are_told_in_files_and_bytes(
    agent: LoggingAgent, model: bytes, tmp_path: Path
) -> None:
    (tmp_path / "data" / "spool" / "damaged").mkdir()  # of results set aside, which nobody can acknowledge
    empty = _figures(agent)
    async with connected(agent) as client:
        await client.upload(model)
        await client.run(make_spec(model, "kept"))
        kept = _figures(agent)
        on_disk = sum(path.stat().st_size for path in (tmp_path / "data" / "spool").glob("kept*"))
        await client.acknowledge("kept")
        gone = _figures(agent)
    names = ("spool_results", "spool_bytes", "cache_files", "cache_bytes")
    assert [empty[_key(name)] for name in names] == [0, 0, 0, 0]
    assert [kept[_key(name)] for name in names] == [1, on_disk, 1, len(model)]
    assert [gone[_key(name)] for name in names] == [0, 0, 1, len(model)]


async def test_calls_are_counted_by_method_and_status(agent: LoggingAgent) -> None:
    async with connected(agent) as client:
        for _ in range(3):
            await client.agent.GetHost(agent_pb2.GetHostRequest())
        await client.health_status()
        async with refused(grpc.StatusCode.NOT_FOUND):
            await client.cancel("nobody")
        async with refused(grpc.StatusCode.NOT_FOUND):
            await client.watch("nobody")
        await _leave_in_the_middle(client)

        def ended() -> Figures:
            return {key: count for key, count in _figures(agent).items() if key[0] == "rpcs_total"}

        service = "enginebench.v1"
        await eventually(lambda: _key("rpcs_total", method="grpc.health.v1.Health/Watch", code="CANCELLED") in ended())
        assert ended() == {
            _key("rpcs_total", method=f"{service}.AgentService/GetHost", code="OK"): 3,
            _key("rpcs_total", method="grpc.health.v1.Health/Check", code="OK"): 1,
            _key("rpcs_total", method=f"{service}.RunService/Cancel", code="NOT_FOUND"): 1,
            _key("rpcs_total", method=f"{service}.RunService/Watch", code="NOT_FOUND"): 1,
            _key("rpcs_total", method="grpc.health.v1.Health/Watch", code="CANCELLED"): 1,
        }


async def _leave_in_the_middle(client: Client) -> None:
    watch = client.health.Watch(health_pb2.HealthCheckRequest())
    await watch.read()
    watch.cancel()


async def test_discovery_version_uptime_and_the_process_are_told(agent: LoggingAgent) -> None:
    async with connected(agent) as client:
        host = (await client.agent.GetHost(agent_pb2.GetHostRequest())).host
        await client.engines()
    figures = _figures(agent)
    assert figures[_key("info", version=host.agent_version, wire_revision=str(host.wire_revision))] == 1
    assert figures[_key("discovery_running")] == 0
    assert figures[_key("engines", state="available")] == 1
    assert 0 < figures[_key("uptime_seconds")] < 600
    assert figures[_key("process_open_fds")] > 3
    assert figures[_key("process_resident_memory_bytes")] > 1e7


def test_nothing_is_served_unless_asked_for(tmp_path: Path) -> None:
    with logging_agent(tmp_path, "--verbose", "--log-format", "json") as agent:
        assert agent.lines("listening")
        assert not agent.lines("metrics served")


def test_a_port_in_use_is_refused_in_one_sentence(agent: LoggingAgent, tmp_path: Path) -> None:
    port = _url(agent).rpartition(":")[2].removesuffix("/metrics")
    done = run_command("serve", "--port", "0", "--data-dir", str(tmp_path / "second"), "--metrics-port", port)
    assert done.returncode == 2
    assert f"cannot serve metrics on 127.0.0.1 port {port}" in done.stderr
    assert "--metrics-port" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_missing_library_is_told_with_its_extra_and_matters_to_metrics_only(tmp_path: Path) -> None:
    missing = tmp_path / "prometheus_client.py"
    missing.write_text("raise ModuleNotFoundError('No module named prometheus_client')\n")
    without = {"PYTHONPATH": str(tmp_path)}
    command = ("serve", "--port", "0", "--data-dir", str(tmp_path / "data"))
    done = run_command(*command, "--metrics-port", "0", environment=without)
    assert done.returncode == 2
    assert "pip install 'enginebench[metrics]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    # An agent that could start leaves at once, and in order, where its standard input is closed.
    served = serve_command(tmp_path / "data", "--port", "0", "--exit-with-stdin")
    assert subprocess.run(served, input=b"", env=os.environ | without, timeout=60, check=False).returncode == 0
