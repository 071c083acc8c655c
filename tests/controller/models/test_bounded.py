"""What a model from elsewhere may take of this machine to be read: as much as is allowed, and Ctrl-C ends it."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import psutil
import pytest
from onnx import TensorProto, helper

from enginebench_controller.errors import ModelError
from enginebench_controller.graph.reading import read_source_graph
from enginebench_controller.models import bounded
from enginebench_controller.models.formats.description import describe
from enginebench_controller.models.formats.skeleton import MAX_NODES
from enginebench_controller.models.inputs.binding import MAX_INPUT_BYTES, bind
from enginebench_controller.models.inputs.shapes import parse_shapes

OURS = "ours"
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid(OURS, 1)]
SMALL = bounded.Bounds(memory_bytes=64 * 2**20, seconds=1.0)


def saved(path: Path, nodes: list[onnx.NodeProto], sizes: list[int | str], functions: tuple[Any, ...] = ()) -> Path:
    """A model with the input "x" and the output "y"."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "graph", [x], [y])
    path.write_bytes(helper.make_model(graph, opset_imports=OPSETS, functions=functions).SerializeToString())
    return path


def doubling(path: Path, levels: int) -> Path:
    """A model of functions that each call the one before twice."""
    bodies = [[helper.make_node("Relu", ["a"], ["b"])]]
    for level in range(1, levels):
        calls = (("a", "t"), ("t", "b"))
        bodies.append([helper.make_node(f"f{level - 1}", [one], [other], domain=OURS) for one, other in calls])
    functions = tuple(helper.make_function(OURS, f"f{n}", ["a"], ["b"], body, OPSETS) for n, body in enumerate(bodies))
    return saved(path, [helper.make_node(f"f{levels - 1}", ["x"], ["y"], domain=OURS)], [1, 4], functions)


def chain(path: Path, nodes: int) -> Path:
    """A model of so many nodes, one after the other, written without a message in memory for each."""
    begin = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)]).SerializeToString()
    node = onnx.GraphProto(node=[helper.make_node("Relu", ["x"], ["x"])]).SerializeToString()
    y = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    content = node * nodes + onnx.GraphProto(name="g", input=[y], output=[y]).SerializeToString()
    path.write_bytes(begin + message(7, content))
    return path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "enginebench_controller", *map(str, arguments)]


def variables(folder: Path) -> dict[str, str]:
    return os.environ | {"ENGINEBENCH_HOME": str(folder / "home")}


def limited(kind: int, size_bytes: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(kind, (size_bytes, size_bytes))


@pytest.mark.fault(26)
@pytest.mark.parametrize(
    ("sizes", "given", "batch", "told"),
    [
        ([2**31, 2**31], {}, 1, "16 EiB"),
        ([2**31, 2**31], {}, 2**31, "16 EiB"),
        (["n", 2**40], {}, 1, "4 TiB"),
        (["n", "c"], {"x": "1x999999999999"}, 1, "3.64 TiB"),
        (["n", 1024], {}, 10**7, "38.1 GiB"),
        (["n", *[2**40] * 8], {}, 1, r"more than 10\^96 bytes"),
    ],
)
def test_inputs_that_no_memory_holds_are_refused_with_their_size(tmp_path, sizes, given, batch, told):
    described = describe(saved(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], sizes))

    with pytest.raises(ModelError, match=rf"inputs of one inference \(x .*\) would take {told}"):
        bind(described, batch, parse_shapes(given))


@pytest.mark.fault(26)
def test_inputs_count_together_and_up_to_the_bound_they_are_fine(tmp_path):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1]) for name in "xy")
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], "g", [x, y], [z])
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=OPSETS).SerializeToString())
    most = MAX_INPUT_BYTES // 8

    assert len(bind(describe(path), most).inputs) == 2
    with pytest.raises(ModelError, match="8 GiB are not made"):
        bind(describe(path), most + 1)


@pytest.mark.fault(26)
def test_a_size_of_countless_digits_is_a_sentence():
    with pytest.raises(ModelError, match="a size of 5000 digits is more than any machine could hold"):
        parse_shapes({"x": f"1x{'9' * 5000}"})


@pytest.mark.slow
@pytest.mark.fault(26)
def test_a_command_refuses_them_also_where_it_has_little_memory_itself(tmp_path):
    model = saved(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [2**31, 2**31])
    done = subprocess.run(
        command("flops", model),
        env=variables(tmp_path),
        capture_output=True,
        text=True,
        preexec_fn=limited(resource.RLIMIT_AS, 3 * 2**30),
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: the inputs of one inference") and "16 EiB" in done.stderr


@pytest.mark.fault(27)
def test_functions_that_unfold_to_millions_of_nodes_are_refused_at_once(tmp_path):
    path = doubling(tmp_path / "m.onnx", 60)
    assert path.stat().st_size < 6000

    for read in (describe, lambda one: read_source_graph(one, {}, None)):
        begin = time.monotonic()
        with pytest.raises(ModelError, match=rf"{path} unfolds to more than {MAX_NODES:,} nodes"):
            read(path)
        assert time.monotonic() - begin < 5


@pytest.mark.fault(27)
def test_functions_that_unfold_to_a_few_nodes_are_read(tmp_path):
    (call,) = read_source_graph(doubling(tmp_path / "m.onnx", 5), {}, None).nodes

    assert len(call.bodies["function"].nodes) == 16


@pytest.mark.fault(27)
@pytest.mark.parametrize("names", [("f",), ("f", "g"), ("f", "g", "h")])
def test_functions_that_call_each_other_in_a_circle_are_refused(tmp_path, names):
    following = (*names[1:], names[0])
    functions = tuple(
        helper.make_function(OURS, name, ["a"], ["b"], [helper.make_node(other, ["a"], ["b"], domain=OURS)], OPSETS)
        for name, other in zip(names, following, strict=True)
    )
    path = saved(tmp_path / "m.onnx", [helper.make_node("f", ["x"], ["y"], domain=OURS)], [1], functions)

    with pytest.raises(ModelError, match="never ends to unfold: its function"):
        describe(path)


def message(field: int, content: bytes) -> bytes:
    """A message within another one, as protobuf writes it."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


@pytest.mark.fault(27)
@pytest.mark.parametrize("levels", [60, 1000])
def test_graphs_within_graphs_without_end_are_refused(tmp_path, levels):
    graph = onnx.GraphProto(name="body", node=[helper.make_node("Identity", ["x"], ["o"])]).SerializeToString()
    for _ in range(levels):
        branch = onnx.AttributeProto(name="then_branch", type=onnx.AttributeProto.GRAPH).SerializeToString()
        node = helper.make_node("If", ["c"], ["o"]).SerializeToString() + message(5, branch + message(6, graph))
        graph = message(1, node)
    begin = onnx.ModelProto(ir_version=8, opset_import=OPSETS).SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(begin + message(7, graph))

    with pytest.raises(ModelError, match="nests its graphs more than 100 messages deep"):
        describe(path)


@pytest.mark.slow
@pytest.mark.fault(27)
def test_small_bytes_that_take_much_memory_are_refused_as_such(tmp_path):
    body = onnx.FunctionProto(name="f", domain=OURS).SerializeToString() + message(7, b"") * 30_000
    begin = onnx.ModelProto(ir_version=8, opset_import=OPSETS).SerializeToString()
    graph = onnx.GraphProto(name="g", node=[helper.make_node("Relu", ["x"], ["y"])]).SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(begin + message(7, graph) + message(25, body) * 1500)

    with pytest.raises(ModelError, match="takes more than 900 MiB of memory to look at"):
        describe(path)


@pytest.mark.fault(27)
def test_a_long_line_of_functions_is_counted_without_end_or_recursion(tmp_path):
    bodies = [[helper.make_node("Relu", ["a"], ["b"])]]
    bodies += [[helper.make_node(f"f{n}", ["a"], ["b"], domain=OURS)] for n in range(5000)]
    functions = tuple(helper.make_function(OURS, f"f{n}", ["a"], ["b"], body, OPSETS) for n, body in enumerate(bodies))
    path = saved(tmp_path / "m.onnx", [helper.make_node("f5000", ["x"], ["y"], domain=OURS)], [1], functions)

    assert describe(path).inputs[0].name == "x"


PEAK = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
"""Runs a command and prints the most that it, or a process it waited for, had in memory, in KiB."""


@pytest.mark.slow
@pytest.mark.fault(27)
def test_a_million_nodes_are_refused_by_commands_that_stay_small(tmp_path):
    path = chain(tmp_path / "m.onnx", 1_000_000)

    for arguments in (("models", "add"), ("flops",)):
        begin = time.monotonic()
        # A process begins with the peak of whoever started it: a small one does, and this one may be large.
        asked = [sys.executable, "-c", PEAK, *command(*arguments, path)]
        ended = subprocess.run(asked, env=variables(tmp_path), capture_output=True, text=True, check=False)
        assert ended.returncode == 2
        assert "unfolds to more than 200,000 nodes" in ended.stderr
        assert int(ended.stdout.split()[-1]) < 1_000_000
        assert time.monotonic() - begin < 60


@pytest.mark.fault(27)
def test_a_chain_within_the_bound_is_read(tmp_path):
    assert describe(chain(tmp_path / "m.onnx", 20_000)).outputs[0].name == "x"


@pytest.mark.slow
@pytest.mark.fault(27)
@pytest.mark.parametrize(
    ("function", "argument", "told"),
    [
        (time.sleep, 60, "m.onnx cannot be read within 1 s"),
        (bytearray, 10**9, "m.onnx takes more than 64 MiB of memory"),
        (os._exit, 3, r"m.onnx broke the process that was to read it \(exit code 3\)"),
    ],
)
def test_what_cannot_be_foreseen_ends_at_the_bounds(function, argument, told):
    with pytest.raises(ModelError, match=told):
        bounded._asked((function.__module__, function.__qualname__, (argument,), {}), SMALL, "m.onnx")

    assert bounded._asked(("math", "sqrt", (4,), {}), SMALL, "m.onnx") == 2.0  # the next one is read as ever


ENDING = "import os, sys, time; os.close(int(sys.argv[1])); time.sleep(0.3); os._exit(3)"
"""The socket of a process that ends is closed before there is an exit code of it: by much, on a busy machine."""


@pytest.mark.slow
@pytest.mark.fault(27)
def test_how_a_reader_ends_is_waited_for_when_it_is_just_about_to():
    with pytest.raises(ModelError, match=r"m.onnx broke the process that was to read it \(exit code 3\)"):
        bounded._asked(("builtins", "exec", (ENDING,), {}), bounded.READING, "m.onnx")


@pytest.mark.fault(27)
def test_a_path_is_relative_to_the_folder_of_the_moment(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        saved(tmp_path / name / f"{name}.onnx", [helper.make_node("Relu", ["x"], ["y"])], [1])
        monkeypatch.chdir(tmp_path / name)
        assert describe(Path(f"{name}.onnx")).inputs, "as a notebook may change it between two calls"


def test_what_goes_wrong_within_comes_back_as_it_is():
    with pytest.raises(ZeroDivisionError):
        bounded._asked(("operator", "floordiv", (1, 0), {}), SMALL, "m.onnx")


@pytest.mark.slow
@pytest.mark.fault(27)
async def test_a_reading_that_is_cancelled_leaves_no_process():
    async def sleeping() -> None:
        await bounded.in_thread(bounded._asked, ("time", "sleep", (60,), {}), bounded.READING, "m.onnx")

    before = {one.pid for one in psutil.Process().children()}
    idle = len(bounded._idle)
    task = asyncio.create_task(sleeping())
    await asyncio.sleep(1.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.5)

    assert len(bounded._idle) == max(0, idle - 1)
    assert {one.pid for one in psutil.Process().children()} <= before


@pytest.mark.slow
@pytest.mark.fault(27)
@pytest.mark.parametrize("arguments", [("flops",), ("run", "--engine", "onnxruntime", "--dry-run")])
def test_ctrl_c_ends_a_reading_within_two_seconds(tmp_path, arguments):
    pipe = tmp_path / "model.onnx"
    doubling(pipe, 17)  # as many nodes as just may be: it takes ONNX a while
    process = subprocess.Popen(command(*arguments, pipe), env=variables(tmp_path), stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 30
        while not (readers := psutil.Process(process.pid).children(recursive=True)):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1.5)
        told_at = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert time.monotonic() - told_at < 2
        assert not [one for one in readers if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@pytest.mark.slow
@pytest.mark.fault(27)
def test_a_reading_ends_with_the_command_that_was_killed(tmp_path):
    program = "from enginebench_controller.models import bounded; "
    program += "bounded._asked(('time', 'sleep', (60,), {}), bounded.READING, 'm.onnx')"
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        deadline = time.monotonic() + 30
        while not (readers := psutil.Process(process.pid).children()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(2.0)
    finally:
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(readers, timeout=5)
    assert not alive
