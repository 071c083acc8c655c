"""Damaged and doctored model files, read as the controller reads a user's: taken as they are, or refused in a line."""

import contextlib
import io
import zipfile
from collections.abc import Callable
from inspect import unwrap
from pathlib import Path

import onnx
import openvino
import pytest
import torch
from hypothesis import strategies as st
from tiny_models import save, tiny_classifier, tiny_embedding

from enginebench_controller.errors import ModelError
from enginebench_controller.graph.analysis import counted_model
from enginebench_controller.graph.flops.parameters import count_weights
from enginebench_controller.models.formats.description import describe
from enginebench_controller.models.formats.files import collect_files
from fuzzing import fuzzed
from mutations import edited_bytes, edited_message

pytestmark = pytest.mark.slow

SECRET = b"planted-Q7hJx2-secret"
ONNX = [tiny_classifier(), tiny_embedding()]


def with_external_weight() -> onnx.ModelProto:
    model = tiny_classifier()
    for tensor in model.graph.initializer[:1]:
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="../secret")
        tensor.external_data.add(key="length", value="432")
    return model


ONNX.append(with_external_weight())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a model lies, with a secret outside."""
    around = tmp_path_factory.mktemp("fuzzed")
    (around / "secret").write_bytes(SECRET * 100)
    (around / "models").mkdir()
    return around / "models"


Reader = Callable[[Path], object]
READERS: tuple[Reader, ...] = (describe, collect_files, counted_model, lambda path: count_weights(path, "onnx"))


def read(path: Path, content: bytes, *readers: Reader) -> None:
    """Every reader must do its work or say why not, in one line that tells nothing of other files."""
    path.write_bytes(content)
    for reader in readers:
        try:
            found = reader(path)
        except ModelError as error:
            assert str(error) and "\n" not in str(error), error
            assert SECRET.decode() not in str(error)
        else:
            assert SECRET.decode() not in repr(found)
    if path.suffix == ".onnx":
        with contextlib.suppress(ModelError):
            assert all(one.path.parent == path.parent for one in collect_files(path)[1])


@fuzzed(
    "model files: ONNX, bytes edited",
    quick=200,
    recorded=6_000,
    content=edited_bytes([model.SerializeToString() for model in ONNX]),
)
def test_a_damaged_onnx_file_is_read_or_refused(folder: Path, content: bytes) -> None:
    read(folder / "model.onnx", content, *READERS)


@fuzzed(
    "model files: ONNX, fields edited",
    quick=200,
    recorded=5_000,
    model=st.sampled_from(ONNX).flatmap(edited_message),
)
def test_a_doctored_onnx_file_is_read_or_refused(folder: Path, model: onnx.ModelProto) -> None:
    read(folder / "model.onnx", model.SerializeToString(), *READERS)


@pytest.fixture(scope="module")
def ir(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """The .xml and the .bin of a small network."""
    path = tmp_path_factory.mktemp("ir") / "m"
    model = openvino.convert_model(save(tiny_embedding(), path.with_suffix(".onnx")))
    openvino.save_model(model, path.with_suffix(".xml"))
    return path.with_suffix(".xml").read_bytes(), path.with_suffix(".bin").read_bytes()


HOSTILE_XML = (
    b'<!DOCTYPE net [<!ENTITY s SYSTEM "../secret">]>', b'<?xml version="1.0" encoding="klingon"?>', b"<net>" * 50,
    b'offset="99999999999999999999999"', b'offset="-1"', b'shape="1,99999999999999999999"', b'element_type="\xc3\xa9"',
    b"&s;", b"<![CDATA[", b'id="0"', b'size="x"', b'<dim>1e9</dim>', b"<dim/>", b'to-layer="0"', b"</layer>",
)  # fmt: skip


@fuzzed("model files: OpenVINO IR", quick=200, recorded=6_000, data=st.data())
def test_a_damaged_ir_is_read_or_refused(folder: Path, ir: tuple[bytes, bytes], data: st.DataObject) -> None:
    (folder / "model.bin").write_bytes(ir[1][: data.draw(st.sampled_from((None, 0, 7)))])
    content = data.draw(edited_bytes([ir[0]]))
    for piece in data.draw(st.lists(st.sampled_from(HOSTILE_XML), max_size=2)):
        place = content.find(b" ", data.draw(st.integers(0, len(content))))
        content = content[: place + 1] + piece + content[place + 1 :]
    read(folder / "model.xml", content, describe, collect_files)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """A saved TorchScript program and an exported one."""
    folder, module, example = tmp_path_factory.mktemp("programs"), torch.nn.Linear(2, 2), torch.ones(1, 2)
    torch.jit.trace(module, example).save(folder / "m.pt")
    torch.export.save(torch.export.export(module, (example,)), folder / "m.pt2")
    return [(folder / name).read_bytes() for name in ("m.pt", "m.pt2")]


@fuzzed("model files: TorchScript and .pt2", quick=100, recorded=5_000, data=st.data())
def test_a_damaged_program_is_recognized_or_refused(folder: Path, programs: list[bytes], data: st.DataObject) -> None:
    content = data.draw(edited_bytes([program[-3_000:] for program in programs] + programs))
    for suffix in (".pt", ".pt2"):
        read(folder / f"model{suffix}", content, describe, collect_files)


@pytest.mark.fault(10)
@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused(folder: Path, suffix: str) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/constants.pkl", bytes(50_000_000))
        archive.writestr("m/model.json", "{}")
    path = folder / f"bomb{suffix}"
    path.write_bytes(bomb.getvalue())
    with pytest.raises(ModelError, match="unpacks to 2 files of 50000002 bytes"):
        describe(path)


@pytest.mark.fault(10)
def test_an_archive_of_countless_files_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enginebench_controller.models.formats.description._MAX_ENTRIES", 1)
    path = folder / "many.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/model.json", "{}")
        archive.writestr("m/second", "{}")
    with pytest.raises(ModelError, match="unpacks to 2 files"):
        unwrap(describe)(path)  # in this very process, which has the bound of this test
