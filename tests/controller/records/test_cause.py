"""The one line that holds the cause, out of what engines really said (failure_texts.json) and of strangers' words."""

import json
import time
from pathlib import Path

import pytest

from enginebench_controller import wire
from enginebench_controller.records.cause import cause, last_words
from enginebench_proto.v1 import run_pb2

REAL = json.loads((Path(__file__).parent / "failure_texts.json").read_text(encoding="utf-8"))
"""What four engines said of models that cannot run, word for word."""

WHAT_IS_WRONG = {
    ("concat_shapes", "onnxruntime"): ["join", "Inferred=2 Declared=1"],
    ("concat_shapes", "openvino"): ["Node(Concat): y", "must have the same rank", "friendly_name 'Concat_3'"],
    ("conv_channels", "openvino"): ["Node(Conv): y", "channel count (3) does not match filter input channel count (5)"],
    ("conv_channels", "onnxruntime"): ["Conv node", "y_nchwc", "C: 3 kernel channels: 5"],
    ("conv_channels", "deepsparse"): ["Conv node", "C: 3 kernel channels: 5"],
    ("conv_channels", "torch"): ["expected input[1, 3, 8, 8] to have 5 channels"],
    ("future_opset", "onnxruntime"): ["Opset 99 is under development", "till opset 26"],
    ("future_opset", "deepsparse"): ["Opset 99 is under development", "till opset 19"],
    ("gather_range", "onnxruntime"): ["pick", "idx=9"],
    ("matmul_shapes", "openvino"): ["Node(MatMul): y", "First input dimension=4", "second input dimension=3"],
    ("matmul_shapes", "deepsparse"): ["proj", "Incompatible dimensions"],
    ("reshape_runtime", "onnxruntime"): ["bad_reshape", "Input shape:{1,4}, requested shape:{3,5}"],
    ("reshape_runtime", "openvino"): ["Node(Reshape): y", "[3,5] is incompatible with input shape"],
    ("reshape_runtime", "deepsparse"): ["bad_reshape", "cannot be reshaped"],
    ("unknown_op", "openvino"): ["No conversion rule found for operations: com.acme.Frobnicate"],
    ("silero-vad-v6", "openvino"): [
        "decoder/2/Conv_output_0",
        "rank has to be known",
        "Unsupported input type dynamic",
    ],
    ("silero-vad-v6", "onnxruntime"): ["If_0", "rnn/LSTM", "LSTM node", "Input X must have 3 dimensions only"],
    ("silero-vad-v6", "deepsparse"): ["decoder/Squeeze", "Dimension of input 2 must be 1 instead of 2"],
    ("nakdimon", "openvino"): ["forward_lstm/PartitionedCall/while_loop", "canonical inputs size (16)"],
    ("nemo128", "openvino"): ["Node(STFT): image", "must be static with the rank equal to 3"],
    ("nemo128", "deepsparse"): ["Unsupported model IR version: 10"],
    ("unknown_op", "torch"): ["no converter for com.acme.Frobnicate"],
}
WHERE_IT_STOOD = (".cpp:", ".hpp:", ".h:", "Exception from", "[ONNXRuntimeError]", "NM:", "std::__cxx11", "/home/bench")

TRACEBACK = """Loading the program failed
Traceback (most recent call last):
  File "/opt/engine/load.py", line 12, in load
    read(path)
    ~~~~^^^^^^
KeyError: 'weights'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/engine/run.py", line 40, in <module>
    main()
acme.errors.LoadError: tensor 'encoder/bias' has no values
it may have been left out by the exporter
"""
TORCH_SCRIPT = """The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
  File "<string>", line 5, in forward
    return torch.matmul(x, y)
           ~~~~~~~~~~~~ <--- HERE
RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x3 and 4x2)
"""
FRAMES = """Expected all tensors to be on the same device, but found 'weight' on cuda:0
Exception raised from common_device_check_failure at ../c10/core/Device.cpp:10 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f in /lib/libc10.so)
frame #1: main + 0x2b
"""
STRANGERS = [
    ("", ""),
    ("no kernel for Conv", "no kernel for Conv"),
    ("Could not convert node conv1:\n  bad attribute", "bad attribute (Could not convert node conv1)"),
    ("Check 'rank > 2' failed at src/core/shape.cpp:12:", "Check 'rank > 2' failed"),
    ("Exception from a/b.cpp:1:\nException from c.cpp:2:\n", ""),
    ("error: layer 'stem' is too wide\nerror: layer 'stem' is too wide", "layer 'stem' is too wide"),
    (
        TRACEBACK,
        "acme.errors.LoadError: tensor 'encoder/bias' has no values. it may have been left out by the exporter",
    ),
    (TORCH_SCRIPT, "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x3 and 4x2)"),
    (FRAMES, "Expected all tensors to be on the same device, but found 'weight' on cuda:0"),
    (
        "\x1b[1;31m2026-11-23 01:02:03.456789 [E:onnxruntime:, sequential_executor.cc:516 Run] Node 'n' failed\x1b[m",
        "Node 'n' failed",
    ),
    ("KeyError: 'x'", "KeyError: 'x'"),
    ("Unsupported ops:\n- Foo\n- Bar", "- Foo. - Bar (Unsupported ops)"),
    ("операция 'свёртка' не поддержана", "операция 'свёртка' не поддержана"),
]


@pytest.mark.parametrize(("model", "engine"), WHAT_IS_WRONG)
def test_what_is_wrong_and_where_in_the_model_stays(model, engine):
    (text,) = (one["text"] for one in REAL if (one["model"], one["engine"]) == (model, engine))
    assert all(words in cause(text) for words in WHAT_IS_WRONG[model, engine])


@pytest.mark.parametrize(
    "real", [one for one in REAL if one["text"]], ids=lambda one: f"{one['model']}-{one['engine']}"
)
def test_of_every_real_text_one_line_without_places_in_source_code(real):
    line = cause(real["text"])
    assert line and "\n" not in line and len(line) < 700
    assert not any(words in line for words in WHERE_IT_STOOD)
    assert not line.endswith(":")


@pytest.mark.parametrize(("text", "line"), STRANGERS)
def test_of_strangers_words(text, line):
    assert cause(text) == line


def test_both_ends_of_a_long_text_stay():
    line = cause(f"node 'first' {'x ' * 5000} tensor 'last' is missing")
    assert line.startswith("node 'first'") and line.endswith("tensor 'last' is missing") and len(line) < 700


@pytest.mark.parametrize("evil", ["a::" * 300_000, "a<" * 300_000 + "(", "(" * 500_000, "/a" * 400_000, "[" * 500_000])
def test_no_text_takes_long(evil):
    begun = time.process_time()
    cause(f"/x/y.cpp:1 {evil}\n" * 3)
    assert time.process_time() - begun < 2


def test_the_last_words_of_a_process():
    assert (
        last_words("warning: slow\nterminate called after throwing 'Bad'\n") == "terminate called after throwing 'Bad'"
    )
    fault = 'Fatal Python error: Segmentation fault\n\nThread 0x1 (most recent call first):\n  File "x.py", line 1\n'
    (real,) = (one["stderr"] for one in REAL if not one["text"])
    assert last_words(real) == "Assertion at ./src/include/wand/engine/execution/planner.hpp:120"
    assert last_words(fault) == "Fatal Python error: Segmentation fault"


def failure(**fields):
    return wire.from_failure(run_pb2.Failure(kind=run_pb2.FAILURE_KIND_COMPILE_FAILED, **fields))


def test_a_failure_becomes_a_record_with_its_cause_in_one_line_and_the_words_whole():
    (text,) = (one["text"] for one in REAL if (one["model"], one["engine"]) == ("unknown_op", "openvino"))
    found = failure(message="openvino failed while reading m.onnx.", detail=text)
    assert found.message.startswith("openvino failed while reading m.onnx: ") and "com.acme.Frobnicate" in found.message
    assert "\n" not in found.message and found.detail == text


def test_words_that_the_agent_put_into_its_sentence_are_told_once():
    found = failure(message="x cannot run m: first\nError at a.cpp:3: second", detail="first\nError at a.cpp:3: second")
    assert found.message.count("first") == 1 and "\n" not in found.message and "a.cpp" not in found.message


def test_a_process_that_ended_without_a_word_of_its_engine_is_told_by_what_it_wrote_last():
    found = failure(message="the engine's process was ended by SIGABRT", stderr_tail="free(): invalid pointer\n")
    assert found.message == "the engine's process was ended by SIGABRT: free(): invalid pointer"
