"""Models: a version is one exact file set, named by its sha256."""

from dataclasses import dataclass

REBATCHED = "batch="
"""How the derivation of a copy begins that differs from its parent in nothing but the batch."""


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
