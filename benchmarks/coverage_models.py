"""The models of the coverage table: nine architectures, a long chain, and ResNet-50 as given, quantized and pruned."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

from benchmarks.command_line import CommandLine
from benchmarks.light_models import light_models, seeded
from benchmarks.profiling import long_model

RESNET50 = "zoo:resnet50"
SPARSITY = 0.9
QUICK = ("squeezenet", "shufflenet")


@dataclass(frozen=True)
class Model:
    """`path` is whatever names it on the command line; `base` is the model that it was made from, or itself."""

    name: str
    path: str
    base: str = ""


def models(cli: CommandLine, folder: Path, *, quick: bool) -> Iterator[Model]:
    """Build the models that are not there yet, in `folder` and in the library."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in light_models().items():
        if not quick or name in QUICK:
            yield Model(name, str(_built(folder / f"{name}.onnx", path)))
    if quick:
        return
    yield Model(RESNET50, RESNET50)
    yield Model("resnet50 INT8", _made(cli, "quantize"), RESNET50)
    yield Model("resnet50 pruned", _made(cli, "prune", "--sparsity", SPARSITY), RESNET50)
    long = folder / "long.onnx"
    yield Model("3,000 nodes", str(long if long.exists() else long_model(long)))


def _built(path: Path, given: Path) -> Path:
    if not path.exists():
        partial = path.with_suffix(".partial")
        onnx.save(seeded(onnx.load(given)), partial)
        partial.rename(path)
    return path


def _made(cli: CommandLine, verb: str, *arguments: object) -> str:
    return str(cli.json("models", verb, RESNET50, *arguments)["digest"])
