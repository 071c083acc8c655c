"""Model versions: what each is, and which was made from which, as rows of a table that reads like a tree."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from enginebench_controller.models.library import MAX_BYTES
from enginebench_controller.records import Derivation, DerivationKind, ModelVersion
from enginebench_controller.records.model import WeightCount
from enginebench_proto.agreed.words import ModelFormat
from enginebench_ui.shared.project_key import DIGEST_CHARACTERS
from enginebench_ui.shared.text import UNKNOWN, Row, cells, count_of, in_percent, instant

AS_GIVEN = "as given"

_MADE_BY = {
    DerivationKind.QUANTIZED: "int8 QDQ",
    DerivationKind.PRUNED_BY_WEIGHT: "magnitude pruning",
    DerivationKind.CONVERTED: "OpenVINO IR",
}
_FORMATS = {
    ModelFormat.ONNX: "ONNX",
    ModelFormat.OPENVINO_IR: "OpenVINO IR",
    ModelFormat.TORCHSCRIPT: "TorchScript",
    ModelFormat.TORCH_EXPORT: "torch.export",
}
_INDENT = "\u2003"  # as wide as a letter; plain spaces at the beginning of a cell may be dropped

_Member = tuple["KnownVersion", int, str]
"""A version with its depth in its family and the lines of the tree before its name."""


@dataclass(frozen=True)
class KnownVersion:
    """A model version that the library or the store knows. `is_here`: its files are in the library.

    `weights` is None where nothing was counted.
    """

    version: ModelVersion
    is_here: bool
    weights: WeightCount | None = None


@dataclass(frozen=True)
class VersionView:
    """One version in the tree; `depth` 0 is one whose parent is not known here. `row` is its line of the table.

    `facts` are (heading, value) pairs. `underivable` says why no child can be made of it; empty where one can.
    """

    digest: str
    name: str
    depth: int
    row: Row
    facts: tuple[tuple[str, str], ...]
    underivable: str


def merged(
    stored: Iterable[ModelVersion], kept: Iterable[ModelVersion], weights: Mapping[str, WeightCount | None]
) -> dict[str, KnownVersion]:
    """Return every version by digest: those of the library (`kept`), and those that only results speak of."""
    known = {one.digest: KnownVersion(one, is_here=False) for one in stored}
    return known | {one.digest: KnownVersion(one, is_here=True, weights=weights.get(one.digest)) for one in kept}


def version_views(
    known: Mapping[str, KnownVersion], best_items_per_s: Mapping[str, float], search: str = ""
) -> tuple[VersionView, ...]:
    """Return the families, each parent before its children; the newest family first.

    `best_items_per_s` is by digest. A family is shown whole if one of its members contains every word of `search`.
    """
    words = search.casefold().split()
    shown = (family for family in _families(known) if any(_contains(one, words) for one, *_ in family))
    return tuple(
        _view(member, known, best_items_per_s.get(member[0].version.digest)) for family in shown for member in family
    )


def oldest_ancestor(digest: str, known: Mapping[str, KnownVersion]) -> str:
    """Return the digest of the version that the whole family comes from; its own where no parent is known."""
    seen = {digest}
    while (one := known.get(digest)) and (parent := one.version.parent_digest) in known and parent not in seen:
        digest = str(parent)
        seen.add(digest)
    return digest


def made_by(version: ModelVersion) -> str:
    """Say in two words how a version came to be: "as given", "pruned 90 %", "int8 QDQ"."""
    match version.derivation:
        case None:
            return AS_GIVEN
        case Derivation(kind=DerivationKind.PRUNED, sparsity=float(share)):
            return f"pruned {100 * share:g} %"
        case Derivation(kind=DerivationKind.REBATCHED, batch=batch):
            return f"batch={batch}"
        case Derivation(kind=DerivationKind.TRANSLATED):
            return f"as {format_name(version.format)}"
        case other:
            return _MADE_BY.get(other.kind, str(other))


def underivable(one: KnownVersion) -> str:
    """Say why no other version can be made of this one; nothing where one can."""
    version = one.version
    if not one.is_here:
        return "Its files are not in this library: only results that were imported speak of it."
    if version.format != ModelFormat.ONNX:
        return f"Only ONNX models can be quantized or pruned; this one is {format_name(version.format)}."
    if version.size_bytes > MAX_BYTES:
        return "It is over 2 GiB, and one ONNX file cannot hold the result."
    return ""


def weights_type(weights: WeightCount | None) -> str | None:
    """Name the type that most parameters have in the file; None where they were not counted."""
    return next(iter(weights.types), None) if weights else None


def megabytes(version: ModelVersion | None) -> float | None:
    """Give the size of all files of a version in MB of a million bytes; None for a version that nobody knows."""
    return version.size_bytes / 1e6 if version and version.files else None


def format_name(name: str) -> str:
    """Name a file format as its makers do."""
    return next((said for kind, said in _FORMATS.items() if kind == name), name)


def _families(known: Mapping[str, KnownVersion]) -> Iterator[list[_Member]]:
    """Walk from the roots. Records come from elsewhere, too: versions that are their own ancestors begin a family."""
    children: dict[str, list[KnownVersion]] = {}
    for one in sorted(known.values(), key=lambda one: (one.version.created_at_unix_ns, one.version.digest)):
        children.setdefault(_parent(one, known), []).append(one)
    seen: set[str] = set()
    # From the newest on; a second time for those in a circle, which no root leads to.
    for root in [*reversed(children.get("", [])), *known.values()]:
        if family := list(_descend(root, 0, "", "", children, seen)):
            yield family


def _parent(one: KnownVersion, known: Mapping[str, KnownVersion]) -> str:
    parent = one.version.parent_digest
    return parent if parent in known and parent is not None else ""


def _descend(
    one: KnownVersion, depth: int, branch: str, below: str, children: Mapping[str, list[KnownVersion]], seen: set[str]
) -> Iterator[_Member]:
    """Give a version and all that come of it: `branch` stands before its name, `below` before its children's."""
    digest = one.version.digest
    if digest in seen:
        return
    seen.add(digest)
    yield one, depth, branch
    own = children.get(digest, [])
    for place, child in enumerate(own):
        is_last = place == len(own) - 1
        corner, line = ("└─ ", _INDENT * 2) if is_last else ("├─ ", f"│{_INDENT}")
        yield from _descend(child, depth + 1, below + corner, below + line, children, seen)


def _view(member: _Member, known: Mapping[str, KnownVersion], best_items_per_s: float | None) -> VersionView:
    one, depth, branch = member
    version, weights = one.version, one.weights
    parent = known.get(version.parent_digest or "")
    row = {
        "Version": branch + cells({"": version.name})[""],
        "Made by": made_by(version),
        "Weights": weights_type(weights),
        "Sparsity (%)": in_percent(weights.sparsity if weights else None),
        "Size (MB)": megabytes(version),
        "Of parent's size (%)": _share_of_size(version, parent),
        "Best (items/s)": best_items_per_s,
        "Format": format_name(version.format),
        "Files": "here" if one.is_here else "not here",
        "Added": instant(version.created_at_unix_ns),
        "Digest": version.digest[:DIGEST_CHARACTERS],
    }
    return VersionView(version.digest, version.name, depth, cells(row), _facts(one, parent), underivable(one))


def _share_of_size(version: ModelVersion, parent: KnownVersion | None) -> float | None:
    if parent is None or not parent.version.size_bytes:
        return None
    return 100 * version.size_bytes / parent.version.size_bytes


def _facts(one: KnownVersion, parent: KnownVersion | None) -> tuple[tuple[str, str], ...]:
    version = one.version
    origin = parent.version.name if parent else (version.parent_digest or "")[:DIGEST_CHARACTERS]
    made = (("Made from", origin), ("How", str(version.derivation or UNKNOWN))) if origin else ()
    return (
        *made,
        ("Format", f"{format_name(version.format)}, {count_of(len(version.files), 'file')}"),
        ("Parameters", _parameters(one.weights)),
        ("Digest", version.digest[:DIGEST_CHARACTERS]),
    )


def _parameters(weights: WeightCount | None) -> str:
    if weights is None:
        return f"{UNKNOWN} (not counted)"
    share = "" if weights.sparsity is None else f", {100 * weights.sparsity:.1f} % of them zero"
    types = f" ({', '.join(f'{count:,} {kind}' for kind, count in weights.types.items())})" if weights.types else ""
    return f"{weights.parameters:,}{share}{types}"


def _contains(one: KnownVersion, words: list[str]) -> bool:
    version = one.version
    text = "\n".join((version.name, version.digest, str(version.derivation or ""), version.format)).casefold()
    return all(word in text for word in words)
