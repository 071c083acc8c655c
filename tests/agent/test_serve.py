"""`enginebench-agent serve` as a command: how it starts, refuses to start, answers and stops."""

import asyncio
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from agent_process import Client, connected, run_command
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from agent_server import ONLY_FAKE, AgentProcess, serve_command
from enginebench_proto.v1 import agent_pb2

pytestmark = pytest.mark.slow

SERVICES = ("enginebench.v1.AgentService", "enginebench.v1.ModelService", "enginebench.v1.RunService")
IDLE_LIMIT_BYTES = 60_000_000


def refusal(*arguments: str, **options: dict[str, str]) -> str:
    """The one sentence of a command that exits with 2."""
    done = run_command(*arguments, **options)
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


async def test_health_says_serving_for_the_agent_and_each_service(shared: Client) -> None:
    for service in ("", *SERVICES):
        assert await shared.health_status(service) == health_pb2.HealthCheckResponse.SERVING


async def test_reflection_lists_the_services(shared_agent: AgentProcess) -> None:
    async with grpc.aio.insecure_channel(shared_agent.address) as channel:
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        )
        response = await call.read()
        names = {service.name for service in response.list_services_response.service}
        assert {*SERVICES, "grpc.health.v1.Health"} <= names
        call.cancel()


async def test_the_host_facts_are_those_of_this_machine(shared: Client) -> None:
    host = (await shared.agent.GetHost(agent_pb2.GetHostRequest())).host
    assert host.hostname == socket.gethostname()
    assert host.logical_cores >= 1
    assert host.memory_bytes > 1e8
    assert host.python_version.startswith("3.")


async def test_the_process_holds_no_engine_and_no_numpy_and_little_memory(client: Client, agent: AgentProcess) -> None:
    await client.engines()
    maps = Path(f"/proc/{agent.process.pid}/maps").read_text()
    assert not [name for name in ("numpy", "onnxruntime", "openvino", "torch", "duckdb", "psutil") if name in maps]
    assert agent.resident_bytes() < IDLE_LIMIT_BYTES


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_exit_code_zero(start_agent: Callable[..., AgentProcess], number: int) -> None:
    assert start_agent().stop(number) == 0


def test_it_leaves_when_its_starter_closes_standard_input(start_agent: Callable[..., AgentProcess]) -> None:
    agent = start_agent("--exit-with-stdin")
    assert agent.process.poll() is None
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    assert agent.process.wait(timeout=20) == 0


@pytest.mark.parametrize("stdin", ["</dev/null", "<&-", "<{file}"])
def test_a_standard_input_that_nobody_closes_is_refused(stdin: str, tmp_path: Path) -> None:
    (file := tmp_path / "file").touch()
    command = shlex.join(serve_command(tmp_path / "data", "--port", "0", "--alone", "--exit-with-stdin"))
    line = f"{command} {stdin.format(file=file)}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "needs a pipe or a terminal as standard input" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.fault(16)
def test_a_port_in_use_is_refused_in_one_sentence(shared_agent: AgentProcess, tmp_path: Path) -> None:
    text = refusal("serve", "--port", str(shared_agent.port), "--data-dir", str(tmp_path))
    assert str(shared_agent.port) in text
    assert "--port" in text
    assert len(text.splitlines()) == 1


@pytest.mark.fault(16)
def test_a_second_agent_on_one_data_folder_is_refused(shared_agent: AgentProcess) -> None:
    text = refusal("serve", "--port", "0", "--data-dir", str(shared_agent.data_dir))
    assert str(shared_agent.process.pid) in text
    assert str(shared_agent.data_dir) in text


@pytest.mark.fault(14)
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_it_does_not_listen_beyond_loopback(tmp_path: Path, host: str) -> None:
    assert "TLS" in refusal("serve", "--host", host, "--port", "0", "--data-dir", str(tmp_path))


def test_a_data_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    text = refusal("serve", "--port", "0", "--data-dir", str(tmp_path / "file" / "below"))
    assert "--data-dir" in text


def test_results_are_not_kept_in_memory_unless_somebody_says_so(tmp_path: Path) -> None:
    in_memory = Path("/dev/shm") / tmp_path.name  # on Linux always tmpfs
    said = refusal("serve", "--port", "0", "--data-dir", str(in_memory))
    assert f"the data folder {in_memory} is in memory (tmpfs)" in said and "--in-memory" in said
    assert not in_memory.exists()


def test_a_name_that_no_file_can_have_is_refused_and_shows_no_traceback(tmp_path: Path) -> None:
    overlong = str(tmp_path / ("x" * 300))
    for command in (["serve", "--port", "0"], ["environment", "list"]):
        text = refusal(*command, "--data-dir", overlong)
        assert overlong in text and "File name too long" in text
    assert "--tls" in refusal("join", "127.0.0.1:1", "token", "--tls", overlong)


@pytest.mark.parametrize("name", ["agent.lock", "agent.toml", "tls/agent.key"])
def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    text = refusal("serve", "--port", "0", "--data-dir", str(tmp_path))
    assert str(tmp_path) in text and len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("max_run_seconds = 0", "max_run_seconds"),
        ("max_run_second = 5", "max_run_second"),
        ('allow_executable_formats = "yes"', "allow_executable_formats"),
        ("[environments.other]\npython = 'relative/python'", "other"),
        ("this is no TOML", "agent.toml"),
        ("max_memory_bytes = 'lots'", "8 GiB"),
        ("max_cache_bytes = 0", "max_cache_bytes"),
        ("max_cpu_seconds = 0", "max_cpu_seconds"),
        ("allow_network = 1", "allow_network"),
        ("sandbox = 'no'", "sandbox"),
        ("drain_seconds = 0", "drain_seconds"),
    ],
)
def test_a_broken_configuration_is_refused_with_its_entry(tmp_path: Path, config: str, text: str) -> None:
    (tmp_path / "agent.toml").write_text(config)
    assert text in refusal("serve", "--port", "0", "--data-dir", str(tmp_path))


def test_the_data_folder_follows_the_environment(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text("nonsense = 1")
    text = refusal("serve", "--port", "0", environment={"ENGINEBENCH_AGENT_HOME": str(tmp_path)})
    assert str(tmp_path) in text


def test_standard_output_carries_the_ready_line_only(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(ONLY_FAKE)
    process = subprocess.Popen(serve_command(tmp_path, "--port", "0"), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert line.startswith("enginebench-agent listening on 127.0.0.1:")
    assert process.stdout.read() == ""
    assert process.wait(timeout=20) == 0


@pytest.mark.fault(2)
async def test_a_caller_that_pings_often_is_not_thrown_out(shared_agent: AgentProcess) -> None:
    pings = [
        ("grpc.keepalive_time_ms", 1_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    async with grpc.aio.insecure_channel(shared_agent.address, options=pings) as channel:
        watch = Client(channel).health.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        silence = asyncio.ensure_future(watch.read())
        await asyncio.sleep(4.5)  # a server of default settings hangs up after the third ping
        assert not silence.done()
        silence.cancel()
        watch.cancel()


@pytest.mark.fault(16)
async def test_health_answers_while_discovery_and_uploads_go_on(start_agent: Callable[..., AgentProcess]) -> None:
    agent = start_agent()
    async with connected(agent) as client:
        work = asyncio.gather(client.engines(), client.upload(bytes(50_000_000)))
        slowest = 0.0
        while not work.done():
            began = time.monotonic()
            await client.health_status()
            slowest = max(slowest, time.monotonic() - began)
        await work
    assert slowest < 1


def test_the_version_is_told() -> None:
    done = run_command("--version")
    assert done.returncode == 0
    assert done.stdout.strip()[0].isdigit()
