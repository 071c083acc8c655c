"""The order in which people read measurements, which is not that in which they were run: that one is random."""

from collections.abc import Iterable

from enginebench_controller.records import Measurement
from enginebench_controller.trust.parity import engine_label


def in_reading_order(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Sort by target, model, engine and device, then along the axes of the grid."""
    return sorted(measurements, key=_place)


def _place(measurement: Measurement) -> tuple[object, ...]:
    asked = measurement.configuration
    rate_per_s = asked.arrivals.rate_per_s if asked.arrivals else 0.0
    where = (measurement.target, measurement.model_name, engine_label(measurement), asked.device)
    axes = (asked.batch, asked.cores, asked.streams, asked.precision, asked.hint, asked.load, asked.requests)
    return (*where, *axes, rate_per_s, measurement.id)
