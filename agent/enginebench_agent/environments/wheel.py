"""A wheel made again from an installed distribution, where nothing else tells where it came from."""

import base64
import hashlib
import zipfile
from importlib.metadata import Distribution, PackagePath
from pathlib import Path

from enginebench_agent.errors import SetupError

# Written by the installer, not part of what was installed.
_INSTALLERS_FILES = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"})


def rebuild_wheel(distribution: Distribution, folder: Path) -> Path:
    """Pack the installed files of a pure-Python distribution into a wheel below `folder`, and return its path.

    Scripts and byte code are left out: the next installer makes them anew. The format is that of
    https://packaging.python.org/en/latest/specifications/binary-distribution-format/. The same files make the same
    bytes. Raises `SetupError` when files are missing.
    """
    version = distribution.version
    path = folder / f"{distribution.name.replace('-', '_')}-{version}-{_tag(distribution)}.whl"
    records = []
    with zipfile.ZipFile(path, "w") as archive:
        for file in _packed_files(distribution):
            content = _content(distribution, file)
            archive.writestr(_entry(str(file)), content, zipfile.ZIP_DEFLATED)
            records.append(f"{file},sha256={_digest(content)},{len(content)}")
        record = f"{_dist_info(distribution)}/RECORD"
        archive.writestr(_entry(record), "\n".join([*records, f"{record},,", ""]), zipfile.ZIP_DEFLATED)
    return path


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # dated 1980, not now
    entry.external_attr = 0o644 << 16
    return entry


def _packed_files(distribution: Distribution) -> list[PackagePath]:
    info = _dist_info(distribution)
    return [
        file
        for file in distribution.files or []
        if ".." not in file.parts
        and file.suffix != ".pyc"
        and not (file.parts[0] == info and file.name in _INSTALLERS_FILES)
    ]


def _content(distribution: Distribution, file: PackagePath) -> bytes:
    try:
        return Path(str(distribution.locate_file(file))).read_bytes()
    except OSError as error:
        raise SetupError(
            f"the installed {distribution.name} {distribution.version} lacks its file {file}: install it again"
        ) from error


def _dist_info(distribution: Distribution) -> str:
    for file in distribution.files or []:
        if file.name == "METADATA" and file.parts[0].endswith(".dist-info"):
            return file.parts[0]
    raise SetupError(f"the installed {distribution.name} has no list of its files: install it with pip")


def _tag(distribution: Distribution) -> str:
    for line in (distribution.read_text("WHEEL") or "").splitlines():
        if line.startswith("Tag: "):
            return line.removeprefix("Tag: ").strip()
    return "py3-none-any"


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
