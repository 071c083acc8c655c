"""The command line `enginebench`: one module a command group.

Data goes to stdout, progress and remarks to stderr; the exit codes are those of `errors.ExitCode`.
"""

import importlib.metadata
import logging
import os
import resource
import sys
from collections.abc import Sequence
from errno import EMFILE, ENFILE
from importlib import import_module
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from enginebench_controller.cli.console import complain
from enginebench_controller.errors import INTERRUPTED, EnginebenchError, ExitCode, InputError, code_of, wrong_value
from enginebench_controller.jobs.telling import telling_how_it_ends
from enginebench_proto.agreed import logs

MODULES = {
    "running": ("demo", "run", "rerun", "resume"),
    "ladder": ("ladder",),
    "benchmarks": ("list", "show", "remove", "export", "import"),
    "compare": ("compare",),
    "gate": ("gate",),
    "trend": ("trend",),
    "profiles": ("profile", "profiles"),
    "prospects": ("prospects",),
    "advise": ("advise",),
    "flops": ("flops",),
    "targets": ("targets", "devices"),
    "authority": ("ca",),
    "models": ("models",),
    "jobs": ("jobs",),
    "store": ("query", "store"),
}
"""The modules in `commands`, in the order of the help, and the first words of what each registers."""

GROUP = "enginebench.commands"
"""The entry points by which other packages add commands, as the pages add `ui`: the first word, and a function that is
given the `typer.Typer` to register at.
"""

_FILES, _FEWEST_FILES = 1024, 64
"""How many files a command would like to have open at once, and with how many it gets along."""

_NO_MORE_FILES = "no more files can be opened, as this process may have {} at once: allow it more with `ulimit -n`"

_INTERRUPTED = "interrupted; what was finished is stored"

_log = logging.getLogger(__name__)


def make_app(words: Sequence[str] = ()) -> typer.Typer:
    """The command line; with `words`, those of a call, only the part of it that they begin with.

    Most of what a command needs to start is the libraries of other commands: each module is loaded when it is called.
    """
    app = typer.Typer(
        name="enginebench",
        help="Put inference engines on the test bench: on every machine, measured the same way.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(log_what_happens)
    first = next((word for word in words if not word.startswith("-")), "")
    called = [name for name, commands in MODULES.items() if first in commands]
    for name in called or MODULES:
        import_module(f"{__name__}.commands.{name}").register(app)
    if not called:
        for entry in importlib.metadata.entry_points(group=GROUP):
            if first in {"", entry.name}:
                entry.load()(app)
    return app


def _tell_version(asked: bool) -> None:
    if asked:
        print(importlib.metadata.version("enginebench"))  # data
        raise typer.Exit


def log_what_happens(
    verbose: Annotated[
        bool,
        typer.Option("--verbose", envvar="ENGINEBENCH_VERBOSE", help="Log on standard error what happens."),
    ] = False,
    log_format: Annotated[
        logs.LogFormat,
        typer.Option(envvar="ENGINEBENCH_LOG_FORMAT", help="How those lines look; json is an object a line."),
    ] = logs.LogFormat.TEXT,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version, and nothing else."),
    ] = False,
) -> None:
    """Options of all commands."""
    if verbose:
        _set_up_logs(log_format)


def _set_up_logs(log_format: logs.LogFormat) -> None:
    """Log to standard error what happens; without this, commands only complain."""
    logger = logging.getLogger("enginebench_controller")
    logger.addHandler(logs.to_standard_error(log_format))
    logger.setLevel(logging.INFO)
    logger.propagate = False


def _allow_files() -> None:
    """Let this process have the files open that it needs. Raises `InputError` where it may not.

    Beforehand, since DuckDB and gRPC end the process without a word of ours where they get none.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _FILES:
        return
    allowed = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < _FEWEST_FILES:
        raise InputError(_NO_MORE_FILES.format(allowed))


def _quieten_grpc() -> None:
    """Keep the lines that gRPC's core writes off standard error, also for errors that sentences of ours explain."""
    if "--verbose" not in sys.argv and not os.environ.get("ENGINEBENCH_VERBOSE"):
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def main() -> None:
    """Run the command line; every foreseen error becomes one sentence on stderr and its exit code."""
    with telling_how_it_ends():
        _run()


def _run() -> None:
    _quieten_grpc()
    try:
        _allow_files()
        command = without_types(typer.main.get_command(make_app(sys.argv[1:])))
        code = command(prog_name="enginebench", standalone_mode=False) or ExitCode.OK
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
        _log.info("command failed", extra=logs.told(code=code_of(type(error)), reason=str(error)))
        complain(str(error))
        sys.exit(int(error.exit_code))
    except KeyboardInterrupt:
        complain(_INTERRUPTED)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone, as in `enginebench list | head`; that is no mistake of ours.
        sys.stdout = None  # keeps the interpreter from flushing into the closed pipe
        sys.exit(int(ExitCode.OK))
    except OSError as error:
        if error.errno in {EMFILE, ENFILE}:
            complain(_NO_MORE_FILES.format(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
            sys.exit(int(ExitCode.USAGE))
        if error.filename is None:  # of no file that anybody named: a mistake of ours
            raise
        complain(f"cannot use {error.filename}: {error.strerror}; mind its name, whose it is, and the room left there")
        sys.exit(int(ExitCode.USAGE))


def without_types(command: Any, parent: typer.Context | None = None) -> Any:
    """The command, whose flags and arguments show no type in the help; those of its own commands neither."""
    context = typer.Context(command, parent=parent, **command.context_settings)
    for child in getattr(command, "commands", {}).values():
        without_types(child, context)
    for parameter in command.get_params(context):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None
    return command


def usage_sentence(error: typer.TyperException) -> str:
    """What was wrong with a command line, with the option's name, and where to read more. Empty if help was shown."""
    said = _of_values(error) or _in_lower_case(error.format_message().rstrip("."))
    context = getattr(error, "ctx", None)
    return f"{said}; see `{context.command_path} --help`" if said and context else said


def _of_values(error: typer.TyperException) -> str:
    cause, parameter = error.__cause__, getattr(error, "param", None)
    if parameter is None or not isinstance(cause, ValidationError):
        return ""
    name = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
    return "\n".join(f"{name}: {wrong_value(problem)}" for problem in cause.errors())


def _in_lower_case(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
