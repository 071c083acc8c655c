"""What lies where a command is given is not its code: a script called like a package neither runs nor breaks it."""

import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from integration.bench import QUICK, Bench, tiny_model

NAMES = (
    "grpc",
    "numpy",
    "onnx",
    "onnxruntime",
    "google",
    "pluggy",
    "pip",
    "venv",
    "six",
    "streamlit",
    "pandas",
    "duckdb",
)
PAGES = "import sys; sys.path.remove(''); from enginebench_ui.launch import serve\n"
PAGES += "from pathlib import Path; sys.exit(serve(Path(sys.argv[1]), int(sys.argv[2])))"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a script of each name; what ran is written down there."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in NAMES:
        text = f"open({str(folder / 'ran')!r}, 'a').write('{name} ')\nraise SystemExit('the script {name}.py ran')\n"
        (folder / f"{name}.py").write_text(text)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.slow
def test_a_benchmark_does_not_run_it(folder: Path, tmp_path: Path) -> None:
    bench = Bench.of_engines(tmp_path / "home", "onnxruntime")
    model = tiny_model(tmp_path / "tiny.onnx")
    (measured,) = bench.json("run", model, "--engine", "onnxruntime", *QUICK)["measurements"]
    assert measured["failure"] is None
    bench.cli("query", "select count(*) from measurements")
    bench.cli("gate", model, "--base", "onnxruntime==1.0", "--head", "onnxruntime==1.1", expect=2)  # asks pip
    assert not (folder / "ran").exists(), (folder / "ran").read_text()


@pytest.mark.slow
def test_pages_do_not_run_it(folder: Path, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", PAGES, str(tmp_path / "home"), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert str(port) in process.stdout.readline()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health") as answer:
                assert answer.status == 200
        finally:
            process.terminate()
    assert not (folder / "ran").exists(), (folder / "ran").read_text()
