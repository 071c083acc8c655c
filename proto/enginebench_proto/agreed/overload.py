"""What an open loop leaves unsent, and from where on that is no longer chance."""

import math

SCHEDULE_TOLERANCE = 0.02
"""An open loop that falls behind its schedule by a larger share is overloaded, chance apart."""


def is_overload(unsent: int, scheduled: int) -> bool:
    """Whether so many of the arrivals that were due are left unsent only where more arrive than can be served.

    Somebody waits at most instants of a load that is kept up with, too; where as many arrive as can just be served, the
    queue after n of them is about √n long (the reflected random walk of Kingman, "The Heavy Traffic Approximation in
    the Theory of Queues", 1965).
    """
    return unsent > SCHEDULE_TOLERANCE * scheduled + math.sqrt(scheduled)
