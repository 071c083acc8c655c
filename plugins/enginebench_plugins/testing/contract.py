"""What every engine owes the bench, as statements that hold for each of them.

An engine's test module subclasses `EngineContract`, names the plugin and, where it must, loosens a tolerance or
replaces a model:

    class TestMine(EngineContract):
        plugin = "my_package.plugin"

What an engine cannot do it says in `EngineInfo`, and the statements about it are skipped: loads, batches, integer
inputs, several threads, profiles, and profiles that are means.
"""

import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from enginebench_plugins import spec
from enginebench_plugins.testing import contract_models
from enginebench_plugins.testing.contract_models import Arrays
from enginebench_plugins.testing.in_flight import Results, copied, run_rotating
from enginebench_plugins.testing.profiles import ProfileContract
from enginebench_plugins.testing.use import UseContract
from enginebench_plugins.testing.workbench import (
    IN_FLIGHT,
    OUTPUTS,
    REFUSED,
    TIMES_ALIKE,
    Workbench,
    batches,
    choices,
    promise,
    skip_unless_async,
)

MUCH = 100.0
LONGEST_NAME = 100
"""Of a version and a device: an agent lists no more characters."""
MOST_LISTED = 64
OPTION_TYPES = (bool, int, float, str)
FILE_WORD = re.compile(r"(path|file|dir|director(y|ie)|folder|cache|librar(y|ie)|prefixe?)(name)?s?$")
"""How a word ends that stands for a file; what goes on after it is another, as in profiler and directions."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
RELEASE_CYCLES = 4


class ComputingContract(Workbench):
    """What an engine says of itself, computes and refuses."""

    # What an engine tells about itself.

    @promise("`version` has 1 to 100 characters, and every engine takes the load sync and the hint none.")
    def test_it_tells_its_version_and_what_it_can_do(self, engine: spec.Engine) -> None:
        info = engine.info()
        assert type(info.version) is str, f"the version is no text, but a {type(info.version).__name__}"
        assert 1 <= len(info.version) <= LONGEST_NAME, f"the version has {len(info.version)} characters"
        assert info.version == info.version.strip() and info.version.isprintable(), f"the version is {info.version!r}"
        assert info.reads, "it reads no format"
        assert info.formats <= set(spec.ModelFormat), f"the formats are {info.formats}, which are no ModelFormats"
        assert spec.Load.SYNC in info.loads, "it does not take the load sync"
        assert spec.Hint.NONE in info.hints, "it does not take the hint none"
        assert all(batch >= 1 for batch in info.batches), f"batches are {info.batches}"

    @promise("`begins` are places and bytes of which one stands in every such main file")
    def test_files_of_its_own_are_called_and_begin_as_it_says(self, engine: spec.Engine, tmp_path: Path) -> None:
        own = {one.name: one for one in engine.info().own_formats}
        found = [(own[model.format], model.path) for model in self.models(engine, tmp_path) if model.format in own]
        if not found:
            pytest.skip("it reads no format of its own here")
        for one, path in found:
            assert path.suffix in one.suffixes
            assert one.begins_in(path)
            assert all(path.with_suffix(ending).is_file() for ending in one.companions)

    @promise("In a format of the engine's own it holds what was given and no more")
    def test_inputs_that_nobody_gives_are_found_in_a_file_of_its_own(self, engine: spec.Engine, tmp_path: Path) -> None:
        model, batch = self.classifier(tmp_path), max(batches(engine))
        if model.format in engine.info().formats:
            pytest.skip("it reads no format of its own here")
        with self.compiled(engine, spec.ModelSource(model.path, model.format), self.settings(batch=batch)) as compiled:
            assert tuple(compiled.inputs) == model.at(batch)

    @promise("Never an option that names a file, a library or a cache folder.")
    def test_its_options_are_typed_and_name_no_file(self, engine: spec.Engine) -> None:
        options = engine.info().options
        assert len({option.name for option in options}) == len(options)
        for option in options:
            assert option.type in OPTION_TYPES
            assert option.help
            assert all(type(choice) is option.type for choice in option.choices)
            is_free = option.type is str and not option.choices  # nothing else can name a file
            words = _WORD.findall(option.name)
            assert not (is_free and any(FILE_WORD.search(word.lower()) for word in words)), option.name

    @promise("An agent lists 64 options, and 64 choices of each")
    def test_all_of_its_options_and_choices_are_listed(self, engine: spec.Engine) -> None:
        options = engine.info().options
        assert len(options) <= MOST_LISTED, f"it has {len(options)} options"
        for option in options:
            assert len(option.choices) <= MOST_LISTED, f"{option.name} has {len(option.choices)} choices"

    @promise(REFUSED)
    def test_each_choice_of_an_option_works_or_is_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        model, batch = self.classifier(tmp_path), min(batches(engine))
        inputs = model.inputs_for(batch, seed=9)
        for option, choice in choices(engine):
            options = {**self.options, option.name: choice}
            settings = self.settings(batch=batch, options=options, profiling=option.profile_only)
            try:
                with self.compiled(engine, model.source(batch), settings) as compiled:
                    if option.profile_only:
                        compiled.profile([inputs], 1)
                        continue
                    request = compiled.create_request()
                    outputs = request.infer(inputs)
                    found = {name: np.shape(array) for name, array in outputs.items()}
                    request.close()
            except spec.UnsupportedSettingsError:
                continue
            except Exception as error:
                pytest.fail(f"{option.name}={choice} is offered and raises {type(error).__name__}: {error}")
            expected = {name: array.shape for name, array in model.reference(inputs).items()}
            assert found == expected, f"{option.name}={choice} gives outputs of {found}, and the model's are {expected}"

    @promise("Every device has a name of its own, a full name, precisions and resources, the last in small letters.")
    def test_its_devices_have_unique_names_and_say_what_they_occupy(self, engine: spec.Engine) -> None:
        devices = engine.devices()
        names = [device.name for device in devices]
        assert self.device in names
        assert len(set(names)) == len(names)
        for device in devices:
            assert len(device.name) <= LONGEST_NAME
            assert device.full_name
            assert device.precisions
            assert device.resources
            assert all(resource == resource.lower() for resource in device.resources)
            assert all(isinstance(value, str) for value in device.properties.values())

    @promise("`resources` are the physical parts that compute")
    def test_the_processor_occupies_the_processor(self, engine: spec.Engine) -> None:
        resources = {device.name: device.resources for device in engine.devices()}
        if "CPU" not in resources:
            pytest.skip("it has no device CPU")
        assert "cpu" in resources["CPU"]

    # What it computes.

    @promise("The outputs map every output's name, as the model has it, to an array")
    def test_outputs_have_the_names_of_the_model(self, engine: spec.Engine, tmp_path: Path) -> None:
        for model in self.models(engine, tmp_path):
            batch = max(batches(engine))
            (outputs,) = self.infer(engine, model, batch, model.inputs_for(batch, seed=1))
            assert set(outputs) == set(model.outputs), (
                f"outputs have other names than in the model: {sorted(outputs)}, and not {sorted(model.outputs)}"
            )

    @promise("The outputs map every output's name, as the model has it, to an array")
    def test_outputs_of_what_is_fused_have_the_names_of_the_model(self, engine: spec.Engine, tmp_path: Path) -> None:
        model, batch = self.fused(tmp_path), max(batches(engine))
        if model.format not in engine.info().reads:
            pytest.skip(f"it reads no {model.format}")
        inputs = model.inputs_for(batch, seed=2)
        (outputs,) = self.infer(engine, model, batch, inputs)
        strange = sorted(set(outputs) - set(model.outputs))
        assert not strange, f"outputs are called {', '.join(strange)}, and the model's {', '.join(model.outputs)}"
        self.assert_same(outputs, model.reference(inputs))

    @promise("`batches` are the only batch sizes it can run, where it cannot run any")
    def test_it_runs_every_batch_that_it_offers(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        for batch in batches(engine):
            try:
                self.infer(engine, model, batch, model.inputs_for(batch, seed=1))
            except Exception as error:
                hint = "" if batch == 1 else "; an engine that runs one item at a time says batches=(1,) in EngineInfo"
                pytest.fail(f"a batch of {batch} raises {type(error).__name__}: {error}{hint}")

    @promise(OUTPUTS)
    def test_outputs_equal_the_reference(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        for batch in batches(engine):
            inputs = model.inputs_for(batch, seed=batch)
            (outputs,) = self.infer(engine, model, batch, inputs)
            self.assert_same(outputs, model.reference(inputs))

    @promise("`inputs` maps every input's name to a C-contiguous array of exactly the compiled shape and dtype")
    def test_inputs_of_several_types_and_every_output_are_served(self, engine: spec.Engine, tmp_path: Path) -> None:
        if not engine.info().integer_inputs:
            pytest.skip("it takes floating-point inputs only")
        model = self.embedding(tmp_path)
        for batch in batches(engine):
            inputs = model.inputs_for(batch, seed=batch)
            (outputs,) = self.infer(engine, model, batch, inputs)
            self.assert_same(outputs, model.reference(inputs))

    @promise("The model's main file in a private folder (further files beside it)")
    def test_weights_beside_the_model_file_are_found(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        if model.format is not spec.ModelFormat.ONNX:
            pytest.skip("only ONNX keeps weights in files that the model names")
        batch = min(batches(engine))
        inputs = model.inputs_for(batch, seed=3)
        external = contract_models.with_external_data(model, tmp_path / "external")
        (outputs,) = self.infer(engine, external, batch, inputs)
        self.assert_same(outputs, model.reference(inputs))

    @promise(OUTPUTS)
    def test_different_inputs_give_different_outputs(self, engine: spec.Engine, tmp_path: Path) -> None:
        batch = max(batches(engine))
        for model in self.models(engine, tmp_path):
            inputs = [model.inputs_for(batch, seed=seed) for seed in (1, 2, 1)]
            one, other, again = self.infer(engine, model, batch, *inputs)
            for name in model.outputs:
                assert not np.allclose(one[name], other[name], rtol=0.01, atol=0.01), (
                    f"{name} is the same for two inputs"
                )
            self.assert_same(again, one)

    @promise("anew each time: nothing is kept from one inference for another")
    def test_an_input_that_was_changed_in_one_place_is_another(self, engine: spec.Engine, tmp_path: Path) -> None:
        batch = max(batches(engine))
        for model in self.models(engine, tmp_path):
            inputs = model.inputs_for(batch, seed=8)
            with self.requests(engine, model, batch) as (request,):
                for _ in range(TIMES_ALIKE):
                    before = copied(request.infer(inputs))
                for array in inputs.values():
                    if array.dtype.kind == "f":
                        array.reshape(-1)[-1] += MUCH
                after = copied(request.infer(inputs))
            expected = model.reference(inputs)
            for name, array in expected.items():
                is_the_same = np.array_equal(after[name], before[name]) and not np.allclose(array, before[name])
                assert not is_the_same, f"{name} is that of the inputs before the last of their values was changed"
            self.assert_same(after, expected)

    @promise("whose first dimension is the batch where the model has one")
    def test_the_batch_axis_is_kept(self, engine: spec.Engine, tmp_path: Path) -> None:
        for model in self.models(engine, tmp_path):
            for batch in batches(engine):
                inputs = model.inputs_for(batch, seed=1)
                (outputs,) = self.infer(engine, model, batch, inputs)
                for name, expected in model.reference(inputs).items():
                    found, wanted = outputs[name].shape, expected.shape
                    assert len(found) == len(wanted), f"{name} has the shape {found}, and the model's is {wanted}"
                    assert found[0] == wanted[0], f"{name} has {found[0]} items of {wanted[0]}"

    @promise(OUTPUTS)
    def test_every_item_of_a_batch_is_computed_on_its_own(self, engine: spec.Engine, tmp_path: Path) -> None:
        batch = max(batches(engine))
        if batch == 1:
            pytest.skip("it runs one item at a time")
        order = np.roll(np.arange(batch), 1)
        for model in self.models(engine, tmp_path):
            inputs = model.inputs_for(batch, seed=5)
            turned_inputs = {name: np.ascontiguousarray(array[order]) for name, array in inputs.items()}
            straight, turned = self.infer(engine, model, batch, inputs, turned_inputs)
            self.assert_same(turned, {name: array[order] for name, array in straight.items()})

    @promise("Run once and return when every output lies whole in host memory.")
    def test_an_inference_that_takes_its_time_is_waited_for(self, engine: spec.Engine, tmp_path: Path) -> None:
        model, batch = self.timed(engine, tmp_path), min(batches(engine), key=lambda one: abs(one - IN_FLIGHT))
        inputs = [model.inputs_for(batch, seed) for seed in (12, 13)]
        for each, outputs in zip(inputs, self.infer(engine, model, batch, *inputs), strict=True):
            self.assert_same(outputs, model.reference(each))

    @promise("the arrays are not to be changed")
    def test_inputs_are_left_as_they_were(self, engine: spec.Engine, tmp_path: Path) -> None:
        model, batch = self.classifier(tmp_path), max(batches(engine))
        inputs = model.inputs_for(batch, seed=6)
        before = copied(inputs)
        self.infer(engine, model, batch, inputs, inputs)
        for name, array in before.items():
            np.testing.assert_array_equal(inputs[name], array)

    @promise("The inputs as compiled, in the model's order, without open dimensions.")
    def test_compiled_inputs_are_the_models_without_open_dimensions(self, engine: spec.Engine, tmp_path: Path) -> None:
        batch = max(batches(engine))
        for model in self.models(engine, tmp_path):
            with self.compiled(engine, model.source(batch), self.settings(batch=batch)) as compiled:
                assert tuple(compiled.inputs) == model.at(batch)

    @promise("the model's own, fixed shapes then hold")
    def test_a_model_with_fixed_shapes_needs_none_given(self, engine: spec.Engine, tmp_path: Path) -> None:
        batch = max(batches(engine))
        model = self.fixed_classifier(tmp_path, batch)
        source = spec.ModelSource(model.path, model.format)
        inputs = model.inputs_for(batch, seed=7)
        with self.compiled(engine, source, self.settings(batch=batch)) as compiled:
            assert tuple(compiled.inputs) == model.inputs
            request = compiled.create_request()
            self.assert_same(request.infer(inputs), model.reference(inputs))
            request.close()

    @promise("one of another shape raises")
    def test_an_input_of_another_shape_is_an_error(self, engine: spec.Engine, tmp_path: Path) -> None:
        model, batch = self.classifier(tmp_path), min(batches(engine))
        good = model.inputs_for(batch, seed=1)
        with self.requests(engine, model, batch) as (request,):
            try:
                request.infer(_too_narrow(good))
            except Exception:
                self.assert_same(request.infer(good), model.reference(good))
                return
        pytest.fail(_taken(good))

    # Several requests.

    @promise("Make a request that can be in flight together with the others.")
    def test_a_second_request_leaves_the_first_ones_outputs_alone(self, engine: spec.Engine, tmp_path: Path) -> None:
        skip_unless_async(engine)
        model, batch = self.classifier(tmp_path), max(batches(engine))
        inputs = [model.inputs_for(batch, seed) for seed in (1, 2)]
        with self.requests(engine, model, batch, count=2) as requests:
            outputs = [request.infer(each_inputs) for request, each_inputs in zip(requests, inputs, strict=True)]
            for each_outputs, each_inputs in zip(outputs, inputs, strict=True):
                self.assert_same(each_outputs, model.reference(each_inputs))

    @promise("`on_done(outputs, None)` or `on_done(None, error)` follows, on any thread")
    def test_requests_in_flight_join_each_output_to_its_own_input(self, engine: spec.Engine, tmp_path: Path) -> None:
        skip_unless_async(engine)
        model, batch = self.classifier(tmp_path), max(batches(engine))
        inputs = [model.inputs_for(batch, seed) for seed in range(12)]
        with self.requests(engine, model, batch, count=3) as requests:
            outputs = run_rotating(requests, inputs)
        for each_outputs, each_inputs in zip(outputs, inputs, strict=True):
            self.assert_same(each_outputs, model.reference(each_inputs))

    @promise("`on_done(outputs, None)` or `on_done(None, error)` follows, on any thread")
    def test_an_error_of_a_started_inference_arrives_through_on_done(self, engine: spec.Engine, tmp_path: Path) -> None:
        skip_unless_async(engine)
        model, batch = self.classifier(tmp_path), min(batches(engine))
        good = model.inputs_for(batch, seed=1)
        results = Results(expected=1)
        with self.requests(engine, model, batch) as (request,):
            request.start(_too_narrow(good), lambda outputs, error: results.add(0, outputs, error))
            results.wait()
            assert isinstance(results.errors[0], Exception), _taken(good)
            assert results.outputs[0] is None
            self.assert_same(request.infer(good), model.reference(good))

    # What it refuses.

    @promise(REFUSED)
    def test_an_unknown_option_is_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        self.assert_refused(engine, tmp_path, options={**self.options, "no_such_option": 1})

    @promise(REFUSED)
    def test_an_option_of_another_type_or_choice_is_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        for option in engine.info().options:
            wrong: list[spec.OptionValue] = [1.5 if option.type is str else "no such value"]
            if option.choices and option.type is str:
                wrong.append("no such choice")
            for value in wrong:
                self.assert_refused(engine, tmp_path, options={**self.options, option.name: value})

    @promise(REFUSED)
    def test_a_hint_it_does_not_offer_is_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        for hint in set(spec.Hint) - engine.info().hints:
            self.assert_refused(engine, tmp_path, hint=hint)

    @promise(REFUSED)
    def test_a_load_it_does_not_offer_is_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        for load in {spec.Load.ASYNC} - engine.info().loads:
            self.assert_refused(engine, tmp_path, load=load, requests=2)

    @promise(REFUSED)
    def test_a_batch_it_does_not_offer_is_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        if offered := engine.info().batches:
            self.assert_refused(engine, tmp_path, batch=max(offered) + 1)

    @promise(REFUSED)
    def test_a_precision_the_device_lacks_is_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        for precision in set(spec.Precision) - set(self.offered(engine)) - {spec.Precision.DEFAULT}:
            self.assert_refused(engine, tmp_path, precision=precision)

    @promise(REFUSED)
    def test_streams_are_refused_where_there_is_only_one(self, engine: spec.Engine, tmp_path: Path) -> None:
        if not engine.info().multiple_streams:
            self.assert_refused(engine, tmp_path, streams=2)

    @promise("more cores than there are requests in flight are refused")
    def test_more_cores_than_requests_are_refused_with_one_thread(self, engine: spec.Engine, tmp_path: Path) -> None:
        if not engine.info().single_threaded:
            pytest.skip("an inference may run on several threads")
        self.assert_refused(engine, tmp_path, cores=2)

    @promise(REFUSED)
    def test_an_unknown_device_is_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        self.assert_refused(engine, tmp_path, device="ABACUS:7")

    @promise("Other exceptions mean that the engine cannot compile the model; their text reaches the user.")
    @pytest.mark.parametrize("damage", ["garbage", "truncated", "empty"])
    def test_a_broken_model_file_raises(self, engine: spec.Engine, tmp_path: Path, damage: str) -> None:
        model, batch = self.classifier(tmp_path), min(batches(engine))
        content = model.path.read_bytes()
        kept = {"garbage": b"this is no model\n" * 99, "truncated": content[: len(content) // 2], "empty": b""}
        model.path.write_bytes(kept[damage])
        with (
            pytest.raises(Exception, match=r"\w"),
            self.compiled(engine, model.source(batch), self.settings(batch=batch)),
        ):
            pass

    # The end.

    @promise("Release what the request holds.")
    def test_closing_gives_back_what_was_taken(self, engine: spec.Engine, tmp_path: Path) -> None:
        skip_unless_async(engine)
        model, batch = self.classifier(tmp_path), min(batches(engine))
        inputs = [model.inputs_for(batch, seed) for seed in range(2)]
        before, counts = _request_threads(), []
        for _ in range(2 * RELEASE_CYCLES):
            with self.requests(engine, model, batch, count=2, cores=2) as requests:
                run_rotating(requests, inputs)
            counts.append(_settled_thread_count(before))
        assert counts[-1] < counts[RELEASE_CYCLES - 1] + RELEASE_CYCLES, f"threads stay: {counts}"


class InferenceContract(UseContract, ComputingContract):
    """All but profiles; pytest goes through the last of these first."""


class EngineContract(ProfileContract, InferenceContract):
    """Subclass as `TestSomething` and set `plugin`; the other attributes have defaults that most engines meet."""


def _too_narrow(inputs: Arrays) -> Arrays:
    return {name: np.ascontiguousarray(array[:, :-1]) for name, array in inputs.items()}


def _taken(good: Arrays) -> str:
    (name, array), *_ = good.items()
    wrong = _too_narrow(good)[name].shape
    return f"{name} of shape {wrong} was taken where {array.shape} was compiled, without an error"


def _request_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "infer-request"}


def _settled_thread_count(before: set[threading.Thread]) -> int:
    """Threads of this process, once those of closed requests have had the time to end."""
    deadline = time.monotonic() + 2.0
    while _request_threads() - before:
        assert time.monotonic() < deadline, "a closed request keeps its thread"
        time.sleep(0.005)
    return len(list(Path("/proc/self/task").iterdir()))
