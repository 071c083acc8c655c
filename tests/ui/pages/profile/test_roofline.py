"""The roofline chart draws what is known under the roofs that were measured, and says what it leaves out."""

import math
from dataclasses import replace

import pytest

import invented_sweeps
from controller.verdicts.pruning.passes import layer
from enginebench_controller.records import EngineRef
from enginebench_ui.pages.profile.shapes.layers import layer_views
from enginebench_ui.pages.profile.shapes.roofline import MOST_POINTS, calibration_command, roofline_view


def profile(*layers, **fields):
    return replace(invented_sweeps.baseline(), layers=tuple(layers), nodes=(), **fields)


def work(name, ms, flops, data_bytes, **fields):
    return layer(name, ms, None, flops=flops, data_bytes=data_bytes, **fields)


COMPUTE = work("compute", 4, 2_000_000, 100_000)
MEMORY = work("memory", 10, 100_000, 8_000_000)
REORDER = work("reorder", 1, None, 1_000)


def view(subject, peaks=None):
    peaks = invented_sweeps.peaks() if peaks is None else peaks
    return roofline_view(subject, layer_views(subject, peaks), peaks)


def test_layers_stand_at_their_intensity_and_rate_by_what_bounds_them():
    traces = {trace.name: trace for trace in view(profile(COMPUTE, MEMORY, REORDER)).figure.data}

    assert (traces["compute-bound"].x, traces["compute-bound"].y) == ((20.0,), (pytest.approx(5e8),))
    assert (traces["memory-bound"].x, traces["memory-bound"].y) == ((0.0125,), (pytest.approx(1e7),))


def test_roofs_rise_with_the_bandwidth_and_end_at_the_peak():
    traces = view(profile(COMPUTE, MEMORY)).figure.data
    memory = next(trace for trace in traces if "memory 1.00 GB/s" in trace.name)
    cache = next(trace for trace in traces if "nearest cache 10.0 GB/s" in trace.name)

    assert memory.y[0] == pytest.approx(memory.x[0] * 1e9)
    assert (memory.x[1], memory.y[1:]) == (1.0, (1e9, 1e9))
    assert cache.x[1] == pytest.approx(0.1)


def test_both_axes_are_logarithmic_and_reach_every_point():
    layout = view(profile(COMPUTE, MEMORY)).figure.layout

    assert (layout.xaxis.type, layout.yaxis.type) == ("log", "log")
    assert layout.xaxis.range[0] < math.log10(0.0125) and math.log10(20) < layout.xaxis.range[1]


def test_layers_without_operations_are_counted_and_not_drawn():
    assert view(profile(COMPUTE, REORDER)).remarks == (
        "1 of 2 timed layers are not drawn: they do no operations, or their work is unknown.",
    )
    assert view(profile(REORDER)).figure is None


def test_without_a_calibration_there_are_points_and_no_roofs():
    subject = profile(COMPUTE, engine=EngineRef("invented", "side", "2.0"))
    found = view(subject)

    assert not found.is_calibrated
    assert [trace.name for trace in found.figure.data] == ["roof unknown"]
    assert calibration_command(subject) == "enginebench targets calibrate --engine invented@side --cores 2"


def test_winograd_and_sparse_are_labelled_and_have_a_mark_of_their_own():
    fast = work("fast", 1, 2_000_000, 100_000)
    winograd = replace(fast, kernel="winograd_3x3")
    (trace,) = [one for one in view(profile(winograd, MEMORY)).figure.data if one.name == "compute-bound"]
    assert (trace.text, trace.marker.symbol) == (("winograd",), ("diamond-open",))

    asked = {"optimization_level": "0", "imposed_sparsity": "0.9"}
    configuration = replace(profile(fast).configuration, options=asked)
    (trace,) = [
        one for one in view(profile(fast, configuration=configuration)).figure.data if one.name == "compute-bound"
    ]
    assert trace.text == ("sparse",)


def test_layers_above_their_roof_have_a_remark():
    fast = work("fast", 1, 200_000_000_000, 100_000)
    assert any(
        "above" in remark or "faster" in remark or "so short" in remark for remark in view(profile(fast)).remarks
    )
    assert not view(profile(COMPUTE)).remarks


def test_of_thousands_the_slowest_are_drawn_and_that_is_said():
    subject = profile(*(work(f"l{place}", 1 + place / 1000, 1000, 1000, order=place) for place in range(3000)))
    found = view(subject)

    assert sum(len(trace.x) for trace in found.figure.data if trace.mode.startswith("markers")) == MOST_POINTS
    assert found.remarks[-1].startswith(f"The slowest {MOST_POINTS} of 3000 layers are drawn")


def test_names_do_not_speak_plotlys_html():
    subject = profile(work("<b>x</b>" + "n" * 1000, 4, 2_000_000, 100_000))
    drawn = view(subject).figure.to_json()
    assert "<b>x" not in drawn and "\\u003cb\\u003ex" not in drawn and "n" * 100 not in drawn
