"""What an engine owes the bench that times its layers."""

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from enginebench_plugins import spec
from enginebench_plugins.testing import contract_models
from enginebench_plugins.testing.contract_models import Arrays
from enginebench_plugins.testing.workbench import Workbench, batches, promise

PROFILED = 10
LAYERS_AT_ONCE = 1.5
"""Σ layers ÷ the latency of the same inferences: an engine may run some layers beside each other."""


class ProfileContract(Workbench):
    """Of an engine without profiles these statements are skipped."""

    # Layers.

    @promise("Every layer has `iterations` times, or a state that says why not; the profile has as many latencies")
    def test_a_profile_has_distinct_layers_with_one_time_an_iteration(
        self, engine: spec.Engine, tmp_path: Path
    ) -> None:
        profile, _ = self.profile(engine, tmp_path, iterations=5)
        layers = profile.layers
        assert layers, "the profile has no layers"
        assert len(profile.latency_ns) in (0, 5), f"{len(profile.latency_ns)} latencies of 5 inferences"
        for what, found in (("name", [one.name for one in layers]), ("order", [one.order for one in layers])):
            assert not (twice := _twice(found)), f"the {what} {twice[0]!r} is that of several layers"
        for layer in layers:
            executed = layer.state is spec.LayerState.EXECUTED
            times = f"{layer.name} is {layer.state} and has {len(layer.time_ns)} times of 5 inferences"
            assert len(layer.time_ns) == (5 if executed else 0), times
            no_time = f"{layer.name} has times that are no whole nanoseconds: {layer.time_ns}"
            assert all(isinstance(time_ns, int) and time_ns >= 0 for time_ns in layer.time_ns), no_time
            assert layer.calls >= 1, f"{layer.name} has {layer.calls} calls"
            assert layer.type, f"{layer.name} has no type"

    @promise("`source_nodes` are the nodes or tensors of the model as given that the engine names as its origin.")
    def test_layers_tell_their_origin_and_tensors_by_name(self, engine: spec.Engine, tmp_path: Path) -> None:
        profile, _ = self.profile(engine, tmp_path, iterations=2)
        for layer in profile.layers:
            for names in (layer.source_nodes, layer.inputs, layer.outputs):
                assert all(isinstance(name, str) and name for name in names), layer
                assert isinstance(names, tuple)
            assert all(isinstance(each, str) for pair in layer.parameters.items() for each in pair), layer
            assert len(set(layer.source_nodes)) == len(layer.source_nodes)
        model = self.classifier(tmp_path)
        if model.format is spec.ModelFormat.ONNX:
            known = contract_models.names(model)
            strange = {source for layer in profile.layers for source in layer.source_nodes} - known
            assert not strange, f"the model has no node or tensor {', '.join(sorted(strange))}"

    @promise("Call `between` after each of the inferences, outside its time")
    def test_others_get_a_turn_after_each_profiled_inference(self, engine: spec.Engine, tmp_path: Path) -> None:
        _skip_means(engine)
        turns: list[float] = []
        profile, _ = self.profile(engine, tmp_path, iterations=3, between=lambda: turns.append(time.perf_counter()))
        assert len(turns) == 3, f"{len(turns)} turns behind 3 inferences"
        # Every turn comes after an inference, and none between two layers of one.
        gaps_ns = [round((later - earlier) * 1e9) for earlier, later in pairwise(turns)]
        for gap_ns, latency_ns in zip(gaps_ns, profile.latency_ns[1:], strict=False):
            assert gap_ns >= latency_ns, (
                f"an inference of {latency_ns} ns is told, and {gap_ns} ns passed between turns"
            )

    @promise("Run `iterations` inferences, rotating through `inputs`, with the engine's layer counters on.")
    def test_a_profile_runs_the_inferences_asked_for_and_no_others(self, engine: spec.Engine, tmp_path: Path) -> None:
        _skip_means(engine)
        model, batch = self.classifier(tmp_path), max(batches(engine))
        inputs = [Watched(model.inputs_for(batch, seed)) for seed in (1, 2)]
        reads: list[int] = []

        def between() -> None:
            reads.append(sum(each.taken() for each in inputs))

        with self.compiled(engine, model.source(batch), self.settings(batch=batch, profiling=True)) as compiled:
            request = compiled.create_request()
            request.infer(inputs[0])
            usual = inputs[0].taken()
            compiled.profile(inputs, PROFILED, between)
            request.close()
        reads.append(sum(each.taken() for each in inputs))
        # Before the first, an engine may bring inputs into a form of its own, or warm up with fewer than are profiled.
        usual = max(usual, 1)
        most = [usual * PROFILED, *[usual] * (PROFILED - 1), 0]
        assert all(read <= allowed for read, allowed in zip(reads, most, strict=True)), (
            f"inputs were read {reads} times before, between and after {PROFILED} inferences: there were others"
        )

    @promise("`latency_ns` is the wall clock of each of these very inferences, counters included")
    def test_latencies_are_those_of_the_profiled_inferences(self, engine: spec.Engine, tmp_path: Path) -> None:
        _skip_means(engine)
        profile, _ = self.profile(engine, tmp_path, iterations=PROFILED)
        if not profile.latency_ns:
            pytest.skip("it does not show single inferences")
        executed = [layer.time_ns for layer in profile.layers if layer.state is spec.LayerState.EXECUTED]
        sums_ns = list(map(sum, zip(*executed, strict=True)))
        # Layers may run beside each other; an inference then still takes as long as its longest layer.
        longest_ns = list(map(max, zip(*executed, strict=True)))
        for latency_ns, longest in zip(profile.latency_ns, longest_ns, strict=True):
            assert longest <= latency_ns, f"a layer of {longest} ns in an inference of {latency_ns} ns"
        if len(executed) > 1:
            sum_ns, whole_ns = statistics.median(sums_ns), statistics.median(profile.latency_ns)
            told = f"layers add up to {sum_ns} ns in an inference of {whole_ns} ns"
            assert sum_ns <= LAYERS_AT_ONCE * whole_ns, told

    @promise("`time_ns` has one entry an inference, summed over the layer's calls within it")
    def test_layer_times_add_up_to_about_the_latency(self, engine: spec.Engine, tmp_path: Path) -> None:
        profile, latency_ns = self.profile(engine, tmp_path, iterations=7)
        executed = [layer.time_ns for layer in profile.layers if layer.state is spec.LayerState.EXECUTED]
        sum_ns = statistics.median(map(sum, zip(*executed, strict=True)))
        low, high = self.layer_sum_bounds
        told = f"layers add up to {sum_ns} ns, and an inference without counters takes {latency_ns} ns"
        assert low * latency_ns < sum_ns < high * latency_ns, f"{told}: one of them is of something else"
        if profile.latency_ns:
            profiled_ns = statistics.median(profile.latency_ns)
            told = f"an inference takes {profiled_ns} ns with counters and {latency_ns} ns without"
            assert low * latency_ns < profiled_ns < 10 * high * latency_ns, f"{told}: one of them is of something else"

    @promise("profile() brings means over its inferences, which every layer then has for each of them")
    def test_means_are_the_same_for_every_inference(self, engine: spec.Engine, tmp_path: Path) -> None:
        if not engine.info().mean_profiles:
            pytest.skip("its profiles show single inferences")
        profile, _ = self.profile(engine, tmp_path, iterations=3)
        unequal = [layer.name for layer in profile.layers if len(set(layer.time_ns)) > 1]
        assert not unequal, f"{unequal[0]} has several times, and profiles are means"

    def profile(
        self, engine: spec.Engine, folder: Path, iterations: int, between: spec.Between = spec.nothing
    ) -> tuple[spec.ModelProfile, int]:
        """The profile of a warm model, and the wall clock of one inference of it in nanoseconds.

        Skips the statement where the engine has no profiles.
        """
        if not engine.info().profiling:
            pytest.skip("it has no profiles")
        model, batch = self.classifier(folder), max(batches(engine))
        inputs = [model.inputs_for(batch, seed) for seed in (1, 2)]
        with self.compiled(engine, model.source(batch), self.settings(batch=batch, profiling=True)) as compiled:
            request = compiled.create_request()
            latencies_ns = [_infer_ns(request, inputs[0]) for _ in range(5)]
            profile = compiled.profile(inputs, iterations, between)
            profile = replace(profile, layers=tuple(profile.layers))  # of a generator, the first look would take all
            request.close()
        return profile, int(statistics.median(latencies_ns))


class Watched(Mapping[str, Any]):
    """Inputs that count how often they were read."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays, self._reads = arrays, 0

    def __getitem__(self, name: str) -> Any:
        self._reads += 1
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def taken(self) -> int:
        """How often they were read since this was asked last."""
        reads, self._reads = self._reads, 0
        return reads


def _twice(found: Sequence[Any]) -> list[Any]:
    return [one for one, count in Counter(found).items() if count > 1]


def _skip_means(engine: spec.Engine) -> None:
    if not engine.info().profiling:
        pytest.skip("it has no profiles")
    if engine.info().mean_profiles:
        pytest.skip("its profiles are means")


def _infer_ns(request: spec.InferRequest, inputs: Arrays) -> int:
    begin_ns = time.perf_counter_ns()
    request.infer(inputs)
    return time.perf_counter_ns() - begin_ns
