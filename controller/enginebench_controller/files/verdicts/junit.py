"""JUnit XML, as Jenkins, GitLab and GitHub's actions read it: of the checks of a comparison, and of a gate."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from xml.etree import ElementTree

from enginebench_controller.errors import printable
from enginebench_controller.plan.plan import BASE, HEAD
from enginebench_controller.verdicts.conditions import Check, ConditionOutcome
from enginebench_controller.verdicts.gate.results import GateResult, MetricResult
from enginebench_controller.verdicts.gate.rule import GateOutcome
from enginebench_controller.verdicts.gate.words import compared_words


class _Found(StrEnum):
    """What came of a case, as its element is called: an error is a case that could not be looked into."""

    PASSED = "system-out"
    FAILED = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class _Case:
    """A test case; `message` is what a list of failures shows, `told` the whole of it, and `kind` what failed."""

    classname: str
    name: str
    found: _Found
    told: str
    message: str = ""
    kind: str = ""
    seconds: str = "0"


def junit(checks: Sequence[Check]) -> str:
    """Write checks as test cases: failed ones with a failure, those that noise hides as skipped, with the reason."""
    suites: dict[str, list[_Case]] = {}
    for check in checks:
        suites.setdefault(check.pair, []).append(_of_check(check))
    return _written("enginebench compare", suites)


def gate_junit(result: GateResult, *, strict: bool) -> str:
    """A test case a metric that may fail the gate, and one for the outputs.

    The cases are the same each time, so that what reads many of these files can tell which one failed anew: where a
    side came to no numbers, the metrics are errors. Each metric is told by all process pairs, and so took what the gate
    took; what outputs took is not known.
    """
    seconds = f"{result.judged.pairs * (result.judged.pair_seconds or 0.0):.3f}"
    cases = [_of_metric(result, one, seconds, strict=strict) for one in result.judged.deciding]
    suites = {result.benchmark.name: [*cases, _of_outputs(result)]}
    return _written("enginebench gate", suites, seconds)


def _of_check(check: Check) -> _Case:
    condition, told = str(check.condition), "\n".join((check.sentence, *check.remarks))
    if check.outcome is ConditionOutcome.FAILED:
        message, metric = f"{condition}: {check.sentence}", str(check.condition.metric)
        return _Case(condition, check.subject, _Found.FAILED, told, message, metric)
    if check.outcome is ConditionOutcome.INCONCLUSIVE:
        return _Case(condition, check.subject, _Found.SKIPPED, told, f"inconclusive: {check.sentence}")
    return _Case(condition, check.subject, _Found.PASSED, told)


def _of_metric(result: GateResult, one: MetricResult, seconds: str, *, strict: bool) -> _Case:
    told, outcome = _metric_words(result, one), one.verdict.outcome
    found, message, kind = _Found.PASSED, told, outcome.value
    if result.failures:
        told = message = "; ".join(result.failures)
        found, kind = _Found.ERROR, "failed"
    elif outcome is GateOutcome.WORSE or (strict and outcome is GateOutcome.CANNOT_TELL):
        found = _Found.FAILED
    elif outcome is GateOutcome.CANNOT_TELL:
        found, message, kind = _Found.SKIPPED, f"cannot tell: {told}", ""
    return _Case("enginebench gate", str(one.metric), found, told, message, kind, seconds)


def _metric_words(result: GateResult, one: MetricResult) -> str:
    """What it came to, and the verdict, which is all that there is to say where there are no numbers."""
    compared = compared_words(result, one)
    return compared if compared.endswith(one.verdict.sentence) else f"{compared}; {one.verdict.sentence}"


def _of_outputs(result: GateResult) -> _Case:
    told, found, message, kind = "no difference beyond rounding was found", _Found.PASSED, "", ""
    if result.problems:
        told = message = "; ".join(result.problems)
        found, kind = _Found.FAILED, "outputs"
    elif why := _not_compared(result):
        told = why
        found, message = _Found.SKIPPED, f"not compared: {why}"
    return _Case("enginebench gate", "outputs", found, told, message, kind)


def _not_compared(result: GateResult) -> str:
    """Why nothing is known of the outputs; "" where they were compared."""
    sides = {role: result.measurements[role] for role in (BASE, HEAD)}
    if without := [role for role, one in sides.items() if not one.captured_outputs]:
        return f"there are no outputs of {' and '.join(without)}"
    if drawn := {name for one in sides.values() for name in one.grounds.random_operators or ()}:
        return f"the model has {', '.join(sorted(drawn))}, so its outputs differ each time"
    are_alike = len({one.model_digest for one in sides.values()}) == 1
    return "" if are_alike else "; ".join(result.remarks)


def _written(name: str, suites: Mapping[str, Sequence[_Case]], seconds: str = "0") -> str:
    """The whole file. Its root counts no skipped cases: Jenkins' schema (junit-10.xsd) has no place for them there."""
    counts = _counts([one for cases in suites.values() for one in cases])
    counts.pop("skipped")
    root = ElementTree.Element("testsuites", counts | {"name": name, "time": seconds})
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    for its, cases in suites.items():
        facts = {"name": _allowed(its), "time": seconds, "timestamp": now, "hostname": "localhost"}
        suite = ElementTree.SubElement(root, "testsuite", _counts(cases) | facts)
        for one in cases:
            _add(suite, one)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _counts(cases: Sequence[_Case]) -> dict[str, str]:
    found = Counter(one.found for one in cases)
    names = {"failures": _Found.FAILED, "errors": _Found.ERROR, "skipped": _Found.SKIPPED}
    return {"tests": str(len(cases))} | {name: str(found[one]) for name, one in names.items()}


def _add(suite: ElementTree.Element, one: _Case) -> None:
    names = {"classname": one.classname, "name": _allowed(one.name), "time": one.seconds}
    case = ElementTree.SubElement(suite, "testcase", names)
    facts = {} if one.found is _Found.PASSED else {"message": _allowed(one.message), "type": one.kind}
    facts = {name: value for name, value in facts.items() if value}
    ElementTree.SubElement(case, one.found.value, facts).text = _allowed(one.told)


def _allowed(text: str) -> str:
    """The text without characters that XML 1.0 has no way to write."""
    return "".join(one if one in "\n\t" else printable(one) for one in text)
