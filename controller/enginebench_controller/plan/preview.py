"""What a plan would come to, told at once: without building, rewriting or uploading anything."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from enginebench_controller.errors import InputError, ModelError
from enginebench_controller.models.formats.description import describe_as
from enginebench_controller.models.formats.signature import ModelDescription
from enginebench_controller.models.inputs.binding import bind
from enginebench_controller.models.inputs.shapes import parse_shapes
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.models.zoo import PREFIX, zoo_model
from enginebench_controller.plan.configurations import BoundModel, input_set, length_assumptions, meant_for
from enginebench_controller.plan.expand import Expansion, expand
from enginebench_controller.plan.grouping import in_turns
from enginebench_controller.plan.plan import Plan
from enginebench_controller.plan.sparsity import with_sparsities
from enginebench_controller.records import ModelVersion, TargetSnapshot


@dataclass(frozen=True)
class Preview:
    """What would run, or the planner's sentences on why it cannot, one a reason.

    The real thing may still refuse what only shows when a model is rewritten for a batch, or inputs are read.
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

    def __call__(self, name: str, batch: int) -> BoundModel:
        version = self._version(name)
        if not version.files:  # built when it is first used; those of the zoo run at every batch
            return BoundModel(version, ())
        own = _described(self._library.main_path(version), version.format)
        bound = bind(own, batch, meant_for(own, self._others(version), self._shapes))
        said = meant_for(own, self._others(version), self._plan.input_values)
        chosen = input_set(self._plan, bound, bound.inputs, said)
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


def _reasons(text: str) -> tuple[str, ...]:
    """The reasons of a refusal; the planner puts each on a line of its own, below a heading."""
    listed = [line.removeprefix("  - ") for line in text.splitlines() if line.startswith("  - ")]
    return tuple(listed or text.splitlines())
