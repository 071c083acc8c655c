"""What an agent lists, with plugins that misbehave in every way: real environments with real plugins in them."""

import asyncio
import importlib.metadata
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from agent_process import connected
from scripted_runs import PRELUDE

from agent_server import ONLY_FAKE, AgentProcess
from enginebench_agent.config import AgentConfig, EnvironmentConfig
from enginebench_agent.environments.discovery import Discovery, WorkerAnswerError, ask_worker, without_needless
from enginebench_agent.runs.queue import Lease
from enginebench_agent.runs.reservations import Reservations
from enginebench_proto.v1 import engine_pb2
from enginebench_proto.v1.engine_pb2 import Engine
from plugged import Environment

pytestmark = pytest.mark.slow

GOOD = """
from enginebench_plugins import spec

class Scale(spec.Engine):
    def info(self):
        return spec.EngineInfo(version="1.0", formats=frozenset({spec.ModelFormat.ONNX}))
    def devices(self):
        return [spec.Device(name="CPU", full_name="any processor")]
    def read(self, source): ...
    def compile(self, model, source, settings): ...

@spec.hookimpl
def enginebench_engine():
    return Scale()
"""
RAISES = "raise ImportError('libgood.so.7: cannot open shared object file')"
HANGS = "import time; time.sleep(600)"
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
LINGERS = f"import time; time.sleep(2)\n{GOOD}"
PLUGINS = {"good": GOOD, "raises": RAISES, "hangs": HANGS, "dies": DIES}
BEING_ASKED = engine_pb2.UNAVAILABLE_KIND_BEING_ASKED
OURS = f"enginebench {importlib.metadata.version('enginebench')}"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


def section(name: str, python: Path, engines: list[str] | None = None) -> str:
    listed = "" if engines is None else f"engines = {engines!r}\n"
    return f"[environments.{name}]\npython = '{python}'\n{listed}"


def test_only_the_usable_place_of_an_engine_is_listed_when_it_is_absent_elsewhere() -> None:
    def engine(name: str, environment: str, kind: int | None) -> Engine:
        message = Engine(name=name, environment=engine_pb2.Environment(name=environment))
        if kind is None:
            message.available.version = "1"
        else:
            message.unavailable.kind = kind
        return message

    absent, broken = engine_pb2.UNAVAILABLE_KIND_NOT_INSTALLED, engine_pb2.UNAVAILABLE_KIND_BROKEN
    found = without_needless(
        [
            engine("b", "x", None),
            engine("b", "default", absent),
            engine("a", "default", absent),
            engine("b", "y", broken),
        ]
    )
    assert [(each.name, each.environment.name) for each in found] == [("a", "default"), ("b", "x"), ("b", "y")]


@pytest.mark.fault(18)
async def test_plugins_that_misbehave_are_listed_with_their_reason_and_the_others_work(
    start_agent: Callable[..., AgentProcess], environment: Environment
) -> None:
    for name, source in PLUGINS.items():
        environment.add_plugin(name, source)
    config = "discovery_seconds = 5\n" + ONLY_FAKE + section("third", environment.python, list(PLUGINS))
    agent = start_agent(config=config)
    async with connected(agent) as client:
        engines = {engine.name: engine for engine in await client.engines()}
    assert engines["fake"].HasField("available")
    assert engines["fake"].environment.name == "default"
    assert engines["good"].available.devices[0].full_name == "any processor"
    assert engines["good"].environment.name == "third"
    assert engines["good"].distribution == "good-plugin 1.0"
    assert engines["raises"].unavailable.kind == engine_pb2.UNAVAILABLE_KIND_BROKEN
    assert "libgood.so.7" in engines["raises"].unavailable.reason
    assert engines["dies"].unavailable.kind == engine_pb2.UNAVAILABLE_KIND_BROKEN
    assert "SIGSEGV" in engines["dies"].unavailable.reason
    assert engines["hangs"].unavailable.kind == engine_pb2.UNAVAILABLE_KIND_TIMED_OUT
    assert "5 s" in engines["hangs"].unavailable.reason
    assert agent.children() == []


async def test_answers_come_from_memory_until_a_refresh_asks_anew(
    start_agent: Callable[..., AgentProcess], environment: Environment
) -> None:
    agent = start_agent()
    async with connected(agent) as client:
        await client.engines()
        environment.add_plugin("good", GOOD)
        (agent.data_dir / "agent.toml").write_text(ONLY_FAKE + section("third", environment.python, ["good"]))
        began = time.monotonic()
        assert [engine.name for engine in await client.engines()] == ["fake"]
        assert time.monotonic() - began < 0.5
        assert {engine.name for engine in await client.engines(refresh=True)} == {"fake", "good"}


async def test_a_refresh_while_engines_are_asked_asks_once_more(
    start_agent: Callable[..., AgentProcess], environment: Environment
) -> None:
    environment.add_plugin("lingers", LINGERS)
    agent = start_agent(config=ONLY_FAKE + section("third", environment.python, ["lingers"]))
    async with connected(agent) as client:
        while not agent.children():
            await asyncio.sleep(0.02)
        environment.add_plugin("good", GOOD)
        (agent.data_dir / "agent.toml").write_text(ONLY_FAKE + section("third", environment.python, ["good"]))
        lists = await asyncio.gather(*(client.engines(refresh=True) for _ in range(3)))
    assert [[engine.name for engine in engines] for engines in lists] == [["fake", "good"]] * 3


async def test_a_refresh_counts_for_an_asking_that_still_waits_for_the_processor(
    tmp_path: Path, environment: Environment
) -> None:
    environment.add_plugin("good", GOOD)
    later = AgentConfig((EnvironmentConfig("third", environment.python, ("good",)),))
    lease = Lease(Reservations(tmp_path / "reservation.json", 1))
    discovery = Discovery(AgentConfig(()), lambda: later, tmp_path, lease)
    async with lease.hold():
        first = discovery.begin()
        await asyncio.sleep(0.05)
        refresh = asyncio.ensure_future(discovery.engines(refresh=True))
        await asyncio.sleep(0.05)
    assert [engine.name for engine in await refresh] == ["good"]
    assert await first == await refresh, "once is enough"


async def test_while_all_wait_to_be_asked_anew_who_wants_the_news_is_told_so_and_a_run_goes_by_what_is_known(
    tmp_path: Path, environment: Environment
) -> None:
    environment.add_plugin("good", GOOD)
    config = AgentConfig((EnvironmentConfig("third", environment.python, ("good", "lingers")),))
    lease = Lease(Reservations(tmp_path / "reservation.json", 1))
    discovery = Discovery(config, lambda: config, tmp_path, lease)
    before = await discovery.engines()
    environment.add_plugin("lingers", LINGERS)
    async with lease.hold():
        for early in (
            await discovery.engines(refresh=True, within_seconds=0.1),
            await discovery.engines(within_seconds=0.1),
        ):
            assert {one.name: one.unavailable.kind for one in early} == dict.fromkeys(("good", "lingers"), BEING_ASKED)
        assert await discovery.engine("good", "third") == before == await discovery.engines()
    later = await discovery.engines(within_seconds=60)
    assert {one.name for one in later if one.HasField("available")} == {"good", "lingers"}


async def test_who_names_engines_has_no_other_asked(tmp_path: Path, environment: Environment) -> None:
    environment.add_plugin("good", GOOD)
    environment.add_plugin("raises", RAISES)
    elsewhere = EnvironmentConfig("gone", tmp_path / "gone", ("raises",))
    config = AgentConfig((EnvironmentConfig("third", environment.python), elsewhere))
    discovery = Discovery(config, lambda: config, tmp_path, Lease(Reservations(tmp_path / "reservation.json", 1)))
    assert [one.name for one in await discovery.engines(["good"])] == ["good"]
    assert discovery.known is None and not discovery.is_under_way

    from_memory = await asyncio.gather(discovery.engines(["good"]), discovery.engine("good", "third"))
    assert from_memory[0] is from_memory[1], "who has been asked is not asked again"

    few, everything = await asyncio.gather(discovery.engines(["raises"]), discovery.engines())
    assert {one.environment.name for one in few if one.name == "raises"} == {"third", "gone"}
    assert {"good", "raises", "fake"} <= {one.name for one in everything}
    assert discovery.known == everything == await discovery.engines(["good"])
    assert await discovery.engines(["good"], refresh=True) == everything, "a refresh asks all"


async def test_of_engines_that_were_asked_one_after_the_other_all_stay_known(
    tmp_path: Path, environment: Environment
) -> None:
    environment.add_plugin("good", GOOD)
    environment.add_plugin("raises", RAISES)
    config = AgentConfig((EnvironmentConfig("third", environment.python),))
    lease = Lease(Reservations(tmp_path / "reservation.json", 1))
    discovery = Discovery(config, lambda: config, tmp_path, lease)
    await discovery.engines(["good"])
    await discovery.engines(["raises"])
    async with lease.hold(), asyncio.timeout(10):  # nobody could be asked now
        known = await discovery.engines(["good", "raises"])
        assert known == await discovery.engine("good", "third")
    assert [one.name for one in known] == ["good", "raises"] and discovery.known is None


async def test_what_was_broken_is_asked_anew_with_its_environment_and_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = AgentConfig((EnvironmentConfig("main", tmp_path / "python", ("a", "b")),))
    discovery = Discovery(config, lambda: config, tmp_path, Lease(Reservations(tmp_path / "reservation.json", 1)))
    is_broken = True

    async def ask(_: Path, words: Sequence[str], *__: object) -> list[Engine]:
        if is_broken:
            raise WorkerAnswerError("ended its process with exit code 1")
        names = words[1:] or ["a", "b"]
        return [Engine(name=name, distribution=OURS, available=engine_pb2.AvailableEngine()) for name in names]

    monkeypatch.setattr(discovery, "_ask", ask)

    async def listed(name: str) -> list[tuple[str, bool]]:
        return sorted((one.name, one.HasField("available")) for one in await discovery.engines([name]))

    assert ("a", False) in await listed("a")
    is_broken = False
    assert await listed("b") == [("b", True)]
    assert await listed("a") == [("a", True), ("b", True)]


async def test_a_run_has_only_its_engine_asked(tmp_path: Path, environment: Environment) -> None:
    environment.add_plugin("good", GOOD)
    environment.add_plugin("hangs", HANGS)
    config = AgentConfig((EnvironmentConfig("third", environment.python),), discovery_seconds=60)
    discovery = Discovery(config, lambda: config, tmp_path, Lease(Reservations(tmp_path / "reservation.json", 1)))
    async with asyncio.timeout(30):
        assert "good" in {one.name for one in await discovery.engine("good", "third")}
    await discovery.close()


async def test_a_broken_environment_is_listed_by_its_engines(
    start_agent: Callable[..., AgentProcess], tmp_path: Path
) -> None:
    bare = Environment(tmp_path / "bare", with_enginebench=False)
    config = (
        ONLY_FAKE
        + section("gone", tmp_path / "gone" / "python", ["onnxruntime"])
        + section("bare", bare.python, ["openvino", "torch"])
        + section("nameless", tmp_path / "gone" / "python")
    )
    async with connected(start_agent(config=config)) as client:
        engines = {(engine.environment.name, engine.name): engine for engine in await client.engines()}
    gone = engines["gone", "onnxruntime"].unavailable
    assert gone.kind == engine_pb2.UNAVAILABLE_KIND_BROKEN
    assert str(tmp_path / "gone" / "python") in gone.reason
    assert "enginebench_agent" in engines["bare", "torch"].unavailable.reason
    assert engines["bare", "openvino"].unavailable.kind == engine_pb2.UNAVAILABLE_KIND_BROKEN
    assert ("nameless", "nameless") in engines
    assert engines["default", "fake"].HasField("available")


async def test_an_engine_that_was_promised_but_is_not_there_is_listed_so(
    start_agent: Callable[..., AgentProcess],
) -> None:
    config = '[environments.default]\nengines = ["fake", "vanished"]\n'
    async with connected(start_agent(config=config)) as client:
        engines = {engine.name: engine for engine in await client.engines()}
    assert engines["vanished"].unavailable.kind == engine_pb2.UNAVAILABLE_KIND_UNSUPPORTED


@pytest.mark.fault(18)
async def test_stopping_in_the_middle_of_discovery_leaves_no_child(
    start_agent: Callable[..., AgentProcess], environment: Environment
) -> None:
    environment.add_plugin("hangs", HANGS)
    agent = start_agent(config=section("third", environment.python, ["hangs"]))
    while not agent.children():
        time.sleep(0.02)
    assert agent.stop() == 0


async def test_what_a_child_says_of_its_confinement_is_in_the_agents_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    child, python = tmp_path / "child.py", tmp_path / "python"
    child.write_text(f"{PRELUDE}\nsend(notice='engines here can reach the network: so it is')\n")
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{child}" "$@"\n')
    python.chmod(0o700)
    assert await ask_worker(python, ["list"], tmp_path, 20) == []
    assert f"{python}: engines here can reach the network: so it is" in caplog.text


async def test_a_worker_that_does_not_know_a_word_of_its_agent_is_to_be_upgraded(tmp_path: Path) -> None:
    with pytest.raises(
        WorkerAnswerError, match=r"does not understand this agent, .* `enginebench-agent environment up"
    ):
        await ask_worker(Path(sys.executable), ["list", "--of-a-later-version"], tmp_path, 20)
