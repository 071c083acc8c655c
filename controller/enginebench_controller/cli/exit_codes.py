"""What a command says at its end of all that it came to: the last line, and the exit code."""

from enginebench_controller.cli.console import remark
from enginebench_controller.errors import ExitCode
from enginebench_controller.jobs.telling import tell_wrong_outputs
from enginebench_controller.trust.soundness import Soundness


def concluded(found: Soundness) -> int:
    """0 when all can be used; else 1, and the last line says what cannot. A job tells it, too."""
    tell_wrong_outputs(found.problems)
    if found:
        return int(ExitCode.OK)
    remark(found.sentence)
    return int(ExitCode.SOME_FAILED)
