"""What commands answer of results that are there: versions side by side, what failed, and how they end."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import invented
import invented_ladders
import invented_profiles
from enginebench_controller.cli import make_app
from enginebench_controller.cli.commands import ladder, running
from enginebench_controller.errors import EnginebenchError
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.records import (
    Arrivals,
    Configuration,
    Derivation,
    DerivationKind,
    Effective,
    Failure,
    FailureKind,
    HostFacts,
    Load,
    ModelVersion,
    Readback,
    ReadbackSource,
    Status,
)
from enginebench_controller.runs.benchmarking import BenchmarkOrder
from enginebench_controller.store.store import Store
from integration.bench import tiny_model

pytestmark = pytest.mark.slow

FP32, INT8 = "ab" * 32, "cd" * 32
WORDS = "Exception from src/core.cpp:84:\nno kernel for 'stem'\nand the rest"
NO_KERNEL = Failure(
    FailureKind.COMPILE_FAILED, "fake failed while compiling m: no kernel for 'stem'", WORDS, stderr_tail="last"
)
U8 = Effective(precision=Readback("u8", ReadbackSource.ENGINE_API), threads=Readback(2, ReadbackSource.OBSERVED))


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    store = Store(tmp_path / "results.duckdb")
    store.save_model(ModelVersion(FP32, "net", "onnx", (), 1))
    store.save_model(ModelVersion(INT8, "net-int8", "onnx", (), 2, FP32, Derivation(DerivationKind.QUANTIZED)))
    return store


@pytest.fixture
def answer(store):
    """Runs a command; returns its exit code, what it printed as data, and its remarks."""

    def run(*arguments):
        done = CliRunner().invoke(make_app(), list(arguments), env={"COLUMNS": "200"})
        if isinstance(done.exception, EnginebenchError):
            return int(done.exception.exit_code), "", str(done.exception)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    return run


def add(store, benchmark, name, *measurements):
    store.add_benchmark(invented.benchmark(benchmark, name))
    for one in measurements:
        known = replace(one, benchmark_id=benchmark)
        raw = invented.samples(one.id, latency_ms=4.0 if one.model_digest == FP32 else 2.0)
        store.add_measurement(known, raw if one.latency else ())


def int8(identity, **fields):
    return invented.measured(identity, latency_ms=2.0, model_digest=INT8, model_name="net-int8", effective=U8, **fields)


def fp32(identity, **fields):
    return invented.measured(identity, model_name="net", **fields)


def test_an_int8_version_stands_beside_the_model_it_was_made_from(store, answer):
    add(store, "b0000001", "grid", fp32("m1"), fp32("m2", batch=4))
    add(store, "b0000002", "int8", int8("m3"), int8("m4", batch=4))

    code, printed, remarks = answer("compare", "grid", "int8")
    assert code == 0
    assert printed.count("net → net-int8") == 2 and printed.count("faster") == 2
    assert "fake 1.0 u8" in printed
    assert (
        "net-int8 is a version of net: int8 QDQ" in remarks and "outputs of net-int8 differ by at most 0.00%" in remarks
    )

    code, printed, _ = answer("compare", "grid", "int8", "--json")
    document = json.loads(printed)
    found = [(one["first"]["id"], one["second"]["id"], one["verdict"]) for one in document["comparisons"]]
    assert (code, found) == (0, [("m1", "m3", "faster"), ("m2", "m4", "faster")])
    assert document["comparisons"][0]["second"]["effective"]["precision"]["value"] == "u8"
    assert document["outcome"] == {"sound": True, "without_numbers": [], "wrong_outputs": [], "left_out": []}


def test_the_list_tells_what_was_not_measured_where_a_benchmark_was_broken_off(store, answer):
    add(store, "b0000001", "whole", fp32("m1"))
    assert "cancelled" not in answer("list")[1]
    broken_off = [invented.failed(name, status=Status.CANCELLED, failure=None) for name in ("m2", "m3", "m4")]
    add(store, "b0000002", "broken off", *broken_off)
    _, printed, _ = answer("list")
    heading, cells = (
        [cell.strip() for cell in next(line for line in printed.splitlines() if word in line).split(sign)]
        for word, sign in (("cancelled", "┃"), ("b0000002", "│"))
    )
    assert cells[heading.index("cancelled")] == "3" and cells[heading.index("failed")] == "0"


def test_of_a_target_without_room_a_run_says_what_measures_it_again(store, answer, monkeypatch):
    async def full(*_):
        shortage = Failure(FailureKind.SHORTAGE, "its disk is full: make room in its data folder")
        add(store, "b0000002", "again", fp32("m2"), invented.failed("m3", failure=shortage))
        return store.benchmark("b0000002")

    add(store, "b0000001", "run", fp32("m1"))
    monkeypatch.setattr(running, "run_benchmark", full)
    monkeypatch.setattr(running, "order_again", lambda *_, **__: BenchmarkOrder(make_plan({"models": ["net"]}, "run")))
    code, _, remarks = answer("rerun", "b0000001")
    assert code == 1 and "make room in its data folder" in remarks
    assert "a target was short of something: mend that, then `enginebench rerun b0000002`" in remarks


def test_what_can_be_compared_is_and_what_failed_is_named(store, answer, tmp_path):
    failed = invented.failed("m3", engine="broken", failure=NO_KERNEL, model_name="net")
    add(store, "b0000001", "duel", fp32("m1"), fp32("m2", engine="other"), failed)

    code, printed, remarks = answer("compare", "duel", "--markdown", str(tmp_path / "x.md"))
    assert code == 1 and "other 1.0" in printed
    assert (
        "failed: net on broken (local, batch 1, 2 cores): compile_failed: fake failed while compiling m: no kernel"
        in remarks
    )
    assert remarks.rstrip().endswith("1 of 3 without numbers: net on broken (local, batch 1, 2 cores)")
    outcome = json.loads(answer("compare", "duel", "--json")[1])["outcome"]
    assert outcome == {"sound": False, "without_numbers": ["m3"], "wrong_outputs": [], "left_out": []}
    assert "no kernel for" in (tmp_path / "x.md").read_text(encoding="utf-8")
    assert answer("compare", "duel", "--fail-if", "slower>3%")[0] in (1, 4)


def test_what_has_no_like_in_the_other_benchmark_is_named_and_no_condition_is_known_of_it(store, answer, tmp_path):
    add(store, "b0000001", "baseline", fp32("m1"), fp32("m2", engine="gone"), fp32("m3", batch=4))
    add(store, "b0000002", "today", fp32("m4"), fp32("m5", batch=4), fp32("m6", engine="new"))
    files = {option: tmp_path / option for option in ("--html", "--markdown", "--junit")}
    written = [str(word) for pair in files.items() for word in pair]
    asked = ("compare", "baseline", "today", "--fail-if", "memory>900%", "--force", *written)

    told = "today has nothing to compare with net on gone 1.0 (local, batch 1, 2 cores)"
    code, _, remarks = answer(*asked)
    assert code == 0 and f"note: {told}" in remarks
    assert "inconclusive: memory>900%: net, CPU, batch 1" in remarks
    assert remarks.rstrip().endswith("--fail-if: 0 failed, 2 passed, 1 inconclusive")
    assert answer(*asked, "--strict")[0] == 5
    cases = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
    assert told in cases["--html"] and "today has nothing to compare with net on gone 1.0" in cases["--markdown"]
    assert 'tests="3" failures="0" errors="0"' in cases["--junit"]
    assert 'skipped="1"' in cases["--junit"]
    document = json.loads(answer("compare", "baseline", "today", "--json")[1])
    assert document["unmatched"] == [{"measurement_id": "m2", "benchmark_id": "b0000002"}]
    assert answer("compare", "m1", "m4", "--fail-if", "memory>900%", "--strict")[0] == 0


def test_of_two_machines_with_other_cores_it_is_said_what_differs_and_what_compares_them(store, answer):
    add(store, "b0000001", "laptop", fp32("m1"), fp32("m2", batch=4))
    add(store, "b0000002", "server", fp32("m3", configuration=Configuration("CPU", 4, cores=32)))

    code, _, said = answer("compare", "laptop", "server")
    assert code == 2 and "the nearest are of one engine and model (the cores differ: 2 and 32)" in said
    assert "`enginebench compare m2 m3` compares them all the same" in said
    assert answer("compare", "m2", "m3")[0] == 0


def test_where_nothing_compares_the_failures_say_why(store, answer):
    add(store, "b0000001", "lone", fp32("m1"), invented.failed("m2", failure=NO_KERNEL, model_name="net"))

    code, _, said = answer("compare", "lone")
    assert code == 2 and "there is nothing to compare in b0000001" in said and "no kernel for 'stem'" in said


def test_a_profile_that_failed_is_named_and_the_others_are_compared(store, answer):
    for place, layers in enumerate(({}, {}, {"layers": (), "status": Status.FAILED, "failure": NO_KERNEL})):
        one = invented_profiles.profile(f"p000000{place}", name="pass", created_at_unix_ns=place, **layers)
        store.add_profile(one)

    code, printed, remarks = answer("compare", "pass")
    assert code == 1 and "Profiles compared" in printed and "no kernel for 'stem'" in remarks
    code, _, said = answer("advise", "pass")
    assert code == 2 and "means 2 profiles" in said and "p00000" in said
    store.remove_profile("p0000001")
    code, _, remarks = answer("advise", "pass")
    assert code == 0 and "no kernel for 'stem'" in remarks


def test_wrong_outputs_end_a_comparison_as_a_failure_does(store, answer):
    wrong = fp32("m3", engine="wrong", captured_outputs=(invented.outputs(shift=0.5),))
    add(store, "b0000001", "duel", fp32("m1"), fp32("m2", engine="other"), wrong)

    code, _, remarks = answer("compare", "duel")
    assert code == 1
    assert remarks.rstrip().endswith("1 of 3 with wrong outputs (≠): net on wrong 1.0 (local, batch 1, 2 cores)")
    assert json.loads(answer("show", "duel", "--json")[1])["outcome"] == {
        "sound": False,
        "without_numbers": [],
        "wrong_outputs": ["m3"],
        "left_out": [],
    }


def test_all_of_the_words_of_what_failed(store, answer):
    broken = [invented.failed(f"m{batch}", failure=NO_KERNEL, model_name="net", batch=batch) for batch in (1, 2)]
    add(store, "b0000001", "duel", fp32("m0"), *broken)

    code, printed, _ = answer("show", "duel", "--failures")
    assert (
        code == 0 and printed.count("net on fake-broken") == 2 and printed.count("Exception from src/core.cpp:84:") == 1
    )
    assert all(line in printed for line in ("and the rest", "what its process wrote last", "batch 2"))
    assert "m0" not in printed
    assert answer("show", "duel", "--failures", "--json")[0] == 2
    add(store, "b0000002", "whole", fp32("m9"))
    assert "nothing failed" in answer("show", "whole", "--failures")[2]


def test_a_wrong_rung_ends_a_ladder_with_1(store, answer, monkeypatch, tmp_path):
    sound, model = invented_ladders.measurements(), str(tiny_model(tmp_path / "tiny.onnx"))
    wrong = replace(sound[-1], captured_outputs=(invented.outputs(shift=0.5),))
    store.add_benchmark(invented_ladders.benchmark())
    for one in (*sound[:-1], wrong):
        store.add_measurement(one, ())
    monkeypatch.setattr(ladder, "_run", lambda *_: invented_ladders.benchmark())

    for kind in ("throughput", "latency"):
        code, _, remarks = answer("ladder", kind, model)
        assert code == 1 and "1 of 3 with wrong outputs (≠)" in remarks.rstrip().splitlines()[-1]
    code, printed, _ = answer("ladder", "throughput", model, "--json")
    assert code == 1 and json.loads(printed)["outcome"]["wrong_outputs"] == [wrong.id]


def test_advice_on_a_terminal_has_no_backticks_and_pages_have(store, answer):
    host = HostFacts(isa=("avx512_vnni",), physical_cores=2)
    store.add_profile(invented_profiles.profile("p0000009", host=host))
    code, printed, _ = answer("advise", "p0000009")
    assert code == 0 and "enginebench " in printed and "`" not in printed
    assert "`enginebench " in answer("advise", "p0000009", "--json")[1]


def test_a_model_s_record_that_cannot_be_read_keeps_nobody_from_layers(store, answer):
    (record := store.path.with_name("models") / ("ef" * 32) / "version.json").parent.mkdir(parents=True)
    record.write_text('{"broken', encoding="utf-8")
    for number in (1, 2):
        store.add_profile(invented_profiles.profile(f"p000000{number}"))
    code, printed, _ = answer("compare", "p0000001", "p0000002")
    assert code == 0 and "Profiles compared" in printed
    assert answer("advise", "p0000001")[0] == 0


def _two_targets(store):
    for identity, target in (("b0000001", "local"), ("b0000002", "nuc")):
        store.add_benchmark(invented.benchmark(identity, f"on {target}"))
        for number in (1, 2):
            one = replace(invented.measured(f"{target}{number}", identity, engine=f"e{number}"), target=target)
            store.add_measurement(one, invented.samples(one.id))


@pytest.mark.parametrize("name", ["b0000001", "local1", "p0000001"])
def test_what_is_compared_with_itself_is_told_to_be_a_self_test(answer, store, name):
    _two_targets(store)
    store.add_profile(invented_profiles.profile())
    code, printed, remarks = answer("compare", name, name)
    assert code == 0 and printed
    assert remarks.count(f"note: {name} is compared with itself: a self-test, in which nothing can differ\n") == 1
    assert "self-test" not in answer("compare", "local1", "nuc1")[2]


@pytest.mark.parametrize(("wobble", "told"), [(0.0, "are the same within"), (0.5, "cannot tell")])
@pytest.mark.parametrize("name", ["b0000001", "local1"])
def test_of_a_self_test_nothing_is_said_of_what_the_machine_did_meanwhile(answer, store, name, wobble, told):
    store.add_benchmark(invented.benchmark("b0000001", "busy"))
    for one in (invented.measured(f"local{number}", "b0000001", engine=f"e{number}") for number in (1, 2)):
        hit = tuple(replace(block, disturbances=(invented.DISTURBANCE,)) for block in one.blocks)
        unlike = tuple(replace(at, median_ns=at.median_ns * (1 + wobble * at.index)) for at in one.processes)
        store.add_measurement(replace(one, blocks=hit, processes=unlike), invented.samples(one.id))
    _, printed, remarks = answer("compare", name, name)
    noise = ("disturbed", "one after the other")
    assert told in printed and not [word for word in noise if word in printed + remarks]
    _, printed, remarks = answer("compare", "local1", "local2")
    assert all(word in printed + remarks for word in noise)


def test_where_targets_differ_one_line_of_the_answer_says_so(answer, store):
    _two_targets(store)
    _, printed, _ = answer("compare", "local1", "nuc1")
    assert printed.splitlines()[1] == "  measured on different targets, local and nuc: their machines may differ, too"
    _, printed, _ = answer("compare", "b0000001", "b0000002")
    assert printed.count("measured on different targets, local and nuc") == 2, "once an answer"
    assert "one after the other" not in printed


def test_where_processors_differ_all_that_is_written_names_them(answer, store, tmp_path):
    """Every machine calls itself local: two runners of CI whose results came together, say."""
    for number, processor in ((1, "Invented CPU"), (2, "Other CPU")):
        seen = replace(invented.snapshot(), host=HostFacts(cpu_model=processor))
        store.add_benchmark(invented.benchmark(f"b000000{number}", f"run {number}"), [seen])
        one = invented.measured(f"m000000{number}", f"b000000{number}", latency_ms=4.0 * number)
        store.add_measurement(one, invented.samples(one.id, latency_ms=4.0 * number))
    files = {option: tmp_path / option for option in ("--html", "--markdown", "--junit")}
    written = [str(word) for pair in files.items() for word in pair]
    told = "processors differ: Invented CPU and Other CPU"
    for kind in "bm":
        names = (f"{kind}0000001", f"{kind}0000002")
        code, printed, remarks = answer("compare", *names, "--fail-if", "slower>3%", *written, "--force")
        assert code == 4 and told in remarks
        assert "not equals: the processors differ, Invented CPU and Other CPU" in printed
        assert all(told in file.read_text(encoding="utf-8") for file in files.values())
        assert told in json.loads(answer("compare", *names, "--json")[1])["comparisons"][0]["remarks"]


def test_what_each_side_was_asked_for_stands_in_the_table_and_before_the_remarks(answer, store):
    add(store, "b0000001", "grid", fp32("m1"), fp32("m2", batch=4))
    _, printed, remarks = answer("compare", "m1", "m2")
    assert "1 → 4" in printed
    assert "f32, batch 1, 2 cores → batch 4, 2 cores: the batch differs: 1 and 4" in remarks


def test_rates_that_differ_are_named_where_a_condition_fails(answer, store):
    store.add_benchmark(invented.benchmark("b0000001", "rates"))
    for identity, rate, latency_ms in (("m50", 50.0, 4.0), ("m200", 200.0, 8.0)):
        asked = Configuration("CPU", 1, cores=2, load=Load.OPEN_LOOP, arrivals=Arrivals(rate))
        one = invented.measured(identity, "b0000001", latency_ms=latency_ms, configuration=asked)
        store.add_measurement(one, invented.samples(identity, latency_ms=latency_ms, open_loop=True))
    code, _, remarks = answer("compare", "m50", "m200", "--fail-if", "slower>3%")
    assert code == 4 and "the arrivals differ: 50/s poisson and 200/s poisson" in remarks
    failed = next(line for line in remarks.splitlines() if line.startswith("failed: "))
    assert "open-loop 50/s poisson, f32 → " in failed and "open-loop 200/s poisson, f32, " in failed


ODD_PLANS = (
    {"gate": 7},
    {"gate": {"budget": "soon"}, "members": {"base": "m1", "head": "m2", "control": "m3"}, "processes": "many"},
    {"gate": {"budget": "2m"}, "members": ["m1", "m2", "m3"]},
    {"gate": {"budget": "2m", "of": "another version"}, "members": {"base": "m1", "head": "m2", "control": "m3"}},
    {"models": ["net"], "digests": ["net"]},
    {"models": ["net"], "rungs": 5, "digests": {"net": 5}},
)


@pytest.mark.parametrize("plan", ODD_PLANS, ids=str)
@pytest.mark.parametrize("command", [("show", "odd"), ("show", "odd", "--json"), ("compare", "odd")])
def test_what_came_with_an_odd_plan_is_shown_all_the_same(store, answer, plan, command):
    store.add_benchmark(replace(invented.benchmark("b9", "odd"), plan=plan, imported=True))
    for name, engine in (("m1", "a"), ("m2", "b"), ("m3", "c")):
        one = fp32(name, engine=engine, interleaving_group="b9-0")
        store.add_measurement(replace(one, benchmark_id="b9"), invented.samples(name))
    code, said, _ = answer(*command)
    assert code == 0 and said
