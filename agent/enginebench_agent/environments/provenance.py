"""How pip can install enginebench into another environment in exactly the agent's own version."""

import json
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from enginebench_agent.environments.wheel import rebuild_wheel
from enginebench_agent.errors import SetupError


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
