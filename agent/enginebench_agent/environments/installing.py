"""What goes into an environment: a venv, packages, and enginebench itself in exactly the agent's version."""

import base64
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from importlib.metadata import Distribution, PackagePath
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from enginebench_agent.errors import SetupError
from enginebench_proto.agreed.wheels import built_for, lacking_wheel
from enginebench_proto.agreed.words import package_of


def tell(text: str) -> None:
    """Print one line of progress."""
    print(text, file=sys.stderr, flush=True)  # standard output is for data


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


def own_requirement(distribution: Distribution, extras: tuple[str, ...], scratch: Path) -> list[str]:
    """The arguments of `pip install` for this very distribution with these extras.

    From the folder it was installed from, from the very commit, or else from a wheel made below `scratch` out of the
    installed files (PEP 610 records the first two in direct_url.json). Raises `SetupError`.
    """
    origin: dict[str, Any] = json.loads(distribution.read_text("direct_url.json") or "{}")
    extra = f"[{','.join(extras)}]" if extras else ""
    if "dir_info" in origin:
        return _from_folder(origin, extra)
    if "vcs_info" in origin:
        return [f"{distribution.name}{extra} @ {_commit_url(origin)}"]
    wheel = rebuild_wheel(distribution, scratch)
    return [f"{distribution.name}{extra} @ {wheel.resolve().as_uri()}"]


def _from_folder(origin: dict[str, Any], extra: str) -> list[str]:
    folder = Path(unquote(urlsplit(origin["url"]).path))
    if not (folder / "pyproject.toml").exists():
        raise SetupError(f"enginebench was installed from {folder}, which is gone: put it back, or install it again")
    requirement = f"{folder}{extra}"
    return ["--editable", requirement] if origin["dir_info"].get("editable") else [requirement]


def _commit_url(origin: dict[str, Any]) -> str:
    version_control = origin["vcs_info"]
    subdirectory = origin.get("subdirectory")
    suffix = f"#subdirectory={subdirectory}" if subdirectory else ""
    return f"{version_control['vcs']}+{origin['url']}@{version_control['commit_id']}{suffix}"


SHOWN_LINES = 15
DISTRIBUTION = "enginebench"

_NOT_INSTALLED = "pip could not install it; nothing was kept"
_ENGINE = re.compile(r"([A-Za-z0-9_-]+)\s*((?:[=<>!~]=?=?\s*[^\s;\[\]@]+)?)")


@dataclass(frozen=True)
class EngineRequirement:
    """One of our engines, with a version specifier such as "==1.20.1" or ""."""

    name: str
    specifier: str

    @classmethod
    def parse(cls, text: str) -> "EngineRequirement":
        """Read "onnxruntime" or "onnxruntime==1.20.1". Raises `SetupError` for an engine that is not ours."""
        found = _ENGINE.fullmatch(text.strip())
        known = own_engines()
        if found is None or found[1] not in known:
            raise SetupError(
                f"{text!r} is not an engine of ours ({', '.join(known)}); "
                "install a plugin from elsewhere with --package"
            )
        return cls(found[1], found[2].strip())


def own_engines() -> list[str]:
    """Names of the engines enginebench itself brings."""
    points = importlib.metadata.distribution(DISTRIBUTION).entry_points
    return sorted(point.name for point in points if point.group == DISTRIBUTION)


def make_venv(python: Path, folder: Path) -> Path:
    """Make a virtual environment at `folder` and return its interpreter. Raises `SetupError`."""
    tell(f"making a virtual environment with {python}")
    own_pip = [] if REACHING_PIP is None else ["--without-pip"]
    _run(
        [str(python), "-P", "-m", "venv", *own_pip, str(folder)],
        "the virtual environment cannot be made; nothing was kept",
    )
    return folder / "bin" / "python"


def _reaching_pip() -> tuple[str, ...] | None:
    """This interpreter's pip, if it can install into other environments: since 22.3. None for another, or without."""
    try:
        version = importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError:
        return None
    found = re.match(r"(\d+)\.(\d+)", version)
    return (sys.executable, "-P", "-m", "pip") if found and (int(found[1]), int(found[2])) >= (22, 3) else None


REACHING_PIP = _reaching_pip()
"""To make a pip in an environment took 5.5 s of processor time, and all else that is installed there 11 to 15."""


TESTING = "testing"
"""The extra that the contract tests need."""


def install(
    python: Path,
    engine: EngineRequirement | None,
    packages: tuple[str, ...],
    scratch: Path,
    *,
    testing: bool = False,
) -> None:
    """Install enginebench in the agent's version, the engine and the packages. Raises `SetupError`."""
    distribution = importlib.metadata.distribution(DISTRIBUTION)
    extras = distribution.metadata.get_all("Provides-Extra") or []
    own = (engine.name,) if engine is not None and engine.name in extras else ()
    wanted = (*own, *([TESTING] if testing else []))
    pinned = [package_of(engine.name) + engine.specifier] if engine is not None and engine.specifier else []
    tell(f"installing {' '.join([f'{DISTRIBUTION} {distribution.version}', *wanted, *pinned, *packages])}")
    ours = [*own_requirement(distribution, wanted, scratch), *pinned]
    # To pip 23, enginebench of a folder with an extra is not the enginebench that a package needs.
    for step in [ours, list(packages)] if testing and packages else [[*ours, *packages]]:
        _pip(python, step, _NOT_INSTALLED)


def reinstall(python: Path, name: str, scratch: Path) -> None:
    """Put enginebench in the agent's version into the environment of that name. Raises `SetupError`."""
    requirement = own_requirement(importlib.metadata.distribution(DISTRIBUTION), (), scratch)
    failure = f"pip could not upgrade the environment {name!r}: remove it and add it again, if it fails again"
    _pip(python, requirement, failure)  # for what it needs now
    # pip takes two builds of one version for the same and leaves the old one, unless it is forced.
    _pip(python, ["--force-reinstall", "--no-deps", *requirement], failure)


def _pip(python: Path, arguments: list[str], failure: str) -> None:
    pip = [str(python), "-P", "-m", "pip"] if REACHING_PIP is None else [*REACHING_PIP, "--python", str(python)]
    _run([*pip, "install", "--disable-pip-version-check", "--no-input", *arguments], failure)


def _run(command: list[str], failure: str) -> None:
    foreign = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    variables = {name: value for name, value in os.environ.items() if name not in foreign}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,  # ours may be a pipe that nobody writes into
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=variables,
            close_fds=False,  # the lock of the environment is for it, too
            check=False,
        )
    except OSError as error:
        raise SetupError(f"{failure}: {error}") from error
    if done.returncode != 0:
        end = "\n".join(done.stdout.strip().splitlines()[-SHOWN_LINES:])
        why = lacking_wheel(done.stdout, platform.machine(), platform.python_version(), built_for())
        raise SetupError(f"{failure}{f': {why}' if why else ''}. The end of its output:\n{end}")


def pack_wheel(folder: Path) -> Path:
    """Make a wheel in `folder` and return its path: of the checkout where the installation is editable.

    Raises `SetupError`.
    """
    distribution = importlib.metadata.distribution(DISTRIBUTION)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        source = _checkout(distribution)
        return _build(source, folder) if source else rebuild_wheel(distribution, folder)
    except OSError as error:
        raise SetupError(f"cannot put a wheel into {folder} ({error.strerror}): name another folder") from error


def _checkout(distribution: importlib.metadata.Distribution) -> Path | None:
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(origin["url"]).path))


def _build(source: Path, folder: Path) -> Path:
    pip = [sys.executable, "-P", "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps", "--wheel-dir"]
    done = subprocess.run([*pip, str(folder), str(source)], capture_output=True, text=True, check=False)
    made = sorted(folder.glob(f"{DISTRIBUTION}-*.whl"))
    if done.returncode != 0 or not made:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SetupError(f"pip could not make a wheel of {source} ({last}): make one by hand, and name it with --wheel")
    return made[-1]
