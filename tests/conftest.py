"""For all tests: no deadlines on generated examples, since a machine that also measures may be slow."""

from importlib.util import find_spec

if find_spec("hypothesis"):  # not in DeepSparse's environment, whose tests have no generated examples
    from hypothesis import settings

    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")
