"""What is installed here is what constraints.txt says, fits together, and the agent's base stays small."""

import os
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

sys.path.insert(0, str(Path(__file__).parents[1] / "deploy"))

from sbom import PINS, names, needed, only_needed

DEVELOPMENT = frozenset({"dev"})
BASE = {"grpcio", "grpcio-health-checking", "grpcio-reflection", "protobuf", "pluggy", "typing-extensions"}
"""The last is what grpcio itself needs."""


def _all_needed() -> list[tuple[str, Requirement]]:
    return list(needed("enginebench", DEVELOPMENT))


def test_whatever_is_needed_is_pinned_and_installed_in_the_version_pinned() -> None:
    everything = names(*DEVELOPMENT)
    installed = {name: Version(distribution(name).version).public for name in everything}
    assert installed == {name: PINS.get(name) for name in everything}


def test_every_version_fits_what_the_others_ask_of_it() -> None:
    wrong = [
        f"{who} needs {requirement}, not {distribution(requirement.name).version}"
        for who, requirement in _all_needed()
        if not requirement.specifier.contains(distribution(requirement.name).version, prereleases=True)
    ]
    assert not wrong


def test_an_agent_needs_no_more_than_its_base() -> None:
    assert names() == BASE


def test_what_pytorch_needs_to_read_onnx_comes_with_all_engines() -> None:
    assert {"torch", "onnx", "onnxruntime", "openvino", "numpy"} <= names("all")


def test_the_sbom_of_a_release_has_what_a_user_installs_and_no_tool_of_ours() -> None:
    everything = sorted(names(*DEVELOPMENT))
    found = {
        "metadata": {"component": {"name": "enginebench", "bom-ref": "root"}},
        "components": [{"name": name, "bom-ref": f"{name}=={PINS[name]}"} for name in everything],
        "dependencies": [{"ref": "root", "dependsOn": [f"{name}=={PINS[name]}" for name in everything]}],
    }
    told = only_needed(found)
    assert {one["name"] for one in told["components"]} == names("all")
    direct = {ref.partition("==")[0] for ref in told["dependencies"][0]["dependsOn"]}
    assert {"torch", "duckdb"} < direct < names("all") and "altair" not in direct
    assert not {"mypy", "pytest", "ruff"} & {one["name"] for one in told["components"]}


@pytest.mark.xdist_group("together")
def test_tests_of_a_group_stay_on_one_worker(request: pytest.FixtureRequest) -> None:
    # pytest-xdist writes the group into the name, where its scheduler reads it; it did so in vain with pytest 9.2.
    assert "PYTEST_XDIST_WORKER" not in os.environ or request.node.nodeid.endswith("@together")
