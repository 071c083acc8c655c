"""Whether the schedule of a configuration under an open loop is sound."""

import math

from enginebench_plugins.types import UnsupportedSettingsError
from enginebench_proto.v1.configuration_pb2 import (
    ARRIVAL_PROCESS_CONSTANT,
    ARRIVAL_PROCESS_POISSON,
    LOAD_OPEN_LOOP,
    Configuration,
)

_PROCESSES = frozenset({ARRIVAL_PROCESS_CONSTANT, ARRIVAL_PROCESS_POISSON})


def check_arrivals(configuration: Configuration) -> None:
    """Raises `UnsupportedSettingsError` for an open loop without a sound schedule, or a schedule without one."""
    if configuration.load != LOAD_OPEN_LOOP:
        if configuration.HasField("arrivals"):
            raise UnsupportedSettingsError("Only the load open-loop has arrivals; leave them out or ask for it.")
        return
    if configuration.arrivals.process not in _PROCESSES:
        raise UnsupportedSettingsError("The load open-loop needs arrivals: constant or poisson.")
    rate_per_s = configuration.arrivals.rate_per_s
    if not (math.isfinite(rate_per_s) and rate_per_s > 0):
        raise UnsupportedSettingsError(f"The load open-loop needs a rate above 0 per second, not {rate_per_s:g}.")
