"""The container file, as far as it can be tried without a container engine."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "deploy" / "Containerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def instructions(name: str) -> list[str]:
    """What follows an instruction, once for each time it is used; continued lines are joined."""
    return re.findall(rf"^{name} (.+)$", TEXT.replace("\\\n", " "), re.MULTILINE)


def own_copies() -> list[tuple[list[str], str]]:
    """Sources and target of each COPY from the checkout."""
    copies = [line.split() for line in instructions("COPY") if not line.startswith("--from")]
    return [(words[:-1], words[-1]) for words in copies]


def test_what_is_copied_exists_and_is_let_into_the_build() -> None:
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = {source for sources, _ in own_copies() for source in sources}
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert sources == let_in


@pytest.mark.slow
def test_what_is_copied_is_enough_for_the_whole_wheel(tmp_path: Path) -> None:
    for sources, target in own_copies():
        for source in sources:
            place = tmp_path / "source" / (source if target == "./" else target)
            place.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            copy(ROOT / source, place)
    (build,) = [line for line in instructions("RUN") if line.startswith("pip wheel")]
    assert build.endswith(" --wheel-dir /wheels .")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*command, str(tmp_path), str(tmp_path / "source")], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    packages = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    declared = {Path(path).name for path in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}
    assert declared <= packages


def test_the_engine_is_one_of_our_extras_and_the_python_new_enough() -> None:
    arguments = dict(line.split("=", 1) for line in instructions("ARG"))
    assert arguments["ENGINE"] in PROJECT["project"]["optional-dependencies"]
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert tuple(map(int, arguments["PYTHON_VERSION"].split("."))) >= tuple(map(int, oldest.split(".")))
    assert {line.split()[0] for line in instructions("FROM")} == {"python:${PYTHON_VERSION}-slim"}


def test_it_runs_as_nobody_special_and_keeps_its_folder() -> None:
    (user,) = instructions("USER")
    (environment,) = instructions("ENV")
    (volume,) = instructions("VOLUME")
    assert user not in ("root", "0")
    assert f"ENGINEBENCH_AGENT_HOME={volume}/" in environment


@pytest.mark.parametrize("page", ["deploy/Containerfile", "docs/guide/edge.md"])
def test_it_is_built_in_the_format_that_has_health_checks(page: str) -> None:
    (words,) = re.findall(r"podman build (.+)", (ROOT / page).read_text())
    assert "--format docker" in words and instructions("HEALTHCHECK")


@pytest.mark.parametrize("instruction", ["HEALTHCHECK", "CMD"])
def test_the_commands_it_names_exist(instruction: str) -> None:
    (words,) = re.findall(r'\["([^]]+)"\]', instructions(instruction)[0])
    command = [word for word in words.split('", "') if word != "enginebench-agent"]
    done = subprocess.run(
        [sys.executable, "-m", "enginebench_agent", *command, "--help"], capture_output=True, check=False
    )
    assert done.returncode == 0
