"""Real environments with real plugins in them."""

import sys
import sysconfig
import venv
from pathlib import Path

PLANTED = Path(__file__).parent / "plugins"


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
