"""`python -m benchmarks.lake FOLDER`: many writers that are killed again and again, one lake, its rows and its times.

The results are those of big_store.py. Each writer is a process with a home of its own, of which it synchronizes a
share, and a part of its neighbour's as well; one of them after the other is killed by SIGKILL and begins anew. Then
every table must have as many rows as the store. With --pages the cases of pages.py are opened over the lake, before it
is compacted and after; with --others Polars and Dask read it, too. For s3://… the environment says where the object
store is, as for `enginebench store sync`.
"""

import argparse
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import big_store, pages
from enginebench_controller.home import STORE_VARIABLE, Home
from enginebench_controller.store.lake.place import Lake, found, lake_at
from enginebench_controller.store.lake.reading import forget
from enginebench_controller.store.lake.tables import TABLES
from enginebench_controller.store.lake.upkeep import compact
from enginebench_controller.store.lake.writing import sync
from enginebench_controller.store.store import LakeStore, Store

_PATIENCE_S = 600.0
_SHARED_EACH = 10
"""Every so many benchmarks one is brought by two writers."""

_PAGE = Path(__file__).parents[1] / "docs" / "reference" / "lake.md"
_SUMS = (
    "SELECT engine, sum(latency_ns)::BIGINT FROM block_samples JOIN measurements ON id = measurement_id GROUP BY engine"
)

_ASKED: Mapping[str, str] = {
    "all benchmarks": "SELECT count(*) FROM benchmarks",
    "fastest of each engine": "SELECT engine, max(throughput_items_per_s) FROM measurements GROUP BY engine",
    "one measurement": "SELECT median(latency_ns) FROM block_samples WHERE measurement_id = 'benchmark000-0'",
    "all samples": "SELECT count(*) FROM block_samples",
}


@dataclass
class Writers:
    """The processes, each with the ids of its share; those that are done are gone from `living`."""

    source: Path
    lake: Lake
    shares: Sequence[Sequence[str]]
    living: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, number: int) -> None:
        """Start one, or start it anew."""
        home = self.source / "writers" / str(number)
        if not home.exists():
            home.mkdir(parents=True)
            # A name of its own for the one file, which nobody writes to here; its lock is each one's own.
            os.link(Home(self.source).store.path, home / "results.duckdb")
        command = [sys.executable, "-m", "benchmarks.lake", str(home), "--lake", self.lake.url, "--write", "-"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write("\n".join(self.shares[number]).encode())
        process.stdin.close()
        self.living[number] = process

    def settle(self) -> None:
        """Forget those that are done. Raises `RuntimeError` where one failed."""
        for number, process in list(self.living.items()):
            if (code := process.poll()) is not None:
                del self.living[number]
                if code:
                    raise RuntimeError(f"writer {number} ended with {code}")


def write(source: Home, lake: Lake, writers: int, kills: int, every_s: float, seed: int = 1) -> tuple[float, int]:
    """Have so many bring all results of `source` into the lake, and kill one about every `every_s`.

    Returns the seconds it took and how many were killed.
    """
    ids = [one.benchmark.id for one in source.store.benchmarks()]
    shares = [ids[number::writers] for number in range(writers)]
    shares = [[*share, *shares[number - 1][::_SHARED_EACH]] for number, share in enumerate(shares)]
    begun, chance, killed = time.monotonic(), random.Random(seed), 0  # noqa: S311  # a repeatable choice
    group = Writers(source.path, lake, shares)
    for number in range(writers):
        group.start(number)
    while group.living:
        time.sleep(every_s * chance.uniform(0.2, 1.8))
        group.settle()
        if group.living and killed < kills:
            number = chance.choice(sorted(group.living))
            group.living[number].send_signal(signal.SIGKILL)
            if group.living.pop(number).wait() == -signal.SIGKILL:
                killed += 1
            group.start(number)
    return time.monotonic() - begun, killed


def rows_of(store: Store) -> dict[str, int]:
    """How many rows each table of a lake has, as its readers see them."""
    names = {table.name for table in TABLES}
    return {table.name: table.rows for table in store.tables() if table.name in names}


def size_of(lake: Lake) -> str:
    """How many files of rows its tables name, and their bytes."""
    files = [table.get_add_actions(flatten=True).column("size_bytes").to_pylist() for table in found(lake).values()]
    return f"{sum(map(len, files))} files, {sum(map(sum, files)) / 1e6:,.0f} MB"


def sums(program: str, lake: Lake) -> dict[str, Any]:
    """What another program finds by the lines of the lake's page."""
    (code,) = re.findall(rf"```python\n(import {program}.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code.replace("/data/lake", lake.url), names)  # noqa: S102  # our own page
    answer: dict[str, Any] = names["answer"]
    return answer


def first_answers(path: Path, lake: Lake) -> dict[str, float]:
    """Seconds until each question is answered by who has just opened the lake."""
    answers = {}
    for name, sql in _ASKED.items():
        forget(lake)
        begun = time.monotonic()
        with LakeStore(path, [lake.url])._reading() as connection:
            connection.execute(sql).fetchall()
        answers[name] = time.monotonic() - begun
    return answers


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lake", description=__doc__)
    parser.add_argument("folder", type=Path, help="the home with the results, made where it is not there")
    parser.add_argument("--lake", help="where the lake is to be: FOLDER/lake without it")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--benchmarks", type=int, default=40)
    parser.add_argument("--samples", type=int, default=400_000)
    parser.add_argument("--layer-rows", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--every", type=float, default=0.5, metavar="SECONDS", help="between two kills, on average")
    parser.add_argument("--pages", action="store_true", help="open the pages, too")
    parser.add_argument("--others", action="store_true", help="ask Polars and Dask for sums, too")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    home, lake = Home(asked.folder), lake_at(asked.lake or str(asked.folder / "lake"))
    if asked.write:
        _write(home, lake, set(sys.stdin.read().split()))
        return
    if not home.store.path.exists():
        big_store.make(home, benchmarks=asked.benchmarks, samples=asked.samples, layer_rows=asked.layer_rows)
    seconds, killed = write(home, lake, asked.writers, asked.kills, asked.every)
    print(f"{asked.writers} writers, {killed} times killed: {seconds:.0f} s", flush=True)
    _tell("before compaction", home, lake, asked)
    begun = time.monotonic()
    joined = compact(lake, 0, nobody_else=True)
    print(f"compacted in {time.monotonic() - begun:.0f} s: {joined}", flush=True)
    _tell("after compaction", home, lake, asked)


def _write(home: Home, lake: Lake, mine: set[str]) -> None:
    others = {one.benchmark.id for one in home.store.benchmarks()} - mine
    sync(home.store.path, lake, others, _PATIENCE_S)


def _tell(when: str, home: Home, lake: Lake, asked: argparse.Namespace) -> None:
    forget(lake)
    there = rows_of(LakeStore(home.store.path, [lake.url]))
    lost = {name: (rows, there[name]) for name, rows in rows_of(home.store).items() if there[name] != rows}
    told = f"rows differ: {lost}" if lost else f"every row is there once: {sum(there.values()):,}"
    print(f"{when}, {size_of(lake)}: {told}", flush=True)
    for name, seconds in first_answers(home.store.path, lake).items():
        print(f"  {name}: {seconds:.2f} s", flush=True)
    if asked.pages:
        os.environ[STORE_VARIABLE] = shlex.quote(lake.url)
        print(pages.table(pages.opened(home, 3)), flush=True)
    if asked.others:
        with home.store._reading() as connection:
            expected = dict(connection.execute(_SUMS).fetchall())
        for program in ("polars", "dask"):
            begun = time.monotonic()
            told = "the same sums" if sums(program, lake) == expected else "other sums"
            print(f"  {program}: {told} in {time.monotonic() - begun:.1f} s", flush=True)
    if lost:
        raise SystemExit("rows were lost or doubled")


if __name__ == "__main__":
    main()
