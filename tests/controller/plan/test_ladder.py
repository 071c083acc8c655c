"""Ladders: which rungs a target has and why not, what each gained, and the chart that names what is missing."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from PIL import Image

import invented
from enginebench_controller.errors import InputError, PlanError
from enginebench_controller.files.ladders import check_chart_path, ladder_document, write_chart
from enginebench_controller.home import Home
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.expand import expand
from enginebench_controller.plan.ladder import LadderOrder, base_plan, plan_ladder, steps, with_sizes
from enginebench_controller.plan.plan import LadderKind, Plan, plan_toml, read_plan
from enginebench_controller.records import (
    AvailableEngine,
    Benchmark,
    Device,
    Engine,
    EngineOption,
    Failure,
    FailureKind,
    HostFacts,
    Interval,
    IntervalMethod,
    Measurement,
    TargetSnapshot,
    UnavailableEngine,
)
from enginebench_controller.verdicts.ladder import Ladder, ladder_of
from integration.bench import tiny_model
from invented import failed, measured, outputs

THROUGHPUT = ["pytorch", "openvino", "batch-4", "async", "throughput", "gpu", "auto", "cumulative"]
LATENCY = ["pytorch", "onnx", "openvino", "gpu", "threads", "hint", "shared-memory"]


def engine(name: str, *devices: str, formats: tuple[str, ...], hints: tuple[str, ...] = ("none",)) -> AvailableEngine:
    return AvailableEngine(
        name=name,
        environment="default",
        version="1.0",
        formats=formats,
        loads=("sync", "async"),
        hints=hints,
        multiple_streams=True,
        profiling=True,
        options=(EngineOption("shared_memory", "bool"),),
        devices=tuple(Device(one, one, ("f32",), (one.lower(),)) for one in devices),
    )


def openvino(*devices: str) -> AvailableEngine:
    hints = ("none", "latency", "throughput", "cumulative")
    return engine("openvino", *devices, formats=("onnx", "openvino_ir"), hints=hints)


def target(*engines: Engine, cores: int = 4) -> TargetSnapshot:
    return TargetSnapshot("nuc", "nuc:1", 1, HostFacts(physical_cores=cores), engines)


TORCH = engine("torch", "CPU", formats=("onnx", "torchscript", "torch_export"))
WHOLE = target(openvino("CPU", "GPU.0", "AUTO"), TORCH)
WITHOUT_GPU = target(openvino("CPU", "AUTO"), TORCH)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """One home for all, so that the model is converted once."""
    return Home(tmp_path_factory.mktemp("ladder"))


@pytest.fixture
def planned(home: Home, tmp_path: Path) -> Iterator[Any]:
    """Plans a ladder of a tiny model."""

    def plan(
        snapshot: TargetSnapshot, kind: LadderKind = LadderKind.THROUGHPUT, path: Path | None = None, **wish: Any
    ) -> Plan:
        source = home.library.resolve(str(path or tiny_model(tmp_path / "tiny.onnx")))
        asked = LadderOrder(kind, images=1024, **wish)
        binder = Binder(home.library, home.inputs, base_plan(asked, source))
        return plan_ladder(home.library, snapshot, binder, source, asked)

    yield plan


def fields(plan: Plan, name: str) -> Mapping[str, Any]:
    (rung,) = (rung for rung in plan.rungs if rung.name == name)
    assert rung.unavailable is None
    return rung.fields


def missing(plan: Plan) -> dict[str, str]:
    return {rung.name: rung.unavailable for rung in plan.rungs if rung.unavailable}


@pytest.mark.slow
def test_a_target_with_everything_has_every_rung_of_the_notebooks(planned: Any, home: Home) -> None:
    for kind, names in ((LadderKind.THROUGHPUT, THROUGHPUT), (LadderKind.LATENCY, LATENCY)):
        plan = planned(WHOLE, kind, cores=2)
        assert ([rung.name for rung in plan.rungs], missing(plan)) == (names, {})
        assert len(expand(plan, [WHOLE], Binder(home.library, home.inputs, plan)).cases) == len(names)


def test_a_rung_differs_only_in_its_trick(planned: Any, home: Home) -> None:
    plan = planned(WHOLE)
    source = fields(plan, "pytorch")["models"]
    ir = fields(plan, "openvino")["models"]
    assert home.library.resolve(ir[0]).parent_digest == source[0]
    assert (fields(plan, "batch-4")["batch"], fields(plan, "batch-4")["load"]) == ([4], ["sync"])
    assert (fields(plan, "async")["load"], fields(plan, "async")["hint"]) == (["async"], ["none"])
    assert fields(plan, "gpu")["devices"] == ["GPU.0"]
    assert (fields(plan, "cumulative")["devices"], fields(plan, "cumulative")["hint"]) == (["AUTO"], ["cumulative"])
    assert {tuple(fields(plan, name)["models"]) for name in THROUGHPUT[1:]} == {tuple(ir)}


def test_every_rung_infers_as_many_images(planned: Any) -> None:
    plan = planned(WHOLE, batches=(4, 3))
    iterations = {name: fields(plan, name)["iterations"] for name in ("openvino", "batch-4", "batch-3")}
    assert iterations == {"openvino": 1024, "batch-4": 256, "batch-3": 342}


def test_a_missing_gpu_is_not_available_and_says_what_there_is(planned: Any) -> None:
    assert missing(planned(WITHOUT_GPU)) == {"gpu": "openvino on target 'nuc' has no device 'GPU'; it has CPU, AUTO"}


def test_a_missing_engine_takes_only_its_own_rung_away(planned: Any) -> None:
    absent = UnavailableEngine(name="torch", environment="default", reason="no torch")
    plan = planned(target(openvino("CPU", "GPU.0", "AUTO"), absent))
    assert list(missing(plan)) == ["pytorch"] and "no torch" in missing(plan)["pytorch"]


def test_a_target_with_no_rung_at_all_is_refused_with_all_reasons(planned: Any) -> None:
    with pytest.raises(InputError, match="no rung of the ladder can be run") as caught:
        planned(target())
    assert "PyTorch: target 'nuc' has no engine 'torch'" in str(caught.value)


def test_a_ladder_of_several_targets_as_labels_may_mean_is_refused(planned: Any) -> None:
    with pytest.raises(InputError, match=r"^a ladder is of one target: give one --target$"):
        planned(WHOLE, fields={"targets": ["nuc", "board"]})


def test_rungs_can_be_skipped_and_a_wrong_name_is_told(planned: Any) -> None:
    plan = planned(WITHOUT_GPU, skipped=("gpu", "batch"), batches=(4, 8))
    assert [rung.name for rung in plan.rungs] == ["pytorch", "openvino", "async", "throughput", "auto", "cumulative"]
    with pytest.raises(InputError, match="no rung 'gpus' to skip; it has pytorch, "):
        steps(LadderKind.THROUGHPUT, (4,), ("gpus",))


def test_more_threads_means_all_cores_where_the_ladder_began_with_fewer(planned: Any) -> None:
    plan = planned(WHOLE, LadderKind.LATENCY, cores=1)
    cores = [fields(plan, name)["cores"] for name in LATENCY]
    assert cores == [[1], [1], [1], [1], [4], [4], [4]]
    reason = missing(planned(WHOLE, LadderKind.LATENCY))["threads"]
    assert reason == "all 4 cores of the target are at work already; --cores starts with fewer"


def test_memory_is_shared_only_on_the_rung_of_that_name(planned: Any) -> None:
    plan = planned(WHOLE, LadderKind.LATENCY)
    shared = {rung.name: rung.fields.get("options") for rung in plan.rungs if not rung.unavailable}
    assert shared.pop("shared-memory") == {"openvino.shared_memory": "true"}
    assert shared.pop("pytorch") == {}
    assert set(map(str, shared.values())) == {"{'openvino.shared_memory': 'false'}"}


def test_requests_in_flight_follow_the_cores(planned: Any) -> None:
    assert fields(planned(WHOLE), "async")["requests"] == [8]
    assert fields(planned(WHOLE, cores=1), "async")["requests"] == [4]
    assert fields(planned(WHOLE, requests=3), "throughput")["requests"] == [3]


@pytest.mark.slow
def test_a_fixed_batch_is_rewritten_before_it_is_converted(planned: Any, home: Home, tmp_path: Path) -> None:
    plan = planned(WHOLE, path=tiny_model(tmp_path / "fixed.onnx", batch=1))
    assert missing(plan) == {}
    child = home.library.resolve(fields(plan, "batch-4")["models"][0])
    assert child.name == "fixed-batch4-ir-fp16"


def test_an_ir_has_no_rung_on_pytorch_and_is_taken_as_it_is(planned: Any, home: Home, tmp_path: Path) -> None:
    first = planned(WHOLE)
    ir = home.library.resolve(fields(first, "openvino")["models"][0])
    plan = planned(WHOLE, path=home.library.main_path(ir))
    assert list(missing(plan)) == ["pytorch"] and "torch does not read openvino_ir" in missing(plan)["pytorch"]
    assert fields(plan, "openvino")["models"] == [ir.digest]


@pytest.mark.slow
def test_a_saved_program_is_not_touched_without_trust(planned: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.jit.save(torch.jit.trace(torch.nn.Linear(8, 4).eval(), torch.zeros(1, 8)), path)
    wish = {"path": path, "fields": {"shapes": {"x": "1x8"}}}
    with pytest.raises(InputError, match="can run any code when it is loaded; give --trust"):
        planned(WHOLE, **wish)
    plan = planned(WHOLE, trusted=True, **wish)
    assert missing(plan) == {}
    latency = planned(WHOLE, LadderKind.LATENCY, trusted=True, cores=1, **wish)
    assert missing(latency) == {"onnx": "net is torchscript, and there is no ONNX file of it"}


@pytest.mark.slow
def test_the_plan_can_be_printed_read_and_run_again(planned: Any, tmp_path: Path) -> None:
    plan = planned(WITHOUT_GPU)
    (tmp_path / "plan.toml").write_text(plan_toml(plan))
    again = read_plan(tmp_path / "plan.toml")
    assert again == plan
    assert len(again.grids()) == len(THROUGHPUT) - 1


def test_a_rung_that_became_impossible_is_refused_by_its_reason(planned: Any, home: Home) -> None:
    plan = planned(WHOLE)
    with pytest.raises(PlanError, match=r"no device 'GPU\.0'"):
        expand(plan, [WITHOUT_GPU], Binder(home.library, home.inputs, plan))


def ladder(planned: Any, kind: LadderKind = LadderKind.THROUGHPUT, **fps: float | None) -> Ladder:
    """A ladder with these images a second (None: failed); the latency is their inverse."""
    plan = planned(WITHOUT_GPU, kind, cores=1)
    measurements = [_measured(plan, name.replace("_", "-"), value) for name, value in fps.items()]
    benchmark = Benchmark("b0000001", plan.name or "", 1, plan.document() | {"digests": {}})
    return ladder_of(benchmark, measurements[::-1])


def _measured(plan: Plan, name: str, fps: float | None) -> Measurement:
    (rung,) = (rung for rung in plan.rungs if rung.name == name)
    (grid,) = plan.model_copy(update={"rungs": (rung,)}).grids()
    one = measured(f"m-{name}", engine=grid.engines[0])
    configuration = replace(
        one.configuration,
        device=grid.devices[0],
        batch=grid.batch[0],
        cores=grid.cores[0],
        load=grid.load[0],
        hint=grid.hint[0],
        options={key.partition(".")[2]: value for key, value in grid.options.items()},
    )
    common = {"model_digest": grid.models[0], "configuration": configuration}
    if fps is None:
        broken = Failure(FailureKind.CRASHED, "the child was killed")
        return replace(failed(f"m-{name}", engine=grid.engines[0]), failure=broken, **common)
    latency_ns = 1e9 / fps
    assert one.latency is not None
    latency = replace(one.latency, median_ns=latency_ns, median_interval=_around(latency_ns, 0.03))
    return replace(one, throughput_items_per_s=fps, throughput_interval=_around(fps, 0.03), latency=latency, **common)


BROKEN = Failure(FailureKind.COMPILE_FAILED, "", cause="no kernel for 'stem'")


def _around(value: float, share: float) -> Interval:
    return Interval(value * (1 - share), value * (1 + share), 0.95, IntervalMethod.PROCESSES_T)


NOTEBOOK = {"pytorch": 47.67, "openvino": 136.13, "batch_4": 131.86, "async": 140.0, "throughput": 249.34}
"""The notebook's own figures; it has none for the asynchronous rung."""


def test_gains_are_over_the_rung_before_and_over_the_first(planned: Any) -> None:
    found = {rung.name: rung for rung in ladder(planned, **NOTEBOOK, auto=248.93, cumulative=250.04).rungs}
    assert found["pytorch"].gain_over_previous is None
    batch = found["batch-4"]
    assert batch.gain_over_previous and batch.gain_over_previous.share == pytest.approx(131.86 / 136.13 - 1)
    assert batch.gain_over_first and batch.gain_over_first.share == pytest.approx(131.86 / 47.67 - 1)
    assert found["auto"].gain_over_previous and found["auto"].gain_over_previous.over == "throughput"
    assert batch.seconds_per_image == pytest.approx(1 / 131.86)


def test_a_gain_smaller_than_the_intervals_may_be_noise(planned: Any) -> None:
    found = {rung.name: rung for rung in ladder(planned, **NOTEBOOK).rungs}
    small, large = found["batch-4"].gain_over_previous, found["throughput"].gain_over_previous
    assert small and small.noise == pytest.approx(131.86 / 136.13 * 0.03 * 2**0.5) and small.is_within_noise
    assert large and not large.is_within_noise


def test_in_a_latency_ladder_less_is_a_gain(planned: Any) -> None:
    climbed = ladder(planned, LadderKind.LATENCY, pytorch=50, onnx=100, openvino=80, shared_memory=90)
    found = {rung.name: rung for rung in climbed.rungs}
    onnx, ir = found["onnx"].gain_over_previous, found["openvino"].gain_over_previous
    assert onnx and ir and (onnx.share, ir.share) == (pytest.approx(1.0), pytest.approx(-0.2))
    assert climbed.best and climbed.best.name == "onnx"


def test_what_is_missing_or_failed_has_null_and_a_reason_never_0(planned: Any) -> None:
    numbers = NOTEBOOK | {"async": None}
    document = ladder_document(ladder(planned, **numbers))
    rungs = {rung["rung"]: rung for rung in document["rungs"]}
    assert [rungs["gpu"][key] for key in ("available", "fps", "latency_ms", "measurement")] == [False, None, None, None]
    assert "has no device 'GPU'" in rungs["gpu"]["reason"]
    assert (rungs["async"]["available"], rungs["async"]["fps"], rungs["async"]["status"]) == (True, None, "failed")
    assert rungs["async"]["reason"] == "the child was killed"
    assert rungs["throughput"]["gain_over_previous"]["over"] == "batch-4"
    assert rungs["cumulative"]["reason"] == "it was not measured before the benchmark ended"
    assert document["best"] == "throughput"


def test_a_rung_keeps_its_number_beside_options_of_an_engine_whose_name_begins_like_its_own(planned: Any) -> None:
    options = {"openvino.shared_memory": "true", "openvino.next.shared_memory": "false"}
    like_it = replace(openvino("CPU"), name="openvino.next")
    plan = planned(target(*WITHOUT_GPU.engines, like_it), cores=1, fields={"options": options})
    one = _measured(plan, "openvino", 80)
    one = replace(one, configuration=replace(one.configuration, options={"shared_memory": "true"}))
    benchmark = Benchmark("b0000001", "", 1, plan.document() | {"digests": {}})
    other = replace(one, configuration=replace(one.configuration, options={"shared_memory": "false"}))
    assert [rung.fps for rung in ladder_of(benchmark, [other, one]).rungs if rung.name == "openvino"] == [80]
    assert ladder_of(benchmark, [other]).best is None, "it was not measured with the option of the rung"


def test_a_rung_with_other_outputs_is_told(planned: Any, home: Home) -> None:
    plan = planned(WITHOUT_GPU, cores=1)
    right, wrong = (_measured(plan, name, 50) for name in ("pytorch", "openvino"))
    wrong = replace(wrong, captured_outputs=(outputs(shift=1.0),))
    benchmark = Benchmark("b0000001", "", 1, plan.document())
    climbed = ladder_of(benchmark, [right, replace(wrong, throughput_items_per_s=500.0)], home.library.versions())
    found = {rung.name: rung for rung in climbed.rungs}
    assert found["openvino"].output_check and found["openvino"].output_check.problem
    assert found["openvino"].status_words == "ok ≠"
    assert climbed.best is found["pytorch"], "a fast wrong answer is no result"
    outcome = ladder_document(climbed, home.library.versions())["outcome"]
    assert (outcome["sound"], outcome["wrong_outputs"]) == (False, ["m-openvino"])


@pytest.mark.slow
def test_a_rung_that_was_mostly_disturbed_says_so_and_a_long_reason_gives_its_cause_first(
    planned: Any, tmp_path: Path
) -> None:
    plan = planned(WITHOUT_GPU, cores=1)
    busy = _measured(plan, "pytorch", 50)
    busy = replace(busy, blocks=tuple(replace(one, disturbances=(invented.DISTURBANCE,)) for one in busy.blocks))
    broken = _measured(plan, "openvino", None)
    broken = replace(broken, failure=replace(BROKEN, message=f"{'openvino failed so ' * 30}: no kernel"))
    climbed = ladder_of(Benchmark("b0000001", "", 1, plan.document()), [busy, broken], [])

    found = {rung.name: rung for rung in climbed.rungs}
    assert found["pytorch"].status_words == "ok, disturbed"
    assert found["openvino"].brief_reason == "no kernel for 'stem'"
    write_chart(climbed, tmp_path / "ladder.svg")
    drawn = (tmp_path / "ladder.svg").read_text(encoding="utf-8")
    assert "failed: no kernel for" in drawn and "50 FPS   ok, disturbed" in drawn


def test_a_benchmark_without_rungs_is_no_ladder() -> None:
    with pytest.raises(InputError, match="is no ladder"):
        ladder_of(Benchmark("b1", "plain", 1, {"schema_version": 1, "models": ["m"]}), [])


@pytest.mark.slow
def test_the_chart_names_every_rung_and_draws_bars_only_for_numbers(planned: Any, tmp_path: Path) -> None:
    path = tmp_path / "ladder.svg"
    write_chart(ladder(planned, **NOTEBOOK), path)
    text = path.read_text()
    titles = [step.title for step in steps(LadderKind.THROUGHPUT, (4,), ())]
    for words in (*titles, "47.67 FPS", "×2.86", "≈ −3.1 %", "not available: openvino on target"):
        assert words in text
    colours = [element.get("style", "") for element in ET.parse(path).iter()]
    assert sum("#5b7fa6" in style or "#2b5c8f" in style for style in colours) == len(NOTEBOOK)


def test_the_chart_is_a_picture_where_that_is_asked_for(planned: Any, tmp_path: Path) -> None:
    path = tmp_path / "ladder.png"
    write_chart(ladder(planned, LadderKind.LATENCY, pytorch=50, openvino=80), path)
    with Image.open(path) as image:
        assert image.format == "PNG" and image.width > 1000


def test_a_chart_that_cannot_be_written_is_refused_beforehand(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"written as .svg or .png, not as ladder.jpg"):
        check_chart_path(tmp_path / "ladder.jpg")
    with pytest.raises(InputError, match="there is no folder"):
        check_chart_path(tmp_path / "nowhere" / "ladder.svg")


def test_a_chart_takes_the_place_of_no_other_file(planned: Any, tmp_path: Path) -> None:
    path = tmp_path / "ladder.svg"
    path.write_text("mine")
    for write in (check_chart_path, partial(write_chart, ladder(planned, LadderKind.LATENCY, pytorch=50))):
        with pytest.raises(InputError, match=r"there is a file .*ladder.svg already; name another one$"):
            write(path)
    assert path.read_text() == "mine"


@pytest.mark.slow
def test_a_model_of_open_sizes_is_as_large_on_every_rung(planned: Any, home: Home, tmp_path: Path) -> None:
    """A conversion loses the names of dimensions, by which sizes were assumed."""
    path = tmp_path / "open.onnx"
    onnx.save(of_open_sizes(), path)
    source = home.library.resolve(str(path))
    assert missing(planned(WITHOUT_GPU, LadderKind.LATENCY, path, cores=2)).keys() > {
        "gpu"
    }  # as it is, an IR has no sizes
    sized, told = with_sizes(home.library, source, LadderOrder(LadderKind.LATENCY, images=8))
    assert told == ("dimension 'sequence' is open and was set to 128; --shape changes it",)
    plan = planned(WITHOUT_GPU, LadderKind.LATENCY, path, cores=2, fields=sized.fields)
    assert missing(plan).keys() == {"gpu"}
    cases = expand(plan, [WITHOUT_GPU], Binder(home.library, home.inputs, plan)).cases
    assert {tensor.shape for case in cases for tensor in case.configuration.inputs} == {(1, 128)}


def of_open_sizes() -> onnx.ModelProto:
    shape = ["batch", "sequence"]
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "open", sides[:1], sides[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
