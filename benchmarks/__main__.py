"""`python -m benchmarks`: measure all parts, keep the rows as JSON and fill the tables in docs/.

For one idle machine: what else runs there is in the figures.
"""

import argparse
import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

from benchmarks import cost, coverage, loops, overload, pages, patience, profiling, tools
from benchmarks.markdown import PAGE, fill
from benchmarks.setting import RESULTS, Setting, make_setting
from enginebench_plugins.toolkit.engine import processor_name

PARTS = {
    "loops": loops,
    "tools": tools,
    "cost": cost,
    "patience": patience,
    "overload": overload,
    "profiling": profiling,
    "coverage": coverage,
    "pages": pages,
}
FULL_ROUNDS, FULL_S, FULL_BLOCK_S = 10, 3.0, 0.2
QUICK_ROUNDS, QUICK_S, QUICK_BLOCK_S = 2, 1.0, 0.1
PEERS = ("onnxruntime", "openvino", "torch", "mlcommons-loadgen", "pyperf")


def main() -> None:
    """Measure what was asked for; a part that fails stops nothing but itself."""
    arguments = _arguments()
    if arguments.quick:
        setting = make_setting(
            rounds=arguments.rounds or QUICK_ROUNDS, seconds=QUICK_S, block_s=QUICK_BLOCK_S, quick=True
        )
    else:
        setting = make_setting(rounds=arguments.rounds or FULL_ROUNDS, seconds=FULL_S, block_s=FULL_BLOCK_S)
    failed = [part for part in arguments.only if not _succeeds(part, setting, show=not arguments.quick)]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def _succeeds(part: str, setting: Setting, *, show: bool) -> bool:
    print(f"{part}: {(PARTS[part].__doc__ or '').splitlines()[0]}", flush=True)
    begin = time.perf_counter()
    try:
        rows = PARTS[part].measure(setting)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"{part} failed: {error}", flush=True)
        return False
    _keep(part, setting, rows, time.perf_counter() - begin)
    table = PARTS[part].table(rows)
    print(f"{table}\n", flush=True)
    if show:
        page = page_of(part)
        fill(page, part, table)
        fill(page, "machine", _machine(setting))
    return True


def _is_installed(name: str) -> bool:
    """Whether a peer is there: those of the extra `benchmarks` need not be for the parts that do without them."""
    return next(distributions(name=name), None) is not None


def page_of(part: str) -> Path:
    """The page that has the part's table: one of its own, or the one of all benchmarks."""
    page: Path = getattr(PARTS[part], "PAGE", PAGE)
    return page


def _keep(part: str, setting: Setting, rows: Sequence[Any], wall_s: float) -> None:
    """Write the rows beside what they were measured with."""
    document = {
        "part": part,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(setting),
        "rounds": setting.rounds,
        "seconds": setting.seconds,
        "block_s": setting.block_s,
        "wall_s": wall_s,
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{part}.json").write_text(json.dumps(document, indent=2), encoding="utf-8")


def _machine(setting: Setting) -> str:
    """One sentence on where and with what."""
    versions = ", ".join(f"{name} {version(name)}" for name in PEERS if _is_installed(name))
    kernel = f"Linux {platform.release().partition('-')[0]}"
    return f"{processor_name()}, {setting.cores} of {os.cpu_count()} processors, {kernel}; {versions}."


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute or two to see that it works; writes no page")
    parser.add_argument("--rounds", type=int, help="repetitions of each comparison (10)")
    parser.add_argument(
        "--only", type=_parts, default=tuple(PARTS), metavar="PART,…", help=f"some of: {', '.join(PARTS)}"
    )
    return parser.parse_args()


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    if unknown := set(parts) - PARTS.keys():
        raise argparse.ArgumentTypeError(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return parts


if __name__ == "__main__":
    main()
