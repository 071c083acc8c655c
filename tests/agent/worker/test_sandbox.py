"""What an engine sees and reaches where bubblewrap shuts it in, and that nothing else changes for it or its agent."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.worker.pliable import engine_with
from enginebench_proto.v1 import run_pb2

pytestmark = pytest.mark.slow

BWRAP = shutil.which("bwrap") or "bwrap"
TRIAL = [BWRAP, "--unshare-user", "--ro-bind", "/", "/", "true"]

UNDO = """
import ctypes
kernel = ctypes.CDLL(None, use_errno=True)
assert kernel.umount2({place!r}.encode(), 2) == -1
assert kernel.unshare(0x10020000) == 0, "users and mounts"
for way in (2, 0):
    assert kernel.umount2({place!r}.encode(), way) == -1, "what it was given is locked"
assert kernel.mount(None, b"/", None, 0x1020, None) == -1, "and read-only"
assert ".ssh" not in os.listdir({place!r})
"""


class Room:
    """An agent's folders as a child meets them, and children that are started there."""

    def __init__(self, folder: Path, run: Callable[..., object]) -> None:
        self.data, self.home, self._run = folder / "data", folder / "home", run
        self.own = self.data / "runs" / "r1"
        for made in (self.own / "model", self.data / "tls", self.data / "caches", self.home / ".ssh"):
            made.mkdir(parents=True)
        for secret in self.secrets:
            secret.write_text("secret")

    @property
    def secrets(self) -> list[Path]:
        return [
            self.data / "tls" / "agent.key",
            self.data / "agent.toml",
            self.home / ".ssh" / "id",
            self.data.parent / "x",
        ]

    def child(self, *words: str, program: str | None = BWRAP, **options: object) -> object:
        """A worker in bubblewrap, in none where there is no program."""
        folders = ["--hide", str(self.data), "--caches", str(self.data / "caches")]
        sandbox = ["--sandbox", program, *folders] if program else []
        variables = {"HOME": str(self.home), "TMPDIR": str(self.own)}
        return self._run(*sandbox, *words, cwd=self.own, variables=variables, **options)


@pytest.fixture
def room(tmp_path: Path, run_worker: Callable) -> Room:
    return Room(tmp_path, run_worker)


@pytest.fixture
def engine(room: Room, install_plugin: Callable, make_spec: Callable, tiny_model: Path) -> Callable:
    """Run the pliable engine in the sandbox, with a statement put into its compilation."""

    def run(statement: str = "", *words: str, inputs: Path | None = None, **options: object) -> object:
        folder = install_plugin("mine", engine_with(compile="import os; exec(" + repr(statement) + ", {'os': os})"))
        model = room.own / "model" / "tiny.onnx"
        model.hardlink_to(tiny_model)
        given = [] if inputs is None else ["--inputs", str(inputs)]
        return room.child(*words, "run", str(model), *given, spec=make_spec("mine"), folders=[folder], **options)

    return run


@pytest.fixture
def _bubblewrap() -> None:
    try:
        subprocess.run(TRIAL, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"bubblewrap cannot be used here: {error}")


shut_in = pytest.mark.usefixtures("_bubblewrap")


def edited_at(source: Path, folder: Path) -> None:
    """Let a plugin be installed as `pip install --editable` does it."""
    (metadata,) = folder.glob("*.dist-info")
    (metadata / "direct_url.json").write_text(json.dumps({"url": source.as_uri(), "dir_info": {"editable": True}}))


def passed(child: object) -> bool:
    assert child.result.outcome == run_pb2.OUTCOME_OK, child.result.failure
    return True


@shut_in
def test_an_engine_sees_no_keys_no_homes_and_no_temporary_files_of_others(room: Room, engine: Callable) -> None:
    hidden = [str(secret) for secret in room.secrets]
    assert passed(engine(f"assert not [name for name in {hidden!r} if os.path.exists(name)]"))


@shut_in
def test_an_engine_writes_to_its_own_folder_only_and_its_model_and_inputs_stay_as_they_are(
    room: Room, engine: Callable, tiny_model: Path
) -> None:
    before = tiny_model.read_bytes()
    (cached := room.data / "cached").write_bytes(b"of the cache, for all runs")
    (inputs := room.own / "inputs").mkdir()
    (inputs / "x").hardlink_to(cached)
    statement = f"""
open("own", "w").close(), open("model/beside", "w").close()
for name in ("model/tiny.onnx", "inputs/x", {sys.executable!r}, {__file__!r}):
    for change in (lambda: open(name, "r+b"), lambda: os.chmod(name, 0o666), lambda: os.unlink(name)):
        try:
            change()
        except OSError:
            continue
        raise AssertionError(name)
"""
    assert passed(engine(statement, inputs=inputs))
    assert (tiny_model.read_bytes(), cached.read_bytes()) == (before, b"of the cache, for all runs")
    assert (room.own / "own").exists()


@shut_in
def test_what_drivers_keep_in_a_home_lasts_but_not_in_that_home(room: Room, engine: Callable) -> None:
    made = "path = os.path.expanduser('~/.nv/ComputeCache'); os.makedirs(path); open(path + '/kernel', 'w').close()"
    assert passed(engine(made))
    assert (room.data / "caches" / ".nv" / "ComputeCache" / "kernel").exists()
    assert sorted(path.name for path in room.home.iterdir()) == [".ssh"]


@shut_in
def test_an_engine_cannot_undo_its_sandbox(room: Room, engine: Callable) -> None:
    assert passed(engine(UNDO.format(place=str(room.home))))


@shut_in
def test_an_engine_cannot_look_through_the_eyes_of_its_agent(engine: Callable) -> None:
    statement = """
for name in ("root", "cwd", "environ", "mem", "ns/mnt"):
    try:
        os.stat(f"/proc/{os.getppid()}/{name}/.") if name in ("root", "cwd") else open(f"/proc/{os.getppid()}/{name}")
    except PermissionError:
        continue
    raise AssertionError(name)
"""
    assert passed(engine(statement))


@shut_in
def test_what_an_engine_is_ended_by_is_told_to_its_agent(engine: Callable) -> None:
    assert engine("import signal; os.kill(os.getpid(), signal.SIGKILL)").returncode == -9


@shut_in
def test_processors_threads_and_evidence_are_the_same(
    room: Room, install_plugin: Callable, make_spec: Callable, tiny_model: Path
) -> None:
    folder, model = install_plugin("mine", engine_with()), shutil.copy(tiny_model, room.own)
    seen = []
    for program in (BWRAP, None):
        child = room.child("run", str(model), spec=make_spec("mine"), folders=[folder], program=program)
        phases = [(phase.name, phase.HasField("peak_rss_bytes")) for phase in child.result.measurement.phases]
        affinity = list(child.result.measurement.effective.affinity)
        seen.append((affinity, phases, dict(child.blocks[0].evidence.missing)))
    assert seen[0] == seen[1]


@shut_in
def test_a_plugin_that_is_edited_in_a_home_is_seen(
    room: Room, install_plugin: Callable, make_spec: Callable, tiny_model: Path
) -> None:
    source = room.home / "source"
    source.mkdir()
    (source / "weights").write_text("own")
    folder = install_plugin("mine", engine_with(compile=f"assert open({str(source / 'weights')!r}).read() == 'own'"))
    edited_at(source, folder)
    model = shutil.copy(tiny_model, room.own / "model")
    assert passed(room.child("run", str(model), spec=make_spec("mine"), folders=[folder]))


@shut_in
def test_an_agent_that_lives_within_what_is_seen_keeps_its_keys(
    room: Room, install_plugin: Callable, make_spec: Callable, tiny_model: Path, tmp_path: Path
) -> None:
    seen = (
        f"import os; assert [os.path.exists(name) for name in {list(map(str, room.secrets))!r}] == [False] * 3 + [True]"
    )
    folder = install_plugin("mine", engine_with(compile=seen))
    edited_at(tmp_path, folder)
    model = shutil.copy(tiny_model, room.own / "model")
    assert passed(room.child("run", str(model), spec=make_spec("mine"), folders=[folder]))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo bwrap: No permissions to create new namespace >&2; exit 1", "bwrap: No permissions"),
        ("exit 1", "without a word"),
        (None, "no such file"),
    ],
)
def test_where_bubblewrap_does_not_work_a_child_goes_on_as_without_and_says_why(
    room: Room, engine: Callable, tmp_path: Path, script: str | None, reason: str
) -> None:
    program = tmp_path / "bwrap"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    notices = [message.notice for message in room.child("list", program=str(program)).messages]
    assert any("not shut in" in notice and reason in notice for notice in notices)
    assert passed(engine(f"assert os.path.exists({str(room.secrets[0])!r})", program=str(program)))
