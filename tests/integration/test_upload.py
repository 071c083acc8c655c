"""Large models travel with flat memory, continue where they were cut, and never travel twice."""

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from agent_server import AgentProcess
from enginebench_controller.errors import UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.expand import Expansion
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.records import FailureKind, Measurement, ModelFile, Profile
from enginebench_controller.runs.benchmarking import BenchmarkOrder, run_benchmark, run_in_session
from enginebench_controller.runs.groups import SoFar
from enginebench_controller.runs.profiling import ProfileOrder, run_profiles
from enginebench_controller.runs.remote_run import Unreported
from enginebench_controller.targets.client import AgentClient
from enginebench_controller.targets.session import open_session
from fault_proxy import fault_proxy
from integration.bench import UNWAITING, Bench, tiny_model

SIZE_BYTES = int(os.environ.get("ENGINEBENCH_TEST_UPLOAD_BYTES", "200000000"))
FLAT_BYTES = 60_000_000
"""What either side may grow by while a file far larger passes through it."""
ONE_QUICK_PROCESS = {"processes": 1, "duration": "100ms", "warmup": "50ms", "max_duration": "1m", "interval": "0%"}
ONE_QUICK_PROCESS |= {"retry_noisy": False, "wait_quiet": "0s"}


@pytest.fixture(scope="module")
def big_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ONNX file of `SIZE_BYTES` of random weights in one file."""
    columns = SIZE_BYTES // 4 // 1024
    weights = np.random.default_rng(0).standard_normal((1024, columns), dtype=np.float32)
    tensor = helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.tobytes(), raw=True)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1024])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", columns])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "matmul")], "big", [x], [y], [tensor])
    path = tmp_path_factory.mktemp("big") / "big.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def _file(path: Path) -> ModelFile:
    with path.open("rb") as stream:
        return ModelFile(path.name, hashlib.file_digest(stream, "sha256").hexdigest(), path.stat().st_size)


@pytest.mark.fault(5)
@pytest.mark.xdist_group("upload")
def test_an_upload_cut_at_60_percent_resumes_after_a_restart_and_is_never_sent_twice(
    big_model: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    agent = start_agent()
    file = _file(big_model)

    async def upload(until: float = 1.0) -> int:
        def on_sent(offset_bytes: int, _size_bytes: int) -> None:
            if offset_bytes >= until * file.size_bytes and until < 1:
                agent.kill()

        async with AgentClient("agent", agent.address) as client:
            if (offset_bytes := await client.committed_bytes(file)) is None:
                return 0
            await client.upload(file, big_model, offset_bytes, on_sent)
            return file.size_bytes - offset_bytes

    with pytest.raises(UnreachableError):  # which is tried again
        asyncio.run(upload(until=0.6))
    agent.restart()
    resumed = asyncio.run(upload())
    print(f"resumed: {resumed / file.size_bytes:.0%} of the file was left to send")
    assert 0 < resumed < 0.6 * file.size_bytes
    assert asyncio.run(upload()) == 0
    assert (agent.data_dir / "files" / file.sha256).stat().st_size == file.size_bytes


@pytest.mark.parametrize(("zeros", "most_sent"), [(0, 1.05), (1_000_000, 0.6)], ids=["dense", "half zeros"])
def test_a_slow_line_is_not_cut_while_bytes_move_and_carries_what_is_compressed(
    zeros: int, most_sent: float, tmp_path: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    """All at once is what HTTP/2 and the kernel would take, and pings would wait for ten seconds behind it."""
    agent, path = start_agent(), tmp_path / "weights"
    path.write_bytes(np.random.default_rng(0).bytes(2_000_000 - zeros) + bytes(zeros))
    file, told = _file(path), list[int]()

    async def upload() -> tuple[int, int]:
        async with fault_proxy(agent.port) as proxy:
            proxy.bytes_per_s, proxy.delay_seconds = 200_000, 0.02
            async with AgentClient("agent", proxy.address) as client:
                await client.upload(file, path, 0, lambda offset, _: told.append(offset))
            return proxy.connections, proxy.sent_bytes

    connections, sent_bytes = asyncio.run(upload())
    assert connections == 1
    assert sent_bytes < most_sent * file.size_bytes
    assert len(told) > 5 and told == sorted(told) and told[-1] == file.size_bytes, "what the agent has taken in"
    assert (agent.data_dir / "files" / file.sha256).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kind", ["measurements", "profiles"])
async def test_a_model_that_is_gone_when_its_turn_comes_fails_alone_and_is_named(
    kind: str, tmp_path: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    home, gone = Home(tmp_path / "home"), list[Path]()
    models = [str(tiny_model(tmp_path / f"{name}.onnx", seed=seed)) for seed, name in enumerate("abc")]
    chosen = {"models": models, "engines": ["fake"], "targets": [start_agent().address]}
    plan = make_plan(chosen | ONE_QUICK_PROCESS, "test")

    def announce(expansion: Expansion, _: str | None) -> Unreported:
        model = expansion.cases[1].model
        gone.append(home.library.main_path(model))
        home.library.remove(model)
        return Unreported()

    found: Sequence[Measurement | Profile]
    if kind == "measurements":
        found = home.store.measurements((await run_benchmark(home, BenchmarkOrder(plan), announce)).id)
    else:
        found = await run_profiles(home, ProfileOrder(plan), announce)

    assert len(found) == 3
    (failure,) = [one.failure for one in found if one.failure is not None]
    assert failure.kind is FailureKind.REFUSED and f"cannot read {gone[0]} any more" in failure.message


class OneRound:
    """Ends a group after a process of each, and keeps whether a file was there whenever it was asked."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.was_there: list[bool] = []

    def __call__(self, so_far: Sequence[SoFar]) -> bool:
        self.was_there.append(self._file.exists())
        return all(one.processes for one in so_far)

    def seconds_left(self) -> float:
        return 60.0

    def ended(self) -> None:
        """It need not know."""


async def test_the_time_of_what_may_end_early_begins_when_the_target_has_the_model(
    tmp_path: Path, model: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    home, agent = Home(tmp_path / "home"), start_agent()
    chosen = {"models": [str(model)], "engines": ["fake"], "targets": [agent.address], "batch": [1, 2]}
    plan = make_plan(chosen | ONE_QUICK_PROCESS | {"interleave": "device"}, "test")
    binder, enough = Binder(home.library, home.inputs, plan), OneRound(agent.data_dir / "files" / _file(model).sha256)
    binder.resolve(plan.models)
    async with open_session(home, plan.targets) as session:
        await run_in_session(home, BenchmarkOrder(plan), session, binder, lambda *_: Unreported(), enough)
    assert enough.was_there[0]


@pytest.mark.xdist_group("upload")
def test_memory_stays_flat_on_both_sides(
    big_model: Path, model: Path, bench: Bench, start_agent: Callable[..., AgentProcess]
) -> None:
    agent = start_agent()
    small_bytes = {"controller": _child_peak_bytes(_run(model, agent), bench), "agent": agent.resident_bytes("VmHWM")}
    big_bytes = {"controller": _child_peak_bytes(_run(big_model, agent), bench), "agent": agent.resident_bytes("VmHWM")}
    grown = {side: big_bytes[side] - small_bytes[side] for side in small_bytes}
    print({side: f"grew by {size / 1e6:.0f} MB for {SIZE_BYTES / 1e6:.0f} MB" for side, size in grown.items()})
    assert all(size < FLAT_BYTES for size in grown.values()), grown
    assert (agent.data_dir / "files" / _file(big_model).sha256).exists()


def _run(model: Path, agent: AgentProcess) -> list[str]:
    """A run that uploads the model and then fails at once: what follows the upload is the child's business."""
    failing = ["--option", "fake.fault=compile_error", "--option", "fake.fault_phase=compile", *UNWAITING]
    return [*_cli(), "run", str(model), "--engine", "fake", "--target", agent.address, *failing]


def _cli() -> list[str]:
    return [sys.executable, "-m", "enginebench_controller"]


def _child_peak_bytes(command: list[str], bench: Bench) -> int:
    """Peak resident set of a command, measured in a process of its own so that children do not mix."""
    script = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=2); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    wrapped = [sys.executable, "-c", script, *command]
    done = subprocess.run(wrapped, env=bench.variables, stdout=subprocess.PIPE, check=True)
    return int(done.stdout) * 1024
