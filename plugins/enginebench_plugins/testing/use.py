"""What an engine owes the bench that tells what it really used: the truth, the cores it was given, and all its work."""

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from enginebench_agent.machine.cores import physical_cores
from enginebench_plugins import spec
from enginebench_plugins.testing.contract_models import ContractModel
from enginebench_plugins.testing.in_flight import copied
from enginebench_plugins.testing.workbench import (
    IN_FLIGHT,
    REFUSED,
    TIMES_ALIKE,
    Workbench,
    batches,
    choices,
    load_engine,
    promise,
    skip_unless_async,
)

ABSURD = 64
F32 = spec.Precision.F32
PRECISION_WORDS = {"f32", "bf16", "f16", "int8", "mixed"}
CORE_USE = Path(__file__).parent / "core_use.py"
CORE_USE_S = 0.5
SILENCE_S = 180.0
"""So long may a process of a statement's own say nothing: between two lines it compiles once, or measures."""
CORE_USE_ALLOWANCE = 1.05
PAIRS = 9
ALIKE = 1.25
EQUAL_ITEMS = 0.6
"""Of the time of a batch whose items differ: three that are computed as one take a third."""
SPENT_HERE = 0.2
"""Of the wall clock, on a busy machine too; less is spent on another device, or in another process."""
TWO_STREAMS = 1.6
"""Two inferences at once want 2 cores, on a busy machine too; inferences behind one lock wanted 1.1 to 1.4."""
STREAM_LOOKS = 3
"""A machine that is busy may let one of two begin late: who ran them beside each other once does so."""


class UseContract(Workbench):
    """What an engine says that it used, and what it used."""

    # What it says it really used.

    @promise("What the engine really uses, asked of the engine; None for what it does not tell.")
    def test_effective_values_are_well_formed_before_and_after_inferring(
        self, engine: spec.Engine, tmp_path: Path
    ) -> None:
        model, batch = self.classifier(tmp_path), min(batches(engine))
        with self.compiled(engine, model.source(batch), self.settings(batch=batch)) as compiled:
            _assert_well_formed(compiled.effective())
            request = compiled.create_request()
            request.infer(model.inputs_for(batch, seed=1))
            _assert_well_formed(compiled.effective())
            request.close()

    @promise(REFUSED)
    def test_the_requested_precision_is_the_effective_one(self, engine: spec.Engine, tmp_path: Path) -> None:
        self.skip_without_f32(engine)
        batch = min(batches(engine))
        source, settings = self.classifier(tmp_path).source(batch), self.settings(batch=batch, precision=F32)
        with self.compiled(engine, source, settings) as compiled:
            precision = compiled.effective().precision
            assert precision is None or precision.value == "f32"

    @promise("Never fill in what was requested.")
    def test_a_precision_that_is_told_is_computed_in(self, engine: spec.Engine, tmp_path: Path) -> None:
        self.skip_without_f32(engine)
        others = {spec.Precision.BF16, spec.Precision.F16}.intersection(self.offered(engine))
        if not others:
            pytest.skip("it offers f32 only")
        model, batch = self.classifier(tmp_path), min(batches(engine))
        inputs = model.inputs_for(batch, seed=9)
        with self.requests(engine, model, batch, precision=F32) as (request,):
            whole = copied(request.infer(inputs))
        for precision in sorted(others):
            settings = self.settings(batch=batch, precision=precision)
            with self.compiled(engine, model.source(batch), settings) as compiled:
                told, request = compiled.effective().precision, compiled.create_request()
                outputs = copied(request.infer(inputs))
                request.close()
            is_f32 = all(np.array_equal(outputs[name], whole[name]) for name in model.outputs)
            assert not (is_f32 and told and told.value == precision), f"{precision} is told, and f32 was computed"

    @promise("Never fill in what was requested.")
    def test_a_provider_that_is_told_does_the_work(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        told: dict[str, dict[str, spec.OptionValue]] = {}
        for option, choice in choices(engine):
            provider = None if option.profile_only else self.provider(engine, model, {option.name: choice})
            if provider is not None:
                told.setdefault(option.name, {}).setdefault(provider, choice)
        models = [model]
        if any(len(one) > 1 for one in told.values()) and self.heavy(tmp_path).format in engine.info().reads:
            models.append(self.timed(engine, tmp_path))  # what one cannot run well it may give to another, and say so
        for name, by_provider in told.items():
            for (one, first), (other, second) in combinations(by_provider.items(), 2):
                are_one = all(self.are_one(engine, model, {name: first}, {name: second}) for model in models)
                assert not are_one, f"{one} and {other} are told, with equal outputs in equal time: one did the work"

    @promise("Never fill in what was requested.")
    def test_threads_are_not_an_echo_of_the_request(self, engine: spec.Engine, tmp_path: Path) -> None:
        usable, batch = len(os.sched_getaffinity(0)), min(batches(engine))
        assert usable < ABSURD, "ask for more threads than this machine has"
        source = self.classifier(tmp_path).source(batch)
        try:
            with self.compiled(engine, source, self.settings(batch=batch, cores=ABSURD)) as compiled:
                threads = compiled.effective().threads
        except spec.UnsupportedSettingsError:
            return  # a refusal is honest, too
        assert threads is None or threads.value <= usable, f"{threads.value} threads on {usable} processors is an echo"

    def skip_without_f32(self, engine: spec.Engine) -> None:
        """Leave out what compares with f32, where the device has none."""
        if F32 not in self.offered(engine):
            pytest.skip("its device has no f32")

    def provider(
        self, engine: spec.Engine, model: ContractModel, options: Mapping[str, spec.OptionValue]
    ) -> str | None:
        """What is told of it with these options, unless they are refused or it is assumed."""
        batch = min(batches(engine))
        settings = self.settings(batch=batch, options={**self.options, **options})
        try:
            with self.compiled(engine, model.source(batch), settings) as compiled:
                request = compiled.create_request()
                request.infer(model.inputs_for(batch, seed=9))
                told = compiled.effective().provider
                request.close()
        except spec.UnsupportedSettingsError:
            return None
        return told.value if told and told.source is not spec.Source.ASSUMED else None

    def are_one(self, engine: spec.Engine, model: ContractModel, *options: Mapping[str, spec.OptionValue]) -> bool:
        """Whether with both options outputs are equal to the last bit, and the time of inferences on one core, too."""
        offered = sorted(batches(engine))
        batch = offered[min(1, len(offered) - 1)]  # a single item some leave to other kernels
        settings = {"cores": 1, "batch": batch}
        (use,) = self.confined(model, settings, (spec.Load.SYNC,), pairs=PAIRS, choices=options)
        return bool(use.get("are_equal") and 1 / ALIKE < _ratio(use["pairs"]) < ALIKE)

    # The cores it uses.

    @promise("an engine keeps to them")
    @pytest.mark.parametrize("cores", [1, 2])
    def test_processor_time_stays_within_the_cores(self, tmp_path: Path, cores: int) -> None:
        for use in self.core_use(tmp_path, cores):
            assert "refused" not in use, use["refused"]
            used = use["cpu_ns"] / use["wall_ns"]
            assert used <= cores * CORE_USE_ALLOWANCE, f"{used:.2f} cores busy under the load {use['load']}"
            assert used > 0.01, "the processor time is not that of the work"
            # A busy machine gives nobody more than a share; what the threads may use shows there, too.
            assert len(use["processors"]) <= cores, f"threads may run on {use['processors']} under {use['load']}"
            # Each request may have a thread, all have a pool, and outputs one; a pool for each would be in its own way.
            working, most = use["threads"], use["requests"] + cores + 1
            assert working is None or working <= most, f"{working} threads work for {use['requests']} requests"

    @promise("Never fill in what was requested.")
    def test_streams_that_are_told_run_beside_each_other(self, engine: spec.Engine, tmp_path: Path) -> None:
        if not (engine.info().multiple_streams and spec.Load.ASYNC in engine.info().loads):
            pytest.skip("it runs one stream")
        # On one core an inference wants that core; a second one that waits for it wants it too, unless it has no turn.
        # It is to take long: one that gave up its turn wants a core all the same until it has seen that it has none.
        heavy = self.heavy(tmp_path)
        model = heavy if heavy.format in engine.info().reads else self.classifier(tmp_path)
        settings = {"batch": max(batches(engine)), "cores": 1, "streams": 2, "requests": 2}
        for _ in range(STREAM_LOOKS):
            (use,) = self.confined(model, settings, (spec.Load.ASYNC,), seconds=CORE_USE_S)
            if use.get("streams") != 2:
                pytest.skip(use.get("refused", "it does not say that it runs two streams on one core"))
            wanted = use["wanted_ns"] / use["wall_ns"]
            if wanted >= TWO_STREAMS:
                return
        raise AssertionError(f"two streams are told, and inferences wanted {wanted:.2f} cores in all: in turn")

    # The work it does.

    @promise("every item of a batch is computed, equal ones too")
    def test_equal_items_of_a_batch_take_as_long_as_others(self, engine: spec.Engine, tmp_path: Path) -> None:
        batch = min((one for one in batches(engine) if one > 1), default=0)
        if not batch:
            pytest.skip("it runs one item at a time")
        self.assert_alike(self.timed(engine, tmp_path), f"{batch} equal items", spec.Load.SYNC, batch=batch)

    @promise("nothing is kept from one inference for another")
    def test_equal_inputs_in_flight_take_as_long_as_others(self, engine: spec.Engine, tmp_path: Path) -> None:
        skip_unless_async(engine)
        model, settings = self.timed(engine, tmp_path), {"batch": min(batches(engine)), "requests": IN_FLIGHT}
        self.assert_alike(model, f"equal inputs, {IN_FLIGHT} in flight,", spec.Load.ASYNC, **settings)

    def assert_alike(self, model: ContractModel, what: str, load: spec.Load, **settings: int) -> None:
        """What is equal takes no less than as many others, by the median of pairs on one core.

        There, threads of one engine wait for each other neither actively nor in vain.
        """
        (use,) = self.confined(model, {"cores": 1, **settings}, (load,), pairs=TIMES_ALIKE + PAIRS)
        assert "refused" not in use, use["refused"]
        ratio = _ratio(use["pairs"][TIMES_ALIKE:])
        assert ratio >= EQUAL_ITEMS, f"{what} take {ratio:.2f} times what as many others take"

    def core_use(self, folder: Path, cores: int) -> list[dict[str, Any]]:
        """What the engine used under each load, in a process confined to these cores (see core_use.py)."""
        if cores > len(physical_cores(os.sched_getaffinity(0))):
            pytest.skip(f"this machine has fewer than {cores} cores")
        engine = load_engine(self.plugin)
        if cores > 1 and engine.info().single_threaded and spec.Load.ASYNC not in engine.info().loads:
            pytest.skip("it runs one inference at a time, on one thread")
        settings = {"batch": max(batches(engine)), "cores": cores}
        return self.confined(self.classifier(folder), settings, tuple(spec.Load), seconds=CORE_USE_S)

    def confined(
        self, model: ContractModel, settings: Mapping[str, int], loads: Sequence[spec.Load], **measure: Any
    ) -> list[dict[str, Any]]:
        """What core_use.py tells of this plugin, with the device, the precision and the options of this class."""
        own = {"device": self.device, "precision": self.precision, "options": dict(self.options)}
        case = {
            "path": str(model.path),
            "format": model.format,
            "inputs": [(each.name, each.dtype, each.shape) for each in model.at(settings["batch"])],
            "settings": {**own, **settings},
            "loads": loads,
            **measure,
        }
        plugin = self.plugin if isinstance(self.plugin, str) else self.plugin.__file__
        command = [sys.executable, "-P", str(CORE_USE), plugin, json.dumps(case)]
        variables = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        uses = [json.loads(line) for line in _answers(command, variables, self.goes_on).splitlines() if line]
        assert uses, "its process ended without an error, and before anything was measured"
        return uses


def _answers(command: Sequence[str], variables: Mapping[str, str], goes_on: Callable[[], None]) -> str:
    """What a process says until it ends without an error; who waits is told as it begins and whenever it says more."""
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        assert process.stdout is not None
        said = b""
        try:
            goes_on()
            while more := _next(process.stdout):
                said += more
                goes_on()
            code = process.wait()
        finally:
            process.kill()  # unless it has ended
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
    assert code == 0, (lines or [f"exit code {code}"])[-1]
    return said.decode()


def _next(answers: IO[bytes]) -> bytes:
    """What a process says next; nothing at its end."""
    if not select.select([answers], [], [], SILENCE_S)[0]:
        pytest.fail(f"its process was at one step for more than {SILENCE_S:g} s", pytrace=False)
    return os.read(answers.fileno(), select.PIPE_BUF)


def _ratio(pairs: Sequence[Sequence[Mapping[str, float]]]) -> float:
    """How many times as long the first of a pair took as the second, by the median.

    By processor time, where the second spends it here: others on the machine change little of that.
    """
    is_spent_here = all(one["cpu_ns"] > SPENT_HERE * one["wall_ns"] for _, one in pairs)
    time_ns = "cpu_ns" if is_spent_here else "wall_ns"
    return float(np.median([one[time_ns] / other[time_ns] for one, other in pairs]))


def _assert_well_formed(effective: spec.Effective) -> None:
    for count in (effective.threads, effective.streams):
        if count is not None:
            assert isinstance(count.value, int)
            assert count.value >= 1
    for readback in (effective.precision, effective.provider, effective.isa):
        if readback is not None:
            assert isinstance(readback.value, str)
            assert readback.value
    readbacks = {name: value for name, value in vars(effective).items() if name != "prepared"}
    for readback in readbacks.values():
        assert readback is None or readback.source in set(spec.Source)
    assert isinstance(effective.prepared, tuple)
    assert all(isinstance(words, str) and words.strip() for words in effective.prepared)
    assert effective.precision is None or effective.precision.value in PRECISION_WORDS
