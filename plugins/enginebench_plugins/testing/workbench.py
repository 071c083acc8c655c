"""What the statements about an engine are made of: models, settings, requests, and what they compare."""

import pkgutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pluggy
import pytest

from enginebench_plugins import spec
from enginebench_plugins.testing import contract_models
from enginebench_plugins.testing.contract_models import Arrays, ContractModel
from enginebench_plugins.testing.in_flight import copied

Statement = TypeVar("Statement", bound=Callable[..., None])

SEVERAL = (1, 3, 16)
"""The batches that an engine is held against which runs any: even and odd, as halves of a batch are lost, too."""

TIMES_ALIKE = 6
"""Who remembers outputs may begin with those that are asked for often."""

IN_FLIGHT = 4

SLOW_S = 0.3
"""An inference of the heavy model takes some 10 ms, and statements have hundreds."""

REFUSED = (
    "Raises `UnsupportedSettingsError` for a setting this engine cannot honour; a setting is never ignored silently."
)
"""What several statements hold an engine to."""


OUTPUTS = "The outputs are what the model computes of these very inputs"


class UnlikeError(AssertionError):
    """Outputs are others than the model's: that is the broken promise, whatever the statement was about."""

    promise = OUTPUTS


def promise(sentence: str) -> Callable[[Statement], Statement]:
    """Say which sentence of the spec a statement holds an engine to; `plugin check` prints it where it is broken."""

    def mark(statement: Statement) -> Statement:
        statement.promise = sentence  # type: ignore[attr-defined]
        return statement

    return mark


def load_engine(plugin: Any) -> spec.Engine:
    """The engine of a plugin module (or of its dotted name), through pluggy as a worker gets it."""
    module = pkgutil.resolve_name(plugin) if isinstance(plugin, str) else plugin
    manager = pluggy.PluginManager("enginebench")
    manager.add_hookspecs(spec)
    manager.register(module)
    manager.check_pending()
    engine: spec.Engine = manager.hook.enginebench_engine()
    return engine


def compiled(engine: spec.Engine, source: spec.ModelSource, **settings: Any) -> spec.CompiledModel:
    """A model compiled as a worker does it, under `Settings` of which these differ from the defaults."""
    wanted = spec.Settings(**settings)
    source = replace(source, settings=wanted)
    return engine.compile(engine.convert(engine.read(source), source), source, wanted)


def batches(engine: spec.Engine) -> tuple[int, ...]:
    """Those that it is held against: a single item, and several where it runs any."""
    return engine.info().batches or SEVERAL


def choices(engine: spec.Engine) -> Iterator[tuple[spec.OptionSpec, spec.OptionValue]]:
    """Each value of each option that has so few that it can list them."""
    for option in engine.info().options:
        values: tuple[spec.OptionValue, ...] = (False, True) if option.type is bool else ()
        for choice in option.choices or values:
            yield option, choice


class Workbench:
    """An engine on the bench; the attributes have defaults that most engines meet, but for `plugin`."""

    plugin: Any = None
    """The plugin's module, or its dotted name."""
    device = "CPU"
    precision = spec.Precision.F32
    """What every compile asks for, but for those of statements about precisions."""
    rtol = 1e-3
    atol = 1e-4
    options: ClassVar[Mapping[str, spec.OptionValue]] = {}
    """Options every compile gets."""
    layer_sum_bounds = (0.02, 10.0)
    """Σ layers ÷ latency of a profiled inference; a wrong unit is off by a thousand."""

    @pytest.fixture
    def engine(self) -> spec.Engine:
        """As a worker gets it, for each statement anew."""
        return load_engine(self.plugin)

    # What the statements below are made of; an engine that reads no ONNX replaces the models.

    def classifier(self, folder: Path) -> ContractModel:
        """A model with one float32 input and an open batch."""
        return contract_models.classifier(folder)

    def fixed_classifier(self, folder: Path, batch: int) -> ContractModel:
        """The same model with its batch fixed."""
        return contract_models.classifier(folder, batch)

    def embedding(self, folder: Path) -> ContractModel:
        """A model with an int64 and a float32 input, two outputs and an open batch."""
        return contract_models.embedding(folder)

    def fused(self, folder: Path) -> ContractModel:
        """A model whose outputs stand behind what engines fuse."""
        return contract_models.fused(folder)

    def heavy(self, folder: Path) -> ContractModel:
        """A model with an open batch that takes long enough to be timed."""
        return contract_models.heavy(folder)

    def timed(self, engine: spec.Engine, folder: Path) -> ContractModel:
        """The same model, or for a slow engine the classifier; what is said of one that cannot read it is left out."""
        model, batch = self.heavy(folder), min(batches(engine))
        if model.format not in engine.info().reads:
            pytest.skip(f"it reads no {model.format}")
        with self.compiled(engine, model.source(batch), self.settings(batch=batch)) as compiled:
            request, inputs = compiled.create_request(), model.inputs_for(batch, seed=1)
            times_s = []
            for _ in range(3):  # the first one may compile
                begin_s = time.monotonic()
                request.infer(inputs)
                times_s.append(time.monotonic() - begin_s)
            request.close()
        return model if min(times_s) < SLOW_S else self.classifier(folder)

    def models(self, engine: spec.Engine, folder: Path) -> tuple[ContractModel, ...]:
        """All whose inputs this engine takes."""
        embeddings = (self.embedding(folder),) if engine.info().integer_inputs else ()
        return (self.classifier(folder), *embeddings)

    def settings(self, **changes: Any) -> spec.Settings:
        """The defaults with the device, the precision and the options of this class, and with these changes."""
        own = spec.Settings(device=self.device, precision=self.precision, options=dict(self.options))
        return replace(own, **changes)

    def offered(self, engine: spec.Engine) -> tuple[spec.Precision, ...]:
        """The precisions of the device of this class."""
        return next(device.precisions for device in engine.devices() if device.name == self.device)

    def goes_on(self) -> None:
        """Called with every step that may take a while, each compilation among them: who waits can be told so."""
        return

    @contextmanager
    def compiled(
        self, engine: spec.Engine, source: spec.ModelSource, settings: spec.Settings
    ) -> Iterator[spec.CompiledModel]:
        """A compiled model that is closed at the end."""
        source = replace(source, settings=settings)
        model = engine.compile(engine.convert(engine.read(source), source), source, settings)
        self.goes_on()
        try:
            yield model
        finally:
            model.close()

    @contextmanager
    def requests(
        self, engine: spec.Engine, model: ContractModel, batch: int, count: int = 1, **changes: Any
    ) -> Iterator[list[spec.InferRequest]]:
        """So many requests of a compiled model; all are closed at the end."""
        load = spec.Load.SYNC if count == 1 else spec.Load.ASYNC
        settings = self.settings(batch=batch, requests=count, load=load, **changes)
        with self.compiled(engine, model.source(batch), settings) as compiled:
            requests = [compiled.create_request() for _ in range(count)]
            try:
                yield requests
            finally:
                for request in requests:
                    request.close()

    def infer(self, engine: spec.Engine, model: ContractModel, batch: int, *inputs: Arrays) -> list[Arrays]:
        """The outputs for each of the inputs, by one request, copied before the request is used again."""
        with self.requests(engine, model, batch) as (request,):
            return [copied(request.infer(each)) for each in inputs]

    def assert_same(self, outputs: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
        """Names, shapes and, within the tolerance, values. Raises `UnlikeError` for the last two."""
        assert set(outputs) == set(expected), f"outputs are called {sorted(outputs)}, and not {sorted(expected)}"
        for name, array in expected.items():
            found = outputs[name].shape
            if found != array.shape:
                raise UnlikeError(f"{name} has the shape {found}, and the model's is {array.shape}")
            is_close = np.isclose(outputs[name], array, rtol=self.rtol, atol=self.atol, equal_nan=True)
            if not is_close.all():
                wrong, is_first_right = np.count_nonzero(~is_close), is_close.ndim > 1 and is_close[0].all()
                where = ", none of them in the first item" if is_first_right else ""
                raise UnlikeError(
                    f"{wrong} of the {is_close.size} values of {name} are others than those expected{where}"
                )

    def assert_refused(self, engine: spec.Engine, folder: Path, **changes: Any) -> None:
        """These changes of the settings raise what a setting raises that cannot be honoured."""
        settings = self.settings(**{"batch": min(batches(engine)), **changes})
        source = self.classifier(folder).source(settings.batch)
        with (
            pytest.raises(spec.UnsupportedSettingsError, match=r"\w+ \w+"),
            self.compiled(engine, source, settings),
        ):
            pass


def skip_unless_async(engine: spec.Engine) -> None:
    """Leave a statement out of which an engine says that it is none of its own."""
    if spec.Load.ASYNC not in engine.info().loads:
        pytest.skip("it runs one request at a time")
