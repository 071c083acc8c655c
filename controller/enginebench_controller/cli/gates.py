"""How a gate ends, whichever command carried it out: its own, `rerun`, `run` of its plan, or `resume`."""

import asyncio
from collections.abc import Sequence
from typing import NoReturn

import typer

from enginebench_controller.cli.console import complain, print_json, remark
from enginebench_controller.cli.progress import remind, watching
from enginebench_controller.cli.tables import print_gate
from enginebench_controller.errors import ExitCode, InputError
from enginebench_controller.files.verdicts.gates import gate_document
from enginebench_controller.home import Home
from enginebench_controller.records import Benchmark
from enginebench_controller.runs.benchmarking import BenchmarkOrder
from enginebench_controller.runs.gate import again
from enginebench_controller.verdicts.gate.results import GateResult
from enginebench_controller.verdicts.gate.rule import GateOutcome, exit_code
from enginebench_controller.verdicts.gate.stored import gate_of
from enginebench_controller.verdicts.gate.words import headline


def gate_again(home: Home, order: BenchmarkOrder, *, as_json: bool) -> NoReturn:
    """Carry out the plan of a gate, as `rerun` and `run PLAN.toml` do. Ends the command."""
    remind(home)
    with watching() as watcher:
        result = asyncio.run(again(home, order, watcher))
    conclude_gate(result, as_json=as_json)


def conclude_gate(result: GateResult, unwritten: Sequence[InputError] = (), *, as_json: bool) -> NoReturn:
    """Print the verdict and end the command with its exit code.

    Where reports are `unwritten`, it fails after the verdict; but whoever asks for worse is to see that.
    """
    if as_json:
        print_json(gate_document(result))
    else:
        print_gate(result)
    if unwritten:
        error = InputError("\n".join(map(str, unwritten)))
        if result.outcome is not GateOutcome.WORSE:
            raise error
        complain(str(error))
    raise typer.Exit(_exit_code(result))


def tell_taken_up(home: Home, benchmark: Benchmark, *, as_json: bool) -> int:
    """The verdict of a gate that `resume` took up, beside a document only its sentence. Returns the exit code.

    Nothing that is stored is replaced: one without numbers has to be measured again.
    """
    result = gate_of(home, benchmark)
    if result is None:
        return int(ExitCode.OK)
    if as_json:
        remark(headline(result))
    else:
        print_gate(result)
    if result.failures:
        remark(f"`enginebench rerun {benchmark.id}` measures it again")
    return _exit_code(result)


def _exit_code(result: GateResult) -> int:
    worse, cannot_tell = (result.outcome is one for one in (GateOutcome.WORSE, GateOutcome.CANNOT_TELL))
    failed = bool(result.problems or result.failures)
    return int(exit_code(worse=worse, failed=failed, cannot_tell=cannot_tell, strict=result.terms.strict))
