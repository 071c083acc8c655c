"""For all tests: no deadlines on generated examples, since a machine that also measures may be slow."""

import sys
from importlib.util import find_spec

if find_spec("hypothesis"):  # not in DeepSparse's environment, whose tests have no generated examples
    from hypothesis import settings

    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")


def pytest_sessionfinish() -> None:
    """Write how many generated inputs went through, where a recorded run asks for it."""
    if fuzzing := sys.modules.get("fuzzing"):  # only where a test has fuzzed something
        fuzzing.write_counts()
