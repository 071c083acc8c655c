"""What things are called on both ends: digests of content, and of a model version from those of its files."""

import hashlib
import re
from collections.abc import Iterable

_SHA256 = re.compile(r"[0-9a-f]{64}")


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
