"""Bad input gets one clear sentence – what, where, what to do – exit 2, and nothing half-written."""

import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from agent_server import AgentProcess
from enginebench_controller.home import Home
from integration.bench import QUICK, Bench, tiny_model


def test_a_missing_file(bench: Bench) -> None:
    assert "absent.onnx" in bench.cli("run", "absent.onnx", expect=2).stderr


@pytest.mark.parametrize(
    "content",
    [b"", b"no model at all\n", b"\x00" * 4096, Random(0).randbytes(512)],
    ids=["empty", "text", "zeros", "noise"],
)
def test_a_file_that_is_not_a_model(bench: Bench, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert "net.onnx" in bench.cli("run", path, expect=2).stderr
    assert not list((bench.home / "models").glob("*/*")) if bench.home.exists() else True


def test_a_truncated_model(bench: Bench, model: Path) -> None:
    model.write_bytes(model.read_bytes()[:-100])
    assert "tiny.onnx" in bench.cli("run", model, expect=2).stderr


def test_an_unknown_engine_with_the_nearest_name(bench: Bench, model: Path, shared_agent: AgentProcess) -> None:
    done = bench.cli("run", model, "--engine", "onnxruntme", "--target", shared_agent.address, expect=2)
    assert "did you mean 'onnxruntime'" in done.stderr


def test_an_engine_that_is_like_none_is_told_what_there_is(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    done = bench.cli("run", model, "--engine", "nosuch", "--target", shared_agent.address, expect=2)
    assert "did you mean" not in done.stderr and "it has: " in done.stderr and "openvino" in done.stderr
    assert done.stderr.startswith("error: "), "the progress display leaves no empty line"


def test_a_folder_is_not_a_missing_file(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for command in (("run",), ("models", "add"), ("ladder", "latency")):
        done = bench.cli(*command, tmp_path / "models", expect=2)
        assert done.stderr.startswith(f"error: {tmp_path / 'models'} is a folder"), done.stderr


def test_an_unknown_target_and_model_name(bench: Bench, model: Path) -> None:
    bench.cli("targets", "add", "nuc", "127.0.0.1:9")
    assert "did you mean 'nuc'" in bench.cli("run", model, "--target", "nuk", expect=2).stderr
    assert "resnet50" in bench.cli("run", "zoo:resnet5O", expect=2).stderr


def test_an_unreachable_target_is_exit_3(bench: Bench, model: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    done = bench.cli("run", model, "--target", address, expect=3)
    assert address in done.stderr and "does not answer" in done.stderr


def test_the_impossible_is_refused_before_anything_runs(bench: Bench, model: Path, shared_agent: AgentProcess) -> None:
    arguments = ("--engine", "onnxruntime", "--target", shared_agent.address)
    done = bench.cli("run", model, *arguments, "--cores", "1,4096", "--precision", "f32,f16", expect=2)
    assert "4096 cores" in done.stderr and "f16" in done.stderr
    assert bench.json("list")["benchmarks"] == []


def test_a_fixed_batch_is_rewritten_as_a_derived_copy(bench: Bench, tmp_path: Path, shared_agent: AgentProcess) -> None:
    fixed = tiny_model(tmp_path / "fixed.onnx", batch=1)
    arguments = ("--engine", "onnxruntime", "--target", shared_agent.address, *QUICK)
    document = bench.json("run", fixed, *arguments, "--batch", "1,4")
    digests = {m["configuration"]["batch"]: m["model"]["digest"] for m in document["measurements"]}
    models = {m["digest"]: m for m in bench.json("models", "list")["models"]}
    assert models[digests[4]]["parent_digest"] == digests[1]
    (project,) = Home(bench.home).store.projects()
    assert (project.model_digest, project.model_name) == (digests[1], "fixed"), "the copy is no model of its own"


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("run", "MODEL", "--batch", "x"),
        ("run", "MODEL", "--duration", "soon"),
        ("run", "MODEL", "--shape", "x"),
        ("run", "MODEL", "--shape", "nobody=1x8"),
        ("run", "MODEL", "--load", "burst"),
        ("run", "MODEL", "--arrivals", "burst"),
        ("run", "MODEL", "--interval", "narrow"),
        ("run", "MODEL", "--inputs", "0"),
        ("run", "MODEL", "--duration", "5s", "--max-duration", "1s"),
        ("compare", "nothing"),
        ("run", "a.toml", "b.toml"),
        ("run", "absent.toml"),
        ("show", "nothing"),
        ("show", "nothing", "--blocks"),
        ("run", "MODEL", "--timeout", "10000000h"),
        ("run", "MODEL", "--timeout", "2s", "--dry-run"),
        ("run", "MODEL", "--duration", "9" * 400),
        ("run", "x" * 300),
        ("store", "backup", "x" * 300),
        ("targets", "calibrate", "--cores", "5000000000"),
        ("rerun", "nothing"),
        ("remove", "nothing", "--yes"),
        ("export", "nothing"),
        ("import", "absent.json"),
        ("targets", "add", "nuc", "nowhere"),
        ("targets", "add", "local", "127.0.0.1:1"),
        ("targets", "remove", "nobody"),
        ("models", "add", "absent.onnx"),
        ("models", "prune", "MODEL", "--sparsity", "1.5"),
        ("frobnicate",),
    ],
)
def test_wrong_usage_is_exit_2_with_a_sentence(bench: Bench, model: Path, arguments: tuple[str, ...]) -> None:
    done = bench.cli(*(str(model) if a == "MODEL" else a for a in arguments), expect=2)
    assert done.stderr.strip() and done.stdout == ""


def test_an_unwritable_home(tmp_path: Path, model: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for command in (("models", "add", model), ("devices",), ("targets", "calibrate"), ("run", model)):
        done = Bench(tmp_path / "file").cli(*command, expect=2)
        assert str(tmp_path / "file") in done.stderr


def test_a_full_disk(bench: Bench, tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk, which takes privileges to make."""
    big = tiny_model(tmp_path / "big.onnx", features=4096)
    command = f"ulimit -f 100; exec {sys.executable} -m enginebench_controller models add {big}"
    done = subprocess.run(["bash", "-c", command], env=bench.variables, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done
    assert not any((bench.home / "models").rglob("*.onnx"))


def test_a_port_in_use(tmp_path: Path, start_agent: Callable[..., AgentProcess]) -> None:
    port = start_agent().address.rpartition(":")[2]
    command = [sys.executable, "-m", "enginebench_agent", "serve", "--port", port]
    second = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "second")], capture_output=True, text=True, check=False, timeout=60
    )
    assert second.returncode == 2 and port in second.stderr and "Traceback" not in second.stderr


@pytest.mark.fault(30)
@pytest.mark.parametrize("files", [8, 18, 40])
def test_too_few_files_that_may_be_open_are_told_before_a_library_fails(bench: Bench, files: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "enginebench_controller", "list"],
        env=bench.variables,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: no more files can be opened, as this process may have {files} at once")


@pytest.mark.fault(30)
def test_a_low_limit_that_may_be_raised_is_raised(bench: Bench) -> None:
    command = ["sh", "-c", f"ulimit -Sn 12; exec {sys.executable} -m enginebench_controller list"]
    done = subprocess.run(command, env=bench.variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.fault(30)
def test_a_model_that_is_a_link_to_nothing_is_told_so(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").symlink_to(tmp_path / "unmounted.onnx")
    for command in (("flops",), ("models", "add"), ("run",)):
        done = bench.cli(*command, tmp_path / "net.onnx", expect=2)
        assert f"net.onnx is a link to {tmp_path / 'unmounted.onnx'}, which is not there" in done.stderr


@pytest.mark.fault(33)
def test_a_home_that_others_can_look_into_is_told_by_the_check(bench: Bench) -> None:
    bench.cli("targets", "add", "nuc", "127.0.0.1:9")
    assert "chmod 700" not in bench.cli("store", "check").stderr
    bench.home.chmod(0o755)
    assert f"chmod 700 {bench.home}" in bench.cli("store", "check").stderr


@pytest.mark.fault(33)
def test_the_lines_of_grpc_itself_stay_out_unless_asked_for(bench: Bench) -> None:
    ask = "import os, sys; sys.argv[1:] = {}; import enginebench_controller.cli as c; c._quieten_grpc(); "
    ask += "print(os.environ.get('GRPC_VERBOSITY'))"
    for words, expected in ((["list"], "NONE"), (["--verbose", "list"], "None")):
        variables = {name: value for name, value in bench.variables.items() if name != "GRPC_VERBOSITY"}
        done = subprocess.run(
            [sys.executable, "-c", ask.format(words)], env=variables, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == expected
