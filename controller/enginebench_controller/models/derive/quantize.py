"""INT8 versions: how they are asked for, and what they are calibrated on: seeded inputs, or given samples."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.errors import ModelError
from enginebench_controller.models.bounded import deriving
from enginebench_controller.models.inputs.arrays import ImageOptions
from enginebench_controller.models.inputs.binding import GivenShapes, bind
from enginebench_controller.models.inputs.input_set import prepare
from enginebench_controller.models.inputs.values import seeded_inputs
from enginebench_controller.models.library import ModelLibrary, add_child, load_whole, refuse_unwritable
from enginebench_controller.records import Derivation, DerivationKind, InputSet, InputTensor, InputValues, ModelVersion
from enginebench_controller.records.model import int8_versions

Item = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class CalibrationInputs:
    """Inputs one by one, made or read when their turn comes; `said` tells which, and tells them from others."""

    said: str
    items: Callable[[Sequence[InputTensor]], Iterator[Item]]


def seeded_calibration(seed: int, samples: int, values: Sequence[InputValues] = ()) -> CalibrationInputs:
    """Random inputs inside the bounds that the model's tables set, filled with `values` where they tell."""
    return CalibrationInputs(
        f"{samples} inputs of seed {seed}" + (f" with {', '.join(map(str, values))}" if values else ""),
        lambda inputs: (seeded_inputs(inputs, seed + number, values) for number in range(samples)),
    )


@dataclass(frozen=True)
class CalibrationFolder:
    """A folder of .npy, .npz or image files, as `run --inputs` takes them; `most` of its samples, or all for None."""

    folder: Path
    image: ImageOptions = field(default_factory=ImageOptions)
    most: int | None = None

    def prepared(self, inputs: Sequence[InputTensor], scratch: Path) -> CalibrationInputs:
        """The samples as arrays under `scratch`, which must last as long as they are read. Raises `InputError`."""
        found, paths = prepare(self.folder, inputs, self.image, scratch / "calibration")
        chosen = found.items[: self.most]

        def items(_: Sequence[InputTensor]) -> Iterator[Item]:
            for files in chosen:
                yield {file.input: np.load(paths[file.sha256], allow_pickle=False) for file in files}

        return CalibrationInputs(_said(found, len(chosen)), items)


def _said(found: InputSet, samples: int) -> str:
    """The folder's name, how many of its inputs, a digest of their contents, and how they were prepared."""
    contents = [f"{file.input}={file.sha256}" for item in found.items[:samples] for file in item]
    digest = hashlib.sha256("\n".join(contents).encode()).hexdigest()[:12]
    return f"{samples} inputs of {found.name} ({digest}; {found.preparation})"


@deriving
def quantize(
    library: ModelLibrary,
    version: ModelVersion,
    calibration_seed: int = 0,
    samples: int = 8,
    shapes: GivenShapes | None = None,
    given: CalibrationFolder | None = None,
    said: Mapping[str, str] | None = None,
) -> ModelVersion:
    """The INT8 child of `version`, calibrated on `samples` seeded inputs or on `given` ones; made once and then found.

    What it was calibrated on stands in its derivation. `shapes` closes open dimensions of the inputs, as for a run, in
    which seeded ones are filled as `said`, in the words of `--input`, as far as they stay different, and lengths with
    those of the whole inputs.
    Raises `ModelError` with the reason where the model cannot be quantized, `InputError` for given inputs that do not
    fit, `StoreError` when the library cannot be written.
    """
    # Here, since it brings ONNX Runtime, and what prunes or only lists models does without.
    from enginebench_controller.models.derive.onnxruntime_int8 import QuantizationError, quantized  # noqa: PLC0415

    refuse_unwritable(version, "quantized")
    bound = bind(library.describe(version), 1, shapes)
    values = bound.varied_values(said or {})
    with library.scratch() as folder:
        calibration = seeded_calibration(calibration_seed, samples, values)
        if given is not None:
            calibration = given.prepared(bound.inputs, folder)
        derivation = Derivation(DerivationKind.QUANTIZED, said=calibration.said)
        if known := library.derived(version, derivation):
            return known
        model, sample = load_whole(library, version, "quantized"), seeded_inputs(bound.inputs, 0, values)
        try:
            child = quantized(model, sample, calibration.items(bound.inputs), folder)
        except QuantizationError as error:
            raise ModelError(f"{version.name} cannot be quantized: {error}") from error
    return add_child(library, version, child, "int8", derivation)


def int8_version(
    library: ModelLibrary,
    version: ModelVersion,
    shapes: GivenShapes | None = None,
    said: Mapping[str, str] | None = None,
) -> tuple[ModelVersion, bool]:
    """The newest INT8 version of a model, and whether it was there already; one on seeded inputs is made where none is.

    Of `shapes` and of what is `said` that counts which is of inputs that the model has. Raises as `quantize` does.
    """
    if (known := next(filter(library.is_whole, int8_versions(library.versions(), version.digest)), None)) is not None:
        return known, True
    own = {one.name for one in library.describe(version).inputs}
    meant = {name: one for name, one in (shapes or {}).items() if name in own}
    filled = {name: one for name, one in (said or {}).items() if name in own}
    return quantize(library, version, shapes=meant, said=filled), False
