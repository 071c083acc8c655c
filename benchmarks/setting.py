"""What all parts share: models, processors, how long and how often."""

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx

from enginebench_agent.machine.cores import physical_cores
from enginebench_controller.home import Home, default_home

RESULTS = Path(__file__).parent / "results"
MODELS = ("squeezenet", "resnet50")
DEEPSPARSE = "deepsparse"


@dataclass(frozen=True)
class Setting:
    """One machine, two models, and how patient to be.

    `rounds` is how often each comparison is repeated, `seconds` how long a one-shot run measures, and `block_s` how
    long a turn of two processes that alternate is. `quick` asks only whether it works.
    """

    home: Home
    models: Mapping[str, Path]
    cpus: tuple[int, ...]
    rounds: int
    seconds: float
    block_s: float
    quick: bool = False
    seed: int = 1

    @property
    def cores(self) -> int:
        """Physical cores that everything is pinned to."""
        return len(self.cpus)

    @cached_property
    def random(self) -> random.Random:
        """The source of all random orders."""
        return random.Random(self.seed)  # noqa: S311  # an order, not a secret

    @property
    def deepsparse_python(self) -> Path | None:
        """The interpreter that has DeepSparse; None where its environment was not set up."""
        python = self.home.agent_data / "environments" / DEEPSPARSE / "venv" / "bin" / "python"
        return python if python.exists() else None

    def pinned(self, command: list[str]) -> list[str]:
        """The command, bound to the processors of this setting as our own children are."""
        return ["taskset", "--cpu-list", ",".join(map(str, self.cpus)), *command]


def make_setting(*, rounds: int, seconds: float, block_s: float, quick: bool = False) -> Setting:
    """Builds the models, with their batch fixed to 1, so that every peer reads the very same files."""
    home = default_home()
    models = {name: _fixed(home, name) for name in MODELS}
    cpus = tuple(sorted(physical_cores(os.sched_getaffinity(0))))
    return Setting(home, models, cpus, rounds, seconds, block_s, quick)


def _fixed(home: Home, name: str) -> Path:
    path = RESULTS / "models" / f"{name}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        model = onnx.load(str(home.library.main_path(home.library.resolve(f"zoo:{name}"))))
        for value in (*model.graph.input, *model.graph.output):
            for dimension in value.type.tensor_type.shape.dim:
                if dimension.dim_param:
                    dimension.dim_value = 1
        onnx.save(model, str(path))
    return path
