"""A command that was killed loses nothing: what its targets hold is collected once, by `enginebench resume`."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_server import AgentProcess
from enginebench_controller.home import Home
from integration.bench import QUICK, UNWAITING, Bench, started, wait_until

SLEEPING = ("--engine", "fake", "--option", "fake.wait=sleep")
THREE = (*QUICK, "--processes", "3", "--duration", "1500ms")
ENDLESS = (*QUICK, "--duration", "10m", "--max-duration", "20m", "--block", "100ms")


@pytest.fixture
def agent(start_agent: Callable[..., AgentProcess]) -> AgentProcess:
    return start_agent()


def kill_when(condition: Callable[[], bool], bench: Bench, *arguments: object) -> None:
    """Start a command, and kill it as soon as the condition holds."""
    with started(bench, *arguments) as command:
        wait_until(lambda: condition() or command.poll() is not None)
        assert command.poll() is None, command.communicate()


def spooled(agent: AgentProcess | Path, ending: str) -> bool:
    """Whether the agent has a file in its spool whose name ends so: run ids end in process and attempt."""
    folder = agent.data_dir if isinstance(agent, AgentProcess) else agent
    return any((folder / "spool").glob(f"*{ending}"))


def measured(bench: Bench) -> dict[int, Any]:
    """The measurements of the only benchmark, by batch."""
    store = Home(bench.home).store
    (entry,) = store.benchmarks()
    found = store.measurements(entry.benchmark.id)
    assert store.check().problems == ()
    return {one.configuration.batch: one for one in found}


@pytest.mark.fault(3)
def test_what_the_agent_held_when_the_controller_was_killed_is_collected_once(
    bench: Bench, model: Path, agent: AgentProcess
) -> None:
    arguments = ("run", model, *SLEEPING, "--target", agent.address, "--batch", "1,2", *THREE)
    kill_when(lambda: spooled(agent, "-1-0.blocks"), bench, *arguments)

    (told,) = bench.json("resume", "--dry-run")["plans"]
    assert (told["missing"], told["finished_runs"] + told["running_runs"]) == (2, 2)
    (first,) = bench.json("resume")["plans"]
    assert bench.json("resume")["plans"] == []

    assert (len(first["collected"]), len(first["interrupted"]), first["left"]) == (1, 1, [])
    by_status = {one.status.value: one for one in measured(bench).values()}
    assert set(by_status) == {"inconclusive", "cancelled"}, "two of three processes are not what was asked for"
    collected = by_status["inconclusive"]
    assert (collected.id, len(collected.processes)) == (first["collected"][0], 2)
    samples = Home(bench.home).store.block_samples(collected.id)
    assert sum(one.latency_ns.size for one in samples) == collected.iterations
    assert "before anything came of it" in by_status["cancelled"].failure.message
    assert list((agent.data_dir / "spool").iterdir()) == [], "what is stored is nobody's to collect"
    assert list((bench.home / "pending").iterdir()) == []


@pytest.mark.fault(3)
def test_resuming_can_finish_what_was_begun(bench: Bench, model: Path, agent: AgentProcess) -> None:
    arguments = ("run", model, *SLEEPING, "--target", agent.address, "--batch", "1,2", *THREE)
    kill_when(lambda: spooled(agent, "-1-0.blocks"), bench, *arguments)

    (told,) = bench.json("resume", "--finish")["plans"]

    assert (len(told["collected"]), told["interrupted"], told["left"]) == (2, [], [])
    assert [one.status.value for one in measured(bench).values()] == ["ok", "ok"]
    assert all(len(one.processes) == 3 for one in measured(bench).values())


def test_wrong_outputs_end_run_resume_and_rerun_with_1(bench: Bench, model: Path, agent: AgentProcess) -> None:
    wrong = ("--option", "fake.wrong=ignored_input", "--batch", "2", *QUICK, "--processes", "2")
    arguments = ("run", model, *SLEEPING, "--target", agent.address, *wrong)
    kill_when(lambda: spooled(agent, "-0-0.blocks"), bench, *arguments, "--duration", "1s")
    resumed = bench.json("resume", "--finish", expect=1)
    (collected,) = resumed["plans"][0]["collected"]
    assert resumed["outcome"]["wrong_outputs"] == [collected]
    assert bench.cli("run", *arguments[1:], expect=1).stderr.rstrip().splitlines()[-1].startswith("1 of 1 with wrong")
    again = bench.json("rerun", bench.json("list")["benchmarks"][0]["id"], expect=1)
    assert again["outcome"]["wrong_outputs"] == [one["id"] for one in again["measurements"]]


@pytest.mark.fault(3)
def test_an_interleaved_benchmark_is_collected_and_finished_too(bench: Bench, model: Path, agent: AgentProcess) -> None:
    measuring = (*QUICK, "--processes", "2", "--duration", "1s", "--block", "50ms", "--interleave")
    arguments = ("run", model, *SLEEPING, "--target", agent.address, "--batch", "1,2", *measuring)
    kill_when(lambda: spooled(agent, "-0-0.blocks"), bench, *arguments)

    bench.json("resume", "--finish")

    found = measured(bench).values()
    assert [(one.status.value, len(one.processes)) for one in found] == [("ok", 2)] * 2
    assert len({one.interleaving_group for one in found}) == 1


@pytest.mark.fault(3)
def test_engines_that_take_turns_are_finished_on_an_agent_that_knows_none_of_them(tmp_path: Path, model: Path) -> None:
    """It asks an engine while it has the machine for that, which a group that waits for a member keeps."""
    bench = Bench.of_engines(tmp_path / "home", "onnxruntime", "openvino")
    measuring = (*QUICK, "--processes", "2", "--duration", "1s", "--block", "50ms", "--interleave")
    arguments = ("run", model, "--engine", "onnxruntime,openvino", *measuring)
    kill_when(lambda: spooled(bench.home / "agent", "-0-0.blocks"), bench, *arguments)

    (told,) = bench.json("resume", "--finish", "--target", "local")["plans"]

    assert (len(told["collected"]), told["interrupted"], told["left"]) == (2, [], [])
    (entry,) = Home(bench.home).store.benchmarks()
    found = Home(bench.home).store.measurements(entry.benchmark.id)
    assert [(one.status.value, len(one.processes)) for one in found] == [("ok", 2)] * 2


@pytest.mark.fault(3)
def test_two_resumes_at_once_store_everything_once(bench: Bench, model: Path, agent: AgentProcess) -> None:
    arguments = ("run", model, *SLEEPING, "--target", agent.address, "--batch", "1,2", *THREE)
    kill_when(lambda: spooled(agent, "-1-0.blocks"), bench, *arguments)

    with started(bench, "resume") as first, started(bench, "resume") as second:
        assert (first.wait(60), second.wait(60)) == (0, 0)

    assert len(measured(bench)) == 2
    assert list((agent.data_dir / "spool").iterdir()) == []


def test_a_resume_takes_nothing_from_a_living_benchmark(bench: Bench, model: Path, agent: AgentProcess) -> None:
    with started(bench, "run", model, *SLEEPING, "--target", agent.address, *THREE) as running:
        wait_until(lambda: spooled(agent, "-0-0"))
        assert bench.json("resume")["plans"] == []
        assert running.wait(60) == 0

    assert [len(one.processes) for one in measured(bench).values()] == [3]


@pytest.mark.fault(3)
def test_a_killed_command_takes_its_own_agent_along_but_not_the_results(bench: Bench, model: Path) -> None:
    data_dir = bench.home / "agent"
    kill_when(lambda: spooled(data_dir, "-1-0.blocks"), bench, "run", model, *SLEEPING, *THREE)
    wait_until(lambda: spooled(data_dir, "-1-0"))  # it ends what runs, and then itself
    wait_until(lambda: not _is_served(data_dir))

    (told,) = bench.json("resume")["plans"]

    (one,) = measured(bench).values()
    assert told["collected"] == [one.id]
    assert (one.status.value, len(one.processes)) == ("inconclusive", 1), "what its end cancelled counts for nothing"
    assert list((data_dir / "spool").iterdir()) == []


@pytest.mark.fault(3)
def test_a_target_that_does_not_answer_is_asked_another_time(bench: Bench, model: Path, agent: AgentProcess) -> None:
    bench.cli("targets", "add", "edge", agent.address)
    kill_when(lambda: spooled(agent, "-1-0.blocks"), bench, "run", model, *SLEEPING, "--target", "edge", *THREE)
    wait_until(lambda: spooled(agent, "-1-0"))
    agent.kill()

    refused = bench.cli("resume", "--json", expect=3)
    assert "does not answer" in refused.stdout
    reminded = bench.cli("run", model, "--target", "edge", expect=3)
    assert "1 result of interrupted commands is missing: `enginebench resume`" in reminded.stderr
    agent.restart()
    (told,) = bench.json("resume", "--target", "edge")["plans"]

    assert (len(told["collected"]), told["left"]) == (1, [])
    assert [len(one.processes) for one in measured(bench).values()] == [2]


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_resuming_at_an_unknown_target_is_refused(bench: Bench, dry_run: tuple[str, ...]) -> None:
    bench.cli("targets", "add", "edge", "127.0.0.1:1")
    refused = bench.cli("resume", "--target", "egde", *dry_run, expect=2)
    assert "there is no target 'egde'; did you mean 'edge'?" in refused.stderr


def test_what_still_goes_on_can_be_left_for_later(bench: Bench, model: Path, agent: AgentProcess) -> None:
    arguments = ("run", model, *SLEEPING, "--target", agent.address, *ENDLESS)
    kill_when(lambda: spooled(agent, "-0-0.blocks"), bench, *arguments)

    (told,) = bench.json("resume", "--no-wait")["plans"]

    assert (told["collected"], len(told["left"])) == ([], 1)
    (waiting,) = bench.json("resume", "--dry-run")["plans"]
    assert (waiting["missing"], waiting["running_runs"]) == (1, 1)


def test_a_benchmark_removed_meanwhile_is_collected_no_more(bench: Bench, model: Path, agent: AgentProcess) -> None:
    arguments = ("run", model, *SLEEPING, "--target", agent.address, *ENDLESS)
    kill_when(lambda: spooled(agent, "-0-0.blocks"), bench, *arguments)
    (listed,) = bench.json("list")["benchmarks"]
    bench.cli("remove", listed["id"], "--yes")

    (told,) = bench.json("resume")["plans"]

    assert (told["collected"], told["left"], told["dropped_runs"]) == ([], [], 1)
    assert agent.children() == [] and list((agent.data_dir / "spool").iterdir()) == []


@pytest.mark.fault(3)
def test_profiles_are_collected_too(bench: Bench, model: Path, agent: AgentProcess) -> None:
    slow = ("--option", "fake.latency_us=50000")
    arguments = (
        "profile",
        model,
        *SLEEPING,
        *slow,
        "--target",
        agent.address,
        "--iterations",
        "20",
        "--batch",
        "1,2",
        *UNWAITING,
    )
    kill_when(lambda: any(map(is_run, agent.children())), bench, *arguments)

    (told,) = bench.json("resume")["plans"]

    assert (len(told["collected"]), len(told["interrupted"])) == (1, 1)
    statuses = {one.id: one.status.value for one in Home(bench.home).store.profiles()}
    assert statuses == {told["collected"][0]: "ok", told["interrupted"][0]: "cancelled"}
    assert Home(bench.home).store.profile(told["collected"][0]).layers
    assert list((agent.data_dir / "spool").iterdir()) == []


def stopped_at_once(agent: AgentProcess) -> None:
    """Have it end what runs, and then itself, as a service does that is restarted."""
    agent.stop(signal.SIGINT)


@pytest.mark.fault(1)
@pytest.mark.parametrize("ended", [AgentProcess.kill, stopped_at_once])
def test_an_agent_that_ends_in_the_middle_of_a_run_and_comes_back_is_asked_again(
    bench: Bench, model: Path, agent: AgentProcess, ended: Callable[[AgentProcess], None]
) -> None:
    arguments = ("run", model, *SLEEPING, "--target", agent.address, "--batch", "1,2", *THREE)
    with started(bench, *arguments) as running:
        wait_until(lambda: spooled(agent, "-1-0.blocks"))
        ended(agent)
        agent.restart()
        assert running.wait(90) == 0, running.communicate()

    found = measured(bench).values()
    assert [(one.status.value, len(one.processes)) for one in found] == [("ok", 3)] * 2
    assert list((agent.data_dir / "spool").iterdir()) == []


@pytest.mark.fault(1)
def test_an_agent_that_each_attempt_brings_down_is_not_asked_for_ever(
    bench: Bench, model: Path, agent: AgentProcess
) -> None:
    with started(bench, "run", model, *SLEEPING, "--target", agent.address, *THREE) as running:
        for attempt in range(3):
            wait_until(lambda attempt=attempt: spooled(agent, f"-0-{attempt}.blocks"))  # type: ignore[misc]  # its own
            agent.kill()
            agent.restart()
        assert running.wait(90) == 1

    (one,) = measured(bench).values()
    assert one.failure is not None and one.failure.kind == "agent_lost"
    assert "restarted during each of 3 attempts" in one.failure.message


def is_run(pid: int) -> bool:
    """Whether this child of an agent carries out a run."""
    command = Path(f"/proc/{pid}/cmdline")
    return command.exists() and b"\0run\0" in command.read_bytes()


def _is_served(data_dir: Path) -> bool:
    pid = int((data_dir / "agent.lock").read_text().split()[0])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
