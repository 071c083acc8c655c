"""Measurements on their way into the store: judged while model and target are at hand, then stored, many together."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from enginebench_controller.errors import ModelError, StoreBusyError
from enginebench_controller.graph.ceiling import ceiling, fewest_flops
from enginebench_controller.graph.flops.counting import node_costs
from enginebench_controller.graph.reading import random_operators, read_source_graph
from enginebench_controller.graph.roofline import roof_precision, roofs_of
from enginebench_controller.graph.rounding_noise import NoiseOrder, rounding_noise
from enginebench_controller.graph.source_graph import SourceGraph
from enginebench_controller.home import Home
from enginebench_controller.models.inputs.binding import given_shapes
from enginebench_controller.records import (
    BlockSamples,
    Ceiling,
    Configuration,
    Grounds,
    HostFacts,
    Measurement,
    ModelVersion,
    OutputNoise,
    Peak,
    TargetSnapshot,
)
from enginebench_controller.runs.busy_store import patiently
from enginebench_controller.runs.undertaking import Keep
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.output_check import check_outputs, works
from enginebench_proto.agreed import logs
from enginebench_proto.agreed.words import PROCESSOR

_log = logging.getLogger(__name__)

_MOST_AT_ONCE = 64
"""So many measurements go into one transaction at most: others who write wait no longer than that takes."""

_LONGEST_PAUSE_S = 1.0

_Waiting = tuple[Measurement, Iterable[BlockSamples], asyncio.Future[None]]


def keeper(home: Home) -> Keep:
    """What puts measurements into the store of a home."""

    judging, storing = Judging(home), Storing(home.store)

    async def keep(measurement: Measurement, samples: Iterable[BlockSamples]) -> None:
        measurement = await patiently(partial(judging.with_grounds, measurement), is_outcome=True)
        await storing.add(measurement, samples)
        failure = measurement.failure.kind if measurement.failure else "none"
        words = logs.told(id=measurement.id, target=measurement.target, status=measurement.status, failure=failure)
        _log.info("measurement stored", extra=words)

    return keep


class Storing:
    """Puts what comes while a transaction goes on into the next one, together: a thousand targets are no thousand."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[_Waiting] = []
        self._writer: asyncio.Task[None] | None = None

    async def add(self, measurement: Measurement, samples: Iterable[BlockSamples]) -> None:
        """Return once it is stored. Raises `StoreError`."""
        stored = asyncio.get_running_loop().create_future()
        self._waiting.append((measurement, samples, stored))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        await stored

    async def _write(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOST_AT_ONCE], self._waiting[_MOST_AT_ONCE:]
                began_s = time.monotonic()
                if not await self._all(batch):  # one that cannot be stored is not to fail the others
                    for one in batch:
                        await self._one(*one)
                # For as long as it was ours, others may have the store; and what comes meanwhile goes together.
                await asyncio.sleep(min(time.monotonic() - began_s, _LONGEST_PAUSE_S))
        finally:
            self._writer = None

    async def _all(self, batch: list[_Waiting]) -> bool:
        try:
            together = [(one, samples) for one, samples, _ in batch]
            await patiently(partial(self._store.add_measurements, together), is_outcome=True)
        except Exception:  # whose fault it is, each learns for itself
            return False
        for _, _, stored in batch:
            _settle(stored, None)
        return True

    async def _one(
        self, measurement: Measurement, samples: Iterable[BlockSamples], stored: asyncio.Future[None]
    ) -> None:
        try:
            await asyncio.to_thread(self._store.add_measurement, measurement, samples)
        except Exception as error:  # whoever waits for it is told
            _settle(stored, error)
        else:
            _settle(stored, None)


def _settle(stored: asyncio.Future[None], error: Exception | None) -> None:
    if stored.done():  # nobody waits any more
        return
    if error is None:
        stored.set_result(None)
    else:
        stored.set_exception(error)


_PROCESSOR = [PROCESSOR]
"""The resources of a device that is nothing but the processor."""

_INTEGER_PRODUCTS = ("QLinear", "Quantize", "Dequantize", "Integer", "DynamicQuantize")


class Judging:
    """Gives measurements their grounds. What is found of a model, or of a target, is found once."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._works: dict[object, tuple[float, bool]] = {}
        self._random: dict[str, tuple[str, ...] | None] = {}
        self._noise: dict[object, tuple[OutputNoise, ...] | str] = {}
        self._earlier: dict[str, dict[tuple[object, object], Measurement]] = {}
        self._targets: dict[str, dict[str, TargetSnapshot]] = {}
        self._models: dict[str, ModelVersion] = {}
        self._peaks: dict[str, list[Peak]] | None = None
        self._lock = Lock()

    def with_grounds(self, measurement: Measurement) -> Measurement:
        """The measurement with what it is to be judged by, as far as that can be found; never raises for what cannot.

        Raises `StoreBusyError` where others have the store, in which it can be found later.

        Looking for the noise of a model takes seconds. It is done where outputs differ from those of the benchmark's
        earlier measurements by more than usual, once for a model and its inputs.
        """
        if measurement.latency is None:
            return measurement
        with self._lock:
            try:
                return self._judged(measurement)
            except StoreBusyError:
                raise
            except Exception as error:  # whatever a stranger's model brings about: what was measured is stored
                _log.warning("a measurement is stored without what it is judged by", exc_info=error)
                return measurement

    def _judged(self, measurement: Measurement) -> Measurement:
        target = self._target(measurement)
        emulation = target.host.emulation if target else None
        measurement = replace(measurement, grounds=Grounds(emulation=emulation))
        model = self._model(measurement)
        if model is None:
            return measurement
        path = self._home.library.main_path(model)
        # The most that a processor can do is unknown of one that is made by programs.
        most = None if target is None or emulation else self._ceiling(measurement, path, target)
        known = Grounds(ceiling=most, random_operators=self._random_operators(model, path), emulation=emulation)
        return self._with_noise(replace(measurement, grounds=known), path)

    def _target(self, measurement: Measurement) -> TargetSnapshot | None:
        """What the target said of itself before the benchmark began."""
        named = measurement.benchmark_id
        if named not in self._targets:
            self._targets = {named: {one.target: one for one in self._home.store.benchmark_snapshots(named)}}
        return self._targets[named].get(measurement.target)

    def _model(self, measurement: Measurement) -> ModelVersion | None:
        if measurement.model_digest not in self._models:
            self._models = {one.digest: one for one in self._home.store.models()}
        return self._models.get(measurement.model_digest)

    def _random_operators(self, model: ModelVersion, path: Path) -> tuple[str, ...] | None:
        if model.digest not in self._random:
            try:
                self._random[model.digest] = random_operators(path, model.format)
            except Exception:  # its ceiling can be known all the same
                self._random[model.digest] = None
        return self._random[model.digest]

    def _ceiling(self, measurement: Measurement, path: Path, target: TargetSnapshot) -> Ceiling | None:
        asked = measurement.configuration
        if not target.host.has_as_fastest(asked.cluster):
            return None
        if path.suffix != ".onnx" or _resources(target, measurement) != _PROCESSOR:
            return None
        flops, integers = self._work(measurement, path)
        flops *= 1 - (asked.imposed_sparsity or 0.0)
        precision = _precision(measurement, integers=integers)
        cores = max(asked.cores, measurement.cpu_cores_used or 0.0)
        return ceiling(flops, precision, cores, target.host.isa, self._roofs(measurement, precision, target.host))

    def _roofs(self, measurement: Measurement, precision: str, host: HostFacts) -> Any:
        known, asked = roof_precision(precision), measurement.configuration
        if known is None:
            return None
        if self._peaks is None:
            peaks = defaultdict(list)
            for one in self._home.store.peaks():
                peaks[one.target].append(one)
            self._peaks = peaks
        own = [one for one in self._peaks[measurement.target] if one.is_of(measurement.target, host.cpu_model)]
        return roofs_of(own, measurement.engine, asked.device, asked.cores, known)

    def _work(self, measurement: Measurement, path: Path) -> tuple[float, bool]:
        """The fewest operations of an inference, and whether some of its products may be of integers."""
        asked = measurement.configuration
        shapes = given_shapes(asked.inputs)
        key = (measurement.model_digest, asked.batch, tuple(shapes.items()))
        if key not in self._works:
            try:
                graph = read_source_graph(path, shapes, asked.batch)
                self._works[key] = (fewest_flops(graph, node_costs(graph)), _has_integers(graph))
            except Exception:  # a model that cannot be read has no ceiling
                self._works[key] = (0.0, False)
        return self._works[key]

    def _with_noise(self, measurement: Measurement, path: Path) -> Measurement:
        """The measurement with the noise of its outputs, where these are not as those of earlier ones.

        Kept of these is one an engine, a model and a precision, with its outputs.
        """
        if not measurement.captured_outputs or path.suffix != ".onnx":
            return measurement
        models = tuple(self._models.values())
        key, (group, label) = measurement.benchmark_id, works(measurement, models)
        if key not in self._earlier:
            stored = self._home.store.measurements(measurement.benchmark_id, with_blocks=False)
            self._earlier = {key: {works(one, models): one for one in stored if one.captured_outputs}}
        alike = [one for (of, _), one in self._earlier[key].items() if of == group]
        checks = check_outputs([*alike, measurement], models)
        self._earlier[key].setdefault((group, label), measurement)
        if not any(check.max_relative_error is not None and check.problem for check in checks.values()):
            return measurement
        found = self._found_noise(measurement, path)
        if isinstance(found, str):
            grounds = replace(measurement.grounds, noise_unknown=found)
        else:
            grounds = replace(measurement.grounds, noise=found)
        return replace(measurement, grounds=grounds)

    def _found_noise(self, measurement: Measurement, path: Path) -> tuple[OutputNoise, ...] | str:
        asked = measurement.configuration
        key = (measurement.model_digest, measurement.input_set_sha256)
        if key not in self._noise:
            try:
                self._noise[key] = rounding_noise(_order(path, asked, self._home.inputs))
            except ModelError as error:
                self._noise[key] = str(error)
        return self._noise[key]


def _order(path: Path, asked: Configuration, folder: Path) -> NoiseOrder:
    files = tuple({one.input: str(folder / one.sha256) for one in item} for item in asked.input_set.items)
    return NoiseOrder(str(path), asked.inputs, asked.input_set.seed, asked.input_set.values, files)


def _resources(target: TargetSnapshot, measurement: Measurement) -> Sequence[str] | None:
    wanted = (measurement.engine.name, measurement.engine.environment)
    engines = (one for one in target.available if (one.name, one.environment) == wanted)
    devices = {one.name: one for engine in engines for one in engine.devices}
    found = devices.get(measurement.configuration.device)
    return None if found is None else list(found.resources)


def _precision(measurement: Measurement, *, integers: bool) -> str:
    effective = measurement.effective.precision
    return str(effective.value) if effective is not None and not integers else "int8"


def _has_integers(graph: SourceGraph) -> bool:
    return any(node.op_type.startswith(_INTEGER_PRODUCTS) or node.op_type.endswith("Integer") for node in graph.nodes)
