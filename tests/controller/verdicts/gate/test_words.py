"""What a gate's words promise."""

import random
from dataclasses import replace

import pytest

import invented
from controller.verdicts.pairs import arms
from enginebench_controller.plan.plan import ROLES, GateMetric, GateTerms, make_plan
from enginebench_controller.verdicts.gate.results import GateResult, budget_for, judge
from enginebench_controller.verdicts.gate.stored import History, Likeness, promise, promising
from enginebench_controller.verdicts.gate.words import able_words, amount, budget_that_tells, headline, whole_seconds


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.021, "can tell 2.1%"), (1.01, "cannot tell even 100%"), (344.995, "cannot tell even 100%")],
)
def test_a_difference_of_more_than_double_is_no_promise(share, words):
    assert able_words(share, GateMetric.LATENCY, GateTerms()) == f"this machine {words} of latency in 2m"


@pytest.mark.parametrize(
    ("tolerate", "scatter", "words", "cut"),
    [
        ("1%", 0.01, "can tell 1.2% of latency in 2m:", ""),
        ("20%", 0.01, "can tell 20.2% of latency in 2m where 20% is tolerated:", ""),
        ("99%", 0.02, "can tell 99.7% of latency in 2m where 99% is tolerated:", ""),
        ("1%", 0.5, "can tell 26.5% of latency in 2m:", "stays at 10%, so hardly anything passes"),
        (
            "20%",
            0.5,
            "can tell 30.5% of latency in 2m where 20% is tolerated:",
            "stays at 20%, so hardly anything passes",
        ),
    ],
)
def test_hardly_anything_passes_only_where_noise_asks_for_more_than_d(tolerate, scatter, words, cut):
    known = History(40, Likeness.SAME, {GateMetric.LATENCY: scatter}, pair_seconds=2)
    plan = make_plan({"models": ["any"], "gate": {"tolerate": tolerate}}, "a test")

    (told,) = promise(promising(plan, known), known)

    assert told.startswith(f"this machine {words} 40 earlier process pairs")
    assert told.partition("; D ")[2] == cut


def test_what_is_tolerated_is_said_in_few_digits():
    told = able_words(0.02, GateMetric.MEMORY, GateTerms(tolerate="4.8809%"))
    assert told == "this machine can tell 2.0% of memory in 2m where 4.88% is tolerated"


@pytest.mark.parametrize(("seconds", "words"), [(36.5, "37s"), (119.2, "120s"), (150.0, "3m")])
def test_a_budget_that_would_do_is_said_as_the_option_takes_it(seconds, words):
    assert whole_seconds(seconds) == words


def test_what_a_slow_model_does_in_a_second_is_no_zero():
    assert amount(GateMetric.THROUGHPUT, 0.041234) == "0.04123 items/s"
    assert amount(GateMetric.THROUGHPUT, 1234.56) == "1,234.6 items/s"
    assert amount(GateMetric.MEMORY, 1_234_560_000) == "1,234.6 MB"


def with_memory(arm, scatter, seed):
    """The arm with a peak memory of its own for each process."""
    luck = random.Random(seed)
    processes = [
        replace(one, phases=(replace(one.phases[0], peak_rss_bytes=round(1e8 * (1 + luck.gauss(0, scatter)))),))
        for one in arm.processes
    ]
    return replace(arm, processes=processes)


def in_doubt(memory_scatter, *metrics):
    """A gate whose latency and memory are both in doubt."""
    terms = GateTerms(
        budget="40s", tolerate="1%", metrics=metrics, promised={GateMetric.LATENCY: 0.03, GateMetric.MEMORY: 0.03}
    )
    sides = {
        role: with_memory(one, memory_scatter, seed) for seed, (role, one) in enumerate(arms(1.0, scatter=0.05).items())
    }
    judged = judge(terms, sides)
    return GateResult(invented.benchmark(), terms, judged, dict.fromkeys(ROLES, invented.measured("m")))


BOTH = (GateMetric.LATENCY, GateMetric.MEMORY)


@pytest.mark.parametrize("metrics", [BOTH, BOTH[1:]], ids=["both", "memory"])
def test_the_budget_that_would_tell_is_enough_for_all_metrics_in_doubt(metrics):
    result = in_doubt(0.08, *metrics)
    latency, memory = (budget_for(result.judged, 0.03, one) for one in BOTH)
    assert 40 < latency < memory
    either = "; cannot tell of memory, either" if len(metrics) > 1 else ""
    assert headline(result).endswith(f"or not{either}; --budget {whole_seconds(memory)} would tell")


def test_no_budget_is_promised_where_none_would_do_for_one_of_the_metrics():
    result = in_doubt(0.4, *BOTH)
    assert budget_for(result.judged, 0.03, GateMetric.LATENCY) > 40
    assert budget_that_tells(result) is None and headline(result).endswith("; cannot tell of memory, either")
