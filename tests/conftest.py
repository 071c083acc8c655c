"""For all tests: what commands print is held to its schema and to no width, and generated examples have no deadlines.

Deadlines would be for machines that do nothing else: one that also measures may be slow.
"""

import os
import sys
from importlib.util import find_spec

import pytest

os.environ.pop("COLUMNS", None)  # of the terminal that the tests were started in: tables would fit into that

if find_spec("hypothesis"):  # not in DeepSparse's environment, whose tests have no generated examples
    from hypothesis import settings

    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")

if find_spec("jsonschema") and find_spec("typer"):  # likewise
    from printed import check_all_commands

    check_all_commands()


_died: list[object] = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """Know of each process of tests that ended by itself."""
    if error:
        _died.append(node)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell a process that died from tests that failed: these alone have a second chance. And write how many generated
    inputs went through, where a recorded run asks for it.
    """
    if _died:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
    if fuzzing := sys.modules.get("fuzzing"):  # only where a test has fuzzed something
        fuzzing.write_counts()
