"""A saved program that runs code when it is loaded: whatever a user does with it without vouching for it, it is not."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from enginebench_controller.errors import ModelError
from enginebench_controller.graph.analysis import counted_model
from enginebench_controller.graph.flops.saved_programs import count_program
from enginebench_controller.models.derive.convert import convert_to_ir
from enginebench_controller.models.formats.description import describe
from enginebench_controller.models.inputs.shapes import GivenShape
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.records import InputTensor


def pickled(sentinel: Path) -> bytes:
    """A pickle that makes the file `sentinel` when it is loaded."""
    return b"cposix\nsystem\n(S'touch " + str(sentinel).encode() + b"'\ntR."


def poisoned(folder: Path, sentinel: Path) -> Path:
    """An exported program whose every pickle makes the sentinel."""
    sound, path = folder / "sound.pt2", folder / "poisoned.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)), sound)
    with zipfile.ZipFile(sound) as archive, zipfile.ZipFile(path, "w") as copy:
        for entry in archive.infolist():
            content = archive.read(entry)
            is_pickle = content[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04") or content[:4] == b"PK\x03\x04"
            copy.writestr(entry.filename, pickled(sentinel) if is_pickle else content)
        copy.writestr(archive.namelist()[0].partition("/")[0] + "/extra.pkl", pickled(sentinel))
    return path


@pytest.fixture
def sentinel(tmp_path: Path) -> Path:
    return tmp_path / "sentinel"


@pytest.fixture
def program(tmp_path: Path, sentinel: Path) -> Path:
    return poisoned(tmp_path, sentinel)


@pytest.mark.slow
@pytest.mark.fault(10)
def test_a_poisoned_program_is_described_and_kept_and_never_loaded(
    library: ModelLibrary, program: Path, sentinel: Path
) -> None:
    assert not describe(program).inputs_known
    version = library.add(program)
    assert library.weights(version) is None
    assert library.resolve("poisoned") == version
    with pytest.raises(ModelError, match="is no ONNX file"):
        counted_model(program)
    with pytest.raises(ModelError, match="give --trust"):
        count_program(program, "torch_export", [InputTensor("x", "float32", (1, 2))], trusted=False)
    with pytest.raises(ModelError, match="give --trust"):
        convert_to_ir(library, version, {"x": GivenShape((1, 2))})
    assert not sentinel.exists()


@pytest.mark.slow
@pytest.mark.fault(10)
def test_the_poison_works(program: Path, sentinel: Path) -> None:
    """Otherwise the test above would show nothing."""
    load = f"import torch; torch.export.load({str(program)!r})"
    subprocess.run([sys.executable, "-c", load], capture_output=True, check=False, timeout=120)
    assert sentinel.exists()


@pytest.mark.fault(10)
def test_a_pickle_by_any_name_is_refused_unread(library: ModelLibrary, tmp_path: Path, sentinel: Path) -> None:
    for suffix in (".pt", ".pt2", ".ts", ".torchscript", ".onnx", ".xml", ".pkl", ".pth", ".bin"):
        path = tmp_path / f"m{suffix}"
        path.write_bytes(pickled(sentinel))
        path.with_suffix(".bin").write_bytes(pickled(sentinel))
        with pytest.raises(ModelError):
            library.add(path)
    assert not sentinel.exists()
