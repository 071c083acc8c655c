"""Benchmarks and measurements compared, and the table of it."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.text import Text

from enginebench_controller.cli.console import UNKNOWN, print_table, remark
from enginebench_controller.comparing.pairing import Compared, compare_pairs, pairs_across, pairs_within
from enginebench_controller.errors import InputError
from enginebench_controller.home import Home
from enginebench_controller.planning.configurations import describe_load
from enginebench_controller.records import Benchmark, Measurement
from enginebench_controller.stats.comparison import Verdict
from enginebench_controller.trust.parity import engine_label

STYLES = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.SAME: "bold", Verdict.INCONCLUSIVE: "yellow"}


def compare_benchmarks(home: Home, benchmarks: Sequence[Benchmark], practical: float) -> tuple[Compared, ...]:
    """One benchmark within itself, or each of several with the first. Raises `InputError` where nothing compares."""
    sides = [home.store.measurements(benchmark.id, with_blocks=True) for benchmark in benchmarks]
    if len(sides) == 1:
        pairs = list(pairs_within(sides[0]))
    else:
        pairs = list(itertools.chain.from_iterable(pairs_across(sides[0], other) for other in sides[1:]))
    if not pairs:
        names = " and ".join(benchmark.id for benchmark in benchmarks)
        raise InputError(f"there is nothing to compare in {names}: no two measurements with numbers had the same work")
    return compare_pairs(pairs, home.store.block_samples, home.store.models(), practical)


def compare_measurements(home: Home, measurements: Sequence[Measurement], practical: float) -> tuple[Compared, ...]:
    """Each of several measurements with the first, whatever their work. Raises `InputError` for one without numbers."""
    if len(measurements) < 2:
        raise InputError("a comparison needs two measurements or more; name another one")
    for one in measurements:
        if one.latency is None:
            raise InputError(f"measurement {one.id} has no numbers: its status is {one.status}")
    pairs = [(measurements[0], other) for other in measurements[1:]]
    compared = compare_pairs(pairs, home.store.block_samples, home.store.models(), practical)
    return tuple(replace(one, remarks=(*_unlike_work(one.first, one.second), *one.remarks)) for one in compared)


def _unlike_work(first: Measurement, second: Measurement) -> Iterator[str]:
    """Benchmarks only pair what did the same work; single measurements may be of anything."""
    for axis in ("device", "batch", "cores", "streams", "hint", "load", "requests"):
        values = [getattr(one.configuration, axis) for one in (first, second)]
        if values[0] != values[1]:
            yield f"the {axis} differs: {values[0]} and {values[1]}"


def print_compared(title: str, compared: Sequence[Compared]) -> None:
    """A row a pair, then what limits the verdicts."""
    columns = [("model", False), ("device", False), ("batch", True), ("cores", True), ("load", False)]
    columns += [("first", False), ("second", False), ("ratio", True), ("95 % interval", False), ("p", True)]
    print_table(title, [*columns, ("the second is", False)], [_row(one) for one in compared])
    remark("ratio: the second's median latency ÷ the first's; p is corrected for the number of comparisons")
    for line in dict.fromkeys(line for one in compared for line in _lines(one)):
        remark(line)


def _row(compared: Compared) -> list[object]:
    chosen, found = compared.first.configuration, compared.comparison
    interval = UNKNOWN if found.low is None or found.high is None else f"{found.low:.3f} to {found.high:.3f}"
    return [
        *(compared.first.model_name, chosen.device, chosen.batch, chosen.cores, describe_load(chosen)),
        *(_label(compared.first), _label(compared.second)),
        UNKNOWN if found.ratio is None else f"{found.ratio:.3f}",
        interval,
        UNKNOWN if found.p_value is None else f"{found.p_value:.3g}",
        Text(found.verdict, style=STYLES[found.verdict]),
    ]


def _label(measurement: Measurement) -> str:
    return f"{engine_label(measurement)} {measurement.configuration.precision}"


def _lines(compared: Compared) -> list[str]:
    where = f"{_label(compared.first)} and {_label(compared.second)}, batch {compared.first.configuration.batch}"
    said = [*compared.remarks, compared.comparison.note]
    return [f"  note: {where}: {sentence}" for sentence in said if sentence]
