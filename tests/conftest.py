"""For all tests: what commands print is held to its schema and to no width, and generated examples have no deadlines.

Deadlines would be for machines that do nothing else: one that also measures may be slow. And NumPy multiplies with one
thread, as in the command line: where other tests are at work, two that wait for each other took five times as long.
"""

import os
import sys
from importlib.util import find_spec

import pytest

os.environ.pop("COLUMNS", None)  # of the terminal that the tests were started in: tables would fit into that

os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np  # noqa: F401  # it reads that once; what tests start is as users have it

del os.environ["OPENBLAS_NUM_THREADS"]

if find_spec("hypothesis"):  # not in DeepSparse's environment, whose tests have no generated examples
    from hypothesis import settings

    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")

if find_spec("jsonschema") and find_spec("typer"):  # likewise
    from printed import check_all_commands

    check_all_commands()


@pytest.hookimpl(tryfirst=True)  # before that of xdist, which reads the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep tests together that share what their module makes, as an agent: each process would make it for itself."""
    if not config.pluginmanager.hasplugin("xdist"):  # there are no groups then
        return
    for item in items:
        made = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009 (pytest tells it nowhere else)
        place = item.nodeid.partition("::")[0]
        if not item.get_closest_marker("xdist_group") and any(
            one.scope == "module" and one.baseid == place for ones in made for one in ones
        ):
            item.add_marker(pytest.mark.xdist_group(place))


_died: list[object] = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """Know of each process of tests that ended by itself."""
    if error:
        _died.append(node)


_last_failed: list[dict[str, bool]] = []


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let what failed as one of a group be found again: pytest looks before and after xdist adds the group."""
    plugins = session.config.pluginmanager
    if plugins.hasplugin("xdist") and (kept := plugins.get_plugin("lfplugin")):  # else there are no groups
        kept.lastfailed |= dict.fromkeys(map(_without_group, kept.lastfailed), True)
        _last_failed.append(kept.lastfailed)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Forget that it failed once it has passed, as pytest does under its name with the group."""
    if report.when == "call" and report.passed:
        for kept in _last_failed:
            kept.pop(_without_group(report.nodeid), None)


def _without_group(name: str) -> str:
    plain, _, group = name.rpartition("@")
    return name if not plain or "]" in group else plain  # which is no group but a parameter


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell a process that died from tests that failed: these alone have a second chance. And write how many generated
    inputs went through, where a recorded run asks for it.
    """
    if _died:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
    if fuzzing := sys.modules.get("fuzzing"):  # only where a test has fuzzed something
        fuzzing.write_counts()
