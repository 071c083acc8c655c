"""A folder becomes an input set: what the files hold is what the engine gets, and what does not fit is told by name."""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from enginebench_controller.errors import InputError
from enginebench_controller.models.inputs import arrays
from enginebench_controller.models.inputs.arrays import ImageOptions
from enginebench_controller.models.inputs.input_set import MAX_INPUTS, prepare
from enginebench_controller.records import InputSet, InputTensor

VECTOR = InputTensor("x", "float32", (2, 3))
PICTURE = InputTensor("image", "float32", (1, 3, 4, 6))


class Prepared:
    """A prepared set with its tensors read back, by position and input."""

    def __init__(self, folder: Path, *inputs: InputTensor, **options: Any) -> None:
        found: tuple[InputSet, Mapping[str, Path]]
        found = prepare(folder, inputs, ImageOptions(**options), folder.parent / "store")
        self.set, self.paths = found
        self.tensors = [
            {file.input: np.load(self.paths[file.sha256], allow_pickle=False) for file in item}
            for item in self.set.items
        ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "holidays"
    path.mkdir()
    return path


def rows(count: int, start: int = 0) -> np.ndarray:
    return np.arange(start * 3, (start + count) * 3, dtype=np.float32).reshape(count, 3)


def refusal(folder: Path, *inputs: InputTensor, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        Prepared(folder, *inputs, **options)
    return str(caught.value)


def test_single_samples_are_stacked_to_the_batch_in_the_order_of_their_names(folder: Path) -> None:
    np.save(folder / "b.npy", rows(1, 1))
    np.save(folder / "a.npy", rows(1, 0)[0])
    np.save(folder / "c.npy", rows(1, 2))
    prepared = Prepared(folder, VECTOR)
    assert [one["x"].tolist() for one in prepared.tensors] == [rows(2).tolist(), [[6, 7, 8], [0, 1, 2]]]
    assert (prepared.set.name, prepared.set.count) == ("holidays", 2)
    assert prepared.set.preparation == "3 samples as 2 inputs of batch 2, starting over to fill the last"


def test_whole_batches_stay_as_they_are(folder: Path) -> None:
    np.save(folder / "first.npy", rows(2))
    np.save(folder / "second.npy", np.asfortranarray(rows(2, 2)).astype(">f4"))
    tensors = Prepared(folder, VECTOR).tensors
    assert [one["x"].tolist() for one in tensors] == [rows(2).tolist(), rows(2, 2).tolist()]
    assert all(one["x"].flags.c_contiguous and one["x"].dtype == np.dtype("<f4") for one in tensors)


def test_a_file_may_hold_many_samples_of_which_at_most_64_inputs_are_made(folder: Path) -> None:
    np.save(folder / "all.npy", rows(200))
    prepared = Prepared(folder, VECTOR)
    assert prepared.set.count == MAX_INPUTS == 64
    assert prepared.tensors[-1]["x"].tolist() == rows(2, 126).tolist()
    assert prepared.set.preparation == "the first 128 of 200 samples as 64 inputs of batch 2"


def test_files_are_named_by_their_digest_and_sized(folder: Path) -> None:
    np.save(folder / "a.npy", rows(2))
    prepared = Prepared(folder, VECTOR)
    ((file,),) = prepared.set.items
    content = prepared.paths[file.sha256].read_bytes()
    assert (hashlib.sha256(content).hexdigest(), len(content)) == (file.sha256, file.size_bytes)


def test_equal_content_has_equal_digests_however_it_came(folder: Path, tmp_path: Path) -> None:
    np.save(folder / "a.npy", rows(2))
    (tmp_path / "other").mkdir()
    np.savez_compressed(tmp_path / "other" / "z.npz", x=rows(2))
    first, second = Prepared(folder, VECTOR), Prepared(tmp_path / "other", VECTOR)
    assert first.set.items == second.set.items


def test_several_inputs_come_as_a_file_each_or_as_one_npz(folder: Path) -> None:
    ids = InputTensor("in/ids", "int64", (1, 4), integer_bound=10)
    np.save(folder / "one.x.npy", rows(1))
    np.save(folder / "one.in_ids.npy", np.arange(4))
    np.savez(folder / "two.npz", **{"x": rows(1, 1), "in/ids": np.arange(4)[np.newaxis] + 1})
    x = InputTensor("x", "float32", (1, 3))
    tensors = Prepared(folder, x, ids).tensors
    assert [one["in/ids"].tolist() for one in tensors] == [[[0, 1, 2, 3]], [[1, 2, 3, 4]]]
    assert [one["x"].tolist() for one in tensors] == [[[0, 1, 2]], [[3, 4, 5]]]


def test_inputs_without_a_shared_batch_come_exactly_as_they_are(folder: Path) -> None:
    size = InputTensor("size", "int64", (2,))
    np.savez(folder / "one.npz", x=rows(3), size=np.array([4, 5]))
    tensors = Prepared(folder, InputTensor("x", "float32", (3, 3)), size).tensors
    assert (tensors[0]["x"].tolist(), tensors[0]["size"].tolist()) == (rows(3).tolist(), [4, 5])


def gradient(path: Path, size: tuple[int, int] = (6, 4)) -> np.ndarray:
    pixels = np.arange(size[0] * size[1] * 3, dtype=np.uint8).reshape(size[1], size[0], 3)
    Image.fromarray(pixels).save(path)
    return pixels


def test_images_are_scaled_and_laid_out_as_the_model_takes_them(folder: Path) -> None:
    pixels = gradient(folder / "a.png")
    prepared = Prepared(folder, PICTURE)
    np.testing.assert_allclose(prepared.tensors[0]["image"][0], pixels.transpose(2, 0, 1) / 255, rtol=1e-6)
    assert "RGB images upright, stretched to 6×4" in prepared.set.preparation
    assert "laid out nchw, pixels × 0.00392157, as float32" in prepared.set.preparation


def test_mean_and_standard_deviation_are_of_each_channel(folder: Path) -> None:
    pixels = gradient(folder / "a.png")
    prepared = Prepared(folder, PICTURE, scale=1.0, mean=(1.0, 2.0, 3.0), std=(2.0,))
    expected = (pixels.astype(float) - [1, 2, 3]) / 2
    np.testing.assert_allclose(prepared.tensors[0]["image"][0], expected.transpose(2, 0, 1), rtol=1e-6)
    assert "− (1, 2, 3), ÷ 2" in prepared.set.preparation


def test_a_model_that_takes_bytes_gets_the_pixels(folder: Path) -> None:
    pixels = gradient(folder / "a.png")
    nhwc = InputTensor("image", "uint8", (1, 4, 6, 3))
    assert Prepared(folder, nhwc).tensors[0]["image"][0].tolist() == pixels.tolist()
    assert "which uint8 cannot hold" in refusal(folder, nhwc, mean=(100.0,))


def test_cropping_keeps_the_aspect_ratio_and_the_centre(folder: Path) -> None:
    pixels = np.zeros((4, 12, 3), np.uint8)
    pixels[:, 3:9] = 255  # the middle half
    Image.fromarray(pixels).save(folder / "wide.png")
    assert Prepared(folder, PICTURE, resize="crop").tensors[0]["image"].min() == pytest.approx(1)
    assert Prepared(folder, PICTURE, resize="stretch").tensors[0]["image"].min() == pytest.approx(0)


def test_grey_models_get_grey_images(folder: Path) -> None:
    gradient(folder / "a.jpg")
    assert Prepared(folder, InputTensor("image", "float32", (1, 1, 8, 8))).tensors[0]["image"].shape == (1, 1, 8, 8)


def test_the_layout_is_asked_for_where_the_shape_does_not_tell(folder: Path) -> None:
    gradient(folder / "a.png")
    unclear = InputTensor("image", "float32", (1, 3, 8, 3))
    assert "give the layout, nchw or nhwc" in refusal(folder, unclear)
    assert Prepared(folder, unclear, layout="nchw").tensors[0]["image"].shape == (1, 3, 8, 3)
    assert "has 8 in the layout nhwc" in refusal(folder, InputTensor("i", "float32", (1, 3, 4, 8)), layout="nhwc")
    assert "needs four dimensions" in refusal(folder, VECTOR)


def test_what_does_not_fit_is_told_with_the_file_and_what_was_expected(folder: Path) -> None:
    np.save(folder / "a.npy", np.zeros((2, 4), np.float32))
    text = refusal(folder, VECTOR)
    assert "a.npy has the shape (2, 4)" in text and "takes (3,) for one sample, or (N, 3) for N" in text
    np.save(folder / "a.npy", np.zeros((2, 3)))
    text = refusal(folder, VECTOR)
    assert "a.npy has elements of type float64" in text and ".astype('float32')" in text


def test_an_empty_folder_and_none_at_all_are_refused(folder: Path) -> None:
    (folder / "notes.txt").write_text("nothing")
    assert "holds no inputs: put .npy, .npz, .png or .jpg files there" in refusal(folder, VECTOR)
    assert "cannot read the folder of inputs" in refusal(folder / "absent", VECTOR)
    assert "Not a directory; put the file into a folder" in refusal(folder / "notes.txt", VECTOR)


def test_other_files_are_passed_over_and_that_is_said(folder: Path) -> None:
    np.save(folder / "a.npy", rows(2))
    (folder / "notes.txt").write_text("nothing")
    assert Prepared(folder, VECTOR).set.preparation.endswith("1 other files passed over")


@pytest.mark.fault(10)
def test_pickles_are_not_read(folder: Path) -> None:
    np.save(folder / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "pickled Python objects, which can run code and are not read" in refusal(folder, VECTOR)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"no array at all"])
def test_damaged_files_are_refused_with_their_name(folder: Path, content: bytes) -> None:
    (folder / "a.npy").write_bytes(content)
    assert "a.npy is not a whole .npy or .npz file" in refusal(folder, VECTOR)
    (folder / "a.npy").rename(folder / "a.npz")
    assert "a.npz is not a whole .npy or .npz file" in refusal(folder, VECTOR)
    (folder / "a.npz").rename(folder / "a.png")
    assert "a.png is not a PNG or JPEG image" in refusal(folder, PICTURE)


def test_cut_off_files_are_refused(folder: Path) -> None:
    np.save(folder / "a.npy", rows(2))
    (folder / "a.npy").write_bytes((folder / "a.npy").read_bytes()[:-4])
    assert "a.npy is cut off" in refusal(folder, VECTOR)
    (folder / "a.npy").unlink()
    gradient(folder / "b.png", (60, 40))
    (folder / "b.png").write_bytes((folder / "b.png").read_bytes()[:-40])
    assert "b.png is not a whole image" in refusal(folder, PICTURE)


@pytest.mark.fault(10)
def test_a_bomb_is_refused_by_its_header_before_it_is_unpacked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MAX_BYTES", 1_000_000)
    content = io.BytesIO()
    np.lib.format.write_array(content, np.zeros((1_000_000, 3), np.float32))
    with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content.getvalue())
    assert (folder / "a.npz").stat().st_size < 20_000
    assert "comes to 12000000 bytes; at most 1000000 are read" in refusal(folder, VECTOR)


def test_an_image_with_too_many_pixels_is_refused(folder: Path) -> None:
    Image.new("1", (10_000, 8_500)).save(folder / "a.png")
    assert "10000 × 8500 pixels" in refusal(folder, PICTURE)


def test_indices_outside_of_the_models_table_are_refused(folder: Path) -> None:
    np.save(folder / "a.npy", np.full((2, 3), 50))
    ids = InputTensor("ids", "int64", (2, 3), integer_bound=50)
    assert "the table that input 'ids' selects from has 50 rows" in refusal(folder, ids)


@pytest.mark.parametrize(("index", "fits"), [(-51, False), (-50, True), (-1, True), (49, True), (50, False)])
def test_indices_count_from_either_end_of_the_models_table(folder: Path, index: int, fits: bool) -> None:
    np.save(folder / "a.npy", np.array([[0, 1, index]]))
    ids = InputTensor("ids", "int64", (1, 3), integer_bound=50)
    if fits:
        assert Prepared(folder, ids).tensors[0]["ids"].tolist() == [[0, 1, index]]
    else:
        assert f"a.npy holds {index}, and the table that input 'ids' selects from has 50 rows" in refusal(folder, ids)


def test_a_file_must_say_which_of_several_inputs_it_is(folder: Path) -> None:
    y = InputTensor("y", "float32", (2, 3))
    np.save(folder / "one.npy", rows(2))
    assert "call the files NAME.x.npy and NAME.y.npy" in refusal(folder, VECTOR, y)
    (folder / "one.npy").rename(folder / "one.x.npy")
    assert "has no file for input 'y': add one.y.npy" in refusal(folder, VECTOR, y)
    np.save(folder / "one.y.npy", rows(1))
    assert "differ in samples: 2 of 'x', 1 of 'y'" in refusal(folder, VECTOR, y)
    np.savez(folder / "one.npz", x=rows(2), y=rows(2))
    assert "are both input 'x' of 'one'; keep one" in refusal(folder, VECTOR, y)


def test_an_npz_must_hold_the_models_input(folder: Path) -> None:
    np.savez(folder / "a.npz", left=rows(2), right=rows(2))
    assert "holds no array 'x', the name of the model's input; it holds 'left', 'right'" in refusal(folder, VECTOR)


def test_samples_are_stacked_along_the_batch_wherever_it_is(folder: Path) -> None:
    tensor = InputTensor("x", "float32", (7, 2, 3), None, 1)
    one, several = rows(7), rows(21).reshape(7, 3, 3)
    np.save(folder / "a.npy", one)
    np.save(folder / "b.npy", several)
    prepared, paths = prepare(folder, [tensor], ImageOptions(), folder / "out")
    first, second = (np.load(paths[files[0].sha256]) for files in prepared.items)
    assert first.shape == second.shape == (7, 2, 3)
    assert (first[:, 0] == one).all() and (first[:, 1] == several[:, 0]).all() and (second[:, 1] == several[:, 2]).all()
    np.save(folder / "a.npy", rows(4))
    assert "takes (7, 3) for one sample, or (7, N, 3) for N" in refusal(folder, tensor)
