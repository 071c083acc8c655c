"""Processes are held to their memory where the system does that, and do their work where it does not."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_models import save, tiny_classifier

from enginebench_controller.graph.rounding_noise import NoiseOrder, rounding_noise
from enginebench_controller.models import bounded
from enginebench_controller.models.derive import foreign
from enginebench_controller.models.derive.foreign import CONVERTERS
from enginebench_controller.models.formats.description import describe
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.records import InputTensor
from enginebench_controller.store.store import Store

pytestmark = pytest.mark.slow

AS_MACOS = """
import resource

def refuse(kind, limits, set_limit=resource.setrlimit):
    if kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA) and limits[0] < 390 << 30:
        raise ValueError("current limit exceeds maximum limit")
    set_limit(kind, limits)

resource.setrlimit = refuse
"""
"""What it says to a limit below what each of its processes maps."""


@pytest.fixture
def macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process, and those that it starts, refuse limits as those of macOS do; no reader from before is asked."""
    (folder := tmp_path / "site").mkdir()
    (folder / "sitecustomize.py").write_text(AS_MACOS)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    monkeypatch.setattr(resource, "setrlimit", resource.setrlimit)
    exec(AS_MACOS, {})
    monkeypatch.setattr(bounded, "_idle", [])
    yield
    bounded._end_idle()


@pytest.mark.usefixtures("macos")
def test_a_model_is_read_where_no_limit_is_set(tmp_path: Path) -> None:
    assert describe(save(tiny_classifier(), tmp_path / "tiny.onnx")).inputs[0].name == "x"


@pytest.mark.usefixtures("macos")
def test_a_query_is_answered_where_no_limit_is_set(tmp_path: Path) -> None:
    assert Store(tmp_path / "results.duckdb").query("SELECT count(*) FROM measurements").rows == ((0,),)


@pytest.mark.usefixtures("macos")
def test_noise_is_found_where_no_limit_is_set(tmp_path: Path) -> None:
    path = save(tiny_classifier(), tmp_path / "tiny.onnx")
    (noise,) = rounding_noise(NoiseOrder(str(path), (InputTensor("x", "float32", (1, 3, 4, 4)),)))
    assert noise.absolute >= 0


@pytest.mark.usefixtures("macos")
def test_a_converter_runs_where_no_limit_is_set(tmp_path: Path) -> None:
    version = ModelLibrary(tmp_path / "library").add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    (folder := tmp_path / "work").mkdir()
    foreign._run(["touch", "written"], folder, version, CONVERTERS["ncnn"])
    assert (folder / "written").exists()


LIMITED = """
import json, resource, sys
from enginebench_controller.memory_limit import limit_memory
most, *options = json.loads(sys.argv[1])
if options:
    resource.setrlimit(resource.RLIMIT_DATA, (options[0], options[0]))
limit_memory(resource.RLIMIT_DATA, most, for_good=len(options) < 2)
print(json.dumps(resource.getrlimit(resource.RLIMIT_DATA)))
"""


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ([1 << 30], [1 << 30, 1 << 30]),
        ([2 << 30, 1 << 30], [1 << 30, 1 << 30]),
        ([1 << 29, 1 << 30, "for now"], [1 << 29, 1 << 30]),
    ],
)
def test_where_it_is_set_it_is_never_more_than_was_allowed(given: list[object], limits: list[int]) -> None:
    said = subprocess.check_output([sys.executable, "-c", LIMITED, json.dumps(given)], text=True)
    assert json.loads(said) == limits
