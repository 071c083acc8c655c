"""The points that are chosen from: as the target's engines say they can, the impossible counted with the reason."""

from dataclasses import replace

import pytest

from enginebench_controller.errors import InputError, ModelError
from enginebench_controller.plan.configurations import BoundModel
from enginebench_controller.plan.plan import SearchStep, StepPurpose
from enginebench_controller.plan.points import (
    MOST_POINTS,
    compared,
    identity,
    plan_of,
    rate_plan,
    samples_of_limit,
    space,
    step_plan,
    together,
)
from enginebench_controller.plan.recommend import LatencyLimit, make_order
from enginebench_controller.records import (
    CoreCluster,
    Derivation,
    DerivationKind,
    Device,
    InputTensor,
    ModelFile,
    ModelVersion,
)
from enginebench_controller.records.model import Calibration
from offered import engine, target

NET = ModelVersion("aa" * 32, "net", "onnx", (ModelFile("net.onnx", "bb" * 32, 1_000_000),), 1)
FULL = engine("full", hints=("none", "latency", "throughput"), multiple_streams=True)
PLAIN = engine("plain", loads=("sync",))
INT8 = ModelVersion(
    *("cc" * 32, "net int8", "onnx", (ModelFile("net8.onnx", "dd" * 32, 300_000),), 2, NET.digest),
    Derivation(DerivationKind.QUANTIZED, said="2 inputs"),
)


def bind(name, batch):
    if batch > 8:
        raise ModelError(f"{name} cannot be had for batch {batch}")
    return BoundModel(NET, (InputTensor("x", "float32", (batch, 8)),))


def points(*engines, cores=2, **fields):
    order = make_order({"models": ["net"]} | fields)
    return space(order, target(*(engines or (FULL, PLAIN)), cores=cores), bind, ("net",))


def asked(found):
    return [one.case.configuration for one in found.points]


def test_every_axis_has_what_the_engine_can_and_no_more() -> None:
    found = points(cores=4)
    of_full = [one.case.configuration for one in found.points if one.case.engine.name == "full"]
    assert {one.batch for one in of_full} == {1, 2, 4, 8}
    assert {one.cores for one in of_full} == {1, 2, 4}
    assert {(str(one.load), str(one.hint), one.streams > 1) for one in of_full} == {
        ("sync", "none", False),
        ("async", "none", False),
        ("async", "none", True),
        ("async", "throughput", False),
    }
    of_plain = [one.case.configuration for one in found.points if one.case.engine.name == "plain"]
    assert {str(one.load) for one in of_plain} == {"sync"}


def test_where_no_version_was_made_that_is_told_with_the_command_that_makes_one() -> None:
    (note,) = points(versions=True).notes
    assert note.startswith("--versions: no version made of net is here, so none takes part")
    assert "`enginebench models quantize net`" in note
    assert not points().notes
    assert not of_versions(models=["net"], versions=True).notes
    assert not of_versions(versions=True).notes, "it is named itself"
    order = make_order({"models": ["my net.onnx"], "versions": True})
    (quoted,) = space(order, target(PLAIN), bind, order.models).notes
    assert quoted.endswith("`enginebench models quantize 'my net.onnx'` makes one in INT8")


def test_no_command_is_told_that_cannot_make_a_version_of_this_model() -> None:
    def bind_program(name, batch):
        return replace(bind(name, batch), version=replace(NET, format="torchscript"))

    order = make_order({"models": ["net"], "versions": True})
    (note,) = space(order, target(replace(PLAIN, formats=("torchscript",))), bind_program, ("net",)).notes
    assert note == "--versions: no version made of net is here, so none takes part"


def test_what_cannot_be_is_counted_with_its_reason() -> None:
    found = points(PLAIN)
    assert found.impossible == {"net cannot be had for batch 16": 2}
    assert len(found.points) == 8


def test_unlike_cores_are_places_of_their_own_and_the_default_is_the_fast_kind() -> None:
    board = target(PLAIN, cores=6)
    kinds = (CoreCluster("big", 2), CoreCluster("little", 4))
    board = replace(board, host=replace(board.host, clusters=kinds))
    order = make_order({"models": ["net"], "goal": "latency"})
    found = space(order, board, bind, ("net",)).points
    places = [one.case.configuration.place for one in found]
    assert places == ["big:1", "big:2", "little:1", "little:2", "little:4", 6]
    assert [one.case.configuration.place for one in found if one.is_default] == ["big:2"]
    assert [one.axes["cluster"] for one in found] == ["big", "big", "little", "little", "little", ""]


@pytest.mark.parametrize(("word", "streams"), [("all", 6), ("little", 4), ("big", 2), ("little:3", 3)])
def test_cores_said_by_a_word_are_as_many_streams_as_by_their_number(word: str, streams: int) -> None:
    board = target(FULL, cores=6)
    kinds = (CoreCluster("big", 2), CoreCluster("little", 4))
    board = replace(board, host=replace(board.host, clusters=kinds))
    order = make_order({"models": ["net"], "goal": "throughput", "axes": {"cores": [word], "batch": ["1"]}})
    found = space(order, board, bind, ("net",)).points
    assert {one.case.configuration.streams for one in found} == {1, streams}


def test_a_device_beside_the_processor_has_larger_batches_and_all_cores_to_feed_it() -> None:
    def bound(name, batch):
        return BoundModel(NET, (InputTensor("x", "float32", (batch, 8)),))

    both = engine("full", devices=("CPU", "GPU.0"), hints=("none", "throughput"), multiple_streams=True)
    for said in (("GPU.0",), ("gpu.0", "CPU"), ("all",)):
        order = make_order({"models": ["net"], "fields": {"devices": list(said)}})
        found = space(order, target(both, cores=8), bound, ("net",))
        beside = [one for one in asked(found) if one.device == "GPU.0"]
        assert {one.batch for one in beside} == {1, 4, 8, 16, 32, 64, 128}
        assert {one.cores for one in beside} == {8}
        assert {one.streams for one in beside} == {1, 2}
        on_processor = [one for one in asked(found) if one.device == "CPU"]
        assert {one.batch for one in on_processor} == (set() if said == ("GPU.0",) else {1, 2, 4, 8, 16})
        assert not found.impossible
        assert all(tuple(one.fields["devices"]) == (one.case.configuration.device,) for one in found.points)
    alone = engine("alone", devices=("NPU",))
    (device,) = {one.device for one in asked(space(make_order({"models": ["net"]}), target(alone), bound, ("net",)))}
    assert device == "NPU"


def test_a_device_that_is_named_and_on_which_nothing_runs_is_refused_though_others_are_left() -> None:
    both, plain = engine("full", devices=("CPU", "GPU.0")), engine("plain")

    def refusal(engines, *devices):
        with pytest.raises(InputError) as caught:
            points(both, plain, engines=engines, fields={"devices": list(devices)})
        return str(caught.value)

    assert "full on target 'local' has no device 'TPU'; it has CPU, GPU.0" in refusal(["full"], "TPU")
    assert refusal(["full"], "CPU", "TPU").startswith("full on TPU takes no part: full on target 'local' has no device")
    assert refusal(["all"], "CPU", "TPU").startswith("TPU takes no part: ")
    assert refusal(["full", "plain"], "CPU", "GPU.0").startswith("plain on GPU.0 takes no part: ")
    only_small = engine("small", devices=("CPU", "NPU"), batches=(3,))
    assert points(both, only_small, engines=["all"], fields={"devices": ["all"]}).points
    found = points(both, plain, engines=["all"], fields={"devices": ["CPU", "GPU.0"]})
    assert {(one.case.engine.name, one.case.configuration.device) for one in found.points} == {
        ("full", "CPU"),
        ("full", "GPU.0"),
        ("plain", "CPU"),
    }


def test_for_latency_it_is_one_item_at_a_time() -> None:
    found = points(goal="latency")
    assert {(one.batch, str(one.load)) for one in asked(found)} == {(1, "sync")}
    assert {str(one.hint) for one in asked(found)} == {"none", "latency"}


def test_cores_are_left_to_others_and_axes_fixed() -> None:
    found = points(cores=4, leave_cores=1, axes={"batch": ("4",), "load": ("sync",)})
    assert {one.cores for one in asked(found)} == {1, 2, 3}
    assert {(one.batch, str(one.load)) for one in asked(found)} == {(4, "sync")}
    with pytest.raises(InputError, match="--leave-cores 4 leaves none"):
        points(cores=4, leave_cores=4)


def test_cores_that_are_said_are_left_to_others_as_well() -> None:
    found = points(PLAIN, cores=4, leave_cores=1, axes={"batch": ("1",), "cores": ("1", "2", "4", "all")})
    assert {one.cores for one in asked(found)} == {1, 2}
    assert found.impossible == {"4 cores are asked for, and --leave-cores 1 leaves 3": 2}
    with pytest.raises(InputError, match=r"(?s)nothing to choose from, because:.* --leave-cores 1 leaves 3"):
        points(cores=4, leave_cores=1, axes={"cores": ("4",)})
    beside = engine("full", devices=("GPU.0",))
    with pytest.raises(InputError, match="--leave-cores 1 leaves 3"):
        points(beside, cores=4, leave_cores=1, axes={"cores": ("4",)})


def test_where_none_are_to_be_left_all_cores_can_be_asked_for_of_a_target_that_does_not_tell_them() -> None:
    assert {one.cores for one in asked(points(PLAIN, cores=None, axes={"cores": ("4",)}))} == {4}


def test_nothing_to_choose_from_says_why() -> None:
    with pytest.raises(InputError, match=r"(?s)nothing to choose from, because:.*cannot execute in bf16"):
        points(axes={"precision": ("bf16",)})


def test_an_engine_that_is_named_and_can_nothing_is_refused_and_no_note_beside_the_answer() -> None:
    device = Device("CPU", "invented CPU", ("f32", "bf16"), ("CPU",))
    able = replace(engine("able"), devices=(device,))
    in_bf16 = {"axes": {"precision": ("bf16",)}}
    assert {one.case.engine.name for one in points(able, PLAIN, **in_bf16).points} == {"able"}, "of all, those that can"
    with pytest.raises(InputError, match=r"^plain takes no part: .*cannot execute in bf16"):
        points(able, PLAIN, engines=("able", "plain"), **in_bf16)


def test_an_option_that_an_engine_does_not_take_is_refused_and_no_reason_to_recommend_another() -> None:
    spinning = engine("spinning", options=("spin",))
    with pytest.raises(InputError, match=r"^spinning has no option 'spinn'; it has: spin$"):
        points(spinning, PLAIN, fields={"options": {"spinning.spinn": "true"}})
    found = points(spinning, PLAIN, fields={"options": {"spinning.spin": "true"}})
    assert {one.case.engine.name for one in found.points} == {"spinning", "plain"}


def test_too_many_are_thinned_out_and_counted() -> None:
    found = points(FULL, engine("other", multiple_streams=True), engine("third"), cores=16)
    assert len(found.points) == MOST_POINTS
    assert found.thinned > 0
    assert {one.case.engine.name for one in found.points} == {"full", "other", "third"}


@pytest.mark.parametrize("cores", [16, 64, 128])
def test_the_default_of_each_engine_is_kept_however_many_are_thinned_out(cores: int) -> None:
    found = points(FULL, engine("other", multiple_streams=True), engine("third"), cores=cores)
    assert found.thinned > 0
    assert [one.case.engine.name for one in found.points if one.is_default] == ["full", "other", "third"]


def test_what_had_to_be_assumed_of_a_model_is_told_once() -> None:
    def assuming(name: str, batch: int) -> BoundModel:
        return replace(bind(name, batch), assumptions=("dimension 'height' is open and was set to 224",))

    found = space(make_order({"models": ["net"]}), target(FULL, PLAIN), assuming, ("net",))
    assert found.notes == ("net: dimension 'height' is open and was set to 224",)
    assert points().notes == ()


def test_what_was_assumed_of_several_versions_alike_is_told_once() -> None:
    versions = {f"v{number}": replace(NET, digest=f"{number}" * 64, name=f"net {number}") for number in range(3)}

    def assuming(name: str, batch: int) -> BoundModel:
        return replace(bind(name, batch), version=versions[name], assumptions=("height was set to 224",))

    for count, whom in ((1, "net 0"), (2, "net 0 and net 1"), (3, "net 0 and 2 more")):
        found = space(make_order({"models": list(versions)[:count]}), target(PLAIN), assuming, tuple(versions)[:count])
        assert found.notes == (f"{whom}: height was set to 224",)


@pytest.mark.parametrize(
    ("made_on", "measured_on", "told"),
    [
        (
            "val",
            None,
            "net int8 (cccccccc) was calibrated on val and is measured on random inputs, where its outputs may",
        ),
        ("val", "/data/other", "net int8 (cccccccc) was calibrated on val and is measured on other, where"),
        ("", "/data/other", "net int8 (cccccccc) was calibrated on random inputs and is measured on other, where"),
        ("val", "/data/val", None),
        ("val", ".", None),
        ("", None, None),
    ],
)
def test_a_version_that_was_calibrated_on_other_inputs_than_it_is_measured_on_is_told(
    made_on, measured_on, told, tmp_path, monkeypatch
):
    (tmp_path / "val").mkdir()
    monkeypatch.chdir(tmp_path / "val")
    calibrated = Derivation(DerivationKind.QUANTIZED, said="2 inputs", calibration=Calibration(folder=made_on))
    version = replace(INT8, derivation=calibrated)

    def bind_versions(name: str, batch: int) -> BoundModel:
        return replace(bind(name, batch), version=version if name == "int8" else NET)

    fields = {} if measured_on is None else {"input_folder": measured_on}
    order = make_order({"models": ["net", "int8"], "fields": fields})
    notes = space(order, target(PLAIN), bind_versions, order.models, known=(NET, version)).notes
    assert len(notes) == (told is not None)
    assert told is None or notes[0].startswith(told)


def test_devices_that_nobody_asked_for_are_told() -> None:
    both = engine("both", devices=("CPU", "GPU"))
    assert points(both).notes == ("both on local has GPU, too, where nothing is measured unless --device asks for it",)
    assert points(both, fields={"devices": ["CPU"]}).notes == ()
    assert points(engine("accelerated", devices=("GPU:0", "GPU:1"))).notes == ()


def test_the_default_of_each_engine_is_known() -> None:
    defaults = [one.case for one in points().points if one.is_default]
    assert [(one.engine.name, one.configuration.batch, one.configuration.cores) for one in defaults] == [
        ("full", 1, 2),
        ("plain", 1, 2),
    ]


def test_a_step_measures_its_points_together_for_so_many_rounds() -> None:
    order = make_order({"models": ["net"], "fields": {"inputs": 2}})
    found = space(order, target(FULL, PLAIN), bind, ("net",))
    plan = step_plan(order, found.points[:3], 2, 0.5, 5, SearchStep(id="s", step=1, title="looking"))
    assert plan.device_takes_turns
    assert [len(grid.batch) * len(grid.cores) for grid in plan.grids()] == [1, 1, 1]
    assert plan.inputs == 2
    rule = plan.stop_rule(in_turns=True)
    assert (rule.processes, rule.min_duration_ns, rule.min_iterations) == (2, 1_000_000_000, 10)
    assert (plan.search.id, plan.search.step) == ("s", 1)


def test_a_point_is_the_same_however_long_it_is_measured_and_its_plan_runs_alone() -> None:
    order = make_order({"models": ["net"]})
    found = space(order, target(FULL), bind, ("net",))
    again = space(order.model_copy(update={"fields": {"duration": "60s"}}), target(FULL), bind, ("net",))
    assert [identity(one.case) for one in found.points] == [identity(one.case) for one in again.points]
    plan = plan_of(order, found.points[0])
    assert (plan.rungs, plan.search, plan.engines) == ((), None, ("full@default",))


def test_the_plan_of_a_point_says_nothing_of_the_inputs_of_other_models() -> None:
    said = {"shapes": {"x": "1x8", "mel": "1x80"}, "batch_axis": {"mel": 1}, "input_values": {"x": "ones", "len": "3"}}
    order = make_order({"models": ["net", "other"], "fields": said})
    plan = plan_of(order, space(order, target(FULL), bind, ("net",)).points[0])
    assert (plan.shapes, plan.batch_axis, plan.input_values) == ({"x": "1x8"}, {}, {"x": "ones"})


def test_the_plan_of_a_point_has_the_options_of_its_own_engine_alone() -> None:
    engines = [engine(name, options=("spin",)) for name in ("one", "two")]
    order = make_order({"models": ["net"], "fields": {"options": {"one.spin": "1", "two.spin": "2"}}})
    plans = [plan_of(order, one) for one in space(order, target(*engines), bind, ("net",)).points]
    assert {(plan.engines[0], *plan.options.items()) for plan in plans} == {
        ("one@default", ("one.spin", "1")),
        ("two@default", ("two.spin", "2")),
    }


def test_as_many_are_alive_as_the_memory_is_for() -> None:
    found = points().points
    assert together(found, 1_000_000_000) == 2
    assert together(found, None) > 8
    assert samples_of_limit(LatencyLimit(99, 1e6)) == 100
    assert samples_of_limit(None) == 3


def of_versions(**fields):
    """The space of a model and its INT8 version, which are called by these names."""

    def bind_either(name, batch):
        return BoundModel({"net": NET, "int8": INT8}[name], (InputTensor("x", "float32", (batch, 8)),))

    order = make_order({"models": ["net", "int8"]} | fields)
    return space(order, target(FULL, PLAIN, cores=2), bind_either, ("net", "int8"))


def test_one_point_of_each_variant_has_its_outputs_compared_and_the_model_as_given_comes_first() -> None:
    found = of_versions(axes={"batch": ("4", "2")}).points
    chosen = [found[place] for place in compared(found)]
    assert [(one.case.engine.name, one.case.model.name) for one in chosen] == [
        ("full", "net"),
        ("plain", "net"),
        ("full", "net int8"),
        ("plain", "net int8"),
    ]
    assert {(one.case.configuration.batch, str(one.case.configuration.load)) for one in chosen} == {(2, "sync")}
    assert len({one.family for one in found}) == 1
    assert [one.is_given for one in chosen] == [True, True, False, False]


def test_defaults_are_of_the_model_as_given() -> None:
    assert {one.case.model.name for one in of_versions().points if one.is_default} == {"net"}


def test_on_each_device_outputs_are_compared() -> None:
    found = of_versions().points
    elsewhere = [
        replace(one, case=replace(one.case, configuration=replace(one.case.configuration, device="GPU")))
        for one in found
    ]
    here = [found[place].variant for place in compared(found)]
    both = [*found, *elsewhere]
    assert {both[place].variant for place in compared(both)} == {*here, *((*one[:-1], "GPU") for one in here)}


def test_where_all_are_as_given_nothing_is_compared() -> None:
    assert compared(points().points) == ()


def test_a_limit_of_outputs_needs_something_to_compare_with() -> None:
    with pytest.raises(InputError, match="needs net as given in f32 to compare with"):
        points(PLAIN, max_output_difference="1%", axes={"precision": ("default",)})


def test_for_a_rate_points_are_closed_loops_of_engines_that_overlap_requests() -> None:
    found = points(goal="rate", max_latency="p99<50ms")
    assert {one.case.engine.name for one in found.points} == {"full"}
    assert {one.case.configuration.batch for one in found.points} == {1}
    assert {str(one.case.configuration.load) for one in found.points} == {"sync", "async"}
    assert "plain takes one request at a time, so that none can arrive meanwhile" in found.impossible


def test_at_a_rate_a_point_runs_alone_in_an_open_loop_with_as_many_requests_in_flight() -> None:
    order = make_order({"models": ["net"], "goal": "rate", "max_latency": "p99<50ms"})
    found = space(order, target(FULL), bind, ("net",)).points
    point = next(one for one in found if one.case.configuration.streams > 1)
    step = SearchStep(id="s", step=4, title="at a rate", purpose=StepPurpose.RATE)
    plan = rate_plan(order, point, 120.0, 5, 3.0, step)
    (grid,) = plan.grids()
    assert (grid.load, grid.rate, grid.requests, grid.streams) == (("open-loop",), (120.0,), (2,), (2,))
    assert not plan.device_takes_turns
    assert (plan.stop_rule().processes, plan.stop_rule().min_duration_ns) == (5, 15_000_000_000)
    assert plan_of(order, point, 120.0).rate == (120.0,)
