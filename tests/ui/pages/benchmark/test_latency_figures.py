"""Latencies are drawn as they came, with processes, disturbances and their distribution marked."""

from dataclasses import replace

import numpy as np
import pytest

import invented
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.store.store import Store
from enginebench_ui.pages.benchmark.shapes.cell import disturbed_stretches, iterations_figure, shares_figure, thinned
from enginebench_ui.pages.benchmark.shapes.lines import labelled, latency_axis, lines_of, looks


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results.duckdb", timeout_s=5)
    store.add_benchmark(invented.benchmark())
    return store


def drawn(store, *measurements):
    """The curves and looks of measurements, each of which is a line."""
    for one in measurements:
        latency_ms = one.latency.median_ns / 1e6
        store.add_measurement(one, invented.samples(one.id, latency_ms=latency_ms, iterations=one.iterations))
    lines = labelled(lines_of(measurements))
    curves = store.latency_curves([one.id for one in measurements])
    return {line.key: curves[line.first.id] for line in lines}, looks(lines, EngineLooks())


def test_every_iteration_is_drawn_and_processes_are_told_apart(store):
    curves, look = drawn(store, invented.measured("m1", iterations=300))
    figure = iterations_figure(curves, look)

    line, levels = figure.data
    (curve,) = curves.values()
    x, y = np.array(line.x, float), np.array(line.y, float)
    kept = ~np.isnan(x)
    assert np.array_equal(x[kept], curve.iterations)
    assert np.array_equal(y[kept], curve.latency_ns / 1e6)
    assert np.count_nonzero(~kept) == 2  # between three processes
    assert [one.text for one in figure.layout.annotations] == ["process 1", "process 2", "process 3"]
    assert levels.showlegend is False and levels.legendgroup == line.legendgroup
    assert not thinned(curves)


def test_the_distribution_covers_the_latencies_and_is_zero_at_both_ends(store):
    curves, look = drawn(store, invented.measured("m1", iterations=2000))
    levels = iterations_figure(curves, look).data[1]
    (curve,) = curves.values()

    assert (levels.x[0], levels.x[-1]) == (0, 0)
    assert min(levels.y) <= curve.quantiles_ns[0] / 1e6
    assert max(levels.y) >= curve.quantiles_ns[-1] / 1e6
    assert levels.y[int(np.argmax(levels.x))] == pytest.approx(4, rel=0.05)


def test_disturbed_stretches_are_marked_and_those_that_touch_are_one(store):
    measurement = invented.measured("m1", iterations=240, noisy=True)
    sizes = [block.iterations for block in measurement.blocks]
    assert disturbed_stretches(measurement) == ((sizes[0], sizes[0] + sizes[1]),)

    more = tuple(replace(block, disturbances=(invented.STEAL,)) for block in measurement.blocks[:3])
    run_on = replace(measurement, blocks=(*more, *measurement.blocks[3:]))
    assert disturbed_stretches(run_on) == ((0, sum(sizes[:3])),)

    curves, look = drawn(store, measurement)
    figure = iterations_figure(curves, look, disturbed_stretches(measurement))
    assert next(shape for shape in figure.layout.shapes if shape.type == "rect").x0 == sizes[0]


def test_a_browser_gets_lists_which_alone_it_does_not_take_for_another_chart_the_second_time(store):
    curves, look = drawn(store, invented.measured("m1"))
    for figure in (iterations_figure(curves, look), shares_figure(curves, look)):
        assert "bdata" not in figure.to_json()


def test_the_share_done_rises_to_all_of_them(store):
    curves, look = drawn(store, invented.measured("m1"), invented.measured("m2", engine="slow", latency_ms=40.0))
    figure = shares_figure(curves, look)

    first, second = figure.data
    assert (first.name, second.name) == ("fake 1.0", "slow 1.0")
    assert (first.y[0], first.y[-1]) == (0, 1)
    assert np.all(np.diff(first.x) >= 0)
    assert figure.layout.xaxis.type == "log"
    shown = [first, *iterations_figure(curves, look).data[:2]]
    assert all(":,.4~r} ms" in one.hovertemplate for one in shown), "large latencies stand in full"


def test_nothing_is_drawn_without_samples():
    assert iterations_figure({}, {}) is None
    assert shares_figure({}, {}) is None


@pytest.mark.parametrize(("least", "most", "kind"), [(4.0, 6.0, None), (1.0, 40.0, "log"), (0.0, 40.0, None)])
def test_latencies_far_apart_have_a_logarithmic_axis(least, most, kind):
    axis = latency_axis(least, most)

    assert axis.get("type") == kind
    assert "ms/batch" in axis["title"]
    if kind:
        assert 4 <= len(axis["tickvals"]) <= 12
