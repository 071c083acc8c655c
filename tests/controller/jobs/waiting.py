"""Waiting for jobs, which are other processes."""

import time

from enginebench_controller.jobs.control import job

WITHIN_S = 90


def until(home, one, condition):
    """The job once this holds of it."""
    deadline = time.monotonic() + WITHIN_S
    while not condition(now := job(home, one.id)):
        assert time.monotonic() < deadline, now
        time.sleep(0.05)
    return now


def ended(home, one):
    """The job once it is over."""
    return until(home, one, lambda now: now.state.has_ended)
