"""What can go wrong in an engine, on request: the agent's tests need crashes that come every time."""

import os
import signal
import time
from enum import StrEnum
from typing import NoReturn

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
