"""From an exception to a typed failure: which kind it is and the sentence a person reads."""

import re

from enginebench_agent.runs.limits import imposed
from enginebench_plugins.spec import EngineUnavailableError, UnsupportedSettingsError
from enginebench_proto.agreed.onnx_wire import MalformedModelError
from enginebench_proto.v1 import engine_pb2, run_pb2

# The words of C++ allocators, ONNX Runtime, OpenVINO, PyTorch (CPU and CUDA) and the C library.
_OUT_OF_MEMORY = re.compile(
    r"bad_alloc|out of memory|not enough memory|(failed to|cannot|can't) allocate memory", re.IGNORECASE
)
_FILE_TOO_LARGE = re.compile(r"file too large", re.IGNORECASE)  # EFBIG, in the words of every C library
_DOING = {
    "read": "reading",
    "convert": "converting",
    "compile": "compiling",
    "first_inference": "running the first inference of",
    "warm_up": "warming up",
    "steady_state": "running",
    "teardown": "releasing",
}
_PREPARATION = ("read", "convert", "compile")


MAX_NAME_CHARS = 100
"""Of what an engine calls itself, its devices and its options: more helps nobody, and a megabyte harms."""
MAX_REASON_CHARS = 500
MAX_DETAIL_CHARS = 16_384


class BrokenOutputError(Exception):
    """The engine returned something the plugin contract does not allow."""


class UnavailableError(EngineUnavailableError):
    """Why an engine cannot be used: the kind, a sentence for a person, and the exception's own text."""

    def __init__(self, kind: engine_pb2.UnavailableKind, reason: str, detail: str = "") -> None:
        super().__init__(reason, installed=kind != engine_pb2.UNAVAILABLE_KIND_NOT_INSTALLED)
        self.kind = kind
        self.detail = detail


def exception_text(error: BaseException) -> str:
    """The exception's own words, always valid as UTF-8; the name of its type where it has none.

    A `KeyError` says the key and nothing else, so that its name stands before it.
    """
    words = str(error).strip() or type(error).__name__
    return printable(f"{type(error).__name__}: {words}" if isinstance(error, KeyError) else words)


def printable(text: str) -> str:
    """`text` with what UTF-8 cannot carry replaced; engines put raw bytes of file names into their messages."""
    return text.encode("utf-8", "replace").decode("utf-8")


def shortened(text: str, most: int = MAX_NAME_CHARS) -> str:
    """`text`, printable, its end left out where it is longer than `most` characters."""
    return printable(text if len(text) <= most else text[: most - 1] + "…")


def failure_kind(error: BaseException, phase: str) -> run_pb2.FailureKind:
    """The kind of failure an exception means when it is raised in `phase` ("" before the first phase)."""
    if isinstance(error, EngineUnavailableError):
        return run_pb2.FAILURE_KIND_ENGINE_UNAVAILABLE
    if isinstance(error, UnsupportedSettingsError) or _FILE_TOO_LARGE.search(str(error)):
        return run_pb2.FAILURE_KIND_REFUSED
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error)):
        return run_pb2.FAILURE_KIND_OUT_OF_MEMORY
    if phase in _PREPARATION or isinstance(error, MalformedModelError):
        return run_pb2.FAILURE_KIND_COMPILE_FAILED
    if not phase:
        return run_pb2.FAILURE_KIND_INTERNAL
    return run_pb2.FAILURE_KIND_INFERENCE_FAILED


def to_failure(error: BaseException, phase: str, engine: str, model: str) -> run_pb2.Failure:
    """The failure an exception means, for `engine` running the model file named `model`."""
    kind = failure_kind(error, phase)
    text = exception_text(error)
    message = shortened(_sentence(kind, shortened(text, MAX_REASON_CHARS), phase, engine, model), 2 * MAX_REASON_CHARS)
    detail = shortened(error.detail if isinstance(error, UnavailableError) else text, MAX_DETAIL_CHARS)
    return run_pb2.Failure(kind=kind, message=message, detail=detail, phase=phase)


def _sentence(kind: run_pb2.FailureKind, text: str, phase: str, engine: str, model: str) -> str:
    doing = _DOING.get(phase, "preparing to run")
    if kind == run_pb2.FAILURE_KIND_ENGINE_UNAVAILABLE:
        return f"{engine} cannot be used to run {model}: {text}"
    if kind == run_pb2.FAILURE_KIND_REFUSED and _FILE_TOO_LARGE.search(text):
        return f"{engine} wrote a file larger than it may while {doing} {model}{imposed().file_sentence}."
    if kind == run_pb2.FAILURE_KIND_REFUSED:
        return f"{engine} cannot run {model} in this configuration: {text}"
    if kind == run_pb2.FAILURE_KIND_OUT_OF_MEMORY:
        return f"{engine} ran out of memory while {doing} {model}{imposed().memory_sentence}."
    if kind == run_pb2.FAILURE_KIND_INTERNAL:
        return f"The worker failed while preparing to run {model} with {engine}; this is a defect of enginebench."
    return f"{engine} failed while {doing} {model}."
