"""Damaged and doctored files of inputs: made into inputs, or refused in a sentence, within bounds of memory."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from PIL import Image

from enginebench_controller.errors import InputError
from enginebench_controller.models.inputs.arrays import ImageOptions, open_array
from enginebench_controller.models.inputs.input_set import prepare
from enginebench_controller.records import InputTensor
from fuzzing import fuzzed
from mutations import edited_bytes

TENSOR = InputTensor("x", "float32", (1, 3, 4, 4))


def npy(values: object) -> bytes:
    content = io.BytesIO()
    np.save(content, np.asarray(values), allow_pickle=False)
    return content.getvalue()


def npz(values: object) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, x=values)
    return content.getvalue()


def image(form: str) -> bytes:
    content = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(content, form, exif=exif)
    return content.getvalue()


ARRAY = np.zeros((2, 3, 4, 4), np.float32)
SOUND = {".npy": npy(ARRAY), ".npz": npz(ARRAY), ".png": image("PNG"), ".jpg": image("JPEG")}
HEADERS = (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4, 4), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 3, 4, 4), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 3, 4, 4), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (2, 3, 4, 4), }",
    "{'descr': [('a', '<f4')], 'fortran_order': True, 'shape': (2, 3, 4, 4), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3, 4, 4), }",
    "{'descr': '<U999999999', 'fortran_order': False, 'shape': (True, 3, 4, 4), }",
    "((((" * 60,
    "{'descr': '<f4', 'shape': (2, 3, 4, 4), 'fortran_order': __import__('os'), }",
)


def headed(header: str) -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(384)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of inputs, and one where they are stored."""
    return tmp_path_factory.mktemp("inputs"), tmp_path_factory.mktemp("stored")


@pytest.mark.slow
@fuzzed(
    "input files: .npy, .npz, .png, .jpg",
    quick=300,
    recorded=6_000,
    suffix=st.sampled_from(sorted(SOUND)),
    data=st.data(),
)
def test_a_damaged_file_of_inputs_is_used_or_refused(
    places: tuple[Path, Path], suffix: str, data: st.DataObject
) -> None:
    originals = [SOUND[suffix], *(map(headed, HEADERS) if suffix == ".npy" else ())]
    path = places[0] / f"sample{suffix}"
    path.write_bytes(data.draw(edited_bytes(originals) | st.sampled_from(originals)))
    try:
        prepare(places[0], [TENSOR], ImageOptions(), places[1])
    except InputError as error:
        assert "sample" in str(error) and "\n" not in str(error)
    finally:
        path.unlink()


@pytest.mark.parametrize("header", HEADERS[1:])
def test_a_header_that_lies_is_refused_before_anything_is_read(tmp_path: Path, header: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(headed(header))
    with pytest.raises(InputError, match=r"x\.npy"):
        array = open_array(path)
        assert array.shape == (2, 3, 4, 4)
        raise InputError("x.npy is sound")


@pytest.mark.fault(10)
def test_an_array_of_negative_size_does_not_unpack_a_bomb(tmp_path: Path) -> None:
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 16), }"
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", headed(header) + bytes(10_000_000))
    with pytest.raises(InputError, match="impossible shape"):
        open_array(tmp_path / "x.npz", "x")
