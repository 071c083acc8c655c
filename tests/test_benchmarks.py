"""What the benchmarks of the harness compute and write; that they run is seen by `make benchmarks QUICK=1`."""

import json
import math
import random
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import big_store, real_files, real_models, rest  # noqa: E402
from benchmarks.__main__ import PARTS, page_of  # noqa: E402
from benchmarks.markdown import fill, markdown_table  # noqa: E402
from benchmarks.ours import _toml  # noqa: E402
from benchmarks.own_words import own_words  # noqa: E402
from benchmarks.ratio import paired_ratio, spread_ratio, variation  # noqa: E402
from benchmarks.real_files import RealModel  # noqa: E402
from benchmarks.verdict_recordings import add_line  # noqa: E402

from enginebench_controller import wire  # noqa: E402
from enginebench_controller.home import Home  # noqa: E402
from enginebench_plugins import spec  # noqa: E402
from enginebench_proto.v1 import run_pb2  # noqa: E402


def test_a_ratio_is_that_of_the_rounds_whatever_they_have_in_common() -> None:
    theirs = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    ratio = paired_ratio([1.1 * each for each in theirs], theirs)
    assert ratio.value == pytest.approx(1.1)
    assert ratio.low == pytest.approx(1.1)
    assert ratio.high == pytest.approx(1.1)


def test_the_interval_of_a_ratio_covers_the_truth_as_often_as_it_says() -> None:
    generator = random.Random(1)
    rounds = [[math.exp(generator.gauss(0, 0.05)) for _ in range(20)] for _ in range(500)]
    ratios = [paired_ratio(values[:10], values[10:]) for values in rounds]
    assert 0.95 < sum(each.low <= 1 <= each.high for each in ratios) / len(ratios) < 0.995


def test_one_round_is_no_interval() -> None:
    ratio = paired_ratio([1.0], [1.0])
    assert (ratio.low, ratio.high) == (0.0, math.inf)
    assert math.isnan(variation([1.0]))
    assert str(spread_ratio([1.0, 2.0], [1.0, 2.0])) == "nan [0.000, inf]"


def test_a_ratio_of_spreads_says_which_side_varies_less_and_when_that_cannot_be_told() -> None:
    generator = random.Random(2)
    moods = [math.exp(generator.gauss(0, 0.05)) for _ in range(20)]
    calm, restless, alike = ([mood * math.exp(generator.gauss(0, sd)) for mood in moods] for sd in (0.01, 0.15, 0.01))
    assert spread_ratio(calm, restless).high < 1 < spread_ratio(restless, calm).low
    told = spread_ratio(calm, alike)
    assert told.low <= 1 <= told.high
    assert told.value == pytest.approx(variation(calm) / variation(alike))
    assert spread_ratio([2 * each for each in calm], alike) == told


def test_a_table_goes_between_its_marks_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- /a -->\nafter\n<!-- b -->\n<!-- /b -->\n", encoding="utf-8")
    fill(page, "a", markdown_table(("x", "y"), [("1", "2")]))
    expected = "before\n<!-- a -->\n| x | y |\n| --- | ---: |\n| 1 | 2 |\n<!-- /a -->\nafter\n<!-- b -->\n<!-- /b -->\n"
    assert page.read_text(encoding="utf-8") == expected
    with pytest.raises(ValueError, match="no place for c"):
        fill(page, "c", "text")


def test_there_is_a_place_for_every_part() -> None:
    for page, part in [*((page_of(part), part) for part in PARTS), *((page_of(part), "machine") for part in PARTS)]:
        content = page.read_text(encoding="utf-8")
        assert content.count(f"<!-- {part} -->") == content.count(f"<!-- /{part} -->") == 1


def test_a_plan_is_written_as_it_is_read() -> None:
    plan = {"models": ["a.onnx"], "rate": [1.5], "interval": "0%", "options": {"fake.latency_us": "10"}}
    assert tomllib.loads(_toml(plan)) == plan


@pytest.mark.slow
def test_a_large_store_is_one_that_can_be_read(tmp_path: Path) -> None:
    home = Home(tmp_path)
    big_store.make(home, benchmarks=4, samples=2_000, layer_rows=5_000)
    rows = {table.name: table.rows for table in home.store.tables()}
    assert rows["benchmarks"] >= 4 and rows["block_samples"] >= 2_000 and rows["layers"] >= 5_000
    entries = home.store.benchmarks()
    assert len({entry.benchmark.id for entry in entries}) == len(entries)
    for entry in entries:
        whole = home.store.bundle(entry.benchmark.id)
        for one in whole.measurements:
            stored = sum(block.latency_ns.size for block in whole.samples[one.id])
            assert stored == (one.latency.samples if one.latency else 0)
    layers = [len(home.store.profile(one.id).layers) for one in home.store.profiles()]
    assert set(layers) == {1500, 3000} and sum(layers) >= 5_000
    (ladder,) = home.store.ladders()
    assert (ladder.rungs, ladder.numbered) == (7, 6)


def _row(model: str, engine: str, status: str = "ran", **more: object) -> dict[str, object]:
    return {"model": model, "engine": engine, "status": status, "problem": "", "matched": 0.97, **more}


def test_an_engine_is_held_against_the_models_that_onnx_runtime_runs() -> None:
    rows = [
        *(_row(name, "onnxruntime") for name in "abcd"),
        _row("e", "onnxruntime", "failed", reason="bad file"),
        *(_row("a", "torch"), _row("b", "torch", problem="differs by 8 %"), _row("c", "torch", "failed", own="")),
        *(_row("d", "torch", "failed", own="its tool says no"), _row("e", "torch")),
    ]
    torch = real_models.totals(rows, ("torch",)).splitlines()[-1]
    assert torch == "| torch | 2 of 4, 50% | ≥ 90% | 1 | 97% | ≥ 95% | 1 |"


def test_a_page_says_of_every_cell_what_happened_and_why() -> None:
    model = RealModel("a", Path("a.onnx"), "0" * 64, package="made-up", version="1", licence="MIT", about="sound")
    rows = [
        _row("a", "onnxruntime", flops_coverage=1.0, profile="counters are missing", matched=None),
        _row("a", "openvino", problem="differs"),
        _row("a", "torch", "failed", reason="no | converter", own=""),
        _row("a", "deepsparse", "failed", reason="Unsupported", own="Unsupported operator"),
    ]
    text = real_models.page([model], rows)
    assert "| a | = – | ≠ 97% | fails | refuses | 100% |" in text
    assert "- **a**, torch: no \\| converter" in text
    assert "- **a**, onnxruntime: counters are missing" in text
    assert "| a | sound | made-up 1 | MIT | 000000000000 |" in text


def test_the_cause_of_a_failure_is_not_the_place_in_the_sources() -> None:
    texts = json.loads(
        (Path(__file__).parent / "controller" / "records" / "failure_texts.json").read_text(encoding="utf-8")
    )
    (words,) = (one["text"] for one in texts if (one["model"], one["engine"]) == ("nemo128", "openvino"))
    told = run_pb2.Failure(kind=run_pb2.FAILURE_KIND_COMPILE_FAILED, message="cannot read it", detail=words)
    said = real_models.cause(asdict(wire.from_failure(told)))
    assert said.startswith("Unsupported input type dynamic. Shape of signal input must be static")
    assert "Node(STFT): image" in said and "-- " not in said
    ended = run_pb2.Failure(kind=run_pb2.FAILURE_KIND_CRASHED, message="it ended", stderr_tail="Assertion at x.cpp:1")
    assert real_models.cause(asdict(wire.from_failure(ended))) == "it ended: Assertion at x.cpp:1"


def test_the_list_is_as_varied_as_it_is_to_be() -> None:
    models = tomllib.loads(real_files.LIST.read_text(encoding="utf-8"))["model"]
    packages = Counter(model["package"] for model in models)
    assert len({model["sha256"] for model in models}) == len(models) >= 25
    assert len({model["name"] for model in models}) == len(models)
    assert len(packages) >= 12
    assert max(packages.values()) <= 3
    assert not {"onnx", "onnxruntime"} & packages.keys()
    assert sum(model["nodes"] >= 30 for model in models) >= 20
    assert sum(not model["about"].startswith("image") for model in models) >= 3


def test_values_are_constants_ranges_or_drawn_and_the_same_every_time() -> None:
    inputs = (
        spec.TensorSpec("ids", "int64", (None, None)),
        spec.TensorSpec("sr", "int64", ()),
        spec.TensorSpec("mask", "bool", (1, 3)),
        spec.TensorSpec("sound", "float32", (1, 4)),
    )
    values = {"ids": "5..8", "sr": "16000", "mask": "ones"}
    model = RealModel("a", Path("a.onnx"), "", shapes={"ids": "1x64"}, values=values)
    made = real_files.feed(inputs, model, seed=1)
    assert set(made["ids"].ravel()) == {5, 6, 7}
    assert made["ids"].shape == (1, 64)
    assert (made["sr"].shape, int(made["sr"])) == ((), 16000)
    assert made["mask"].all()
    assert made["sound"].dtype == "float32"
    assert (made["sound"] == real_files.feed(inputs, model, seed=1)["sound"]).all()


def test_an_unknown_file_is_tried_with_shapes_until_it_runs(tmp_path: Path) -> None:
    sound = helper.make_tensor_value_info("sound", TensorProto.FLOAT, [None, 1, None])
    state = helper.make_tensor_value_info("state", TensorProto.FLOAT, [2, None, 8])
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("p", "s")]
    nodes = [helper.make_node("MaxPool", ["sound"], ["p"], kernel_shape=[1000])]
    nodes.append(helper.make_node("Reshape", ["state", "shape"], ["s"]))
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [2, 8])
    model = helper.make_model(helper.make_graph(nodes, "g", [sound, state], made, [shape]), ir_version=8)
    model.opset_import[0].version = 17
    onnx.save(model, str(tmp_path / "odd.onnx"))
    (odd,) = real_files.found(tmp_path)
    assert odd.shapes == {"sound": "1x1x16000", "state": "2x1x8"}


def test_dimensions_of_one_name_are_guessed_to_be_of_one_size() -> None:
    """Of a graph of atoms no dimension is of one item, and one that is called like the batch is, wherever it lies."""
    atoms, edges = spec.TensorSpec("atoms", "int64", (None,)), spec.TensorSpec("edges", "int64", (2, None))
    lengths = spec.TensorSpec("lengths", "float32", (None,))
    names = {"atoms": ["atoms"], "edges": ["", "edges"], "lengths": ["edges"]}
    inputs = (atoms, edges, lengths)
    assert real_files.guess(inputs, 32, names=names)["shapes"] == {"atoms": "1", "edges": "2x32", "lengths": "32"}
    all_alike = real_files.guess(inputs, 32, real_files.Items.NONE, names)["shapes"]
    assert all_alike == {"atoms": "32", "edges": "2x32", "lengths": "32"}
    sound, state = spec.TensorSpec("sound", "float32", (None, None)), spec.TensorSpec("state", "float32", (2, None, 8))
    called = {"sound": ["batch", "samples"], "state": ["", "batch", ""]}
    assert real_files.guess((sound, state), 48, names=called)["shapes"] == {"sound": "1x48", "state": "2x1x8"}


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.onnx").write_bytes(b"\x0a\xff\xff")
    (tmp_path / "other.onnx").write_bytes(b"\x0a\xff\xff")
    assert [model.name for model in real_files.found(tmp_path)] == ["one-model", "other", "two-model"]
    assert [model.name for model in real_files.found(tmp_path, ["two-model"])] == ["two-model"]


def test_a_file_that_onnx_runtime_does_not_run_is_left_out_with_its_reason() -> None:
    rows = [
        {"model": "a", "engine": "onnxruntime", "status": "failed", "reason": "no such operator", "own": "yes"},
        {"model": "a", "engine": "torch", "status": "failed", "reason": "unknown"},
    ]
    text = real_models.page([RealModel("a", Path("a.onnx"), "0" * 64)], rows)
    assert "### Left out, as ONNX Runtime does not run them\n\n- **a**, onnxruntime: no such operator" in text
    assert "### Failures" not in text
    assert "### Refusals" not in text


def test_an_engine_that_was_asked_alone_has_its_total() -> None:
    rows = [{"model": "a", "engine": "torch", "status": "ran", "problem": ""}]
    assert "1 of 1, 100%" in real_models.totals(rows, ("torch",))


def test_a_file_that_is_no_model_is_left_to_the_product_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"\x0a\xff\xff")
    (broken,) = real_files.found(tmp_path)
    assert broken.shape_options == []
    assert own_words("onnxruntime", broken, None).startswith("no ONNX file: ")
    assert own_words("torch", broken, None) == ""


def test_a_note_beside_files_says_what_they_need(tmp_path: Path) -> None:
    onnx.save(onnx.ModelProto(), str(tmp_path / "a.onnx"))
    note = '[[model]]\nname = "a"\nshapes = { x = "1x7" }\nvalues = { x = "ones" }\n'
    (tmp_path / "real_models.toml").write_text(note, encoding="utf-8")
    (model,) = real_files.found(tmp_path)
    assert (model.shapes, model.values) == ({"x": "1x7"}, {"x": "ones"})
    assert model.shape_options == ["--shape", "x=1x7"]


def test_a_file_is_read_out_of_wheels_and_source_archives(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"weights")
    with zipfile.ZipFile(tmp_path / "p.whl", "w") as wheel:
        wheel.write(tmp_path / "m.onnx", "p/m.onnx")
    with tarfile.open(tmp_path / "p.tar.gz", "w:gz") as sources:
        sources.add(tmp_path / "m.onnx", "p/m.onnx")
    for archive in (tmp_path / "p.whl", tmp_path / "p.tar.gz"):
        assert real_files.read_member(archive, "p/m.onnx") == b"weights"
        with pytest.raises(RuntimeError, match=r"has no p/n\.onnx"):
            real_files.read_member(archive, "p/n.onnx")


def test_the_spread_of_neighbours_leaves_out_what_processes_differ_by() -> None:
    generator = random.Random(3)
    of_processes = [[offset + generator.gauss(0, 0.05) for _ in range(200)] for offset in (-0.4, 0.0, 0.7)]
    assert rest.pooled_sd(of_processes) == pytest.approx(0.05, rel=0.1)
    assert rest.log_ratios([1.0, 2.0], [math.e, 2.0, 3.0]) == pytest.approx([1.0, 0.0])


def test_a_round_of_resting_is_one_row_and_stops_are_counted_by_victim() -> None:
    blocks = [1e6, 1.1e6, 0.9e6, 1e6]
    rounds = [rest.Round("onnxruntime", "net", (blocks, blocks), blocks, 0.02, 0.01, "here")] * 2
    row = rest.spread_table(rounds).splitlines()[-1]
    assert row.startswith("| onnxruntime, net | 8 | 0.000 |") and "| 2.0% | 1.0% | 1.000 " in row
    stops = [rest.Stop("child", 20.0, True, 1.01, "here"), rest.Stop("child", 20.0, False, 0.8, "here")]
    assert rest.stop_table(stops).splitlines()[-1] == "| child | 20 s | 2 | 1 | 1 | 20.0% |"


def test_stops_of_another_machine_are_no_part_of_what_is_measured_here(tmp_path):
    path = tmp_path / "stops.jsonl"
    here = rest.Stop("child", 20.0, told=True, ratio=1.0, machine=rest.machine())
    for one in (here, replace(here, machine="another")):
        add_line(path, one)
    assert rest.stops(path) == [here]


def test_whoever_was_stopped_least_often_is_next_until_all_were_often_enough():
    order = random.Random(1)
    assert rest._due(["a", "b"], ["a"], 2, order) == "b"
    assert rest._due(["a", "b"], ["a", "b", "b"], 2, order) == "a"
    assert rest._due(["a", "b"], ["a", "a", "b", "b"], 2, order) == ""
