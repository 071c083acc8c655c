"""Targets that are reserved: by people with certificates, on real agents that are killed and started again."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.agent_process import digest, make_spec
from agent.clock_going_back import executable
from agent_server import ONLY_FAKE, AgentProcess
from certified import Certified
from enginebench_controller.errors import BusyError, ReservedError
from enginebench_controller.home import Home
from enginebench_controller.records import ModelFile
from enginebench_controller.runs import remote_run
from enginebench_controller.targets.addresses import new_target
from enginebench_controller.targets.choosing import to_measure
from enginebench_controller.targets.client import AgentClient
from enginebench_proto.agreed.roles import Role
from integration.bench import QUICK, Bench, wait_until
from integration.skewed_agent import older

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000
HOUR_NS = 3_600 * SECOND


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    own = Certified(tmp_path_factory.mktemp("own"))
    own.agent()
    for name, role in (("ann", Role.RUN), ("bob", Role.RUN), ("eve", Role.READ), ("root", Role.ADMIN)):
        own.client(name, role)
    return own


@pytest.fixture(scope="module")
def secured_agent(own: Certified, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    config = f"max_queued_runs = 1\n{ONLY_FAKE}"
    agent = AgentProcess(tmp_path_factory.mktemp("agent"), "--tls", str(own.folder / "agent"), config=config)
    yield agent
    agent.stop()


@pytest.fixture
def nuc(secured_agent: AgentProcess, own: Certified, tmp_path: Path) -> Iterator[AgentProcess]:
    """The agent, which nobody has reserved before or has afterwards."""
    yield secured_agent
    Person(tmp_path / "tidying", own, "root", secured_agent).bench.cli("targets", "release", "nuc")


class Person:
    """Somebody with a home and a certificate, who knows targets by names."""

    def __init__(self, home: Path, own: Certified, name: str, *agents: AgentProcess) -> None:
        self.bench = Bench.of_engines(home, "fake")
        (home / "tls").symlink_to(own.folder / name)
        for number, agent in enumerate(agents):
            target = new_target(f"t{number}" if number else "nuc", agent.address, tls=True)
            Home(home).store.add_target(target)

    def reservations(self) -> dict[str, Any]:
        """What `targets check` tells, by target."""
        return {one["name"]: one["reservation"] for one in self.bench.json("targets", "check", expect=None)}


@pytest.fixture
def person(tmp_path: Path, own: Certified) -> Callable[..., Person]:
    return lambda name, *agents: Person(tmp_path / name, own, name, *agents)


def test_who_has_it_and_for_how_long_is_shown_everywhere(nuc: AgentProcess, person: Callable[..., Person]) -> None:
    ann, bob = person("ann", nuc), person("bob", nuc)
    (made,) = ann.bench.json("targets", "reserve", "nuc", "--for", "2h", "--reason", "new firmware")["targets"]
    assert (made["name"], made["reservation"]["holder"], made["reservation"]["is_yours"]) == ("nuc", "ann", True)
    told = bob.reservations()["nuc"]
    assert (told["holder"], told["reason"], told["is_yours"]) == ("ann", "new firmware", False)
    assert 1.9 * HOUR_NS < told["left_ns"] <= 2 * HOUR_NS
    assert "by 'ann' for 2 h (new firmware)" in bob.bench.cli("targets", "check").stdout
    devices = bob.bench.cli("devices", "--target", "nuc", "--json")
    assert json.loads(devices.stdout)["targets"][0]["reservation"]["holder"] == "ann"
    assert "target 'nuc' is reserved by 'ann' for 2 h (new firmware): what is begun there waits" in devices.stderr
    own_devices = ann.bench.cli("devices", "--target", "nuc")
    assert "nuc is reserved by you for 2 h (new firmware)" in own_devices.stdout and own_devices.stderr == ""


def test_the_holder_or_an_admin_releases_it_and_that_is_recorded(
    nuc: AgentProcess, person: Callable[..., Person]
) -> None:
    ann, bob, root = person("ann", nuc), person("bob", nuc), person("root", nuc)
    ann.bench.cli("targets", "reserve", "nuc", "--for", "1h")
    refused = bob.bench.cli("targets", "release", "nuc", expect=2)
    assert "target 'nuc': this target is reserved by 'ann' for 60 min: only the holder" in refused.stderr
    assert "nuc is free: it was reserved by you" in ann.bench.cli("targets", "release", "nuc").stderr
    assert "nuc was not reserved" in ann.bench.cli("targets", "release", "nuc").stderr
    ann.bench.cli("targets", "reserve", "nuc", "--for", "1h")
    assert "nuc is free: it was reserved by 'ann'" in root.bench.cli("targets", "release", "nuc").stderr
    lines = [json.loads(line) for line in (nuc.data_dir / "audit.log").read_text().splitlines()]
    told = [tuple(line[key] for key in ("who", "role", "method", "subject", "outcome")) for line in lines[-5:]]
    service = "/enginebench.v1.ReservationService/"
    assert told == [
        ("ann", "run", f"{service}Reserve", None, "OK"),
        ("bob", "run", f"{service}Release", "ann", "PERMISSION_DENIED"),
        ("ann", "run", f"{service}Release", "ann", "OK"),
        ("ann", "run", f"{service}Reserve", None, "OK"),
        ("root", "admin", f"{service}Release", "ann", "OK"),
    ]


def test_who_waits_already_is_not_told_to_wait(nuc: AgentProcess, person: Callable[..., Person]) -> None:
    ann, bob = person("ann", nuc), person("bob", nuc)
    ann.bench.cli("targets", "reserve", "nuc", "--for", "1h")
    order = ("targets", "reserve", "nuc", "--for", "2h")
    assert "; `--wait 10m` waits for so long" in bob.bench.cli(*order, expect=2).stderr
    waited = bob.bench.cli(*order, "--wait", "1s", expect=2).stderr
    assert "reserved by 'ann'" in waited and "--wait" not in waited


def test_a_read_only_certificate_reserves_nothing(nuc: AgentProcess, person: Callable[..., Person]) -> None:
    refused = person("eve", nuc).bench.cli("targets", "reserve", "nuc", "--for", "1h", expect=2)
    assert "the certificate of 'eve' has the role read, and ReservationService/Reserve needs run" in refused.stderr
    assert person("ann", nuc).reservations() == {"nuc": None}


def test_runs_of_others_wait_or_are_refused_and_the_holders_go_on(
    nuc: AgentProcess, person: Callable[..., Person], model: Path
) -> None:
    ann, bob = person("ann", nuc), person("bob", nuc)
    order = ("run", model, "--engine", "fake", "--target", "nuc", *QUICK)
    ann.bench.cli("targets", "reserve", "nuc", "--for", "2h")
    refused = bob.bench.json(*order, "--timeout", "1h", expect=1)
    (failure,) = [one["failure"] for one in refused["measurements"]]
    assert failure["kind"] == "refused"
    assert "reserved by 'ann' for 2 h, longer than this run may last" in failure["message"]
    assert [one["status"] for one in ann.bench.json(*order)["measurements"]] == ["ok"]

    ann.bench.cli("targets", "reserve", "nuc", "--for", "6s")
    begun = time.monotonic()
    assert [one["status"] for one in bob.bench.json(*order)["measurements"]] == ["ok"]
    assert time.monotonic() - begun > 4
    assert ann.reservations() == {"nuc": None}, "its time is over"


async def test_who_follows_a_run_that_waits_is_told_for_whom(
    secured_agent: AgentProcess, own: Certified, tmp_path: Path
) -> None:
    content = b"not a model"
    phases: list[str] = []
    reporter = SimpleNamespace(running=lambda _case, _process, phase, *_: phases.append(phase))
    address = f"tls://{secured_agent.address}"
    async with (
        AgentClient("nuc", address, own.folder / "ann") as ann,
        AgentClient("nuc", address, own.folder / "bob") as bob,
    ):
        path = tmp_path / "content"
        path.write_bytes(content)
        await bob.upload(ModelFile("tiny.onnx", digest(content), len(content)), path, 0, lambda *_: None)
        await ann.reserve(600 * SECOND, "why")
        with pytest.raises(ReservedError, match="reserved by 'ann'"):
            await bob.start(make_spec(content, "short", timeout_ns=SECOND))
        await bob.start(make_spec(content, "waits"))
        with pytest.raises(BusyError, match="1 runs wait on this agent already"):
            await bob.start(make_spec(content, "too-many"))
        await ann.start(make_spec(content, "own"))
        bench = remote_run.Bench({"nuc": bob}, lambda _: [], tmp_path, reporter, 0)  # type: ignore[arg-type]
        for run_id in ("own", "waits"):
            await remote_run.follow(bench, SimpleNamespace(target="nuc"), run_id)  # type: ignore[arg-type]
            await ann.release("ann")
        for run_id in ("own", "waits"):
            await bob.acknowledge(run_id)
    assert "waits, as the target is reserved by 'ann' for 10 min (why)" in phases


@pytest.mark.fault(20)
def test_neither_a_killed_agent_nor_a_clock_that_jumps_frees_or_prolongs_it(tmp_path: Path) -> None:
    """The wall clock of this agent loses an hour at each look, before and after it is killed."""
    python = executable(tmp_path, tmp_path / "clock")
    agent = AgentProcess(tmp_path / "data", python=str(python))
    bench = Bench.of_engines(tmp_path / "home", "fake")
    bench.cli("targets", "add", "nuc", agent.address)

    def left_ns() -> int:
        return int(bench.json("targets", "check", "nuc")[0]["reservation"]["left_ns"])

    try:
        begun_ns = time.monotonic_ns()
        bench.cli("targets", "reserve", "nuc", "--for", "1h")
        assert "nuc is reserved " in bench.cli("targets", "check").stdout
        for _ in range(2):
            before_ns = left_ns()
            agent.kill()
            time.sleep(1)
            agent.restart()
            after_ns = left_ns()
            assert HOUR_NS - (time.monotonic_ns() - begun_ns) <= after_ns <= before_ns - SECOND
    finally:
        agent.stop()
    assert (tmp_path / "clock").exists()


@pytest.fixture
def ten(own: Certified, tmp_path: Path) -> Iterator[list[AgentProcess]]:
    def start(number: int) -> AgentProcess:
        return AgentProcess(tmp_path / f"agent{number}", "--tls", str(own.folder / "agent"))

    with ThreadPoolExecutor(2) as threads:
        agents = list(threads.map(start, range(10)))
    yield agents
    for agent in agents:
        agent.stop()


def test_of_ten_targets_all_are_reserved_or_none(ten: list[AgentProcess], person: Callable[..., Person]) -> None:
    ann, bob = person("ann", *ten), person("bob", *ten)
    names = list(ann.reservations())
    bob.bench.cli("targets", "reserve", "t7", "--for", "1h", "--reason", "mine")
    ann.bench.cli("targets", "reserve", "t3", "--for", "30m")
    refused = ann.bench.cli("targets", "reserve", ",".join(names), "--for", "2h", expect=2)
    assert "target 't7': this target is reserved by 'bob' for 60 min (mine)" in refused.stderr
    assert "so none of these 10 targets was reserved" in refused.stderr
    left = {name: one for name, one in ann.reservations().items() if one is not None}
    assert {name: one["holder"] for name, one in left.items()} == {"t3": "ann", "t7": "bob"}
    assert left["t3"]["left_ns"] <= HOUR_NS / 2, "what was had before is as it was"
    for _ in range(3):  # of equals not always the same is chosen
        assert to_measure(Home(ann.bench.home), ["t7", "t3"], any_of=1) == ("t3",), "what is one's own is free"
        assert to_measure(Home(bob.bench.home), ["t7", "t3"], any_of=1) == ("t7",)

    bob.bench.cli("targets", "reserve", "t7", "--for", "8s")
    made = ann.bench.cli("targets", "reserve", *names, "--for", "2h", "--wait", "1m", "--json")
    assert made.stderr.count("waiting: target 't7': this target is reserved by 'bob'") == 1
    assert {one["reservation"]["holder"] for one in json.loads(made.stdout)["targets"]} == {"ann"}
    assert {one["holder"] for one in bob.reservations().values()} == {"ann"}
    ann.bench.cli("targets", "release", *names)
    assert set(ann.reservations().values()) == {None}

    ten[-1].kill()
    silent = ann.bench.cli("targets", "reserve", ",".join(names), "--for", "2h", expect=3)
    assert "target 't9'" in silent.stderr and "so none of these 10 targets was reserved" in silent.stderr
    assert set(ann.reservations().values()) == {None}
    ten[-1].restart()


def test_two_who_want_the_same_targets_do_not_wait_for_each_other(
    ten: list[AgentProcess], own: Certified, tmp_path: Path
) -> None:
    """Each calls them by other names, so in another order; one has them after the other."""
    ann = Person(tmp_path / "ann", own, "ann", *ten[:3])
    bob = Person(tmp_path / "bob", own, "bob", *reversed(ten[:3]))

    def reserve_and_release(one: Person) -> None:
        one.bench.cli("targets", "reserve", "nuc,t1,t2", "--for", "10m", "--wait", "1m")
        one.bench.cli("targets", "release", "nuc,t1,t2")

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(reserve_and_release, (ann, bob)))
    assert set(ann.reservations().values()) == {None}


def test_an_agent_from_before_there_were_reservations_is_told_to_be_upgraded(
    bench: Bench, shared_agent: AgentProcess
) -> None:
    with older(shared_agent.address, "Reserve") as old:
        bench.cli("targets", "add", "nuc", old.address)
        done = bench.cli("targets", "reserve", "nuc", "--for", "1h", expect=2)
    assert "upgrade the agent on nuc (it has enginebench 0.0.9" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nobody", "--for", "1h"), "there is no target 'nobody'"),
        (("local", "--for", "1h"), "there is nothing to reserve"),
        (("127.0.0.1:1", "--for", "soon"), "--for: 'soon' is not a duration"),
        (("127.0.0.1:1", "--for", "0s"), "--for 0s is no time: say how long, such as 2h"),
        (("127.0.0.1:1", "--for", "1h", "--wait", "-1"), "--wait: '-1' is not a duration"),
    ],
)
def test_what_cannot_be_reserved_is_told_in_a_sentence(bench: Bench, words: tuple[str, ...], sentence: str) -> None:
    assert sentence in bench.cli("targets", "reserve", *words, expect=2).stderr


def test_more_than_the_owner_allows_is_refused(bench: Bench, start_agent: Callable[..., AgentProcess]) -> None:
    agent = start_agent(config='max_reservation_seconds = 600\n[environments.default]\nengines = ["fake"]\n')
    refused = bench.cli("targets", "reserve", agent.address, "--for", "11m", expect=2)
    assert "can be reserved for 10 min at most (not for 11 min)" in refused.stderr
    bench.cli("targets", "reserve", agent.address, "--for", "2s")
    wait_until(lambda: not (agent.data_dir / "reservation.json").exists(), 20)
