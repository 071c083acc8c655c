"""Fitting the models of a plan to its batches, with derived copies where a fixed batch has to be rewritten."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from enginebench_controller.errors import ModelError
from enginebench_controller.home import Home
from enginebench_controller.inputs.input_set import prepare
from enginebench_controller.model.binding import Binding, bind
from enginebench_controller.model.description import describe
from enginebench_controller.model.rebatch import rebatch
from enginebench_controller.model.shapes import parse_shapes
from enginebench_controller.planning.expand import BoundModel
from enginebench_controller.planning.plan import Plan
from enginebench_controller.records import ModelVersion


class Binder:
    """Resolves the names of a plan once, and binds each to the batches asked for.

    `digests` maps a name to the exact version that an earlier benchmark used under it. Where the plan names a folder of
    inputs, they are prepared for each batch.
    """

    def __init__(self, home: Home, plan: Plan, digests: Mapping[str, str] | None = None) -> None:
        self._library = home.library
        self._inputs = home.path / "inputs"
        self._plan = plan
        self._shapes = plan.shapes
        self._digests = dict(digests or {})
        self._versions: dict[str, ModelVersion] = {}
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
        """Find every model before anything is started. Raises `ModelError` for the first that is not there."""
        for name in names:
            self._version(name)

    def __call__(self, name: str, batch: int) -> BoundModel:
        """The model version and inputs for one batch. Raises `ModelError`, and `InputError` for given inputs."""
        if (name, batch) not in self._bound:
            self._bound[name, batch] = self._fit(name, batch)
        return self._bound[name, batch]

    def _fit(self, name: str, batch: int) -> BoundModel:
        version = self._version(name)
        bound = self._bind(version, batch)
        if bound.fixed_batch is None:
            return self._with_inputs(BoundModel(version, bound.inputs, bound.assumptions))
        derived = rebatch(self._library, version, batch, parse_shapes(self._shapes))
        return self._with_inputs(BoundModel(derived, self._bind(derived, batch).inputs, bound.assumptions))

    def _with_inputs(self, model: BoundModel) -> BoundModel:
        if self._plan.input_folder is None:
            return model
        folder = Path(self._plan.input_folder).expanduser()
        prepared, paths = prepare(folder, model.inputs, self._plan.image, self._inputs)
        said = (prepared.preparation,) if prepared.preparation else ()
        return replace(model, assumptions=(*model.assumptions, *said), input_set=prepared, input_paths=paths)

    def _version(self, name: str) -> ModelVersion:
        if name not in self._versions:
            self._versions[name] = self._resolve(name)
        return self._versions[name]

    def _resolve(self, name: str) -> ModelVersion:
        digest = self._digests.get(name)
        if digest is None:
            return self._library.resolve(name)
        try:
            return self._library.resolve(digest)
        except ModelError:
            raise ModelError(f"the model version {digest[:12]} that {name!r} meant then was removed") from None

    def _bind(self, version: ModelVersion, batch: int) -> Binding:
        description = describe(self._library.main_path(version))
        return bind(description, batch, parse_shapes(self._shapes))
