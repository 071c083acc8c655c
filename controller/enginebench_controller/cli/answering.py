"""Answers in the terminal. Not among the tables, as commands that give none start without what answers take."""

from collections.abc import Iterable

from enginebench_controller.cli.console import plain, stdout
from enginebench_controller.comparing.answers import Answer


def print_answers(answers: Iterable[Answer]) -> None:
    """The sentences that a person came for, each with what must not be missed."""
    for answer in answers:
        first, *others = answer.lines
        text = plain(first)
        text.stylize("bold")
        stdout().print(text, soft_wrap=True)
        for line in others:
            stdout().print(plain(f"  {line}"), soft_wrap=True)
