"""`enginebench compare`: engine against engine within one benchmark, version against version across two."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from enginebench_controller.cli.console import print_json, print_table, remark
from enginebench_controller.configurations import describe_load
from enginebench_controller.document import SCHEMA_VERSION
from enginebench_controller.errors import InputError
from enginebench_controller.home import Home, default_home
from enginebench_controller.json_form import CONFIGURATION, finite
from enginebench_controller.pairing import Compared, compare_pairs, pairs_across, pairs_within
from enginebench_controller.parity import engine_label
from enginebench_controller.plan import parse_percent
from enginebench_controller.records import Benchmark, Measurement
from enginebench_controller.stats.comparison import Verdict

UNKNOWN = "–"
STYLES = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.SAME: "bold", Verdict.INCONCLUSIVE: "yellow"}


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("compare")(compare)


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="Id, start of an id, or name of a benchmark.")],
    second: Annotated[
        str | None, typer.Argument(metavar="B", help="Another one; without it, the engines of A are compared.")
    ] = None,
    practical: Annotated[
        str, typer.Option(metavar="PERCENT", help="The smallest difference worth speaking of.")
    ] = "1%",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Say which is faster, by how much, and how sure that is. Ratios below 1 mean that the second takes less time."""
    home = default_home()
    benchmarks = [home.store.benchmark(name) for name in (first, second) if name is not None]
    compared = _compare(home, benchmarks, _share(practical))
    if json:
        print_json(_document(benchmarks, compared))
    else:
        _print(benchmarks, compared)


def _share(practical: str) -> float:
    try:
        return parse_percent(practical)
    except ValueError as error:
        raise InputError(f"--practical: {error}") from None


def _compare(home: Home, benchmarks: Sequence[Benchmark], practical: float) -> tuple[Compared, ...]:
    sides = [home.store.measurements(benchmark.id, with_blocks=True) for benchmark in benchmarks]
    pairs = list(pairs_within(sides[0]) if len(sides) == 1 else pairs_across(*sides))
    if not pairs:
        names = " and ".join(benchmark.id for benchmark in benchmarks)
        raise InputError(f"there is nothing to compare in {names}: no two measurements with numbers had the same work")
    return compare_pairs(pairs, home.store.block_samples, home.store.models(), practical)


def _document(benchmarks: Sequence[Benchmark], compared: Sequence[Compared]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "benchmarks": [{"id": benchmark.id, "name": benchmark.name} for benchmark in benchmarks],
        "comparisons": [_comparison(one) for one in compared],
    }


def _comparison(compared: Compared) -> dict[str, Any]:
    found = compared.comparison
    return {
        "first": _side(compared.first),
        "second": _side(compared.second),
        "ratio": finite(found.ratio),
        "ratio_low": finite(found.low),
        "ratio_high": finite(found.high),
        "p_value": finite(found.p_value),
        "verdict": found.verdict.value,
        "method": found.method.value if found.method else None,
        "paired": compared.is_paired,
        "note": found.note,
        "remarks": list(compared.remarks),
    }


def _side(measurement: Measurement) -> dict[str, Any]:
    engine = measurement.engine
    return {
        "id": measurement.id,
        "benchmark_id": measurement.benchmark_id,
        "target": measurement.target,
        "engine": {"name": engine.name, "version": engine.version, "environment": engine.environment},
        "model": {"name": measurement.model_name, "digest": measurement.model_digest},
        "configuration": CONFIGURATION.to_data(measurement.configuration),
        "median_ns": measurement.latency.median_ns if measurement.latency else None,
    }


def _print(benchmarks: Sequence[Benchmark], compared: Sequence[Compared]) -> None:
    columns = [("model", False), ("device", False), ("batch", True), ("cores", True), ("load", False)]
    columns += [("first", False), ("second", False), ("ratio", True), ("95 % interval", False), ("p", True)]
    title = " against ".join(f"{benchmark.name} ({benchmark.id})" for benchmark in benchmarks)
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
