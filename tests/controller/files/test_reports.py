"""Reports: whole, without anything from elsewhere, and safe against names of others."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

import invented
from controller.verdicts.chains import chain, conv_nodes, layer, reorder
from enginebench_controller.files.reports import benchmark_html, benchmark_markdown, profile_html, profile_markdown
from enginebench_controller.files.verdicts.junit import junit
from enginebench_controller.stats.comparison import Comparison, ComparisonMethod, Verdict
from enginebench_controller.verdicts.answers import Answer, AnswerOutcome, RankMetric
from enginebench_controller.verdicts.conditions import (
    Check,
    Condition,
    ConditionMetric,
    ConditionOutcome,
    check_profiles,
    parse_conditions,
)
from enginebench_controller.verdicts.layers.advice import Advice, Severity
from enginebench_controller.verdicts.layers.profiles import compare_profiles
from enginebench_controller.verdicts.pairing import Compared

EVIL = '</td><script>alert("x")</script><img src="http://elsewhere/x.png">|`**'
VOID = {"meta", "link", "input", "br", "img", "line"}


class Page(HTMLParser):
    """What stands in a page; raises on tags that do not fit together."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses, self.texts, self._open = [], [], [], []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("href", "src", "action", "srcset", "data")]
        assert not any(name.startswith("on") for name, _ in attributes)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def comparison(name="conv", count=2):
    first = chain(
        "a",
        [*(layer(order, 100_000) for order in range(count)), layer(count, None), reorder(9, 4_000)],
        conv_nodes(count + 1, name),
    )
    second = chain("b", [layer(order, 130_000) for order in range(count + 1)], conv_nodes(count + 1, name))
    return compare_profiles([first, second])


def compared_benchmarks():
    found = Comparison(1.2, 1.1, 1.3, 0.01, Verdict.SLOWER, ComparisonMethod.PROCESSES)
    unknown = Comparison(None, None, None, None, Verdict.INCONCLUSIVE, None, "one process each tells nothing")
    first, second = invented.measured("m1", model_name=EVIL), invented.measured("m2", engine="b")
    return [Compared(first, second, False, found, (EVIL,)), Compared(first, second, False, unknown, ())]


def check(outcome, sentence="ratio 1.2"):
    return Check("B against A", f"layer {EVIL}\x00\x1b", Condition(ConditionMetric.SLOWER, 0.03), outcome, sentence)


ANSWER = Answer(f"net {EVIL}", RankMetric.LATENCY, AnswerOutcome.RANKED, f"{EVIL} is fastest.", remarks=(f"{EVIL}!",))
PAGES = {
    "profiles": lambda: profile_html(comparison(), [check(ConditionOutcome.FAILED), check(ConditionOutcome.PASSED)]),
    "evil profiles": lambda: profile_html(comparison(EVIL), answers=[ANSWER]),
    "benchmarks": lambda: benchmark_html(
        f"a {EVIL}", compared_benchmarks(), [check(ConditionOutcome.INCONCLUSIVE)], answers=[ANSWER]
    ),
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_page_refers_to_nothing_outside_itself(page):
    text = page()
    found = Page(text)
    assert all(address.startswith(("#", "data:")) for address in found.addresses)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest", text)
    assert "default-src 'none'" in text
    assert found.tags.count("script") == 1 and "img" not in found.tags


def test_names_with_markup_stand_in_the_page_as_they_are():
    assert any("conv0" in text for text in Page(PAGES["profiles"]()).texts)
    assert EVIL + "0" in Page(PAGES["evil profiles"]()).texts


def test_the_answer_stands_before_all_else():
    texts = Page(PAGES["benchmarks"]()).texts
    assert f"{EVIL} is fastest." in texts and texts.index(f"{EVIL} is fastest.") < texts.index("Comparisons")
    text = benchmark_markdown("duel", compared_benchmarks(), answers=[ANSWER])
    assert text.splitlines()[2].startswith("- **") and text.splitlines()[2].endswith("is fastest.**")


def test_a_summary_of_profiles_begins_with_the_answer_and_folds_the_rest():
    text = profile_markdown(comparison(EVIL))
    assert text.splitlines()[2].startswith("- **B against A, median latency without counters: ")
    visible = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert not [line for line in visible.splitlines() if line.startswith("|")]
    assert text.count("<details>") == text.count("</details>") == 2


def test_advice_in_a_summary_says_which_side_it_is_about():
    advice = (Advice("slow", Severity.NOTE, "one layer takes all", "look at it", "b"),)
    text = profile_markdown(replace(comparison(), advice=advice))
    assert "- **note on B**: one layer takes all: look at it" in text


def test_a_note_in_a_summary_of_three_says_which_pair_it_is_of():
    first = chain("a", [layer(0, 1_000_000)], unprofiled_ns=100_000)
    others = [chain(name, [layer(0, 500_000)], unprofiled_ns=ns) for name, ns in (("b", 50_000), ("c", 300_000))]
    notes = [line for line in profile_markdown(compare_profiles([first, *others])).splitlines() if "Note:" in line]
    assert [line.split(" the layers take")[0] for line in notes] == [
        "> **Note:** C against A: layers and latency disagree:"
    ]


def test_a_page_says_what_every_row_came_to():
    texts = " ".join(Page(PAGES["profiles"]()).texts)
    for wanted in (
        "worse",
        "not executed in A",
        "absent in B",
        "1 failed",
        "1 passed",
        "How this was obtained",
        "What differs",
    ):
        assert wanted in texts
    assert "None" not in texts


def test_markdown_tables_cannot_be_broken_out_of():
    for text in (
        profile_markdown(comparison(EVIL), [check(ConditionOutcome.FAILED, EVIL)]),
        benchmark_markdown(EVIL, compared_benchmarks(), [check(ConditionOutcome.INCONCLUSIVE)], answers=[ANSWER]),
    ):
        assert "<" not in re.sub(r"</?(?:br|details|summary)>", "", text)
        for block in text.split("\n\n"):
            columns = {line.count("|") for line in block.splitlines() if line.startswith("|")}
            assert len(columns) <= 1


def test_junit_has_a_case_for_each_check():
    checks = [
        check(ConditionOutcome.PASSED),
        check(ConditionOutcome.FAILED, "ratio <1.2>"),
        check(ConditionOutcome.INCONCLUSIVE),
    ]
    root = ElementTree.fromstring(junit(checks).encode())
    (suite,) = root.findall("testsuite")
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    assert root.get("tests") == "3"
    cases = suite.findall("testcase")
    assert [[child.tag for child in case] for case in cases] == [["system-out"], ["failure"], ["skipped"]]
    assert all(case.get("name") and case.get("classname") == "slower>3%" and case.get("time") for case in cases)
    assert "ratio <1.2>" in cases[1].find("failure").get("message")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp"))


def test_junit_of_profiles_has_a_case_a_layer():
    checks = check_profiles(comparison(), parse_conditions("slower>3% or layer-slower>10%"))
    root = ElementTree.fromstring(junit(checks).encode())
    assert [case.get("classname") for case in root.iter("testcase")] == [
        "slower>3%",
        "layer-slower>10%",
        "layer-slower>10%",
        "layer-slower>10%",
    ], "one of them of a layer that the first did not execute"
    assert len(root.findall(".//failure")) == 3


@pytest.mark.slow
def test_a_page_of_three_thousand_layers_stays_small():
    assert len(profile_html(comparison(count=3_000))) < 6_000_000


def test_a_report_of_layers_begins_with_what_measurements_tell():
    told = "".join(Page(profile_html(comparison(), answers=[ANSWER])).texts)
    assert told.index("is fastest.") < told.index("median latency without counters")
