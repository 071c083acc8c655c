"""Runs one engine as a worker confines it, and prints what it used.

That is processor time, wall clock, how long threads ran or waited for a processor, the number of threads that worked
and the processors that any thread may run on.

    python core_use.py PLUGIN CASE    a module's name or file; the case is JSON: path, format, inputs, settings, loads,
                                      and seconds, or pairs, or pairs and choices

One line of JSON a load: what was used in so many seconds, or by so many pairs of equal work and of other work, or of
the same work with each of two choices of options, or why the engine refuses its settings. An empty line follows each
compilation, so that who waits sees that it goes on. A process of its own, because confinement must come before the
engine's import and cannot be taken back.
"""

import contextlib
import importlib.util
import json
import os
import pkgutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO, TypeVar

from enginebench_agent.machine.this_process import process_cpu_time_ns, tasks, thread_times_ns, working_threads
from enginebench_agent.worker.confine import confine_to_cores
from enginebench_plugins import spec

WARM_UP_S = 0.2
ROUNDS = 3
INFERENCES = 10
Measured = TypeVar("Measured")
Compile = Callable[[spec.ModelSource, spec.Settings], spec.CompiledModel]
REQUESTS_PER_CORE = 2
"""More in flight than there are cores, so that an engine that gives each request a core of its own is caught."""


def main() -> None:
    """Measure every load the engine offers."""
    # As a worker claims it, before anybody can print: the rest is what the engine says, and no answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    plugin, case = sys.argv[1], json.loads(sys.argv[2])
    case["settings"]["precision"] = spec.Precision(case["settings"]["precision"])  # by identity, as the formats below
    confine_to_cores(case["settings"]["cores"])
    engine = _module(plugin).enginebench_engine()
    inputs = tuple(spec.TensorSpec(name, dtype, tuple(shape)) for name, dtype, shape in case["inputs"])
    known = {str(one): one for one in spec.ModelFormat}  # engines ask which of these it is by identity, too
    source = spec.ModelSource(Path(case["path"]), known.get(case["format"], case["format"]), inputs)
    info, cores = engine.info(), case["settings"]["cores"]
    compile_model = partial(_compiled, answers, engine)
    for load in sorted(load for load in info.loads if load in case["loads"]):
        if info.single_threaded and load is spec.Load.SYNC and cores > 1:
            continue  # refused, as another statement has it
        try:
            used = _use(info, compile_model, source, case, load)
        except spec.UnsupportedSettingsError as error:
            used = {"refused": str(error)}
        print(json.dumps({"load": load} | used), file=answers, flush=True)
    os._exit(0)  # as a worker ends: some engines abort where threads of theirs outlive the interpreter


def _module(plugin: str) -> Any:
    if not plugin.endswith(".py"):
        return pkgutil.resolve_name(plugin)
    found = importlib.util.spec_from_file_location(Path(plugin).stem, plugin)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _use(
    info: spec.EngineInfo, compile_model: Compile, source: spec.ModelSource, case: Mapping[str, Any], load: spec.Load
) -> dict[str, Any]:
    cores = case["settings"]["cores"]
    requests = 1 if load is spec.Load.SYNC else REQUESTS_PER_CORE * cores
    streams = cores if load is spec.Load.ASYNC and info.multiple_streams else 1
    settings = spec.Settings(**({"requests": requests, "streams": streams} | case["settings"]), load=load)
    if "choices" in case:
        return _choices(compile_model, source, settings, case)
    compiled = compile_model(source, settings)
    slots = [compiled.create_request() for _ in range(settings.requests)]
    told = compiled.effective().streams
    run = _in_turn if load is spec.Load.SYNC else _in_flight
    run(slots, _inputs(source), WARM_UP_S)
    if "pairs" in case:
        used = {"pairs": _pairs(slots, source, load, case["pairs"])}
    else:
        used = _measured(lambda: run(slots, _inputs(source), case["seconds"]))
    for slot in slots:
        slot.close()
    compiled.close()
    return used | {"requests": settings.requests, "streams": None if told is None else told.value}


def _choices(
    compile_model: Compile, source: spec.ModelSource, settings: spec.Settings, case: Mapping[str, Any]
) -> dict[str, Any]:
    """Whether the outputs of two choices are equal to the last bit, and if so, what inferences with each used."""
    import numpy as np

    each = [replace(settings, options={**settings.options, **choice}) for choice in case["choices"]]
    pairs = []
    for index in range(case["pairs"]):
        (used, outputs), (other_used, others) = _in_turns(lambda one: _chosen(compile_model, source, each[one]), index)
        if not all(np.array_equal(outputs[name], others[name]) for name in outputs):
            return {"are_equal": False}
        pairs.append([used, other_used])
    return {"are_equal": True, "pairs": pairs}


def _chosen(
    compile_model: Compile, source: spec.ModelSource, settings: spec.Settings
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What inferences used, and their outputs; compiled for them alone, as a choice may hold for all of a process."""
    import numpy as np

    inputs, compiled = _inputs(source), compile_model(source, settings)
    request = compiled.create_request()
    outputs = {name: np.array(array) for name, array in request.infer(inputs).items()}
    used = _measured(lambda: [request.infer(inputs) for _ in range(INFERENCES)])
    request.close()
    compiled.close()
    return used, outputs


def _compiled(
    answers: TextIO, engine: spec.Engine, source: spec.ModelSource, settings: spec.Settings
) -> spec.CompiledModel:
    source = replace(source, settings=settings)
    model = engine.compile(engine.convert(engine.read(source), source), source, settings)
    print(file=answers, flush=True)
    return model


def _measured(work: Callable[[], object]) -> dict[str, Any]:
    threads, wanted_ns = thread_times_ns(), _wanted_ns()
    cpu_ns, begin_ns = process_cpu_time_ns(), time.perf_counter_ns()
    work()
    wall_ns, cpu_ns = time.perf_counter_ns() - begin_ns, process_cpu_time_ns() - cpu_ns
    used = {"cpu_ns": cpu_ns, "wall_ns": wall_ns, "wanted_ns": _wanted_ns() - wanted_ns}
    return used | {"threads": working_threads(threads, thread_times_ns()), "processors": _processors()}


def _pairs(
    slots: list[spec.InferRequest], source: spec.ModelSource, load: spec.Load, count: int
) -> list[list[dict[str, Any]]]:
    """What equal items of a batch, or equal inputs in flight, used, and what as many others did, each first in turn."""
    import numpy as np

    from enginebench_plugins.testing.in_flight import run_rotating

    if load is spec.Load.SYNC:
        others = _inputs(source)
        equal = {name: np.ascontiguousarray(np.repeat(one[:1], len(one), axis=0)) for name, one in others.items()}
        work: list[Callable[[], object]] = [lambda: slots[0].infer(equal), lambda: slots[0].infer(others)]
    else:
        rotation = [_inputs(source, seed) for seed in range(ROUNDS * len(slots))]
        same = [rotation[0]] * len(rotation)
        work = [lambda: run_rotating(slots, same), lambda: run_rotating(slots, rotation)]
    return [_in_turns(lambda one: _measured(work[one]), index) for index in range(count)]


def _in_turns(measure: Callable[[int], Measured], index: int) -> list[Measured]:
    """What each of two used, or more of it; the one and the other is first."""
    first = index % 2
    used = {one: measure(one) for one in (first, 1 - first)}
    return [used[0], used[1]]


def _wanted_ns() -> int:
    """For how long threads ran or would have run: what others on the machine do changes little of that."""
    wanted_ns = 0
    for task in tasks():
        with contextlib.suppress(OSError):  # it ended meanwhile, or no such statistic
            wanted_ns += sum(map(int, (task / "schedstat").read_text().split()[:2]))
    return wanted_ns


def _processors() -> list[int]:
    """What the affinities of all threads of this process, and of those that it started, have between them."""
    found: set[int] = set()
    for task in tasks():
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            found |= os.sched_getaffinity(int(task.name))
    return sorted(found)


def _in_turn(slots: list[spec.InferRequest], inputs: Mapping[str, Any], seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        slots[0].infer(inputs)


def _in_flight(slots: list[spec.InferRequest], inputs: Mapping[str, Any], seconds: float) -> None:
    """Every completion starts its request's next inference, until the time is up and all have come back."""
    end, errors, done = time.perf_counter() + seconds, [], threading.Semaphore(0)

    def start(slot: spec.InferRequest) -> None:
        def on_done(_outputs: spec.Outputs | None, error: BaseException | None) -> None:
            if error is not None:
                errors.append(error)
            if error is None and time.perf_counter() < end:
                start(slot)
            else:
                done.release()

        slot.start(inputs, on_done)

    for slot in slots:
        start(slot)
    for _ in slots:
        done.acquire()
    if errors:
        raise errors[0]


def _inputs(source: spec.ModelSource, seed: int = 1) -> dict[str, Any]:
    import numpy as np

    random = np.random.default_rng(seed)
    shapes: dict[str, Any] = {each.name: each.shape for each in source.inputs}  # without open dimensions
    return {each.name: random.normal(size=shapes[each.name]).astype(each.dtype) for each in source.inputs}


if __name__ == "__main__":
    main()
