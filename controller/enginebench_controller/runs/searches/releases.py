"""The versions of a package that lie between two: of the package index, as pip sees it, or of a folder of wheels."""

import platform
import re
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from enginebench_controller.errors import InputError
from enginebench_proto.agreed import words

_DISTRIBUTION = "enginebench"
_LISTED = re.compile(r"^Available versions: (.+)$", re.M)
_SECONDS = 120


def package_of(engine: str, known: Collection[str] = ()) -> str:
    """The package that is an engine of ours, or of the same name as somebody else's, which is installed or `known`.

    Raises `InputError` for an engine that is a part of enginebench, and has no versions; and for a name that no engine
    has: the package of that name may be anybody's, and would be run.
    """
    ours = metadata.distribution(_DISTRIBUTION)
    named = {one.name for one in ours.entry_points if one.group == _DISTRIBUTION}
    with_versions = named & set(ours.metadata.get_all("Provides-Extra") or ())
    if engine in named - with_versions:
        raise InputError(
            f"{engine} is built into enginebench and has no versions of its own: name another --engine, or bisect "
            "its options with --options"
        )
    there = with_versions | set(known) | metadata.entry_points(group=_DISTRIBUTION).names
    if engine not in there:
        near = get_close_matches(engine, there, n=1)
        elsewhere = "of one from elsewhere, --package names the package, or --wheels a folder that has it"
        raise InputError(
            f"--engine {engine} is no engine of ours ({', '.join(sorted(with_versions))}), and none that was seen on "
            f"this machine; {f'did you mean {near[0]!r}?' if near else elsewhere}"
        )
    return words.package_of(engine)


def companions(engine: str, package: str) -> tuple[str, ...]:
    """What our plugin of an engine needs beside the engine itself, without the floors that hold for the newest one."""
    needed = [Requirement(one) for one in metadata.requires(_DISTRIBUTION) or ()]
    mine = [one for one in needed if one.marker and one.marker.evaluate({"extra": engine}) and not _for_all(one)]
    return tuple(one.name for one in mine if canonicalize_name(one.name) != canonicalize_name(package))


def _for_all(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def releases_between(package: str, good: str, bad: str, wheels: Path | None = None) -> tuple[str, ...]:
    """The versions from good to bad, oldest first; pre-releases only where good or bad is one.

    Raises `InputError` for a version that is not there, naming the nearest, and for two that are not in that order.
    """
    ends = {"--good": _version("--good", good), "--bad": _version("--bad", bad)}
    if ends["--good"] == ends["--bad"]:
        raise InputError(f"--good and --bad are both {good}: there is nothing between them")
    if ends["--good"] > ends["--bad"]:
        raise InputError(
            f"--good {good} is newer than --bad {bad}, and a bisect goes from old to new: exchange them; where the "
            "newer one is the better, the first gate says so"
        )
    found = _found(package, wheels, list(ends.items()))
    return tuple(found[one] for one in found if ends["--good"] <= one <= ends["--bad"])


def releases_named(package: str, named: Sequence[str], wheels: Path | None = None) -> tuple[str, ...]:
    """These versions in their order. Raises `InputError` for one that is not there, naming the nearest."""
    asked = [("--versions", _version("--versions", one)) for one in named]
    found = _found(package, wheels, asked)
    return tuple(found[one] for _, one in asked)


def _found(package: str, wheels: Path | None, asked: Sequence[tuple[str, Version]]) -> Mapping[Version, str]:
    """What there is, oldest first; pre-releases only where one is asked for. Raises `InputError` for what is not."""
    with_previews = any(one.is_prerelease for _, one in asked)
    if wheels is None:
        found = _on_index(package, with_previews=with_previews)
        here = f"Python {platform.python_version().rpartition('.')[0]}, {platform.machine()}"
        lacks = f"that pip can install here ({here}): it may exist for another Python, or be withdrawn"
    else:
        found, lacks = wheels_of(package, wheels), f"in {wheels}"
    there = sorted(one for one in found if with_previews or not one.is_prerelease)
    for name, one in asked:
        if one not in there:
            raise InputError(f"{name} {one} is no version of {package} {lacks}{_nearest(one, there)}")
    return {one: found[one] for one in there}


def wheels_of(package: str, folder: Path) -> dict[Version, str]:
    """The versions of which a folder has wheels that fit this machine. Raises `InputError`."""
    if not folder.is_dir():
        raise InputError(f"--wheels: there is no folder {folder}")
    found = {version: str(version) for version, _ in _wheels(package, folder)}
    if not found:
        raise InputError(f"--wheels: {folder} has no wheel of {package} that fits this machine")
    return found


def wheel_of(package: str, version: str, folder: Path) -> Path:
    """The wheel of a version. Raises `InputError` where it has gone."""
    fits = [path for found, path in _wheels(package, folder) if found == Version(version)]
    if not fits:
        raise InputError(f"{folder} has no wheel of {package} {version} any more")
    return fits[0]


def _wheels(package: str, folder: Path) -> Iterable[tuple[Version, Path]]:
    usable = frozenset(sys_tags())
    for path in sorted(folder.glob("*.whl")):
        try:
            name, version, _, tags = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        if name == canonicalize_name(package) and tags & usable:
            yield version, path


def _on_index(package: str, *, with_previews: bool) -> Mapping[Version, str]:
    """What pip can install here, by the index that it is set up with."""
    pip = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input"]
    command = [*pip, "index", "versions", package]
    command += ["--pre"] if with_previews else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"the package index cannot be asked for {package}: {error}") from None
    listed = _LISTED.search(done.stdout)
    if listed is None:
        told = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        why = told[-1] if told else (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise InputError(f"the package index knows no versions of {package}: {why}; --package names another package")
    return {Version(one): one for one in listed[1].split(", ")}


def _version(name: str, text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise InputError(f"{name} {text!r} is no version: write it as in 1.20.1") from None


def _nearest(wanted: Version, there: list[Version]) -> str:
    """The two between which it would lie."""
    place = bisect_left(there, wanted)
    near = [str(one) for one in there[max(0, place - 1) : place + 1]]
    return f"; the nearest {'are' if len(near) > 1 else 'is'} {' and '.join(near)}" if near else ""
