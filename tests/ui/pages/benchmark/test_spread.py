"""The latencies of many targets in one chart, with who stands out by name."""

import pytest

import invented
from enginebench_controller.files.palette import EngineLooks
from enginebench_ui.pages.benchmark.shapes.across import spread_figure


@pytest.mark.parametrize(("slowest_ms", "kind", "at"), [(8.0, None, 8), (400.0, "log", 2.6)])
def test_who_stands_out_is_named_where_its_latency_is_drawn(slowest_ms, kind, at):
    latencies_ms = {"one": 4.0, "two": 4.1, "odd": slowest_ms}
    measurements = [
        invented.measured(name, target=name, latency_ms=latency_ms) for name, latency_ms in latencies_ms.items()
    ]

    figure = spread_figure(measurements, {}, ["odd"], EngineLooks())

    (name,) = figure.layout.annotations
    assert (name.text, figure.layout.xaxis.type) == ("odd", kind)
    assert name.x == pytest.approx(at, rel=0.02), "an annotation of a logarithmic axis stands at a power of ten"
