"""Inputs are seeded, differ within a set, respect types and bounds, and are named by their content."""

import hashlib
import pickle
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enginebench_agent.worker.inputs import digest_inputs, make_inputs
from enginebench_plugins.spec import TensorSpec, UnsupportedSettingsError
from enginebench_proto.v1.configuration_pb2 import (
    InputFile,
    InputItem,
    InputSet,
    InputTensor,
    InputValues,
    IntegerRange,
    NumberRange,
)

IMAGE = TensorSpec("image", "float32", (2, 3, 8, 8))
TOKENS = TensorSpec("tokens", "int64", (2, 16))
SET = InputSet(seed=3, count=4)


def test_the_same_seed_gives_the_same_inputs_and_another_seed_others() -> None:
    digests = [digest_inputs(make_inputs([IMAGE], [], InputSet(seed=seed, count=4))) for seed in (3, 3, 4)]
    assert digests[0] == digests[1] != digests[2]


def test_the_inputs_of_a_set_differ() -> None:
    assert len({tensors["image"].tobytes() for tensors in make_inputs([IMAGE], [], SET)}) == 4


def test_the_order_in_which_an_engine_lists_its_inputs_changes_nothing() -> None:
    there, back = make_inputs([IMAGE, TOKENS], [], SET), make_inputs([TOKENS, IMAGE], [], SET)
    assert digest_inputs(there) == digest_inputs(back)


def test_a_renamed_or_reshaped_input_has_another_digest() -> None:
    values = np.zeros((2, 3), np.float32)
    digests = {
        digest_inputs([{"a": values}]),
        digest_inputs([{"b": values}]),
        digest_inputs([{"a": values.reshape(3, 2)}]),
        digest_inputs([{"a": values.view(np.int32)}]),
    }
    assert len(digests) == 4


def test_floats_are_standard_normal() -> None:
    values = make_inputs([TensorSpec("x", "float32", (100, 100))], [], SET)[0]["x"]
    assert abs(values.mean()) < 0.05
    assert abs(values.std() - 1) < 0.05


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "float32", "float64", "int8", "uint8", "int32", "int64", "uint64", "bool"]
)
@pytest.mark.parametrize("shape", [(2, 3), (1,), ()])
def test_arrays_have_exactly_the_compiled_type_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    values = make_inputs([TensorSpec("x", dtype, shape)], [], SET)[0]["x"]
    assert (values.dtype.name, values.shape, values.flags.c_contiguous) == (dtype, shape, True)


def test_integers_stay_below_their_bound_and_reach_all_values() -> None:
    bound = InputTensor(name="tokens", dtype="int64", shape=[2, 16], integer_bound=5)
    drawn = np.concatenate([tensors["tokens"] for tensors in make_inputs([TOKENS], [bound], SET)])
    assert set(np.unique(drawn)) == {0, 1, 2, 3, 4}


def test_integers_without_a_bound_are_zero_or_one() -> None:
    assert set(np.unique(make_inputs([TOKENS], [], SET)[0]["tokens"])) == {0, 1}


@pytest.mark.parametrize(
    ("tensor", "requested", "sentence"),
    [
        (TensorSpec("s", "str", (1,)), [], "element type str"),
        (TensorSpec("s", "complex64", (1,)), [], "element type complex64"),
        (TensorSpec("s", "float32", (None, 3)), [], "open dimension"),
        (TensorSpec("s", "int8", (1,)), [InputTensor(name="s", shape=[1], integer_bound=300)], "0 up to 300"),
        (TensorSpec("s", "int8", (1,)), [InputTensor(name="s", shape=[1], integer_bound=0)], "0 up to 0"),
        (TensorSpec("s", "int8", (1,)), [InputTensor(name="s", shape=[2])], r"compiled as \(1,\), though \(2,\)"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tensor: TensorSpec, requested: list[InputTensor], sentence: str) -> None:
    with pytest.raises(UnsupportedSettingsError, match=sentence):
        make_inputs([tensor], requested, SET)


def test_what_numpy_has_from_another_package_only_is_refused_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(UnsupportedSettingsError, match="bfloat16, which NumPy has from the package ml_dtypes only"):
        make_inputs([TensorSpec("x", "bfloat16", (1,))], [], SET)


def test_an_empty_input_set_is_refused() -> None:
    with pytest.raises(UnsupportedSettingsError, match="0 inputs"):
        make_inputs([IMAGE], [], InputSet(seed=1))


def store(folder: Path, content: bytes) -> str:
    """Lay a file into the folder as the agent does; returns its digest."""
    digest = hashlib.sha256(content).hexdigest()
    (folder / digest).write_bytes(content)
    return digest


def npy(values: Any) -> bytes:
    stream = BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def given(folder: Path, *items: dict[str, Any]) -> InputSet:
    """An input set of these arrays, or of files of this content."""
    files = [
        InputItem(
            files=[
                InputFile(input=name, sha256=store(folder, each if isinstance(each, bytes) else npy(each)))
                for name, each in item.items()
            ]
        )
        for item in items
    ]
    return InputSet(count=len(items), name="photos", items=files)


IMAGES = [np.random.default_rng(seed).standard_normal((2, 3, 8, 8), np.float32) for seed in (1, 2)]
IDS = np.arange(32, dtype=np.int64).reshape(2, 16)


def test_given_inputs_are_used_as_they_are_and_in_their_order(tmp_path: Path) -> None:
    input_set = given(tmp_path, {"image": IMAGES[0], "tokens": IDS}, {"tokens": IDS + 1, "image": IMAGES[1]})
    made = make_inputs([IMAGE, TOKENS], [], input_set, tmp_path)
    assert [tensors["image"].tobytes() for tensors in made] == [image.tobytes() for image in IMAGES]
    assert [tensors["tokens"][0, 0] for tensors in made] == [0, 1]
    assert digest_inputs(made) == digest_inputs(
        [{"image": IMAGES[0], "tokens": IDS}, {"image": IMAGES[1], "tokens": IDS + 1}]
    )


@pytest.mark.parametrize(
    "stored", [np.asfortranarray(IMAGES[0]), IMAGES[0].astype(">f4")], ids=["column by column", "big-endian"]
)
def test_files_of_any_layout_become_c_contiguous_in_native_order(tmp_path: Path, stored: Any) -> None:
    values = make_inputs([IMAGE], [], given(tmp_path, {"image": stored}), tmp_path)[0]["image"]
    assert values.flags.c_contiguous and values.flags.owndata and values.dtype.isnative
    assert (values == IMAGES[0]).all()


def test_a_single_value_stays_one(tmp_path: Path) -> None:
    values = make_inputs([TensorSpec("x", "float32", ())], [], given(tmp_path, {"x": np.float32(2)}), tmp_path)[0]["x"]
    assert (values.shape, float(values)) == ((), 2.0)


def archive(**arrays: Any) -> bytes:
    stream = BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def claims_much(content: bytes) -> bytes:
    return content.replace(b"(2, 3, 8, 8), }          ", b"(2, 3, 8, 8888888888888)}")


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        ({"image": IMAGES[0][:1]}, r"is float32 \(1, 3, 8, 8\); the model takes float32 \(2, 3, 8, 8\)"),
        ({"image": IMAGES[0].astype(np.float64)}, r"is float64 .*; the model takes float32"),
        ({"picture": IMAGES[0]}, "Input 0 of the set has no file for the model's 'image'"),
        ({"image": IMAGES[0], "mask": IDS}, "has a file for 'mask', which the model does not have; it has image"),
        ({"image": b"\xff\xd8\xff a photograph"}, "is not a .npy file of plain numbers"),
        ({"image": b""}, "is not a .npy file of plain numbers"),
        ({"image": pickle.dumps([1])}, "is not a .npy file of plain numbers"),
        ({"image": npy(np.array([object()]))}, "is not a .npy file of plain numbers"),
        ({"image": npy(IMAGES[0])[:-1]}, "is not a .npy file of plain numbers"),
        ({"image": claims_much(npy(IMAGES[0]))}, "is not a .npy file of plain numbers"),
        ({"image": npy(IMAGES[0]).replace(b"}", b" ")}, "is not a .npy file of plain numbers"),
        ({"image": b"PK\x03\x04junk"}, "is not a .npy file of plain numbers"),
        ({"image": archive(image=IMAGES[0])[:-30]}, "is not a .npy file of plain numbers"),
        ({"image": archive(image=IMAGES[0])}, "is an archive; it takes one .npy file for each input"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path: Path, item: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UnsupportedSettingsError, match=sentence):
        make_inputs([IMAGE], [], given(tmp_path, item), tmp_path)


def test_a_file_that_is_damaged_or_gone_is_refused(tmp_path: Path) -> None:
    input_set = given(tmp_path, {"image": IMAGES[0]})
    path = tmp_path / input_set.items[0].files[0].sha256
    path.write_bytes(npy(IMAGES[1]))
    with pytest.raises(UnsupportedSettingsError, match="for the input 'image' is damaged"):
        make_inputs([IMAGE], [], input_set, tmp_path)
    path.unlink()
    with pytest.raises(UnsupportedSettingsError, match="cannot be read: No such file"):
        make_inputs([IMAGE], [], input_set, tmp_path)


def test_no_digest_becomes_a_path(tmp_path: Path) -> None:
    item = InputItem(files=[InputFile(input="image", sha256="../secret")])
    with pytest.raises(UnsupportedSettingsError, match="is named by no sha256"):
        make_inputs([IMAGE], [], InputSet(count=1, items=[item]), tmp_path)


def test_a_set_of_files_needs_its_folder_and_as_many_inputs_as_it_says(tmp_path: Path) -> None:
    input_set = given(tmp_path, {"image": IMAGES[0]})
    with pytest.raises(UnsupportedSettingsError, match="without a folder"):
        make_inputs([IMAGE], [], input_set)
    input_set.count = 2
    with pytest.raises(UnsupportedSettingsError, match="to hold 2 inputs, but files are named for 1"):
        make_inputs([IMAGE], [], input_set, tmp_path)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("int64", {"integers": {"lowest": 16000, "highest": 16000}}, {16000}),
        ("bool", {"integers": {"lowest": 1, "highest": 1}}, {True}),
        ("uint8", {"integers": {"lowest": 0, "highest": 2}}, {0, 1, 2}),
        ("float16", {"numbers": {"lowest": 0.5, "highest": 0.5}}, {0.5}),
        ("bfloat16", {"numbers": {"lowest": 0.5, "highest": 0.5}}, {0.5}),
    ],
)
def test_an_input_is_filled_with_what_was_said(dtype: str, value: dict[str, Any], expected: set[Any]) -> None:
    said = InputSet(seed=3, count=4, values=[InputValues(input="x", **value)])
    drawn = make_inputs([TensorSpec("x", dtype, (2, 30)), IMAGE], [], said)
    assert {one for tensors in drawn for one in np.unique(tensors["x"])} == expected
    assert drawn[0]["x"].dtype.name == dtype
    others = make_inputs([IMAGE], [], SET)
    assert all((one["image"] == other["image"]).all() for one, other in zip(drawn, others, strict=True))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numbers_of_a_range_lie_in_it_and_differ_within_a_set(dtype: str) -> None:
    values = InputValues(input="x", numbers=NumberRange(lowest=-1, highest=3))
    drawn = make_inputs([TensorSpec("x", dtype, (500,))], [], InputSet(seed=3, count=2, values=[values]))
    assert -1 <= drawn[0]["x"].min() < -0.9 and 2.9 < drawn[0]["x"].max() <= 3
    assert (drawn[0]["x"] != drawn[1]["x"]).any()


def test_values_fill_an_empty_and_a_scalar_input() -> None:
    said = InputSet(
        count=1, values=[InputValues(input=name, integers=IntegerRange(lowest=7, highest=7)) for name in "ab"]
    )
    (made,) = make_inputs([TensorSpec("a", "int64", ()), TensorSpec("b", "int64", (0, 4))], [], said)
    assert (made["a"].item(), made["b"].shape) == (7, (0, 4))


def test_files_and_values_make_one_input_set(tmp_path: Path) -> None:
    content = np.ones((2, 3, 8, 8), np.float32)
    stored = BytesIO()
    np.save(stored, content)
    sha256 = hashlib.sha256(stored.getvalue()).hexdigest()
    (tmp_path / sha256).write_bytes(stored.getvalue())
    item = InputItem(files=[InputFile(input="image", sha256=sha256, size_bytes=len(stored.getvalue()))])
    values = InputValues(input="tokens", integers=IntegerRange(lowest=5, highest=5))
    (made,) = make_inputs([TOKENS, IMAGE], [], InputSet(count=1, items=[item], values=[values]), tmp_path)
    assert list(made) == ["tokens", "image"]
    assert (made["tokens"] == 5).all() and (made["image"] == content).all()


@pytest.mark.parametrize(
    ("name", "dtype", "lowest", "match"),
    [
        ("y", "int64", 1, "does not have"),
        ("x", "int8", 200, "cannot hold"),
        ("x", "float32", 1, "floating-point"),
        ("x", "bfloat16", 1, "floating-point"),
    ],
)
def test_values_that_an_input_cannot_hold_are_refused(name: str, dtype: str, lowest: int, match: str) -> None:
    values = InputValues(input=name, integers=IntegerRange(lowest=lowest, highest=lowest))
    with pytest.raises(UnsupportedSettingsError, match=match):
        make_inputs([TensorSpec("x", dtype, (2,))], [], InputSet(count=1, values=[values]))


@pytest.mark.fault(26)
@pytest.mark.parametrize("shape", [(2**31, 2**31), (2**62, 2), (2**40,) * 8])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_an_input_that_no_memory_holds_is_a_want_of_memory(shape: tuple[int, ...], dtype: str) -> None:
    with pytest.raises(MemoryError):
        make_inputs([TensorSpec("x", dtype, shape)], [], InputSet(seed=1, count=1))
