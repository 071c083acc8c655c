"""The command line `enginebench`: one module a command group.

Data goes to stdout, progress and remarks to stderr; the exit codes are those of `errors.ExitCode`.
"""

import sys

import typer

from enginebench_controller.cli import benchmarks, compare, ladder, models, pages, profiles, running, targets
from enginebench_controller.cli.console import complain
from enginebench_controller.errors import EnginebenchError, ExitCode

INTERRUPTED = 130

app = typer.Typer(
    name="enginebench",
    help="Put inference engines on the test bench: on every machine, measured the same way.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (running, ladder, benchmarks, compare, profiles, targets, models, pages):
    group.register(app)


def main() -> None:
    """Run the command line; every foreseen error becomes one sentence on stderr and its exit code."""
    try:
        app()
    except EnginebenchError as error:
        complain(str(error))
        sys.exit(int(error.exit_code))
    except KeyboardInterrupt:
        complain("interrupted; what was finished is stored")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone, as in `enginebench list | head`; that is no mistake of ours.
        sys.stdout = None  # keeps the interpreter from flushing into the closed pipe
        sys.exit(int(ExitCode.OK))
