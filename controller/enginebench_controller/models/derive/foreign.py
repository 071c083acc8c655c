"""Versions in the formats of other engines, written by converters that live in environments of their own.

What a converter needs may conflict with us and with the engine that it writes for, so nothing of ours is installed
beside it: it is a program that is given files, in a folder that is all it may write to, without a network where
bubblewrap is installed, within bounds of memory and time.
"""

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from filelock import FileLock, Timeout

from enginebench_controller.errors import EnginebenchError, ModelError, UnknownFormatError
from enginebench_controller.memory_limit import limit_memory
from enginebench_controller.models.inputs.binding import bind
from enginebench_controller.models.inputs.shapes import GivenShape
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.models.zoo import PREFIX
from enginebench_controller.records import Derivation, DerivationKind, InputTensor, ModelVersion
from enginebench_proto.agreed.durable import make_private_folder
from enginebench_proto.agreed.words import ModelFormat

TIME_LIMIT_S = 1800.0
_MEMORY_BYTES = 12 * 2**30
_INSTALLING_S = 3600.0
_SAID_CHARS = 400
_NO_WALLS = "it can reach all your files and the network, as bubblewrap"
_DRAFT = ".draft-"
_LIBC = ctypes.CDLL(None, use_errno=True)
_PRCTL = getattr(_LIBC, "prctl", None)
_SYNCFS = getattr(_LIBC, "syncfs", None)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Converter:
    """A program that writes one format from ONNX.

    `engine` is ours that reads it, `requirements` what pip is given to install the program, `command` the arguments of
    its environment's interpreter, run in a folder with the model; `written` are the files that it leaves there, by the
    names that they get.
    """

    format: str
    engine: str
    requirements: tuple[str, ...]
    command: Callable[[Path, Sequence[InputTensor]], list[str]]
    written: Mapping[str, str]
    afterwards: Callable[[Path, Sequence[InputTensor], Sequence[str]], None] = lambda *_: None
    """What is left to do to the main file that it wrote, given the inputs and the names of the outputs."""

    @property
    def name(self) -> str:
        """The program with its version."""
        return self.requirements[-1]


_RUN_PNNX = """
import importlib.util, os, sys
place = os.path.join(importlib.util.find_spec("pnnx").submodule_search_locations[0], "pnnx")
os.execv(place, ["pnnx", *sys.argv[1:]])
"""
"""Its package is a program with a module that imports PyTorch, which an ONNX file does not take."""

_ELEMENTS = {"float32": "f32", "float16": "f16", "float64": "f64", "int32": "i32", "int64": "i64", "bool": "bp"}


def _pnnx(model: Path, inputs: Sequence[InputTensor]) -> list[str]:
    """pnnx's arguments: all sizes fixed, weights in 32 bits."""
    sizes = (f"[{','.join(map(str, one.shape))}]{_ELEMENTS.get(one.dtype, one.dtype)}" for one in inputs)
    named = ("ncnnparam=model.param", "ncnnbin=model.bin", "fp16=0")
    return ["-c", _RUN_PNNX, model.name, f"inputshape={','.join(sizes)}", *named]


_SIZE_KEYS = {1: "0", 2: "10", 3: "210"}
"""By the number of dimensions: ncnn's keys of their sizes, outermost first."""


def _name_blobs(param: Path, inputs: Sequence[InputTensor], outputs: Sequence[str]) -> None:
    """Give inputs and outputs of a .param, which pnnx calls in0 and out0, their names, and the inputs their sizes.

    Where a name cannot stand in a line of words, or is that of another blob, all stay as they are.
    """
    lines = [line.split() for line in param.read_text(encoding="utf-8").splitlines()]
    blobs = [words[4 : 4 + int(words[2]) + int(words[3])] for words in lines[2:]]
    names = {f"in{place}": one.name for place, one in enumerate(inputs)}
    names |= {f"out{place}": name for place, name in enumerate(outputs)}
    others = {blob for each in blobs for blob in each} - names.keys()
    wanted = list(names.values())
    if any(name.split() != [name] for name in wanted) or len({*wanted, *others}) < len(wanted) + len(others):
        names = {}
    sizes = {f"in{place}": one.shape[1:] for place, one in enumerate(inputs)}
    for words, here in zip(lines[2:], blobs, strict=True):
        if words[0] == "Input":
            shape = sizes.get(here[0], ())
            words += [f"{key}={size}" for key, size in zip(_SIZE_KEYS.get(len(shape), ""), shape, strict=False)]
        words[4 : 4 + len(here)] = [names.get(blob, blob) for blob in here]
    param.write_text("\n".join(map(" ".join, lines)) + "\n", encoding="utf-8")


def _onnx2tf(model: Path, inputs: Sequence[InputTensor]) -> list[str]:
    """onnx2tf's arguments: inputs as ONNX has them, and a signature with the names of inputs and outputs."""
    kept = [word for one in inputs for word in ("-kat", one.name)]
    sizes = [f"{one.name}:{','.join(map(str, one.shape))}" for one in inputs]
    return ["-c", _RUN_ONNX2TF, "-i", model.name, "-o", "written", "-osd", "-n", *kept, "-ois", *sizes]


_RUN_ONNX2TF = """
import numpy, runpy
numpy.save("calibration_image_sample_data_20x128x128x3_float32.npy", numpy.zeros((20, 128, 128, 3), numpy.float32))
runpy.run_module("onnx2tf", run_name="__main__", alter_sys=True)
"""
"""It asks for these pictures from the internet, which only quantizing needs, unless they are there."""

CONVERTERS: Mapping[str, Converter] = {
    "ncnn": Converter(
        "ncnn",
        "ncnn",
        ("--no-deps", "pnnx==20261020"),
        _pnnx,
        {"model.param": "model.param", "model.bin": "model.bin"},
        _name_blobs,
    ),
    "tflite": Converter(
        "tflite",
        "litert",
        ("onnx2tf==1.29.24",),
        _onnx2tf,
        {"written/model_float32.tflite": "model.tflite"},
    ),
}
"""By the name of the format."""


def convert_to_foreign(
    library: ModelLibrary,
    version: ModelVersion,
    form: str,
    environments: Path,
    tell: Callable[[str], None],
    shapes: Mapping[str, GivenShape] | None = None,
) -> ModelVersion:
    """The child of an ONNX version in a format of another engine; made once and then found again.

    All sizes are those of batch 1, with `shapes` for open ones. The converter's environment is made in `environments`
    at its first use. Raises `ModelError` with what the converter says, and `EnginebenchError` where it cannot be
    installed.
    """
    converter = CONVERTERS[form]
    if version.format != ModelFormat.ONNX:
        raise ModelError(f"{version.name} is {version.format}, and {converter.name} converts ONNX models")
    if form not in {one.name for one in library.own_formats()}:
        add = f"`enginebench-agent environment add {converter.engine} --engine {converter.engine}`"
        raise UnknownFormatError(
            f"no engine that reads {form} has been listed: {add}, and let `enginebench devices --target local` list it",
            asked=f"no engine that was asked reads {form}: {add} brings one",
        )
    described = library.describe(version)
    inputs = bind(described, 1, shapes).inputs
    sizes = ", ".join(f"{one.name}={'x'.join(map(str, one.shape))}" for one in inputs)
    derivation = Derivation(DerivationKind.TRANSLATED, said=f"{form} by {converter.name}, {sizes}")
    if known := library.derived(version, derivation):
        return known
    python = _environment(converter, environments, tell)
    with library.scratch() as folder:
        source, *beside = library.file_paths(version)
        for path in (source, *beside):
            target = folder / path.relative_to(source.parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        tell(f"converting {version.name} with {converter.name}")
        command = [*_walls(folder, tell), str(python), *converter.command(folder / source.name, inputs)]
        _run(command, folder, version, converter)
        main, *_ = made = [folder / "made" / name for name in converter.written.values()]
        main.parent.mkdir()
        for name, path in zip(converter.written, made, strict=True):
            if not (folder / name).is_file():
                raise ModelError(f"{version.name} cannot be converted: {converter.name} left no {Path(name).name}")
            (folder / name).rename(path)
        converter.afterwards(main, inputs, [one.name for one in described.outputs])
        called = f"{version.name.removeprefix(PREFIX)}-{form}"
        return library.add(main, name=called, parent=version.digest, derivation=derivation)


def _environment(converter: Converter, environments: Path, tell: Callable[[str], None]) -> Path:
    """The interpreter of the converter's environment, which is made whole or not at all, and by one process alone."""
    mark = sha256(" ".join((sys.version, *converter.requirements)).encode()).hexdigest()[:10]
    place = environments / f"{converter.format}-{mark}"
    if not place.exists():
        make_private_folder(environments)
        # Not one without the kernel: that is kept for ever by whoever was killed.
        with _taken(FileLock(environments.with_name(f"{environments.name}.lock"), fallback_to_soft=False), tell):
            for left in environments.glob(f"{_DRAFT}*"):  # by somebody who was killed: whoever lives has the lock
                shutil.rmtree(left, ignore_errors=True)
            if not place.exists():
                tell(f"installing {converter.name} into an environment of its own ({place}); this is done once")
                _make(converter, place)
    return place / "bin" / "python"


def _taken(lock: FileLock, tell: Callable[[str], None]) -> AbstractContextManager[object]:
    try:
        return lock.acquire(blocking=False)
    except Timeout:
        tell("waiting for another command, which is installing a converter")  # for minutes, where it is a large one
        return lock.acquire()


def _make(converter: Converter, place: Path) -> None:
    draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=place.parent))
    try:
        _install([sys.executable, "-P", "-m", "venv", "--copies", str(draft)], converter)
        python = str(draft / "bin" / "python")
        pip = [python, "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _install([*pip, *converter.requirements], converter)
        _sync_file_system(draft)  # else its name may outlive a power cut, and pip's files not
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _sync_file_system(folder: Path) -> None:
    """Bring what was written to the file system of a folder to the disk. Raises `OSError` where that fails."""
    if _SYNCFS is None:  # outside Linux
        os.sync()  # of all others as well: one on a server that is gone keeps it waiting
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        if _SYNCFS(handle) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(handle)


def _install(command: Sequence[str], converter: Converter) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_INSTALLING_S,
            check=False,
            preexec_fn=_end_with_us,  # it calls nothing but prctl
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnginebenchError(f"the converter {converter.name} cannot be installed: {error}") from error
    if done.returncode:
        raise EnginebenchError(
            f"the converter {converter.name} cannot be installed ({_last(done.stderr)}); a file in the format "
            f"{converter.format} that was made elsewhere needs none"
        )


def _run(command: Sequence[str], folder: Path, version: ModelVersion, converter: Converter) -> None:
    """Run a program in `folder`, within bounds. Raises `ModelError`."""
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "CUDA_VISIBLE_DEVICES": ""}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIME_LIMIT_S,
            check=False,
            preexec_fn=_limit,  # it calls nothing but getrlimit and setrlimit
        )
    except subprocess.TimeoutExpired:
        raise ModelError(f"{version.name} was not converted within {TIME_LIMIT_S:.0f} s; it may never be") from None
    if done.returncode:
        said = _last(done.stderr) or _last(done.stdout) or f"it ended with code {done.returncode}"
        raise ModelError(f"{version.name} cannot be converted by {converter.name}: {said}")


def _walls(folder: Path, tell: Callable[[str], None]) -> list[str]:
    """Everything to read, one folder to write to, and no network; nothing where the kernel grants no namespaces."""
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        tell(f"{_NO_WALLS} is not installed here")
        return []
    seen = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", str(folder), str(folder)]
    walls = [bubblewrap, "--unshare-all", "--die-with-parent", "--new-session", *seen, "--chdir", str(folder)]
    tried = subprocess.run([*walls, "true"], capture_output=True, text=True, errors="replace", check=False)
    if tried.returncode:
        tell(f"{_NO_WALLS} does not work here: {_last(tried.stderr)}")
        return []
    return walls


def _limit() -> None:
    limit_memory(resource.RLIMIT_DATA, _MEMORY_BYTES)


def _end_with_us() -> None:
    """Have the kernel end this process with its parent: pip would go on for minutes, for nobody."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "".join(c for c in (lines or [""])[-1] if c.isprintable())[:_SAID_CHARS]
