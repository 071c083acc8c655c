"""The agent's memory does not grow with what passes through it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from agent_process import connected, make_spec
from scripted_runs import scripted_interpreter

from agent_server import ONLY_FAKE, AgentProcess
from enginebench_proto.v1 import run_pb2

BLOCKS, SAMPLES = 40, 65_536
MEGABYTE = 1_000_000
SCRIPT = """
blocks = {blocks} if run_pb2.RunSpec.FromString(open(0, "rb").read()).run_id == "long" else 2
for index in range(blocks):
    block(index, {samples})
result(blocks, blocks * {samples})
"""


@pytest.mark.slow
async def test_millions_of_samples_pass_through_the_agent_without_staying_in_it(
    start_agent: Callable[..., AgentProcess], model: bytes, tmp_path: Path
) -> None:
    python = scripted_interpreter(tmp_path / "python", SCRIPT.format(blocks=BLOCKS, samples=SAMPLES))
    agent = start_agent(config=f'{ONLY_FAKE}python = "{python}"\n')
    async with connected(agent) as client:
        await client.upload(model)
        for run_id in ("short-1", "short-2"):
            await client.run(make_spec(model, run_id))
        before = agent.resident_bytes("VmHWM")
        await client.start(make_spec(model, "long"))
        await client.watch("long")
        samples = 0
        async for part in client.runs.Result(run_pb2.ResultRequest(run_id="long"), timeout=60):
            samples += len(part.samples.latency_ns)
        assert samples == BLOCKS * SAMPLES
        assert agent.resident_bytes("VmHWM") - before < 5 * MEGABYTE, "20 MB and more if the samples stayed"
