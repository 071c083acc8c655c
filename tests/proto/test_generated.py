"""The generated code of the wire is what the .proto files say, and loads on the oldest runtimes we promise."""

import itertools
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIRE = ROOT / "proto" / "enginebench_proto" / "v1"
GENERATOR = ROOT / ".venvs" / "proto" / "bin" / "python"


def test_generating_again_changes_nothing(tmp_path: Path) -> None:
    assert GENERATOR.exists(), "run `make check`, which installs the pinned generator"
    subprocess.run([ROOT / "proto" / "generate.sh", GENERATOR, tmp_path], check=True)
    generated = {path.name: path.read_text() for path in (tmp_path / "enginebench_proto" / "v1").iterdir()}
    assert generated == {path.name: path.read_text() for path in WIRE.glob("*_pb2*")}


@pytest.mark.parametrize(
    ("requirement", "pattern", "module"),
    [
        ("protobuf", r"Protobuf Python Version: ([\d.]+)", "run_pb2.py"),
        ("grpcio", r"GRPC_GENERATED_VERSION = '([\d.]+)'", "run_pb2_grpc.py"),
    ],
)
def test_promised_runtime_is_not_older_than_the_generated_code(requirement: str, pattern: str, module: str) -> None:
    generated = re.search(pattern, (WIRE / module).read_text())
    assert generated is not None
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    floor = next(d.removeprefix(f"{requirement}>=") for d in dependencies if d.startswith(f"{requirement}>="))
    assert _numbers(floor) >= _numbers(generated[1])


def test_every_rpc_and_service_is_commented() -> None:
    uncommented = []
    for proto in sorted(WIRE.glob("*.proto")):
        lines = proto.read_text().splitlines()
        for before, line in itertools.pairwise(lines):
            if re.match(r"\s*(rpc|service) ", line) and not before.strip().startswith("//"):
                uncommented.append(f"{proto.name}: {line.strip()}")
    assert not uncommented


def test_every_rpc_names_its_status_codes() -> None:
    for proto in WIRE.glob("*.proto"):
        text = proto.read_text()
        assert text.count("// Status: ") == len(re.findall(r"^\s*rpc ", text, re.M)), proto.name


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
