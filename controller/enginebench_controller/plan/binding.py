"""Fitting the models of a plan to its batches, with derived copies where a fixed batch has to be rewritten."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from enginebench_controller.errors import InputError, ModelError, UnknownFormatError, UnknownModelError
from enginebench_controller.models.derive.quantize import CalibrationFolder, int8_version
from enginebench_controller.models.derive.rebatch import rebatch
from enginebench_controller.models.formats.signature import ModelDescription
from enginebench_controller.models.inputs.binding import GivenShape, bind
from enginebench_controller.models.inputs.input_set import prepare
from enginebench_controller.models.inputs.shapes import joined, parse_shapes
from enginebench_controller.models.library import INT8_PREFIX, ModelLibrary
from enginebench_controller.plan.configurations import (
    BoundModel,
    fed_by_files,
    input_set,
    length_assumptions,
    meant_for,
    with_values,
)
from enginebench_controller.plan.options import words_of
from enginebench_controller.plan.plan import Plan
from enginebench_controller.records import InputSet, ModelVersion
from enginebench_controller.typed_paths import typed_path


class Binder:
    """Resolves the names of a plan once, and binds each to the batches asked for.

    "int8:NAME" is the INT8 version of NAME: one that was calibrated on the plan's folder of inputs, where it names one,
    or else the newest there is, or one made when it is first used.
    `digests` maps a name to the exact version that an earlier benchmark used under it. Where the plan names a folder of
    inputs, they are prepared for each batch and kept in `inputs`.
    """

    def __init__(
        self, library: ModelLibrary, inputs: Path, plan: Plan, digests: Mapping[str, str] | None = None
    ) -> None:
        self._library = library
        self._inputs = inputs
        self._plan = plan
        self._shapes = parse_shapes(plan.shapes, plan.batch_axis)
        self._digests = dict(digests or {})
        self._versions: dict[str, ModelVersion] = {}
        self._told: dict[str, str] = {}
        self._unreadable: dict[str, ModelError] = {}
        self._bound: dict[tuple[str, int], BoundModel] = {}

    @property
    def digests(self) -> dict[str, str]:
        """The exact version each name turned out to mean."""
        return {name: version.digest for name, version in self._versions.items()}

    @property
    def versions(self) -> tuple[ModelVersion, ...]:
        """What each name turned out to mean; copies for other batches are not among them."""
        return tuple(self._versions.values())

    def resolve(self, names: Sequence[str]) -> None:
        """Find every model before anything is started.

        Raises `UnknownModelError` for the first that is not there, `UnknownFormatError` for the first that no engine
        is known to read, and `ModelError` where none of them can be read: one of several that cannot is told of when it
        is bound.
        """
        for name in names:
            try:
                self._version(name)
            except (UnknownFormatError, UnknownModelError):
                raise
            except ModelError as error:
                self._unreadable[name] = error
        if self._unreadable and not self._versions:
            raise next(iter(self._unreadable.values()))

    def __call__(self, name: str, batch: int) -> BoundModel:
        """The model version and inputs for one batch. Raises `ModelError`, and `InputError` for given inputs."""
        if (name, batch) not in self._bound:
            self._bound[name, batch] = self._fit(name, batch)
        return self._bound[name, batch]

    def _fit(self, name: str, batch: int) -> BoundModel:
        version = self._version(name)
        own = self._library.describe(version)
        shapes = meant_for(own, self._others(version), self._shapes)
        said = meant_for(own, self._others(version), self._plan.input_values)
        bound = bind(own, batch, shapes)
        fit, inputs = version, bound.inputs
        if bound.fixed_batch is not None:
            fit = rebatch(self._library, version, batch, shapes, said)
            inputs = tuple(one.with_items(batch) for one in inputs)
        chosen = input_set(self._plan, bound, inputs, said)
        told = (*filter(None, [self._told.get(name)]), *bound.assumptions, *length_assumptions(chosen, said))
        return self._with_inputs(BoundModel(fit, inputs, told, bound.output_batch_axes), chosen)

    def _others(self, version: ModelVersion) -> Iterator[ModelDescription]:
        """The other models of the plan."""
        return (self._library.describe(one) for one in self.versions if one.digest != version.digest)

    def _with_inputs(self, model: BoundModel, chosen: InputSet) -> BoundModel:
        if self._plan.input_folder is None:
            return replace(model, input_set=chosen)
        folder = typed_path(self._plan.input_folder)
        files = fed_by_files(self._plan, model.inputs, chosen)
        prepared, paths = prepare(folder, files, self._plan.image, self._inputs)
        prepared = with_values(prepared, chosen.values)
        said = (prepared.preparation,) if prepared.preparation else ()
        return replace(model, assumptions=(*model.assumptions, *said), input_set=prepared, input_paths=paths)

    def _version(self, name: str) -> ModelVersion:
        if name in self._unreadable:
            raise self._unreadable[name]
        if name not in self._versions:
            self._versions[name] = self._resolve(name)
        return self._versions[name]

    def _resolve(self, name: str) -> ModelVersion:
        digest = self._digests.get(name)
        if digest is None:
            return self._int8(name) if name.startswith(INT8_PREFIX) else self._library.resolve(name)
        try:
            return self._library.resolve(digest)
        except ModelError:
            raise ModelError(f"the model version {digest[:12]} that {name!r} meant then was removed") from None

    def _int8(self, name: str) -> ModelVersion:
        """Raises `UnknownModelError` where there is none: half of a comparison is not to be run."""
        source = self._library.resolve(name.removeprefix(INT8_PREFIX))
        shapes = self._of_one_item(source)
        try:
            int8 = int8_version(self._library, source, shapes, self._plan.input_values, self._calibration())
        except ModelError as error:
            raise UnknownModelError(f"there is no INT8 version: {error}") from None
        found, which = int8.version, "was there already" if int8.was_there else "was made now"
        told = f"{found.name} ({found.digest[:12]}), which {which}: {found.derivation}"
        if int8.is_on_others:
            told += f"; {int8.calibrated_on.value}: {self._better(source, found, shapes)}"
        self._told[name] = told
        return found

    def _calibration(self) -> CalibrationFolder | None:
        """The run's very inputs, where a folder has them."""
        folder = self._plan.input_folder
        return None if folder is None else CalibrationFolder(typed_path(folder), self._plan.image)

    def _of_one_item(self, source: ModelVersion) -> Mapping[str, GivenShape]:
        """The shapes with 1 in place of the run's batch, which they may repeat: an INT8 version serves every batch."""
        own = self._library.describe(source)
        shapes = {one.name: self._shapes[one.name] for one in own.inputs if one.name in self._shapes}
        for batch in self._plan.batch:
            with suppress(InputError):  # that of a batch which does not fit, the run tells
                axes = {one.name: one.batch_axis for one in bind(own, batch, shapes).inputs}
                return {name: _with_one(shape, axes[name]) for name, shape in shapes.items()}
        return shapes

    def _better(self, source: ModelVersion, found: ModelVersion, shapes: Mapping[str, GivenShape]) -> str:
        """What makes an INT8 version that is calibrated on the run's inputs."""
        own = {one.name for one in self._library.describe(source).inputs}
        if own & self._plan.input_values.keys():  # which only a run can fill so
            return f"without `enginebench models remove {found.digest[:12]}` none is made that is calibrated on them"
        asked, default = self._plan.document(), Plan(models=self._plan.models).document()
        axes = {name: one for name, one in asked["batch_axis"].items() if name in own}
        sizes = {name: joined(one.dims) for name, one in shapes.items() if one.dims is not None}
        image = {name: one for name, one in asked["image"].items() if one != default["image"][name]}
        fields = {"input_folder": asked["input_folder"], "shapes": sizes, "batch_axis": axes, "image": image}
        words = words_of(fields)
        command = shlex.join(["enginebench", "models", "quantize", source.name, *words])
        return f"`{command}` makes one that is calibrated on them"


def _with_one(shape: GivenShape, axis: int | None) -> GivenShape:
    if shape.dims is None or axis is None:
        return shape
    return replace(shape, dims=tuple(1 if place == axis else size for place, size in enumerate(shape.dims)))
