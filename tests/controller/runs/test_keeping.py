"""What a measurement is judged by is found before it is stored: its ceiling, random operators, and noise where needed.

What comes while a transaction goes on is stored together with the next; what cannot be stored fails alone.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from filelock import FileLock
from onnx import TensorProto, helper, numpy_helper

import invented
from enginebench_controller.errors import StoreBusyError, StoreError
from enginebench_controller.graph.reading import random_operators
from enginebench_controller.home import Home
from enginebench_controller.records import (
    AvailableEngine,
    BlockSamples,
    CapturedOutput,
    CeilingBasis,
    Configuration,
    Device,
    Effective,
    Grounds,
    InputFile,
    InputSet,
    InputTensor,
    Measurement,
    Peak,
    PeakKind,
    Rate,
)
from enginebench_controller.runs import busy_store
from enginebench_controller.runs.busy_store import patiently
from enginebench_controller.runs.keeping import Judging, Storing, keeper
from enginebench_controller.store import connection
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.output_check import check_outputs

ENGINE = AvailableEngine(
    name="fake", environment="default", version="1.0", devices=(Device("CPU", resources=("cpu",)),)
)
ASKED = Configuration("CPU", 1, cores=2, inputs=(InputTensor("x", "float32", (1, 64)),))


@pytest.fixture
def home(tmp_path):
    found = Home(tmp_path / "home")
    snapshot = invented.snapshot()
    engines = tuple(replace(ENGINE, name=name) for name in ("fake", "other"))
    found.store.add_benchmark(
        invented.benchmark(), [replace(snapshot, host=replace(snapshot.host, isa=("avx2",)), engines=engines)]
    )
    return found


def added(home, nodes, weights):
    """A model of these nodes in the library and the store."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    path = home.path / "m.onnx"
    path.parent.mkdir(exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    version = home.library.add(path)
    home.store.save_model(version)
    return version


WEIGHTS = {"w": np.full((64, 16), 0.01, np.float32), "far": np.float32(13), "one": np.float32(1)}
NEAR_ZERO = [
    helper.make_node("MatMul", ["x", "w"], ["z"]),
    helper.make_node("Add", ["z", "far"], ["high"]),
    helper.make_node("Sigmoid", ["high"], ["near"]),
    helper.make_node("Sub", ["one", "near"], ["y"]),
]


def measured(engine, version, values, **fields):
    outputs = tuple(
        CapturedOutput(index, "y", "float32", one.shape, 1, one.astype(np.float32)) for index, one in enumerate(values)
    )
    return invented.measured(
        f"of-{engine}",
        engine=engine,
        model_digest=version.digest,
        configuration=ASKED,
        captured_outputs=outputs,
        **fields,
    )


def small(relative=0.0):
    drawn = np.random.default_rng(0).uniform(1e-6, 2e-6, (4, 16))
    return drawn * (1 + relative * np.random.default_rng(1).uniform(-1, 1, drawn.shape))


@pytest.mark.slow
def test_noise_is_found_where_outputs_differ_and_only_there(home):
    version, judging = added(home, NEAR_ZERO, WEIGHTS), Judging(home)
    first, second = (
        judging.with_grounds(measured(name, version, small(off))) for name, off in (("fake", 0), ("other", 0.05))
    )

    check = check_outputs([first, second])["of-other"]

    assert (first.grounds.noise, len(second.grounds.noise)) == ((), 1)
    assert (check.problem, "within the noise of this model" in check.remark) == ("", True)


@pytest.mark.slow
def test_what_is_stored_already_counts_when_a_run_goes_on(home):
    version = added(home, NEAR_ZERO, WEIGHTS)
    home.store.add_measurement(Judging(home).with_grounds(measured("fake", version, small())))

    assert Judging(home).with_grounds(measured("other", version, small(0.05))).grounds.noise
    assert not Judging(home).with_grounds(measured("other", version, small())).grounds.noise


@pytest.mark.slow
def test_the_noise_of_a_model_excuses_no_wrong_engine(home):
    version, judging = added(home, [NEAR_ZERO[0], helper.make_node("Identity", ["z"], ["y"])], WEIGHTS), Judging(home)
    right = np.random.default_rng(0).normal(size=(4, 16))

    found = [judging.with_grounds(measured(n, version, v)) for n, v in (("fake", right), ("other", right * 1.01))]

    assert found[1].grounds.noise
    assert "differ" in check_outputs(found)["of-other"].problem


def test_the_ceiling_is_that_of_the_model_and_its_target(home):
    version = added(home, NEAR_ZERO, WEIGHTS)

    found = Judging(home).with_grounds(measured("fake", version, small())).grounds

    assert (found.ceiling.flops, found.ceiling.cores, found.ceiling.precision) == (2 * 64 * 16, 2, "f32")
    assert found.random_operators == ()


def test_peaks_bound_only_what_ran_on_the_processor_that_was_calibrated(home):
    """The target was another machine when it was calibrated, which did less than a hundredth of any."""
    one = measured("fake", added(home, NEAR_ZERO, WEIGHTS), small())
    rate = Rate(1e7, 1e7, 1e7, 9)
    known = {"precision": "f32", "rate": rate}
    bases = []
    for calibrated_ns, cpu_model in enumerate(("Slow CPU", "Invented CPU")):
        peak = Peak(one.target, one.engine, "CPU", 2, PeakKind.FLOPS, "MatMul", calibrated_ns, **known)
        home.store.add_peaks([replace(peak, cpu_model=cpu_model)])
        bases.append(Judging(home).with_grounds(one).grounds.ceiling.basis)
    assert bases == [CeilingBasis.ESTIMATED, CeilingBasis.CALIBRATED]


@pytest.mark.parametrize("fields", [{"configuration": replace(ASKED, device="GPU")}, {"effective": Effective()}])
def test_other_devices_have_no_ceiling_and_unknown_precisions_the_highest(home, fields):
    version = added(home, NEAR_ZERO, WEIGHTS)
    found = Judging(home).with_grounds(replace(measured("fake", version, small()), **fields)).grounds.ceiling

    assert found is None if "configuration" in fields else found.precision == "int8"


@pytest.mark.slow
def test_the_noise_is_that_of_the_inputs_that_were_given(home):
    """A product of inputs of a millionth rounds in its own digits, not in those of drawn ones."""
    version = added(home, [NEAR_ZERO[0], helper.make_node("Identity", ["z"], ["y"])], WEIGHTS)
    (home.path / "inputs").mkdir(exist_ok=True)
    np.save(home.path / "inputs" / "ab", np.full((1, 64), 1e-6, np.float32))
    (home.path / "inputs" / "ab.npy").rename(home.path / "inputs" / "ab")
    given = InputSet(count=1, items=((InputFile("x", "ab", 1),),))

    def noise(input_set):
        judging, asked = Judging(home), replace(ASKED, input_set=input_set)
        found = [
            judging.with_grounds(replace(measured(name, version, small(off)), configuration=asked))
            for name, off in (("fake", 0), ("other", 0.05))
        ]
        return found[1].grounds.noise[0].absolute

    assert noise(given) < noise(ASKED.input_set) / 1000


def test_what_a_model_brings_about_loses_no_measurement(home):
    version = added(home, NEAR_ZERO, WEIGHTS)
    home.library.main_path(version).write_bytes(b"\xff" * 100)

    found = Judging(home).with_grounds(measured("fake", version, small()))

    assert (found.id, found.grounds.ceiling, found.grounds.random_operators) == ("of-fake", None, None)


def test_random_operators_are_known(home):
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["n"]), helper.make_node("Add", ["x", "n"], ["y"])]
    nodes += [
        helper.make_node("Dropout", ["x", "", "train"], ["d"]),
        helper.make_node("Dropout", ["x", "", "no"], ["e"]),
    ]
    version = added(home, nodes, {"train": np.array(True), "no": np.array(False)})

    found = Judging(home).with_grounds(measured("fake", version, small()))

    assert found.grounds.random_operators == ("Dropout", "RandomNormalLike")


def test_what_keeps_a_state_is_not_random(tmp_path):
    """OpenVINO is given a new state for each inference."""
    (tmp_path / "m.xml").write_text('<layer type="ReadValue"/><layer type="RandomUniform"/>', encoding="utf-8")

    assert random_operators(tmp_path / "m.xml", "openvino_ir") == ("RandomUniform",)


def test_what_is_unknown_stops_no_storing(home):
    stranger = invented.measured("m9", engine="fake")

    assert Judging(home).with_grounds(stranger).grounds == Grounds()
    assert Judging(home).with_grounds(invented.failed("m8")).grounds == Grounds()


def test_of_an_emulated_target_it_is_known_and_no_ceiling_is(tmp_path):
    home, how = Home(tmp_path / "home"), "programs for aarch64 are translated on an x86_64 processor"
    snapshot = invented.snapshot()
    host = replace(snapshot.host, isa=("asimd",), emulation=how)
    home.store.add_benchmark(invented.benchmark(), [replace(snapshot, host=host, engines=(ENGINE,))])
    version = added(home, NEAR_ZERO, WEIGHTS)
    found = Judging(home).with_grounds(measured("fake", version, [np.ones((1, 16))]))
    assert (found.grounds.emulation, found.grounds.ceiling) == (how, None)
    unknown = replace(measured("fake", version, [np.ones((1, 16))]), model_digest="f" * 64)
    assert Judging(home).with_grounds(unknown).grounds.emulation == how, "whatever the model is"


class Counting(Store):
    """A store that remembers how many measurements each of its transactions had."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.together: list[int] = []

    def add_measurement(self, measurement: Measurement, samples: Iterable[BlockSamples] = ()) -> bool:
        self.together.append(1)
        return super().add_measurement(measurement, samples)

    def add_measurements(self, together: Iterable[tuple[Measurement, Iterable[BlockSamples]]]) -> None:
        self.together.append(len(list(together)))
        super().add_measurements(together)


@pytest.fixture
def store(tmp_path: Path) -> Counting:
    store = Counting(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark(), ())
    return store


async def add_all(store: Store, measurements: Iterable[Measurement]) -> list[BaseException | None]:
    storing = Storing(store)
    added = (storing.add(one, invented.samples(one.id)) for one in measurements)
    return list(await asyncio.gather(*added, return_exceptions=True))


async def test_many_at_once_are_a_few_transactions_and_one_alone_waits_for_none(store: Counting) -> None:
    ids = [f"m{number:07}" for number in range(40)]
    assert await add_all(store, map(invented.measured, ids)) == [None] * 40
    assert sum(store.together) == 40
    assert len(store.together) <= 3

    found = store.measurements("b0000001")
    assert [one.id for one in found] == ids, "in the order in which they came"
    assert all(one.blocks and store.samples(one.id) is not None for one in found)

    await add_all(store, [invented.measured("m0000099")])
    assert store.together[-1] == 1


async def test_what_comes_while_others_may_have_the_store_goes_together(store: Counting) -> None:
    storing = Storing(store)
    await storing.add(invented.measured("m0000000"), ())
    coming = []
    for number in range(1, 6):
        coming.append(asyncio.create_task(storing.add(invented.measured(f"m{number:07}"), ())))
        await asyncio.sleep(0.001)
    await asyncio.gather(*coming)
    assert store.together == [1, 5]


async def test_one_that_is_there_already_is_not_there_twice(store: Counting) -> None:
    assert await add_all(store, map(invented.measured, ("m0000001", "m0000002"))) == [None] * 2
    assert await add_all(store, map(invented.measured, ("m0000002", "m0000003"))) == [None] * 2
    assert [one.id for one in store.measurements("b0000001")] == ["m0000001", "m0000002", "m0000003"]


async def test_one_that_cannot_be_stored_fails_alone(store: Counting) -> None:
    lost = invented.measured("mlost", "b0000009")
    first, failed, last = await add_all(store, [invented.measured("ma"), lost, invented.measured("mb")])
    assert (first, last) == (None, None)
    assert isinstance(failed, StoreError)
    assert "its benchmark b0000009 was removed" in str(failed)
    assert {one.id for one in store.measurements("b0000001")} == {"ma", "mb"}


@pytest.fixture
def kept_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileLock:
    """What keeps the results of a home, which are there already, from those who have no more patience than 0.1 s."""
    monkeypatch.setattr(connection, "DEFAULT_TIMEOUT_S", 0.1)
    Home(tmp_path).store.add_benchmark(invented.benchmark(), [invented.snapshot()])
    return FileLock(tmp_path / "results.duckdb.lock")


async def test_a_result_waits_for_a_backup_that_takes_longer_and_lacks_nothing_then(
    tmp_path: Path, kept_by_others: FileLock, caplog: pytest.LogCaptureFixture
) -> None:
    with kept_by_others:
        keep = keeper(Home(tmp_path))
        coming = asyncio.gather(*(keep(invented.measured(name), invented.samples(name)) for name in ("ma", "mb")))
        await asyncio.sleep(0.5)
        assert not coming.done()
    await coming

    stored = Home(tmp_path).store.measurements("b0000001")
    assert {one.id for one in stored} == {"ma", "mb"}
    assert all(one.grounds is not None for one in stored), "what it is judged by was waited for, too"
    (said,) = {one.getMessage() for one in caplog.records if one.levelname == "WARNING"}
    assert "waiting up to 10 minutes for the results, where a second Ctrl-C leaves the rest to" in said
    assert "in use by another enginebench process" in said


async def test_what_ends_at_the_first_ctrl_c_asks_for_no_second(
    tmp_path: Path, kept_by_others: FileLock, caplog: pytest.LogCaptureFixture
) -> None:
    with kept_by_others:
        asked = asyncio.create_task(patiently(Home(tmp_path).store.benchmarks))
        await asyncio.sleep(0.5)
    await asked
    (said,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "waiting up to 10 minutes for the results: " in said and "Ctrl-C" not in said


async def test_whoever_comes_to_the_store_between_judging_and_storing_is_waited_for_too(
    tmp_path: Path, kept_by_others: FileLock
) -> None:
    with kept_by_others:
        coming = asyncio.create_task(add_all(Home(tmp_path).store, [invented.measured("ma")]))
        await asyncio.sleep(0.5)
    assert await coming == [None]


async def test_a_result_that_has_waited_long_enough_is_told_what_for(
    tmp_path: Path, kept_by_others: FileLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_store, "PATIENCE_S", 0.2)
    with kept_by_others, pytest.raises(StoreBusyError, match="in use by another enginebench process"):
        await keeper(Home(tmp_path))(invented.measured("ma"), ())
