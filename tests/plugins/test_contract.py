"""The contract accepts a sound engine and fails every planted one; the example in `spec.py` works as printed."""

import contextlib
import json
import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import planted
import pytest

from enginebench_plugins import spec, types
from enginebench_plugins.testing import EngineContract, load_engine, use
from enginebench_plugins.testing.__main__ import Report, _module
from enginebench_plugins.testing.in_flight import Results

Statement = Callable[..., None]


class TestSoundEngine(EngineContract):
    plugin = planted


class TestEngineThatCanDoLittle(EngineContract):
    """What an engine says it cannot do is no failure."""

    @pytest.fixture
    def engine(self) -> spec.Engine:
        return planted.Little()

    def test_processor_time_stays_within_the_cores(self) -> None:
        """The sound engine's, of which this one takes away."""


def test_what_an_engine_cannot_do_is_left_out(tmp_path: Path) -> None:
    contract, engine = EngineContract(), planted.Little()
    assert [model.path.stem for model in contract.models(engine, tmp_path)] == ["classifier"]
    for statement in (
        EngineContract.test_every_item_of_a_batch_is_computed_on_its_own,
        EngineContract.test_inputs_of_several_types_and_every_output_are_served,
        EngineContract.test_requests_in_flight_join_each_output_to_its_own_input,
        EngineContract.test_others_get_a_turn_after_each_profiled_inference,
    ):
        with pytest.raises(pytest.skip.Exception):
            statement(contract, engine, tmp_path)


def test_each_statement_says_which_sentence_of_the_spec_it_holds_an_engine_to() -> None:
    written = " ".join((Path(spec.__file__).read_text() + Path(types.__file__).read_text()).split())
    names = [name for name in dir(EngineContract) if name.startswith("test_")]
    statements = {name: getattr(EngineContract, name) for name in names}
    assert len(statements) > 40
    promises = {name: getattr(one, "promise", "") for name, one in statements.items()}
    assert [name for name, promise in promises.items() if not promise or promise not in written] == []


def garbage_file(contract: EngineContract, engine: spec.Engine, folder: Path) -> None:
    contract.test_a_broken_model_file_raises(engine, folder, "garbage")


REFERENCE = EngineContract.test_outputs_equal_the_reference
TYPES = EngineContract.test_inputs_of_several_types_and_every_output_are_served

REQUESTS = [
    (planted.Garbage, REFERENCE),
    (planted.Garbage, TYPES),
    (planted.InputIgnored, EngineContract.test_different_inputs_give_different_outputs),
    (planted.OutputsRenamed, EngineContract.test_outputs_have_the_names_of_the_model),
    (planted.FusedRenamed, EngineContract.test_outputs_of_what_is_fused_have_the_names_of_the_model),
    (planted.BeginningsRemembered, EngineContract.test_an_input_that_was_changed_in_one_place_is_another),
    (planted.OutputsRememberedByIdentity, EngineContract.test_an_input_that_was_changed_in_one_place_is_another),
    (planted.BatchDropped, REFERENCE),
    (planted.BatchDropped, EngineContract.test_the_batch_axis_is_kept),
    (planted.FirstItemRepeated, REFERENCE),
    (planted.FirstItemRepeated, EngineContract.test_every_item_of_a_batch_is_computed_on_its_own),
    (planted.LastOfOddLost, REFERENCE),
    (planted.NotWaitedFor, EngineContract.test_an_inference_that_takes_its_time_is_waited_for),
    (planted.OutputMissing, TYPES),
    (planted.InputsChanged, EngineContract.test_inputs_are_left_as_they_were),
    (planted.MemoryShared, EngineContract.test_a_second_request_leaves_the_first_ones_outputs_alone),
    (planted.RequestsMixedUp, EngineContract.test_requests_in_flight_join_each_output_to_its_own_input),
    (planted.ShapesTaken, EngineContract.test_an_input_of_another_shape_is_an_error),
    (planted.ErrorSwallowed, EngineContract.test_an_error_of_a_started_inference_arrives_through_on_done),
    (planted.ThreadKept, EngineContract.test_closing_gives_back_what_was_taken),
]

MODELS = [
    (planted.EchoedThreads, EngineContract.test_threads_are_not_an_echo_of_the_request),
    (planted.OtherPrecision, EngineContract.test_the_requested_precision_is_the_effective_one),
    (planted.OpenInputs, EngineContract.test_compiled_inputs_are_the_models_without_open_dimensions),
    (planted.MicrosecondsForNanoseconds, EngineContract.test_layer_times_add_up_to_about_the_latency),
    (planted.LatencyWithoutCounters, EngineContract.test_layer_times_add_up_to_about_the_latency),
    (planted.LatencyOfOthers, EngineContract.test_a_profile_runs_the_inferences_asked_for_and_no_others),
    (planted.LatencyWithoutCounters, EngineContract.test_latencies_are_those_of_the_profiled_inferences),
    (planted.InventedOrigin, EngineContract.test_layers_tell_their_origin_and_tensors_by_name),
    (planted.NoTurns, EngineContract.test_others_get_a_turn_after_each_profiled_inference),
    (planted.LayersOfOneName, EngineContract.test_a_profile_has_distinct_layers_with_one_time_an_iteration),
    (planted.UntimedLayersGivenOnce, EngineContract.test_a_profile_has_distinct_layers_with_one_time_an_iteration),
]

ENGINES = [
    (planted.SettingsIgnored, EngineContract.test_an_unknown_option_is_refused),
    (planted.SettingsIgnored, EngineContract.test_an_option_of_another_type_or_choice_is_refused),
    (planted.SettingsIgnored, EngineContract.test_a_hint_it_does_not_offer_is_refused),
    (planted.SettingsIgnored, EngineContract.test_a_precision_the_device_lacks_is_refused),
    (planted.SettingsIgnored, EngineContract.test_streams_are_refused_where_there_is_only_one),
    (planted.SettingsIgnored, EngineContract.test_an_unknown_device_is_refused),
    (planted.OneChoiceBroken, EngineContract.test_each_choice_of_an_option_works_or_is_refused),
    (planted.SinglesAndMore, EngineContract.test_a_batch_it_does_not_offer_is_refused),
    (planted.OneThreadAndMore, EngineContract.test_more_cores_than_requests_are_refused_with_one_thread),
    (planted.OneAtATimeAndMore, EngineContract.test_a_load_it_does_not_offer_is_refused),
    (planted.NoMeans, EngineContract.test_means_are_the_same_for_every_inference),
    (planted.BrokenFilesTaken, garbage_file),
]


@pytest.mark.parametrize(("request_class", "statement"), REQUESTS)
def test_a_planted_request_fails(request_class: type, statement: Statement, tmp_path: Path) -> None:
    assert_fails(planted.RequestBreaker(request_class), statement, tmp_path)


@pytest.mark.parametrize(("model_class", "statement"), MODELS)
def test_a_planted_model_fails(model_class: type, statement: Statement, tmp_path: Path) -> None:
    assert_fails(planted.ModelBreaker(model_class), statement, tmp_path)


@pytest.mark.parametrize(("engine_class", "statement"), ENGINES)
def test_a_planted_engine_fails(engine_class: type, statement: Statement, tmp_path: Path) -> None:
    assert_fails(engine_class(), statement, tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        *("cache_dir", "modelPath", "CACHE_DIR", "plugins.libraryFiles", "directory"),
        *("workdir", "cachepath", "OUTFILE", "modelPATH", "file2", "kvcache", "profile"),
        *("directories", "prefixes", "libraries", "caches", "folders", "dirname"),
    ],
)
def test_an_option_that_names_a_file_or_a_folder_fails(name: str) -> None:
    with pytest.raises(AssertionError, match=name):
        EngineContract().test_its_options_are_typed_and_name_no_file(planted.WithOption(name))


@pytest.mark.parametrize(
    ("name", "kind", "choices"),
    [
        ("perf_profile", str, ("burst", "balanced")),
        ("kv_cache", str, ("paged", "whole")),
        ("profiler", str, ()),
        ("profiling_level", str, ()),
        ("bidirectional", str, ()),
        ("directions", str, ()),
        ("prefix_caching", bool, ()),
        ("cache_bits", int, ()),
    ],
)
def test_an_option_that_can_name_no_file_is_none(name: str, kind: type, choices: tuple[str, ...]) -> None:
    EngineContract().test_its_options_are_typed_and_name_no_file(planted.WithOption(name, kind, choices))


@pytest.mark.parametrize(("count", "holds"), [(64, True), (65, False)])
def test_a_choice_that_no_agent_lists_fails(count: int, holds: bool) -> None:
    engine = planted.WithOption("level", int, tuple(range(count)))
    with contextlib.nullcontext() if holds else pytest.raises(AssertionError, match="level has 65 choices"):
        EngineContract().test_all_of_its_options_and_choices_are_listed(engine)


def test_two_devices_of_one_name_fail() -> None:
    with pytest.raises(AssertionError):
        EngineContract().test_its_devices_have_unique_names_and_say_what_they_occupy(planted.TwinDevices())


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor cannot be overrun")
def test_an_engine_that_lifts_its_confinement_fails(tmp_path: Path) -> None:
    class Unconfined(EngineContract):
        plugin = "planted_unconfined"

    with pytest.raises(AssertionError, match=r"cores busy|threads may run on"):
        Unconfined().test_processor_time_stays_within_the_cores(tmp_path, 1)


@pytest.mark.slow
def test_what_an_engine_prints_is_neither_an_answer_nor_in_the_way_of_one(tmp_path: Path) -> None:
    class Talking(EngineContract):
        plugin = "planted:TALKATIVE"

    uses = Talking().core_use(tmp_path, 1)
    assert [use["load"] for use in uses] == ["async", "sync"]
    assert all(use["wall_ns"] > 0 for use in uses)


@pytest.mark.slow
def test_a_process_that_ends_before_anything_was_measured_fails(tmp_path: Path) -> None:
    class Ending(EngineContract):
        plugin = "planted:ENDING"

    with pytest.raises(AssertionError, match="before anything was measured"):
        Ending().test_processor_time_stays_within_the_cores(tmp_path, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("told", "silence_s"), [(b".", 60.0), (b"", 1.0)])
def test_a_process_of_a_statement_is_waited_for_while_it_tells_of_compilations(
    told: bytes, silence_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = tmp_path / "heard"
    heard.touch()
    monkeypatch.setenv("ENGINEBENCH_TEST_HEARD", str(heard))
    monkeypatch.setattr(use, "SILENCE_S", silence_s)

    class Heard(EngineContract):
        plugin = "planted:COMPILING_SLOWLY"

        def goes_on(self) -> None:
            heard.write_bytes(heard.read_bytes() + told)

    hangs = pytest.raises(pytest.fail.Exception, match="at one step for more than 1 s")
    model, settings = Heard().classifier(tmp_path), {"cores": 1, "batch": 1}
    with contextlib.nullcontext() if told else hangs:
        (used,) = Heard().confined(model, settings, (spec.Load.SYNC,), pairs=2, choices=({}, {}))
        assert len(used["pairs"]) == 2


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one processor there is no pool")
def test_a_pool_of_threads_for_each_request_fails(tmp_path: Path) -> None:
    class Planted(EngineContract):
        plugin = "planted:POOL_FOR_EACH"

    with pytest.raises(AssertionError, match="threads work for 4 requests"):
        Planted().test_processor_time_stays_within_the_cores(tmp_path, 2)


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("EQUAL_ITEMS_ONCE", EngineContract.test_equal_items_of_a_batch_take_as_long_as_others),
        ("SHARED_IN_FLIGHT", EngineContract.test_equal_inputs_in_flight_take_as_long_as_others),
    ],
)
def test_equal_work_that_is_done_once_fails(name: str, statement: Statement, tmp_path: Path) -> None:
    class Planted(EngineContract):
        plugin = f"planted:{name}"

    with pytest.raises(AssertionError, match=r"take 0\.[0-5]\d times"):
        statement(Planted(), load_engine(Planted.plugin), tmp_path)


@pytest.mark.alone
def test_a_provider_that_is_told_and_does_not_compute_fails(tmp_path: Path) -> None:
    class Followed(EngineContract):
        plugin = "planted:PROVIDERS"

    class Echoed(EngineContract):
        plugin = "planted:ECHOED_PROVIDERS"

    Followed().test_a_provider_that_is_told_does_the_work(load_engine(Followed.plugin), tmp_path)
    with pytest.raises(AssertionError, match="cpu and other are told, with equal outputs in equal time"):
        Echoed().test_a_provider_that_is_told_does_the_work(load_engine(Echoed.plugin), tmp_path)


def test_a_precision_that_is_told_and_not_computed_in_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="f16 is told, and f32 was computed"):
        EngineContract().test_a_precision_that_is_told_is_computed_in(planted.EchoedPrecision(), tmp_path)


def test_a_device_without_f32_is_held_in_its_own_precision(tmp_path: Path) -> None:
    found: dict[str, type[EngineContract]] = {}
    exec(_module("planted:HALVES", planted.Halves().devices(), tmp_path / "report"), found)
    contract, engine = found["TestEngine"](), planted.Halves()
    contract.test_outputs_equal_the_reference(engine, tmp_path)
    contract.test_a_precision_the_device_lacks_is_refused(engine, tmp_path)
    for statement in (
        contract.test_the_requested_precision_is_the_effective_one,
        contract.test_a_precision_that_is_told_is_computed_in,
    ):
        with pytest.raises(pytest.skip.Exception, match="no f32"):
            statement(engine, tmp_path)
    exec(_module("planted:HALVES", planted.SoundEngine().devices(), tmp_path / "report"), found)
    assert found["TestEngine"].precision is spec.Precision.F32


def test_who_waits_is_told_of_each_compilation_and_of_each_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    path, engine, found = tmp_path / "report", planted.SoundEngine(), {}
    exec(_module("planted", engine.devices(), path), found)
    contract, model = found["TestEngine"](), EngineContract().classifier(tmp_path)
    with contract.compiled(engine, model.source(1), contract.settings()):
        assert path.exists()
    failed = pytest.TestReport("", ("", 0, ""), {}, "failed", "slow", "call")
    monkeypatch.setattr("enginebench_plugins.testing.__main__.runtestprotocol", lambda *_, **__: [failed])
    Report(path).pytest_runtest_protocol(request.node, None)
    outcomes = [json.loads(line).get("outcome") for line in path.read_text().splitlines()]
    assert outcomes == [None, None, "failed"]


@pytest.mark.slow
def test_what_an_engine_without_f32_uses_is_measured_in_its_own_precision(tmp_path: Path) -> None:
    class Halves(EngineContract):
        plugin, device, precision = "planted:HALVES", "NPU", spec.Precision.DEFAULT

    assert not any("refused" in use for use in Halves().core_use(tmp_path, 1))


@pytest.mark.parametrize("are_in_turn", [False, True])
def test_streams_that_are_told_and_run_in_turn_fail(
    are_in_turn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"streams_{are_in_turn}".lower()
    (tmp_path / f"{module}.py").write_text(planted.plugin(f"Streams({are_in_turn})"))
    monkeypatch.syspath_prepend(tmp_path)
    contract, engine = EngineContract(), planted.Streams(are_in_turn)
    contract.plugin = module
    if are_in_turn:
        with pytest.raises(AssertionError, match="two streams are told"):
            contract.test_streams_that_are_told_run_beside_each_other(engine, tmp_path)
    else:
        contract.test_streams_that_are_told_run_beside_each_other(engine, tmp_path)


def assert_fails(engine: spec.Engine, statement: Statement, folder: Path) -> None:
    """The statement fails this engine, and holds for the sound one: it is the planted fault that it found."""
    sound, broken = folder / "sound", folder / "broken"
    sound.mkdir()
    broken.mkdir()
    statement(EngineContract(), planted.SoundEngine(), sound)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        statement(EngineContract(), engine, broken)


def example() -> ModuleType:
    """The module printed in the docstring of `spec.py`."""
    text = spec.__doc__ or ""
    begin = text.index("    import numpy as np")
    module = ModuleType("example")
    exec(textwrap.dedent(text[begin : text.index("The worker calls")]), module.__dict__)
    return module


def test_the_example_in_spec_runs_and_profiles(tmp_path: Path) -> None:
    engine = load_engine(example())
    path = tmp_path / "factor.txt"
    path.write_text("3.0")
    inputs = (spec.TensorSpec("x", "float32", (2, 2)),)
    source = spec.ModelSource(path, spec.ModelFormat.ONNX, inputs)

    model = engine.compile(engine.convert(engine.read(source), source), source, spec.Settings(batch=2))
    arrays = {"x": np.array([[1, 2], [3, 4]], np.float32)}
    request = model.create_request()
    results = Results(expected=1)
    request.start(arrays, lambda outputs, error: results.add(0, outputs, error))
    results.wait()

    assert engine.info().version == "1.0"
    assert [device.name for device in engine.devices()] == ["CPU"]
    assert tuple(model.inputs) == inputs
    for outputs in (request.infer(arrays), results.outputs[0]):
        assert outputs is not None
        np.testing.assert_array_equal(outputs["x_scaled"], [[3, 6], [9, 12]])
    profile = model.profile([arrays], 4)
    assert (profile.layers[0].time_ns, profile.latency_ns) == ((1000,) * 4, (1100,) * 4)
    request.close()
    model.close()
