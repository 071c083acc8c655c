"""INT8 versions: how they are asked for, and what they are calibrated on: seeded inputs, or given samples."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.errors import InputError, ModelError
from enginebench_controller.models.bounded import deriving
from enginebench_controller.models.formats.signature import ModelDescription
from enginebench_controller.models.inputs.arrays import ImageOptions
from enginebench_controller.models.inputs.binding import Binding, GivenShape, GivenShapes, bind
from enginebench_controller.models.inputs.input_set import (
    MAX_SET_BYTES,
    Outline,
    Selection,
    fingerprint,
    outline,
    prepare,
)
from enginebench_controller.models.inputs.shapes import joined
from enginebench_controller.models.inputs.values import given_values, seeded_inputs
from enginebench_controller.models.library import ModelLibrary, add_child, load_whole, refuse_unwritable
from enginebench_controller.records import Derivation, DerivationKind, InputSet, InputTensor, InputValues, ModelVersion
from enginebench_controller.records.model import Calibration, int8_versions

Item = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class CalibrationInputs:
    """Inputs one by one, made or read when their turn comes; `said` tells which, and their contents from others.

    `filled` are those that have numbers that somebody said.
    """

    said: str
    items: Callable[[Sequence[InputTensor]], Iterator[Item]]
    filled: frozenset[str] = frozenset()


def seeded_calibration(seed: int, samples: int, values: Sequence[InputValues] = ()) -> CalibrationInputs:
    """Random inputs inside the bounds that the model's tables set, filled with `values` where they tell."""
    return CalibrationInputs(
        f"{samples} inputs of seed {seed}",
        lambda inputs: (seeded_inputs(inputs, seed + number, values) for number in range(samples)),
        frozenset(one.input for one in values),
    )


@dataclass(frozen=True)
class CalibrationFolder:
    """A folder of .npy, .npz or image files, as `run --inputs` takes them.

    `count` is how many inputs are made of its samples, of which more are taken at equal distances; None for all there
    are, up to `_ENOUGH`.
    """

    folder: Path
    image: ImageOptions = field(default_factory=ImageOptions)
    count: int | None = None

    def prepared(
        self, inputs: Sequence[InputTensor], scratch: Path, values: Sequence[InputValues] = ()
    ) -> CalibrationInputs:
        """The samples as arrays under `scratch`, which must last as long as they are read. Raises `InputError`.

        Inputs that `values` tell of are filled with these, and need no files.
        """
        filled = {one.input for one in values}
        if self.count is not None:
            self._refuse_fewer(self.outline(inputs, values), self.count)
        found, paths = prepare(
            self.folder, _needing_files(inputs, values), self.image, scratch / "calibration", self._selection
        )

        def items(_: Sequence[InputTensor]) -> Iterator[Item]:
            rest = [one for one in inputs if one.name in filled]
            for number, item in enumerate(found.items):
                yield {one.input: np.load(paths[one.sha256], allow_pickle=False) for one in item} | seeded_inputs(
                    rest, number, values
                )

        return CalibrationInputs(_said(found), items, frozenset(filled))

    def outline(self, inputs: Sequence[InputTensor], values: Sequence[InputValues] = ()) -> Outline:
        """What `prepared` would read, without reading it. Raises `InputError`."""
        return outline(self.folder, _needing_files(inputs, values), self.image, self._selection)

    @property
    def _selection(self) -> Selection:
        return Selection(self.count or _ENOUGH, is_spread=True, only_finite=True)

    def _refuse_fewer(self, found: Outline, count: int) -> None:
        if found.count >= count:
            return
        way = "add files, or leave --samples out to take all there are"
        if found.is_full:
            way = (
                f"they may take {MAX_SET_BYTES / 2**30:g} GiB all together, and more of this size would not fit; "
                f"write --samples {found.count}, or leave it out"
            )
        raise InputError(
            f"{self.folder} gives {found.count} inputs ({found.preparation}), not the {count} of --samples: {way}"
        )


def _needing_files(inputs: Sequence[InputTensor], values: Sequence[InputValues]) -> list[InputTensor]:
    filled = {one.input for one in values}
    return [one for one in inputs if one.name not in filled]


_ENOUGH = 512
"""Ranges hardly widen with more, and each is an inference. A run's 64 are fewer, as they stay in memory."""


def _said(found: InputSet) -> str:
    """The folder's name, how many of its inputs, a digest of their contents, and how they were prepared."""
    contents = [f"{file.input}={file.sha256}" for item in found.items for file in item]
    digest = hashlib.sha256("\n".join(contents).encode()).hexdigest()[:12]
    return f"{found.count} inputs of {found.name} ({digest}; {found.preparation})"


@dataclass(frozen=True)
class _Wish:
    """What is asked of a quantization: see `quantize`."""

    seed: int = 0
    samples: int = 8
    shapes: GivenShapes = field(default_factory=dict)
    given: CalibrationFolder | None = None
    said: Mapping[str, str] = field(default_factory=dict)

    def inputs(self, bound: Binding, scratch: Path) -> CalibrationInputs:
        """The inputs, with files under `scratch`. Raises `InputError`."""
        if self.given is not None:
            return self.given.prepared(bound.inputs, scratch, given_values(bound.inputs, self.said))
        return seeded_calibration(self.seed, self.samples, bound.varied_values(self.said))

    def calibration(self, own: ModelDescription, bound: Binding) -> Calibration:
        """What is asked for, by its parts; nothing is decoded. Raises `InputError`."""
        if self.given is not None:
            values = given_values(bound.inputs, self.said)
            found = self.given.outline(bound.inputs, values)
            files = _RULE + fingerprint(self.given.folder, _needing_files(bound.inputs, values))
            asked = Calibration(found.name, files, found.count, found.samples, found.images, found.preparation)
        else:
            values, asked = bound.varied_values(self.said), Calibration(count=self.samples)
        return replace(asked, values=tuple(map(str, values)), sizes=tuple(_closed(own, bound, self.shapes)))


_RULE = "2:"
"""Of `fingerprint`, which had another one once: files that are told by that are not known, and no others for it."""


class CalibratedOn(Enum):
    """Whether a version was calibrated on the inputs that are asked for; the value is what to say of it."""

    THESE = ""
    OTHERS = "the inputs of this run are others, as far as is known"
    UNKNOWN = "whether it was calibrated on the inputs of this run is not known"


def _calibrated_on(asked: Calibration, version: ModelVersion) -> CalibratedOn:
    """That is on the same samples, prepared alike, however many of them were taken and whatever their folder's name.

    Where a record of before has the words alone, these tell seeded inputs, and of files no more than a name.
    """
    made = _calibration(version)
    if made is None:
        return CalibratedOn.OTHERS if _SEEDED.match(_said_of(version)) else CalibratedOn.UNKNOWN
    files, count, preparation = asked.files, asked.count, asked.preparation
    if replace(made, folder=asked.folder, files=files, count=count, preparation=preparation) != asked:
        return CalibratedOn.OTHERS
    if made.files.removeprefix(_RULE) == files.removeprefix(_RULE):
        return CalibratedOn.THESE
    return CalibratedOn.OTHERS if made.files.startswith(_RULE) else CalibratedOn.UNKNOWN


_SEEDED = re.compile(r"\d+ inputs of seed \d+(?:,| with |$)")


def _farness(asked: Calibration, version: ModelVersion) -> int:
    """0 of what is asked for, 1 of another selection, 2 where it may be by the folder's name, 3 of all else."""
    made = _calibration(version)
    match _calibrated_on(asked, version):
        case CalibratedOn.THESE:
            is_selected_alike = made and (made.count, made.preparation) == (asked.count, asked.preparation)
            return 0 if is_selected_alike else 1
        case CalibratedOn.UNKNOWN:
            is_named = made.folder == asked.folder if made else f" inputs of {asked.folder} (" in _said_of(version)
            return 2 if is_named else 3
        case CalibratedOn.OTHERS:
            return 3


def _closed(own: ModelDescription, bound: Binding, shapes: GivenShapes) -> Iterator[str]:
    """The sizes of inputs that the model leaves open, but for the batch, and the places of the batch that were said."""
    dims = {one.name: one.dims for one in own.inputs}
    for one in bound.inputs:
        at = one.batch_axis if one.items is not None else None
        sizes = dims.get(one.name)
        if sizes is None or any(not isinstance(size, int) for axis, size in enumerate(sizes) if axis != at):
            yield f"{one.name}={joined(one.shape)}"
        given = shapes.get(one.name)
        if isinstance(given, GivenShape) and given.batch_axis is not None:
            yield f"batch axis {one.name}={given.batch_axis}"


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

    What it was calibrated on stands in its derivation. One that is found is then the newest, as one that is made is.
    `shapes` closes open dimensions of the inputs, as for a run, in which seeded ones are filled as `said`, in the words
    of `--input`, as far as they stay different, and lengths with those of the whole inputs; beside `given` ones, inputs
    that are `said` need no files.
    Raises `ModelError` with the reason where the model cannot be quantized, `InputError` for given inputs that do not
    fit, `StoreError` when the library cannot be written.
    """
    # Here, since it brings ONNX Runtime, and what prunes or only lists models does without.
    from enginebench_controller.models.derive.onnxruntime_int8 import QuantizationError, quantized  # noqa: PLC0415

    refuse_unwritable(version, "quantized")
    own = library.describe(version)
    bound = bind(own, 1, shapes)
    wish = _Wish(calibration_seed, samples, shapes or {}, given, said or {})
    with library.scratch() as folder:
        seen, calibration = wish.inputs(bound, folder), wish.calibration(own, bound)
        filled = f" with {', '.join(calibration.values)}" if calibration.values else ""
        sentence = ", ".join([seen.said + filled, *calibration.sizes])
        derivation = Derivation(DerivationKind.QUANTIZED, said=sentence, calibration=calibration)
        if known := library.derived(version, derivation):
            return _as_newest(library, replace(known, derivation=derivation), version)
        model = load_whole(library, version, "quantized")
        trials = [seeded_inputs(bound.inputs, seed, bound.varied_values(wish.said)) for seed in (0, 1)]
        try:
            child = quantized(model, trials, lambda: seen.items(bound.inputs), folder, seen.filled)
        except QuantizationError as error:
            raise ModelError(f"{version.name} cannot be quantized: {error}") from error
    return _as_newest(library, add_child(library, version, child, "int8", derivation), version)


def _as_newest(library: ModelLibrary, known: ModelVersion, parent: ModelVersion) -> ModelVersion:
    """Who asks for a version again means it from then on: `int8:` stands for the newest."""
    newest = next(iter(int8_versions(library.versions(), parent.digest)), known)
    is_recorded = newest.digest == known.digest and _calibration(newest) == _calibration(known)
    return known if is_recorded else library.renewed(known)


def _calibration(version: ModelVersion) -> Calibration | None:
    return version.derivation.calibration if version.derivation else None


def _said_of(version: ModelVersion) -> str:
    return version.derivation.said if version.derivation else ""


@dataclass(frozen=True)
class Int8Version:
    """What `int8:` stands for, whether it was there already, and whether it was calibrated on the given inputs."""

    version: ModelVersion
    was_there: bool
    calibrated_on: CalibratedOn = CalibratedOn.THESE

    @property
    def is_on_others(self) -> bool:
        """Whether it is on other inputs than the given ones, or may be."""
        return self.calibrated_on is not CalibratedOn.THESE


def int8_version(
    library: ModelLibrary,
    version: ModelVersion,
    shapes: GivenShapes | None = None,
    said: Mapping[str, str] | None = None,
    given: CalibrationFolder | None = None,
) -> Int8Version:
    """The INT8 version of a model that was calibrated on the `given` inputs, or else the newest; made where none is.

    That is so of as many samples, prepared alike, however many of them were taken. The files are known by their names
    and sizes, and by how up to 63 of them, at equal distances, begin and end: nothing is decoded. Where none is known
    to be on these, one that may be, as its folder is called so, is preferred to the newest.

    One is made on `given` inputs, or on seeded ones. Of `shapes` and of what is `said` that counts which is of inputs
    that the model has. Raises as `quantize` does.
    """
    own = library.describe(version)
    names = {one.name for one in own.inputs}
    meant = {name: one for name, one in (shapes or {}).items() if name in names}
    filled = {name: one for name, one in (said or {}).items() if name in names}
    known = [one for one in int8_versions(library.versions(), version.digest) if library.is_whole(one)]
    if not known:
        return Int8Version(quantize(library, version, shapes=meant, given=given, said=filled), was_there=False)
    if given is None:
        return Int8Version(known[0], was_there=True)
    # Inputs that cannot calibrate may well be measured; where they do not fit, whoever prepares the run says so.
    with suppress(InputError):
        asked = _Wish(shapes=meant, given=given, said=filled).calibration(own, bind(own, 1, meant))
        chosen = min(known, key=lambda one: _farness(asked, one))
        return Int8Version(chosen, was_there=True, calibrated_on=_calibrated_on(asked, chosen))
    return Int8Version(known[0], was_there=True)
