"""Answers as JSON, and the document of a benchmark that begins with them; docs/reference/cli.md describes both."""

from collections.abc import Sequence

from enginebench_controller.files.benchmarks import BenchmarkForm
from enginebench_controller.files.documents import Document
from enginebench_controller.files.forms import Form, with_fields_of
from enginebench_controller.verdicts.answers import Answer


def answers_document(answers: Sequence[Answer]) -> list[Document]:
    """Describe answers, in their order."""
    return [
        {
            "sentence": one.sentence,
            "outcome": one.outcome.value,
            "work": one.work,
            "metric": one.metric.value,
            "places": [vars(place) | {"standing": place.standing.value} for place in one.places],
            "same_within": one.bound,
            "command": one.command,
            "advice": one.advice,
            "remarks": list(one.remarks),
        }
        for one in answers
    ]


@with_fields_of(Answer, without=("bound",))
class AnswerForm(Form):
    """What is to be said of one group; those that are the same are so within `same_within`."""

    same_within: float | None


class BenchmarkDocument(BenchmarkForm):
    """A benchmark as it is printed, with what it says of its groups before all else."""

    answers: tuple[AnswerForm, ...]
