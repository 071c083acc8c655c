"""Files of other engines are written by converters in environments of their own, once, within their folder."""

import base64
import ctypes
import errno
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from filelock import FileLock
from tiny_models import save, tiny_classifier

from enginebench_controller.errors import EnginebenchError, ModelError
from enginebench_controller.models.derive import foreign
from enginebench_controller.models.derive.foreign import Converter, convert_to_foreign
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.records import FileFormat, InputTensor
from silent_index import silent_index, wait_for_the_end_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("converters")]  # which are installed once

NET = FileFormat("net", (".net",))
NCNN = FileFormat("ncnn", (".param",), (".bin",), ((0, b"7767517".hex()),))
PROGRAM = """
import importlib.util, pathlib, socket, sys
model, what, *rest = sys.argv[1:]
assert pathlib.Path(model).read_bytes()
if what == "fail":
    sys.exit("line one\\nthe operator Foo is not known")
if what == "nothing":
    sys.exit()
if what == "write":
    pathlib.Path(rest[0]).write_text("out of its folder")
if what == "connect":
    socket.create_connection(("127.0.0.1", int(rest[0])), timeout=5)
pathlib.Path("written").mkdir()
ours = importlib.util.find_spec("enginebench_controller") or importlib.util.find_spec("numpy")
pathlib.Path("written/out.net").write_text(f"{what}, {'with' if ours else 'without'} what is ours")
"""
CONFINED = pytest.mark.skipif(shutil.which("bwrap") is None, reason="without bubblewrap it is bounded in memory only")


def wheel(folder: Path) -> Path:
    """A package with the program, as pip installs it."""
    path = folder / "tonet-1.0-py3-none-any.whl"
    info = "tonet-1.0.dist-info"
    files = {
        "tonet.py": PROGRAM,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tonet\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        record = []
        for name, text in files.items():
            archive.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(text.encode())}")
        archive.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]))
    return path


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("converters") / "there"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(tmp_path_factory.mktemp("wheels"))


@pytest.fixture
def library(tmp_path: Path) -> ModelLibrary:
    return ModelLibrary(tmp_path / "library", own_formats=lambda: [NET, NCNN])


def converter(packed: Path, *arguments: str) -> Converter:
    def command(model: Path, inputs: object) -> list[str]:
        return ["-m", "tonet", model.name, *arguments]

    return Converter("net", "net", ("--no-index", "--no-deps", str(packed)), command, {"written/out.net": "model.net"})


def test_it_is_installed_and_run_once_and_the_child_says_of_whom_it_is(
    library: ModelLibrary, environments: Path, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(foreign.CONVERTERS, "net", converter(packed, "well"))  # type: ignore[arg-type]  # a dict
    version = library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    said: list[str] = []
    child = convert_to_foreign(library, version, "net", environments, said.append)
    assert (child.name, child.format, child.parent_digest) == ("tiny-net", "net", version.digest)
    assert str(child.derivation).startswith("net by ") and "x=1x3x4x4" in str(child.derivation)
    assert library.main_path(child).read_text() == "well, without what is ours"
    assert ["installing" in said[0], "converting tiny" in said[1]] == [True, True]
    assert convert_to_foreign(library, version, "net", environments, said.append) == child
    assert len(said) == 2, "what was made is found again"
    assert [one.name for one in environments.iterdir() if one.name.startswith(".")] == []


@CONFINED
def test_it_writes_nowhere_else(
    library: ModelLibrary, environments: Path, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere.txt"
    monkeypatch.setitem(foreign.CONVERTERS, "net", converter(packed, "write", str(elsewhere)))  # type: ignore[arg-type]
    version = library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    with pytest.raises(ModelError, match="Read-only file system"):
        convert_to_foreign(library, version, "net", environments, print)
    assert not elsewhere.exists()


@CONFINED
def test_it_has_no_network(
    library: ModelLibrary, environments: Path, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        monkeypatch.setitem(foreign.CONVERTERS, "net", converter(packed, "connect", port))  # type: ignore[arg-type]
        with pytest.raises(ModelError, match=r"refused|unreachable"):
            convert_to_foreign(library, version, "net", environments, print)


def test_where_bubblewrap_does_not_work_it_is_converted_all_the_same_and_that_is_said(
    library: ModelLibrary, environments: Path, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bubblewrap = tmp_path / "bin" / "bwrap"
    bubblewrap.parent.mkdir()
    bubblewrap.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    bubblewrap.chmod(0o755)
    monkeypatch.setenv("PATH", str(bubblewrap.parent), prepend=os.pathsep)
    monkeypatch.setitem(foreign.CONVERTERS, "net", converter(packed, "well"))  # type: ignore[arg-type]  # a dict
    said: list[str] = []
    version = library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    assert convert_to_foreign(library, version, "net", environments, said.append).format == "net"
    assert any("the network, as bubblewrap does not work here: bwrap: setting up uid map" in one for one in said)


def test_where_there_is_no_bubblewrap_it_is_converted_all_the_same_and_that_is_said(
    library: ModelLibrary, environments: Path, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign.shutil, "which", lambda _: None)
    monkeypatch.setitem(foreign.CONVERTERS, "net", converter(packed, "well"))  # type: ignore[arg-type]  # a dict
    said: list[str] = []
    version = library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    assert convert_to_foreign(library, version, "net", environments, said.append).format == "net"
    assert "it can reach all your files and the network, as bubblewrap is not installed here" in said


@pytest.mark.parametrize(
    ("what", "words"), [("fail", "the operator Foo is not known"), ("nothing", r"left no out\.net")]
)
def test_what_it_says_and_what_it_does_not_leave_is_told(
    what: str,
    words: str,
    library: ModelLibrary,
    environments: Path,
    packed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(foreign.CONVERTERS, "net", converter(packed, what))  # type: ignore[arg-type]
    version = library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    with pytest.raises(ModelError, match=words):
        convert_to_foreign(library, version, "net", environments, print)
    assert library.versions() == [version]
    assert [one.name for one in (tmp_path / "library").iterdir()] == [version.digest], "nothing half made"


def test_one_that_cannot_be_installed_is_named_and_leaves_nothing(
    library: ModelLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Converter("net", "net", ("--no-index", "no-such-converter==1"), lambda *_: [], {})
    monkeypatch.setitem(foreign.CONVERTERS, "net", missing)  # type: ignore[arg-type]
    version = library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    with pytest.raises(EnginebenchError, match=r"no-such-converter==1 cannot be installed .* needs none"):
        convert_to_foreign(library, version, "net", tmp_path / "converters", print)
    assert list((tmp_path / "converters").iterdir()) == []


INSTALLING = """
import sys
from pathlib import Path
from enginebench_controller.models.derive import foreign
foreign._environment(foreign.Converter("net", "net", ("anything",), None, {}), Path(sys.argv[1]), print)
"""


def test_an_installation_ends_with_its_command_and_the_next_one_clears_away_what_it_has_left(tmp_path: Path) -> None:
    folder = tmp_path / "converters"
    with (
        silent_index() as index,
        subprocess.Popen([sys.executable, "-c", INSTALLING, folder], env=os.environ | index.variables) as installing,
        index.asked() as pip,
    ):
        installing.kill()
        wait_for_the_end_of(pip)
    assert [one.name[:7] for one in folder.iterdir()] == [".draft-"]
    missing = Converter("net", "net", ("--no-index", "no-such-converter==1"), lambda *_: [], {})
    with pytest.raises(EnginebenchError, match="cannot be installed"):
        foreign._environment(missing, folder, print)
    assert list(folder.iterdir()) == []


def test_whoever_waits_for_another_installation_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, said = tmp_path / "converters", list[str]()
    lock = FileLock(tmp_path / "converters.lock")
    monkeypatch.setattr(foreign, "_make", lambda _, place: place.mkdir())

    def tell(text: str) -> None:
        said.append(text.partition(" ")[0])
        lock.release()

    with lock:
        foreign._environment(converter(tmp_path), folder, tell)
    assert said == ["waiting", "installing"]


def test_an_environment_has_its_name_once_its_file_system_is_on_the_disk_and_waits_for_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []

    def sync(handle: int) -> int:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        return int(real(handle))

    real, place = foreign._SYNCFS, tmp_path / "net"
    monkeypatch.setattr(foreign, "_install", lambda *_: None)
    monkeypatch.setattr(foreign, "_SYNCFS", sync)
    monkeypatch.setattr(os, "sync", lambda: pytest.fail("it waits for every mount"))
    foreign._make(converter(tmp_path), place)
    assert place.is_dir() and [one.name[:7] for one in synced] == [".draft-"]

    def fail(_: int) -> int:
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(foreign, "_SYNCFS", fail)
    with pytest.raises(OSError, match="Input/output error"):
        foreign._make(converter(tmp_path), tmp_path / "other")
    assert list(tmp_path.iterdir()) == [place]


def test_only_onnx_is_converted_and_only_to_what_an_engine_reads(library: ModelLibrary, tmp_path: Path) -> None:
    version = library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    nobody = ModelLibrary(tmp_path / "library")
    with pytest.raises(ModelError, match=r"tflite has been listed: .* `enginebench devices --target local` list it"):
        convert_to_foreign(nobody, version, "tflite", tmp_path / "converters", print)
    (tmp_path / "a.net").write_text("net")
    with pytest.raises(ModelError, match=r"a is net, and pnnx==.* converts ONNX models"):
        convert_to_foreign(library, library.add(tmp_path / "a.net"), "ncnn", tmp_path / "converters", print)


def test_pnnx_writes_a_net_with_the_names_and_sizes_of_the_model(library: ModelLibrary, tmp_path: Path) -> None:
    version = library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    child = convert_to_foreign(library, version, "ncnn", tmp_path / "converters", print)
    assert [file.name for file in child.files] == ["model.param", "model.bin"]
    lines = [line.split() for line in library.main_path(child).read_text().splitlines()]
    assert lines[2][4:] == ["x", "2=3", "1=4", "0=4"]
    assert lines[-1][4 : 4 + int(lines[-1][2]) + 1][-1] == "y"


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ({"image": (1, 3, 8, 8)}, ["logits"], ["image 2=3 1=8 0=8", "image 1", "1 logits"]),
        ({"a row": (1, 5)}, ["logits"], ["in0 0=5", "in0 1", "1 out0"]),
        ({"1": (1, 5, 6)}, ["logits"], ["in0 1=5 0=6", "in0 1", "1 out0"]),
        ({"x": (1,)}, ["y"], ["x", "x 1", "1 y"]),
    ],
)
def test_blobs_are_named_where_the_names_can_stand_in_the_file(
    inputs: dict[str, tuple[int, ...]], outputs: list[str], expected: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "model.param"
    path.write_text("7767517\n3 3\nInput in0 0 1 in0\nReLU a 1 1 in0 1\nReLU b 1 1 1 out0\n")
    tensors = [InputTensor(name, "float32", shape) for name, shape in inputs.items()]
    foreign._name_blobs(path, tensors, outputs)
    assert [" ".join(line.split()[4:]) for line in path.read_text().splitlines()[2:]] == expected
