"""`export`: what a name means, which form it has, and that a mistake is a sentence and leaves no file."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import invented
import invented_profiles
from enginebench_controller.cli import make_app
from enginebench_controller.errors import ExitCode, InputError
from enginebench_controller.store.store import Store
from histories import Change, keep_history

pytestmark = pytest.mark.slow

BENCHMARK, PROFILE = "b00000000001", "a" * 32


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `enginebench` over a store with a benchmark of four measurements, a history, and profiles."""
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    store = Store(tmp_path / "home" / "results.duckdb")
    store.add_benchmark(invented.benchmark("b0000001", "duel"))
    for one in (
        invented.measured("m0000001"),
        invented.measured("m0000002", engine="other", target="nuc"),
        invented.measured("m0000003", target="nuc"),
        invented.failed("m0000004"),
    ):
        store.add_measurement(one)
    keep_history(store, "net", Change(), points=3)
    profiles = [invented_profiles.profile(f"p000000{place}", name="sweep") for place in (1, 2)]
    store.add_profiles([*profiles, replace(invented_profiles.profile_of_failure("p0000003"), name="broken")])

    def command(*arguments):
        return CliRunner().invoke(make_app(), [*map(str, arguments)], catch_exceptions=False)

    return command


@pytest.fixture
def travelling(run, tmp_path):
    """The same, with a benchmark and a profile that have ids as they are made."""
    store = Store(tmp_path / "home" / "results.duckdb")
    store.add_benchmark(invented.benchmark(BENCHMARK))
    store.add_profile(invented_profiles.profile(PROFILE))
    return run


def test_a_benchmark_goes_with_all_targets_and_what_failed_is_told_beside(run, tmp_path):
    done = run("export", "duel", "--format", "bmf", "-o", "out.json")
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "wrote out.json",
        "1 of 4 without numbers: invented on fake-broken (local, batch 1, 2 cores)",
    ]
    names = list(json.loads((tmp_path / "out.json").read_text()))
    assert [name.split(",")[0] for name in names] == [
        "invented on fake (target=local",
        "invented on other (target=nuc",
        "invented on fake (target=nuc",
    ]


def test_a_measurement_goes_alone_and_brings_its_history(run):
    assert len(json.loads(run("export", "m0000002", "--format", "gab-bigger").stdout)) == 1
    lines = run("export", "m-net-001", "--format", "otava").stdout.splitlines()
    assert lines[0].startswith("time,engine_version,") and len(lines) == 1 + 3


def test_a_measurement_is_judged_by_those_it_was_made_with(run, tmp_path):
    store = Store(tmp_path / "home" / "results.duckdb")
    store.add_benchmark(invented.benchmark("b0000002", "odd"))
    for place, shift in enumerate((0, 0, 0.5)):
        outputs = (invented.outputs(shift=shift),)
        store.add_measurement(invented.measured(f"o{place}", "b0000002", engine=f"e{place}", captured_outputs=outputs))
    done = run("export", "o2", "--format", "openmetrics")
    assert 'wrong_outputs="' in done.stdout and "1 of 1 with wrong outputs (≠): invented on e2 1.0" in done.stderr
    assert "wrong_outputs" not in run("export", "o1", "o1", "--format", "openmetrics").stdout


def test_a_profile_goes_the_same_from_either_command(run):
    for form in ("json", "csv", "perfetto", "model-explorer", "model-explorer-flops"):
        words = ("p0000001", "--format", form)
        assert run("export", *words).stdout == run("profiles", "export", *words).stdout != ""
    assert run("export", "p0000001").stdout == run("profiles", "export", "p0000001").stdout


@pytest.mark.parametrize(("id_", "noun"), [(BENCHMARK, "benchmark"), (PROFILE, "profile")])
def test_what_was_exported_is_imported_whatever_it_is(travelling, monkeypatch, id_, noun):
    travelling("export", id_, "-o", "out.json")
    monkeypatch.setenv("ENGINEBENCH_HOME", "other")
    assert travelling("import", "out.json").stderr.split("imported ")[-1].strip() == f"1 {noun}: {id_}"
    assert "all were there already" in travelling("import", "out.json").stderr


@pytest.mark.parametrize(
    ("more", "told"), [(1, "1 measurement of the file was"), (2, "2 measurements of the file were")]
)
def test_what_is_left_out_is_told_and_nothing_else_claimed(travelling, tmp_path, more, told):
    store = Store(tmp_path / "home" / "results.duckdb")
    store.add_measurement(invented.measured("a" * 32, BENCHMARK), invented.samples("a" * 32))
    travelling("export", BENCHMARK, "-o", "out.json")
    document = json.loads((tmp_path / "out.json").read_text())
    measured = document["benchmarks"][0]["measurements"]
    measured += [measured[0] | {"id": f"{place:032}"} for place in range(more)]
    (tmp_path / "out.json").write_text(json.dumps(document))

    *_, imported, left_out = travelling("import", "out.json").stderr.splitlines()

    assert imported == "imported 0 benchmarks: none is new here"
    assert left_out == f"{BENCHMARK} is a benchmark of your own: {told} left out"


@pytest.mark.parametrize("command", [("import",), ("profiles", "import")])
def test_what_comes_through_a_pipe_is_imported(travelling, monkeypatch, command):
    exported = travelling("export", PROFILE).stdout
    monkeypatch.setenv("ENGINEBENCH_HOME", "other")
    reading, writing = os.pipe()
    with ThreadPoolExecutor() as threads, os.fdopen(reading):
        threads.submit(_write, writing, exported)
        assert "imported 1 profile" in travelling(*command, f"/dev/fd/{reading}").stderr


def _write(descriptor, text):
    with os.fdopen(descriptor, "w") as pipe:
        pipe.write(text)


def test_a_name_of_two_profiles_means_both(run):
    events = json.loads(run("export", "sweep", "--format", "perfetto").stdout)["traceEvents"]
    assert {event["pid"] for event in events} == {1, 2, 3}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nothing", "--format", "bmf"), "there is no benchmark, profile or measurement 'nothing'"),
        (("duel", "--format", "xml"), "'xml' is not one of"),
        (("duel", "p0000001"), "only things of one kind go together"),
        (("duel", "--format", "perfetto"), "measurements cannot be exported as perfetto, only as gab,"),
        (("duel", "--format", "csv"), "measurements cannot be exported as csv, only as gab,"),
        (("m0000001",), "measurements cannot be exported as json, only as gab,"),
        (("duel", "--format", "otava"), "these are 4 measurements; name one of them by its id: m0000001 (fake 1.0,"),
        (("m0000001", "--format", "otava"), "measurement m0000001 has no history"),
        (("m0000004", "--format", "bmf"), "there is nothing to export: of 1 measurements none has numbers"),
        (("p0000001", "--format", "openmetrics"), "profiles cannot be exported as openmetrics, only as json, csv,"),
        (("sweep", "--format", "model-explorer"), "Model Explorer shows one profile at a time, and these are 2"),
        (("broken", "--format", "model-explorer"), "of profile p0000003 no node of a model has a value"),
    ],
)
def test_a_form_that_does_not_fit_is_one_sentence_and_no_file(run, tmp_path, words, sentence):
    try:
        told, code = (done := run("export", *words, "-o", "out")).stderr, done.exit_code
    except InputError as error:  # of which `main` makes the sentence
        told, code = str(error), error.exit_code
    assert code == ExitCode.USAGE
    assert sentence in told.replace("\n", " ")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_file_is_replaced_with_force_only(run, tmp_path):
    (tmp_path / "out").write_text("mine")
    for words in (("duel",), ("duel", "--format", "gab"), ("p0000001",)):
        with pytest.raises(InputError, match="--force"):
            run("export", *words, "-o", "out")
    assert (tmp_path / "out").read_text() == "mine"
    assert run("export", "duel", "--format", "gab", "-o", "out", "--force").exit_code == 0
    assert json.loads((tmp_path / "out").read_text())[0]["unit"] == "ns"
