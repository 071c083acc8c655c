"""`enginebench-agent environment`: what pip is told, which Python is taken, and what is left when it fails."""

import errno
import fcntl
import json
import os
import re
import subprocess
import sys
import sysconfig
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest
from agent_process import run_command

from enginebench_agent.config import ENVIRONMENT_FILE, EnvironmentConfig, load_config, write_environment
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.environments import installing, managing
from enginebench_agent.environments.installing import EngineRequirement, own_requirement, rebuild_wheel
from enginebench_agent.environments.managing import (
    Version,
    WantedEnvironment,
    add_environment,
    choose_python,
    engines_of,
    remove_environment,
)
from enginebench_agent.errors import SetupError
from enginebench_proto.v1.engine_pb2 import Engine
from silent_index import silent_index, wait_for_the_end_of

PLUGIN = """
from enginebench_plugins import spec

class Mine(spec.Engine):
    def info(self):
        return spec.EngineInfo(version="3.2.1", formats=frozenset({spec.ModelFormat.ONNX}))
    def devices(self):
        return [spec.Device(name="CPU", full_name="any processor")]
    def read(self, source): ...
    def compile(self, model, source, settings): ...

@spec.hookimpl
def enginebench_engine():
    return Mine()
"""


@pytest.fixture
def installed(tmp_path: Path) -> Distribution:
    """A small distribution as pip leaves it behind, script and byte code included."""
    site = tmp_path / "site"
    info = site / "small_thing-1.5.dist-info"
    for path, text in {
        "small_thing/__init__.py": "ANSWER = 42\n",
        "small_thing/data.txt": "data",
        "small_thing/__pycache__/__init__.cpython-311.pyc": "byte code",
        "small_thing-1.5.dist-info/METADATA": "Metadata-Version: 2.1\nName: small-thing\nVersion: 1.5\n",
        "small_thing-1.5.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "small_thing-1.5.dist-info/INSTALLER": "pip",
    }.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    files = [str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()]
    record = [*files, "../../../bin/small", "small_thing-1.5.dist-info/RECORD"]
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in record))
    return Distribution.at(info)


def place_origin(distribution: Distribution, origin: dict[str, object]) -> None:
    Path(str(distribution.locate_file("small_thing-1.5.dist-info/direct_url.json"))).write_text(json.dumps(origin))


@pytest.mark.slow
def test_a_wheel_made_from_an_installation_installs_the_same_files(installed: Distribution, tmp_path: Path) -> None:
    wheel = rebuild_wheel(installed, tmp_path)
    assert wheel.name == "small_thing-1.5-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not {name for name in names if name.endswith((".pyc", "INSTALLER")) or ".." in name}
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", str(target)]
    subprocess.run([*pip, str(wheel)], check=True)
    assert (target / "small_thing" / "__init__.py").read_text() == "ANSWER = 42\n"
    assert (target / "small_thing" / "data.txt").exists()


def test_the_same_installation_makes_the_same_wheel(installed: Distribution, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    first, second = rebuild_wheel(installed, tmp_path), rebuild_wheel(installed, tmp_path / "again")
    assert first.read_bytes() == second.read_bytes()


def test_an_installation_with_missing_files_is_refused(installed: Distribution, tmp_path: Path) -> None:
    Path(str(installed.locate_file("small_thing/data.txt"))).unlink()
    with pytest.raises(SetupError, match=r"data\.txt"):
        rebuild_wheel(installed, tmp_path)


def test_a_wheel_that_cannot_be_written_is_a_sentence(
    installed: Distribution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(installed.locate_file("")))
    monkeypatch.setattr(installing, "DISTRIBUTION", "small-thing")
    (tmp_path / "wheels" / "small_thing-1.5-py3-none-any.whl").mkdir(parents=True)
    with pytest.raises(SetupError, match=r"/wheels \(Is a directory\): name another"):
        installing.pack_wheel(tmp_path / "wheels")


def test_an_editable_installation_is_repeated_as_editable(installed: Distribution, tmp_path: Path) -> None:
    project = tmp_path / "my project"
    project.mkdir()
    (project / "pyproject.toml").write_text("")
    place_origin(installed, {"url": project.as_uri(), "dir_info": {"editable": True}})
    assert own_requirement(installed, ("torch",), tmp_path) == ["--editable", f"{project}[torch]"]
    place_origin(installed, {"url": project.as_uri(), "dir_info": {}})
    assert own_requirement(installed, (), tmp_path) == [str(project)]
    (project / "pyproject.toml").unlink()
    with pytest.raises(SetupError, match="my project"):
        own_requirement(installed, (), tmp_path)


def test_an_installation_from_version_control_is_repeated_at_its_commit(
    installed: Distribution, tmp_path: Path
) -> None:
    origin = {"url": "https://example.org/it.git", "vcs_info": {"vcs": "git", "commit_id": "abc123"}}
    place_origin(installed, origin)
    expected = "small-thing[openvino] @ git+https://example.org/it.git@abc123"
    assert own_requirement(installed, ("openvino",), tmp_path) == [expected]


def test_any_other_installation_is_repeated_from_a_wheel_of_its_files(installed: Distribution, tmp_path: Path) -> None:
    (requirement,) = own_requirement(installed, ("openvino",), tmp_path)
    assert requirement.startswith("small-thing[openvino] @ file:///")
    assert requirement.endswith("small_thing-1.5-py3-none-any.whl")


@pytest.mark.parametrize(
    ("text", "name", "specifier"),
    [
        ("onnxruntime", "onnxruntime", ""),
        ("onnxruntime==1.20.1", "onnxruntime", "==1.20.1"),
        ("torch >=2.6", "torch", ">=2.6"),
        ("torch~=2.6", "torch", "~=2.6"),
    ],
)
def test_an_engine_may_carry_a_version(text: str, name: str, specifier: str) -> None:
    assert EngineRequirement.parse(text) == EngineRequirement(name, specifier)


@pytest.mark.parametrize("text", ["tensorflow", "onnxruntime; rm -rf /", "onnxruntime[x]", "--index-url=x", ""])
def test_what_is_no_engine_of_ours_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(SetupError, match="openvino"):
        EngineRequirement.parse(text)


def choose(engine: str, own: Version, on_path: dict[str, Version], wanted: str | None = None) -> str:
    versions = {Path(sys.executable): own} | {Path(f"/bin/{name}"): each for name, each in on_path.items()}
    find = {name: f"/bin/{name}" for name in on_path}.get
    return str(choose_python(engine, Path(wanted) if wanted else None, versions.get, find))


def test_the_agents_own_python_is_taken_where_it_fits() -> None:
    assert choose("onnxruntime", (3, 13), {"python3.11": (3, 11)}) == sys.executable
    assert choose("deepsparse", (3, 11), {}) == sys.executable


def test_deepsparse_gets_an_older_python_from_the_path() -> None:
    assert choose("deepsparse", (3, 13), {"python3.11": (3, 11)}) == "/bin/python3.11"


def test_without_a_python_that_fits_the_sentence_says_which_is_needed() -> None:
    with pytest.raises(SetupError, match=r"3\.11 .* 3\.12.*--python"):
        choose("deepsparse", (3, 13), {"python3.12": (3, 12)})


@pytest.mark.parametrize(("version", "text"), [((3, 12), "deepsparse"), ((3, 9), r"3\.11"), (None, "interpreter")])
def test_a_python_that_does_not_fit_is_refused(version: Version | None, text: str) -> None:
    with pytest.raises(SetupError, match=text):
        choose_python("deepsparse", Path("/some/python"), lambda _: version)


def test_an_environment_is_for_what_was_put_into_it() -> None:
    ours = [Engine(name=name, distribution="enginebench 0.1.0") for name in ("fake", "onnxruntime", "torch")]
    theirs = Engine(name="mine", distribution="my-plugin 2.0")
    assert engines_of(ours, "onnxruntime", ()) == ("onnxruntime",)
    assert engines_of([*ours, theirs], "onnxruntime", ("my-plugin",)) == ("onnxruntime", "mine")
    assert engines_of([*ours, theirs], None, ("my-plugin",)) == ("mine",)
    assert engines_of(ours, None, ("onnxruntime==1.20.1",)) == ("onnxruntime",)
    assert engines_of(ours, None, ("numpy",)) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["../escape", "--engine", "openvino"], "cannot name"),
        (["default", "--engine", "openvino"], "exists already"),
        (["new"], "--engine"),
        (["new", "--engine", "tensorflow"], "tensorflow"),
        (["new", "--engine", "openvino", "--python", "/nowhere/python"], "/nowhere/python"),
    ],
)
def test_what_cannot_be_added_is_refused_and_leaves_nothing(tmp_path: Path, arguments: list[str], text: str) -> None:
    done = run_command("environment", "add", *arguments, "--data-dir", str(tmp_path))
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "environments").exists() or not list((tmp_path / "environments").iterdir())


@pytest.mark.slow
def test_a_failing_pip_is_quoted_and_leaves_nothing(tmp_path: Path) -> None:
    missing = str(tmp_path / "no-such-package")
    done = run_command("environment", "add", "new", "--package", missing, "--data-dir", str(tmp_path))
    assert done.returncode == 2
    assert "no-such-package" in done.stderr
    assert list((tmp_path / "environments").iterdir()) == []


@pytest.mark.slow
def test_an_add_ends_with_its_starter_and_so_does_pip(tmp_path: Path) -> None:
    words = ["environment", "add", "new", "--package", "anything", "--exit-with-stdin", "--data-dir", str(tmp_path)]
    # There SIGINT is ignored from the start.
    behind_an_ampersand = ["sh", "-c", 'trap "" INT; exec "$0" "$@"']
    with (
        silent_index() as index,
        subprocess.Popen(
            [*behind_an_ampersand, sys.executable, "-m", "enginebench_agent", *words],
            stdin=subprocess.PIPE,
            env=os.environ | index.variables,
            start_new_session=True,
        ) as adding,
        index.asked() as pip,
    ):
        assert adding.stdin is not None
        adding.stdin.close()
        try:
            assert adding.wait(timeout=30) == 130
        finally:
            adding.kill()
        wait_for_the_end_of(pip)
    assert list((tmp_path / "environments").iterdir()) == []


def test_an_environment_that_is_being_made_is_neither_made_nor_removed_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, wish = DataFolder(tmp_path), WantedEnvironment("new", None, ("anything",))

    def fill(place: Path, python: Path, wish: WantedEnvironment, engine: object) -> EnvironmentConfig:
        for change in (lambda: add_environment(wish, folder), lambda: remove_environment("new", folder)):
            with pytest.raises(SetupError, match="'new' is being made by another process"):
                change()
        return EnvironmentConfig(wish.name, python)

    monkeypatch.setattr(managing, "_fill", fill)
    monkeypatch.setattr(managing, "_show", lambda *_: None)
    monkeypatch.setattr(managing, "CLEARING_SECONDS", 0.0)
    add_environment(wish, folder)
    assert load_config(folder).environment("new") is not None
    remove_environment("new", folder)
    assert list(folder.environments.iterdir()) == []


@pytest.mark.slow
def test_where_an_add_was_killed_its_pip_is_alone_at_the_folder_until_it_ends(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    words = ["environment", "add", "new", "--package", "anything", "--data-dir", str(tmp_path)]
    with (
        silent_index() as index,
        subprocess.Popen(
            [sys.executable, "-m", "enginebench_agent", *words], env=os.environ | index.variables | {"PIP_RETRIES": "0"}
        ) as adding,
        index.asked(),
    ):
        adding.kill()
        adding.wait()
        with pytest.raises(SetupError, match="'new' is being made by another process"):
            add_environment(WantedEnvironment("new", None, ("anything",)), folder)
    remove_environment("new", folder)
    assert list(folder.environments.iterdir()) == []


def test_a_lock_that_its_last_holder_has_removed_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, lock = tmp_path / "new", fcntl.flock

    def late(stream: Any, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        with managing._alone_at(place):  # begins and ends between the opening and the locking of another
            pass
        lock(stream, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with managing._alone_at(place), pytest.raises(SetupError, match="is being made"), managing._alone_at(place):
        pass


def test_a_removal_waits_for_an_add_that_clears_away_what_it_had_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, begun, interrupted = DataFolder(tmp_path), threading.Event(), threading.Event()

    def fill(*_: object) -> EnvironmentConfig:
        begun.set()
        assert interrupted.wait(30)
        raise SetupError("its starter is gone")

    monkeypatch.setattr(managing, "_fill", fill)
    with ThreadPoolExecutor(1) as elsewhere:
        adding = elsewhere.submit(add_environment, WantedEnvironment("new", None, ("anything",)), folder)
        assert begun.wait(30)
        threading.Timer(0.3, interrupted.set).start()
        remove_environment("new", folder)
        assert interrupted.is_set()
        with pytest.raises(SetupError, match="its starter is gone"):
            adding.result()
    assert list(folder.environments.iterdir()) == []


def test_what_an_interrupted_add_has_left_can_be_removed(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.prepare()
    (folder.environments / "half" / "venv").mkdir(parents=True)
    remove_environment("half", folder)
    assert list(folder.environments.iterdir()) == []


def add_new(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the environment `new`, without the minute that pip takes."""
    monkeypatch.setattr(managing, "_fill", lambda place, python, wish, _: EnvironmentConfig(wish.name, python))
    monkeypatch.setattr(managing, "_show", lambda *_: None)
    add_environment(WantedEnvironment("new", None, ("anything",)), folder)


@pytest.mark.parametrize("left", [(), ("venv",), ("venv", "discovery-1a2b"), ("venv", ".environment.toml.1a2b.part")])
def test_what_a_killed_add_has_left_makes_room_for_the_next(
    tmp_path: Path, left: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = DataFolder(tmp_path)
    for name in ("", *left):
        (folder.environments / "new" / name).mkdir(parents=True, exist_ok=True)
    add_new(folder, monkeypatch)
    assert [one.name for one in (folder.environments / "new").iterdir()] == [ENVIRONMENT_FILE]
    assert "'new', which was never finished, is removed" in capsys.readouterr().err


def test_a_folder_of_somebody_elses_is_no_place_for_an_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = DataFolder(tmp_path / "data")
    (mine := tmp_path / "mine").mkdir()
    folder.environments.mkdir(parents=True)
    (linked := folder.environments / "new").symlink_to(mine)
    with pytest.raises(SetupError, match="no environment was finished there: remove it first"):
        add_new(folder, monkeypatch)
    linked.unlink()
    (linked / "notes").mkdir(parents=True)
    with pytest.raises(SetupError, match="no environment was finished there: remove it first"):
        add_new(folder, monkeypatch)
    assert mine.exists() and (linked / "notes").exists()


def test_of_an_environment_that_is_a_link_the_link_is_removed(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.prepare()
    (shared := tmp_path / "shared").mkdir()
    (shared / ENVIRONMENT_FILE).write_text("python = '/usr/bin/python3'")
    (folder.environments / "linked").symlink_to(shared)
    remove_environment("linked", folder)
    assert list(folder.environments.iterdir()) == []
    assert (shared / ENVIRONMENT_FILE).exists()


@pytest.mark.parametrize("record", [b"", b"python = '/venv/bin/pyth", b"\xff"])
def test_an_environment_whose_record_is_broken_can_be_removed(tmp_path: Path, record: bytes) -> None:
    folder = DataFolder(tmp_path)
    folder.prepare()
    (place := folder.environments / "broken").mkdir()
    (place / ENVIRONMENT_FILE).write_bytes(record)
    with pytest.raises(SetupError, match=re.escape(str(place))):
        load_config(folder)
    remove_environment("broken", folder)
    assert [each.name for each in load_config(folder).environments] == ["default"]


def test_an_environment_whose_record_does_not_reach_the_disk_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(place: Path, python: Path, wish: WantedEnvironment, engine: object) -> EnvironmentConfig:
        return EnvironmentConfig(wish.name, python)  # as pip would, given a minute

    def fail(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(managing, "_fill", fill)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SetupError, match="No space left on device"):
        add_environment(WantedEnvironment("new", None, ("anything",)), DataFolder(tmp_path))
    assert list((tmp_path / "environments").iterdir()) == []


def test_what_is_written_of_environments_is_read_alike_in_every_locale(tmp_path: Path) -> None:
    (place := tmp_path / "environments" / "new").mkdir(parents=True)
    write_environment(place, EnvironmentConfig("new", Path("/opt/Größe/bin/python")))
    (tmp_path / "agent.toml").write_text("# Größe\n", encoding="utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    listed = run_command("environment", "list", "--json", "--data-dir", str(tmp_path), environment=ascii_only)
    assert json.loads(listed.stdout)["environments"][1]["python"] == "/opt/Größe/bin/python", listed.stderr


def test_a_python_in_a_home_that_is_not_known_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text("[environments.old]\npython = '~nobody-of-this-name/bin/python'\n")
    with pytest.raises(SetupError, match="environment 'old' needs a plain name and python"):
        load_config(DataFolder(tmp_path))


@pytest.mark.parametrize("name", ["default", "unknown", "written"])
def test_only_added_environments_can_be_removed(tmp_path: Path, name: str) -> None:
    (tmp_path / "agent.toml").write_text(f"[environments.written]\npython = '{sys.executable}'\n")
    done = run_command("environment", "remove", name, "--data-dir", str(tmp_path))
    assert done.returncode == 2
    assert name in done.stderr


@pytest.mark.slow
def test_a_plugin_from_elsewhere_is_added_listed_and_removed(tmp_path: Path) -> None:
    project = tmp_path / "my-plugin"
    project.mkdir()
    (project / "my_plugin.py").write_text(PLUGIN)
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "my-plugin"\nversion = "1.0"\n'
        '[project.entry-points.enginebench]\nmine = "my_plugin"\n'
        '[tool.hatch.build.targets.wheel]\ninclude = ["my_plugin.py"]\n'
    )
    folder = ["--data-dir", os.path.relpath(tmp_path / "agent")]  # from where this test runs
    added = run_command("environment", "add", "extra", "--package", str(project), *folder)
    assert added.returncode == 0, added.stderr
    assert added.stdout == "mine 3.2.1: CPU (any processor)\n"
    listed = json.loads(run_command("environment", "list", "--json", *folder).stdout)
    assert listed["schema_version"] == 1
    environments = {each["name"]: each for each in listed["environments"]}
    assert environments["extra"]["engines"] == ["mine"]
    assert Path(environments["extra"]["python"]).exists()
    pip = [sys.executable, "-m", "pip", "--python", environments["extra"]["python"]]
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", "enginebench"], check=True)
    upgraded = run_command("environment", "upgrade", *folder)
    assert upgraded.returncode == 0, upgraded.stderr
    subprocess.run([environments["extra"]["python"], "-c", "import enginebench_agent.worker, my_plugin"], check=True)
    again = run_command("environment", "add", "extra", "--package", str(project), *folder)
    assert again.returncode == 2
    removed = run_command("environment", "remove", "extra", *folder)
    assert removed.returncode == 0
    assert not (tmp_path / "agent" / "environments" / "extra").exists()


def test_a_wheel_cannot_be_put_into_a_file(tmp_path: Path) -> None:
    (file := tmp_path / "file").write_text("mine")
    done = run_command("wheel", str(file))
    assert done.returncode == 2
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr
    assert file.read_text() == "mine"


@pytest.mark.slow
def test_what_this_python_was_built_for_is_told_where_a_wheel_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pip := tmp_path / "pip").write_text("#!/bin/sh\necho ERROR: No matching distribution found for openvino\nexit 1\n")
    pip.chmod(0o755)
    monkeypatch.setattr(installing, "REACHING_PIP", [str(pip)])
    monkeypatch.setattr(sysconfig, "get_config_var", lambda _: "aarch64-alpine-linux-musl")
    with pytest.raises(SetupError, match=r"openvino has no wheel for .* with musl"):
        installing.install(Path(sys.executable), None, ("openvino",), tmp_path)
