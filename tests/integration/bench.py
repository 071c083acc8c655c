"""A controller's home and agents, all real: what the integration tests are played on."""

import asyncio
import io
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from agent_server import only
from enginebench_controller.__main__ import main
from enginebench_controller.home import Home
from enginebench_controller.records import Measurement
from printed import check_command

ROOT = Path(__file__).parents[2]
UNWAITING = ("--wait-quiet", "0s")
UNHURRIED = ("--keep-noisy", *UNWAITING)
"""What a test says that shares its machine with others."""
QUICK = (
    *("--processes", "1", "--interval", "0%", "--duration", "100ms", "--warmup", "50ms", "--max-duration", "1m"),
    *UNHURRIED,
)
"""What a test says that is about something else than measuring well; the bound is for busy machines only."""
BRIEF = ("--warmup", "50ms", *UNWAITING)
"""What a test says of profiles and ladders whose times it does not look at."""


@dataclass(frozen=True)
class Bench:
    """A private `ENGINEBENCH_HOME` and the command line that uses it."""

    home: Path

    @classmethod
    def of_engines(cls, home: Path, *engines: str) -> "Bench":
        """A bench whose own agent has these engines only."""
        (home / "agent").mkdir(parents=True, mode=0o700)
        home.chmod(0o700)
        (home / "agent" / "agent.toml").write_text(only(*engines))
        return cls(home)

    def cli(
        self, *arguments: object, expect: int | None = 0, timeout: float = 120, started: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run `enginebench`; it must end with `expect`, without a traceback, and print documents as they should be.

        It runs in this process, which has loaded already what takes a command a second or two. `started`, it is a
        process of its own, for tests of what a process does; so it is from another thread, or where a loop runs.
        """
        words = list(map(str, arguments))
        here = not started and _may_run_here()
        done = self._in_this_process(words) if here else self._started(words, timeout)
        assert "Traceback" not in done.stderr, done.stderr
        assert expect is None or done.returncode == expect, (done.returncode, done.stdout, done.stderr)
        check_command(arguments, done.stdout)
        return done

    def _started(self, words: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "enginebench_controller", *words]
        return subprocess.run(command, capture_output=True, text=True, env=self.variables, timeout=timeout, check=False)

    def _in_this_process(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        out, err = io.StringIO(), io.StringIO()
        code: object = 0
        with (
            patch.dict(os.environ, self.variables),
            patch.object(sys, "argv", ["enginebench", *words]),
            patch.object(sys, "stdin", io.StringIO()),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as end:
                code = end.code
            except Exception:
                traceback.print_exc()
                code = 1
        return subprocess.CompletedProcess(words, int(str(code or 0)), out.getvalue(), err.getvalue())

    def json(self, *arguments: object, expect: int | None = 0, timeout: float = 120) -> Any:
        """Run `enginebench … --json` and parse what it prints."""
        return json.loads(self.cli(*arguments, "--json", expect=expect, timeout=timeout).stdout)

    def measurements(self, document: Any) -> tuple[Measurement, ...]:
        """What the store holds of a benchmark that was printed, with its blocks."""
        return Home(self.home).store.measurements(document["benchmark"]["id"], with_blocks=True)

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of a user whose home is this bench."""
        return os.environ | {"ENGINEBENCH_HOME": str(self.home), "COLUMNS": "200"}


def _may_run_here() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


@contextmanager
def started(bench: Bench, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A command that is killed when the block ends, if it still runs."""
    command = [sys.executable, "-m", "enginebench_controller", *map(str, arguments)]
    process = subprocess.Popen(command, env=bench.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(condition: Callable[[], bool], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.05)  # conditions that open a store take processor time of what is waited for


def tiny_model(path: Path, *, batch: int | str = "batch", features: int = 8, seed: int = 0) -> Path:
    """A two-layer network, input "x" of shape (batch, features), output "y" of shape (batch, 4)."""
    random = np.random.default_rng(seed)
    first = numpy_helper.from_array(random.standard_normal((features, 16), dtype=np.float32), "first")
    second = numpy_helper.from_array(random.standard_normal((16, 4), dtype=np.float32), "second")
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["hidden"], "matmul_1"),
        helper.make_node("Relu", ["hidden"], ["active"], "relu"),
        helper.make_node("MatMul", ["active", "second"], ["y"], "matmul_2"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, features])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 4])
    graph = helper.make_graph(nodes, "tiny", [x], [y], [first, second])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path
