"""An agent beside other versions: what it does not know is refused, never passed over in silence."""

import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from agent_process import Client, connected, make_spec, refused

from agent_server import AgentProcess
from enginebench_proto.v1 import agent_pb2, run_pb2

pytestmark = pytest.mark.fault(20)

OLD_WORKER = """\
import sys
from enginebench_agent.worker.pipe import write_frame
from enginebench_proto.v1.engine_pb2 import Engine
from enginebench_proto.v1.worker_pb2 import WorkerMessage
write_frame(sys.stdout.buffer, WorkerMessage(engine=Engine(name="fake", distribution="enginebench 0.0.1")))
"""
UNKNOWN_FIELD = b"\xfa\x06\x01x"  # number 111, a text


async def test_a_run_with_a_field_of_a_later_version_is_refused(shared: Client, model: bytes) -> None:
    spec = make_spec(model, "later-field")
    spec.configuration.stop.MergeFromString(UNKNOWN_FIELD)
    async with refused(grpc.StatusCode.UNIMPLEMENTED, "this agent is too old for a part of this RunSpec"):
        await shared.start(spec)


@pytest.mark.parametrize("field", ["load", "hint"])
async def test_a_run_with_a_value_of_a_later_version_is_refused(shared: Client, model: bytes, field: str) -> None:
    spec = make_spec(model, f"later-{field}")
    setattr(spec.configuration, field, 77)
    async with refused(grpc.StatusCode.UNIMPLEMENTED, f"this agent is too old for {field} 77"):
        await shared.start(spec)


async def test_a_run_of_a_kind_of_a_later_version_is_refused(shared: Client, model: bytes) -> None:
    async with refused(grpc.StatusCode.UNIMPLEMENTED, "this agent is too old for kind 77"):
        await shared.start(make_spec(model, "later-kind", kind=77))


async def test_other_requests_are_answered_whatever_a_later_version_added_to_them(shared: Client) -> None:
    request = agent_pb2.GetHostRequest.FromString(UNKNOWN_FIELD)
    assert (await shared.agent.GetHost(request)).host.wire_revision >= 1
    assert (await shared.runs.List(run_pb2.ListRequest.FromString(UNKNOWN_FIELD))) is not None


@pytest.mark.slow
async def test_an_environment_of_another_version_is_listed_as_broken_with_both_versions(
    start_agent: Callable[..., AgentProcess], tmp_path: Path
) -> None:
    (tmp_path / "worker.py").write_text(OLD_WORKER)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path / "worker.py"}"\n')
    python.chmod(0o700)
    default = '[environments.default]\nengines = ["fake"]\n'
    agent = start_agent(config=f'{default}[environments.old]\npython = "{python}"\n')
    async with connected(agent) as client:
        engines = {engine.environment.name: engine for engine in await client.engines()}
    assert engines["default"].HasField("available")
    reason = engines["old"].unavailable.reason
    assert "holds enginebench 0.0.1, but this agent is enginebench" in reason
    assert reason.rstrip(".").endswith("`enginebench-agent environment upgrade` brings it to that")
