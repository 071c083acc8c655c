"""An exception becomes the right kind of failure, with a sentence and the exception's own words."""

import pytest

from enginebench_agent.worker.failures import failure_kind, to_failure
from enginebench_plugins.spec import EngineUnavailableError, UnsupportedSettingsError
from enginebench_proto.v1 import run_pb2


@pytest.mark.parametrize(
    ("error", "phase", "kind"),
    [
        (EngineUnavailableError("needs AVX2"), "", run_pb2.FAILURE_KIND_ENGINE_UNAVAILABLE),
        (EngineUnavailableError("needs a licence"), "compile", run_pb2.FAILURE_KIND_ENGINE_UNAVAILABLE),
        (UnsupportedSettingsError("no f16"), "compile", run_pb2.FAILURE_KIND_REFUSED),
        (MemoryError(), "steady_state", run_pb2.FAILURE_KIND_OUT_OF_MEMORY),
        (RuntimeError("std::bad_alloc"), "compile", run_pb2.FAILURE_KIND_OUT_OF_MEMORY),
        (RuntimeError("CUDA out of memory. Tried"), "warm_up", run_pb2.FAILURE_KIND_OUT_OF_MEMORY),
        (RuntimeError("Not enough memory to do it"), "read", run_pb2.FAILURE_KIND_OUT_OF_MEMORY),
        (RuntimeError("Failed to allocate memory for"), "read", run_pb2.FAILURE_KIND_OUT_OF_MEMORY),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "read", run_pb2.FAILURE_KIND_OUT_OF_MEMORY),
        (ValueError("unknown op"), "read", run_pb2.FAILURE_KIND_COMPILE_FAILED),
        (ValueError("unknown op"), "convert", run_pb2.FAILURE_KIND_COMPILE_FAILED),
        (ValueError("unknown op"), "compile", run_pb2.FAILURE_KIND_COMPILE_FAILED),
        (ValueError("bad index"), "first_inference", run_pb2.FAILURE_KIND_INFERENCE_FAILED),
        (ValueError("bad index"), "steady_state", run_pb2.FAILURE_KIND_INFERENCE_FAILED),
        (SystemExit(3), "compile", run_pb2.FAILURE_KIND_COMPILE_FAILED),
        (ValueError("ours"), "", run_pb2.FAILURE_KIND_INTERNAL),
    ],
)
def test_kinds(error: BaseException, phase: str, kind: int) -> None:
    assert failure_kind(error, phase) == kind


def test_the_sentence_names_engine_and_model_and_the_detail_is_the_engines_own() -> None:
    failure = to_failure(ValueError("unknown op Foo"), "compile", "openvino", "net.onnx")
    assert failure.message == "openvino failed while compiling net.onnx."
    assert (failure.detail, failure.phase) == ("unknown op Foo", "compile")


def test_a_refusal_says_why_in_the_sentence_itself() -> None:
    failure = to_failure(UnsupportedSettingsError("It has no f16."), "compile", "torch", "net.onnx")
    assert failure.message == "torch cannot run net.onnx in this configuration: It has no f16."


def test_an_exception_without_words_is_told_by_its_type() -> None:
    assert to_failure(MemoryError(), "compile", "torch", "net.onnx").detail == "MemoryError"


def test_words_that_are_no_utf8_still_travel() -> None:
    failure = to_failure(ValueError("file \udcff\udc80"), "read", "torch", "net.onnx")
    assert failure.SerializeToString()
    assert failure.detail == "file ??"


def test_a_missing_key_says_that_it_is_one():
    assert to_failure(KeyError("weights"), "convert", "torch", "net.onnx").detail == "KeyError: 'weights'"
