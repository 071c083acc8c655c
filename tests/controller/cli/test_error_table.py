"""Every error, exit code and failure kind of the controller is explained in the one table of them."""

import importlib
import pkgutil

import pytest

import enginebench_controller
from enginebench_controller.cli.error_table import ERRORS, EXITS, FAILURES
from enginebench_controller.errors import INTERRUPTED, EnginebenchError, ExitCode, OldAgentError, code_of
from enginebench_controller.records import FailureKind


def _all_errors(of=EnginebenchError):
    ours = {of} if of.__module__.startswith("enginebench_controller.") else set()
    return ours.union(*(_all_errors(one) for one in of.__subclasses__()))


def test_every_error_class_has_an_entry():
    for module in pkgutil.walk_packages(enginebench_controller.__path__, "enginebench_controller."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert set(ERRORS) == _all_errors()


def test_every_exit_code_and_failure_kind_has_an_entry():
    assert set(EXITS) == {*ExitCode, INTERRUPTED}
    assert set(FAILURES) == set(FailureKind)


def test_codes_are_the_names_of_the_errors_and_differ():
    assert code_of(OldAgentError) == "old_agent"
    assert len({code_of(error) for error in ERRORS}) == len(ERRORS)


@pytest.mark.parametrize("known", [*EXITS.values(), *ERRORS.values(), *FAILURES.values()], ids=lambda one: one.meaning)
def test_meaning_and_remedy_are_sentences(known):
    for text in (known.meaning, known.remedy):
        assert text[0].isupper() or text[0] == "`"
        assert text.endswith(".")
