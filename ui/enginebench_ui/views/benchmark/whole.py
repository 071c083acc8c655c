"""A whole benchmark, shaped once for all that is shown of it: its lines, tables and what went wrong."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from enginebench_controller.documents.reading_order import in_reading_order
from enginebench_controller.records import Measurement, ModelVersion
from enginebench_controller.store.store import BenchmarkBundle
from enginebench_controller.trust.output_check import check_outputs
from enginebench_controller.trust.parity import engine_label, unequal_settings
from enginebench_ui.views.benchmark.lines import Line, lines_of
from enginebench_ui.views.measurements import FailureView, failure_views, measurement_rows
from enginebench_ui.views.originals import of_originals
from enginebench_ui.views.processes import process_rows
from enginebench_ui.views.text import Row


@dataclass(frozen=True)
class WholeBenchmark:
    """A benchmark with its measurements, without samples. `problems` of outputs are by measurement id.

    The bundle is as it was stored; `measurements`, in the same order, and all that is made of them take copies of a
    model for other batches for the model itself.
    """

    bundle: BenchmarkBundle
    measurements: tuple[Measurement, ...]
    lines: tuple[Line, ...]
    rows: tuple[Row, ...]
    processes: tuple[Row, ...]
    failures: tuple[FailureView, ...]
    unequal: tuple[str, ...]
    problems: Mapping[str, str]

    @property
    def wrong(self) -> tuple[tuple[str, str], ...]:
        """Whose outputs are wrong, and what is wrong with them; each once, though many configurations share it."""
        found = ((one, self.problems.get(one.id)) for one in self.measurements)
        return tuple(dict.fromkeys((f"{one.model_name} on {engine_label(one)}", why) for one, why in found if why))

    @property
    def id(self) -> str:
        """The benchmark's id."""
        return self.bundle.benchmark.id

    @property
    def samples(self) -> int:
        """How many raw samples it has."""
        return sum(one.latency.samples + one.latency.excluded for one in self.measurements if one.latency)


def shape(bundle: BenchmarkBundle, models: Iterable[ModelVersion]) -> WholeBenchmark:
    """Shape a benchmark; `models`, all those of the store, tell which versions are to compute the same."""
    known = tuple(models)
    checks = check_outputs(bundle.measurements, known)
    measurements = of_originals(bundle.measurements, known)
    return WholeBenchmark(
        bundle=bundle,
        measurements=measurements,
        lines=lines_of(measurements),
        rows=measurement_rows(in_reading_order(measurements), known, checks),
        processes=process_rows(in_reading_order(measurements)),
        failures=failure_views(measurements),
        unequal=unequal_settings(measurements),
        problems={identity: check.problem for identity, check in checks.items() if check.problem},
    )
