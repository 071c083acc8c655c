"""By what both ends know a thing: names, digests of content and of a model version, and how a file begins."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

_SHA256 = re.compile(r"[0-9a-f]{64}")


def as_name(text: str) -> str:
    """The text as names are given and compared: composed (NFC of Unicode), as Macs take an `ü` apart in files' names.

    What a locale without UTF-8 left of it as bytes is read as UTF-8. Not for paths: a file is found as it is called.
    """
    if text.isascii():
        return text
    with suppress(UnicodeEncodeError):  # other surrogates: who takes them says so
        text = text.encode(errors="surrogateescape").decode(errors="surrogateescape")
    return unicodedata.normalize("NFC", text)


def is_sha256(text: str) -> bool:
    """Whether a text is a sha256 in lower-case hexadecimal."""
    return _SHA256.fullmatch(text) is not None


def version_digest(files: Iterable[tuple[str, str]]) -> str:
    """The digest of a model version from the (name, sha256) of its files, as `enginebench.v1.Model` defines it.

    One file has its own digest; several have the sha256 of the sorted lines "digest, two spaces, name".
    """
    listed = list(files)
    if len(listed) == 1:
        return listed[0][1]
    lines = sorted(f"{digest}  {name}\n" for name, digest in listed)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def begins_as(path: Path, beginnings: Sequence[tuple[int, bytes]]) -> bool:
    """Whether one of the `beginnings`, places and the bytes there, stands in a file, or none is known.

    Raises `OSError`.
    """
    with path.open("rb") as file:
        start = file.read(max((offset + len(content) for offset, content in beginnings), default=0))
    return not beginnings or any(start[offset:].startswith(content) for offset, content in beginnings)
