"""Benchmarks as a list: what each covered, how it went, and how fast the fastest was."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from enginebench_controller.records import Benchmark, Search, Status
from enginebench_controller.records.configuration import cores_in_words
from enginebench_controller.store.benchmarks import BenchmarkEntry, BenchmarkPage, Fastest, ListedBenchmark
from enginebench_controller.store.searches import search_of
from enginebench_ui.shared.text import SEARCH_NOUNS, benchmark_title, count_of, instant, number, shortened, tallies

_LONGEST_MODEL = 48

SentenceOf = Callable[[Search], str | None]


@dataclass(frozen=True)
class BenchmarkView:
    """One benchmark in the list, or a `search` with its steps; `tallies` are pairs such as ("8 ok", "green").

    `said` is how fast the fastest was, of a search its answer, and empty of a gate, whose sides are no rivals.
    """

    id: str
    name: str
    created: str
    covered: str
    note: str
    said: str
    tallies: tuple[tuple[str, str], ...]
    search: Search | None = None


def benchmark_views(listed: Iterable[ListedBenchmark], sentence_of: SentenceOf) -> tuple[BenchmarkView, ...]:
    """Return the benchmarks in the order given; `sentence_of` a search is its answer, None while it has none."""
    return tuple(_view(one, sentence_of) for one in listed)


def found_text(page: BenchmarkPage) -> str:
    """Count what is listed: "120 benchmarks", or "3 of 120 benchmarks"."""
    return count_of(page.total, "benchmark") if page.found == page.total else f"{page.found} of {page.total} benchmarks"


def _view(one: ListedBenchmark, sentence_of: SentenceOf) -> BenchmarkView:
    benchmark, subject = one.entry.benchmark, one.search or one.entry.benchmark
    statuses = [status for status, count in one.entry.counts.items() for _ in range(count)]
    return BenchmarkView(
        id=subject.id,
        name=benchmark_title(subject.name),
        created=instant(subject.created_at_unix_ns),
        covered=_covered(one.entry),
        note=f"{SEARCH_NOUNS[one.search.kind]}, {count_of(one.steps, 'step')}" if one.search else _note(benchmark),
        said=_said(one, sentence_of),
        tallies=tallies(statuses) or (("nothing measured", "gray"),),
        search=one.search,
    )


def _said(one: ListedBenchmark, sentence_of: SentenceOf) -> str:
    if one.search is not None:  # the fastest of its steps may break a limit, or be wrong
        return sentence_of(one.search) or ""
    is_gate = one.entry.benchmark.plan.get("gate")
    return "" if is_gate else _fastest(one.fastest, several_models=len(one.entry.models) > 1)


def _covered(entry: BenchmarkEntry) -> str:
    models = [shortened(model, _LONGEST_MODEL) for model in entry.models]
    targets = count_of(len(entry.targets), "target") if len(entry.targets) > 1 else ", ".join(entry.targets)
    return " · ".join(filter(None, (_few(models), _few(entry.engines), targets)))


def _few(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _fastest(fastest: Fastest | None, *, several_models: bool) -> str:
    if fastest is None:
        return ""
    model = (shortened(fastest.model, _LONGEST_MODEL),) if several_models else ()
    where = ", ".join(
        (*model, fastest.engine, f"batch {fastest.batch}", cores_in_words(fastest.cores, fastest.cluster))
    )
    unsure = " (inconclusive)" if fastest.status is Status.INCONCLUSIVE else ""
    return f"Highest measured: {number(fastest.items_per_s)} items/s{unsure} with {where}"


def _note(benchmark: Benchmark) -> str:
    rerun = f"re-run of {benchmark.rerun_of}" if benchmark.rerun_of else ""
    step = f"step of the search {search}" if (search := search_of(benchmark)) else ""
    return ", ".join(filter(None, (rerun, step, "imported" if benchmark.imported else "")))
