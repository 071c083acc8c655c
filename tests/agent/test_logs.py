"""What an agent logs: which run began and ended how, for whom; one line each, and nothing that is nobody's business."""

import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from agent_process import ENDLESS_MS, Client, connected, make_spec, refused
from logging_agent import LoggingAgent, logging_agent

from enginebench_proto.v1 import agent_pb2

pytestmark = pytest.mark.slow

SECRET = "swordfish-7c1d"
OF_A_RUN = ("run accepted", "run began", "run ended", "result acknowledged")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[LoggingAgent]:
    with logging_agent(tmp_path, "--verbose", "--log-format", "json") as agent:
        yield agent


async def test_the_lines_of_a_run_carry_its_id_its_caller_and_its_outcome(agent: LoggingAgent, model: bytes) -> None:
    async with connected(agent) as client:
        await client.upload(model)
        await client.run(make_spec(model, "told"))
        await client.acknowledge("told")
    lines = {line["event"]: line for line in agent.lines() if line.get("run") == "told"}
    assert tuple(lines) == OF_A_RUN
    assert all(line["caller"].startswith("ipv4:127.0.0.1:") for line in lines.values())
    assert lines["run accepted"]["engine"] == "fake"
    assert lines["run accepted"]["kind"] == "measure"
    assert (lines["run ended"]["outcome"], lines["run ended"]["failure"]) == ("ok", "none")
    assert lines["run ended"]["seconds"] > lines["run began"]["waited_seconds"] >= 0


async def test_failed_and_cancelled_runs_are_told_apart_and_who_cancelled(agent: LoggingAgent, model: bytes) -> None:
    async with connected(agent) as client:
        await client.upload(model)
        await client.run(make_spec(model, "crashed", options={"fault": "segfault"}))
        await client.start(make_spec(model, "cancelled", duration_ms=ENDLESS_MS))
        await client.wait_for_phase("cancelled", "steady_state")
        await client.cancel("cancelled")
    ended = {line["run"]: (line["outcome"], line["failure"]) for line in agent.lines("run ended")}
    assert ended == {"crashed": ("failed", "crashed"), "cancelled": ("cancelled", "cancelled")}
    (asked,) = agent.lines("cancellation asked for")
    assert asked["run"] == "cancelled" and asked["caller"].startswith("ipv4:127.0.0.1:")


async def test_a_refused_call_is_told_with_its_code(agent: LoggingAgent, model: bytes) -> None:
    async with connected(agent) as client, refused(grpc.StatusCode.NOT_FOUND):
        await client.start(make_spec(model, "nowhere", engine="none\n\x1b[31m"))
    (line,) = agent.lines("call refused")
    assert (line["method"], line["code"]) == ("/enginebench.v1.RunService/Start", "not_found")
    assert line["level"] == "info"


async def test_contents_options_and_metadata_are_not_logged(agent: LoggingAgent, model: bytes) -> None:
    async with grpc.aio.insecure_channel(agent.address) as channel:
        client = Client(channel)
        await client.agent.GetHost(agent_pb2.GetHostRequest(), metadata=(("authorization", f"Bearer {SECRET}"),))
        await client.upload(SECRET.encode())
        await client.upload(model)
        with pytest.raises(grpc.aio.AioRpcError):
            await client.start(make_spec(model, "option", options={"no_such_option": SECRET}))
        spec = make_spec(model, "other")
        spec.model.files[0].name = f"{SECRET}.onnx"
        await client.run(spec)
    assert agent.lines("run ended")
    assert SECRET not in agent.text()


async def test_text_lines_stay_one_line_whatever_names_hold(tmp_path: Path, model: bytes) -> None:
    with logging_agent(tmp_path, "--verbose") as agent:
        async with connected(agent) as client:
            with pytest.raises(grpc.aio.AioRpcError):
                await client.start(make_spec(model, "bad-name", engine="two\nlines\x1b[31m"))
            await client.upload(model)
            await client.run(make_spec(model, "plain"))
        text = agent.text()
    assert re.search(r" INFO enginebench_agent.runs.execution: run ended caller=\S+ run=plain outcome=ok ", text)
    assert "\x1b" not in text
    assert all(line[:4].isdigit() for line in text.splitlines()), "every line begins with its date"


async def test_without_verbose_nothing_is_logged_while_all_goes_well(tmp_path: Path, model: bytes) -> None:
    with logging_agent(tmp_path) as agent:
        async with connected(agent) as client:
            await client.upload(model)
            await client.run(make_spec(model, "silent"))
        assert agent.text() == ""
