"""`python -m enginebench_agent.worker`: list plugins, describe one engine, or run one model. Only agents call this."""

import argparse
import faulthandler
import os
import sys
import warnings
from pathlib import Path
from typing import NoReturn

from enginebench_agent.runs.limits import Sandbox
from enginebench_agent.worker import confine, keeper, plugins
from enginebench_agent.worker.confine import die_with_parent, leave_network
from enginebench_agent.worker.keeper import Pauses
from enginebench_agent.worker.pipe import Channel


def main() -> None:
    """Do what the command line says and send it through what was standard output."""
    arguments = _parse_arguments()
    pauses = keeper.part()
    channel = Channel.claim_stdout()
    channel.process()
    outside = _enter_sandbox(arguments)
    staying = "" if arguments.keep_network else leave_network()
    die_with_parent()  # after the namespaces: the kernel forgets it where the credentials change
    faulthandler.enable()  # where a crash happened belongs into the end of standard error
    if arguments.command == "list":
        if outside:
            channel.notice(f"engines here are not shut in and see all files of this account: {outside}")
        if staying:
            channel.notice(f"engines here can reach the network: {staying}")
        for engine in plugins.listing():
            channel.engine(engine)
    elif arguments.command == "describe":
        _describe(arguments.name, channel)
    else:
        _run(arguments, channel, pauses)
    _leave()


def _describe(name: str, channel: Channel) -> None:
    """Tell of one engine, and what its plugin warns of meanwhile: a part of it may be missing."""
    with warnings.catch_warnings(record=True, category=RuntimeWarning) as said:
        warnings.simplefilter("always", RuntimeWarning)
        engine = plugins.describe(name)
    for one in said:
        channel.notice(f"{name}: {one.message}")
    channel.engine(engine)


def _run(arguments: argparse.Namespace, channel: Channel, pauses: Pauses | None) -> None:
    from enginebench_agent.worker.run import Place, execute  # noqa: PLC0415  # listing stays quick
    from enginebench_proto.v1.run_pb2 import RunSpec  # noqa: PLC0415

    place = Place(arguments.model_path, arguments.inputs, arguments.turns, pauses)
    execute(RunSpec.FromString(sys.stdin.buffer.read()), place, channel)


def _enter_sandbox(arguments: argparse.Namespace) -> str:
    """Shut this process in, where the agent asks for it; returns why that cannot be."""
    if arguments.sandbox is None:
        return ""
    given = (arguments.model_path, arguments.inputs) if arguments.command == "run" else ()
    # A calibration has a folder to write its models to in place of a model.
    unchanging = [path for path in given if path is not None and (path.is_file() or path == arguments.inputs)]
    return confine.enter_sandbox(Sandbox(arguments.sandbox, tuple(arguments.hide), arguments.caches), unchanging)


def _leave() -> NoReturn:
    """End at once: all was sent, and an engine that crashes or hangs at exit must not undo that."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="enginebench_agent.worker", description=__doc__)
    parser.add_argument("--keep-network", action="store_true", help="stay in the machine's network")
    parser.add_argument("--sandbox", type=Path, metavar="BWRAP", help="shut this process in with bubblewrap")
    parser.add_argument(
        "--hide", type=Path, metavar="DIR", action="append", default=[], help="show nothing of it there"
    )
    parser.add_argument("--caches", type=Path, metavar="DIR", help="where engines keep their caches there")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the engines installed here, from package metadata")
    commands.add_parser("describe", help="one engine").add_argument("name")
    run = commands.add_parser("run", help="one run, its specification on standard input")
    run.add_argument("model_path", type=Path, help="the model's main file")
    run.add_argument("--inputs", type=Path, metavar="DIR", help="the folder of the input set's files, named by sha256")
    run.add_argument("--turns", type=int, metavar="FD", help="a pipe that says when the next block may run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
