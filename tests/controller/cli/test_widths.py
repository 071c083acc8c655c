"""Tables in terminals of any width: no cell of more than two lines, ids whole, and what is missing is said."""

import json
import re
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.table import Table
from typer.testing import CliRunner

import invented
import invented_bisects
import invented_profiles
import offered
from controller.verdicts.pairs import arms
from enginebench_controller.cli import console, make_app
from enginebench_controller.cli.commands import bisect
from enginebench_controller.cli.commands.profiles import print_summary
from enginebench_controller.cli.commands.targets import print_devices, print_found
from enginebench_controller.cli.fitting import (
    DETAILS,
    GO_LAST,
    SAID_ONCE,
    WHOLE,
    TableColumn,
    fitted,
    kind_of,
    told_apart,
    two_lines,
)
from enginebench_controller.cli.tables import print_gate, print_measurements
from enginebench_controller.plan.plan import GateTerms
from enginebench_controller.records import Device, EngineRef, Failure, FailureKind, Status, Target
from enginebench_controller.store.store import Store
from enginebench_controller.targets.health import Health, HealthAnswer
from enginebench_controller.verdicts.gate.results import GateResult, judge

pytestmark = pytest.mark.xdist_group("widths")  # one worker fills the store for all of them

LONG = "vision_transformer_large_patch14_reg4_dinov2.finetuned-imagenet1k-int8-qdq-simplified"
MODELS = (LONG, "模型分类网络五十层量化版本 très élégant", "a model of many short words, each of which may part")
ENGINES = (
    EngineRef("onnxruntime", "default", "1.23.2"),
    EngineRef("onnxruntime", "an-environment-of-a-long-name", "1.20.1"),
    EngineRef("openvino", "default", "2026.2.0-21345-0a1b2c3d4e5-releases/2026/2"),
    EngineRef("torch", "default", "2.9.0+cpu.cxx11.abi.build20261101"),
    EngineRef("deepsparse", "default", "1.7.1"),
    EngineRef("двигатель", "default", "1.0"),
    EngineRef("[bold]markup[/bold]", "[/x]", "[link=https://example.com]1[/link]"),
    EngineRef("e\x1b[31mscaping", "default", "1\r\n2"),
)
SENTENCE = "the engine could not compile the model, since its operator is of a version that it has no kernel for. " * 4
FAILURE = Failure(FailureKind.COMPILE_FAILED, SENTENCE, SENTENCE)
TARGETS = ("local", "a-board-with-a-long-name.example.com")
IDS = ("4f0c9a1b2d3e", "4f0c9a1b2d3f")
PROFILE_IDS = ("0123456789abcdef" * 2, "fedcba9876543210" * 2)
COMMANDS = (("list",), ("show", IDS[0]), ("compare", IDS[0]), ("profiles", "list"), ("targets", "list"))


def fill(store):
    """Two benchmarks of eight engines, profiles and targets, with all that makes cells long."""
    for identity, batches in zip(IDS, ((1, 128), (4,)), strict=True):
        store.add_benchmark(replace(invented.benchmark(identity, ", ".join(MODELS)), rerun_of=IDS[0]))
        for place, engine in enumerate(ENGINES):
            for batch in batches:
                add(store, identity, f"{identity}-{place}-{batch}", engine, batch)
    for identity, engine, model in zip(PROFILE_IDS, ENGINES[2:], MODELS, strict=False):
        store.add_profile(invented_profiles.profile(identity, name=LONG, model_name=model, engine=engine))
    for name, address in zip(TARGETS, ("127.0.0.1:50151", "ssh://someone@a-board.example.com:2222/50152"), strict=True):
        store.add_target(Target(name, address, invented.CREATED_NS))


def add(store, benchmark, identity, engine, batch):
    model = MODELS[batch % len(MODELS)]
    fields = {"engine": engine.name, "batch": batch, "target": TARGETS[batch % 2], "model_name": model}
    one = invented.measured(identity, benchmark, **fields, status=Status.INCONCLUSIVE, noisy=True)
    if engine.name == "deepsparse":
        one = invented.failed(identity, benchmark, **fields, failure=FAILURE)
    store.add_measurement(replace(one, engine=engine), invented.samples(identity) if one.latency else ())


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("wide")
    fill(Store(home / "results.duckdb"))
    return home


@pytest.fixture
def ruled(monkeypatch):
    """Draws a line between the rows of tables, so that their lines can be counted."""
    monkeypatch.setattr(console, "Table", partial(Table, show_lines=True))


def rows_of(printed):
    """The rows of all tables, headings first: lists of lines."""
    rows = [[]]
    for line in printed.splitlines():
        if line.startswith(("│", "┃")):
            rows[-1].append(line)
        else:
            rows.append([])
    return [row for row in rows if row]


def check(printed, width):
    rows = rows_of(printed)
    assert len(rows) > 1
    assert max(map(len, rows)) <= 2, "a cell of more than two lines"
    assert max(cell_len(line) for row in rows for line in row) <= width
    assert all(one.isprintable() or one == "\n" for one in printed)


@pytest.mark.slow
@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_cell_has_more_than_two_lines_and_ids_are_whole(home, ruled, command, width):
    done = CliRunner().invoke(make_app(), list(command), env={"ENGINEBENCH_HOME": str(home), "COLUMNS": str(width)})
    check(done.stdout, width)
    lines = done.stdout.splitlines()
    for identity in {("list",): IDS, ("profiles", "list"): [one[:12] for one in PROFILE_IDS]}.get(command, ()):
        assert any(re.search(rf"\b{identity}\b", line) for line in lines), identity


@pytest.mark.slow
def test_the_starts_of_ids_in_lists_are_taken_by_commands(home):
    environment = {"ENGINEBENCH_HOME": str(home), "COLUMNS": "80"}
    for command, identity in ((("show",), IDS[0]), (("profiles", "show"), PROFILE_IDS[0][:12])):
        done = CliRunner().invoke(make_app(), [*command, identity, "--json"], env=environment)
        assert identity in json.dumps(json.loads(done.stdout))


@pytest.mark.slow
def test_eighty_columns_have_what_a_measurement_is_known_by(home):
    environment = {"ENGINEBENCH_HOME": str(home), "COLUMNS": "80"}
    done = CliRunner().invoke(make_app(), ["show", IDS[1]], env=environment)
    headings = " ".join(line for line in done.stdout.splitlines() if line.startswith("┃"))
    assert all(word in headings for word in ("engine", "batch", "cores", "median", "items/s", "status"))
    assert "in all rows: " in done.stderr and f"model {MODELS[1]}" in done.stderr and "device CPU" in done.stderr
    assert "no room for: " in done.stderr


def test_the_engines_of_targets_and_why_some_are_missing(ruled, capsys, monkeypatch):
    device = Device(
        "GPU.0", "Intel(R) Data Center GPU Flex 170 of a name that goes on", ("f32", "bf16", "f16"), ("gpu",)
    )
    engines = [offered.engine(one.name, one.environment, version=one.version) for one in ENGINES]
    engines = [replace(one, devices=(*one.devices, device)) for one in engines]
    seen = [offered.target(*engines, offered.missing("deepsparse", SENTENCE), name=name) for name in TARGETS]
    for width in (40, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        print_devices(seen, hidden=False)
        printed = capsys.readouterr().out
        check(printed, width)
        assert f"deepsparse is unavailable on {TARGETS[1]}: the engine could not compile" in printed


def test_of_many_engines_each_has_one_line_and_those_that_are_missing_stand_below(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    names = [f"engine{number}" for number in range(12)]
    devices = ("CPU", "GPU.0")
    engines = [offered.engine(name, f"env{number % 9}", devices=devices) for number, name in enumerate(names)]
    seen = offered.target(*engines, offered.missing("absent"))
    print_devices([replace(seen, host=replace(seen.host, cpu_model="invented CPU"))], hidden=False)
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.startswith("│ ")]
    assert [line.split("│")[2].strip() for line in lines] == names
    assert all("CPU, GPU.0 (invented GPU.0)" in line for line in lines), "the processor is told once, of the machine"
    assert "local: invented CPU, 2 cores" in printed and "absent is unavailable on local" in printed


def test_a_pipe_loses_nothing(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    columns = [("id", False), ("threads", True), ("name", False)]
    console.print_table("", columns, [["4f0c9a1b2d3e", 1, LONG * 6], ["4f0c9a1b2d3f", 1, LONG * 6]])
    printed = capsys.readouterr()
    assert "threads" in printed.out and printed.err == ""
    told = "".join(line.split("│")[3].strip() for line in printed.out.splitlines() if line.startswith("│"))
    assert told == LONG * 12


@pytest.mark.slow
def test_what_is_asked_for_by_sql_is_shown_whole(home):
    environment = {"ENGINEBENCH_HOME": str(home), "COLUMNS": "60"}
    done = CliRunner().invoke(make_app(), ["query", "SELECT repeat('x', 500) AS id, 123456 AS p"], env=environment)
    assert done.stdout.count("x") == 500 and "123456" in done.stdout and done.stderr == ""


@pytest.mark.parametrize("said", ["0", "1", "x", "-5", "9" * 30])
def test_a_width_that_cannot_be_is_no_error(said, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", said)
    console.print_table("a title", [("id", False), ("name", False)], [["4f0c9a1b2d3e", LONG]])
    assert "4f0c9a1b2d3e" in capsys.readouterr().out


TEXTS = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), max_size=60)
HEADINGS = TEXTS | st.sampled_from([*SAID_ONCE, *DETAILS, *GO_LAST])
COLUMNS = st.lists(st.tuples(HEADINGS, st.lists(TEXTS, min_size=3, max_size=3), st.booleans()), min_size=1, max_size=9)


@given(COLUMNS, st.integers(20, 200))
def test_what_is_chosen_fits(columns, room):
    known = [TableColumn(heading, cells, is_whole) for heading, cells, is_whole in columns]
    widths = fitted(known, room)
    assert widths and list(widths) == sorted(widths)
    assert sum(width + 3 for width in widths.values()) + 1 <= room


@given(TEXTS, st.integers(4, 40))
def test_two_lines_hold_both_ends_of_a_text(text, width):
    lines = two_lines(text, width).split("\n")
    assert len(lines) <= 2 and all(cell_len(line) <= width for line in lines)
    assert "…" in lines[-1] or "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert text.startswith(lines[0]) and text.endswith(lines[-1].lstrip("…"))


@pytest.mark.parametrize(
    ("name", "width", "lines"),
    [
        ("squeezenet1.1-int8-qdq", 18, ["squeezenet1.1-", "int8-qdq"]),
        ("zoo:mobilenet_v2", 12, ["zoo:", "mobilenet_v2"]),
        ("a model of words", 10, ["a model of", "words"]),
        ("resnet50-quantized-once-more-and-once-again", 18, ["resnet50-quantized", "…-and-once-again"]),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 13, ["ABCDEFGHIJKLM", "NOPQRSTUVWXYZ"]),
        ("1.02 by medians, 4.15 by means", 10, ["1.02 by", "…by means"]),
        ("1.02 by medians, 4.15 by means", 13, ["1.02 by", "…by means"]),
    ],
)
def test_a_name_is_parted_behind_a_joint(name, width, lines):
    assert two_lines(name, width).split("\n") == lines


@given(TEXTS, st.lists(TEXTS, max_size=6), TEXTS, st.integers(4, 40))
def test_what_differs_in_a_column_reads_differently(start, middles, end, width):
    texts = [one for middle in middles if cell_len(one := f"{start}{middle}{end}") <= 8 * width]
    told = told_apart(texts, width)
    assert len(set(told)) == len(set(texts))


def test_reasons_of_a_page_each_are_cut_though_they_differ_in_the_middle():
    told = told_apart([f"{'it failed ' * 300}{code}{' as before' * 300}" for code in (1, 2)], 20)
    assert all(len(one.split("\n")) == 2 for one in told)


def test_rows_that_differ_in_their_middle_are_whole(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "36")
    alike = "openvino, batch 1, {}2 requests at a time, at most, with a hint for throughput, in its order"
    names = [alike.format(""), alike.format("2 streams, "), f"{alike.format('')} with some other end"]
    console.print_table("", [("", False), ("items/s", True)], [[one, place] for place, one in enumerate(names)])
    column = [line.split("│")[1].strip() for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    told = " ".join(column)
    assert "openvino, batch 1, 2 streams, 2 requests" in told
    assert names[0] in told and "…" in told, "only those that would read alike are longer"


@pytest.mark.parametrize("room", [40, 60, 80])
def test_of_a_comparison_of_layers_the_answer_goes_last(room):
    headings = ("layer", "operator", "A ms", "A precision", "B ms", "B precision", "Δ ms", "ratio", "B is")
    row = ("conv_s3", "Conv", "2.682 ±119%", "f32", "1.248 ±51%", "f32", "-1.434", "0.465", "within noise")
    columns = [
        TableColumn(heading, [cell], kind_of(heading) in WHOLE) for heading, cell in zip(headings, row, strict=True)
    ]
    kept = [headings[place] for place in fitted(columns, room)]
    assert {"layer", "ratio", "B is"} <= set(kept)
    assert len(kept) > 6 or not {"A precision", "B precision"} & set(kept)


def test_rows_that_are_not_all_are_not_called_so(ruled, monkeypatch, capsys):
    monkeypatch.setattr(console, "asked_width", lambda: 12)
    for of, said in ((None, "in all rows: "), (2, "in all rows: "), (3, "in these rows: ")):
        console.print_table("T", [("name", False), ("precision", False)], [["a" * 9, "f32"], ["b" * 9, "f32"]], of=of)
        assert f"{said}precision f32" in capsys.readouterr().err


def test_names_of_models_are_whole_or_parted_behind_joints_beside_all_that_a_measurement_has(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    names = ("mobilenet-v2-quantized", "squeezenet-pruned90", "efficientformer_l1-int8")
    measured = [
        replace(invented.measured(f"m{place}", engine="onnxruntime"), model_name=name)
        for place, name in enumerate(names)
    ]
    print_measurements("models", measured)
    printed = capsys.readouterr().out
    column = [line.split("│")[1].strip() for line in printed.splitlines() if line.startswith("│")]
    assert "".join(column) == "".join(sorted(names))
    assert "onnxruntime" in printed
    starts = {name[: name.rindex(part)] for name in names for part in column if name.endswith(part)}
    assert all(start == "" or start.endswith(("-", "_")) for start in starts), column


def test_a_gate_fits_into_eighty_columns(ruled, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    terms, slow = GateTerms(), {"base_ns": 2_345_678_901, "energy_uj": 123_456_789, "size_bytes": 345_678_901}
    roles = dict.fromkeys(("base", "head", "control"), invented.measured("m0000001"))
    print_gate(GateResult(invented.benchmark(), terms, judge(terms, arms(1.05, scatter=0.2, **slow)), roles))
    printed = capsys.readouterr().out
    check(printed[printed.index("┏") :], 80)
    assert all(word in printed for word in ("* latency", "inference", "head", "345.679"))


@pytest.mark.parametrize("width", [24, 40, 60])
def test_the_figures_of_a_profile_are_whole_however_many_lines_they_take(monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", str(width))
    uneven = [replace(one, time_ns=(5_000, 6_000, 40_000)) for one in invented_profiles.layers()[:1]]
    one = invented_profiles.profile(PROFILE_IDS[0], layers=tuple(uneven), unprofiled_latency_ns=6_400)
    print_summary(one)
    printed = capsys.readouterr().out
    assert max(map(cell_len, printed.splitlines())) <= width and "…" not in printed
    lines = [line.split("│")[2].strip() for line in printed.splitlines() if line.startswith("│")]
    assert "".join(lines).startswith(one.id)
    assert {"0.94", "by", "medians,", "2.66", "means", "6.91", "50.0"} <= set(" ".join(lines).split())


def test_targets_that_are_found_can_be_added_from_what_is_shown(ruled, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    address = "a-board-with-a-long-name.example.com:50151"
    found = HealthAnswer(Target("board", address, invented.CREATED_NS), Health.UNREACHABLE, 0.1, SENTENCE.strip())
    print_found([found], [None])
    printed = capsys.readouterr()
    check(printed.out, 80)
    assert address in printed.out
    assert f"board at {address}: {SENTENCE.strip()}" in printed.err


def test_the_path_of_the_results_is_one_line(tmp_path, monkeypatch):
    home = tmp_path / ("a-folder-of-a-long-name-" * 4)
    done = CliRunner().invoke(make_app(), ["store", "check"], env={"ENGINEBENCH_HOME": str(home), "COLUMNS": "40"})
    assert str(home / "results.duckdb") in done.stdout.splitlines()


def test_a_bisect_in_fifty_columns_keeps_its_ratios_and_says_which_columns_are_missing(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "50")
    figures = {"difference": 0.661, "base_figure": 376.0e6, "head_figure": 380.9e6}
    gates = tuple(one.model_copy(update=figures) for one in invented_bisects.ANSWER.gates)
    bisect.tell(invented_bisects.search(invented_bisects.ANSWER.model_copy(update={"gates": gates})), as_json=False)
    printed = capsys.readouterr()
    assert max(map(cell_len, printed.out.splitlines())) <= 50
    rows = [line for line in printed.out.splitlines() if line.startswith("│")]
    assert any("1.001×" in line and "as good" in line for line in rows)
    (missing,) = [line for line in printed.err.splitlines() if line.startswith("no room for: ")]
    told = missing.removeprefix("no room for: ").removesuffix("; a wider terminal shows them").split(", ")
    assert {"95 % interval", "worse by less than"} <= set(told) <= set(bisect.WAY)


def test_searches_of_a_kind_are_told_apart_in_a_narrow_list(monkeypatch, tmp_path):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    store = Store(tmp_path / "results.duckdb")
    names = ("bisect of a-model-v1.onnx to a-model-v5.onnx on onnxruntime", "bisect of b.onnx to c.onnx on openvino")
    for place, name in enumerate(names):
        store.add_search(replace(invented_bisects.search(None), id=f"5ea4c000000{place}", name=name))
    done = CliRunner().invoke(make_app(), ["list"], env={"COLUMNS": "50"})
    column = [line.split("│")[2].strip() for line in done.stdout.splitlines() if line.startswith("│")]
    told = " ".join(column)
    assert all(name in told for name in names), told
