"""From plan to cases: lists multiply out, the impossible is refused with its reason, nothing is left out silently."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from enginebench_controller.errors import InputError, ModelError, PlanError
from enginebench_controller.plan.configurations import (
    BoundModel,
    does_not_fit,
    names_of,
    options_of,
    select_engines,
)
from enginebench_controller.plan.expand import Expansion, expand, in_random_order
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.records import (
    Arrivals,
    AvailableEngine,
    CoreCluster,
    Device,
    Engine,
    EngineOption,
    HostFacts,
    InputFile,
    InputSet,
    InputTensor,
    Load,
    ModelFile,
    ModelVersion,
    TargetSnapshot,
    UnavailableEngine,
    UnavailableKind,
)

ONNX = ModelVersion("a" * 64, "net", "onnx", (ModelFile("net.onnx", "a" * 64, 10),), 1)
INPUTS = (InputTensor("input", "float32", (1, 3)),)


def device(name: str = "CPU", precisions: tuple[str, ...] = ("f32",)) -> Device:
    return Device(name, name, precisions, ("cpu",))


def engine(name: str, environment: str = "default", version: str = "1.0", **changes: Any) -> AvailableEngine:
    available = {
        "version": version,
        "formats": ("onnx",),
        "loads": ("sync", "async"),
        "hints": ("none",),
        "profiling": True,
        "options": (EngineOption("level", "str", ("low", "high")), EngineOption("spin", "bool")),
        "devices": (device(),),
    }
    return AvailableEngine(name=name, environment=environment, hidden=name == "fake", **available | changes)


def missing(name: str, reason: str) -> UnavailableEngine:
    return UnavailableEngine(name=name, environment="default", kind=UnavailableKind.NOT_INSTALLED, reason=reason)


def target(*engines: Engine, name: str = "nuc", cores: int | None = 2, quota: float | None = None) -> TargetSnapshot:
    return TargetSnapshot(name, "nuc:1", 1, HostFacts(physical_cores=cores, cpu_quota_cores=quota), engines)


def expanded(*targets: TargetSnapshot, **fields: Any) -> Expansion:
    return expand(
        make_plan({"models": ["net"], **fields}, "run"), targets, lambda _name, _batch: BoundModel(ONNX, INPUTS)
    )


def refusal(*targets: TargetSnapshot, **fields: Any) -> str:
    with pytest.raises(InputError) as caught:
        expanded(*targets, **fields)
    return str(caught.value)


def test_lists_multiply_out_over_targets_engines_and_axes() -> None:
    both = [target(engine("ort"), engine("vino"), name=name) for name in ("nuc", "board")]
    cases = expanded(*both, batch=[1, 4], cores=[1, 2]).cases
    assert len(cases) == 2 * 2 * 2 * 2
    assert len({(j.target, j.engine.name, j.configuration.batch, j.configuration.cores) for j in cases}) == 16


def test_cores_default_to_all_of_the_target() -> None:
    assert [case.configuration.cores for case in expanded(target(engine("ort"), cores=6)).cases] == [6]


def test_what_runs_an_inference_on_one_thread_gets_no_more_cores_than_requests() -> None:
    machine = target(engine("one", single_threaded=True), cores=6)
    cases = expanded(machine, load=["sync", "async"], requests=[4]).cases
    assert [(case.configuration.load, case.configuration.cores) for case in cases] == [(Load.SYNC, 1), (Load.ASYNC, 4)]
    assert "one thread, and 2 cores are asked for 1 in flight" in refusal(machine, cores=[2])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cores": [64]}, "64 cores are asked for, and the target has 2"),
        ({"precision": ["bf16"]}, "cannot execute in bf16; it has f32"),
        ({"streams": [2], "load": ["async"]}, "runs one stream"),
        ({"hint": ["throughput"]}, "does not know the hint throughput"),
        ({"devices": ["GPU"]}, "no device 'GPU'; it has CPU"),
        ({"engines": ["orte"]}, "did you mean 'ort'"),
        ({"engines": ["nosuch"]}, "has no engine 'nosuch'; it has: ort"),
        ({"engines": ["ort@old"]}, "only in: default"),
        ({"options": {"ort.speed": "9"}}, "has no option 'speed'"),
        ({"options": {"ort.level": "middle"}}, "choose from low, high"),
        ({"options": {"ort.spin": "YES"}}, "takes true or false"),
        ({"options": {"ort.num_threads": "4"}}, "; --cores says it to every engine"),
        ({"options": {"ort.performance_hint": "LATENCY"}}, "; --hint says it to every engine"),
        ({"options": {"nobody.level": "low"}}, "belongs to no engine"),
        ({"load": ["open-loop"]}, "needs a rate"),
        ({"rate": [5]}, "for the load open-loop only"),
        ({"arrivals": "constant"}, "for the load open-loop only"),
        ({"image": {"resize": "crop"}}, "name it with --inputs"),
        ({"requests": [3]}, "sync sends one at a time"),
        ({"load": ["open-loop"], "rate": [5], "interleave": "device"}, "cannot be interleaved"),
    ],
)
def test_the_impossible_is_refused_with_its_reason(fields: dict[str, Any], words: str) -> None:
    assert words in refusal(target(engine("ort")), **fields)


def test_a_batch_that_an_engine_cannot_run_is_refused_before_anything_is_sent() -> None:
    single = target(engine("one", batches=(1,)))
    assert "it runs batches of 1, and one of 4 is asked for" in refusal(single, batch=[4])
    several = target(engine("ort", batches=(*range(1, 129), 256, 257)))
    assert "it runs batches of 1 to 128, 256, 257, and one of 200 is asked for" in refusal(several, batch=[200])
    assert len(expanded(single, batch=[1]).cases) == 1


def test_an_open_loop_needs_an_engine_whose_requests_overlap() -> None:
    text = refusal(target(engine("ort", loads=["sync"])), load=["open-loop"], rate=[5])
    assert "cannot carry the load open-loop; it has sync" in text


def test_loads_rates_and_requests_are_axes_and_only_an_open_loop_has_arrivals() -> None:
    cases = expanded(target(engine("ort")), load=["sync", "async", "open-loop"], rate=[5, 50], requests=[2, 4]).cases
    axes = [(j.configuration.load, j.configuration.requests, j.configuration.arrivals) for j in cases]
    slow, fast = Arrivals(5), Arrivals(50)
    overlapping = [(Load.OPEN_LOOP, requests, rate) for requests in (2, 4) for rate in (slow, fast)]
    assert axes == [(Load.SYNC, 1, None), (Load.ASYNC, 2, None), (Load.ASYNC, 4, None), *overlapping]


@pytest.mark.parametrize(("cores", "quota", "usable"), [(8, 2.5, 2), (8, 16.0, 8), (8, 0.5, 1), (None, 3.0, 3)])
def test_cores_end_at_the_quota_of_the_control_group(cores: int | None, quota: float, usable: int) -> None:
    limited = target(engine("ort"), cores=cores, quota=quota)
    assert [case.configuration.cores for case in expanded(limited).cases] == [usable]
    assert f"{usable + 1} cores are asked for" in refusal(limited, cores=[usable + 1])


@pytest.mark.parametrize(("quota", "usable"), [(None, 8), (16.0, 8), (3.5, 3)])
def test_where_no_physical_cores_are_told_each_processor_counts_as_one_and_that_is_said(
    quota: float | None, usable: int
) -> None:
    masked = TargetSnapshot("box", "box:1", 1, HostFacts(logical_cores=8, cpu_quota_cores=quota), (engine("ort"),))
    for wish in ([], ["all"]):
        expansion = expanded(masked, cores=wish)
        assert [case.configuration.cores for case in expansion.cases] == [usable]
        assert [note for note in expansion.notes if "each of its 8 processors counts as one" in note]
    assert expanded(masked, cores=[2]).notes == ()
    assert "9 cores are asked for, and the target has" in refusal(masked, cores=[9])


def test_given_inputs_are_part_of_the_configuration_and_of_what_is_uploaded() -> None:
    given = InputSet(0, 1, "cats", ((InputFile("input", "b" * 64, 100),),), "as they are")
    paths = {"b" * 64: Path("cats.npy")}
    model = BoundModel(ONNX, INPUTS, input_set=given, input_paths=paths)
    (case,) = expand(make_plan({"models": ["net"]}, "run"), [target(engine("ort"))], lambda *_: model).cases
    assert (case.configuration.input_set, case.input_paths) == (given, paths)


def test_the_order_of_runs_is_random_and_the_same_for_the_same_seed() -> None:
    cases = expanded(target(engine("ort")), batch=list(range(1, 21))).cases
    assert in_random_order(cases, 3) == in_random_order(cases, 3)
    orders = [in_random_order(cases, seed) for seed in range(5)]
    assert len({tuple(map(id, order)) for order in (cases, *orders)}) == 6
    assert all({*map(id, order)} == {*map(id, cases)} for order in orders)


def test_more_configurations_than_can_take_turns_are_refused() -> None:
    batches = list(range(1, 66))
    assert "65 configurations of one device" in refusal(target(engine("ort")), batch=batches, interleave="device")
    assert len(expanded(target(engine("ort")), batch=batches[:64], interleave="device").cases) == 64


def test_every_reason_is_told_and_nothing_is_run_by_halves() -> None:
    text = refusal(target(engine("ort")), cores=[1, 64], precision=["f32", "f16"])
    assert "64 cores" in text and "f16" in text and text.startswith("nothing was run")


def test_a_missing_engine_is_refused_with_its_own_reason() -> None:
    assert "pip install it" in refusal(target(missing("vino", "not here: pip install it")), engines=["vino"])


def test_a_target_without_engines_is_named_with_where_its_reasons_stand() -> None:
    assert refusal(target()).endswith("target 'nuc' has no available engine; see `enginebench devices --target nuc`")


def test_where_no_environment_could_be_asked_that_is_the_reason_and_no_engine_of_its_name_is_offered() -> None:
    broken = replace(missing("default", "The environment 'default' ended its process."), environment="default")
    for engines in (["vino"], ["all"]):
        text = refusal(target(broken), engines=engines)
        assert "engines of target 'nuc' are not known: The environment 'default' ended its process." in text
    assert "has no engine 'vino'; it has: ort" in refusal(target(broken, engine("ort")), engines=["vino"])


def test_a_model_error_is_told_for_its_batch() -> None:
    def bind(_name: str, batch: int) -> BoundModel:
        if batch == 4:
            raise ModelError("its batch is fixed at 1")
        return BoundModel(ONNX, INPUTS)

    with pytest.raises(InputError, match="net, batch 4: its batch is fixed at 1"):
        expand(make_plan({"models": ["net"], "batch": [1, 4]}, "run"), [target(engine("ort"))], bind)


def test_all_leaves_out_engines_that_do_not_read_the_format_and_says_so() -> None:
    expansion = expanded(target(engine("ort"), engine("ir_only", formats=["openvino_ir"])))
    assert [case.engine.name for case in expansion.cases] == ["ort"]
    assert expansion.notes == ("left out: ir_only does not read onnx (net)",)


def test_a_named_engine_that_does_not_read_the_format_is_refused() -> None:
    assert "does not read onnx" in refusal(target(engine("ir", formats=["openvino_ir"])), engines=["ir"])


def test_async_requests_follow_the_streams_and_sync_has_one() -> None:
    streaming = engine("vino", multiple_streams=True)
    cases = expanded(target(streaming), load=["async"], streams=[1, 3]).cases
    assert [(j.configuration.load, j.configuration.requests) for j in cases] == [(Load.ASYNC, 2), (Load.ASYNC, 3)]
    assert [case.configuration.requests for case in expanded(target(streaming)).cases] == [1]


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        ("ort", [("ort", "default")]),
        ("ort@old", [("ort", "old")]),
        ("ort@*", [("ort", "default"), ("ort", "old")]),
        ("sparse", [("sparse", "ds")]),
        ("all", [("ort", "default"), ("ort", "old"), ("sparse", "ds")]),
        ("fake", [("fake", "default")]),
    ],
)
def test_selection_of_engines(selection: str, chosen: list[tuple[str, str]]) -> None:
    engines = [
        engine("ort"),
        engine("ort", "old", version="0.9"),
        engine("ort", "same", version="1.0"),
        engine("sparse", "ds"),
        engine("fake"),
    ]
    if selection == "ort@*":
        engines = [e for e in engines if e.environment != "same"]
    found, problems = select_engines([selection], engines, "nuc")
    assert ([(e.name, e.environment) for e in found], problems) == (chosen, [])


def test_what_one_of_all_engines_cannot_do_is_left_out_and_said() -> None:
    able, unable = engine("vino", hints=["none", "throughput"]), engine("ort")
    expansion = expanded(target(able, unable), hint=["throughput"], load=["async"])
    assert [case.engine.name for case in expansion.cases] == ["vino"]
    assert expansion.notes == ("ort on nuc CPU: it does not know the hint throughput; it has none",)
    assert "ort on nuc CPU: it does not know" in refusal(
        target(able, unable), hint=["throughput"], load=["async"], engines=["ort", "vino"]
    )


@pytest.mark.parametrize("hint", ["throughput", "cumulative"])
def test_a_hint_for_several_requests_is_refused_where_one_at_a_time_is_sent(hint: str) -> None:
    able = engine("vino", hints=["none", "latency", "throughput", "cumulative"])
    for load in (["sync"], ["async", "sync"]):
        assert f"the hint {hint} needs `--load async`" in refusal(target(able), hint=["latency", hint], load=load)
    assert len(expanded(target(able), hint=["latency", hint], load=["async"]).cases) == 2
    assert len(expanded(target(able), hint=["latency"], load=["async", "sync"]).cases) == 2


def test_where_no_engine_can_every_reason_is_told() -> None:
    text = refusal(target(engine("ort"), engine("torch")), devices=["GPU"])
    assert text.startswith("nothing was run, because no engine here can do it") and "ort on" in text and "torch" in text


def test_a_model_of_several_that_nothing_can_be_made_of_is_left_out() -> None:
    def bind(name: str, _batch: int) -> BoundModel:
        if name == "damaged":
            raise ModelError("damaged is cut off")
        return BoundModel(ONNX, INPUTS)

    plan = make_plan({"models": ["net", "damaged"], "batch": [1, 4]}, "run")
    expansion = expand(plan, [target(engine("ort"))], bind)
    assert [case.configuration.batch for case in expansion.cases] == [1, 4]
    assert expansion.left_out == ("damaged is left out: damaged is cut off",)
    assert set(expansion.left_out) <= set(expansion.notes)


def test_a_plan_of_too_many_configurations_is_refused_by_its_number_before_anything_is_bound() -> None:
    def bind(_name: str, _batch: int) -> BoundModel:
        raise AssertionError("nothing is to be bound")

    fields = {"models": ["net"], "batch": list(range(1, 1001)), "cores": list(range(1, 101))}
    with pytest.raises(PlanError, match="multiplies out to 200,000 configurations"):
        expand(make_plan(fields, "run"), [target(engine("ort"), engine("vino"))], bind)


def board() -> TargetSnapshot:
    """Of four big and four little cores."""
    found = target(engine("ort"), cores=8)
    kinds = (CoreCluster("big", 4), CoreCluster("little", 4))
    return replace(found, host=replace(found.host, clusters=kinds))


@pytest.mark.parametrize(
    ("asked", "cores", "cluster"),
    [
        ([], 4, "big"),
        (["all"], 8, ""),
        (["6"], 6, ""),  # the fastest six are of both kinds
        ([2], 2, "big"),
        (["big:2"], 2, "big"),
        (["little:4"], 4, "little"),
        (["little"], 4, "little"),
        (["Big:2"], 2, "big"),
    ],
)
def test_cores_are_of_the_kind_that_is_named_or_else_the_fastest(
    asked: list[int | str], cores: int, cluster: str
) -> None:
    (case,) = expanded(board(), **({"cores": asked} if asked else {})).cases
    assert (case.configuration.cores, case.configuration.cluster) == (cores, cluster)
    (again,) = expanded(board(), cores=[case.configuration.place]).cases
    assert again.configuration == case.configuration


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("big:5", "5 big cores are asked for, and the target's cores are 4 big and 4 little ones"),
        ("mid:1", "mid cores are asked for, and the target's cores are 4 big and 4 little ones"),
        ("9", "9 cores are asked for, and the target has 8"),
        ("big:x", "write 2, big:2 or little for a kind of cores, or all"),
        ("all:2", "write 2, big:2 or little for a kind of cores, or all"),
        ("0", "write 2, big:2 or little for a kind of cores, or all"),
        (0, "write 2, big:2 or little for a kind of cores, or all"),
    ],
)
def test_cores_that_are_not_there_are_refused_with_those_that_are(asked: int | str, reason: str) -> None:
    assert reason in refusal(board(), cores=[asked])


def test_what_a_target_cannot_hold_is_refused_with_the_figures() -> None:
    board = target(engine("ort"))
    (case,) = expanded(board).cases
    large = InputTensor("x", "float32", (64, 3, 224, 224))
    asked = replace(case.configuration, batch=64, inputs=(large,))
    roomy, small = (replace(board, host=replace(board.host, memory_bytes=size)) for size in (10**9, 256 * 2**20))
    assert does_not_fit(asked, case.model, board) is None, "who does not know its memory"
    assert does_not_fit(asked, case.model, roomy) is None
    said = does_not_fit(asked, case.model, small)
    assert said is not None and "308 for 8 inputs), and the target has 268: take a smaller batch" in said


def test_kinds_are_refused_where_all_cores_are_alike() -> None:
    assert "big cores are asked for, and the target's cores are all alike" in refusal(
        target(engine("ort")), cores=["big:2"]
    )


def test_what_none_of_all_engines_reads_is_told_in_a_line_a_format() -> None:
    formats = {"ort": ["onnx"], "ir": ["openvino_ir"], "lite": ["tflite"]}
    notes = expanded(target(*(engine(name, formats=reads) for name, reads in formats.items()))).notes
    assert notes == ("left out: ir and lite do not read onnx (net)",)


def test_an_option_of_an_engine_that_takes_no_part_is_told() -> None:
    both, options = target(engine("ort"), engine("vino")), {"ort.level": "low", "vino.levle": "low"}
    notes = expanded(both, engines=["ort"], options=options).notes
    assert notes == ("option 'vino.levle' is of vino, which takes no part: it changes nothing",)
    sides = [{"name": name, "title": name, "fields": {"engines": [name]}} for name in ("ort", "vino")]
    assert expanded(both, rungs=sides, options={"ort.level": "low", "vino.level": "low"}).notes == ()


def test_an_option_is_of_the_engine_whose_whole_name_it_begins_with() -> None:
    both = target(engine("iree-3"), engine("iree-3.1", options=(EngineOption("level"), EngineOption("session.spin"))))
    options = {"iree-3.1.level": "low", "iree-3.1.session.spin": "1"}
    found = expanded(both, engines=["iree-3.1"], options=options)
    assert [case.configuration.options for case in found.cases] == [{"level": "low", "session.spin": "1"}]
    assert found.notes == ()
    other = expanded(both, engines=["iree-3"], options={"iree-3.1.level": "low"})
    assert [case.configuration.options for case in other.cases] == [{}]
    assert other.notes == ("option 'iree-3.1.level' is of iree-3.1, which takes no part: it changes nothing",)
    assert "iree-3.1 has no option 'speed'" in refusal(both, engines=["iree-3.1"], options={"iree-3.1.speed": "9"})
    assert "belongs to no engine" in refusal(both, engines=["iree-3"], options={"iree-4.level": "low"})


def test_options_are_kept_with_the_engine_whose_whole_name_they_begin_with() -> None:
    options = {"iree-3.1.level": "low", "ort.level": "high"}
    plan = make_plan({"models": ["net"], "engines": ["iree-3.1"], "options": options}, "run")
    assert names_of(plan) == {"iree-3.1", "ort"}
    assert options_of({"iree-3.1"}, options) == {"iree-3.1.level": "low"}
