"""Plugins that lie about time, leave processes behind, or tell too much: marked or refused, and nothing is left."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_process import ENDLESS_MS, Client, Outcome, connected, eventually, is_alive, make_spec

from agent.worker.pliable import engine_with
from agent_server import ONLY_FAKE, AgentProcess
from enginebench_proto.v1 import agent_pb2, engine_pb2, run_pb2
from plugged import PLANTED, Environment

sys.path.append(str(PLANTED))
import planted

pytestmark = pytest.mark.slow

BEING_ASKED = engine_pb2.UNAVAILABLE_KIND_BEING_ASKED


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


def serving(environment: Environment, *engines: str, seconds: int = 60) -> str:
    """The agent.toml of an agent with these engines of an environment, beside the fake one."""
    third = f"[environments.third]\npython = '{environment.python}'\nengines = {list(engines)!r}\n"
    return f"discovery_seconds = {seconds}\n{ONLY_FAKE}{third}"


def of_third(model: bytes, run_id: str, engine: str, **changes: object) -> run_pb2.RunSpec:
    spec = make_spec(model, run_id, engine=engine, environment="third", device="CPU", **changes)
    spec.configuration.options.clear()
    return spec


@pytest.mark.alone  # a tenth is told from what messages are late by, which neighbours decide
@pytest.mark.fault(25)
async def test_a_changed_clock_fails_the_run_and_no_other(
    start_agent: Callable[..., AgentProcess], environment: Environment, model: bytes
) -> None:
    factors = {"half": 0.5, "less": 0.9, "more": 1.2}
    for name, factor in factors.items():
        environment.add_plugin(name, planted.plugin("SoundEngine()", planted.changed_clock(factor)))
    environment.add_plugin("right", planted.plugin("SoundEngine()"))
    async with connected(start_agent(config=serving(environment, *factors, "right"))) as client:
        await client.upload(model)
        wrong = [await failing(client, model, name) for name in factors]
        wrong.append(await client.run(of_third(model, "profile", "half", kind=run_pb2.RUN_KIND_PROFILE)))
        right = [await client.run(of_third(model, "right", "right", duration_ms=50))]
        right.append(await client.run(of_third(model, "right-profile", "right", kind=run_pb2.RUN_KIND_PROFILE)))
    for outcome in wrong:
        assert outcome.result.failure.kind == run_pb2.FAILURE_KIND_INFERENCE_FAILED, outcome.result.spec.engine
        assert "something in it changes Python's clock" in outcome.result.failure.message
        assert not outcome.result.HasField("measurement") and outcome.blocks == ()
        assert not outcome.result.HasField("profile")
    assert [outcome.result.outcome for outcome in right] == [run_pb2.OUTCOME_OK] * 2


async def failing(client: Client, model: bytes, engine: str) -> Outcome:
    """The end of a run that is to fail; a tenth is only seen in what lasts longer than messages are late."""
    outcome = await client.run(of_third(model, engine, engine, duration_ms=4_000))
    if not outcome.result.HasField("failure"):
        outcome = await client.run(of_third(model, f"{engine}-longer", engine, duration_ms=16_000))
    return outcome


def sleepers(seconds: str) -> list[int]:
    """Processes that sleep for so long."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", seconds.encode()]:
            found.append(int(path.parent.name))
    return [pid for pid in found if is_alive(pid)]


@pytest.fixture
def seconds(tmp_path: Path) -> str:
    """How long the daemons of this test sleep; nobody else's do."""
    return f"{100_000 + hash(str(tmp_path)) % 1_000_000}.5"


@pytest.mark.fault(24)
async def test_no_process_that_a_plugin_started_outlives_its_child(
    start_agent: Callable[..., AgentProcess], environment: Environment, model: bytes, seconds: str
) -> None:
    environment.add_plugin("leaves", planted.plugin(f"DaemonLeft({seconds!r})"))
    agent = start_agent(config=serving(environment, "leaves"))
    async with connected(agent) as client:
        assert any(engine.name == "leaves" and engine.HasField("available") for engine in await client.engines())
        assert sleepers(seconds) == [], "after the list of engines"
        await client.upload(model)
        assert (await client.run(of_third(model, "ends", "leaves"))).result.outcome == run_pb2.OUTCOME_OK
        assert sleepers(seconds) == [], "after a run"
        await _begun(client, model, "cancelled", seconds)
        await client.cancel("cancelled")
        assert sleepers(seconds) == [], "after a cancellation"
        await _begun(client, model, "killed", seconds)
        (child,) = agent.children()
        os.kill(child, signal.SIGKILL)
        await client.watch("killed")
        assert sleepers(seconds) == [], "after a kill"
        assert (await client.outcome("killed")).result.failure.signal == "SIGKILL"
        await client.run(of_third(model, "late", "leaves", duration_ms=ENDLESS_MS, timeout_ns=1_500_000_000))
        assert sleepers(seconds) == [], "after a time limit"
        await _begun(client, model, "orphaned", seconds)
        agent.kill()
        await eventually(lambda: sleepers(seconds) == [])
    assert agent.children() == []


async def test_what_an_engine_wrote_on_the_way_is_gone_after_a_crash(
    start_agent: Callable[..., AgentProcess], environment: Environment, model: bytes
) -> None:
    writes = "import os, signal, sys, tempfile; folder = tempfile.mkdtemp(); open(folder + '/litter', 'w').close()"
    dies = "print('wrote', folder, file=sys.stderr, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    environment.add_plugin("litters", engine_with(read=f"{writes}; {dies}"))
    agent = start_agent(config=serving(environment, "litters"))
    async with connected(agent) as client:
        await client.upload(model)
        failure = (await client.run(of_third(model, "r1", "litters"))).result.failure
    assert failure.signal == "SIGKILL" and f"wrote {agent.data_dir}" in failure.stderr_tail
    assert list(agent.data_dir.rglob("litter")) == []


async def _begun(client: Client, model: bytes, run_id: str, seconds: str) -> None:
    await client.start(of_third(model, run_id, "leaves", duration_ms=ENDLESS_MS))
    await client.wait_for_phase(run_id, "warm_up")
    assert sleepers(seconds)


@pytest.mark.fault(18)
async def test_plugins_that_tell_too_much_or_nothing_are_bounded_and_leave_the_others_alone(
    start_agent: Callable[..., AgentProcess], environment: Environment
) -> None:
    names = {"many": "MillionDevices()", "long": "Verbose()", "reason": "VerboseReason()", "ends": "ProcessEnded()"}
    for name, engine in (names | {"good": "SoundEngine()"}).items():
        environment.add_plugin(name, planted.plugin(engine))
    environment.add_plugin("../x y", planted.plugin("SoundEngine()"), module="odd_plugin", distribution="odd")
    for distribution in ("one", "two"):
        environment.add_plugin("twice", planted.plugin("SoundEngine()"), module=distribution, distribution=distribution)
    environment.add_plugin("fake", planted.plugin("SoundEngine()"), module="mine", distribution="a-stranger")
    config = serving(environment, *names, "good", "../x y", "twice", "fake")
    async with connected(start_agent(config=config)) as client:
        listed = await client.engines()
    assert sum(engine.ByteSize() for engine in listed) < 100_000
    engines = {(engine.environment.name, engine.name): engine for engine in listed}
    reasons = {name: engine.unavailable.reason for (_, name), engine in engines.items() if engine.unavailable.reason}
    many, long = engines["third", "many"].available, engines["third", "long"].available
    assert (len(many.devices), many.more_devices) == (64, 999_936)
    assert max(map(len, (long.version, long.devices[0].full_name, long.options[0].name))) == 100
    assert (len(long.options), len(long.options[0].help), len(long.options[0].choices[0])) == (64, 500, 100)
    assert "RuntimeError: xxx" in reasons["reason"] and len(reasons["reason"]) == 500
    assert "ended its process with exit code 0 while it was asked" in reasons["ends"]
    assert "of odd 1.0 has a name that no engine may have" in reasons["../x y"]
    assert "one 1.0, two 1.0; uninstall all but one" in reasons["twice"]
    assert "a-stranger 1.0, enginebench" in reasons["fake"]
    assert engines["third", "good"].HasField("available") and engines["default", "fake"].HasField("available")


@pytest.mark.fault(18)
async def test_plugins_that_hang_keep_nobody_else_waiting(
    start_agent: Callable[..., AgentProcess], environment: Environment, model: bytes
) -> None:
    for name in ("hangs", "hangs-too"):
        environment.add_plugin(name, planted.plugin("Hanging()"), module=name.replace("-", "_") + "_plugin")
    environment.add_plugin("right", planted.plugin("SoundEngine()"))
    async with connected(start_agent(config=serving(environment, "hangs", "hangs-too", "right"))) as client:
        await client.upload(model)
        assert (await client.run(make_spec(model))).result.outcome == run_pb2.OUTCOME_OK
        early: dict[str, engine_pb2.Engine] = {}
        async with asyncio.timeout(40):
            while "right" not in early or not early["right"].HasField("available"):
                request = agent_pb2.ListEnginesRequest(within_ns=200_000_000)
                early = {engine.name: engine for engine in (await client.agent.ListEngines(request)).engines}
        assert early["fake"].HasField("available")
    asked = {name for name, engine in early.items() if engine.unavailable.kind == BEING_ASKED}
    assert asked == {"hangs", "hangs-too"}
    assert "It has not answered yet and has 60 s for that" in early["hangs"].unavailable.reason
