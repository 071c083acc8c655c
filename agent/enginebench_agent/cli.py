"""`enginebench-agent`: serve, manage environments, tune the machine, look after the service.

Exit code 2 and one sentence for everything that cannot be.
"""

import argparse
import importlib.metadata
import logging
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from enginebench_agent.data_folder import DataFolder, default_root
from enginebench_agent.errors import ExitCode, SetupError
from enginebench_proto.agreed.logs import LogFormat, to_standard_error
from enginebench_proto.agreed.meeting import DEFAULT_PORT
from enginebench_proto.agreed.streams import keep_streams
from enginebench_proto.agreed.typed import WHOLE, whole_number
from enginebench_proto.agreed.wheels import why_no_agent_on


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process."""
    keep_streams()
    # gRPC's core writes its own lines to standard error, also for errors that the sentences here explain.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    parsed = parser().parse_args(arguments)
    _set_up_logs(parsed.log_format, verbose=parsed.verbose)
    try:
        parsed.run(parsed)
        sys.stdout.flush()  # what cannot be written is told here, and not by the interpreter
    except SetupError as error:
        _complain(str(error))
        sys.exit(int(ExitCode.USAGE))
    except OSError as error:
        if error.filename is None:  # of no file that anybody named: a mistake of ours
            raise
        _complain(f"cannot use {error.filename} ({error.strerror}): mind whose it is, and the room left there")
        sys.exit(int(ExitCode.USAGE))
    except KeyboardInterrupt:
        sys.exit(int(ExitCode.INTERRUPTED))


def _complain(sentence: str) -> None:
    print(f"enginebench-agent: {sentence}", file=sys.stderr)  # for the person


def _set_up_logs(log_format: LogFormat, *, verbose: bool) -> None:
    """Log to standard error: what went wrong, and with `verbose` what happened."""
    logging.basicConfig(handlers=[to_standard_error(log_format)])
    logging.getLogger("enginebench_agent").setLevel(logging.INFO if verbose else logging.WARNING)


def _refuse_elsewhere() -> None:
    """Raise `SetupError` where agents do not run."""
    if reason := why_no_agent_on(platform.system()):
        raise SetupError(
            f"{reason}: start one on the machine that is to be measured, with `enginebench targets bootstrap "
            "USER@HOST` from here"
        )


def _data_folder(parsed: argparse.Namespace) -> DataFolder:
    return DataFolder(parsed.data_dir or default_root())


# The commands import what they need themselves: neither pays for the other, in time or in memory.


def _serve(parsed: argparse.Namespace) -> None:
    _refuse_elsewhere()
    from enginebench_agent.server import ServeOptions, serve  # noqa: PLC0415

    folder, trusted = _data_folder(parsed), frozenset(parsed.trust_model)
    if not (parsed.in_memory or parsed.exit_with_stdin):  # who starts it for one command collects at once
        folder.refuse_memory()
    options = ServeOptions(parsed.host, parsed.port, folder, parsed.exit_with_stdin, trusted, alone=parsed.alone)
    metrics = {"metrics_port": parsed.metrics_port, "metrics_host": parsed.metrics_host}
    access = {"tls": parsed.tls, "plain_text": parsed.plain_text, "announce": parsed.announce}
    serve(replace(options, **access, **metrics))


def _join(parsed: argparse.Namespace) -> None:
    from enginebench_agent.door.entrance import require_cryptography  # noqa: PLC0415

    require_cryptography()
    from enginebench_agent.door.joining import join  # noqa: PLC0415

    folder = parsed.tls or _data_folder(parsed).tls
    join(parsed.address, parsed.token, folder)
    print(f"wrote {folder}; next: enginebench-agent serve --host 0.0.0.0", file=sys.stderr)


def _environment_add(parsed: argparse.Namespace) -> None:
    from enginebench_agent.environments.managing import WantedEnvironment, add_environment  # noqa: PLC0415
    from enginebench_agent.starter import end_with_stdin  # noqa: PLC0415

    if parsed.exit_with_stdin:
        end_with_stdin()
    wish = WantedEnvironment(parsed.name, parsed.engine, tuple(parsed.package), parsed.python, parsed.testing)
    add_environment(wish, _data_folder(parsed))


def _environment_list(parsed: argparse.Namespace) -> None:
    from enginebench_agent.environments.managing import print_environments  # noqa: PLC0415

    print_environments(_data_folder(parsed), as_json=parsed.json)


def _environment_remove(parsed: argparse.Namespace) -> None:
    from enginebench_agent.environments.managing import remove_environment  # noqa: PLC0415

    remove_environment(parsed.name, _data_folder(parsed))


def _environment_upgrade(parsed: argparse.Namespace) -> None:
    from enginebench_agent.environments.managing import upgrade_environments  # noqa: PLC0415

    upgrade_environments(_data_folder(parsed))


def _service_unit(parsed: argparse.Namespace) -> None:
    from enginebench_agent.service import SYSTEM_DATA_DIR, Manager, UnitOptions, unit_text  # noqa: PLC0415

    manager = Manager.SYSTEM if parsed.system else Manager.USER
    data_dir = parsed.data_dir or (SYSTEM_DATA_DIR if parsed.system else default_root())
    tls = parsed.tls.absolute() if parsed.tls else None
    access = {"tls": tls, "plain_text": parsed.plain_text, "announce": parsed.announce}
    print(unit_text(UnitOptions(manager, data_dir, parsed.host, parsed.port, **access)), end="")  # data


def _health(parsed: argparse.Namespace) -> None:
    from enginebench_agent.service import UnhealthyError, check_health  # noqa: PLC0415

    try:
        check_health(parsed.address, parsed.timeout, parsed.tls)
    except UnhealthyError as error:
        _complain(str(error))
        sys.exit(int(ExitCode.UNHEALTHY))
    print("serving")  # data


def _wheel(parsed: argparse.Namespace) -> None:
    from enginebench_agent.environments.installing import pack_wheel  # noqa: PLC0415

    print(pack_wheel(parsed.folder))  # data


def _tune(parsed: argparse.Namespace) -> None:
    _refuse_elsewhere()
    from enginebench_agent.machine.tuning import Action, print_tuning  # noqa: PLC0415

    action = Action.UNDO if parsed.undo else Action.SHOW if parsed.dry_run else Action.TUNE
    print_tuning(action, _data_folder(parsed), parsed.root, as_json=parsed.json)


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="enginebench-agent", description="Puts this machine's inference engines on the test bench."
    )
    parser.add_argument("--version", action="version", version=importlib.metadata.version("enginebench"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands)
    _add_join(commands)
    environment = commands.add_parser("environment", help="the Python environments engines live in")
    actions = environment.add_subparsers(required=True, metavar="ACTION")
    _add_environment_add(actions)
    listing = actions.add_parser("list", help="show the environments")
    listing.add_argument("--json", action="store_true", help="print JSON")
    _add_shared(listing, _environment_list)
    removing = actions.add_parser("remove", help="delete an environment")
    removing.add_argument("name", metavar="NAME")
    _add_shared(removing, _environment_remove)
    upgrading = actions.add_parser("upgrade", help="bring enginebench in every environment to the agent's version")
    _add_shared(upgrading, _environment_upgrade)
    _add_tune(commands)
    _add_service(commands)
    _add_health(commands)
    wheel = commands.add_parser("wheel", help="pack the enginebench that is installed here into a wheel")
    wheel.add_argument("folder", metavar="FOLDER", type=Path, help="where to put it")
    _add_run(wheel, _wheel)
    return parser


def _add_serve(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    serve = commands.add_parser("serve", help="serve this machine's engines")
    _add_listening(serve)
    _add_exit_with_stdin(serve)
    serve.add_argument(
        "--in-memory", action="store_true", help="let the data folder be in memory (tmpfs), and results be lost with it"
    )
    serve.add_argument(
        "--alone", action="store_true", help="wait until no other agent that was started so is on this machine"
    )
    serve.add_argument(
        "--trust-model",
        metavar="SHA256",
        action="append",
        default=[],
        help="let this one model run although its format can execute code; repeatable",
    )
    serve.add_argument(
        "--metrics-port", type=_port, metavar="PORT", help="serve figures for Prometheus there (default: nowhere)"
    )
    serve.add_argument(
        "--metrics-host",
        default="127.0.0.1",
        metavar="HOST",
        help="address to serve them on; whoever reaches it can read them (default %(default)s)",
    )
    _add_shared(serve, _serve)


def _add_listening(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    parser.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, help="port, 0 for any free one (default %(default)s)"
    )
    access = parser.add_mutually_exclusive_group()
    access.add_argument(
        "--tls", type=Path, metavar="DIR", help="folder of the TLS files (default: tls in the data folder)"
    )
    access.add_argument("--plain-text", action="store_true", help="leave the TLS files aside; on loopback only")
    parser.add_argument(
        "--announce",
        action="store_true",
        help="tell the local network where this agent is, for `enginebench targets find`; needs mutual TLS",
    )


def _add_service(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    service = commands.add_parser("service", help="the agent as a service of systemd")
    unit = service.add_subparsers(required=True, metavar="ACTION").add_parser("unit", help="print the unit file")
    manager = unit.add_mutually_exclusive_group()
    manager.add_argument("--user", action="store_true", help="for the systemd of this user (default)")
    manager.add_argument("--system", action="store_true", help="for the machine's systemd, shut in more tightly")
    _add_listening(unit)
    unit.add_argument(
        "--data-dir",
        type=_folder,
        metavar="DIR",
        help="the agent's folder (default: that of `serve`, below /var/lib with --system)",
    )
    _add_run(unit, _service_unit)


def _add_health(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    health = commands.add_parser("health", help="ask an agent whether it serves; exit code 1 when not")
    health.add_argument(
        "address", metavar="ADDRESS", nargs="?", default=f"127.0.0.1:{DEFAULT_PORT}", help="(default %(default)s)"
    )
    health.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=3.0, help="how long it may take (default %(default)s)"
    )
    health.add_argument(
        "--tls",
        type=Path,
        metavar="DIR",
        help="ask over mutual TLS, with the files of `enginebench ca issue client NAME --read-only --out DIR`",
    )
    _add_run(health, _health)


def _add_join(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    joining = commands.add_parser(
        "join", help="get this agent's certificate, with what `enginebench ca invite` printed"
    )
    joining.add_argument("address", metavar="HOST:PORT", help="where that command waits")
    joining.add_argument("token", metavar="TOKEN", help="its token, good for one agent")
    joining.add_argument("--tls", type=Path, metavar="DIR", help="folder to write (default: tls in the data folder)")
    _add_shared(joining, _join)


def _add_environment_add(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    adding = actions.add_parser("add", help="create an environment and install an engine into it")
    adding.add_argument("name", metavar="NAME", help="what to call it: letters, digits, '.', '-' and '_'")
    adding.add_argument(
        "--engine", metavar="ENGINE", help="one of ours, optionally with a version: onnxruntime==1.24.1"
    )
    adding.add_argument(
        "--package",
        metavar="REQUIREMENT",
        action="append",
        default=[],
        help="what pip is to install besides; repeatable",
    )
    adding.add_argument(
        "--testing", action="store_true", help="with what the contract tests of engines need, as `plugin check` has it"
    )
    adding.add_argument("--python", type=Path, metavar="PATH", help="interpreter to use (default: the agent's own)")
    _add_exit_with_stdin(adding)
    _add_shared(adding, _environment_add)


def _add_tune(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    tune = commands.add_parser("tune", help="make the machine steadier for measurements, until undone or restarted")
    choice = tune.add_mutually_exclusive_group()
    choice.add_argument("--undo", action="store_true", help="put everything back as it was")
    choice.add_argument("--dry-run", action="store_true", help="only show what would be changed")
    tune.add_argument("--json", action="store_true", help="print JSON")
    tune.add_argument("--root", type=Path, default=Path("/"), help=argparse.SUPPRESS)  # for tests: a sysfs made up
    _add_shared(tune, _tune)


def _folder(text: str) -> Path:
    """Where it lies whoever asks: interpreters of environments are started in folders of their own."""
    try:
        return Path(text).expanduser().absolute()  # no shell expands the ~ of --data-dir=~/DIR
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None


def _add_shared(parser: argparse.ArgumentParser, run: object) -> None:
    parser.add_argument(
        "--data-dir",
        type=_folder,
        metavar="DIR",
        help="the agent's folder (default: $ENGINEBENCH_AGENT_HOME, else `agent` in the home of enginebench)",
    )
    _add_run(parser, run)


def _add_exit_with_stdin(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--exit-with-stdin", action="store_true", help="stop when standard input closes, as when the starter dies"
    )


def _add_run(parser: argparse.ArgumentParser, run: object) -> None:
    parser.add_argument("--verbose", action="store_true", help="log on standard error what happens, not only errors")
    parser.add_argument(
        "--log-format",
        type=LogFormat,
        choices=list(LogFormat),
        default=LogFormat.TEXT,
        help="how log lines look: text, or json, an object a line (default %(default)s)",
    )
    parser.set_defaults(run=run)


def _positive(text: str) -> int:
    if not WHOLE.fullmatch(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def _port(text: str) -> int:
    port = whole_number(text)
    if not 0 <= port <= 65_535:
        raise argparse.ArgumentTypeError("a port lies between 0 and 65535")
    return port
