"""The grid of an order: what is new, what is measured again, and what was measured and is not asked for."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.plan.expand import Case
from enginebench_controller.records import (
    ArrivalProcess,
    Arrivals,
    Configuration,
    EngineRef,
    InputFile,
    InputSet,
    Load,
    Status,
)
from enginebench_controller.store.measurements import MeasuredCell
from enginebench_controller.store.store import Store
from enginebench_ui.pages.new_benchmark.shapes import cell_grid, legend, tally
from invented import model

MODEL, COPY = "a" * 64, "b" * 64
FAMILY = {MODEL: MODEL, COPY: MODEL}
PHOTOS = ((InputFile("pixels", "0b" * 32, 896),),)


def case(batch, cores, engine="x", **axes):
    return Case(
        "local", EngineRef(engine, "default", "1"), model(MODEL), Configuration("CPU", batch, cores, **axes), ()
    )


def measured(batch, cores, engine="x", digest=MODEL, median_ns=3_210_000.0, **axes):
    cell = MeasuredCell(
        model_digest=digest,
        target="local",
        engine=engine,
        environment="default",
        device="CPU",
        batch=batch,
        cores=cores,
        streams=1,
        precision="f32",
        hint="none",
        load="sync",
        requests=1,
        arrival_process=None,
        arrival_rate_per_s=None,
        options={},
        input_set=InputSet(),
        benchmark_id="b1",
        status=Status.OK,
        started_at_unix_ns=1,
        median_ns=median_ns,
        throughput_items_per_s=1.0,
    )
    return replace(cell, **axes)


def test_each_cell_says_whether_it_is_new():
    cases = [case(1, 1), case(1, 2), case(4, 1), case(4, 2)]
    known = [measured(1, 2), measured(4, 1, digest=COPY), measured(8, 2)]

    assert cell_grid(cases, known, FAMILY) == (
        {"Batch": 1, "1 core": "new", "2 cores": "↻ again (3.21 ms)"},
        {"Batch": 4, "1 core": "↻ again (3.21 ms)", "2 cores": "new"},
        {"Batch": 8, "1 core": None, "2 cores": "✓ 3.21 ms"},
    )
    assert tally(cases, known, FAMILY) == (2, 2)


def test_what_was_measured_otherwise_is_another_thing():
    others = [
        measured(1, 1, engine="y"),
        measured(1, 1, digest="c" * 64),
        measured(1, 1, precision="bf16"),
        measured(1, 1, load="async", requests=2),
        measured(1, 1, target="nuc"),
        measured(1, 1, device="GPU.0"),
        measured(1, 1, options={"x": "1"}),
        measured(1, 1, input_set=InputSet(seed=1)),
        measured(1, 1, input_set=InputSet(count=1, name="photos", items=PHOTOS)),
    ]
    assert cell_grid([case(1, 1)], others, FAMILY) == ({"Batch": 1, "1 core": "new"},)


def open_loop(rate, process=ArrivalProcess.POISSON):
    return {"load": Load.OPEN_LOOP, "requests": 2, "arrivals": Arrivals(rate, process)}


def test_an_open_loop_is_the_same_at_its_rate_and_process_only():
    known = measured(1, 1, load="open-loop", requests=2, arrival_process="poisson", arrival_rate_per_s=50.0)
    others = [case(1, 1, **open_loop(60.0)), case(1, 1, **open_loop(50.0, ArrivalProcess.CONSTANT))]

    assert tally([case(1, 1, **open_loop(50.0)), *others], [known], FAMILY) == (2, 1)
    assert cell_grid(others, [known], FAMILY) == ({"Batch": 1, "1 core": "2 new"},)


@pytest.mark.slow
def test_what_the_store_keeps_of_a_configuration_is_found_again(tmp_path):
    asked = [
        {},
        {"options": {"x": "1", "y": "2"}},
        {"input_set": InputSet(count=1, name="photos", items=PHOTOS)},
        open_loop(50.0),
        open_loop(60.0),
        open_loop(50.0, ArrivalProcess.CONSTANT),
    ]
    cases = [case(1, 1, **axes) for axes in asked]
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    for number, one in enumerate(cases):
        fields = {"engine": "x", "model_digest": MODEL, "configuration": one.configuration}
        store.add_measurement(invented.measured(f"m{number}", **fields))
        known = store.measured_cells([MODEL])
        assert tally(cases, known, FAMILY) == (len(cases) - number - 1, number + 1)


@pytest.mark.slow
def test_the_newest_numbers_count_whatever_the_order_of_the_options(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    for started, latency_ms, names in ((3, 6.0, "ab"), (2, 5.0, "ba"), (1, 4.0, "ab")):
        configuration = Configuration("CPU", 1, 1, options=dict.fromkeys(names, "1"))
        fields = {"engine": "x", "model_digest": MODEL, "configuration": configuration}
        one = invented.measured(f"m{started}", latency_ms=latency_ms, **fields)
        store.add_measurement(replace(one, started_at_unix_ns=started))

    (row,) = cell_grid([case(1, 1, options={"a": "1", "b": "1"})], store.measured_cells([MODEL]), FAMILY)

    assert row["1 core"].startswith("↻ again (6.")


def test_several_configurations_in_one_cell_are_counted():
    grid = cell_grid(
        [case(1, 1), case(1, 1, "y"), case(1, 1, "z")], [measured(1, 1), measured(2, 1), measured(2, 1, "y")], FAMILY
    )

    assert [row["1 core"] for row in grid] == ["2 new, ↻ 1 again", "✓ 2 measured"]
    assert cell_grid([], [], FAMILY) == ()


def test_the_legend_explains_only_what_is_there():
    assert legend(3, 0, cell_grid([case(1, 1)], [], FAMILY)) == "3 new."
    with_more = cell_grid([case(1, 1)], [measured(2, 1)], FAMILY)
    assert legend(1, 2, with_more).startswith("1 new, 2 measured before (↻, newest median). ✓ marks")
