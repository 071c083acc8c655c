"""What can go wrong in an engine, on request: faults that come every time, and wrong outputs that look right.

Arrays are not spelled out: this module is also imported where there is no NumPy.
"""

import os
import signal
import time
from enum import StrEnum
from typing import Any, NoReturn

from enginebench_plugins import spec

MORE_THAN_ANY_ADDRESS_SPACE_BYTES = 1 << 50
EXIT_CODE = 7


class Fault(StrEnum):
    """The faults, as values of the option "fault"."""

    NONE = "none"
    COMPILE_ERROR = "compile_error"
    INFERENCE_ERROR = "inference_error"
    SEGFAULT = "segfault"
    ABORT = "abort"
    HANG = "hang"
    OUT_OF_MEMORY = "out_of_memory"
    EXIT = "exit"
    GARBAGE_STDOUT = "garbage_stdout"


class FaultPhase(StrEnum):
    """When a fault strikes, as values of the option "fault_phase"."""

    COMPILE = "compile"
    INFERENCE = "inference"


def strikes(fault: Fault, chosen: FaultPhase, phase: FaultPhase) -> bool:
    """Whether `fault` belongs to `phase`: the two errors carry their phase in their name, the others are free."""
    named = {Fault.COMPILE_ERROR: FaultPhase.COMPILE, Fault.INFERENCE_ERROR: FaultPhase.INFERENCE}
    return fault is not Fault.NONE and named.get(fault, chosen) is phase


def inflict(fault: Fault) -> None:
    """Do the damage. Returns only for garbage on standard output, after which the engine goes on as if nothing were."""
    _DAMAGE[fault]()


def _fail_to_compile() -> NoReturn:
    raise RuntimeError("the fake engine was asked to fail: it cannot compile this model")


def _fail_to_infer() -> NoReturn:
    raise RuntimeError("the fake engine was asked to fail: this inference went wrong")


def _violate_memory() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _hang() -> NoReturn:
    while True:
        time.sleep(3600)


def _exhaust_memory() -> None:
    # The allocator refuses this at once on any machine and under any limit, so the error is real and the machine safe.
    bytearray(MORE_THAN_ANY_ADDRESS_SPACE_BYTES)


def _exit() -> NoReturn:
    os._exit(EXIT_CODE)


def _write_garbage() -> None:
    os.write(1, b"\xff\xfe\x00 this is not a message of the worker \x80\n")


_DAMAGE = {
    Fault.COMPILE_ERROR: _fail_to_compile,
    Fault.INFERENCE_ERROR: _fail_to_infer,
    Fault.SEGFAULT: _violate_memory,
    Fault.ABORT: os.abort,
    Fault.HANG: _hang,
    Fault.OUT_OF_MEMORY: _exhaust_memory,
    Fault.EXIT: _exit,
    Fault.GARBAGE_STDOUT: _write_garbage,
}


SCALE = 1.1


class Wrong(StrEnum):
    """The mistakes, as values of the option "wrong"."""

    NONE = "none"
    SCALED = "scaled"
    """Every floating output is `SCALE` times what it should be."""
    IGNORED_INPUT = "ignored_input"
    """The first of the model's inputs is taken from the first inference ever, whatever is given."""
    LOST_BATCH = "lost_batch"
    """Only the first item of the batch comes out."""
    REPEATED_ITEM = "repeated_item"
    """Every item of the batch comes out like the first one."""


def spoil_inputs(wrong: Wrong, inputs: spec.Tensors, first_seen: spec.Tensors) -> spec.Tensors:
    """What the engine is to compute with, instead of the inputs given."""
    if wrong is not Wrong.IGNORED_INPUT:
        return inputs
    ignored = next(iter(first_seen))
    return {**inputs, ignored: first_seen[ignored]}


def spoil_outputs(wrong: Wrong, outputs: spec.Outputs) -> spec.Outputs:
    """What the engine is to return, instead of the outputs computed."""
    spoil = _SPOILED.get(wrong)
    return outputs if spoil is None else {name: spoil(each) for name, each in outputs.items()}


def _scaled(values: Any) -> Any:
    return (values * SCALE).astype(values.dtype) if values.dtype.kind == "f" else values


def _first_item(values: Any) -> Any:
    return values[:1].copy() if values.ndim else values


def _first_item_repeated(values: Any) -> Any:
    return values[:1].repeat(len(values), axis=0) if values.ndim else values


_SPOILED = {Wrong.SCALED: _scaled, Wrong.LOST_BATCH: _first_item, Wrong.REPEATED_ITEM: _first_item_repeated}
