"""When requests arrive under an open loop: endless gaps, so that memory does not grow with the schedule."""

import math
import random
from collections.abc import Iterator
from itertools import repeat

from enginebench_proto.v1.configuration_pb2 import ARRIVAL_PROCESS_CONSTANT, Arrivals


def gaps_ns(arrivals: Arrivals) -> Iterator[float]:
    """The time before each arrival since the one before it, in nanoseconds; always the same for the same seed.

    Poisson arrivals have independent gaps of −ln(1 − u)/rate, u uniform on [0, 1). `check_arrivals` has found
    rate and process sound.
    """
    mean_ns = 1e9 / arrivals.rate_per_s
    if arrivals.process == ARRIVAL_PROCESS_CONSTANT:
        return repeat(mean_ns)
    return _exponential_ns(mean_ns, random.Random(arrivals.seed))  # noqa: S311  # a schedule, not a secret


def _exponential_ns(mean_ns: float, generator: random.Random) -> Iterator[float]:
    while True:
        yield -math.log(1 - generator.random()) * mean_ns
