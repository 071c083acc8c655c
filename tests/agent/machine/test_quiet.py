"""A run waits until others leave the machine alone: for a while, saying for whom, and not again and again in vain."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent_process import connected, make_spec
from machine import write, write_stat

from agent_server import AgentProcess
from enginebench_agent.machine.bystanders import Look, Quiet
from enginebench_agent.machine.disturbances import is_quiet
from enginebench_agent.machine.sources import TICK_NS
from enginebench_proto.v1 import run_pb2
from enginebench_proto.v1.measurement_pb2 import MachineUse

SECOND = 1_000_000_000
SPIN = "import time\nend = time.time() + 30\nwhile time.time() < end: pass\n"


class Machine:
    """A made-up machine of one processor, on which `pip` is at work or not."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.busy = False
        self._ticks = 0
        self._told_s = time.monotonic()
        self.tell()

    def tell(self) -> None:
        """Write down what /proc says now."""
        now_s = time.monotonic()
        self._ticks += round(50 * (now_s - self._told_s)) if self.busy else 0
        self._told_s = now_s
        after = f"S 1 0 0 0 -1 0 0 0 0 0 {self._ticks} 0 0 0 20 0 1 0 7 0 0"
        # Each at once, as the kernel does: a look may come in between.
        write(self.root, "made/process", f"812 (pip) {after}")
        write_stat(self.root / "made", user=self._ticks)
        (self.root / "proc/812").mkdir(parents=True, exist_ok=True)
        (self.root / "made/process").replace(self.root / "proc/812/stat")
        (self.root / "made/proc/stat").replace(self.root / "proc/stat")

    def rest(self) -> None:
        """Nothing is at work from now on, and what was is told: none of it is left for a later look."""
        self.tell()
        self.busy = False

    async def live(self) -> None:
        while True:
            self.tell()
            await asyncio.sleep(0.02)


@pytest.fixture
async def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    life = asyncio.create_task(made.live())
    yield made
    life.cancel()


class Told(list[run_pb2.Unquiet]):
    """What a run hears while it waits."""


async def test_a_quiet_machine_costs_one_short_look(machine: Machine) -> None:
    quiet, told = Quiet(machine.root), Told()
    begun = time.monotonic()
    found = await quiet.wait(1, 10 * SECOND, told.append)
    assert time.monotonic() - begun < 1
    assert (found.waited_ns, list(told)) == (0, [])
    assert found.before.other_cpu_time_ns == 0


@pytest.mark.slow
async def test_a_run_waits_for_as_long_as_others_work_and_says_for_whom(machine: Machine) -> None:
    quiet, told, machine.busy = Quiet(machine.root), Told(), True
    waiting = asyncio.create_task(quiet.wait(1, 10 * SECOND, told.append))
    await asyncio.sleep(0.9)
    machine.busy = False
    found = await asyncio.wait_for(waiting, 5)
    assert 0.5 * SECOND < found.waited_ns < 4 * SECOND
    assert [(one.name, one.pid) for one in told[0].seen.busiest] == [("pip", 812)]
    assert 0.2 < told[0].seen.other_cpu_time_ns / told[0].seen.duration_ns < 0.8
    assert {one.at_most_ns for one in told} == {10 * SECOND}
    assert is_quiet(found.before, 1), "what was seen last is what the measurement met"


@pytest.mark.slow
async def test_nobody_waits_longer_than_asked_for_nor_again_in_vain(machine: Machine) -> None:
    quiet, machine.busy = Quiet(machine.root), True
    found = await quiet.wait(1, SECOND // 2, Told().append)
    assert found.waited_ns == SECOND // 2
    assert found.before.busiest[0].name == "pip"
    begun, told = time.monotonic(), Told()
    again = await quiet.wait(1, SECOND // 2, told.append)
    assert time.monotonic() - begun < 0.5
    assert (again.waited_ns, list(told)) == (0, [])
    assert again.before.busiest[0].name == "pip", "that it is not quiet is told all the same"
    longer = await quiet.wait(1, SECOND, told.append)
    assert longer.waited_ns == SECOND, "who may wait for longer does"


@pytest.mark.slow
async def test_after_quiet_a_run_waits_again(machine: Machine) -> None:
    quiet, machine.busy = Quiet(machine.root), True
    await quiet.wait(1, SECOND // 4, Told().append)
    machine.rest()
    await quiet.look()
    await asyncio.sleep(0.8)
    assert is_quiet((await quiet.wait(1, SECOND // 4, Told().append)).before, 1)
    machine.busy = True
    await asyncio.sleep(0.4)
    assert (await quiet.wait(1, SECOND // 4, Told().append)).waited_ns > 0


@pytest.mark.slow
async def test_a_wait_that_ended_in_quiet_was_not_in_vain(machine: Machine) -> None:
    class SeenAtWorkOnce(Quiet):
        looks = 0

        async def look(self) -> Look | None:
            self.looks += 1
            if self.looks == 2:
                machine.rest()
            return await super().look()

    quiet, machine.busy = SeenAtWorkOnce(machine.root), True
    found = await quiet.wait(1, SECOND // 4, Told().append)
    assert (found.waited_ns, is_quiet(found.before, 1)) == (SECOND // 4, True)
    machine.busy = True
    await asyncio.sleep(0.4)
    assert (await quiet.wait(1, SECOND // 4, Told().append)).waited_ns > 0


async def test_who_does_not_want_to_wait_does_not_look_either(machine: Machine) -> None:
    machine.busy = True
    found = await Quiet(machine.root).wait(1, 0, Told().append)
    assert (found.waited_ns, found.HasField("before")) == (0, False)


async def test_a_machine_that_does_not_tell_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    found = await asyncio.wait_for(Quiet(tmp_path).wait(1, 10 * SECOND, Told().append), 1)
    assert (found.waited_ns, found.HasField("before")) == (0, False)
    assert await Quiet(tmp_path).use_since(None) is None


@pytest.mark.parametrize(
    ("cores", "used", "expected"),
    [
        (1, MachineUse(duration_ns=SECOND, other_cpu_time_ns=SECOND // 25), True),
        (1, MachineUse(duration_ns=SECOND, other_cpu_time_ns=SECOND // 15), False),
        (2, MachineUse(duration_ns=SECOND, other_cpu_time_ns=SECOND // 15), True),
        (1, MachineUse(duration_ns=SECOND, steal_ns=SECOND // 40), False),
        (1, MachineUse(duration_ns=TICK_NS, other_cpu_time_ns=TICK_NS), True),
    ],
)
def test_quiet_is_what_would_not_disturb_a_block(cores: int, used: MachineUse, expected: bool) -> None:
    assert is_quiet(used, cores) is expected


@contextmanager
def at_work(script: Path, count: int) -> Iterator[None]:
    """Busy processes of somebody else."""
    script.write_text(SPIN)
    started = [subprocess.Popen([sys.executable, str(script)]) for _ in range(count)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


@pytest.mark.slow
async def test_a_run_beside_a_busy_process_tells_whom_it_waited_for_and_who_disturbed_it(
    model: bytes, tmp_path: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    async with connected(start_agent()) as client:
        await client.upload(model)
        spec = make_spec(model, "beside", duration_ms=300)
        with at_work(tmp_path / "busy-beside.py", 4):
            await asyncio.sleep(0.2)
            await client.runs.Start(run_pb2.StartRequest(spec=spec, wait_quiet_ns=SECOND))
            events = await client.watch("beside")
        outcome = await client.outcome("beside")
    waits = [event.unquiet for event in events if event.HasField("unquiet")]
    assert "busy-beside.py" in [one.name for one in waits[-1].seen.busiest]
    phases = [event.WhichOneof("event") for event in events]
    assert phases.index("unquiet") < phases.index("phase"), "before anything of the run begins"
    bystanders = outcome.result.measurement.bystanders
    assert bystanders.waited_ns == SECOND
    assert "busy-beside.py" in [one.name for one in bystanders.meanwhile.busiest]
    assert "who else uses the device" in bystanders.unseen, "the fake device is no processor"


@pytest.mark.slow
async def test_a_profile_tells_who_was_at_work_beside_it(
    model: bytes, tmp_path: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    async with connected(start_agent()) as client:
        await client.upload(model)
        with at_work(tmp_path / "busy-beside.py", 4):
            await asyncio.sleep(0.2)
            outcome = await client.run(make_spec(model, "layers", kind=run_pb2.RUN_KIND_PROFILE))
    assert outcome.result.HasField("profile") and not outcome.result.HasField("measurement")
    meanwhile = outcome.result.profile.bystanders.meanwhile
    assert "busy-beside.py" in [one.name for one in meanwhile.busiest]
    assert meanwhile.other_cpu_time_ns > 0.1 * meanwhile.duration_ns
