"""Where the output cannot be written, a command still ends as it would have, or says in a sentence what was lost."""

import subprocess
import sys
from errno import ENOSPC

import pytest
from typer.testing import CliRunner

import invented
from controller.verdicts.pairs import arms
from enginebench_controller.cli import gates, make_app
from enginebench_controller.cli.commands import gate
from enginebench_controller.plan.plan import GateTerms
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.gate.results import GateResult, judge

FULL = "cannot use standard output: No space left on device"
CLOSED = "error: standard output is closed, and what was asked for would be lost: send it to a file or a pipe\n"


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Words of a command line, behind which a shell leads its output somewhere; the code, and what it complained."""
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark("b0000001", "duel"))
    for id_, engine, latency_ms in (("m1", "fake", 4.0), ("m2", "slower", 8.0)):
        one = invented.measured(id_, engine=engine, latency_ms=latency_ms)
        store.add_measurement(one, invented.samples(id_, latency_ms=latency_ms))

    def run(words: str, around: str = "{}") -> tuple[int, str]:
        line = around.format(f"'{sys.executable}' -m enginebench_controller {words}")
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stderr

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["--version", "list", "list --json", "list --help", "query 'select * from measurements'"]
)
def test_a_reader_that_has_gone_changes_nothing(command, words):
    assert command(words, "{} | sleep 0; exit ${{PIPESTATUS[0]}}") == (0, command(words)[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["list", "list --help", "query 'select * from measurements'", "export duel -o duel.json"]
)
def test_where_nothing_is_due_for_a_program_a_closed_output_changes_nothing(command, words, tmp_path):
    code, told = command(words, "{} >&-")
    (tmp_path / "duel.json").unlink(missing_ok=True)
    assert (code, told) == (0, command(words)[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["--version", "--verbose --version", "list --json", "export duel", "query 'select 1' --csv"]
)
@pytest.mark.parametrize("around", ["{} >&-", "PYTHONUNBUFFERED=1 {} <&- >&-"])
def test_what_a_program_is_to_read_is_refused_where_the_output_is_closed(command, words, around):
    assert command(words, around) == (2, CLOSED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["run zoo:squeezenet --engine fake --json", "ca invite bench --host bench --at 127.0.0.1:49321"]
)
def test_a_closed_output_is_refused_before_anything_is_done(command, words, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    assert command(words, "{} >&-") == (2, CLOSED)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.parametrize("words", ["--version", "list", "list --json", "query 'select * from measurements'"])
def test_a_full_disk_is_a_sentence(command, words):
    code, told = command(words, "{} >/dev/full")
    assert code == 2 and FULL in told and "Traceback" not in told and "ignored" not in told


@pytest.mark.slow
@pytest.mark.parametrize("around", ["{} 2>/dev/full", "{} 2>&-", "{} 2> >(true)"])
def test_remarks_that_nobody_reads_change_nothing(command, around):
    assert command("show nothing", around) == (2, "")
    assert command("list", around) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["PYTHONUNBUFFERED=1", "PYTHONUNBUFFERED="])
def test_in_one_log_data_stands_before_the_remarks_on_it(command, variable):
    code, told = command("plugin new abacus", variable + " {} >&2")
    assert code == 0 and told.startswith("enginebench-abacus\nput your engine into enginebench-abacus/src; ")


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["PYTHONUNBUFFERED=1", "PYTHONUNBUFFERED="])
def test_what_is_written_at_once_is_written_whole_or_a_sentence_says_that_it_is_not(command, variable, tmp_path):
    words = "query 'select i + 1000000 from range(60000) t(i)' --csv --rows 60000"
    code, told = command(words, f"ulimit -f 100; trap '' XFSZ; {variable} {{}} > cut.csv")
    assert (tmp_path / "cut.csv").stat().st_size == 100 * 1024
    assert code == 2 and "cannot use standard output: File too large" in told and "Traceback" not in told

    slow = "import fcntl, os, sys, time; time.sleep(1); sys.stdout.write(str(len(sys.stdin.read())))"
    waits_not = "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)"
    writer = f"(python3 -c '{waits_not}'; {variable} {{}})"
    assert command(words, f"{writer} | '{sys.executable}' -c '{slow}' > whole; exit ${{{{PIPESTATUS[0]}}}}") == (0, "")
    assert int((tmp_path / "whole").read_text()) > 60_000 * 8


@pytest.mark.slow
def test_the_exit_code_and_the_files_of_a_verdict_do_not_depend_on_who_reads_it(command, tmp_path):
    words = "compare duel --fail-if 'slower>3%' --junit found.xml --markdown found.md"
    assert command(words, "{} 2>&1 | true; exit ${{PIPESTATUS[0]}}") == (4, "")
    assert (tmp_path / "found.xml").exists() and (tmp_path / "found.md").exists()


def test_the_files_of_a_gate_are_there_before_its_verdict_is_printed(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(ENOSPC, "No space left on device", "standard output")

    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    roles = dict.fromkeys(("base", "head", "control"), invented.measured("m0000001"))
    result = GateResult(invented.benchmark(), GateTerms(), judge(GateTerms(), arms(1.05)), roles)
    monkeypatch.setattr(gate, "run_gate", lambda *_: result)
    monkeypatch.setattr(gates, "print_gate", fail)
    words = ["gate", "--base", "a.onnx", "--head", "b.onnx", "--engine", "fake", "--markdown", str(tmp_path / "m.md")]
    done = CliRunner().invoke(make_app(words), words)
    assert isinstance(done.exception, OSError)
    assert (tmp_path / "m.md").read_text().startswith("## enginebench gate: ")
