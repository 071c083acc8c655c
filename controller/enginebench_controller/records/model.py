"""Models: a version is one exact file set, named by its sha256."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

REBATCHED = "batch="
"""How the derivation of a copy begins that differs from its parent in nothing but the batch."""

QUANTIZED = "int8"
"""How the derivation of an INT8 version begins."""


@dataclass(frozen=True)
class ModelFile:
    """One file of a model version; `name` is relative, as the main file refers to it."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class ModelVersion:
    """One exact file set, the main file first. `parent_digest` and `derivation` tell how it was made from another."""

    digest: str
    name: str
    format: str
    files: tuple[ModelFile, ...]
    created_at_unix_ns: int
    parent_digest: str | None = None
    derivation: str | None = None

    @property
    def size_bytes(self) -> int:
        """Size of all files together, in bytes."""
        return sum(file.size_bytes for file in self.files)

    @property
    def original_digest(self) -> str:
        """The version that a person means: of a copy for another batch, which the planner makes, the one it is of."""
        is_copy = (self.derivation or "").startswith(REBATCHED)
        return self.parent_digest if is_copy and self.parent_digest else self.digest


def lineage(digest: str, models: Mapping[str, ModelVersion]) -> Iterator[str]:
    """The digest of a version and those of the versions that it was made from, back to the one given by a person.

    `models` are those known, by digest; a circle, which only a damaged record can make, ends where it began.
    """
    passed: dict[str, None] = {}
    parent: str | None = digest
    while parent is not None and parent not in passed:
        passed[parent] = None
        parent = known.parent_digest if (known := models.get(parent)) else None
    yield from passed


def families(models: Iterable[ModelVersion]) -> dict[str, str]:
    """By digest, the version from which each one was made in the end; its own where from none."""
    known = {model.digest: model for model in models}
    return {digest: list(lineage(digest, known))[-1] for digest in known}


def int8_versions(models: Iterable[ModelVersion], digest: str) -> tuple[ModelVersion, ...]:
    """The INT8 versions of a model, newest first; those of the model that this one is a copy of, for another batch."""
    known = {model.digest: model for model in models}
    original = known[digest].original_digest if digest in known else digest
    made = [
        one for one in known.values() if one.parent_digest == original and (one.derivation or "").startswith(QUANTIZED)
    ]
    return tuple(sorted(made, key=lambda one: -one.created_at_unix_ns))


@dataclass(frozen=True)
class WeightCount:
    """The parameters of a model version: all of them, those that are not zero, and all by their type in the file."""

    parameters: int
    nonzero: int
    types: Mapping[str, int]

    @property
    def sparsity(self) -> float | None:
        """The share of zeros; None of a model without parameters."""
        return 1 - self.nonzero / self.parameters if self.parameters else None
