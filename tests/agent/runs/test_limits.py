"""What a child may take of the machine: one that takes more becomes a typed failure that names the limit."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_process import connected, make_spec
from grpc_health.v1 import health_pb2
from scripted_runs import Bench

from agent_server import ONLY_FAKE, AgentProcess
from enginebench_agent.runs.limits import RESERVED_BYTES, ChildLimits, impose
from enginebench_agent.sizes import parse_size, shown_size
from enginebench_proto.v1 import agent_pb2, run_pb2

MEBIBYTE = 1024**2
MINE = {"fault": "out_of_memory", "fault_phase": "compile"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.fault(11)
async def test_memory_beyond_the_limit_is_refused_to_the_child(bench: Bench) -> None:
    script = f"phase('compile')\nheld = bytearray({4_000 * MEBIBYTE})\nresult()"
    limits = ChildLimits(memory_bytes=400 * MEBIBYTE)
    failure = (await bench.run(script, limits=limits)).failure
    assert "MemoryError" in failure.stderr_tail


@pytest.mark.slow
@pytest.mark.fault(11)
async def test_a_child_that_comes_to_hold_more_all_the_same_is_killed_with_a_sentence(bench: Bench) -> None:
    # Shared memory is no "data" of the process, so the kernel grants it.
    script = (
        "import mmap\nphase('compile')\n"
        f"held = mmap.mmap(-1, {600 * MEBIBYTE})\n"
        f"for place in range(0, {600 * MEBIBYTE}, 4096): held[place] = 1\n"
        "time.sleep(60)"
    )
    failure = (await bench.run(script, limits=ChildLimits(memory_bytes=400 * MEBIBYTE))).failure
    assert (failure.kind, failure.phase) == (run_pb2.FAILURE_KIND_OUT_OF_MEMORY, "compile")
    assert "400 MiB (max_memory_bytes in its agent.toml)" in failure.message
    assert failure.signal == "", "the signal was ours"


@pytest.mark.slow
async def test_a_large_file_that_is_only_mapped_is_no_memory_held(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(bytes(300 * MEBIBYTE))
    script = (
        f"import mmap\nstream = open({str(tmp_path / 'weights')!r}, 'rb')\n"
        "weights = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)\n"
        "total = sum(weights[place] for place in range(0, len(weights), 4096))\n"
        "time.sleep(0.5)\nresult()"
    )
    result = await bench.run(script, limits=ChildLimits(memory_bytes=200 * MEBIBYTE))
    assert result.outcome == run_pb2.OUTCOME_OK, result.failure


@pytest.mark.slow
@pytest.mark.fault(11)
async def test_a_child_that_computes_without_end_is_stopped_by_the_kernel_itself(bench: Bench) -> None:
    script = "phase('steady_state')\nwhile True: pass"
    failure = (await bench.run(script, limits=ChildLimits(cpu_seconds=1))).failure
    assert failure.kind == run_pb2.FAILURE_KIND_TIMED_OUT
    assert failure.message.endswith(": the agent allows it 1 s (max_cpu_seconds in its agent.toml)")


@pytest.mark.fault(11)
async def test_a_child_that_writes_an_endless_file_is_stopped(bench: Bench) -> None:
    script = (
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        "with open('endless', 'wb') as stream:\n"
        f"    while True: stream.write(bytes({MEBIBYTE}))"
    )
    failure = (await bench.run(script, limits=ChildLimits(file_bytes=3 * MEBIBYTE))).failure
    assert failure.kind == run_pb2.FAILURE_KIND_REFUSED
    assert failure.message.endswith(": the agent allows it 3 MiB (max_file_bytes in its agent.toml)")


async def test_a_child_leaves_no_core_and_is_the_first_to_go_where_memory_runs_out(bench: Bench) -> None:
    script = (
        "import resource\ntime.sleep(0.3)\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE), open('/proc/self/oom_score_adj').read(), file=sys.stderr)\n"
        "sys.exit(1)"
    )
    assert (await bench.run(script)).failure.stderr_tail.split() == ["(0,", "0)", "1000"]


def test_a_limit_never_exceeds_what_the_agent_itself_was_given() -> None:
    given = (1 << 30, 1 << 30)
    lowered = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, {given}); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", lowered], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdout.readline()
        impose(child.pid, ChildLimits(file_bytes=1 << 40))
        assert resource.prlimit(child.pid, resource.RLIMIT_FSIZE) == given
        impose(child.pid, ChildLimits(file_bytes=1 << 20))
        assert resource.prlimit(child.pid, resource.RLIMIT_FSIZE) == (1 << 20, 1 << 20)
        child.kill()


async def test_a_child_that_is_killed_within_a_frame_is_judged_by_its_end(bench: Bench) -> None:
    script = "os.write(pipe.fileno(), b'\\x10\\x00\\x00\\x00half')\nos.kill(os.getpid(), signal.SIGSEGV)"
    failure = (await bench.run(script)).failure
    assert (failure.kind, failure.signal) == (run_pb2.FAILURE_KIND_CRASHED, "SIGSEGV")


@pytest.mark.slow
@pytest.mark.fault(11)
async def test_the_limits_of_agent_toml_hold_for_an_engine_and_the_next_run_passes(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    limits = 'max_memory_bytes = "2 GiB"\nmax_file_bytes = "1 GB"\nmax_cpu_seconds = 100\n'
    agent = start_agent(config=limits + ONLY_FAKE)
    async with connected(agent) as client:
        await client.upload(model)
        failure = (await client.run(make_spec(model, options=MINE))).result.failure
        assert failure.kind == run_pb2.FAILURE_KIND_OUT_OF_MEMORY
        assert failure.message.endswith("tiny.onnx: the agent allows it 2 GiB (max_memory_bytes in its agent.toml).")
        await client.start(make_spec(model, "hangs", options={"fault": "hang", "fault_phase": "compile"}))
        await client.wait_for_phase("hangs", "compile")
        (child,) = agent.children()
        table = Path(f"/proc/{child}/limits").read_text()
        assert await client.health_status() == health_pb2.HealthCheckResponse.SERVING
        await client.cancel("hangs")
        assert (await client.run(make_spec(model, "next"))).result.outcome == run_pb2.OUTCOME_OK
    rows = {line[:26].strip(): line[26:].split()[:2] for line in table.splitlines()}
    assert rows["Max data size"] == [str(2 * 1024**3 + RESERVED_BYTES)] * 2
    assert rows["Max file size"] == ["1000000000"] * 2
    assert rows["Max cpu time"] == ["100", "105"]
    assert rows["Max core file size"] == ["0", "0"]


@pytest.mark.slow
async def test_without_a_word_of_the_owner_a_child_is_bound_to_what_the_machine_has(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    agent = start_agent()
    async with connected(agent) as client:
        await client.upload(model)
        installed_bytes = (await client.agent.GetHost(agent_pb2.GetHostRequest())).host.memory_bytes
        await client.start(make_spec(model, options={"fault": "hang"}))
        await client.wait_for_phase("run-1", "compile")
        (child,) = agent.children()
        limits = Path(f"/proc/{child}/limits").read_text()
        await client.cancel("run-1")
    data = next(line.split() for line in limits.splitlines() if line.startswith("Max data size"))
    assert 0.85 * installed_bytes < int(data[3]) - RESERVED_BYTES < 0.95 * installed_bytes
    cpu = next(line.split() for line in limits.splitlines() if line.startswith("Max cpu time"))
    assert int(cpu[3]) >= 3_600


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("8 GiB", 8 * 1024**3), ("1.5 MB", 1_500_000), ("512KiB", 512 * 1024), ("7 B", 7), (4096, 4096)],
)
def test_sizes_are_read_as_people_write_them(text: object, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["", "8", "GiB", "-1 GiB", "0 B", 0, -5, True, 1.5, "8 XiB", "8 iB", "1e3 B", "٨ GiB", None]
)
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size(text)


def test_sizes_are_shown_as_people_read_them() -> None:
    assert [shown_size(size) for size in (0, 900, 2048, 8 * 1024**3)] == ["0 B", "900 B", "2 KiB", "8 GiB"]
