"""The model library: every version in a folder named by its digest, written whole or not at all; children, too.

ROOT/<digest>/version.json      what the version is and where it comes from
ROOT/<digest>/weights.json      how many parameters it has and how many of them are zero, where that can be counted
ROOT/<digest>/files/…           its files, under the names the main file refers to
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from difflib import get_close_matches
from errno import EEXIST, ENOSPC, ENOTEMPTY
from pathlib import Path
from typing import IO, NoReturn

import onnx
from google.protobuf.message import DecodeError, EncodeError

from enginebench_controller.errors import ModelError, StoreError, UnknownModelError
from enginebench_controller.models.formats.description import describe_as, missing_file
from enginebench_controller.models.formats.files import SourceFile, collect_files, hash_file
from enginebench_controller.models.formats.signature import ModelDescription
from enginebench_controller.models.formats.skeleton import refuse_endless
from enginebench_controller.models.zoo import PREFIX, build_bytes, zoo_model
from enginebench_controller.records import Derivation, FileFormat, ModelFile, ModelVersion
from enginebench_controller.records.fields import DERIVATION
from enginebench_controller.records.model import WeightCount
from enginebench_controller.typed_paths import is_file, leads_nowhere, why_no_text
from enginebench_controller.typed_values import plainly
from enginebench_proto.agreed.durable import make_private_folder
from enginebench_proto.agreed.names import as_name, is_sha256, version_digest
from enginebench_proto.agreed.words import SUFFIXES, ModelFormat

_CHUNK_BYTES = 1024 * 1024
_RECORD = "version.json"
_WEIGHTS = "weights.json"
_SCRATCH = ".incoming-"
_HELD = ".held"
_SCHEMA_VERSION = 3
"""3: a calibration by its parts; 2: a derivation by its parts; 1 had the sentence alone."""
_DIGEST_PREFIX = re.compile(r"[0-9a-f]{6,64}")
_NAME = re.compile(r"[^\s/\\][^\r\n\t/\\]{0,199}")

INT8_PREFIX = "int8:"
"""Stands before a model where its INT8 version is meant: see `derive.quantize.int8_version`."""


CountWeights = Callable[[Path, str], WeightCount | None]
"""Counts the weights of a model's main file, given its format; None where the format shows none."""


class ModelLibrary:
    """The model versions under `root`. Nothing is created before the first version is added."""

    def __init__(
        self,
        root: Path,
        count_weights: CountWeights | None = None,
        own_formats: Callable[[], Sequence[FileFormat]] = tuple,
    ) -> None:
        """`count_weights` looks into each file that is added; without it nothing is known of weights.

        `own_formats` tells those that plugins bring; it is only asked for a file that is in none of ours.
        """
        self._root = root
        self._count_weights = count_weights
        self.own_formats = own_formats

    def add(
        self, path: Path, name: str | None = None, parent: str | None = None, derivation: Derivation | None = None
    ) -> ModelVersion:
        """Copy the model at `path`, with the files it refers to, and return its version.

        Content the library already holds is not copied again, but for files that are gone there; a `name` given then
        becomes the version's name.
        `parent` (a digest) and `derivation` tell how the model was made from another one. What is made so and is here
        already keeps its name and record: commands know it by them. Raises `ModelError` for a model that cannot be
        taken in or is its own parent, and `StoreError` when the library cannot be written.
        """
        name = _checked_name(name)
        kind, sources, files = self._collected(path)
        digest = _digest(files)
        if digest == parent:
            raise ModelError(f"nothing changed: what was made is the model version {digest[:12]} itself, byte by byte")
        known = self._find_whole(digest)
        if known is None:
            # A file may be called by any bytes, and what it is called goes into documents and the store.
            version = ModelVersion(
                digest,
                name or as_name(os.fsencode(path.stem).decode(errors="replace")),
                kind,
                files,
                time.time_ns(),
                parent,
                derivation,
            )
            self._write(version, sources)
            known = self._read(digest)
        return self._renamed(known, name) if name and parent is None and name != known.name else known

    def digest_of(self, path: Path) -> str:
        """The digest that the model at `path` has, or would have, here. Raises `ModelError` where it is none."""
        return _digest(self._collected(path)[-1])

    def resolve(self, text: str) -> ModelVersion:
        """The version meant by a "zoo:NAME", a file (added if need be), a name or a digest's start.

        Raises `UnknownModelError` with the nearest name when nothing fits, or with the digests where several do, and
        `InputError` for a name that no file can have.
        """
        if text.startswith(PREFIX):
            return self._from_zoo(text)
        if is_file(text):
            if reason := why_no_text(text):
                raise ModelError(f"{text!r} {reason}")
            return self.add(Path(text))
        if os.sep in text or Path(text).is_symlink() or Path(text).suffix.lower() in SUFFIXES:
            raise missing_file(Path(text))
        return self._by_name(text) or self._by_digest(text) or self._refuse(text)

    def suffixes(self) -> list[str]:
        """How the names of model files end, as far as is known."""
        own = (suffix for one in self.own_formats() for suffix in one.suffixes)
        return list(dict.fromkeys([*SUFFIXES, *own]))

    def describe(self, version: ModelVersion) -> ModelDescription:
        """What the version asks for. Raises `ModelError` for files that are damaged."""
        return describe_as(self.main_path(version), version.format)

    def versions(self) -> list[ModelVersion]:
        """All versions, newest first. Raises `StoreError` for a damaged record."""
        folders = [entry for entry in self._entries() if is_sha256(entry.name)]
        found = [self._read(folder.name) for folder in folders]
        return sorted(found, key=lambda version: (-version.created_at_unix_ns, version.digest))

    def weights(self, version: ModelVersion) -> WeightCount | None:
        """What was counted in the version's weights as it was added; None where nothing was."""
        try:
            counted = json.loads((self._folder(version.digest) / _WEIGHTS).read_text(encoding="utf-8"))
            return WeightCount(**counted)
        except (OSError, ValueError, TypeError):
            return None

    def generation(self) -> str:
        """Return a value that differs after every change of the library: what was read under an equal one still holds.

        Costs a look at each version's folder, and reads no file.
        """
        folders = [entry for entry in self._entries() if is_sha256(entry.name)]
        try:
            return "/".join(f"{folder.name[:12]}.{folder.stat().st_mtime_ns}" for folder in folders)
        except OSError:  # one was removed meanwhile
            return f"changing.{time.time_ns()}"

    def derived(self, parent: ModelVersion, derivation: Derivation) -> ModelVersion | None:
        """The version that was made from `parent` in this way, if there is one with all its files."""
        made = (parent.digest, derivation)
        found = (one for one in self.versions() if (one.parent_digest, one.derivation) == made)
        return next(filter(self.is_whole, found), None)

    def file_paths(self, version: ModelVersion) -> list[Path]:
        """Where the version's files lie, in the order of `version.files`; the main one is first."""
        return [self._folder(version.digest) / "files" / file.name for file in version.files]

    def main_path(self, version: ModelVersion) -> Path:
        """Where the version's main file lies."""
        return self.file_paths(version)[0]

    def remove(self, version: ModelVersion) -> None:
        """Delete the version's files. Versions made from it stay. Raises `ModelError` when it is not there."""
        if self._find(version.digest) is None:
            raise ModelError(f"the library holds no version {version.digest[:12]}; see `enginebench models list`")
        with self._writing("remove a model from"):
            grave = Path(tempfile.mkdtemp(prefix=".removed-", dir=self._root))
            self._folder(version.digest).rename(grave / "version")
            shutil.rmtree(grave)

    def _from_zoo(self, text: str) -> ModelVersion:
        model = zoo_model(text)
        known = self._find_whole(model.digest)
        if known is not None:
            return known
        with self.scratch() as folder:
            path = folder / "model.onnx"
            with self._writing("build a model in"):
                path.write_bytes(build_bytes(model))
            sources = (SourceFile(path.name, path),)
            files = (hash_file(sources[0]),)
            version = ModelVersion(model.digest, PREFIX + model.name, "onnx", files, time.time_ns())
            self._write(version, sources)
        return self._read(model.digest)

    def _by_name(self, text: str) -> ModelVersion | None:
        named = as_name(text)
        found = [version for version in self.versions() if as_name(version.name) == named]
        if len(found) > 1:
            short = _short_digests([version.digest for version in found])
            listed = "\n".join(
                f"  - {short[one.digest]}: {one.format}, {one.derivation or f'added {_day(one)}'}" for one in found
            )
            raise UnknownModelError(f"{len(found)} model versions are called {text!r}; say which by its digest", listed)
        return found[0] if found else None

    def _by_digest(self, text: str) -> ModelVersion | None:
        if not _DIGEST_PREFIX.fullmatch(text.lower()):
            return None
        found = [version for version in self.versions() if version.digest.startswith(text.lower())]
        if len(found) > 1:
            raise UnknownModelError(f"{len(found)} model versions start with {text}: give more digits")
        return found[0] if found else None

    def _refuse(self, text: str) -> NoReturn:
        if Path(text).is_dir() or Path(text).suffix.lower() in self.suffixes():
            raise missing_file(Path(text))
        names = sorted({version.name for version in self.versions()})
        near = get_close_matches(text, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "`enginebench models list` shows what there is"
        raise UnknownModelError(f"no model is called {text!r}, and there is no such file; {hint}")

    def _entries(self) -> list[Path]:
        try:
            return sorted(self._root.iterdir())
        except FileNotFoundError:
            if lost := leads_nowhere(self._root):
                raise StoreError(f"cannot read the model library {self._root}: {lost}") from None
            return []
        except OSError as error:
            raise StoreError(f"cannot read the model library {self._root}: {error.strerror}") from error

    def _folder(self, digest: str) -> Path:
        return self._root / digest

    def _find(self, digest: str) -> ModelVersion | None:
        return self._read(digest) if self._folder(digest).is_dir() else None

    def _find_whole(self, digest: str) -> ModelVersion | None:
        known = self._find(digest)
        return known if known is not None and self.is_whole(known) else None

    def _collected(self, path: Path) -> tuple[str, tuple[SourceFile, ...], tuple[ModelFile, ...]]:
        kind, sources = collect_files(path, () if path.suffix.lower() in SUFFIXES else self.own_formats())
        return kind, sources, tuple(hash_file(source) for source in sources)

    def is_whole(self, version: ModelVersion) -> bool:
        """Whether its files are there: where a cache kept the folder in part, or it was thinned, they may not be."""
        there = zip(version.files, self.file_paths(version), strict=True)
        return all(path.is_file() and path.stat().st_size == file.size_bytes for file, path in there)

    def _read(self, digest: str) -> ModelVersion:
        path = self._folder(digest) / _RECORD
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if record.pop("schema_version") > _SCHEMA_VERSION:
                raise StoreError(f"{path} was written by a newer enginebench; update this one")
            files = tuple(ModelFile(**file) for file in record.pop("files"))
            return ModelVersion(files=files, derivation=DERIVATION.from_data(record.pop("derivation")), **record)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"the model library's record {path} cannot be read ({plainly(error)}); update enginebench where a "
                f"newer one wrote it, else delete the folder {path.parent} and add the model again"
            ) from error

    def renewed(self, version: ModelVersion) -> ModelVersion:
        """The version as if it were added now, so that it is the newest of its kind. Raises `StoreError`."""
        return self._recorded(replace(version, created_at_unix_ns=time.time_ns()), "renew a model in")

    def _renamed(self, version: ModelVersion, name: str) -> ModelVersion:
        return self._recorded(replace(version, name=name), "rename a model in")

    def _recorded(self, version: ModelVersion, what: str) -> ModelVersion:
        with self._writing(what):
            draft = self._folder(version.digest) / f".record-{os.getpid()}"
            _write_record(draft, version)
            draft.replace(self._folder(version.digest) / _RECORD)
        return version

    def _write(self, version: ModelVersion, sources: Sequence[SourceFile]) -> None:
        """Copy into a folder beside the others, then rename it into its place; of one that is there mend the files."""
        with self.scratch() as folder, self._writing("add a model to"):
            for file, source in zip(version.files, sources, strict=True):
                _copy(source, file, folder / "version" / "files" / file.name)
            _write_record(folder / "version" / _RECORD, version)
            main = folder / "version" / "files" / version.files[0].name
            if self._count_weights and (counted := self._count_weights(main, version.format)):
                _write_json(folder / "version" / _WEIGHTS, asdict(counted))
            try:
                (folder / "version").rename(self._folder(version.digest))
            except OSError as error:
                # Another process added the same content first, or files of it were lost: the same bytes, wherever from.
                if error.errno not in {EEXIST, ENOTEMPTY}:
                    raise
                for file, place in zip(version.files, self.file_paths(version), strict=True):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    (folder / "version" / "files" / file.name).replace(place)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder on the library's own disk, gone afterwards. Raises `StoreError` when there can be none."""
        with self._writing("write to"):
            make_private_folder(self._root)
            self._sweep()
            folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=self._root))
            held = _hold(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            held.close()

    def _sweep(self) -> None:
        """Remove what a killed process left behind, as a derivation's is that is interrupted."""
        for entry in self._entries():
            if entry.name.startswith((_SCRATCH, ".removed-")) and _is_left_behind(entry):
                shutil.rmtree(entry, ignore_errors=True)

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            remedy = "free some space" if error.errno == ENOSPC else "check that the folder can be written"
            raise StoreError(f"cannot {what} the model library {self._root}: {error.strerror}; {remedy}") from error


def _hold(folder: Path) -> IO[bytes]:
    """Lock a file in it for as long as that stays open; the kernel lets go of it when this process is killed.

    It gets its name once it is locked: whoever sees it can trust the lock.
    """
    draft = folder / f"{_HELD}.draft"
    held = draft.open("wb")
    with suppress(OSError):  # a disk without locks has a day's patience instead
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft.rename(folder / _HELD)
    return held


def _is_left_behind(folder: Path) -> bool:
    """Whether nobody holds it any more; where nothing tells, whether nobody has touched it for a day."""
    try:
        with (folder / _HELD).open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except BlockingIOError:
        return False
    except OSError:
        with suppress(OSError):  # its maker removed it meanwhile
            return folder.stat().st_mtime < time.time() - 86_400
        return False


def _digest(files: Iterable[ModelFile]) -> str:
    return version_digest((one.name, one.sha256) for one in files)


def _short_digests(digests: Sequence[str]) -> dict[str, str]:
    """The shortest starts that tell the digests apart, of at least six digits."""
    length = next(n for n in range(6, 65) if len({digest[:n] for digest in digests}) == len(digests))
    return {digest: digest[:length] for digest in digests}


def _day(version: ModelVersion) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(version.created_at_unix_ns / 1e9))


def _checked_name(name: str | None) -> str | None:
    if name is None:
        return None
    name = as_name(name)
    if name.startswith(PREFIX):
        raise ModelError(f"{name!r} cannot name a model: {PREFIX}… stands for models that enginebench builds")
    if name.startswith(INT8_PREFIX):
        raise ModelError(f"{name!r} cannot name a model: {INT8_PREFIX}… stands for the INT8 version of another one")
    if not _NAME.fullmatch(name) or why_no_text(name):
        raise ModelError(f"{name!r} cannot name a model: use up to 200 characters without slashes and line breaks")
    return name


def _copy(source: SourceFile, expected: ModelFile, target: Path) -> None:
    """Copy in pieces and check the digest on the way: the file may change under our hands."""
    digest = hashlib.sha256()
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.path.open("rb") as reader, target.open("xb") as writer:
        while chunk := reader.read(_CHUNK_BYTES):
            digest.update(chunk)
            writer.write(chunk)
        writer.flush()
        os.fsync(writer.fileno())
    if digest.hexdigest() != expected.sha256:
        raise ModelError(f"{source.path} changed while it was being copied; add it again when it is complete")


def _write_record(path: Path, version: ModelVersion) -> None:
    _write_json(path, {"schema_version": _SCHEMA_VERSION, **asdict(version)})


def _write_json(path: Path, data: dict[str, object]) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


MAX_BYTES = 2**31 - 2**20
"""protobuf's limit of 2 GiB for one message, with some room for what a change adds."""


def load_whole(library: ModelLibrary, version: ModelVersion, verb: str) -> onnx.ModelProto:
    """The model with all its weights inside. `verb` completes "… cannot be".

    Raises `ModelError` for other formats than ONNX, for models over 2 GiB and for files that do not load.
    """
    refuse_unwritable(version, verb)
    path = library.main_path(version)
    try:
        model = onnx.load(path)
    except (OSError, DecodeError, onnx.checker.ValidationError) as error:
        raise ModelError(f"{version.name} cannot be {verb}: it does not load ({error}); add it again") from error
    refuse_endless(model, path)
    return model


def refuse_unwritable(version: ModelVersion, verb: str) -> None:
    """Raise `ModelError` for what `load_whole` refuses without a look into the file."""
    if version.format != ModelFormat.ONNX:
        raise ModelError(f"{version.name} is {version.format} and cannot be {verb}; only ONNX models can")
    if version.size_bytes > MAX_BYTES:
        raise ModelError(f"{version.name} is over 2 GiB and cannot be {verb}: one ONNX file cannot hold the result")


def add_child(
    library: ModelLibrary, parent: ModelVersion, model: onnx.ModelProto, suffix: str, derivation: Derivation
) -> ModelVersion:
    """Keep `model` as a version made from `parent`, named after it with `suffix`, and return it.

    Where the library has these very bytes, that version is returned as it is, however it was made. Raises `ModelError`,
    also for what equals `parent`, and `StoreError`.
    """
    with library.scratch() as folder:
        path = folder / "model.onnx"
        try:
            path.write_bytes(model.SerializeToString(deterministic=True))
        except (EncodeError, ValueError) as error:
            raise ModelError(f"the {derivation} version of {parent.name} is over 2 GiB; use a smaller model") from error
        name = f"{parent.name.removeprefix(PREFIX)}-{suffix}"
        return library.add(path, name=name, parent=parent.digest, derivation=derivation)
