"""Models: a version is one exact file set, named by its sha256."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class DerivationKind(StrEnum):
    """What was done to a model version to make another of it."""

    REBATCHED = "rebatched"
    """It differs from its parent in nothing but the batch."""
    QUANTIZED = "quantized"
    """To INT8."""
    PRUNED = "pruned"
    """The same share of every layer."""
    PRUNED_BY_WEIGHT = "pruned_by_weight"
    """A share of its own of each weight."""
    CONVERTED = "converted"
    """To OpenVINO IR, its weights stored in FP16."""
    TRANSLATED = "translated"
    """To the format of another engine, by a converter: `said` has both, and the sizes."""
    UNKNOWN = "unknown"
    """A record of before says it in a sentence that no version wrote."""


_SENTENCES: Mapping[DerivationKind, "re.Pattern[str]"] = {
    kind: re.compile(sentence, re.DOTALL)
    for kind, sentence in {
        DerivationKind.REBATCHED: r"batch=(?P<batch>\d+)(?:, batch axis (?P<said>.+))?",
        DerivationKind.QUANTIZED: r"int8 QDQ, u8 × s8 \(7 bits\), min-max over (?P<said>.+)",
        DerivationKind.PRUNED: r"magnitude pruning, sparsity=(?P<sparsity>\d+(?:\.\d+)?(?:e-\d+)?) in every layer",
        DerivationKind.PRUNED_BY_WEIGHT: r"magnitude pruning, sparsity by weight, (?P<said>.+)",
        DerivationKind.CONVERTED: r"OpenVINO IR, FP16 weights(?:, inputs (?P<said>.+))?",
    }.items()
}
"""How each kind was written down when the sentence was all that was kept."""

_PARTS: Mapping[str, Callable[[str], Any]] = {"batch": int, "sparsity": float, "said": str}


@dataclass(frozen=True)
class Calibration:
    """What an INT8 version was calibrated on: `count` inputs made of the `samples` of a folder, or seeded ones ("").

    The folder is told by its name, and `files` tells it from others of that name. `images` say how images are prepared,
    `preparation` this and all else; `values` what inputs were filled with that had no files, `sizes` how the dimensions
    were closed that the model leaves open.
    """

    folder: str = ""
    files: str = ""
    count: int = 0
    samples: int = 0
    images: tuple[str, ...] = ()
    preparation: str = ""
    values: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Derivation:
    """How a version was made of its parent: equal ones make the same of one parent. As text it is a sentence.

    `batch` is that of a rebatched copy, `sparsity` the share of zeros in every layer of a pruned version. `said` is
    what else was chosen, in the words of the sentence: where the batch is, what the calibration saw, which weights, the
    inputs of a saved program; of an unknown kind it is the sentence. `calibration` has the parts of what is said, but
    for a digest of the contents; None where a record of before has the words alone.
    """

    kind: DerivationKind
    batch: int | None = None
    sparsity: float | None = None
    said: str = ""
    calibration: Calibration | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """The sentence that people read."""
        match self.kind:
            case DerivationKind.REBATCHED:
                return f"batch={self.batch}" + (f", batch axis {self.said}" if self.said else "")
            case DerivationKind.QUANTIZED:
                return f"int8 QDQ, u8 × s8 (7 bits), min-max over {self.said}"
            case DerivationKind.PRUNED:
                return f"magnitude pruning, sparsity={self.sparsity:g} in every layer"
            case DerivationKind.PRUNED_BY_WEIGHT:
                return f"magnitude pruning, sparsity by weight, {self.said}"
            case DerivationKind.CONVERTED:
                return "OpenVINO IR, FP16 weights" + (f", inputs {self.said}" if self.said else "")
            case DerivationKind.TRANSLATED | DerivationKind.UNKNOWN:
                return self.said

    @classmethod
    def from_sentence(cls, sentence: str) -> "Derivation":
        """Read what records of before have in place of a derivation; nothing else is to read a sentence."""
        for kind, written in _SENTENCES.items():
            if found := written.fullmatch(sentence):
                told = {name: _PARTS[name](part) for name, part in found.groupdict().items() if part is not None}
                return cls(kind, **told)
        return cls(DerivationKind.UNKNOWN, said=sentence)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Pydantic asks this wherever it reads one: a sentence alone is of a record of before."""
        from pydantic_core import core_schema  # noqa: PLC0415  # only where one is read

        sentence = core_schema.no_info_after_validator_function(cls.from_sentence, core_schema.str_schema())
        # A function that came before would be given lists for JSON's arrays, which are no tuples where all is strict.
        return core_schema.tagged_union_schema(
            {"parts": handler(source), "sentence": sentence},
            discriminator=lambda data: "sentence" if isinstance(data, str) else "parts",
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Callable[[Any], Any]) -> Any:
        """Pydantic asks this for the schema, which is of what is written today."""
        return handler(core["choices"]["parts"])


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
    derivation: Derivation | None = None

    @property
    def size_bytes(self) -> int:
        """Size of all files together, in bytes."""
        return sum(file.size_bytes for file in self.files)

    @property
    def original_digest(self) -> str:
        """The version that a person means: of a copy for another batch, which the planner makes, the one it is of."""
        is_copy = self.is_made_by(DerivationKind.REBATCHED)
        return self.parent_digest if is_copy and self.parent_digest else self.digest

    def is_made_by(self, kind: DerivationKind) -> bool:
        """Whether this is what was done to its parent."""
        return self.derivation is not None and self.derivation.kind is kind


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


def with_lineage(
    versions: Iterable[ModelVersion], read: Callable[[], Iterable[ModelVersion]]
) -> tuple[ModelVersion, ...]:
    """The versions and all that they were made from: what tells that they are of one family.

    `read` gives the versions known; it is called only where one of these was made from another.
    """
    given = {one.digest: one for one in versions}
    is_original = all(one.parent_digest is None for one in given.values())
    models = given if is_original else {one.digest: one for one in read()} | given
    passed = dict.fromkeys(digest for one in given for digest in lineage(one, models))
    return tuple(models[digest] for digest in passed if digest in models)


def families(models: Iterable[ModelVersion]) -> dict[str, str]:
    """By digest, the version from which each one was made in the end; its own where from none."""
    known = {model.digest: model for model in models}
    return {digest: list(lineage(digest, known))[-1] for digest in known}


def int8_versions(models: Iterable[ModelVersion], digest: str) -> tuple[ModelVersion, ...]:
    """The INT8 versions of a model, newest first; those of the model that this one is a copy of, for another batch."""
    known = {model.digest: model for model in models}
    original = known[digest].original_digest if digest in known else digest
    made = [one for one in known.values() if one.parent_digest == original and one.is_made_by(DerivationKind.QUANTIZED)]
    return tuple(sorted(made, key=lambda one: -one.created_at_unix_ns))


def is_gone(digest: str, known: Iterable[ModelVersion], held: Iterable[ModelVersion]) -> bool:
    """Whether a library that holds these versions lacks a model; of a copy for another batch, the one that it is of."""
    original = next((one.original_digest for one in known if one.digest == digest), digest)
    return all(one.digest != original for one in held)


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


@dataclass(frozen=True)
class PrunableWeight:
    """A weight of a product, by the name of the tensor that nodes read, and what its elements are like.

    Below `magnitudes[k]` lie k % of its `size` absolute values, k from 0 to 99. `grouped`: a grouped convolution reads
    it.
    """

    name: str
    size: int
    magnitudes: tuple[float, ...]
    grouped: bool
