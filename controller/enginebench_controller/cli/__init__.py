"""The command line `enginebench`: one module a command group.

Data goes to stdout, progress and remarks to stderr; the exit codes are those of `errors.ExitCode`.
"""

import sys

import typer

from enginebench_controller.cli import (
    advise,
    authority,
    benchmarks,
    compare,
    flops,
    jobs,
    ladder,
    models,
    pages,
    profiles,
    profiling,
    prospects,
    query,
    running,
    store,
    targets,
)
from enginebench_controller.cli.console import complain
from enginebench_controller.cli.usage import usage_sentence, without_types
from enginebench_controller.errors import INTERRUPTED, EnginebenchError, ExitCode
from enginebench_controller.jobs.telling import telling_how_it_ends

_INTERRUPTED = "interrupted; what was finished is stored"

app = typer.Typer(
    name="enginebench",
    help="Put inference engines on the test bench: on every machine, measured the same way.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (
    running,
    ladder,
    benchmarks,
    compare,
    profiling,
    profiles,
    prospects,
    advise,
    flops,
    targets,
    authority,
    models,
    jobs,
    query,
    store,
    pages,
):
    group.register(app)


def main() -> None:
    """Run the command line; every foreseen error becomes one sentence on stderr and its exit code."""
    with telling_how_it_ends():
        _run()


def _run() -> None:
    try:
        code = without_types(typer.main.get_command(app))(prog_name="enginebench", standalone_mode=False) or ExitCode.OK
        if code == INTERRUPTED:  # what typer makes of Ctrl-C
            complain(_INTERRUPTED)
        sys.exit(int(code))
    except typer.TyperException as error:
        if sentence := usage_sentence(error):
            complain(sentence)
        sys.exit(int(ExitCode.USAGE))
    except typer.Abort:
        complain("the question was not answered, so nothing was done; --yes answers it beforehand")
        sys.exit(int(ExitCode.USAGE))
    except EnginebenchError as error:
        complain(str(error))
        sys.exit(int(error.exit_code))
    except KeyboardInterrupt:
        complain(_INTERRUPTED)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone, as in `enginebench list | head`; that is no mistake of ours.
        sys.stdout = None  # keeps the interpreter from flushing into the closed pipe
        sys.exit(int(ExitCode.OK))
