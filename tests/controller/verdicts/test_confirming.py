"""What stands in the way of a gate is a reason, and a history by itself confirms nothing."""

import shlex
from dataclasses import replace

import onnx
import pytest
from tiny_models import tiny_classifier

import invented
from controller.verdicts import pairs
from controller.verdicts.pairs import arms, keep_gate
from enginebench_controller.errors import InputError
from enginebench_controller.files.verdicts.gates import alerts_document
from enginebench_controller.home import Home
from enginebench_controller.plan.plan import BASE, GateTerms
from enginebench_controller.records import Arrivals, Configuration, InputTensor, Load
from enginebench_controller.runs.gate import confirm
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.alerts import (
    Finding,
    alerts,
    confirmation_of,
    findings,
    known,
    unsearched,
)
from enginebench_controller.verdicts.gate.results import GateResult, judge
from enginebench_controller.verdicts.gate.rule import GateOutcome
from histories import Change, digest, keep_history

pytestmark = pytest.mark.slow

CANDIDATE = Change(factor=1.2, version="2.0")
OPEN = Configuration("CPU", 1, cores=2, load=Load.OPEN_LOOP, arrivals=Arrivals(100.0))


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def only_alert(home, change=CANDIDATE, **fields):
    keep_history(home.store, "net", change, **fields)
    (history,) = home.store.histories(digest("net"))
    (alert,) = alerts(history).alerts
    return alert


def told_command(home, alert):
    """What a person is told to type to confirm a candidate; None where no gate can."""
    (found,) = known(home, [alert])
    _, _, command = found.sentence.partition("not confirmed by a gate yet: --confirm runs it, or ")
    return command or None


def test_a_candidate_is_unconfirmed_with_the_command_that_would_tell(home):
    alert = only_alert(home)
    (found,) = known(home, [alert])
    assert found.finding is Finding.UNCONFIRMED
    assert found.sentence.startswith(
        "not confirmed by a gate yet: --confirm runs it, or "
        f"enginebench gate {digest('net')[:12]} --base fake==1.0 --head fake==2.0 --device CPU --batch 1 --cores 2"
    )


def test_the_command_that_would_tell_does_the_same_work(home):
    said = Configuration("CPU", 1, cores=2, options={"level": "low"}, inputs=(InputTensor("ids", "int64", (1, 128)),))
    alert = only_alert(home, configuration=said)
    assert told_command(home, alert).endswith("--precision f32 --shape ids=1x128 --option fake.level=low")


def test_the_command_tells_the_load_where_it_is_not_the_usual_one(home):
    alert = only_alert(home, configuration=Configuration("CPU", 1, cores=2, load=Load.ASYNC, requests=4, streams=2))
    assert "--streams 2 --precision f32 --load async --requests 4" in told_command(home, alert)


@pytest.mark.parametrize(
    ("gate", "points", "finding"),
    [
        ("own", "own", Finding.REGRESSION),
        ("imported", "own", Finding.UNCONFIRMED),
        ("imported", "imported", Finding.REGRESSION),
    ],
)
def test_a_gate_from_elsewhere_confirms_what_is_from_elsewhere_alone(home, gate, points, finding):
    alert = only_alert(home)
    alert = replace(alert, after=replace(alert.after, imported=points == "imported"))
    sides = {"base": "fake==1.0", "head": "fake==2.0"}
    keep_gate(home.store, "b0000001", digest("net"), ratio=1.2, imported=gate == "imported", **sides)
    (found,) = known(home, [alert])
    assert found.finding is finding


def test_the_command_of_another_target_names_it_and_what_it_says_there_is_known(home):
    alert = only_alert(home, target="nuc", configuration=Configuration("CPU", 8, cores=2, precision="bf16"))
    command = shlex.split(told_command(home, alert))
    assert command[3:7] == ["--base", "fake==1.0", "--head", "fake==2.0"]
    options = dict(zip(command[3::2], command[4::2], strict=True))
    assert (options["--target"], options["--batch"], options["--precision"]) == ("nuc", "8", "bf16")

    measured = {"target": "nuc", "configuration": alert.history.configuration}
    keep_gate(home.store, "b0000001", digest("net"), ratio=1.2, base="fake==1.0", head="fake==2.0", measured=measured)
    (found,) = known(home, [alert])
    assert found.finding is Finding.REGRESSION


@pytest.mark.parametrize(
    ("processor", "was", "is_known"),
    [
        ("Invented CPU", "Invented CPU", True),
        ("Another CPU", "Invented CPU", False),
        (None, None, False),
        ("", "Invented CPU", False),
    ],
)
def test_what_is_from_elsewhere_is_gated_where_the_target_is_known_here_too(home, processor, was, is_known):
    alert = only_alert(home, target="nuc")
    alert = replace(alert, after=replace(alert.after, imported=True, cpu_model=was))
    if processor != "":
        seen = invented.snapshot("nuc")
        home.store.save_snapshot(replace(seen, host=replace(seen.host, cpu_model=processor)))
    (found,) = known(home, [alert])
    assert ("a gate here would be of another machine" in found.sentence) is not is_known
    assert (told_command(home, alert) is not None) is is_known


@pytest.mark.parametrize(
    ("processor", "was", "is_known"),
    [("Invented CPU", "Invented CPU", True), ("Invented CPU", "ARM Cortex-A72", False), (None, None, False)],
)
def test_a_local_machine_from_elsewhere_is_gated_where_it_has_this_processor(
    home, monkeypatch, processor, was, is_known
):
    monkeypatch.setattr("enginebench_controller.verdicts.alerts.processor_name", lambda: processor)
    alert = only_alert(home)
    alert = replace(alert, after=replace(alert.after, imported=True, cpu_model=was))
    assert (told_command(home, alert) is not None) is is_known


def test_another_target_is_asked_and_where_it_cannot_be_that_is_why(home, tmp_path):
    onnx.save(tiny_classifier(), tmp_path / "net.onnx")
    alert = only_alert(home, target="nuc")
    real = replace(alert.history, model_digest=home.library.add(tmp_path / "net.onnx").digest)
    found = confirm(home, replace(alert, history=real))
    assert found.finding is Finding.UNCONFIRMED
    assert found.sentence.startswith("no gate could be run: ") and "'nuc'" in found.sentence


def test_what_somebody_else_calls_a_gate_confirms_nothing(home):
    alert = only_alert(home)
    home.store.add_benchmark(replace(invented.benchmark(imported=True), plan={"gate": True}))
    (found,) = known(home, [alert])
    assert found.finding is Finding.UNCONFIRMED


def test_gates_are_looked_through_once_for_all_histories_and_not_where_nothing_needs_one(home, monkeypatch):
    looked, benchmarks = [], Store.benchmarks
    monkeypatch.setattr(Store, "benchmarks", lambda store: looked.append(store) or benchmarks(store))
    keep_history(home.store, "quiet", replace(CANDIDATE, reference=1.2))
    assert [said for _, said in findings(home, home.store.histories())] == [(None,)]
    assert not looked
    keep_history(home.store, "net", CANDIDATE)
    keep_history(home.store, "other", CANDIDATE)
    found = {one.history.model_name: said for one, said in findings(home, home.store.histories())}
    assert found["quiet"] == (None,)
    assert [each.finding for name in ("net", "other") for each in found[name]] == [Finding.UNCONFIRMED] * 2
    assert len(looked) == 1


def test_what_is_the_machine_needs_no_gate(home):
    alert = only_alert(home, replace(CANDIDATE, reference=1.2))
    assert known(home, [alert]) == (None,)


SIDES = {"base": "fake==1.0", "head": "fake==2.0"}


def finding_of(home, alert):
    (found,) = known(home, [alert])
    return found.finding


@pytest.mark.parametrize("metrics", [["size"], ["latency", "memory"], ["memory"]])
def test_of_a_gate_its_time_alone_settles_an_alert_about_the_time(home, metrics):
    alert = only_alert(home)
    keep_gate(home.store, "b0000001", digest("net"), ratio=1.2, metrics=metrics, **SIDES)
    (found,) = known(home, [alert])
    assert found.finding is Finding.REGRESSION
    assert found.sentence.startswith("worse: head takes 1.2")


def test_what_is_worse_in_memory_only_is_no_regression_of_the_time(home):
    terms = GateTerms(budget="40s", metrics=("memory",), **SIDES)
    judged = judge(terms, arms(1.0, head={"peak_bytes": 2 * 10**8}))
    assert judged.outcome is GateOutcome.WORSE
    result = GateResult(invented.benchmark(), terms, judged, {BASE: invented.measured("m1")})
    found = confirmation_of(only_alert(home), result)
    assert found.finding is Finding.NOT_CONFIRMED
    assert found.sentence.startswith("pass: head takes ")


MANY = Configuration("CPU", 1, cores=2, load=Load.ASYNC, requests=2)


def async_alert(home):
    keep_history(home.store, "net", CANDIDATE, configuration=MANY)
    (history,) = home.store.histories()
    points = [
        replace(one, throughput_items_per_s=(400.0 if place < 10 else 300.0) + place % 3)
        for place, one in enumerate(history.points)
    ]
    (alert,) = alerts(replace(history, points=tuple(points))).alerts
    return alert


def test_under_an_async_load_it_is_the_throughput_that_is_asked_for(home, monkeypatch):
    alert, asked = async_alert(home), []
    assert told_command(home, alert).endswith("--load async --requests 2 --metric throughput")

    def refuse(home, order, watcher):
        asked.append(order.metrics)
        raise InputError("not now")

    monkeypatch.setattr("enginebench_controller.runs.gate.gate", refuse)
    confirm(home, alert)
    confirm(home, only_alert(Home(home.path / "other")))
    assert asked == [("throughput",), ("latency",)]


def test_under_an_async_load_it_is_the_throughput_that_settles(home):
    alert = async_alert(home)
    keep_gate(home.store, "b0000001", digest("net"), ratio=1.3, measured={"configuration": MANY}, **SIDES)
    (found,) = known(home, [alert])
    assert found.finding is Finding.REGRESSION
    assert found.sentence.startswith("worse: head does 0.7")


@pytest.mark.parametrize(
    ("tolerate", "ratio", "finding"),
    [
        ("50%", 1.16, Finding.UNCONFIRMED),
        ("50%", 1.9, Finding.REGRESSION),
        ("50%", 1.08, Finding.UNCONFIRMED),
        ("50%", 0.4, Finding.NOT_CONFIRMED),
        ("5%", 1.0, Finding.NOT_CONFIRMED),
    ],
)
def test_a_gate_that_lets_more_pass_than_has_changed_settles_nothing(home, tolerate, ratio, finding):
    alert = only_alert(home)
    keep_gate(home.store, "b0000001", digest("net"), ratio=ratio, tolerate=tolerate, **SIDES)
    assert finding_of(home, alert) is finding


def test_an_older_gate_counts_where_the_newest_settles_nothing(home):
    alert = only_alert(home)
    keep_gate(home.store, "b0000002", digest("net"), ratio=1.2, **SIDES)
    keep_gate(home.store, "b0000001", digest("net"), ratio=1.2, tolerate="50%", **SIDES)
    assert finding_of(home, alert) is Finding.REGRESSION


@pytest.mark.parametrize(
    ("factor", "ratio", "finding"),
    [
        (0.8, 1.05, Finding.NOT_CONFIRMED),
        (0.8, 1.0, Finding.NOT_CONFIRMED),
        (0.8, 0.8, Finding.IMPROVEMENT),
        (1.2, 0.8, Finding.NOT_CONFIRMED),
        (1.2, 1.05, Finding.REGRESSION),
    ],
)
def test_a_difference_that_a_gate_finds_settles_an_alert_in_its_own_direction(home, factor, ratio, finding):
    alert = only_alert(home, Change(factor=factor, version="2.0"))
    keep_gate(home.store, "b0000001", digest("net"), ratio=ratio, **SIDES)
    assert finding_of(home, alert) is finding


@pytest.mark.parametrize(
    ("change", "made", "finding"),
    [
        (0.9, {"ratio": 0.9, "pairs": 6, "scatter": 0.07, "seed": 2, "pair_s": 6}, Finding.CANNOT_TELL),
        (1.025, {"ratio": 1.0, "scatter": 0.005}, Finding.NOT_CONFIRMED),
        (1.01, {"ratio": 1.0, "scatter": 0.02}, Finding.CANNOT_TELL),
    ],
)
def test_a_gate_that_passes_settles_what_its_interval_excludes(home, change, made, finding):
    """Where it ends on the side of the change: of what is faster at its lower end, which D says nothing of."""
    terms = GateTerms(budget="40s", **SIDES)
    judged = judge(terms, arms(**made))
    assert judged.outcome is GateOutcome.PASSES and not judged.is_better
    result = GateResult(invented.benchmark(), terms, judged, {BASE: invented.measured("m1")})
    found = confirmation_of(replace(only_alert(home), ratio=change), result)
    assert found.finding is finding
    is_coarse = finding is Finding.CANNOT_TELL
    assert found.sentence.endswith("; that is too coarse for this change: give a longer --budget") is is_coarse
    assert found.coarse_within == ("40s" if is_coarse else None)


def test_a_gate_that_cannot_tell_hides_no_older_one_that_can(home, monkeypatch):
    alert = only_alert(home)
    keep_gate(home.store, "b0000002", digest("net"), ratio=1.2, **SIDES)
    monkeypatch.setattr(pairs, "arms", lambda ratio, **_: arms(ratio, scatter=0.5, seed=2))
    keep_gate(home.store, "b0000001", digest("net"), ratio=1.2, **SIDES)
    newest = next(one.benchmark.id for one in home.store.benchmarks() if one.benchmark.plan.get("gate"))
    assert newest == "b0000001"
    assert finding_of(home, alert) is Finding.REGRESSION
    home.store.remove_benchmark("b0000002")
    assert finding_of(home, alert) is Finding.CANNOT_TELL


def test_two_builds_of_one_release_are_not_gated_against_each_other(home):
    keep_history(home.store, "net", replace(CANDIDATE, version="1.0+cu1"))
    (history,) = home.store.histories()
    (alert,) = alerts(history).alerts
    assert alert.versions == ("1.0", "1.0+cu1")
    keep_gate(home.store, "b0000001", digest("net"), base="fake==1.0", head="fake==1.0")
    for found in (confirm(home, alert), *known(home, [alert])):
        assert found.finding is Finding.UNCONFIRMED
        assert found.sentence == "both are builds of one release, which no gate here can tell apart"


@pytest.mark.parametrize(
    ("change", "fields", "words"),
    [
        (replace(CANDIDATE, version=None), {}, "the engine's version is not known on one side"),
        (CANDIDATE, {"configuration": OPEN}, "a gate has no open loop"),
    ],
)
def test_why_there_can_be_no_gate_is_told(home, change, fields, words):
    alert = only_alert(home, change, **fields)
    for found in (confirm(home, alert), *known(home, [alert])):
        assert found.finding is Finding.UNCONFIRMED
        assert words in found.sentence
        assert "enginebench gate" not in found.sentence


def test_the_document_has_null_where_nothing_is_known(home):
    keep_history(home.store, "net", replace(CANDIDATE, reference=None))
    keep_history(home.store, "short", CANDIDATE, points=3)
    found = [alerts(one) for one in home.store.histories()]
    document = alerts_document([(one, known(home, one.alerts)) for one in found])
    histories = {one["model"]: one for one in document["histories"]}
    (alert,) = histories["net"]["alerts"]
    assert (alert["reference_ratio"], alert["gate"], alert["finding"]) == (None, None, "unconfirmed")
    assert alert["before"]["version"] == "1.0" and alert["before"]["reference_product_ns"] is None
    assert histories["net"]["shortage"] is None
    assert (histories["short"]["points"], histories["short"]["alerts"]) == (3, [])


def test_where_nobody_looked_there_are_no_alerts_to_read_as_no_change(home):
    keep_history(home.store, "net", CANDIDATE)
    keep_history(home.store, "short", CANDIDATE, points=2)
    document = alerts_document([(unsearched(one), ()) for one in home.store.histories()])
    histories = {one["model"]: one for one in document["histories"]}
    net, short = histories["net"], histories["short"]
    assert (net["alerts"], net["shortage"], short["alerts"]) == (None, None, None)
    assert short["shortage"] == "2 points with numbers, and 10 are needed to tell a change from chance"
    assert (net["points"], net["versions"]) == (16, ["1.0", "2.0"])
    assert net["oldest"]["at_unix_ns"] < net["newest"]["at_unix_ns"]
    assert net["since_oldest_ratio"] == pytest.approx(1.2, rel=0.05)
