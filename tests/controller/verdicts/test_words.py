"""How a failure is said in one sentence."""

import pytest

from enginebench_controller.records import Failure, FailureKind
from enginebench_controller.verdicts.words import failure_sentence


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "it stopped."),
        ({"cause": "no kernel for Foo"}, "it stopped."),  # whose line the message has, since there are causes
        ({"detail": "RuntimeError: no kernel for Foo"}, "it stopped: RuntimeError: no kernel for Foo"),
        ({"stderr_tail": "Assertion at planner.hpp:120"}, "it stopped: Assertion at planner.hpp:120"),
    ],
)
def test_the_engines_own_words_stand_behind_the_message_where_it_lacks_them(fields, said):
    failure = Failure(FailureKind.CRASHED, "it stopped.", **fields)
    assert failure_sentence(failure) == f"crashed: {said}"


def test_words_that_the_message_has_are_not_said_twice():
    failure = Failure(FailureKind.CRASHED, "it stopped: no kernel for Foo", detail="no kernel for Foo")
    assert failure_sentence(failure) == "crashed: it stopped: no kernel for Foo"
