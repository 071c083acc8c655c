"""The distribution that `plugin new` writes: an engine that runs as it is, for somebody to put another in its place."""

import importlib.metadata
import json
import re
import tempfile
from pathlib import Path
from string import Template

from enginebench_controller.errors import InputError
from enginebench_controller.runs.plugin.check import distribution_of

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?")
_TEMPLATES = Path(__file__).parent / "templates" / "plugin"
_ENTRY_POINTS = "enginebench"
_ALL = "all"
"""What `--engine` takes for every engine."""


def write_plugin_project(name: str, folder: Path | None = None) -> Path:
    """Write a distribution with an engine of this name and return its folder: `folder`, else one named after it here.

    It is there whole or not at all. Raises `InputError` for a name that no engine may have or that one of ours has, and
    for a folder that exists or cannot be made.
    """
    _check_name(name)
    distribution = distribution_of(name)
    package = distribution.replace("-", "_")
    place = folder or Path(distribution)
    if place.exists() or place.is_symlink():
        raise InputError(f"there is a folder or file {place} already: name another one with --into")
    values = {"name": name, "quoted": json.dumps(name), "distribution": distribution, "package": package}
    try:
        _write(place, values)
    except OSError as error:
        raise InputError(f"cannot write {place}: {error.strerror or error}") from None
    return place


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name.lower() == _ALL:
        raise InputError(
            f"{name!r} cannot name an engine: use 1 to 64 letters, digits, '.', '-' or '_', with a letter or digit at "
            "both ends, and not 'all'"
        )
    ours = importlib.metadata.distribution("enginebench").entry_points.select(group=_ENTRY_POINTS)
    if name in ours.names:
        raise InputError(f"{name!r} is an engine of enginebench already: choose another name, such as 'my-{name}'")


def _write(place: Path, values: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-", ignore_cleanup_errors=True) as scratch:
        partial = Path(scratch) / place.name
        for template, path in _files(values["package"]).items():
            target = partial / path
            target.parent.mkdir(parents=True, exist_ok=True)
            text = (_TEMPLATES / f"{template}.template").read_text(encoding="utf-8")
            target.write_text(Template(text).substitute(values), encoding="utf-8")
        partial.rename(place)


def _files(package: str) -> dict[str, str]:
    """Where each template goes."""
    return {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        "__init__.py": f"src/{package}/__init__.py",
        "plugin.py": f"src/{package}/plugin.py",
        "test_contract.py": "tests/test_contract.py",
    }
