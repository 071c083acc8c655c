"""What is asked for when a configuration is to be recommended: limits with units, axes, and a document of it."""

import json
import re

import pytest

from enginebench_controller.errors import InputError
from enginebench_controller.plan.recommend import (
    Goal,
    LatencyLimit,
    RecommendOrder,
    make_order,
    parse_axes,
    parse_latency_limit,
    parse_memory,
    parse_output_difference,
)


@pytest.mark.parametrize(
    ("text", "percent", "limit_ns"),
    [
        ("p95<20ms", 95, 20e6),
        ("p99 < 1s", 99, 1e9),
        ("latency<5ms", 50, 5e6),
        ("median <= 2.5 ms", 50, 2.5e6),
        ("p99.9<800us", 99.9, 800e3),
        ("p95<20\u00b5s", 95, 20e3),
        ("p95<20\u03bcs", 95, 20e3),
        ("p95≤20ms", 95, 20e6),
        ("P95 ≤ 20ms", 95, 20e6),
        ("Latency<1h", 50, 3600e9),
        ("20ms", 50, 20e6),
    ],
)
def test_a_limit_is_of_a_percentile(text, percent, limit_ns) -> None:
    assert parse_latency_limit(text) == LatencyLimit(percent, pytest.approx(limit_ns))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p95<20", "has no unit: write p95<20ms"),
        ("fast", "is no limit: write p95<20ms"),
        ("p20<3ms", "percentiles from p50"),
        ("p95<0ms", "give a limit above 0"),
        ("p95>20ms", "is no limit"),
        ("p95‹20ms", "is no limit: write p95<20ms"),
        ("p95<２ms", "is no limit: write p95<20ms"),
        ("p95<2,5ms", "is no limit: write p95<2.5ms, with a point"),
    ],
)
def test_what_is_no_limit_gets_a_sentence(text, said) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        parse_latency_limit(text)


def test_memory_has_a_unit() -> None:
    assert (parse_memory("500MB"), parse_memory("1.5 GiB")) == (500_000_000, 1_610_612_736)
    with pytest.raises(InputError, match=re.escape("has no unit: write 500MB")):
        parse_memory("500")
    with pytest.raises(InputError, match="is no amount of memory"):
        parse_memory("much")
    with pytest.raises(InputError, match=r"write 1\.5GB, with a point"):
        parse_memory("1,5GB")


def test_an_output_difference_is_a_share() -> None:
    assert parse_output_difference("0.5%") == pytest.approx(0.005)
    with pytest.raises(InputError, match=re.escape("--max-output-difference '1' has no unit: write 1%")):
        parse_output_difference("1")
    with pytest.raises(InputError, match="is no share"):
        parse_output_difference("little")
    with pytest.raises(InputError, match=r"is no share: write 0\.5%, with a point"):
        parse_output_difference("0,5%")


def test_axes_are_fixed_or_narrowed() -> None:
    assert parse_axes(["cores=2"], ["batch=1,4"]) == {"cores": ("2",), "batch": ("1", "4")}
    assert parse_axes([], ["cores=2,big:2,all"]) == {"cores": ("2", "big:2", "all")}


@pytest.mark.parametrize(
    ("fixed", "among", "said"),
    [
        (["cores"], [], "--fix 'cores' is not of the form axis=value"),
        ([], ["batch="], "is not of the form axis=a,b,c"),
        (["core=2"], [], "there is no axis 'core' to choose; there are batch, cores"),
        (["batch=1,2"], [], "write --among batch=1,2"),
        (["batch=1"], ["batch=1,2"], "batch was given before"),
        ([], ["batch=1,024"], "--among 'batch=1,024': '1,024' is two values: write 1024"),
        ([], ["streams=1.000,2"], "--among 'streams=1.000,2': '1.000' is not a whole number: write digits alone"),
        ([], ["cores=1,\uff12"], "'\uff12' is not a whole number: write digits alone"),
        (["cores=1.000"], [], "--fix 'cores=1.000': '1.000' is not a whole number"),
        (["batch=1.000"], [], "--fix 'batch=1.000': '1.000' is not a whole number"),
    ],
)
def test_what_is_no_axis_gets_a_sentence(fixed, among, said) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        parse_axes(fixed, among)


def test_an_order_survives_being_kept_as_json() -> None:
    fields = {"models": ["m.onnx"], "max_latency": "p95<20ms", "goal": "memory", "axes": {"batch": ["1", "2"]}}
    order = make_order(fields)
    assert order.goal is Goal.MEMORY
    assert RecommendOrder.model_validate(json.loads(json.dumps(order.document()))) == order


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"budget": "soon"}, "--budget: 'soon' is not a duration"),
        ({"max_latency": "p95<20"}, "has no unit"),
        ({"goal": "rate"}, "--maximize rate needs a limit that tells when a rate is too high: add --max-latency"),
        ({"goal": "rate", "max_latency": "p99<9ms", "axes": {"load": ["sync"]}}, "leave load=sync out"),
        ({"goal": "rate", "max_latency": "p99<9ms", "targets": ["a", "b"]}, "is for one target at a time"),
        ({"max_output_difference": "1"}, "has no unit: write 1%"),
        ({"leave_cores": "1.000"}, "--leave-cores: '1.000' is not a whole number"),
        ({"leave_cores": -1}, "--leave-cores: -1 is not a number of at least 0"),
    ],
)
def test_an_order_is_checked_before_anything_runs(fields, said) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        make_order({"models": ["m.onnx"]} | fields)


def test_an_order_for_several_targets_is_one_for_each() -> None:
    order = make_order({"models": ["m.onnx"], "targets": ["nuc", "board"]})
    assert [(one.target, one.targets) for one in order.of_each_target()] == [("nuc", ()), ("board", ())]
    assert make_order(order.document()) == order
    alone = make_order({"models": ["m.onnx"], "target": "nuc"})
    assert alone.of_each_target() == (alone,)
