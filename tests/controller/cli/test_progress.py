"""The table that stands above the bar: what runs, and what has finished with its numbers."""

import io
import re

import pytest
from rich.console import Console

import invented
import invented_bisects
import invented_recommendations
from controller.verdicts.pairs import arms
from enginebench_controller.cli import progress
from enginebench_controller.cli.commands import calibration, recommend
from enginebench_controller.cli.commands.bisect import BisectProgress
from enginebench_controller.cli.commands.recommend import RecommendProgress
from enginebench_controller.cli.console import complain
from enginebench_controller.home import JOB_VARIABLE, Home
from enginebench_controller.jobs.folder import JobFolder
from enginebench_controller.jobs.record import CellState, Made, MadeKind
from enginebench_controller.plan.expand import Case, Expansion
from enginebench_controller.plan.plan import GateMetric, GateTerms
from enginebench_controller.records import EngineRef, Failure, FailureKind, Status
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.bisect.decision import GatePurpose, Question
from enginebench_controller.verdicts.gate.results import judge

CASES = [
    Case("local", EngineRef(f"engine-{place}", "default", "1.0"), invented.model(), invented.CONFIGURATION, ("cpu",))
    for place in range(40)
]


@pytest.fixture
def results(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    return store


def drawn(reporter, width=80):
    console = Console(width=width, file=io.StringIO())
    for one in reporter.above():
        console.print(one)
    return console.file.getvalue()


def test_the_table_has_what_runs_and_the_numbers_of_what_has_finished(results):
    reporter = progress.TableReporter(results.path)
    reporter.begin(CASES, "b0000001")
    assert drawn(reporter) == ""
    first, second = CASES[:2]
    reporter.running(first, 1, "steady_state", 1, 2)
    reporter.running(second, 0, "compile", 0, 0)
    assert drawn(reporter, 120).count("engine-") == 2 and "steady state" in drawn(reporter, 120)
    measured = invented.measured(first.outcome_id, throughput_items_per_s=0.041234)
    results.add_measurement(measured)
    reporter.finished(first, first.outcome_id, Status.OK, None)
    lines = [line for line in drawn(reporter).splitlines() if "engine-" in line]
    assert ["engine-1" in line for line in lines] == [True, False]
    assert f"{measured.latency.median_ns / 1e6:.3f}" in lines[1] and "0.04123" in lines[1] and "ok" in lines[1]


def test_it_is_no_longer_than_the_terminal_and_outlives_damaged_results(results):
    reporter = progress.TableReporter(results.path)
    reporter.begin(CASES, "b0000001")
    results.path.write_bytes(b"no database")
    for case in CASES:
        reporter.finished(case, case.outcome_id, Status.FAILED, None)
    text = drawn(reporter)
    assert "engine-39" in text and "engine-0 " not in text


@pytest.mark.parametrize("width", [60, 80, 180])
def test_what_is_done_and_the_time_left_have_room_before_whose_it_is(width, monkeypatch):
    console = Console(width=width, file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr(progress, "stderr", lambda: console)
    reporter = progress.LiveReporter()
    reporter.begin(CASES, None)
    reporter._progress.stop()
    reporter.uploading(CASES[0], 4_000_000, 5_000_000)
    console.file.truncate(0)
    for one in reporter._progress.get_renderables():
        console.print(one)
    (line,) = re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue()).strip("\0\n").splitlines()
    assert line.startswith("uploading 4 of 5 MB · invented")
    assert line.rstrip().endswith("left -:--:--") and "0/40" in line
    assert (CASES[0].title in line, "━" in line) == (width == 180, width == 180)


def test_without_a_terminal_there_are_lines_and_it_says_so(results, capsys):
    with progress.announcing(results.path) as announce:
        pass
    assert callable(announce)
    assert "--watch needs a terminal" in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_colours_in_a_log_are_no_bars_that_are_drawn_over_again(variable, capsys, monkeypatch):
    monkeypatch.setenv(variable, "1")
    with progress.GateProgress() as gate, progress.announcing() as announce, calibration._Bar() as bar:
        gate.begun("b0000001", GateTerms())
        assert not gate._progress.live.is_started and not bar._progress.live.is_started
        announce(Expansion(tuple(CASES), ()), None)
        complain("so it ends")
    told = capsys.readouterr().err
    assert "\x1b[1;31merror: " in told, "colours there are"
    assert not re.search(r"\x1b\[[^m]*[A-LN-Za-ln-z]", told), "and no cursor that moves"


def test_without_a_terminal_an_upload_is_told_that_takes_long_and_then_now_and_then(capsys):
    now = [0.0]
    uploads = progress.UploadWords(Console(file=io.StringIO()), lambda: now[0])
    told = []
    for second in range(70):
        now[0] = second
        uploads.words(CASES[0], second * 1_000_000, 80_000_000)
        uploads.words(CASES[1], second * 1_000_000, 80_000_000)  # the same file
        told.append(capsys.readouterr().err)
    assert [second for second, line in enumerate(told) if line] == [2, 32, 62]
    assert told[2] == "local: uploading 2 of 80 MB, 78 s left\n"
    progress.UploadWords(Console(file=io.StringIO()), lambda: 0.0).words(CASES[0], 1, 1)
    assert capsys.readouterr().err == "", "and none that is quick"


def announced():
    reporter = progress.LiveReporter()
    reporter.begin(CASES, None)
    return reporter


@pytest.mark.parametrize(
    "reporter", [announced, progress.GateProgress, lambda: RecommendProgress(invented_recommendations.order())]
)
def test_every_bar_tells_of_uploads_where_it_is_not_drawn(reporter, capsys, monkeypatch):
    monkeypatch.setattr(progress, "QUICK_S", 0.0)
    reporter().uploading(CASES[0], 4_000_000, 80_000_000)
    assert capsys.readouterr().err == "local: uploading 4 of 80 MB\n"


def test_while_a_recommendation_sends_it_says_so_and_its_time_stands_still(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(recommend.time, "monotonic", lambda: now[0])
    with RecommendProgress(invented_recommendations.order()) as reporter:

        def shown():
            (task,) = reporter._progress.tasks
            return task.description, task.fields["left"]

        reporter.learning("looking at 12 points", 250.0)
        now[0] += 10
        reporter.uploading(CASES[0], 4_000_000, 80_000_000)
        now[0] += 100
        reporter.uploading(CASES[0], 4_000_000, 80_000_000)
        assert shown() == ("uploading 4 of 80 MB", "4:00 left")
        now[0] += 5
        reporter.running(CASES[0], 0, "compile", 0, 0)
        assert shown() == ("looking at 12 points", "4:00 left")
        now[0] += 5
        reporter.running(CASES[0], 0, "compile", 0, 0)
        assert shown() == ("looking at 12 points", "3:55 left")


def job_progress(folder):
    return JobFolder(folder).progress()


def test_a_recommendation_that_is_a_job_tells_what_is_being_learnt_and_which_search_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv(JOB_VARIABLE, str(tmp_path))
    asked = invented_recommendations.order()
    with RecommendProgress(asked) as reporter:
        reporter.set_out(invented_recommendations.search(asked))
        reporter.said("12 points on openvino")
        reporter.learning("looking at 12 points", 250.0)
        told = job_progress(tmp_path)
        assert (told.doing, told.notes) == ("looking at 12 points", ("12 points on openvino",))
        assert told.seconds_left == pytest.approx(250, abs=5)
        assert told.made == (Made(MadeKind.SEARCH, invented_recommendations.ID),)
        reporter.learning("the best 3 once more", 60.0)
        assert job_progress(tmp_path).doing == "the best 3 once more"


def test_a_bisect_that_is_a_job_has_a_step_a_gate(tmp_path, monkeypatch):
    monkeypatch.setenv(JOB_VARIABLE, str(tmp_path))
    order = invented_bisects.ORDER
    with BisectProgress() as reporter:
        reporter.set_out(invented_bisects.search(None))
        reporter.asking(order, Question(0, 3, 0.1, GatePurpose.ENDS, 3), 0)
        reporter.said("installing onnxruntime 1.22.0")
        told = job_progress(tmp_path)
        assert (told.doing, told.total) == ("installing onnxruntime 1.22.0", 3)
        assert [one.title for one in told.cells] == ["onnxruntime==1.22.0 against onnxruntime==1.20.0"]
        reporter.begun("b0000001", GateTerms())
        assert job_progress(tmp_path).doing.startswith("gate 1, about 2 more gates: ")
        reporter.asking(order, Question(0, 2, 0.1, GatePurpose.STEP, 2), 1)
    told = job_progress(tmp_path)
    assert [one.state for one in told.cells] == [CellState.OK, CellState.OK]
    assert told.made == (Made(MadeKind.SEARCH, invented_bisects.ID),)


def test_the_id_of_a_bisect_is_told_once_when_its_first_gate_has_begun(capsys):
    told = f"bisect {invented_bisects.ID}; interrupted, it goes on with `enginebench resume {invented_bisects.ID}`"
    with BisectProgress() as reporter:
        reporter.set_out(invented_bisects.search(None))
        for _ in range(2):  # once more where it crashed over NumPy
            reporter.asking(invented_bisects.ORDER, Question(0, 3, 0.1, GatePurpose.ENDS, 3), 0)
        assert told not in capsys.readouterr().err, "it may yet be refused"
        reporter.begun("b0000001", GateTerms())
        assert capsys.readouterr().err.splitlines().count(told) == 1
        reporter.asking(invented_bisects.ORDER, Question(0, 3, 0.1, GatePurpose.ENDS, 3), 0)
        reporter.begun("b0000002", GateTerms())
    assert told not in capsys.readouterr().err


def judged_as(factor):
    terms = GateTerms(tolerate="5%", promised={GateMetric.LATENCY: 0.1})
    return judge(terms, arms(factor))


def test_after_each_gate_of_a_bisect_a_line_says_what_it_has_decided(capsys):
    order = invented_bisects.ORDER
    with BisectProgress() as reporter:
        reporter.asking(order, Question(0, 3, 0.1, GatePurpose.ENDS, 3), 0)
        reporter.begun("b0000001", GateTerms())
        reporter.looked(judged_as(1.5), 60.0)
        reporter.asking(order, Question(0, 2, 0.1, GatePurpose.STEP, 2), 1)
        reporter.begun("b0000002", GateTerms())
        reporter.looked(judged_as(1.0), 60.0)
        reporter.asking(order, Question(2, 3, 0.1, GatePurpose.NEIGHBOURS, 1), 2)
        reporter.begun("b0000003", GateTerms())
        reporter.looked(judged_as(1.5), 60.0)
        reporter.said("the verdict stands; profiling both sides")
    told = [line for line in capsys.readouterr().err.splitlines() if "pairs:" not in line]
    assert [re.sub(r": \d\.\d{3}×, [\d.]+ to [\d.]+$", "", line) for line in told] == [
        "gate 1, about 2 more gates: onnxruntime==1.22.0 against onnxruntime==1.20.0: is bad worse than good at all",
        "gate 1: 1.22.0 is worse than 1.20.0",
        "gate 2, about 1 more gate: onnxruntime==1.21.0 against onnxruntime==1.20.0: halving what is left",
        "gate 2: 1.21.0 is as good as 1.20.0, less than D = 10 % worse",
        "gate 3, perhaps the last: onnxruntime==1.22.0 against onnxruntime==1.21.0: the last against the one before it",
        "gate 3: 1.22.0 is worse than 1.21.0",
        "the verdict stands; profiling both sides",
    ]


def test_a_single_pair_is_one_and_what_is_counted_has_no_interval(capsys):
    terms = GateTerms(metrics=(GateMetric.SIZE, GateMetric.LATENCY))
    with progress.GateProgress() as reporter:
        reporter.begun("b0000001", terms)
        for pairs in (1, 2):
            reporter.looked(judge(terms, arms(1.0, pairs=pairs, head={"size_bytes": 1167})), 60.0)
        reporter.forget()
        reporter.begun("b0000002", GateTerms())
        reporter.looked(judge(GateTerms(), arms(1.0, pairs=1)), 60.0)
    told = capsys.readouterr().err.splitlines()
    assert told == ["1 pair: size 1.167×, 1:00 left", "2 pairs: size 1.167×, 1:00 left", "1 pair, 1:00 left"]


def test_an_interval_that_says_nothing_is_not_printed_while_pairs_are_added(capsys):
    terms = GateTerms(metrics=(GateMetric.FIRST_INFERENCE,))
    with progress.GateProgress() as reporter:
        reporter.begun("b0000001", terms)
        for pairs, scatter in ((2, 0.3), (20, 0.01)):
            reporter.looked(judge(terms, arms(1.08, pairs=pairs, scatter=scatter)), 60.0)
    few, many = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"2 pairs: first-inference about \d\.\d\d×, too few yet to say, 1:00 left", few)
    assert re.fullmatch(r"20 pairs: first-inference 1\.\d{3}× \(1\.\d{3} to 1\.\d{3}\), 1:00 left", many)


def test_what_can_never_be_known_is_said_at_once_and_once(capsys):
    terms = GateTerms(metrics=(GateMetric.MEMORY, GateMetric.ENERGY))
    with progress.GateProgress() as reporter:
        reporter.begun("b0000001", terms)
        for pairs in (1, 2):
            reporter.looked(judge(terms, arms(1.0, pairs=pairs)), 60.0)
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith(
        "the energy will not be known, so that this cannot pass: this machine has no energy meter"
    )
    assert sum("energy" in line for line in told) == 1


def test_the_last_gate_of_a_bisect_is_told_too_and_one_that_failed_has_no_verdict(capsys):
    question = Question(0, 3, 0.1, GatePurpose.ENDS, 3)
    for failure, said in ((None, True), (Failure(FailureKind.CRASHED, "it crashed"), False)):
        with BisectProgress() as reporter:
            reporter.asking(invented_bisects.ORDER, question, 0)
            reporter.begun("b0000001", GateTerms())
            reporter.looked(judged_as(1.5), 60.0)
            reporter.finished(CASES[0], "m0000001", Status.FAILED if failure else Status.OK, failure)
        assert ("gate 1: 1.22.0 is worse than 1.20.0" in capsys.readouterr().err) is said


def test_a_calibration_tells_whom_it_leaves_out(capsys):
    with calibration._Bar() as bar:
        bar.left_out("engine 'b' has no device 'GPU'")
    assert "left out: engine 'b' has no device 'GPU'\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("missing", "words"),
    [(0, ""), (1, "1 result of interrupted commands is missing"), (2, "2 results of interrupted commands are missing")],
)
def test_what_waits_to_be_resumed_is_told(tmp_path, monkeypatch, capsys, missing, words):
    monkeypatch.setattr(progress, "missing_outcomes", lambda *_: missing)
    progress.remind(Home(tmp_path))
    assert capsys.readouterr().err == (f"{words}: `enginebench resume` collects what there is\n" if missing else "")
