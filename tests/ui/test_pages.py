"""The pages run over a real store: empty, filled, failed and broken."""

import re
import subprocess
import sys
from dataclasses import replace

import duckdb
import pytest

import invented
from enginebench_controller.records import Effective, Readback, ReadbackSource
from enginebench_controller.store.store import Store
from enginebench_ui.pages import BENCHMARK, BENCHMARKS, HOME, PROFILES, PROJECTS, TARGETS
from enginebench_ui.shared import reading
from opened_pages import opened, texts

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    return Store(tmp_path / "results.duckdb")


def entries(app):
    """The links to single benchmarks."""
    return [link for link in app.get("page_link") if link.proto.query_string.startswith("id=")]


def test_an_empty_store_tells_how_to_begin(store):
    app = opened(BENCHMARKS)

    assert texts(app.title) == ["Benchmarks"]
    assert "enginebench demo" in app.code[0].value
    assert not store.path.exists()


def test_home_begins_with_how_to_begin_and_then_with_what_was_measured_last(store):
    app = opened(HOME)
    assert texts(app.title) == ["enginebench"]
    assert "enginebench demo" in app.code[0].value

    store.add_benchmark(invented.benchmark("b0000001", "older"), [invented.snapshot()])
    for identity, engine, latency_ms in (("m1", "fake", 4.0), ("m2", "fake-fast", 2.0)):
        measurement = invented.measured(identity, engine=engine, latency_ms=latency_ms)
        store.add_measurement(measurement, invented.samples(identity, latency_ms=latency_ms))
    store.save_snapshot(invented.snapshot())
    app = opened(HOME)
    assert [link.label for link in entries(app)] == ["**older**"]
    assert any("fake-fast is fast" in one for one in texts(app.markdown))
    assert "**local**" in texts(app.markdown)
    assert "What older has answered" in texts(app.caption)

    store.add_benchmark(replace(invented.benchmark("b0000002", "newer"), created_at_unix_ns=invented.CREATED_NS + 1))
    assert [link.label for link in entries(opened(HOME))] == ["**newer**", "**older**"]


@pytest.mark.parametrize("page", [HOME, BENCHMARKS])
def test_what_computes_something_else_is_not_the_highest_measured(store, page):
    store.add_benchmark(invented.benchmark())
    wrong = (invented.outputs(shift=0.5),)
    for place, engine in enumerate(("fake", "fake-fast", "onnxruntime")):
        store.add_measurement(invented.measured(f"m{place}", engine=engine, latency_ms=4.0 + place))
    store.add_measurement(invented.measured("m3", engine="wrong", latency_ms=1.0, captured_outputs=wrong))
    assert store.benchmark_page().listed[0].fastest.engine == "wrong"

    (line,) = [text for text in texts(opened(page).caption) if "Highest measured" in text]
    assert "with fake, batch 1" in line


def test_home_shows_a_few_of_many_targets_and_leads_to_the_others(store):
    store.add_benchmark(invented.benchmark())
    store.save_snapshot(*(invented.snapshot(f"board-{number:02}") for number in range(12)))
    app = opened(HOME)
    assert sum("board" in text for text in texts(app.markdown)) == 5
    assert any("7 more targets" in link.label for link in app.get("page_link"))


def test_benchmarks_are_listed_newest_first_and_searched(store):
    store.add_benchmark(invented.benchmark("b0000001", "older"))
    store.add_benchmark(replace(invented.benchmark("b0000002", "newer"), created_at_unix_ns=invented.CREATED_NS + 1))

    app = opened(BENCHMARKS)
    assert [link.label for link in entries(app)] == ["**newer**", "**older**"]
    assert entries(app)[0].proto.query_string == "id=b0000002"

    app.text_input[0].set_value("older").run()
    assert [link.label for link in entries(app)] == ["**older**"]
    assert "1 of 2 benchmarks" in texts(app.caption)


def test_a_long_list_is_shown_in_parts(store):
    for number in range(27):
        store.add_benchmark(invented.benchmark(f"b{number:07}"))

    app = opened(BENCHMARKS)
    assert len(entries(app)) == 20
    assert "27 benchmarks" in texts(app.caption)
    assert app.get("pagination")


def test_a_benchmark_shows_its_measurements_and_charts(store):
    store.add_benchmark(invented.benchmark(rerun_of="b0000000"), [invented.snapshot()])
    bf16 = Effective(
        precision=Readback("bf16", ReadbackSource.ENGINE_API), threads=Readback(2, ReadbackSource.OBSERVED)
    )
    store.add_measurement(invented.measured("m1", noisy=True), invented.samples("m1"))
    slow = invented.measured("m2", engine="fake-slow", effective=bf16, latency_ms=9.0)
    store.add_measurement(slow, invented.samples("m2", latency_ms=9.0))
    store.add_measurement(invented.measured("m3", batch=4), invented.samples("m3"))

    app = opened(BENCHMARK, id="b0000001")

    assert texts(app.title) == ["invented"]
    *_, table = app.dataframe
    assert list(table.value["Engine"]) == ["fake", "fake", "fake-slow"]
    assert "never became steady" in table.value["Remarks"][0]
    assert table.value["Precision"][2] == "bf16 (engine)"
    assert (
        "Not a comparison of equals" in texts(app.warning)[0] and "effective precision differs" in texts(app.warning)[0]
    )
    assert len(app.get("plotly_chart")) == 2
    assert ["1", "4"] in [box.options for box in app.selectbox]
    assert any("Re-run of b0000000" in link.label for link in app.get("page_link"))

    app.session_state["every process"] = app.session_state["throughput of everything"] = True
    app.run()
    assert list(app.dataframe[-1].value["Process"]) == [1, 2, 3] * 3
    assert len(app.get("plotly_chart")) == 3


def test_new_measurements_appear_without_a_restart(store):
    store.add_benchmark(invented.benchmark())
    app = opened(BENCHMARK, id="b0000001")
    assert "Nothing has been measured in this benchmark yet" in texts(app.info)[0]

    store.add_measurement(invented.measured("m1"), invented.samples("m1"))
    app.run()
    assert len(app.dataframe[0].value) == 1


def test_measurements_without_samples_are_shown_without_their_distribution(store):
    store.add_benchmark(invented.benchmark())
    store.add_measurement(invented.measured("m1"))

    app = opened(BENCHMARK, id="b0000001")

    assert not app.get("plotly_chart")
    assert "No raw samples were kept for this cell." in texts(app.info)


def test_a_benchmark_that_failed_throughout_shows_the_sentences_and_no_chart(store):
    store.add_benchmark(invented.benchmark())
    store.add_measurement(invented.failed("m1"))
    store.add_measurement(invented.failed("m2", batch=4))

    app = opened(BENCHMARK, id="b0000001")

    assert [one for one in texts(app.error) if "killed by SIGSEGV" in one]
    assert "There is nothing to draw: no measurement has numbers." in texts(app.info)
    assert "Segmentation fault" in app.code[0].value
    assert not app.get("plotly_chart")


def test_an_unknown_benchmark_and_none_at_all_are_told(store):
    assert "there is no benchmark 'nope'" in texts(opened(BENCHMARK, id="nope").error)[0]
    assert "No benchmark is chosen" in texts(opened(BENCHMARK).info)[0]


@pytest.mark.fault(17)
def test_a_store_that_cannot_be_read_is_a_banner(store):
    store.path.write_text("not a database " * 1000)

    for page in (None, TARGETS):
        (banner,) = texts(opened(page).error)
        assert "is not a DuckDB file" in banner


DUCKDB = "import duckdb, os, sys\nconnection = duckdb.connect(sys.argv[1])\n"
UNFINISHED = """
connection.execute("PRAGMA disable_checkpoint_on_shutdown")
connection.execute("UPDATE benchmarks SET name = 'in the log'")
os._exit(0)
"""
HOLDING = "print('open', flush=True)\nsys.stdin.read()\n"


def damaged_file(path):
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 0xFF]) + content[1:])


def damaged_log(path):
    subprocess.run([sys.executable, "-c", DUCKDB + UNFINISHED, path], check=True, capture_output=True)
    log = path.with_name(path.name + ".wal")
    content = log.read_bytes()
    log.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))


def newer_file(path):
    with duckdb.connect(path) as connection:
        connection.execute("INSERT INTO migrations VALUES (99, 'of the future', 0, '9.9')")


@pytest.mark.fault(17)
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (damaged_file, "store restore"),
        (damaged_log, "results.duckdb.wal, which holds what was written last, is damaged; .*store restore"),
        (newer_file, "made by a newer enginebench .* upgrade enginebench"),
    ],
)
def test_a_store_that_cannot_be_used_is_a_banner_with_what_to_do(store, spoil, words):
    store.add_benchmark(invented.benchmark())
    spoil(store.path)

    for page in (None, PROJECTS, PROFILES):
        (banner,) = texts(opened(page).error)
        assert str(store.path) in banner
        assert re.search(words, banner)


@pytest.mark.fault(17)
def test_a_store_that_another_program_holds_is_a_banner_that_names_it(store, monkeypatch):
    monkeypatch.setattr(reading, "READ_TIMEOUT_S", 0.2)
    store.add_benchmark(invented.benchmark())
    command = [sys.executable, "-c", DUCKDB + HOLDING, store.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"open\n"
        for page in (None, TARGETS):
            (banner,) = texts(opened(page).error)
            assert f"held open by process {holder.pid}" in banner
            assert "close that program" in banner
        holder.stdin.close()

    assert texts(opened(BENCHMARKS).title) == ["Benchmarks"]
    assert not opened(BENCHMARKS).error


def test_names_from_elsewhere_are_only_text(store):
    hostile = "**b** <img src=x> [x](javascript:1)"
    store.add_benchmark(invented.benchmark(name=hostile))

    (title,) = opened(BENCHMARK, id="b0000001").title
    assert title.value.replace("\u2060", "") == (r"\*\*b\*\* \<img src\=x\> \[x\]\(javascript\:1\)")
