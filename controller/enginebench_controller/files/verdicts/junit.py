"""JUnit XML, as Jenkins, GitLab and GitHub's actions read it: of the checks of a comparison, and of a gate."""

from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree

from enginebench_controller.verdicts.conditions import Check, ConditionOutcome
from enginebench_controller.verdicts.gate.results import GateResult
from enginebench_controller.verdicts.gate.rule import GateOutcome
from enginebench_controller.verdicts.gate.words import TITLES, compared_words


def junit(checks: Sequence[Check]) -> str:
    """Write checks as test cases: failed ones with a failure, those that noise hides as skipped, with the reason."""
    root = ElementTree.Element("testsuites", _counts(checks) | {"name": "enginebench compare", "time": "0"})
    for pair in dict.fromkeys(check.pair for check in checks):
        _add_suite(root, pair, [check for check in checks if check.pair == pair])
    return _written(root)


def _add_suite(root: ElementTree.Element, pair: str, checks: Sequence[Check]) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    facts = {"name": _allowed(pair), "time": "0", "timestamp": now, "hostname": "localhost"}
    suite = ElementTree.SubElement(root, "testsuite", _counts(checks) | facts)
    for check in checks:
        case = {"classname": str(check.condition), "name": _allowed(check.subject), "time": "0"}
        _add_outcome(ElementTree.SubElement(suite, "testcase", case), check)


def _add_outcome(case: ElementTree.Element, check: Check) -> None:
    sentence, told = _allowed(check.sentence), "\n".join(map(_allowed, (check.sentence, *check.remarks)))
    if check.outcome is ConditionOutcome.FAILED:
        failure = {"message": f"{check.condition}: {sentence}", "type": str(check.condition.metric)}
        ElementTree.SubElement(case, "failure", failure).text = told
    elif check.outcome is ConditionOutcome.INCONCLUSIVE:
        ElementTree.SubElement(case, "skipped", {"message": f"inconclusive: {sentence}"}).text = told
    else:
        ElementTree.SubElement(case, "system-out").text = told


def _counts(checks: Sequence[Check]) -> dict[str, str]:
    failed = sum(check.outcome is ConditionOutcome.FAILED for check in checks)
    skipped = sum(check.outcome is ConditionOutcome.INCONCLUSIVE for check in checks)
    return {"tests": str(len(checks)), "failures": str(failed), "errors": "0", "skipped": str(skipped)}


def gate_junit(result: GateResult, *, strict: bool) -> str:
    """A test case a metric that may fail the gate, and one for the outputs.

    Each metric is told by all process pairs, and so took what the gate took; what outputs took is not known.
    """
    seconds = f"{result.judged.pairs * (result.judged.pair_seconds or 0.0):.3f}"
    suite = ElementTree.Element("testsuite", {"name": _allowed(result.benchmark.name), "time": seconds})
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for one in result.judged.deciding:
        sentence = f"{compared_words(result, one)}; {one.verdict.sentence}"
        outcome = GateOutcome.CANNOT_TELL if result.failures else one.verdict.outcome
        _case(suite, counts, str(one.metric), _allowed(sentence), outcome, strict=strict, seconds=seconds)
    told = [*result.problems, *result.failures]
    _case(suite, counts, "outputs", _allowed("; ".join(told)), GateOutcome.WORSE if told else GateOutcome.PASSES)
    for name, count in counts.items():
        suite.set(name, str(count))
    root = ElementTree.Element("testsuites", {name: str(count) for name, count in counts.items()})
    root.set("name", "enginebench gate")
    root.set("time", seconds)
    root.append(suite)
    return _written(root)


def _case(
    suite: ElementTree.Element,
    counts: dict[str, int],
    name: str,
    sentence: str,
    outcome: GateOutcome,
    *,
    strict: bool = False,
    seconds: str = "0",
) -> None:
    case = ElementTree.SubElement(suite, "testcase", {"classname": "enginebench gate", "name": name, "time": seconds})
    counts["tests"] += 1
    if outcome is GateOutcome.WORSE or (strict and outcome is GateOutcome.CANNOT_TELL):
        counts["failures"] += 1
        message = sentence or TITLES[outcome]
        ElementTree.SubElement(case, "failure", {"message": message, "type": outcome.value}).text = message
    elif outcome is GateOutcome.CANNOT_TELL:
        counts["skipped"] += 1
        ElementTree.SubElement(case, "skipped", {"message": f"cannot tell: {sentence}"})
    else:
        ElementTree.SubElement(case, "system-out").text = sentence


def _written(root: ElementTree.Element) -> str:
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _allowed(text: str) -> str:
    """The text without characters that XML 1.0 has no way to write."""
    return "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text)
