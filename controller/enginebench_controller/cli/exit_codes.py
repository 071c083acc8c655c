"""What the exit code of a command says of its measurements."""

from collections.abc import Iterable

from enginebench_controller.errors import ExitCode
from enginebench_controller.records import Measurement


def exit_code(measurements: Iterable[Measurement]) -> int:
    """0 when every configuration has numbers, 1 otherwise."""
    done = all(one.status.has_numbers for one in measurements)
    return int(ExitCode.OK if done else ExitCode.SOME_FAILED)
