"""The whole harness on engines whose truth is known: latencies by formula, and outputs that are wrong on purpose."""

from pathlib import Path
from typing import Any

import pytest

from agent_server import AgentProcess
from enginebench_plugins.engines.fake.distributions import Latency, LatencyDistribution, quantile_ns
from integration.bench import QUICK, UNHURRIED, Bench

pytestmark = pytest.mark.alone

TYPICAL_US = 1000
LATE = 1.25
"""A spinning engine is never early; on a busy machine it is late now and then, and so are its quantiles."""


def measured(bench: Bench, model: Path, agent: AgentProcess, *arguments: str, **options: object) -> Any:
    """One measurement of the fake engine in one process, as the JSON document has it."""
    given = {"latency_us": TYPICAL_US, **options}
    chosen = [part for name, value in given.items() for part in ("--option", f"fake.{name}={value}")]
    run = (
        "run",
        model,
        "--engine",
        "fake",
        "--target",
        agent.address,
        "--processes",
        "1",
        "--warmup",
        "200ms",
        *UNHURRIED,
    )
    (found,) = bench.json(*run, *arguments, *chosen)["measurements"]
    return found


@pytest.mark.parametrize(
    ("distribution", "jitter"),
    [
        (LatencyDistribution.CONSTANT, 0.0),
        (LatencyDistribution.CONSTANT, 0.2),
        (LatencyDistribution.BIMODAL, 0.1),
        (LatencyDistribution.HEAVY_TAIL, 0.0),
        (LatencyDistribution.STALLS, 0.05),
    ],
)
def test_every_statistic_is_that_of_the_known_distribution(
    bench: Bench, model: Path, shared_agent: AgentProcess, distribution: LatencyDistribution, jitter: float
) -> None:
    truth = Latency(TYPICAL_US * 1000, distribution, jitter)
    # Where other tests take the core away the interval narrows later; only a machine that never rests is inconclusive.
    arguments = ("--duration", "2s", "--max-duration", "30s", "--interval", "5%")
    found = measured(bench, model, shared_agent, *arguments, distribution=distribution, jitter=jitter)
    latency = found["latency"]
    assert found["status"] == "ok"
    assert found["processes"][0]["stop_reason"] == "target_met"
    assert found["processes"][0]["warm_up"] == {**found["processes"][0]["warm_up"], "steady": True, "reason": ""}
    median = quantile_ns(truth, 0.5)
    assert median * 0.97 < latency["median_ns"] < median * LATE
    interval = latency["median_interval"]
    assert interval["low"] <= latency["median_ns"] <= interval["high"]
    for percentile in latency["percentiles"]:
        if percentile["percent"] in (90, 95):
            assert quantile_ns(truth, percentile["percent"] / 100) * 0.9 < percentile["value_ns"]
        if percentile["percent"] == 99.9:
            assert percentile["value_ns"] is None and percentile["samples_needed"] == 6636
    assert latency["min_ns"] >= quantile_ns(truth, 0)
    stalled = latency["samples"] // truth.stall_every
    if distribution is LatencyDistribution.STALLS:
        assert latency["outliers"] >= stalled - 1
        assert latency["max_ns"] >= 19 * TYPICAL_US * 1000


def test_a_drift_prolongs_the_warm_up_and_is_not_in_the_numbers(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    found = measured(
        bench, model, shared_agent, "--duration", "1s", "--interval", "5%", distribution="drift", drift_iterations=400
    )
    warm_up = found["processes"][0]["warm_up"]
    # One window of 200 ms would be about 110 inferences of what they take at first.
    assert warm_up["steady"] and warm_up["iterations"] > 150
    assert found["latency"]["median_ns"] < TYPICAL_US * 1000 * LATE


def test_a_drift_that_outlasts_the_warm_up_is_told(bench: Bench, model: Path, shared_agent: AgentProcess) -> None:
    # Too slow to be seen within a window: the steady state itself is still falling. It is so many inferences, not
    # seconds, long: on a busy machine 3 s held so few that they fell by no more than chance.
    slow = {"distribution": "drift", "drift_iterations": 2500}
    length = ("--iterations", "2000", "--duration", "1s", "--max-duration", "1m", "--interval", "0%")
    found = measured(bench, model, shared_agent, *length, **slow)
    assert found["processes"][0]["drift"] < -0.05
    assert any("fell by" in flag and "while it was measured" in flag for flag in found["flags"])


def test_what_cannot_be_known_in_time_is_inconclusive(bench: Bench, model: Path, shared_agent: AgentProcess) -> None:
    arguments = ("--duration", "300ms", "--max-duration", "600ms", "--interval", "0.01%")
    found = measured(bench, model, shared_agent, *arguments, distribution="heavy_tail")
    assert found["status"] == "inconclusive"
    assert found["processes"][0]["stop_reason"] == "max_duration"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("scaled", "differ"),
        ("ignored_input", "as if the input were ignored"),
        ("lost_batch", "batch axis is lost"),
        ("repeated_item", "batch axis is lost"),
    ],
)
def test_a_planted_wrong_engine_is_named(
    bench: Bench, model: Path, shared_agent: AgentProcess, wrong: str, words: str
) -> None:
    quick = (*QUICK, "--batch", "4")
    run = ("run", model, "--engine", "fake,onnxruntime", "--target", shared_agent.address, "--cores", "1")
    document = bench.json(*run, *quick, "--option", f"fake.wrong={wrong}", expect=1)
    named = {one["id"]: one["engine"]["name"] for one in document["measurements"]}
    assert [named[one] for one in document["outcome"]["wrong_outputs"]] == ["fake"]
    problems = {one["engine"]["name"]: one["output_check"]["problem"] for one in document["measurements"]}
    assert words in problems["fake"]
    assert problems["onnxruntime"] == ""
