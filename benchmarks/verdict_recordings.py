"""Recorded process pairs: what `benchmarks.verdicts` replays, one JSON line a round of processes, compressed.

A round is one process of each side of a group that took turns: base, the same once more as a control, and head.
"""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recordings" / "verdicts"

BASE, CONTROL, HEAD = 0, 1, 2
"""The places of the sides in a round."""

EQUAL = "equal"
"""The case in which head is base once more."""

Series = tuple[str, str, str, str]
"""What rounds that follow one another have in common: condition, model, engine and case."""


@dataclass(frozen=True)
class RecordedSide:
    """The blocks of one process in their order: median latencies, whether they were disturbed, and durations."""

    medians_ns: tuple[float, ...]
    disturbed: tuple[int, ...]
    duration_ns: tuple[int, ...]


@dataclass(frozen=True)
class Round:
    """One process of each side. `case` says what head is; `wall_ns` is what the whole round took."""

    condition: str
    model: str
    engine: str
    case: str
    pair: int
    begun_unix_ns: int
    wall_ns: int
    sides: tuple[RecordedSide, ...]

    @property
    def series(self) -> Series:
        """Which rounds it follows and is followed by."""
        return self.condition, self.model, self.engine, self.case

    def medians(self, first: int, second: int) -> tuple[list[float], list[float]]:
        """The blocks' medians of two sides, without those in which either was disturbed unless that leaves few."""
        one, other = self.sides[first], self.sides[second]
        common = range(min(len(one.medians_ns), len(other.medians_ns)))
        calm = [place for place in common if not one.disturbed[place] and not other.disturbed[place]]
        kept = calm if 2 * len(calm) >= len(common) else common
        return [one.medians_ns[place] for place in kept], [other.medians_ns[place] for place in kept]


def append(folder: Path, rounds: Iterable[Round]) -> None:
    """Add rounds to the files of their series, each in one write: what is there stays whole, come what may."""
    folder.mkdir(parents=True, exist_ok=True)
    for series, found in by_series(rounds).items():
        lines = "".join(json.dumps(asdict(one), separators=(",", ":")) + "\n" for one in found)
        with (folder / _file_of(series)).open("ab") as file:
            file.write(gzip.compress(lines.encode()))


def read(folder: Path) -> list[Round]:
    """All rounds of a folder, in the order of their series and of time. Raises ValueError for a damaged file."""
    found = [_round(json.loads(line)) for path in sorted(folder.glob("*.jsonl.gz")) for line in _lines(path)]
    return sorted(found, key=lambda one: (one.series, one.begun_unix_ns, one.pair))


def by_series(rounds: Iterable[Round]) -> Mapping[Series, Sequence[Round]]:
    """The rounds that follow one another."""
    series: dict[Series, list[Round]] = {}
    for one in rounds:
        series.setdefault(one.series, []).append(one)
    return series


def add_line(path: Path, one: Any) -> None:
    """Add a trial, a dataclass of plain values, to a file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(one)) + "\n")


def kept_lines(path: Path) -> list[dict[str, Any]]:
    """All trials of such a file, in their order; none where there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _file_of(series: Series) -> str:
    return ".".join(series).replace(" %", "").replace(" ", "-") + ".jsonl.gz"


def _lines(path: Path) -> Iterator[str]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield from file
    except (EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is damaged ({error}): take it from the repository again, or remove it") from None


def _round(line: Mapping[str, Any]) -> Round:
    sides = tuple(
        RecordedSide(tuple(one["medians_ns"]), tuple(one["disturbed"]), tuple(one["duration_ns"]))
        for one in line["sides"]
    )
    return Round(**{**line, "sides": sides})
