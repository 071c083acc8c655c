"""Wheels of an engine in versions whose work is known, layer by layer."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper

NAME = "planted"
LAYERS = 5
PRODUCTS = 80
"""Of matrices, in a layer: the five take some 2 ms."""

_PLUGIN = '''"""An engine whose work is known."""

import json
import time
from pathlib import Path

import numpy as np
from enginebench_plugins import spec

VERSION, PRODUCTS = json.loads(Path(__file__).with_name("planted.json").read_text())


class Planted(spec.Engine):
    def info(self):
        return spec.EngineInfo(version=VERSION, formats=frozenset({spec.ModelFormat.ONNX}), profiling=True)

    def devices(self):
        return [spec.Device(name="CPU", full_name="any processor")]

    def read(self, source):
        return source

    def compile(self, model, source, settings):
        return Compiled()


class Compiled(spec.CompiledModel):
    @property
    def inputs(self):
        return [spec.TensorSpec("x", "float32", (1, 8))]

    def effective(self):
        return spec.Effective(precision=spec.Readback("f32", spec.Source.ASSUMED))

    def create_request(self):
        return Request()

    def profile(self, inputs, iterations, between=spec.nothing):
        request, latency_ns = Request(), []
        times = [[] for _ in PRODUCTS]
        for _ in range(iterations):
            started_ns = time.perf_counter_ns()
            for layer, products in enumerate(PRODUCTS):
                begun_ns = time.perf_counter_ns()
                request.work(products)
                times[layer].append(time.perf_counter_ns() - begun_ns)
            latency_ns.append(time.perf_counter_ns() - started_ns)
            between()
        names = [f"layer_{layer}" for layer in range(len(PRODUCTS))]
        layers = [
            spec.LayerProfile(name, "Add", order=place, time_ns=tuple(times[place]), source_nodes=(name,))
            for place, name in enumerate(names)
        ]
        return spec.ModelProfile(tuple(layers), tuple(latency_ns))


class Request(spec.InferRequest):
    def __init__(self):
        self._left = np.ones((64, 64), dtype=np.float32)
        self._right = np.full((64, 64), 0.5, dtype=np.float32)
        self._product = np.zeros((64, 64), dtype=np.float32)

    def work(self, products):
        for _ in range(products):
            np.matmul(self._left, self._right, out=self._product)

    def infer(self, inputs):
        for products in PRODUCTS:
            self.work(products)
        return {"y": next(iter(inputs.values())) * 2 ** len(PRODUCTS)}


@spec.hookimpl
def enginebench_engine():
    return Planted()
'''


def make_wheels(
    folder: Path, steps: Mapping[int, float], *, count: int = 16, broken: Sequence[int] = (), layer: int = 2
) -> tuple[str, ...]:
    """Wheels 1.0, 1.1, … whose whole work grows by a share with each of these steps, all of it in one layer.

    The broken ones cannot be installed. Returns the versions.
    """
    folder.mkdir(parents=True, exist_ok=True)
    versions = tuple(f"1.{number}" for number in range(count))
    for place, version in enumerate(versions):
        factor = 1.0
        for step, share in steps.items():
            factor *= 1 + share if place >= step else 1
        products = [PRODUCTS] * LAYERS
        products[layer] = round(PRODUCTS * (1 + LAYERS * (factor - 1)))
        write_wheel(folder, version, products, is_broken=place in broken)
    return versions


def write_wheel(folder: Path, version: str, products: Sequence[int], *, is_broken: bool = False) -> Path:
    """One version; a broken one is for a Python that there is not."""
    path = folder / f"{NAME}-{version}-py3-none-any.whl"
    info = f"{NAME}-{version}.dist-info"
    needs = "Requires-Python: >=99\n" if is_broken else ""
    files = {
        f"{NAME}.py": _PLUGIN,
        f"{NAME}.json": json.dumps([version, list(products)]),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n{needs}Requires-Dist: numpy\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: planted\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[enginebench]\n{NAME} = {NAME}\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return path


def layered_model(path: Path) -> Path:
    """A model that doubles its input in each of the layers."""
    names = ["x", *(f"t{layer}" for layer in range(LAYERS - 1)), "y"]
    nodes = [
        helper.make_node("Add", [names[layer], names[layer]], [names[layer + 1]], f"layer_{layer}")
        for layer in range(LAYERS)
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in "xy")
    graph = helper.make_graph(nodes, "layered", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path
