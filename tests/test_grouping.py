"""What a module makes for its tests is made once, also where several processes share the tests: see conftest.py."""

import pytest


@pytest.fixture(scope="module")
def made() -> str:
    return "once"


def test_tests_that_share_what_their_module_makes_are_one_group(request: pytest.FixtureRequest, made: str) -> None:
    marks = [mark.args for mark in request.node.iter_markers("xdist_group")]
    assert marks == [("tests/test_grouping.py",)]
    if getattr(request.config.option, "loadgroup", False):  # as one of several processes
        assert request.node.nodeid.endswith("@tests/test_grouping.py"), "xdist has read the marks before they were set"


def test_others_are_none(request: pytest.FixtureRequest) -> None:
    assert list(request.node.iter_markers("xdist_group")) == []
