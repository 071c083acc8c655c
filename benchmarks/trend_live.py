"""Trends measured end to end: an engine whose versions are known, its history, the alerts, the gate that confirms."""

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import log
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from benchmarks.markdown import markdown_table

BEFORE, AFTER = 8, 6
PRODUCTS = 400
"""Of matrices, in an inference: some 2 ms."""

BUDGET = "60s"
_RUN = (
    *("--engine", "planted@default", "--processes", "1", "--duration", "500ms", "--warmup", "100ms"),
    *("--interval", "0%", "--wait-quiet", "0s", "--keep-noisy"),
)
_SPIN = "while True: pass"

_PLUGIN = '''"""An engine whose work is known."""

import numpy as np
from enginebench_plugins import spec

PRODUCTS = {products}


class Planted(spec.Engine):
    def info(self):
        return spec.EngineInfo(version="{version}", formats=frozenset({{spec.ModelFormat.ONNX}}))

    def devices(self):
        return [spec.Device(name="CPU", full_name="any processor")]

    def read(self, source):
        import onnx

        return onnx.load(str(source.path))

    def compile(self, model, source, settings):
        return Compiled(model)


class Compiled(spec.CompiledModel):
    def __init__(self, model):
        self._model = model

    @property
    def inputs(self):
        return [spec.TensorSpec("x", "float32", (1, 8))]

    def effective(self):
        return spec.Effective(precision=spec.Readback("f32", spec.Source.ASSUMED))

    def create_request(self):
        return Request(self._model)


class Request(spec.InferRequest):
    def __init__(self, model):
        self._output = model.graph.output[0].name
        self._left = np.ones((64, 64), dtype=np.float32)
        self._right = np.full((64, 64), 0.5, dtype=np.float32)
        self._product = np.zeros((64, 64), dtype=np.float32)

    def infer(self, inputs):
        for _ in range(PRODUCTS):
            np.matmul(self._left, self._right, out=self._product)
        return {{self._output: next(iter(inputs.values())) * 2}}


@spec.hookimpl
def enginebench_engine():
    return Planted()
'''


def live(count: int, keep: Path | None) -> str:
    """Measure so many histories: in turn one with a slower engine, and one with a neighbour since the new version."""
    rows, points = [], dict[str, list[list[float]]](quiet=[], neighbour=[])
    for number in range(count):
        planted = 0.0 if number % 2 else 0.1
        with tempfile.TemporaryDirectory() as folder:
            found = one_history(Path(folder), planted, neighbour=not planted, points=points)
        told = [f"{one['cause']}: {one['finding'] or '–'}, {one['time_ratio']:.3f}×" for one in found["alerts"]]
        rows.append(["10 % planted" if planted else "a neighbour", "; ".join(told) or "no change seen"])
        print(rows[-1], file=sys.stderr, flush=True)
        if keep is not None:
            keep.parent.mkdir(parents=True, exist_ok=True)
            keep.write_text(json.dumps({name: each for name, each in points.items() if each}))
    return markdown_table(["history", "alerts"], rows)


def one_history(
    folder: Path, planted: float, *, neighbour: bool, points: dict[str, list[list[float]]] | None = None
) -> dict[str, Any]:
    """Measure a history and confirm its alerts; returns the document of it."""
    versions = {
        version: make_version(folder / version, version, round(PRODUCTS * factor))
        for version, factor in (("1.0", 1.0), ("2.0", 1 + planted))
    }
    home, model = folder / "home", doubling_model(folder / "doubling.onnx")
    install(home, versions, "1.0")
    for _ in range(BEFORE):
        _cli(home, "run", model, *_RUN)
    install(home, versions, "2.0")
    with busy() if neighbour else quiet():
        for _ in range(AFTER):
            _cli(home, "run", model, *_RUN)
        told = _cli(home, "trend", "--alerts", "--confirm", "--budget", BUDGET, "--json")
    (found,) = json.loads(told)["histories"]
    if points is not None:
        _keep(home, points, planted, neighbour=neighbour)
    return dict(found)


def make_version(folder: Path, version: str, products: int) -> Path:
    """An environment with the engine `planted` in this version; returns its interpreter."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    ours = [one for one in sys.path if one and ("site-packages" in one or not one.startswith(sys.base_prefix))]
    (packages / "ours.pth").write_text("\n".join(ours))
    (packages / "planted.py").write_text(_PLUGIN.format(version=version, products=products))
    facts = packages / f"planted-{version}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: planted\nVersion: {version}\n")
    (facts / "entry_points.txt").write_text("[enginebench]\nplanted = planted\n")
    return folder / "bin" / "python"


def install(home: Path, versions: dict[str, Path], version: str) -> None:
    """Let the local agent have both versions, and this one by default, as after an upgrade."""
    environments = {"default": versions[version]} | {f"v{name}": python for name, python in versions.items()}
    lines = [
        f"[environments.\"{name}\"]\npython = '{python}'\nengines = ['planted']"
        for name, python in environments.items()
    ]
    (home / "agent").mkdir(parents=True, exist_ok=True)
    (home / "agent" / "agent.toml").write_text("\n".join(lines))


def doubling_model(path: Path) -> Path:
    """The smallest model there is, which doubles its input."""
    one = helper.make_node("Add", ["x", "x"], ["y"], "add")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in "xy")
    graph = helper.make_graph([one], "doubling", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@contextmanager
def busy() -> Iterator[None]:
    """As many neighbours as processors, which never rest."""
    spinning = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for one in spinning:
            one.kill()
            one.wait()


@contextmanager
def quiet() -> Iterator[None]:
    """Nobody is there."""
    yield


def _cli(home: Path, *arguments: object) -> str:
    command: Sequence[str] = [sys.executable, "-m", "enginebench_controller", *map(str, arguments)]
    variables = os.environ | {"ENGINEBENCH_HOME": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    if done.returncode not in (0, 4):
        raise SystemExit(f"{' '.join(command)} left with {done.returncode}:\n{done.stderr}")
    return done.stdout


def _keep(home: Path, points: dict[str, list[list[float]]], planted: float, *, neighbour: bool) -> None:
    """The logarithms of what each point was, less the usual of its history, for replays."""
    from enginebench_controller.home import Home  # noqa: PLC0415  # DuckDB, for whom has measured

    (history,) = Home(home).store.histories(engine="planted")
    usual = history.points[BEFORE // 2]
    for number, one in enumerate(history.points):
        known = [
            (now, then)
            for now, then in (
                (one.median_ns, usual.median_ns),
                (one.reference_product_ns, usual.reference_product_ns),
                (one.reference_stream_ns, usual.reference_stream_ns),
            )
            if now and then
        ]
        if len(known) == 3:
            row = [log(now / then) for now, then in known] + [one.disturbed or 0.0]
            row[0] -= log(1 + planted) if number >= BEFORE else 0.0
            points["neighbour" if neighbour and number >= BEFORE else "quiet"].append(row)
