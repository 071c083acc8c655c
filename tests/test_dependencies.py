"""What is installed here is what constraints.txt says, fits together, and the agent's base stays small."""

import os
import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)
}
DEVELOPMENT = frozenset({"dev"})
BASE = {"grpcio", "grpcio-health-checking", "grpcio-reflection", "protobuf", "pluggy", "typing-extensions"}
"""The last is what grpcio itself needs."""


def _needed(name: str, extras: frozenset[str] = frozenset()) -> Iterator[tuple[str, Requirement]]:
    """Every requirement that counts here, with who asks for it, followed to the end."""
    asked, waiting = set(), [(name, extras)]
    while waiting:
        who, of = waiting.pop()
        if (who, of) in asked:
            continue
        asked.add((who, of))
        for requirement in map(Requirement, distribution(who).requires or ()):
            environments = [{"extra": extra} for extra in of or {""}]
            if requirement.marker is None or any(requirement.marker.evaluate(one) for one in environments):
                needed = canonicalize_name(requirement.name)
                yield who, requirement
                waiting.append((needed, frozenset(requirement.extras)))


def _all_needed() -> list[tuple[str, Requirement]]:
    return list(_needed("enginebench", DEVELOPMENT))


def test_whatever_is_needed_is_pinned_and_installed_in_the_version_pinned() -> None:
    names = {canonicalize_name(requirement.name) for _, requirement in _all_needed()} - {"enginebench"}
    installed = {name: Version(distribution(name).version).public for name in names}
    assert installed == {name: PINS.get(name) for name in names}


def test_every_version_fits_what_the_others_ask_of_it() -> None:
    wrong = [
        f"{who} needs {requirement}, not {distribution(requirement.name).version}"
        for who, requirement in _all_needed()
        if not requirement.specifier.contains(distribution(requirement.name).version, prereleases=True)
    ]
    assert not wrong


def test_an_agent_needs_no_more_than_its_base() -> None:
    assert {canonicalize_name(requirement.name) for _, requirement in _needed("enginebench")} == BASE


@pytest.mark.xdist_group("together")
def test_tests_of_a_group_stay_on_one_worker(request: pytest.FixtureRequest) -> None:
    # pytest-xdist writes the group into the name, where its scheduler reads it; it did so in vain with pytest 9.2.
    assert "PYTEST_XDIST_WORKER" not in os.environ or request.node.nodeid.endswith("@together")
