"""Benchmarks as a list: what each covered and how it went, and which of them a search means."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from enginebench_controller.records import Status
from enginebench_controller.store.queries import BenchmarkEntry
from enginebench_ui.views.text import count_of, instant

COLOURS = {Status.OK: "green", Status.INCONCLUSIVE: "orange", Status.FAILED: "red", Status.CANCELLED: "gray"}
"""How each status is coloured, here and on the page of one benchmark; the word always stands beside the colour."""


@dataclass(frozen=True)
class BenchmarkView:
    """One benchmark in the list; `tallies` are (text, colour) pairs such as ("8 ok", "green")."""

    id: str
    name: str
    created: str
    covered: str
    note: str
    tallies: tuple[tuple[str, str], ...]


def benchmark_views(entries: Iterable[BenchmarkEntry], search: str = "") -> tuple[BenchmarkView, ...]:
    """Return the benchmarks that contain every word of `search`, in the order given; case does not matter."""
    words = search.casefold().split()
    return tuple(_view(entry) for entry in entries if _contains(entry, words))


def tallies(statuses: Iterable[Status]) -> tuple[tuple[str, str], ...]:
    """Count statuses, the good ones first: (("3 ok", "green"), ("1 failed", "red"))."""
    listed = list(statuses)
    return tuple((f"{listed.count(one)} {one.value}", COLOURS[one]) for one in Status if one in listed)


def _view(entry: BenchmarkEntry) -> BenchmarkView:
    benchmark = entry.benchmark
    statuses = [status for status, count in entry.counts.items() for _ in range(count)]
    return BenchmarkView(
        id=benchmark.id,
        name=benchmark.name,
        created=instant(benchmark.created_at_unix_ns),
        covered=_covered(entry),
        note=_note(entry),
        tallies=tallies(statuses) or (("nothing measured", "gray"),),
    )


def _covered(entry: BenchmarkEntry) -> str:
    return " · ".join(filter(None, (_few(entry.models), _few(entry.engines), _few(entry.targets, "target"))))


def _few(names: Sequence[str], noun: str = "", most: int = 4) -> str:
    if noun:
        return count_of(len(names), noun) if len(names) > 1 else ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _note(entry: BenchmarkEntry) -> str:
    benchmark = entry.benchmark
    rerun = f"re-run of {benchmark.rerun_of}" if benchmark.rerun_of else ""
    return ", ".join(filter(None, (rerun, "imported" if benchmark.imported else "")))


def _contains(entry: BenchmarkEntry, words: Sequence[str]) -> bool:
    benchmark = entry.benchmark
    fields = (benchmark.id, benchmark.name, *entry.models, *entry.engines, *entry.targets)
    text = "\n".join(fields).casefold()
    return all(word in text for word in words)
