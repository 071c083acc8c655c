"""A failure at values that were drawn names them; one at values that somebody gave does not."""

from dataclasses import replace

import pytest

from enginebench_controller.plan.expand import Case
from enginebench_controller.records import (
    Configuration,
    EngineRef,
    InputFile,
    InputSet,
    InputTensor,
    InputValues,
    ModelVersion,
)
from enginebench_controller.runs.outcome import drawn_inputs, failure_of
from enginebench_proto.v1 import run_pb2

CONFIGURATION = Configuration(
    "CPU",
    1,
    2,
    inputs=(
        InputTensor("audio", "float32", (1, 512)),
        InputTensor("sr", "int64", ()),
        InputTensor("ids", "int64", (1, 8), 100),
        InputTensor("flag", "bool", ()),
        InputTensor("scale", "float32", ()),
    ),
)
JOB = Case("nuc", EngineRef("ort", "default", "1"), ModelVersion("a" * 64, "net", "onnx", (), 1), CONFIGURATION, ())


def failed(kind: run_pb2.FailureKind, phase: str) -> run_pb2.RunResult:
    return run_pb2.RunResult(failure=run_pb2.Failure(kind=kind, message="it failed: sr is no rate.", phase=phase))


def test_drawn_integers_bools_and_numbers_are_named_with_what_they_were_drawn_from() -> None:
    assert drawn_inputs(CONFIGURATION) == (
        "Values were drawn, which may be why: sr from 0 and 1, ids from 0 to 99, flag from false and true, scale from "
        "around 0; give one by --input sr=VALUE, or all by --inputs FOLDER"
    )


def test_given_values_and_files_were_not_drawn() -> None:
    given = tuple(InputValues(one.name, 1, 1) for one in CONFIGURATION.inputs[1:])
    assert drawn_inputs(replace(CONFIGURATION, input_set=InputSet(values=given))) == ""
    files = InputSet(items=((InputFile("sr", "b" * 64, 8),),))
    assert drawn_inputs(replace(CONFIGURATION, input_set=files)) == ""


@pytest.mark.parametrize("kind", [run_pb2.FAILURE_KIND_INFERENCE_FAILED, run_pb2.FAILURE_KIND_CRASHED])
@pytest.mark.parametrize("phase", ["first_inference", "warm_up"])
def test_a_failure_at_the_first_inferences_says_so_after_the_engines_cause(
    kind: run_pb2.FailureKind, phase: str
) -> None:
    failure = failure_of(JOB, failed(kind, phase))
    assert failure is not None
    assert failure.message.startswith("it failed: sr is no rate. Values were drawn, which may be why: sr from 0 and 1")


def test_other_failures_do_not() -> None:
    for kind, phase in [
        (run_pb2.FAILURE_KIND_COMPILE_FAILED, "compile"),
        (run_pb2.FAILURE_KIND_INFERENCE_FAILED, "steady_state"),
        (run_pb2.FAILURE_KIND_OUT_OF_MEMORY, "first_inference"),
    ]:
        failure = failure_of(JOB, failed(kind, phase))
        assert failure is not None and failure.message == "it failed: sr is no rate."
