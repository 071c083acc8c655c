"""What a stored benchmark is run again by."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

import invented
from enginebench_controller.errors import InputError, StoreBusyError
from enginebench_controller.home import Home
from enginebench_controller.plan.expand import Case, Expansion
from enginebench_controller.records import Configuration, EngineRef, ModelVersion
from enginebench_controller.runs import benchmarking
from enginebench_controller.runs.benchmarking import order_again
from enginebench_controller.runs.undertaking import plans
from enginebench_controller.targets.session import TargetSession

BENCHMARK = invented.benchmark()


def again(**said):
    """The order that repeats a benchmark whose plan says this, as an import may have brought it."""
    return order_again(replace(BENCHMARK, plan={"models": ["net"], **said}))


def test_a_benchmark_is_run_again_with_the_versions_that_its_models_were():
    assert again(digests={"net": "ab" * 32}).digests == {"net": "ab" * 32}
    assert again().digests is None


@pytest.mark.parametrize("odd", [5, ["net"], "net", {"net": 5}])
def test_versions_in_a_form_that_is_not_ours_are_a_sentence(odd):
    with pytest.raises(InputError, match="plan of benchmark b0000001 names no versions of its models"):
        again(digests=odd)


async def test_who_interrupts_a_run_before_it_is_in_the_store_leaves_no_plan_of_it(tmp_path, monkeypatch):
    model = ModelVersion("a" * 64, "net", "onnx", (), 1)
    case = Case("edge", EngineRef("fake", "default"), model, Configuration("CPU", batch=1, cores=1), ("cpu",))

    def record(*_):
        raise StoreBusyError("others have it")

    monkeypatch.setattr(benchmarking, "_expand", lambda *_: Expansion((case,), ()))
    monkeypatch.setattr(benchmarking, "_record", record)
    session, binder = TargetSession({}, ()), SimpleNamespace(digests={})
    running = asyncio.create_task(benchmarking.run_in_session(Home(tmp_path), again(), session, binder, None))
    while not plans(tmp_path):
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert plans(tmp_path) == ()
