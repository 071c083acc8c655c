"""The grid of an order: what is new, what is measured again, and what was measured and is not asked for."""

from dataclasses import replace

from enginebench_controller.planning.expand import Job
from enginebench_controller.records import Configuration, EngineRef, Status
from enginebench_controller.store.cell_rows import MeasuredCell
from enginebench_ui.views.ordering.cell_grid import cell_grid, legend, tally
from invented import model

MODEL, COPY = "a" * 64, "b" * 64
FAMILY = {MODEL: MODEL, COPY: MODEL}


def job(batch, cores, engine="x", **axes):
    return Job("local", EngineRef(engine, "default", "1"), model(MODEL), Configuration("CPU", batch, cores, **axes), ())


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
        benchmark_id="b1",
        status=Status.OK,
        started_at_unix_ns=1,
        median_ns=median_ns,
        throughput_items_per_s=1.0,
    )
    return replace(cell, **axes)


def test_each_cell_says_whether_it_is_new():
    jobs = [job(1, 1), job(1, 2), job(4, 1), job(4, 2)]
    known = [measured(1, 2), measured(4, 1, digest=COPY), measured(8, 2)]

    assert cell_grid(jobs, known, FAMILY) == (
        {"Batch": 1, "1 core": "new", "2 cores": "↻ again (3.21 ms)"},
        {"Batch": 4, "1 core": "↻ again (3.21 ms)", "2 cores": "new"},
        {"Batch": 8, "1 core": None, "2 cores": "✓ 3.21 ms"},
    )
    assert tally(jobs, known, FAMILY) == (2, 2)


def test_what_was_measured_otherwise_is_another_thing():
    others = [
        measured(1, 1, engine="y"),
        measured(1, 1, digest="c" * 64),
        measured(1, 1, precision="bf16"),
        measured(1, 1, load="async", requests=2),
        measured(1, 1, target="nuc"),
        measured(1, 1, device="GPU.0"),
    ]
    assert cell_grid([job(1, 1)], others, FAMILY) == ({"Batch": 1, "1 core": "new"},)


def test_several_configurations_in_one_cell_are_counted():
    grid = cell_grid(
        [job(1, 1), job(1, 1, "y"), job(1, 1, "z")], [measured(1, 1), measured(2, 1), measured(2, 1, "y")], FAMILY
    )

    assert [row["1 core"] for row in grid] == ["2 new, ↻ 1 again", "✓ 2 measured"]
    assert cell_grid([], [], FAMILY) == ()


def test_the_legend_explains_only_what_is_there():
    assert legend(3, 0, cell_grid([job(1, 1)], [], FAMILY)) == "3 new."
    with_more = cell_grid([job(1, 1)], [measured(2, 1)], FAMILY)
    assert legend(1, 2, with_more).startswith("1 new, 2 measured before (↻, newest median). ✓ marks")
