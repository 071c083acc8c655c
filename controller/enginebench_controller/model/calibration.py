"""What an INT8 version is calibrated on: seeded inputs, or samples from a folder, prepared as those of a run are."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.inputs.input_set import ImageOptions, prepare
from enginebench_controller.model.seeded_inputs import seeded_inputs
from enginebench_controller.records import InputSet, InputTensor

Item = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Calibration:
    """Inputs one by one, made or read when their turn comes; `said` tells which, and tells them from others."""

    said: str
    items: Callable[[Sequence[InputTensor]], Iterator[Item]]


def seeded_calibration(seed: int, samples: int) -> Calibration:
    """Random inputs inside the bounds that the model's tables set."""
    return Calibration(
        f"{samples} inputs of seed {seed}",
        lambda inputs: (seeded_inputs(inputs, seed + number) for number in range(samples)),
    )


@dataclass(frozen=True)
class CalibrationFolder:
    """A folder of .npy, .npz or image files, as `run --inputs` takes them; `most` of its samples, or all for None."""

    folder: Path
    image: ImageOptions = field(default_factory=ImageOptions)
    most: int | None = None

    def prepared(self, inputs: Sequence[InputTensor], scratch: Path) -> Calibration:
        """The samples as arrays under `scratch`, which must last as long as they are read. Raises `InputError`."""
        found, paths = prepare(self.folder, inputs, self.image, scratch / "calibration")
        chosen = found.items[: self.most]

        def items(_: Sequence[InputTensor]) -> Iterator[Item]:
            for files in chosen:
                yield {file.input: np.load(paths[file.sha256], allow_pickle=False) for file in files}

        return Calibration(_said(found, len(chosen)), items)


def _said(found: InputSet, samples: int) -> str:
    """The folder's name, how many of its inputs, a digest of their contents, and how they were prepared."""
    contents = [f"{file.input}={file.sha256}" for item in found.items[:samples] for file in item]
    digest = hashlib.sha256("\n".join(contents).encode()).hexdigest()[:12]
    return f"{samples} inputs of {found.name} ({digest}; {found.preparation})"
