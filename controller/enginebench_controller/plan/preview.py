"""What a plan would come to, told at once: without building, rewriting or uploading anything."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from enginebench_controller.errors import InputError, ModelError
from enginebench_controller.models.formats.description import describe_as
from enginebench_controller.models.formats.signature import ModelDescription
from enginebench_controller.models.inputs.arrays import ImageOptions
from enginebench_controller.models.inputs.binding import bind
from enginebench_controller.models.inputs.input_set import files_of, outline
from enginebench_controller.models.inputs.shapes import parse_shapes
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.models.zoo import PREFIX, zoo_model
from enginebench_controller.plan.configurations import (
    BoundModel,
    fed_by_files,
    input_set,
    length_assumptions,
    meant_for,
)
from enginebench_controller.plan.expand import Expansion, expand
from enginebench_controller.plan.grouping import in_turns
from enginebench_controller.plan.plan import Plan
from enginebench_controller.plan.sparsity import with_sparsities
from enginebench_controller.records import InputTensor, ModelVersion, TargetSnapshot
from enginebench_controller.typed_paths import typed_path


@dataclass(frozen=True)
class Preview:
    """What would run, or the planner's sentences on why it cannot, one a reason.

    The real thing may still refuse what only shows when a model is rewritten for a batch, or inputs are decoded.
    """

    expansion: Expansion | None
    refusals: tuple[str, ...] = ()


def preview(
    library: ModelLibrary, plan: Plan, snapshots: Sequence[TargetSnapshot], sparsities: Sequence[float] = ()
) -> Preview:
    """Expand a plan whose models are digests or zoo:NAMEs, over what its targets said last, in their order.

    With `sparsities` as for a profile that imposes them.
    """
    try:
        plan.stop_rule()
        expansion = expand(plan, snapshots, _Looker(library, plan))
        expansion = in_turns(plan, expansion, snapshots, library.versions())
        if sparsities:
            expansion = with_sparsities(plan, expansion, sparsities, snapshots)
    except InputError as error:
        return Preview(None, _reasons(str(error)))
    if not expansion.cases:
        return Preview(None, ("no engine on these targets reads these models", *expansion.notes))
    return Preview(expansion)


class _Looker:
    """Binds models by their signature alone: one with a fixed batch is taken for the copy that would be made of it."""

    def __init__(self, library: ModelLibrary, plan: Plan) -> None:
        self._library = library
        self._versions = {version.digest: version for version in library.versions()}
        self._plan = plan
        self._shapes = parse_shapes(plan.shapes, plan.batch_axis)
        self._folder = None if plan.input_folder is None else typed_path(plan.input_folder)

    def __call__(self, name: str, batch: int) -> BoundModel:
        version = self._version(name)
        if not version.files:  # built when it is first used; those of the zoo run at every batch
            if self._folder is not None:
                files_of(self._folder)
            return BoundModel(version, ())
        own = _described(self._library.main_path(version), version.format)
        bound = bind(own, batch, meant_for(own, self._others(version), self._shapes))
        said = meant_for(own, self._others(version), self._plan.input_values)
        chosen = input_set(self._plan, bound, bound.inputs, said)
        if self._folder is not None:
            fit = [one if bound.fixed_batch is None else one.with_items(batch) for one in bound.inputs]
            _look_into(self._folder, _stands(self._folder), fed_by_files(self._plan, fit, chosen), self._plan.image)
        told = (*bound.assumptions, *length_assumptions(chosen, said))
        return BoundModel(version, bound.inputs, told, bound.output_batch_axes, chosen)

    def _others(self, version: ModelVersion) -> Iterator[ModelDescription]:
        for one in map(self._version, self._plan.models):
            if one.files and one.digest != version.digest:
                yield _described(self._library.main_path(one), one.format)

    def _version(self, name: str) -> ModelVersion:
        if name.startswith(PREFIX):
            model = zoo_model(name)
            return self._versions.get(model.digest) or ModelVersion(model.digest, name, "onnx", (), 0)
        if name not in self._versions:
            raise ModelError(f"the library holds no version {name[:12]}; see `enginebench models list`")
        return self._versions[name]


@lru_cache(maxsize=256)
def _described(path: Path, model_format: str) -> ModelDescription:
    """What a version of the library asks for; its path holds its digest, so what was read once stays true."""
    return describe_as(path, model_format)


@lru_cache(maxsize=64)
def _look_into(folder: Path, _stands: int | None, inputs: tuple[InputTensor, ...], image: ImageOptions) -> None:
    """Refuse files that do not fit by name or header. What fits is not read again while its files are as old.

    Raises `InputError`, which is not kept: a file may be mended in its place.
    """
    outline(folder, inputs, image)


def _stands(folder: Path) -> int | None:
    """What changes with the files of a folder; None of one that cannot be looked at."""
    with suppress(OSError, ValueError), os.scandir(folder) as files:
        return hash(frozenset((one.name, (seen := one.stat()).st_size, seen.st_mtime_ns) for one in files))
    return None


def _reasons(text: str) -> tuple[str, ...]:
    """The reasons of a refusal; the planner puts each on a line of its own, below a heading."""
    listed = [line.removeprefix("  - ") for line in text.splitlines() if line.startswith("  - ")]
    return tuple(listed or text.splitlines())
