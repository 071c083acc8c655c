"""Real environments with real plugins in them."""

import sys
import sysconfig
import venv
from pathlib import Path

PLANTED = Path(__file__).parent / "plugins"
SCALE = """
import numpy as np
from enginebench_plugins import spec
from enginebench_plugins.toolkit.engine import own_inputs

class Scale(spec.Engine):
    spec_version = spec.SPEC_VERSION
    def info(self):
        own = spec.FileFormat("scale", (".scale",), (".factor",), begins=((0, b"SCALE"),), runs_code={runs_code})
        return spec.EngineInfo("1.0", own_formats=(own,), profiling=True)
    def devices(self):
        return [spec.Device(name="CPU", full_name="any processor")]
    def read(self, source):
        return float(source.path.with_suffix(".factor").read_text())
    def compile(self, model, source, settings):
        declared = [spec.TensorSpec("x", "float32", (None, 4096, 64)), spec.TensorSpec("ids", "int32", (3,))]
        return Compiled(model, own_inputs(declared, source, settings.batch))

class Compiled(spec.CompiledModel):
    def __init__(self, factor, inputs):
        self.factor, self._inputs = factor, inputs
    @property
    def inputs(self):
        return self._inputs
    def effective(self):
        return spec.Effective()
    def create_request(self):
        return Request(self.factor)
    def profile(self, inputs, iterations, between=spec.nothing):
        layer = spec.LayerProfile("scale", "Multiply", order=0, time_ns=(1000,) * iterations)
        return spec.ModelProfile((layer,), (1100,) * iterations)

class Request(spec.InferRequest):
    def __init__(self, factor):
        self.factor = factor
    def infer(self, inputs):
        return {{name + "_scaled": array * self.factor for name, array in inputs.items()}}

@spec.hookimpl
def enginebench_engine():
    return Scale()
"""
"""An engine with files of its own, to be formatted with whether they run code."""


class Environment:
    """A virtual environment that sees what the tests see, and plugins of its own."""

    def __init__(self, folder: Path, *, with_enginebench: bool = True) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = folder / "bin" / "python"
        self._site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
        if with_enginebench:
            paths = [path for path in sys.path if path and Path(path).is_dir()]
            (self._site / "tests.pth").write_text("\n".join([*paths, str(PLANTED)]))

    def add_plugin(self, name: str, source: str, *, module: str = "", distribution: str = "") -> None:
        """Install a plugin: the engine's name, and the text of its module."""
        module = module or f"{name}_plugin"
        distribution = distribution or f"{name}-plugin"
        metadata = self._site / f"{distribution.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[enginebench]\n{name} = {module}\n")
        (self._site / f"{module}.py").write_text(source)
