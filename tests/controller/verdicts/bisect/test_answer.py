"""How far a bisect has come is read from its steps in the store, and so goes on where it was."""

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

import invented
import invented_bisects
from controller.verdicts.pairs import arms
from enginebench_controller.errors import InputError
from enginebench_controller.home import Home
from enginebench_controller.plan.bisect import BisectKind, BisectOrder
from enginebench_controller.plan.plan import BASE, CONTROL, HEAD, GateMetric, GateTerms
from enginebench_controller.records import (
    Bystanders,
    EngineRef,
    Failure,
    FailureKind,
    MachineUse,
    Measurement,
    ProcessUse,
    Status,
)
from enginebench_controller.stats.paired import RatioInterval
from enginebench_controller.verdicts.bisect.answer import (
    Asked,
    BisectGate,
    Replay,
    answer_of,
    look_of,
    replay,
    told_gate,
)
from enginebench_controller.verdicts.bisect.decision import BisectFinding, Decided, GatePurpose, GateSeen, Question
from enginebench_controller.verdicts.bisect.words import gate_sentence, verdict_words
from enginebench_controller.verdicts.gate.results import Arm, GateResult, judge
from enginebench_controller.verdicts.gate.rule import GateOutcome
from enginebench_controller.verdicts.gate.stored import History, Likeness, first_step_promise
from enginebench_controller.verdicts.gate.words import headline

ORDER = invented_bisects.ORDER
NEW, OLDER = ORDER.environments(invented_bisects.ID, 0)
BAD, OLDER_BAD = ORDER.environments(invented_bisects.ID, 3)
CRASH = Failure(FailureKind.CRASHED, "it crashed")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.store.add_search(invented_bisects.search(None))
    return home


def add_step(home: Home, number: int, environments: dict[str, str], failed: dict[str, Failure]) -> None:
    """A gate as a step, whose members ran in these environments, or failed there."""
    identity = f"b{number}{len(home.store.benchmarks())}"
    members = {role: f"{identity}{role}" for role in (BASE, HEAD, CONTROL)}
    plan = {
        **invented.benchmark().plan,
        "gate": GateTerms(promised={GateMetric.LATENCY: 0.05}).model_dump(mode="json"),
        "members": members,
        "search": {"id": invented_bisects.ID, "step": number, "title": "which is it"},
    }
    home.store.add_benchmark(replace(invented.benchmark(identity), plan=plan))
    for role, name in members.items():
        home.store.add_measurement(_member(name, identity, role, environments[role], failed.get(role)))


def _member(name: str, benchmark_id: str, role: str, environment: str, failure: Failure | None) -> Measurement:
    engine = EngineRef("onnxruntime", environment, "1.0")
    if failure is not None:
        made = invented.failed(name, benchmark_id)
        return replace(made, engine=engine, failure=failure, status=Status.FAILED)
    slow = 8.0 if role == HEAD else 4.0
    return replace(invented.measured(name, benchmark_id, latency_ms=slow), engine=engine)


def sides(base: str, head: str) -> dict[str, str]:
    return {BASE: base, CONTROL: base, HEAD: head}


def following(home: Home) -> Question | Decided:
    return replay(home, home.store.search(invented_bisects.ID), ORDER, {}).following


def test_without_a_step_the_first_gate_is_next(home: Home) -> None:
    found = following(home)
    assert isinstance(found, Question)
    assert (found.purpose, found.base, found.head) == (GatePurpose.ENDS, 0, 3)


def test_what_does_not_run_is_tried_with_older_packages_and_then_came_to_nothing(home: Home) -> None:
    add_step(home, 0, sides(NEW, BAD), {BASE: CRASH, CONTROL: CRASH})
    done = replay(home, home.store.search(invented_bisects.ID), ORDER, {})
    assert isinstance(done.following, Question), "that gate counts for nothing"
    assert done.broken == {NEW: "it crashed"}

    add_step(home, 0, sides(OLDER, BAD), {BASE: CRASH, CONTROL: CRASH})
    found = following(home)
    assert isinstance(found, Decided)
    assert (found.finding, found.reason) == (BisectFinding.CANNOT_RUN, "good came to nothing: it crashed")


@pytest.mark.parametrize("kind", [FailureKind.CANCELLED, FailureKind.AGENT_LOST, FailureKind.SHORTAGE])
def test_a_gate_that_somebody_ended_or_whose_agent_failed_is_carried_out_again(home: Home, kind: FailureKind) -> None:
    ended = Failure(kind, "somebody cancelled it, or the disk was full")
    add_step(home, 0, sides(OLDER, OLDER_BAD), {BASE: ended, CONTROL: ended, HEAD: ended})
    assert isinstance(following(home), Question)


CAME_TO = "1.22.0 against 1.20.0 came to nothing: "


@pytest.mark.parametrize(
    ("purpose", "reasons", "said", "verdict"),
    [
        (GatePurpose.ENDS, ("it crashed", ""), f"{CAME_TO}1.22.0: it crashed", "came to nothing"),
        (GatePurpose.ENDS, ("", "killed"), f"{CAME_TO}1.20.0: killed", "not told, as 1.20.0 came to nothing"),
        (GatePurpose.STEP, ("it crashed", ""), "1.22.0 is skipped: it crashed", "skipped"),
        (GatePurpose.STEP, ("", "killed"), f"{CAME_TO}1.20.0: killed", "not told, as 1.20.0 came to nothing"),
        (GatePurpose.STEP, ("it crashed", "killed"), f"{CAME_TO}1.20.0: killed; 1.22.0: it crashed", "skipped"),
        (GatePurpose.NEIGHBOURS, ("it crashed", ""), f"{CAME_TO}1.22.0: it crashed", "came to nothing"),
        (GatePurpose.NEIGHBOURS, ("", "killed"), f"{CAME_TO}1.20.0: killed", "not told, as 1.20.0 came to nothing"),
    ],
)
def test_a_gate_that_said_nothing_is_told_with_the_side_that_it_is_for(
    purpose: GatePurpose, reasons: tuple[str, str], said: str, verdict: str
) -> None:
    look = GateSeen(GateOutcome.CANNOT_TELL, reason=reasons[0], base_reason=reasons[1])
    gate = told_gate(ORDER, Asked(Question(0, 3, 0.05, purpose, 1), look))
    assert (gate_sentence(gate), verdict_words(gate)) == (said, verdict)


def test_an_answer_from_before_sides_were_told_apart_is_read_as_it_was() -> None:
    gate = invented_bisects.gate(GatePurpose.STEP, "1.20", "1.23", None, reason="it crashed").model_dump(mode="json")
    del gate["base_reason"]
    assert gate_sentence(BisectGate.model_validate(gate)) == "1.23 is skipped: it crashed"


def test_a_candidate_that_was_skipped_is_not_asked_about_again(home: Home) -> None:
    home.store.skip_in_search(invented_bisects.ID, ORDER.candidates[3], "no wheel")
    found = following(home)
    assert isinstance(found, Decided)
    assert found.reason == "bad came to nothing: no wheel"


def test_a_version_that_ran_with_older_packages_only_is_told_so(home: Home) -> None:
    add_step(home, 0, sides(OLDER, BAD), {HEAD: CRASH})
    add_step(home, 0, sides(OLDER, ORDER.environments(invented_bisects.ID, 3).popitem()[0]), {HEAD: CRASH})
    search = home.store.search(invented_bisects.ID)
    told = answer_of(home, search, ORDER, replay(home, search, ORDER, {}))
    assert told.finding is BisectFinding.CANNOT_RUN
    assert "onnxruntime==1.20.0 ran with numpy<2 only" in told.remarks
    assert told.gates[0].reason == "it crashed"


def test_the_facts_name_the_engine_with_both_versions_and_each_gate_what_it_was_to_tell(home: Home) -> None:
    add_step(home, 0, sides(NEW, BAD), {})
    search = home.store.search(invented_bisects.ID)
    done = replay(home, search, ORDER, {})
    result = done.asked[0].result
    assert result is not None
    newer = replace(result.measurements[HEAD], engine=EngineRef("onnxruntime", BAD, "2.0"))
    newer_result = replace(result, measurements={**result.measurements, HEAD: newer})
    asked = replace(done.asked[0], result=newer_result)
    ended = Replay((asked,), Decided(BisectFinding.NOT_APART), {})
    told = answer_of(home, search, ORDER, ended)
    assert told.measured.startswith("net.onnx, onnxruntime 1.0 and 2.0, CPU, ")
    assert told.gates[0].difference == pytest.approx(0.05)


def test_the_facts_name_models_as_they_were_given_whatever_they_were_called_when_they_were_added(home: Home) -> None:
    models = {"kind": BisectKind.MODELS, "engine": "onnxruntime"}
    order = BisectOrder(candidates=("a/m 1.onnx", "a/m 2.onnx", "größe-模型.onnx"), **models)
    result = GateResult(
        invented.benchmark(),
        GateTerms(),
        judge(GateTerms(), arms(1.0)),
        dict.fromkeys((BASE, HEAD, CONTROL), invented.measured("m0000001")),
    )
    asked = Asked(Question(1, 2, 0.05, GatePurpose.NEIGHBOURS, 1), look_of(result), result)
    told = answer_of(home, invented_bisects.search(None), order, Replay((asked,), Decided(BisectFinding.NOT_APART), {}))
    assert told.measured.startswith("m 2.onnx and größe-模型.onnx, fake 1.0, CPU, ")


def test_an_answer_keeps_the_figures_the_budget_that_would_tell_and_who_else_used_the_machine(home: Home) -> None:
    terms = GateTerms(budget="40s", tolerate="1%", metrics=(GateMetric.MEMORY,), promised={GateMetric.MEMORY: 0.03})
    one = invented.measured("m0000001")
    use = MachineUse(10**9, 2, 1_480_000_000, busiest=(ProcessUse("chromium", 7, 1, 1_480_000_000),))
    busy = replace(one.processes[0], bystanders=Bystanders(meanwhile=use))
    roles = dict.fromkeys((BASE, HEAD, CONTROL), replace(one, processes=(busy,)))
    noisy = {role: of_memory(arm, seed) for seed, (role, arm) in enumerate(arms(1.0).items())}
    result = GateResult(invented.benchmark(), terms, judge(terms, noisy), roles)
    asked = Asked(Question(0, 3, 0.03, GatePurpose.ENDS, 3, patience=3), look_of(result), result)
    decided = Decided(BisectFinding.NOT_APART, reason="noise hides it")

    told = answer_of(home, invented_bisects.search(None), ORDER, Replay((asked,), decided, {}))
    (gate,) = told.gates
    assert gate.base_figure == pytest.approx(1e8, rel=0.1) and gate.head_figure == pytest.approx(1e8, rel=0.1)
    assert gate.would_tell is not None and f"; --budget {gate.would_tell} would tell" in headline(result)
    (meanwhile,) = told.remarks
    assert meanwhile.startswith("meanwhile other processes used 74 % of the machine, most of it `chromium` (pid 7): ")


def of_memory(arm: Arm, seed: int) -> Arm:
    """An arm of which each process had another peak memory."""
    luck = random.Random(seed)
    peaks = [round(1e8 * (1 + luck.gauss(0, 0.1))) for _ in arm.processes]
    processes = [
        replace(one, phases=(replace(one.phases[0], peak_rss_bytes=peak), *one.phases[1:]))
        for one, peak in zip(arm.processes, peaks, strict=True)
    ]
    return replace(arm, processes=processes)


TERMS = GateTerms(budget="60s", tolerate="2.5%", promised={GateMetric.LATENCY: 0.05})


@pytest.mark.parametrize(("candidates", "further"), [(2, False), (3, True)])
def test_of_two_candidates_there_are_no_further_steps(home: Home, candidates: int, further: bool) -> None:
    """Good and bad are neighbours there: the two gates of them differ by luck alone."""
    whole, step = RatioInterval(0.4, 0.39, 0.41), RatioInterval(0.3, 0.29, 0.31)
    last = candidates - 1
    found = Decided(BisectFinding.CULPRIT, (last,), last - 1, whole, step)
    order = ORDER.model_copy(update={"candidates": ORDER.candidates[:candidates]})
    assert answer_of(home, invented_bisects.search(None), order, Replay((), found, {})).further_steps is further


def test_a_budget_that_leaves_it_in_doubt_is_told_before_the_first_step_with_what_would_do() -> None:
    calm = History(20, Likeness.SAME, {GateMetric.LATENCY: 0.01}, pair_seconds=5.0)
    assert first_step_promise(TERMS, calm) == ()
    assert first_step_promise(TERMS, None) == ()
    (told,) = first_step_promise(TERMS, replace(calm, spreads={GateMetric.LATENCY: 0.05}))
    assert told.startswith(
        "gates of 60s may leave 5.0% in doubt here, as 20 earlier process pairs of this model on this"
    )
    assert re.search(r"; --budget \d+s would tell it in nine of ten cases$", told)
    (told,) = first_step_promise(TERMS, replace(calm, spreads={GateMetric.LATENCY: 0.9}))
    assert told.endswith("; no budget up to an hour would tell it in nine of ten cases")


def test_a_budget_that_tells_nothing_is_refused_with_the_least_that_would_do() -> None:
    slow = History(20, Likeness.SAME, {GateMetric.LATENCY: 0.01}, pair_seconds=40.0)
    with pytest.raises(InputError, match=r"--budget 60s is too short to tell anything: .* give --budget 81s or more"):
        first_step_promise(TERMS, slow)
