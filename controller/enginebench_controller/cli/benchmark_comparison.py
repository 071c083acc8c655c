"""Benchmarks and measurements compared, and the table of it."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.text import Text

from enginebench_controller.cli.answering import print_answers
from enginebench_controller.cli.console import UNKNOWN, print_table, remark
from enginebench_controller.cli.tables import failure_sentence
from enginebench_controller.comparing.answers import Answer, answers_across, answers_within
from enginebench_controller.comparing.pairing import (
    Compared,
    compare_pairs,
    pairs_across,
    pairs_within,
    planned_processes,
)
from enginebench_controller.comparing.words import model_words, pair_remarks, side_words
from enginebench_controller.errors import InputError
from enginebench_controller.home import Home
from enginebench_controller.planning.configurations import describe_load
from enginebench_controller.records import Benchmark, Measurement, Profile
from enginebench_controller.stats.comparison import Verdict
from enginebench_controller.trust.condensing import condensed
from enginebench_controller.trust.parity import engine_label
from enginebench_controller.trust.soundness import Soundness, left_out, soundness

STYLES = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.SAME: "bold", Verdict.INCONCLUSIVE: "yellow"}


@dataclass(frozen=True)
class Comparing:
    """What was compared, its answers, and whether all that was given could be: what failed is named, not left out in
    silence.
    """

    answers: tuple[Answer, ...]
    compared: tuple[Compared, ...]
    given: tuple[Measurement, ...]
    soundness: Soundness


def compare_benchmarks(home: Home, benchmarks: Sequence[Benchmark], practical: float) -> Comparing:
    """One benchmark within itself, or each of several with the first. Raises `InputError` where nothing compares."""
    models = home.store.models()
    sides = [home.store.measurements(benchmark.id, with_blocks=True) for benchmark in benchmarks]
    if len(sides) == 1:
        pairs = list(pairs_within(sides[0], models))
    else:
        pairs = [pair for other in sides[1:] for pair in pairs_across(sides[0], other, models)]
    given = tuple(itertools.chain.from_iterable(sides))
    if not pairs:
        names = " and ".join(benchmark.id for benchmark in benchmarks)
        why = "no two measurements with numbers had the same work"
        raise InputError("\n".join([f"there is nothing to compare in {names}: {why}", *failures(given)]))
    planned = planned_processes(benchmarks)
    compared = compare_pairs(pairs, home.store.block_samples, models, practical, planned)
    blocks = home.store.block_latencies([one.id for one in given if one.latency is not None])
    if len(benchmarks) == 1:
        answers = answers_within(given, blocks, models, benchmarks[0].plan, practical)
    else:
        answers = answers_across(compared, _names(benchmarks), blocks, models, practical, planned)
    return Comparing(answers, compared, given, replace(soundness(given, models), left_out=left_out(benchmarks)))


def compare_measurements(home: Home, measurements: Sequence[Measurement], practical: float) -> Comparing:
    """Each of several measurements with the first that has numbers, whatever their work.

    Raises `InputError` where fewer than two have numbers.
    """
    if len(measurements) < 2:
        raise InputError("a comparison needs two measurements or more; name another one")
    numbered = [one for one in measurements if one.latency is not None]
    if len(numbered) < 2:
        why = "a comparison needs two measurements with numbers"
        raise InputError("\n".join([why, *failures(measurements)]))
    pairs = [(numbered[0], other) for other in numbered[1:]]
    models = home.store.models()
    planned = planned_processes(home.store.benchmark(one) for one in {one.benchmark_id for one in numbered})
    compared = compare_pairs(pairs, home.store.block_samples, models, practical, planned)
    blocks = home.store.block_latencies([one.id for one in numbered])
    answers = answers_across(compared, {}, blocks, models, practical, planned)
    told = tuple(replace(one, remarks=(*_unlike_work(one.first, one.second), *one.remarks)) for one in compared)
    return Comparing(answers, told, tuple(measurements), soundness(measurements, models))


def _names(benchmarks: Sequence[Benchmark]) -> dict[str, str]:
    """What each is called: by its name, unless others have that too."""
    names = [one.name for one in benchmarks]
    return {one.id: one.name if names.count(one.name) == 1 else one.id for one in benchmarks}


def failures(outcomes: Iterable[Measurement | Profile]) -> list[str]:
    """A line for each that has no numbers, with the reason."""
    return [
        f"  {one.status}: {one.model_name} on {engine_label(one)} ({one.target}, {one.configuration.device}, "
        f"{one.configuration.size}): {failure_sentence(one.failure) if one.failure else 'no reason was kept'}"
        for one in outcomes
        if not one.status.has_numbers
    ]


def _unlike_work(first: Measurement, second: Measurement) -> Iterator[str]:
    """Benchmarks only pair what did the same work; single measurements may be of anything."""
    for axis in ("device", "batch", "cores", "streams", "hint", "load", "requests"):
        values = [getattr(one.configuration, axis) for one in (first, second)]
        if values[0] != values[1]:
            yield f"the {axis} differs: {values[0]} and {values[1]}"


def print_compared(title: str, comparing: Comparing, *, notes: bool = False) -> None:
    """The answers, a row a pair, then what limits the verdicts, and what could not be compared.

    Remarks of one kind are a line with their count, or all there with `notes`.
    """
    compared = comparing.compared
    print_answers(comparing.answers)
    columns = [("model", False), ("device", False), ("batch", True), ("cores", True), ("load", False)]
    columns += [("first", False), ("second", False), ("ratio", True), ("95 % interval", False), ("p", True)]
    print_table(title, [*columns, ("the second is", False)], [_row(one) for one in compared])
    remark("ratio: the second's median latency ÷ the first's; p is corrected for the number of comparisons")
    said = list(pair_remarks(compared))
    lines = map(str, said) if notes else condensed(said, len(compared))
    for line in dict.fromkeys([*(f"  note: {one}" for one in lines), *failures(comparing.given)]):
        remark(line)


def _row(compared: Compared) -> list[object]:
    chosen, found = compared.first.configuration, compared.comparison
    interval = UNKNOWN if found.low is None or found.high is None else f"{found.low:.3f} to {found.high:.3f}"
    return [
        *(model_words(compared), chosen.device, chosen.batch, chosen.cores, describe_load(chosen)),
        *(side_words(compared.first), side_words(compared.second)),
        UNKNOWN if found.ratio is None else f"{found.ratio:.3f}",
        interval,
        UNKNOWN if found.p_value is None else f"{found.p_value:.3g}",
        Text(found.verdict, style=STYLES[found.verdict]),
    ]
