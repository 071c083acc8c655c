"""What a gate looks like in files: never a pass where nothing can be told, and names cannot break out."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

import invented
from controller.verdicts.pairs import arm, arms
from enginebench_controller.files.verdicts.gates import gate_document, gate_markdown
from enginebench_controller.files.verdicts.junit import gate_junit
from enginebench_controller.plan.plan import BASE, CONTROL, HEAD, GateMetric, GateTerms
from enginebench_controller.records import Grounds
from enginebench_controller.verdicts.gate.results import GateExplanation, GateResult, LayerShare, judge
from enginebench_controller.verdicts.gate.rule import GateOutcome
from enginebench_controller.verdicts.gate.words import headline, meaning


def result(
    ratio=1.0, *, scatter=0.01, pairs=20, compile_ns=10**8, promised=0.02, tolerate="1%", **changes
) -> GateResult:
    terms = GateTerms(budget="40s", tolerate=tolerate, promised={GateMetric.LATENCY: promised}, base="a|b", head="<c>")
    one = invented.measured("m0000001")
    roles = dict.fromkeys(("base", "head", "control"), one)
    judged = judge(terms, arms(ratio, scatter=scatter, pairs=pairs, compile_ns=compile_ns))
    return GateResult(invented.benchmark(), terms, judged, roles, **changes)


def cases(found: GateResult, *, strict: bool = False) -> dict[str, str]:
    """The tag of what came of each case, in a file that is as Jenkins' junit-10.xsd wants it, counts and all."""
    root = ElementTree.fromstring(gate_junit(found, strict=strict))
    (suite,) = root
    each = {one.attrib["name"]: one for one in suite}
    assert all(one.tag == "testcase" and len(one) == 1 and str(one[0].text).strip() for one in each.values())
    assert set(root.keys()) == {"name", "time", "tests", "failures", "errors"}, "no others are allowed here"
    tags = {name: one[0].tag for name, one in each.items()}
    counted = {key: str(list(tags.values()).count(key.rstrip("s"))) for key in ("failures", "errors", "skipped")}
    counted["tests"] = str(len(tags))
    assert suite.attrib.items() >= counted.items()
    assert all(root.attrib[key] == counted[key] for key in ("tests", "failures", "errors"))
    return tags


@pytest.mark.parametrize(
    ("found", "outcome", "lax", "strict"),
    [
        (result(1.05), "worse", "failure", "failure"),
        (result(1.0), "pass", "system-out", "system-out"),
        (result(1.01, scatter=0.2), "cannot_tell", "skipped", "failure"),
        (result(1.0, failures=("head: it crashed",)), "cannot_tell", "error", "error"),
    ],
)
def test_every_file_has_the_same_outcome(found, outcome, lax, strict) -> None:
    assert gate_document(found)["outcome"] == outcome
    words = outcome.replace("_", " ")
    assert gate_markdown(found).startswith(f"## enginebench gate: {words}\n\n**{words}: ")
    assert cases(found) == {"latency": lax, "outputs": "system-out"}
    assert cases(found, strict=True) == {"latency": strict, "outputs": "system-out"}


@pytest.mark.parametrize(
    ("ratio", "scatter", "outcome", "figures"),
    [
        (0.7, 0.01, "cannot tell", "head takes 0."),
        (1.0, 0.01, "cannot tell", "head takes "),
        (1.01, 0.2, "cannot tell", "head takes "),
        (1.05, 0.01, "worse", "head takes 1."),
    ],
)
def test_what_is_wrong_is_never_a_pass_nor_better_and_is_told_first(ratio, scatter, outcome, figures) -> None:
    wrong = "the outputs of head are not those of base: all are 0"
    found = result(ratio, scatter=scatter, problems=(wrong,))
    document, comment = gate_document(found), gate_markdown(found)
    assert (document["outcome"], document["better"]) == (outcome.replace(" ", "_"), False)
    assert document["sentence"].startswith(f"{outcome}: {wrong}; {figures}")
    assert comment.startswith(f"## enginebench gate: {outcome}\n\n**{outcome}: the outputs of head are not")
    assert "less than D" not in document["sentence"]


def test_what_this_machine_can_tell_is_told_of_the_metric_that_decided() -> None:
    terms = GateTerms(budget="40s", metrics=(GateMetric.MEMORY,))
    heavy = replace(result(), terms=terms, judged=judge(terms, arms(1.0, scatter=0.1, head={"peak_bytes": 1.2e8})))
    assert gate_document(heavy)["difference_seen"] == pytest.approx(0.01), "memory is the same in each process"
    assert any(one.startswith("this machine can tell 1.0% of memory in 40s") for one in gate_document(heavy)["remarks"])
    of_latency = replace(heavy, terms=GateTerms(), judged=judge(GateTerms(), arms(1.0, scatter=0.1)))
    assert gate_document(of_latency)["difference_seen"] > 0.02


def of_metrics(*metrics: GateMetric, ratio=1.0, **changes) -> GateResult:
    """A result for which these metrics decide."""
    terms = GateTerms(budget="40s", tolerate="10%", metrics=metrics, promised=dict.fromkeys(metrics, 0.1))
    return replace(result(), terms=terms, judged=judge(terms, arms(ratio, **changes)))


def test_the_control_is_that_of_the_metric_that_decided_and_named() -> None:
    told = gate_markdown(of_metrics(GateMetric.MEMORY, scatter=0.3))
    assert "base ÷ base, measured along: memory 1.000 (1.000 to 1.000)" in told
    assert "base ÷ base, measured along: latency 1." in gate_markdown(result())
    assert "base ÷ base" not in gate_markdown(of_metrics(GateMetric.SIZE)), "what is counted needs no control"


def test_the_sentence_has_every_named_metric_that_is_worse_or_cannot_be_told() -> None:
    named = (GateMetric.LATENCY, GateMetric.MEMORY)
    told = headline(of_metrics(*named, ratio=1.61, head={"peak_bytes": 1.106e8}))
    assert told.startswith("worse: head takes 1.6") and told.endswith("; memory, too (1.106×); 10.0% is tolerated")

    noisy = {"scatter": 0.4, "head": {"peak_bytes": 1.2e8}}
    told = headline(of_metrics(*named, GateMetric.FIRST_INFERENCE, **noisy))
    assert told.startswith("worse: head has 1.200× the peak memory")
    assert told.endswith("; cannot tell of latency, first-inference")
    told = headline(of_metrics(GateMetric.LATENCY, GateMetric.FIRST_INFERENCE, **noisy))
    assert told.startswith("cannot tell: ") and told.endswith("; cannot tell of first-inference, either")


def test_the_comment_marks_what_decides_and_has_the_engines_of_both_sides() -> None:
    found = of_metrics(GateMetric.MEMORY)
    assert "\n| memory (decides) | " in gate_markdown(found) and "\n| latency | " in gate_markdown(found)
    engine = found.measurements[BASE].engine
    assert not any("base ran on" in one for one in gate_document(found)["remarks"]), "both ran on one"
    newer = sides(found, engine=replace(engine, version="9.9", environment="new"))
    assert f" on {engine.name} {engine.version} and {engine.name} 9.9 (new), " in gate_markdown(newer)
    assert f"\n- {found.measurements[BASE].model_name} on " in gate_markdown(newer)
    of_two = gate_markdown(sides(found, model_digest="cd" * 32))
    assert "\n- both on " in of_two, "they are named as they were given, whatever they were called when they were added"
    told = f"base ran on {engine.name} {engine.version}, head on {engine.name} 9.9 (new)"
    assert told in gate_document(newer)["remarks"]


def test_nothing_is_promised_of_a_metric_that_is_not_known() -> None:
    terms = GateTerms(budget="40s", metrics=(GateMetric.MEMORY, GateMetric.ENERGY))
    found = replace(result(), terms=terms, judged=judge(terms, arms(1.0)))
    assert headline(found).startswith("cannot tell: this machine has no energy meter")
    assert meaning(found) == "D means nothing here, as the energy is not known"


def test_what_ci_shows_as_its_time_is_what_all_process_pairs_took() -> None:
    found = result(pairs=20)
    assert found.judged.pair_seconds is not None
    root = ElementTree.fromstring(gate_junit(found, strict=False))
    timed = [one for one in root.iter() if one.get("time") is not None and one.get("name") != "outputs"]
    assert [one.tag for one in timed] == ["testsuites", "testsuite", "testcase"]
    assert {one.attrib["time"] for one in timed} == {f"{20 * found.judged.pair_seconds:.3f}"}
    assert float(timed[0].attrib["time"]) > 0


def test_of_throughput_every_file_tells_the_ratio_of_items_a_second() -> None:
    """Head takes a quarter longer, and so did the second process of base."""
    terms = GateTerms(budget="40s", metrics=(GateMetric.THROUGHPUT,))
    sides = {BASE: arm([1e6] * 6), CONTROL: arm([1.25e6] * 6), HEAD: arm([1.25e6] * 6)}
    one = invented.measured("m0000001")
    found = GateResult(invented.benchmark(), terms, judge(terms, sides), dict.fromkeys(sides, one))

    (told,) = (each for each in gate_document(found)["metrics"] if each["metric"] == "throughput")
    assert told["ratio"] == pytest.approx(0.894, abs=0.001), "of both processes of base"
    assert told["control"]["ratio"] == pytest.approx(0.8)
    assert told["sentence"].startswith("head ÷ base is 0.894 (") and "base ÷ base is 0.800 (" in told["sentence"]
    assert headline(found).startswith("cannot tell: head ÷ base is 0.894 (")
    assert "head ÷ base is 0.894 (" in gate_junit(found, strict=False)


def test_the_layers_that_explain_it_are_named_with_their_share() -> None:
    layers = GateExplanation(("p", "q"), (LayerShare("Conv_4", "Conv", 310_000, 0.62),), 500_000)
    found = result(1.05, explanation=layers)
    assert "Conv&#95;4 (Conv, +0.310 ms, 62 % of the difference)" in gate_markdown(found)
    assert gate_document(found)["layers"]["layers"][0]["share"] == 0.62
    noisy = GateExplanation(("p", "q"), (LayerShare("Conv_4", "Conv", 310_000, 2.12),), 146_000)
    assert "(Conv, +0.310 ms, more than the whole difference)" in gate_markdown(result(1.05, explanation=noisy))


def test_names_of_others_are_harmless_and_a_pass_names_d() -> None:
    found = result(1.0)
    assert "a&#124;b" in gate_markdown(found)
    assert "<c>" not in gate_markdown(found)
    assert "less than D = 2.0% worse" in headline(found)
    assert found.outcome is GateOutcome.PASSES


def test_the_sentence_of_the_readme_is_one_that_is_printed() -> None:
    readme = (Path(__file__).parents[4] / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"(?m)^    (pass: .*)$", readme)
    found = result(1.0)
    printed = headline(replace(found, terms=found.terms.model_copy(update={"budget": "2m"})))
    assert re.sub(r"\d", "0", shown) == re.sub(r"\d", "0", printed)


def test_too_few_pairs_say_which_budget_has_enough_unless_it_was_enough_and_broken_off() -> None:
    told = headline(result(pairs=1, compile_ns=9 * 10**9))
    assert told.endswith("one takes 9.0 s here: give --budget 46s or more")
    assert headline(result(pairs=1)).endswith("one takes 0.1 s here")
    endless = headline(result(pairs=1, compile_ns=800 * 10**9))
    assert endless.endswith("one takes 800.0 s here: too few go into an hour, the longest budget, to tell anything")


def test_a_d_that_was_cut_is_not_called_what_can_be_told() -> None:
    assert "what can be told in 40s (2.0%)" in meaning(result())
    assert "can be told" not in meaning(result(promised=0.1))
    assert "40s here can tell no less" in meaning(result(promised=0.1))


def test_a_d_that_is_what_is_tolerated_owes_nothing_to_the_machine() -> None:
    assert meaning(result(promised=0.1, tolerate="20%")) == "D = 20.0%, what is tolerated: a pass is less than D worse"


def of_outputs(found: GateResult) -> ElementTree.Element:
    (case,) = ElementTree.fromstring(gate_junit(found, strict=False)).findall(".//testcase[@name='outputs']/*")
    return case


def sides(found: GateResult, **changed) -> GateResult:
    """The result with a head that is another measurement than base."""
    one = found.measurements[BASE]
    return replace(found, measurements={**found.measurements, HEAD: replace(one, id="m0000002", **changed)})


def test_outputs_that_nothing_was_compared_with_are_skipped_with_the_reason() -> None:
    apart = "head is another model than base, and its outputs differ: by 0.94"
    case = of_outputs(sides(result(remarks=(apart,)), model_digest="ef" * 32))
    assert (case.tag, case.get("message")) == ("skipped", f"not compared: {apart}")

    case = of_outputs(sides(result(failures=("head: it crashed",)), captured_outputs=()))
    assert (case.tag, case.text) == ("skipped", "there are no outputs of head")

    case = of_outputs(sides(result(), grounds=Grounds(random_operators=("RandomNormal",))))
    assert case.tag == "skipped" and "RandomNormal" in str(case.text)


def test_outputs_that_were_compared_say_so_and_wrong_ones_fail() -> None:
    case = of_outputs(result(remarks=("something else",)))
    assert (case.tag, case.text) == ("system-out", "no difference beyond rounding was found")
    case = of_outputs(result(problems=("the outputs of head are wrong: NaN",), failures=("control: it is gone",)))
    assert (case.tag, case.get("type"), case.text) == ("failure", "outputs", "the outputs of head are wrong: NaN")


def test_a_metric_without_numbers_says_why_once() -> None:
    terms = GateTerms(budget="40s", metrics=(GateMetric.ENERGY, GateMetric.LATENCY))
    found = replace(result(pairs=1), terms=terms, judged=judge(terms, arms(1.0, pairs=1)))
    root = ElementTree.fromstring(gate_junit(found, strict=False))
    for one in found.judged.deciding:
        (case,) = root.findall(f".//testcase[@name='{one.metric}']/skipped")
        assert case.attrib["message"] == f"cannot tell: {one.metric}: {one.verdict.sentence}"


def test_what_failed_is_not_called_an_output_and_keeps_its_lines() -> None:
    found = result(1.0, failures=("head: the plugin said\nno\x00thing",))
    assert "> **Failed:** head: " in gate_markdown(found) and "**Outputs:**" not in gate_markdown(found)
    case = ElementTree.fromstring(gate_junit(found, strict=False)).find(".//error")
    assert case is not None and "said\nno\N{REPLACEMENT CHARACTER}thing" in str(case.text)
