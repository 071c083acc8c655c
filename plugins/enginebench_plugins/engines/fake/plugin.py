"""The plugin of the fake engine: exact outputs, computed once a set of inputs, after a time of one's choice."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any

from enginebench_plugins import spec
from enginebench_plugins.engines.fake.distributions import MOST_JITTER, Latency, LatencyDistribution, latencies_ns
from enginebench_plugins.engines.fake.mishaps import (
    Fault,
    FaultPhase,
    Wrong,
    inflict,
    spoil_inputs,
    spoil_outputs,
    strikes,
)
from enginebench_plugins.toolkit import onnx_model
from enginebench_plugins.toolkit.engine import Inferences, refuse_unsupported
from enginebench_proto.agreed.labels import node_labels
from enginebench_proto.agreed.words import IMPOSED_SPARSITY, OPTIMIZATION_LEVEL

if TYPE_CHECKING:
    import onnx

VERSION = "1.0"

DEFAULT_LATENCY_US = 1000
MOST_PROCESS_SPREAD = 0.9

SLEEP_OVERRUN_NS = 150_000
"""How much longer than asked a sleep may last: 50 µs of the kernel's timer slack, and waking up."""

PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
"""Operators that take less time for zeros in their weights, where zeros are to count."""

_MOST_MAPPINGS = 4096
"""Input mappings known by their identity; more than any input set holds, and a bound for callers that make new ones."""


class Wait(StrEnum):
    """What an inference does meanwhile, as values of the option "wait"."""

    SPIN = "spin"
    SLEEP = "sleep"


def _values(members: type[StrEnum]) -> tuple[str, ...]:
    return tuple(member.value for member in members)


OPTIONS = (
    spec.OptionSpec("latency_us", int, "how long an inference typically takes, in microseconds"),
    spec.OptionSpec("distribution", str, "how latencies are distributed", choices=_values(LatencyDistribution)),
    spec.OptionSpec("jitter", float, f"even spread around the latency, as a share of it, up to {MOST_JITTER}"),
    spec.OptionSpec("drift_iterations", int, "distribution drift: inferences until it is over"),
    spec.OptionSpec("stall_every", int, "distribution stalls: every which inference takes 20 times as long"),
    spec.OptionSpec("process_spread", float, "how much processes differ: an even spread of their latencies"),
    spec.OptionSpec("seed", int, "what latencies are drawn from"),
    spec.OptionSpec("wait", str, "what an inference does meanwhile", choices=_values(Wait)),
    spec.OptionSpec("wrong", str, "what is wrong with the outputs", choices=_values(Wrong)),
    spec.OptionSpec("fault", str, "what goes wrong", choices=_values(Fault)),
    spec.OptionSpec(
        OPTIMIZATION_LEVEL, int, "profiles only: where given, layers take no time for the zeros in their weights"
    ),
    spec.OptionSpec(IMPOSED_SPARSITY, float, "profiles only: the share of zeros to take all weights to have"),
    spec.OptionSpec("fault_phase", str, "when it goes wrong", choices=_values(FaultPhase)),
)


class FakeEngine(spec.Engine):
    """Exact outputs after a time of one's choice, on two devices that share nothing."""

    hidden = True

    def info(self) -> spec.EngineInfo:
        """Raises `EngineUnavailableError` without NumPy or ONNX, which compute the outputs."""
        if missing := [package for package in ("numpy", "onnx") if find_spec(package) is None]:
            packages = " ".join(missing)
            raise spec.EngineUnavailableError(
                f"the fake engine computes its outputs with {packages}: pip install {packages}", installed=False
            )
        return spec.EngineInfo(
            version=VERSION,
            formats=frozenset({spec.ModelFormat.ONNX}),
            profiling=True,
            options=OPTIONS,
        )

    def devices(self) -> Sequence[spec.Device]:
        """Two, so that two runs can go on at once."""
        return [
            spec.Device(f"FAKE:{number}", f"fake device {number}", resources=(f"fake:{number}",)) for number in (0, 1)
        ]

    def read(self, source: spec.ModelSource) -> Any:
        """The ONNX model with its weights."""
        return onnx_model.read_onnx(source.path)

    def compile(self, model: Any, source: spec.ModelSource, settings: spec.Settings) -> spec.CompiledModel:
        """Raises what option `fault` asks for, and `UnsupportedSettingsError` for an option out of its range."""
        refuse_unsupported("fake", self.info(), self.devices(), settings)
        latency = _latency(settings)
        fault, phase = _fault(settings)
        if strikes(fault, phase, FaultPhase.COMPILE):
            inflict(fault)
        evaluation = MemoizedEvaluation(model, onnx_model.run_inputs(model, source), _wrong(settings))
        return CompiledFake(model, evaluation, settings, latency)


def _latency(settings: spec.Settings) -> Latency:
    """How long inferences are to take in this process. Raises `UnsupportedSettingsError` for a value out of range.

    With `process_spread` the typical latency differs from process to process, whatever the seed.
    """
    _check_range(settings, "latency_us", 0, 3_600_000_000)
    _check_range(settings, "jitter", 0.0, MOST_JITTER)
    _check_range(settings, "drift_iterations", 1, 10_000_000)
    _check_range(settings, "stall_every", 2, 10_000_000)
    _check_range(settings, "process_spread", 0.0, MOST_PROCESS_SPREAD)
    spread = float(settings.options.get("process_spread", 0.0))
    typical_ns = int(settings.options.get("latency_us", DEFAULT_LATENCY_US)) * 1000
    return Latency(
        typical_ns=round(typical_ns * (1.0 + random.SystemRandom().uniform(-spread, spread))),
        distribution=LatencyDistribution(str(settings.options.get("distribution", LatencyDistribution.CONSTANT))),
        jitter=float(settings.options.get("jitter", 0.0)),
        stall_every=int(settings.options.get("stall_every", Latency.stall_every)),
        drift_iterations=int(settings.options.get("drift_iterations", Latency.drift_iterations)),
    )


def _check_range(settings: spec.Settings, name: str, lowest: float, highest: float) -> None:
    value = settings.options.get(name, lowest)
    if not lowest <= float(value) <= highest:
        raise spec.UnsupportedSettingsError(
            f"option {name} of the fake engine lies between {lowest} and {highest}, not at {value}"
        )


def _fault(settings: spec.Settings) -> tuple[Fault, FaultPhase]:
    """What goes wrong, and when unless the fault's name says so."""
    chosen = str(settings.options.get("fault", Fault.NONE))
    phase = str(settings.options.get("fault_phase", FaultPhase.INFERENCE))
    return Fault(chosen), FaultPhase(phase)


def _wrong(settings: spec.Settings) -> Wrong:
    """What is wrong with the outputs."""
    return Wrong(str(settings.options.get("wrong", Wrong.NONE)))


class MemoizedEvaluation:
    """The ONNX project's reference evaluator with a memory. Safe to use from several threads."""

    def __init__(self, model: Any, inputs: tuple[spec.TensorSpec, ...], wrong: Wrong = Wrong.NONE) -> None:
        from onnx.reference import ReferenceEvaluator

        self.inputs = inputs
        self._wrong = wrong
        self._first_seen: spec.Tensors | None = None
        # The quick way: the worker passes the same mappings again and again. Kept with their outputs, see below.
        self._mappings: dict[int, tuple[spec.Tensors, spec.Outputs]] = {}
        self._evaluator = ReferenceEvaluator(model)
        self._names = onnx_model.output_names(model)
        # The arrays are kept beside the outputs: an identity is only unique as long as its array lives.
        self._known: dict[tuple[int, ...], tuple[spec.Tensors, spec.Outputs]] = {}
        self._lock = threading.Lock()

    def outputs(self, inputs: spec.Tensors) -> spec.Outputs:
        """The outputs by name for this very mapping, which must not be changed, or for these very arrays.

        Raises `ValueError` for a missing input or another shape.
        """
        if (known := self._mappings.get(id(inputs))) is not None:
            return known[1]
        with self._lock:
            outputs = self._by_arrays(inputs)
            if len(self._mappings) < _MOST_MAPPINGS:
                self._mappings[id(inputs)] = (inputs, outputs)
        return outputs

    def _by_arrays(self, inputs: spec.Tensors) -> spec.Outputs:
        key = tuple(id(inputs.get(tensor.name)) for tensor in self.inputs)
        if key not in self._known:
            self._known[key] = (dict(inputs), self._evaluate(inputs))
        return self._known[key][1]

    def _evaluate(self, inputs: spec.Tensors) -> spec.Outputs:
        for tensor in self.inputs:
            array = inputs.get(tensor.name)
            if array is None or array.shape != tensor.shape or array.dtype != tensor.dtype:
                raise ValueError(f"input {tensor.name} is not of the compiled shape {tensor.shape} and {tensor.dtype}")
        self._first_seen = self._first_seen or dict(inputs)
        used = spoil_inputs(self._wrong, inputs, self._first_seen)
        outputs = self._evaluator.run(list(self._names), dict(used))
        return spoil_outputs(self._wrong, dict(zip(self._names, outputs, strict=True)))


class CompiledFake(spec.CompiledModel):
    """An ONNX model, and how long each of its inferences is to take."""

    def __init__(self, model: Any, evaluation: MemoizedEvaluation, settings: spec.Settings, latency: Latency) -> None:
        self._model = model
        self._evaluation = evaluation
        self._settings = settings
        self._latency = latency
        self._numbers = count()

    @property
    def inputs(self) -> Sequence[spec.TensorSpec]:
        """As in the model."""
        return self._evaluation.inputs

    def effective(self) -> spec.Effective:
        """NumPy computes in the model's own types; nothing else is to be told."""
        return spec.Effective(
            precision=spec.Readback("f32", spec.Source.ASSUMED),
            provider=spec.Readback("fake", spec.Source.ENGINE_API),
        )

    def create_request(self) -> spec.InferRequest:
        """Requests share nothing but the memory of outputs; each draws latencies of its own."""
        fault, phase = _fault(self._settings)
        strike = strikes(fault, phase, FaultPhase.INFERENCE)
        if self._latency.typical_ns == 0 and not strike:
            return InstantRequest(self._evaluation)
        wait_until = _sleep_until if self._settings.options.get("wait") == Wait.SLEEP else _spin_until
        seed = f"{_seed(self._settings)}/{next(self._numbers)}"
        latencies = latencies_ns(self._latency, seed)
        return FakeRequest(self._evaluation, latencies, wait_until, fault if strike else Fault.NONE)

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        """A layer a node; the typical latency is shared out evenly, the remainder to the first.

        Where zeros are to count, products take less, and the latency is what all layers take together.
        """
        request = self.create_request()
        latency_ns = Inferences(inputs, iterations, between).run(request)
        labels = node_labels(self._model.graph.node)
        share_ns, rest_ns = divmod(self._latency.typical_ns, len(labels))
        times_ns = [share_ns + (rest_ns if order == 0 else 0) for order in range(len(labels))]
        if _counts_zeros(self._settings):
            times_ns = sparse_times_ns(self._model, times_ns, _imposed_sparsity(self._settings))
            latency_ns = (sum(times_ns),) * iterations
        layers = (
            spec.LayerProfile(
                name=f"{order}:{label}",
                type=node.op_type,
                order=order,
                time_ns=(times_ns[order],) * iterations,
                precision="f32",
                source_nodes=(label,),
                inputs=tuple(filter(None, node.input)),
                outputs=tuple(filter(None, node.output)),
            )
            for order, (label, node) in enumerate(zip(labels, self._model.graph.node, strict=True))
        )
        return spec.ModelProfile(tuple(layers), latency_ns)


def _seed(settings: spec.Settings) -> int:
    """What latencies are drawn from."""
    return int(settings.options.get("seed", 0))


def _counts_zeros(settings: spec.Settings) -> bool:
    """Whether layers take less time for weights of zero."""
    return bool({OPTIMIZATION_LEVEL, IMPOSED_SPARSITY} & settings.options.keys())


def _imposed_sparsity(settings: spec.Settings) -> float | None:
    """The share of zeros that all weights are taken to have; None for the one they do have."""
    _check_range(settings, IMPOSED_SPARSITY, 0.0, 1.0)
    chosen = settings.options.get(IMPOSED_SPARSITY)
    return None if chosen is None else float(chosen)


def sparse_times_ns(model: "onnx.ModelProto", times_ns: Sequence[int], imposed: float | None) -> list[int]:
    """The times of the nodes, less the share of zeros in their weights: the one imposed, else their own."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    return [
        round(time * (1 - _zeros(node, weights, imposed)))
        for node, time in zip(model.graph.node, times_ns, strict=True)
    ]


def _zeros(node: "onnx.NodeProto", weights: dict[str, Any], imposed: float | None) -> float:
    import numpy as np
    from onnx import numpy_helper

    own = [numpy_helper.to_array(weights[name]) for name in node.input if name in weights]
    matrices = [array for array in own if array.ndim >= 2]
    if node.op_type not in PRODUCTS or not matrices:
        return 0.0
    return float(np.mean(matrices[0] == 0)) if imposed is None else imposed


class FakeRequest(spec.InferRequest):
    """Returns known outputs when the time has come."""

    def __init__(
        self,
        evaluation: MemoizedEvaluation,
        latencies: Iterator[int],
        wait_until: Callable[[int], None],
        fault: Fault,
    ) -> None:
        self._evaluation = evaluation
        self._latencies = latencies
        self._wait_until = wait_until
        self._fault = fault

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        """Takes the next latency drawn, or longer for arrays it sees for the first time."""
        due_ns = time.perf_counter_ns() + next(self._latencies)
        if self._fault is not Fault.NONE:
            inflict(self._fault)
        outputs = self._evaluation.outputs(inputs)
        self._wait_until(due_ns)
        return outputs


class InstantRequest(spec.InferRequest):
    """Returns known outputs at once: what is left is the harness."""

    def __init__(self, evaluation: MemoizedEvaluation) -> None:
        self._outputs = evaluation.outputs

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        """Takes a fraction of a microsecond, or longer for arrays it sees for the first time."""
        return self._outputs(inputs)


def _spin_until(due_ns: int) -> None:
    while time.perf_counter_ns() < due_ns:
        pass


def _sleep_until(due_ns: int) -> None:
    time.sleep(max(0, due_ns - time.perf_counter_ns() - SLEEP_OVERRUN_NS) / 1e9)
    while time.perf_counter_ns() < due_ns:
        time.sleep(0)  # lets other requests' threads have the interpreter, as spinning does not


@spec.hookimpl
def enginebench_engine() -> spec.Engine:
    """The hook."""
    return FakeEngine()
