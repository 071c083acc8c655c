"""Prints docs/reference/errors.md, from the agent's table of errors and the controller's.

It stands in no room: agent and controller may not know each other, and this page is about both.
"""

import sys
from collections.abc import Iterable, Sequence

from enginebench_agent import errors as agent
from enginebench_controller.cli import error_table as controller
from enginebench_controller.errors import code_of

INTRODUCTION = """\
# Errors

Printed by `make docs` from the tables in the code; do not edit it here.

An error is one sentence: what happened, where, and what to do. Its code stands in the log lines of `--verbose`,
and what an agent answers carries it besides the gRPC status, in the trailing metadata `enginebench-error`.
"""


def page() -> str:
    """The whole document."""
    return "\n".join(
        [
            INTRODUCTION,
            *_section("Exit codes of `enginebench`", ("code", "means", "what to do"), _exits(controller.EXITS.items())),
            *_section("Errors of a command", ("code", "exit code", "means", "what to do"), _errors_of_a_command()),
            "## Failures of a run\n",
            "A run that fails stops no other, and its failure is stored in the place of its numbers.\n",
            *_table(
                ("kind", "means", "what to do"),
                [(f"`{kind}`", known.meaning, known.remedy) for kind, known in controller.FAILURES.items()],
            ),
            *_section("What an agent answers", ("code", "gRPC status", "means", "what to do"), _answers()),
            *_section(
                "Exit codes of `enginebench-agent`", ("code", "means", "what to do"), _exits(agent.EXITS.items())
            ),
        ]
    ).removesuffix("\n")


def _exits(known: Iterable[tuple[int, controller.ErrorExplanation | agent.KnownExit]]) -> list[Sequence[object]]:
    return [(int(code), exit_.meaning, exit_.remedy) for code, exit_ in known]


def _errors_of_a_command() -> list[Sequence[object]]:
    return [
        (f"`{code_of(error)}`", int(error.exit_code), known.meaning, known.remedy)
        for error, known in controller.ERRORS.items()
    ]


def _answers() -> list[Sequence[object]]:
    return [
        (f"`{code.name.lower()}`", known.status, known.meaning, known.remedy) for code, known in agent.ERRORS.items()
    ]


def _section(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    return [f"## {title}\n", *_table(headings, rows)]


def _table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    cells = [headings, ["---"] * len(headings), *rows]
    return [*(f"| {' | '.join(map(str, row))} |" for row in cells), ""]


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")
