"""The command line `enginebench`: one module a command group.

Data goes to stdout, progress and remarks to stderr; the exit codes are those of `errors.ExitCode`.
"""

import ctypes
import importlib.metadata
import itertools
import logging
import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from errno import EMFILE, ENFILE, EROFS
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from enginebench_controller.cli.console import check_stdout, complain
from enginebench_controller.errors import INTERRUPTED, EnginebenchError, ExitCode, InputError, code_of
from enginebench_controller.home import JOB_VARIABLE, default_home
from enginebench_controller.typed_paths import SET_UTF8
from enginebench_controller.typed_values import plain_whole, wrong_value
from enginebench_proto.agreed import logs
from enginebench_proto.agreed.streams import keep_streams

MODULES: Mapping[str, Mapping[str, str]] = {
    "running": {
        "demo": "Measure two real networks on every engine of this machine, and say where to look.",
        "run": "Measure models on engines. Lists multiply out; an impossible combination is "
        "refused before anything runs.",
        "rerun": "Run a benchmark again: a new one, linked to the old, with the very same model versions.",
        "resume": "Collect, once, what interrupted commands have left on their targets. Living "
        "commands are left alone.",
    },
    "ladder": {"ladder": "One model made faster step by step, after OpenVINO's notebooks."},
    "benchmarks": {
        "list": "List the benchmarks, newest first.",
        "show": "Show one benchmark: its answers, then its measurements.",
        "remove": "Remove benchmarks and their measurements; nothing undoes it, but `export` keeps a copy.",
        "export": "Export benchmarks or profiles: as JSON that `import` reads back, or for other programs.",
        "import": "Import exported benchmarks or profiles; what is already there stays as it is.",
    },
    "compare": {
        "compare": "Say which is faster, by how much, and how sure that is. Ratios below 1 mean "
        "that the second takes less time.",
    },
    "gate": {"gate": "Say whether head is worse than base, within a budget: worse, pass or cannot tell."},
    "recommend": {
        "recommend": "Search for the configuration to deploy: engine, batch, cores, streams, requests and hint, within "
        "limits.",
    },
    "bisect": {
        "bisect": "Find the version that made a model slower: halving, each step a gate, and a last gate of the two "
        "neighbours.",
    },
    "trend": {
        "trend": "What has been measured again and again, and with --alerts where it changed: "
        "the machine, or the engine?",
    },
    "profiles": {
        "profile": "Time every layer of a model. Never mixed with measurements: counters cost time of their own.",
        "profiles": "The profiles that were made: per-layer times, matched and counted.",
    },
    "prospects": {"prospects": "What optimization would bring."},
    "advise": {"advise": "Say what a profile suggests, each with its numbers, the layers it is about and what to do."},
    "flops": {
        "flops": "Count multiply-adds, operations, parameters and bytes of a model, without "
        "running it. 1 MAC = 2 FLOPs.",
    },
    "targets": {
        "targets": "The machines that run agents.",
        "devices": "Show every target's engines and devices, with the reason for each engine that is missing.",
    },
    "authority": {"ca": "Who belongs: certificates for agents and for those who use them."},
    "models": {"models": "The model versions on this machine."},
    "plugin": {"plugin": "For those who bring an engine of their own."},
    "jobs": {"jobs": "Benchmarks and other long work that the pages started."},
    "store": {
        "query": "Ask the results by SQL (DuckDB's), reading only; docs/reference/tables.md lists tables and columns.",
        "store": "The file that holds all results: checking it, copying it, sharing it.",
    },
}
"""The modules in `commands`, in the order of the help, with the first word of each command and how its help begins.

So the help of all is there without loading what they need; a test holds these texts to those of the commands.
"""

GROUPS = frozenset({"ladder", "profiles", "prospects", "targets", "ca", "models", "plugin", "jobs", "store"})
"""Those that have commands of their own; the help lists them behind the others."""

ENTRY_POINTS = "enginebench.commands"
"""The entry points by which other packages add commands, as the pages add `ui`: the first word, and a function that is
given the `typer.Typer` to register at.
"""

_FILES, _FEWEST_FILES = 8192, 64
"""How many files a command would like to have open at once, of which each target is one or two, and the fewest."""

_NO_MORE_FILES = "no more files can be opened, as this process may have {} at once: allow it more with `ulimit -n`"

_M_TRIM_THRESHOLD, _KEPT_BYTES = -1, 65_536

_INTERRUPTED = "interrupted; what was finished is stored"

_COMPLETE = "_ENGINEBENCH_COMPLETE"
"""Set where a shell asks for completions."""

_VALUES = frozenset(map(str, logs.LogFormat))
"""What may stand behind an option of all commands."""

_log = logging.getLogger(__name__)


def make_app(words: Sequence[str] | None = None) -> typer.Typer:
    """The command line; with the `words` of a call only what the first names, and of the rest what the help says.

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
    command = _command(words or ())
    called = [name for name, commands in MODULES.items() if words is None or command in commands]
    for name in called:
        import_module(f"{__name__}.commands.{name}").register(app)
    if not called:
        for name, text in (one for commands in MODULES.values() for one in commands.items()):
            if name in GROUPS:
                app.add_typer(typer.Typer(help=text), name=name)
            else:
                app.command(name, help=text)(_never_run)
    if words is None or not called:
        for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
            entry.load()(app)
    return app


def _command(words: Sequence[str]) -> str:
    """The first word that is neither an option of all commands nor the value of one; "" where there is none."""
    return next(_own_words(words), "")


def _own_words(words: Sequence[str]) -> Iterator[str]:
    return (one for one in words if not one.startswith("-") and one not in _VALUES)


def _offering_app() -> typer.Typer | None:
    """The command line with what a shell is to offer next and no more, so that nothing else is loaded; None where that
    takes the command itself.
    """
    from enginebench_controller.cli import completion  # noqa: PLC0415  # only where a shell asks

    line = completion.typed()
    name = list(itertools.islice(_own_words(line.before), 1 + (_command(line.before) in GROUPS)))
    offer = completion.quick_offer(line, " ".join(name))
    if offer is None:
        return None

    def command(
        words: Annotated[list[str] | None, typer.Argument(autocompletion=offer)] = None,
        engine: Annotated[str | None, typer.Option(autocompletion=offer)] = None,
        target: Annotated[str | None, typer.Option(autocompletion=offer)] = None,
    ) -> None: ...

    app = own = typer.Typer(name="enginebench")
    app.callback()(log_what_happens)
    for group in name[:-1]:
        own = typer.Typer()
        own.callback()(_never_run)
        app.add_typer(own, name=group)
    own.command(name[-1], context_settings={"ignore_unknown_options": True})(command)
    return app


def _never_run() -> None:
    """Stands in the help for a command that no word names."""


def _tell_version(asked: bool) -> None:
    if asked:
        check_stdout()
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


def _give_memory_back() -> None:
    """Have what is freed go back to the system, where glibc allocates: it would keep tens of megabytes of each peak.

    A threshold that is set once no longer grows with what was freed; see mallopt(3).
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def _quieten_grpc() -> None:
    """Keep the lines that gRPC's core writes off standard error, also for errors that sentences of ours explain."""
    if "--verbose" not in sys.argv and not os.environ.get("ENGINEBENCH_VERBOSE"):
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _multiply_with_one_thread() -> None:
    """Keep the library that NumPy is about to load from a pool of threads: matrices here have a few hundred rows, and
    threads that wait for each other use the processors that are measured on. What agents start is not told of it.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    """Run the command line; every foreseen error becomes one sentence on stderr and its exit code."""
    keep_streams()
    if _COMPLETE in os.environ:
        from enginebench_controller.cli.completion import words_made_whole  # noqa: PLC0415  # only where a shell asks

        with words_made_whole():
            _run()
        return
    if JOB_VARIABLE not in os.environ:
        _run()
        return
    from enginebench_controller.jobs.telling import telling_how_it_ends  # noqa: PLC0415  # it loads much

    with telling_how_it_ends():
        _run()


def _words() -> list[str]:
    """The words of this call, or where a shell asks what may stand next, those that are there already."""
    if _COMPLETE not in os.environ:
        return sys.argv[1:]
    return (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()[1:]


def _run() -> None:
    _quieten_grpc()
    _multiply_with_one_thread()
    _give_memory_back()
    try:
        _allow_files()
        app = (_offering_app() if _COMPLETE in os.environ else None) or make_app(_words())
        command = once_each(in_digits(without_types(typer.main.get_command(app))))
        code = command(prog_name="enginebench", standalone_mode=False) or ExitCode.OK
        if code == INTERRUPTED:  # what typer makes of Ctrl-C
            complain(_INTERRUPTED)
        sys.stdout.flush()  # what cannot be written is told here, and not by the interpreter
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
    except UnicodeEncodeError as error:  # of a file's name: what is shown is spelled otherwise
        complain(f"this Python writes names in {error.encoding}, which lacks letters of one: {SET_UTF8}")
        sys.exit(int(ExitCode.USAGE))
    except OSError as error:
        if error.errno in {EMFILE, ENFILE}:
            complain(_NO_MORE_FILES.format(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
            sys.exit(int(ExitCode.USAGE))
        if error.filename is None:  # of no file that anybody named: a mistake of ours
            raise
        complain(_unusable(error))
        sys.exit(int(ExitCode.USAGE))


def _unusable(error: OSError) -> str:
    """What became of a file that somebody named; of a home that can only be read, what the store says of its own."""
    if error.errno == EROFS and Path(error.filename).is_relative_to(default_home().path):
        from enginebench_controller.store.failures import explain  # noqa: PLC0415  # most calls need no sentence of it

        return explain(error, Path(error.filename))
    return f"cannot use {error.filename}: {error.strerror}; mind its name, whose it is, and the room left there"


def without_types(command: Any, parent: typer.Context | None = None) -> Any:
    """The command, whose flags and arguments show no type in the help; those of its own commands neither."""
    context = typer.Context(command, parent=parent, **command.context_settings)
    for child in getattr(command, "commands", {}).values():
        without_types(child, context)
    parameters = command.get_params(context)
    groups = [group for one in parameters if (group := getattr(one, "rich_help_panel", None))]
    for parameter in parameters:
        if groups and parameter.name == "help":  # else it would stand before all groups, alone
            parameter.rich_help_panel = groups[-1]
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None
    return command


def in_digits(command: Any) -> Any:
    """The command, whose whole numbers are plain digits: typer has pydantic read them, to which "1.000" is 1."""
    for child in getattr(command, "commands", {}).values():
        in_digits(child)
    for parameter in command.params:
        if parameter.type_descriptor.annotation is int:
            parameter.process_value = partial(_whole, parameter, parameter.process_value)
    return command


def _whole(parameter: Any, process: Callable[..., Any], context: typer.Context, value: Any) -> Any:
    try:
        plain_whole(value)
    except ValueError as error:
        raise typer.BadParameter(str(error), ctx=context, param=parameter) from error
    return process(context, value)


def once_each(command: Any) -> Any:
    """The command, which refuses a list that is given twice and counts once: the first would be lost in silence.

    Of a single value the last counts, as everywhere: a script's own defaults can be overridden.
    """
    for child in getattr(command, "commands", {}).values():
        once_each(child)
    parse = command.parse_args

    def parse_args(context: typer.Context, words: list[str]) -> list[str]:
        for option in command.params:
            if option.param_type_name == "option" and not option.multiple and "," in str(option.metavar):
                _refuse_repeated(option, words)
        left: list[str] = parse(context, words)
        return left

    command.parse_args = parse_args
    return command


def _refuse_repeated(option: Any, words: Sequence[str]) -> None:
    ours = itertools.takewhile(lambda word: word != "--", words)
    count = sum(word.partition("=")[0] in option.opts for word in ours)
    if count > 1:
        raise InputError(f"{option.opts[0]} is given {count} times: give it once, with commas between several values")


def usage_sentence(error: typer.TyperException) -> str:
    """What was wrong with a command line, with the option's name, and where to read more. Empty if help was shown."""
    said = _of_values(error) or _in_lower_case(error.format_message().rstrip("."))
    context = getattr(error, "ctx", None)
    return f"{said}; see `{context.command_path} --help`" if said and context else said


def _of_values(error: typer.TyperException) -> str:
    from pydantic import ValidationError  # noqa: PLC0415  # most calls have no mistake, and load it not at all

    cause, parameter = error.__cause__, getattr(error, "param", None)
    if parameter is None or not isinstance(cause, ValueError):
        return ""
    name = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
    if not isinstance(cause, ValidationError):
        return f"{name}: {cause}"
    return "\n".join(f"{name}: {wrong_value(problem).rstrip('.')}" for problem in cause.errors())


def _in_lower_case(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
