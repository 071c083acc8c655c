"""`wheel`: the enginebench that is installed here, as a file to install elsewhere."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from enginebench_agent.environments.installing import DISTRIBUTION
from enginebench_agent.environments.wheel import rebuild_wheel
from enginebench_agent.errors import SetupError


def pack_wheel(folder: Path) -> Path:
    """Make a wheel in `folder` and return its path: of the checkout where the installation is editable.

    Raises `SetupError`.
    """
    distribution = importlib.metadata.distribution(DISTRIBUTION)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"cannot make the folder {folder} ({error.strerror}): name another") from error
    if (source := _checkout(distribution)) is None:
        return rebuild_wheel(distribution, folder)
    return _build(source, folder)


def _checkout(distribution: importlib.metadata.Distribution) -> Path | None:
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(origin["url"]).path))


def _build(source: Path, folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps", "--wheel-dir"]
    done = subprocess.run([*pip, str(folder), str(source)], capture_output=True, text=True, check=False)
    made = sorted(folder.glob(f"{DISTRIBUTION}-*.whl"))
    if done.returncode != 0 or not made:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SetupError(f"pip could not make a wheel of {source} ({last}): make one by hand, and name it with --wheel")
    return made[-1]
