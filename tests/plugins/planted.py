"""A sound engine in plain NumPy, and engines that each break the contract in one way."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from time import perf_counter_ns
from typing import Any, ClassVar

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from enginebench_plugins import spec
from enginebench_plugins.toolkit.engine import refuse_unsupported
from enginebench_plugins.toolkit.onnx_model import read_onnx, run_inputs

Arrays = dict[str, Any]


class SoundEngine(spec.Engine):
    """Evaluates ONNX node by node with the ONNX project's own evaluator; everything the contract asks for is right."""

    def info(self) -> spec.EngineInfo:
        option = spec.OptionSpec("verbose", bool, "writes much")
        return spec.EngineInfo("1.0", frozenset({spec.ModelFormat.ONNX}), profiling=True, options=(option,))

    def devices(self) -> Sequence[spec.Device]:
        return [spec.Device("CPU", "any processor")]

    def read(self, source: spec.ModelSource) -> onnx.ModelProto:
        return read_onnx(source.path)

    def compile(self, model: onnx.ModelProto, source: spec.ModelSource, settings: spec.Settings) -> "SoundModel":
        refuse_unsupported("sound", self.info(), self.devices(), settings)
        return SoundModel(ReferenceEvaluator(model), run_inputs(model, source), settings)


class SoundModel(spec.CompiledModel):
    def __init__(
        self, evaluator: ReferenceEvaluator, inputs: Sequence[spec.TensorSpec], settings: spec.Settings
    ) -> None:
        self.evaluator, self._inputs, self.settings = evaluator, inputs, settings

    @property
    def inputs(self) -> Sequence[spec.TensorSpec]:
        return self._inputs

    def effective(self) -> spec.Effective:
        return spec.Effective(precision=spec.Readback("f32", spec.Source.ASSUMED))

    def create_request(self) -> "SoundRequest":
        return SoundRequest(self.evaluator)

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        request = self.create_request()
        times_ns = []
        for iteration in range(iterations):
            begin_ns = perf_counter_ns()
            request.infer(inputs[iteration % len(inputs)])
            times_ns.append(perf_counter_ns() - begin_ns)
            between()
        layer = spec.LayerProfile("everything", "Model", order=0, time_ns=tuple(times_ns))
        return spec.ModelProfile((layer,), tuple(times_ns))


class SoundRequest(spec.InferRequest):
    def __init__(self, evaluator: ReferenceEvaluator) -> None:
        self.evaluator = evaluator

    def infer(self, inputs: spec.Tensors) -> Arrays:
        names = self.evaluator.output_names
        return dict(zip(names, self.evaluator.run(None, dict(inputs)), strict=True))


@spec.hookimpl
def enginebench_engine() -> spec.Engine:
    return SoundEngine()


@dataclass
class RequestBreaker(SoundEngine):
    """The sound engine with requests of another class."""

    request: Callable[[ReferenceEvaluator], spec.InferRequest]

    def compile(self, model: Any, source: spec.ModelSource, settings: spec.Settings) -> SoundModel:
        compiled = super().compile(model, source, settings)
        compiled.create_request = lambda: self.request(compiled.evaluator)  # type: ignore[method-assign,assignment,return-value]
        return compiled


@dataclass
class AsPlugin:
    """What a plugin's module is to pluggy."""

    engine: spec.Engine

    @spec.hookimpl
    def enginebench_engine(self) -> spec.Engine:
        return self.engine


@dataclass
class ModelBreaker(SoundEngine):
    """The sound engine with compiled models of another class."""

    model: type[SoundModel]

    def compile(self, model: Any, source: spec.ModelSource, settings: spec.Settings) -> SoundModel:
        compiled = super().compile(model, source, settings)
        return self.model(compiled.evaluator, compiled.inputs, settings)


class Garbage(SoundRequest):
    """The right shapes, filled with noise."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        random = np.random.default_rng()
        return {
            name: random.normal(size=array.shape).astype(array.dtype) for name, array in super().infer(inputs).items()
        }


class InputIgnored(SoundRequest):
    """The first inference is right; what follows repeats it."""

    answer: Arrays | None = None

    def infer(self, inputs: spec.Tensors) -> Arrays:
        self.answer = self.answer or super().infer(inputs)
        return self.answer


class OutputsRemembered(SoundRequest):
    """Computes each input once, and hands out what came of it whenever the same content comes again."""

    def __init__(self, evaluator: ReferenceEvaluator) -> None:
        super().__init__(evaluator)
        self.memory: dict[bytes, Arrays] = {}

    def infer(self, inputs: spec.Tensors) -> Arrays:
        key = b"".join(blake2b(array).digest() for array in inputs.values())
        if key not in self.memory:
            self.memory[key] = super().infer(inputs)
        return self.memory[key]


class OutputsRememberedByIdentity(SoundRequest):
    """Computes each array once, and hands out what came of it whenever the same memory comes again."""

    def __init__(self, evaluator: ReferenceEvaluator) -> None:
        super().__init__(evaluator)
        self.memory: dict[tuple[int, ...], tuple[spec.Tensors, Arrays]] = {}

    def infer(self, inputs: spec.Tensors) -> Arrays:
        key = tuple(map(id, inputs.values()))
        if key not in self.memory:
            self.memory[key] = (dict(inputs), super().infer(inputs))
        return self.memory[key][1]


class ZerosLater(SoundRequest):
    """Computes the first inferences, those that are looked at, and then hands out zeros."""

    RIGHT = 40

    def __init__(self, evaluator: ReferenceEvaluator) -> None:
        super().__init__(evaluator)
        self.count = 0
        self.zeros: Arrays = {}

    def infer(self, inputs: spec.Tensors) -> Arrays:
        self.count += 1
        if self.count < self.RIGHT:
            outputs = super().infer(inputs)
            self.zeros = {name: np.zeros_like(array) for name, array in outputs.items()}
            return outputs
        return self.zeros


class OutputsRenamed(SoundRequest):
    """Calls its outputs by numbers, as importers do."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        return {f"output_{place}": array for place, array in enumerate(super().infer(inputs).values())}


class FusedRenamed(SoundRequest):
    """Calls what an activation was fused into by the name of the tensor before it."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        before = {node.output[0]: node.input[0] for node in self.evaluator.proto_.graph.node if node.op_type == "Relu"}
        return {before.get(name, name): array for name, array in super().infer(inputs).items()}


class BeginningsRemembered(SoundRequest):
    """Computes anew only what begins otherwise than the time before."""

    key: bytes = b""
    answer: ClassVar[Arrays] = {}

    def infer(self, inputs: spec.Tensors) -> Arrays:
        key = b"".join(array.tobytes()[:64] for array in inputs.values())
        if key != self.key:
            self.key, self.answer = key, super().infer(inputs)  # type: ignore[misc]  # of this request
        return self.answer


class BatchDropped(SoundRequest):
    """Only the first item of a batch, without its axis."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        return {name: array[0] for name, array in super().infer(inputs).items()}


class FirstItemRepeated(SoundRequest):
    """The first item of a batch stands for all."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        return {name: np.repeat(array[:1], len(array), axis=0) for name, array in super().infer(inputs).items()}


class EqualItemsOnce(SoundRequest):
    """Computes items of a batch that are equal once; the outputs are right."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        items = [b"".join(item.tobytes() for item in one) for one in zip(*inputs.values(), strict=True)]
        kept = [items.index(one) for one in dict.fromkeys(items)]
        outputs = super().infer({name: array[kept] for name, array in inputs.items()})
        places = [kept.index(items.index(one)) for one in items]
        return {name: array[places] for name, array in outputs.items()}


class SharedInFlight(SoundRequest):
    """Gives what is in flight elsewhere for the same input, and computes it where nothing is."""

    results: ClassVar[dict[bytes, Arrays]] = {}
    computing: ClassVar[threading.Lock] = threading.Lock()
    flying: ClassVar[list[int]] = []

    def start(self, inputs: spec.Tensors, on_done: spec.OnDone) -> None:
        self.flying.append(1)

        def done(outputs: spec.Outputs | None, error: BaseException | None) -> None:
            self.flying.pop()
            if not self.flying:
                self.results.clear()
            on_done(outputs, error)

        super().start(inputs, done)

    def infer(self, inputs: spec.Tensors) -> Arrays:
        key = b"".join(array.tobytes() for array in inputs.values())
        with self.computing:  # who comes second finds what the first has computed, however busy the machine
            if key not in self.results:
                self.results[key] = super().infer(inputs)
            return dict(self.results[key])


class PoolForEach(SoundRequest):
    """Has as many threads for each request as there are cores for all of them; all of them compute."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.pool = ThreadPoolExecutor(2)

    def infer(self, inputs: spec.Tensors) -> Arrays:
        first, _ = self.pool.map(super().infer, [inputs, inputs])
        return first

    def close(self) -> None:
        self.pool.shutdown()
        super().close()


class Talkative(SoundRequest):
    """Writes a structured log, and dots without an end of line, to where it should not matter."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        print('{"level": "info", "load": "sync"}\n{net loaded}\n.', end="", flush=True)
        return super().infer(inputs)


class ProcessEndedAtOnce(SoundRequest):
    """Ends the process at the first inference, as if all were well."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        os._exit(0)


class CompilingSlowly(SoundEngine):
    """Takes as long with each compilation as it takes those who wait to hear of all before it."""

    def __init__(self) -> None:
        self.compilations = 0

    def compile(self, model: onnx.ModelProto, source: spec.ModelSource, settings: spec.Settings) -> SoundModel:
        self.compilations += 1
        heard = Path(os.environ["ENGINEBENCH_TEST_HEARD"])
        while len(heard.read_bytes()) < self.compilations:
            time.sleep(0.005)
        return super().compile(model, source, settings)


COMPILING_SLOWLY = AsPlugin(CompilingSlowly())
POOL_FOR_EACH = AsPlugin(RequestBreaker(PoolForEach))
TALKATIVE = AsPlugin(RequestBreaker(Talkative))
ENDING = AsPlugin(RequestBreaker(ProcessEndedAtOnce))
EQUAL_ITEMS_ONCE = AsPlugin(RequestBreaker(EqualItemsOnce))
SHARED_IN_FLIGHT = AsPlugin(RequestBreaker(SharedInFlight))


class NotWaitedFor(SoundRequest):
    """Gives the outputs of the inference before where one takes longer than 2 ms."""

    last: Arrays | None = None

    def infer(self, inputs: spec.Tensors) -> Arrays:
        begin_ns = perf_counter_ns()
        outputs = super().infer(inputs)
        is_late = perf_counter_ns() - begin_ns > 2_000_000
        given, self.last = self.last if is_late else None, outputs
        return outputs if given is None else given


class LastOfOddLost(SoundRequest):
    """Loses the last item of an odd batch of several."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        outputs = super().infer(inputs)
        for array in outputs.values():
            if len(array) % 2 and len(array) > 1:
                array[-1] = 0
        return outputs


class OutputMissing(SoundRequest):
    """Only one of the outputs."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        return dict(list(super().infer(inputs).items())[:1])


class InputsChanged(SoundRequest):
    """Works in the caller's memory."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        outputs = super().infer(inputs)
        for array in inputs.values():
            array[:] = 0
        return outputs


class MemoryShared(SoundRequest):
    """All requests of the process write their outputs to the same memory."""

    memory: ClassVar[dict[tuple[str, tuple[int, ...]], np.ndarray]] = {}

    def infer(self, inputs: spec.Tensors) -> Arrays:
        outputs = super().infer(inputs)
        for name, array in outputs.items():
            self.memory.setdefault((name, array.shape), array.copy())[:] = array
        return {name: self.memory[name, array.shape] for name, array in outputs.items()}


class RequestsMixedUp(SoundRequest):
    """Hands the answer to whoever is waiting longest, which is right only while one is in flight."""

    waiting: ClassVar[list[spec.OnDone]] = []
    lock = threading.Lock()

    def start(self, inputs: spec.Tensors, on_done: spec.OnDone) -> None:
        with self.lock:
            self.waiting.insert(0, on_done)

        def done(outputs: Mapping[str, Any] | None, error: BaseException | None) -> None:
            with self.lock:
                oldest = self.waiting.pop(len(self.waiting) // 2)
            oldest(outputs, error)

        super().start(inputs, done)


class ErrorSwallowed(SoundRequest):
    """A failed inference looks like one with empty outputs."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        try:
            return super().infer(inputs)
        except Exception:
            return {}


class ThreadKept(SoundRequest):
    """Never ends the thread it started."""

    def close(self) -> None:
        return


class EchoedThreads(SoundModel):
    def effective(self) -> spec.Effective:
        return spec.Effective(threads=spec.Readback(self.settings.cores, spec.Source.ENGINE_API))


class OtherPrecision(SoundModel):
    """Was asked for f32 and runs bf16, as OpenVINO does where it is not told otherwise."""

    def effective(self) -> spec.Effective:
        return spec.Effective(precision=spec.Readback("bf16", spec.Source.ENGINE_API))


class Halves(SoundEngine):
    """Computes in f16, on a device that has nothing else."""

    def devices(self) -> Sequence[spec.Device]:
        return [spec.Device("NPU", "an accelerator", (spec.Precision.F16,), ("npu:0",))]

    def compile(self, model: Any, source: spec.ModelSource, settings: spec.Settings) -> SoundModel:
        assert type(settings.precision) is spec.Precision, "engines ask which one it is by identity"
        compiled = super().compile(model, source, settings)
        told = spec.Effective(precision=spec.Readback("f16", spec.Source.ENGINE_API))
        compiled.effective = lambda: told  # type: ignore[method-assign]
        compiled.create_request = lambda: Rounded(compiled.evaluator)  # type: ignore[method-assign]
        return compiled


class Rounded(SoundRequest):
    def infer(self, inputs: spec.Tensors) -> Arrays:
        outputs = super().infer(inputs)
        return {name: (array * 1.01).astype(np.float16).astype(array.dtype) for name, array in outputs.items()}


HALVES = AsPlugin(Halves())


class EchoedPrecision(SoundEngine):
    """Offers f16 and says that it computes in what it was asked for; it computes in f32."""

    def devices(self) -> Sequence[spec.Device]:
        return [replace(device, precisions=(spec.Precision.F32, spec.Precision.F16)) for device in super().devices()]

    def compile(self, model: Any, source: spec.ModelSource, settings: spec.Settings) -> SoundModel:
        compiled = super().compile(model, source, settings)
        told = spec.Effective(precision=spec.Readback(str(settings.precision), spec.Source.ENGINE_API))
        compiled.effective = lambda: told  # type: ignore[method-assign]
        return compiled


@dataclass
class Providers(SoundEngine):
    """Says that it runs on the provider it was asked for; it does, or on the processor's all the same."""

    are_followed: bool

    def info(self) -> spec.EngineInfo:
        return replace(super().info(), options=(spec.OptionSpec("provider", str, "what computes", ("cpu", "other")),))

    def compile(self, model: Any, source: spec.ModelSource, settings: spec.Settings) -> SoundModel:
        compiled = super().compile(model, source, settings)
        told = settings.options.get("provider", "cpu")
        provider = spec.Effective(provider=spec.Readback(str(told), spec.Source.ENGINE_API))
        compiled.effective = lambda: provider  # type: ignore[method-assign]
        if self.are_followed and told == "other":
            compiled.create_request = lambda: Twice(compiled.evaluator)  # type: ignore[method-assign]
        return compiled


class Twice(SoundRequest):
    """Equal to the last bit, in another time."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        super().infer(inputs)
        return super().infer(inputs)


PROVIDERS, ECHOED_PROVIDERS = AsPlugin(Providers(are_followed=True)), AsPlugin(Providers(are_followed=False))


@dataclass
class Streams(SoundEngine):
    """Says that it runs as many streams as were asked for; it does, or one after the other."""

    are_in_turn: bool

    def info(self) -> spec.EngineInfo:
        return replace(super().info(), multiple_streams=True)

    def compile(self, model: Any, source: spec.ModelSource, settings: spec.Settings) -> SoundModel:
        compiled, turn = super().compile(model, source, settings), threading.Lock()
        told = spec.Effective(streams=spec.Readback(settings.streams, spec.Source.ENGINE_API))
        compiled.effective = lambda: told  # type: ignore[method-assign]
        if self.are_in_turn:
            compiled.create_request = lambda: InTurn(compiled.evaluator, turn)  # type: ignore[method-assign]
        return compiled


class InTurn(SoundRequest):
    """Has the engine for itself."""

    def __init__(self, evaluator: ReferenceEvaluator, turn: threading.Lock) -> None:
        super().__init__(evaluator)
        self.turn = turn

    def infer(self, inputs: spec.Tensors) -> Arrays:
        with self.turn:
            return super().infer(inputs)


class OpenInputs(SoundModel):
    @property
    def inputs(self) -> Sequence[spec.TensorSpec]:
        return [spec.TensorSpec(each.name, each.dtype, (None, *each.shape[1:])) for each in self._inputs]


class MicrosecondsForNanoseconds(SoundModel):
    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        sound = super().profile(inputs, iterations)
        return spec.ModelProfile(
            tuple(replace(each, time_ns=tuple(time // 1000 for time in each.time_ns)) for each in sound.layers),
            sound.latency_ns,
        )


class InventedOrigin(SoundModel):
    """Takes a name of its own making for one of the model's."""

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        sound = super().profile(inputs, iterations)
        return replace(sound, layers=tuple(replace(each, source_nodes=("conv1_fused",)) for each in sound.layers))


class NoTurns(SoundModel):
    """Profiles without a break."""

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        return super().profile(inputs, iterations)


class LatencyWithoutCounters(SoundModel):
    """Claims that the profiled inferences took as good as no time."""

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        return replace(super().profile(inputs, iterations), latency_ns=(1,) * iterations)


class LatencyOfOthers(SoundModel):
    """Times its layers in some inferences, and the latency in others."""

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        others = super().profile(inputs, iterations)
        return replace(super().profile(inputs, iterations, between), latency_ns=others.latency_ns)


class LayersOfOneName(SoundModel):
    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        sound = super().profile(inputs, iterations)
        return replace(sound, layers=sound.layers * 2)


class UntimedLayersGivenOnce(SoundModel):
    """Forgets to time its layers, and to make a tuple of what it generates."""

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        told = super().profile(inputs, iterations)
        return replace(told, layers=(replace(layer, time_ns=()) for layer in told.layers))  # type: ignore[arg-type]  # that is the fault


class SettingsIgnored(SoundEngine):
    """Takes any settings and follows none."""

    def compile(self, model: Any, source: spec.ModelSource, settings: spec.Settings) -> SoundModel:
        return super().compile(model, source, spec.Settings())


class OneChoiceBroken(SoundEngine):
    """Offers a choice that raises; the other works."""

    def info(self) -> spec.EngineInfo:
        option = spec.OptionSpec("engine", str, "which of its engines runs", choices=("new", "classic"))
        return replace(super().info(), options=(option,))

    def compile(self, model: Any, source: spec.ModelSource, settings: spec.Settings) -> SoundModel:
        if settings.options.get("engine") == "classic":
            raise RuntimeError("layers[0].outputBlobs.empty()")
        return super().compile(model, source, replace(settings, options={}))


class ShapesTaken(SoundRequest):
    """Takes an input of any shape."""

    def infer(self, inputs: spec.Tensors) -> Arrays:
        try:
            return super().infer(inputs)
        except Exception:
            return {name: np.zeros((1, 1), np.float32) for name in self.evaluator.output_names}


class Little(SoundEngine):
    """Runs floats only, one item, request and thread at a time, and profiles by means."""

    def info(self) -> spec.EngineInfo:
        return replace(
            super().info(),
            loads=frozenset({spec.Load.SYNC}),
            batches=(1,),
            integer_inputs=False,
            mean_profiles=True,
            single_threaded=True,
        )

    def compile(self, model: onnx.ModelProto, source: spec.ModelSource, settings: spec.Settings) -> SoundModel:
        refuse_unsupported("little", self.info(), self.devices(), settings)
        return MeanModel(ReferenceEvaluator(model), run_inputs(model, source), settings)


class MeanModel(SoundModel):
    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        (layer,) = super().profile(inputs, iterations).layers
        mean_ns = sum(layer.time_ns) // iterations
        return spec.ModelProfile((replace(layer, time_ns=(mean_ns,) * iterations),))


class SinglesAndMore(SettingsIgnored):
    """Says that it runs one item at a time, and takes more."""

    def info(self) -> spec.EngineInfo:
        return replace(super().info(), batches=(1,))


class OneAtATimeAndMore(SettingsIgnored):
    """Says that it runs one request at a time, and takes more."""

    def info(self) -> spec.EngineInfo:
        return replace(super().info(), loads=frozenset({spec.Load.SYNC}))


class OneThreadAndMore(SettingsIgnored):
    """Says that an inference runs on one thread, and takes more cores."""

    def info(self) -> spec.EngineInfo:
        return replace(super().info(), single_threaded=True)


class NoMeans(SoundEngine):
    """Says that its profiles are means, and shows single inferences."""

    def info(self) -> spec.EngineInfo:
        return replace(super().info(), mean_profiles=True)


class BrokenFilesTaken(SoundEngine):
    """Makes a model of its own out of a file it cannot read."""

    def read(self, source: spec.ModelSource) -> Any:
        try:
            return super().read(source)
        except Exception:
            value = onnx.helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, [1, 3, 24, 24])
            node = onnx.helper.make_node("Identity", ["image"], ["same"])
            same = onnx.helper.make_tensor_value_info("same", onnx.TensorProto.FLOAT, [1, 3, 24, 24])
            return onnx.helper.make_model(onnx.helper.make_graph([node], "none", [value], [same]))


@dataclass
class WithOption(SoundEngine):
    """Has one option."""

    name: str
    type: type = str
    choices: tuple[spec.OptionValue, ...] = ()

    def info(self) -> spec.EngineInfo:
        option = spec.OptionSpec(self.name, self.type, "what it is for", self.choices)
        return spec.EngineInfo("1.0", frozenset({spec.ModelFormat.ONNX}), options=(option,))


class TwinDevices(SoundEngine):
    def devices(self) -> Sequence[spec.Device]:
        return [spec.Device("CPU", "one"), spec.Device("CPU", "two")]


# Engines that misbehave beyond the contract: what they do to an agent and to its clock. `plugin` makes a module of one.


def plugin(engine: str, before: str = "") -> str:
    """The source of a plugin whose engine is this expression in names of this module, after the statements `before`."""
    return (
        f"{before}\nimport planted\nfrom enginebench_plugins import spec\n\n"
        f"@spec.hookimpl\ndef enginebench_engine():\n    return planted.{engine}\n"
    )


def changed_clock(factor: float) -> str:
    """Statements after which every clock of Python's that a loop may read runs at `factor` of its speed."""
    names = ("perf_counter", "monotonic")
    lines = [f"time.{name} = lambda true=time.{name}: true() * {factor}" for name in names]
    lines += [f"time.{name}_ns = lambda true=time.{name}_ns: int(true() * {factor})" for name in names]
    return "\n".join(["import time", *lines])


@dataclass
class DaemonLeft(SoundEngine):
    """Starts a process that leaves session, group, environment and parent behind, and sleeps for `seconds`."""

    seconds: str

    def devices(self) -> Sequence[spec.Device]:
        self._start()
        return super().devices()

    def compile(self, model: Any, source: spec.ModelSource, settings: spec.Settings) -> SoundModel:
        self._start()
        return super().compile(model, source, settings)

    def _start(self) -> None:
        if (child := os.fork()) == 0:
            os.setsid()
            if os.fork() == 0:
                os.execve("/bin/sleep", ["sleep", self.seconds], {})
            os._exit(0)
        os.waitpid(child, 0)


class MillionDevices(SoundEngine):
    def devices(self) -> Sequence[spec.Device]:
        return [spec.Device(f"CPU.{number}", "one of many") for number in range(1_000_000)]


class Verbose(SoundEngine):
    """A megabyte wherever a text may stand."""

    def info(self) -> spec.EngineInfo:
        long = "x" * 1_000_000
        option = spec.OptionSpec(f"o{long}", str, long, (long,))
        return replace(super().info(), version=long, options=(option,) * 1_000)

    def devices(self) -> Sequence[spec.Device]:
        long = "x" * 1_000_000
        return [spec.Device(long, long, properties={long: long})]


class VerboseReason(SoundEngine):
    def info(self) -> spec.EngineInfo:
        raise RuntimeError("x" * 1_000_000)


class ProcessEnded(SoundEngine):
    """Ends the process, as if all were well."""

    def devices(self) -> Sequence[spec.Device]:
        os._exit(0)


class Hanging(SoundEngine):
    def devices(self) -> Sequence[spec.Device]:
        time.sleep(600)
        return ()
