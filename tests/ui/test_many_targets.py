"""A benchmark over many targets: who stands out, how far apart they are, and the choice of one to look at."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.home import default_home
from enginebench_controller.records import Failure, FailureKind, Status, Target
from enginebench_controller.store.store import BenchmarkBundle
from enginebench_controller.verdicts.across import across_targets
from enginebench_ui.pages import BENCHMARK
from enginebench_ui.pages.benchmark.shapes.across import headline
from opened_pages import opened, texts

pytestmark = pytest.mark.slow

SLOW, FAILED = "board-03", "board-04"
HOSTILE = "<img src=x> [b](https://example.com)"


@pytest.fixture
def boards(tmp_path, monkeypatch):
    """Twenty-four boards in two laboratories, two engines on each; one is slow, and one fails."""
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    store = default_home().store
    names = [f"board-{number:02}" for number in range(23)] + [HOSTILE]
    store.add_bundles(
        [
            BenchmarkBundle(
                invented.benchmark(name="everywhere"),
                tuple(measured(name, engine) for name in names for engine in ("fast", "slow")),
                tuple(invented.snapshot(name) for name in names),
            )
        ]
    )
    for number, name in enumerate(names):
        labels = {"site": f"lab{number % 2}", "serial": str(number)}
        store.add_target(Target(name, f"10.0.0.{number}:50151", number, labels))
    return names


def measured(target, engine):
    latency_ms = (4.0 if engine == "fast" else 8.0) * (2 if target == SLOW else 1)
    one = replace(invented.measured(f"{target}-{engine}", engine=engine, latency_ms=latency_ms), target=target)
    failed = {"status": Status.FAILED, "failure": Failure(FailureKind.CRASHED, "it crashed"), "latency": None}
    return replace(one, **failed) if target == FAILED else one


def box(app, label):
    return next(one for one in app.selectbox if one.label == label)


def plain(text):
    """What Markdown shows of it."""
    return text.replace("\\", "")


def page(**address):
    return opened(BENCHMARK, id="b0000001", **address)


def test_those_who_stand_out_come_first_and_the_others_as_a_row_a_group(boards):
    app = page()
    assert any("24 targets: 1 failed, 1 unlike their kind" in one for one in texts(app.markdown))
    assert f"failed on 1 target: {FAILED}" in texts(app.caption)
    assert any(
        one.startswith(f"unlike their kind, latency ÷ that of the others: {SLOW} (") for one in texts(app.caption)
    )
    assert len(app.get("plotly_chart")) == 1
    (rows,) = (table.value for table in app.dataframe)
    assert list(rows["Targets"]) == [24, 24]
    first, second, *others = box(app, "Look at one").options
    assert (first, second[: len(SLOW)], len(others)) == ("all targets", SLOW, 23)


def test_they_are_put_together_by_a_label_that_some_share(boards):
    app = page(by="site")
    assert box(app, "Together by").options == ["kind of machine", "site"], "a serial number puts nobody together"
    assert [list(table.value["Group"]) for table in app.dataframe] == [["lab0", "lab0", "lab1", "lab1"]]


def test_one_is_looked_at_as_if_it_had_been_the_only_one(boards):
    app = page(target=SLOW)
    assert any("fast" in one and "is fastest" in one for one in texts(app.markdown))
    assert not any(one.label.startswith("All ") for one in app.expander)
    labels = [plain(one.label) for one in app.expander]
    assert [one for one in labels if "as it was when" in one] == [f"Target {SLOW}, as it was when this was measured"]


def test_whoever_stands_out_in_one_configuration_is_counted_in_the_headline(boards):
    every = [measured(name, engine) for name in boards for engine in ("a", "b", "c") if name not in (SLOW, FAILED)]
    at = next(place for place, one in enumerate(every) if (one.target, one.engine.name) == ("board-07", "b"))
    every[at] = replace(every[at], latency=replace(every[at].latency, median_ns=3 * every[at].latency.median_ns))
    found = across_targets(every, map(invented.snapshot, boards), ())
    assert headline(found) == "22 targets: 1 unlike their kind in single configurations"
    assert headline(across_targets(every[:at], map(invented.snapshot, boards), ())).endswith("none stands out")


def test_what_was_measured_on_all_is_there_when_it_is_wanted(boards):
    assert any(one.label == "All 48 measurements" for one in page().expander)
