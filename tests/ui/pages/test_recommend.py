"""A recommendation shaped: what is typed as a command, the points as rows with what speaks against each, the front."""

from dataclasses import replace

import pytest
import typer

import invented
from enginebench_controller.cli import make_app
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.plan.recommend import Goal
from enginebench_controller.verdicts.recommend.search import Fate
from enginebench_ui.pages.recommend.shapes import (
    GOALS,
    RecommendForm,
    alternative,
    arguments,
    asked_words,
    front_figure,
    gain_rows,
    refusals,
    tried_rows,
    why,
)
from enginebench_ui.shared.order_fields import plain_names
from enginebench_ui.shared.versions import KnownVersion
from invented_recommendations import carried_out, order, points, search


@pytest.fixture(scope="module")
def asked():
    return order()


@pytest.fixture(scope="module")
def found(asked):
    return carried_out(asked)


def params(words):
    """What the command makes of these words."""
    command, *rest = words
    return typer.main.get_command(make_app()).commands[command].make_context(command, rest).params


def test_the_form_is_the_command_that_asks_for_the_same():
    wish = RecommendForm(
        models=("-odd name",),
        max_latency=" p95<20ms ",
        goal=Goal.LATENCY,
        budget="30s",
        target="nuc",
        engines=("openvino", "torch"),
        devices=("CPU", "GPU.0"),
        shape="ids=1x128, mask=1x128",
        max_memory="500MB",
        leave_cores=1,
        among="batch=1,4; cores=2",
        versions=True,
    )
    parsed = params(arguments(wish))
    assert parsed["models"] == ["-odd name"]
    assert [parsed[name] for name in ("max_latency", "max_memory", "budget", "minimize")] == [
        *("p95<20ms", "500MB", "30s", "latency")
    ]
    assert (parsed["target"], parsed["device"]) == (["nuc"], ["CPU,GPU.0"])
    assert parsed["shape"] == ["ids=1x128", "mask=1x128"]
    assert (parsed["engine"], parsed["leave_cores"], parsed["versions"]) == (["openvino,torch"], 1, True)
    assert parsed["among"] == ["batch=1,4", "cores=2"]


def test_what_is_not_said_is_left_to_the_command():
    assert arguments(RecommendForm(models=("net",))) == ("recommend", "net")


def test_each_field_is_told_what_is_wrong_with_it_in_the_words_of_the_command():
    wrong = refusals(RecommendForm(max_latency="20", budget="soon", max_memory="much", among="colour=red"))
    assert wrong["max_latency"] == "--max-latency '20' has no unit: write 20ms, or another of ns, us, ms, s, m"
    assert wrong["budget"].startswith("--budget")
    assert wrong["max_memory"].startswith("--max-memory 'much' is no amount of memory")
    assert "there is no axis 'colour'" in wrong["among"]
    assert "'1,024' is two values" in refusals(RecommendForm(among="cores=2; batch=1,024"))["among"]
    assert "shape" in refusals(RecommendForm(shape="ids"))
    assert refusals(RecommendForm(max_latency="p95<20ms", budget="5m", among="batch=1")) == {}


def test_a_model_is_called_by_its_name_where_that_means_it_alone():
    known = {
        one.digest: KnownVersion(one, is_here=True)
        for one in (
            invented.model(digest="aa" * 32, name="net"),
            invented.model(digest="bb" * 32, name="twice"),
            invented.model(digest="cc" * 32, name="twice"),
            invented.model(digest="dd" * 32, name="as/a/path"),
        )
    }
    assert plain_names([*known, "zoo:resnet50"], known) == ("net", "bb" * 6, "cc" * 6, "dd" * 6, "zoo:resnet50")


def test_a_list_tells_searches_apart_by_their_limits_and_goals(asked):
    assert asked_words(search(asked)) == "p95 < 20 ms"
    assert asked_words(search(order(goal="memory", max_latency=None))) == "least memory"
    later = replace(search(asked), order={"models": ["net"], "unheard_of": 1})
    assert asked_words(later) == ""


def test_the_best_comes_first_and_of_every_other_it_is_said_what_speaks_against_it(asked, found):
    rows = tried_rows(found, asked.latency_limit)
    assert len(rows) == len(found.tried)
    best, second = rows[:2]
    assert (best["Found"], best["Why"]) == ("the best", None)
    assert best["Configuration"].startswith("openvino, batch 4, 2 cores")
    assert best["p95 (ms)"] < 20 and best["Items/s"] > second["Items/s"]
    assert second["Why"].startswith("the best is 1.")
    broken = [row for row in rows if row["Found"] == "breaks a limit"]
    assert broken and all("% of p95 < 20 ms (" in row["Why"] for row in broken)
    assert all(row["Why"] for row in rows[1:])
    assert all("by its likes" in row["Why"] for row in rows if not row["Processes"])


def test_where_nothing_holds_the_limit_the_nearest_is_not_called_the_best():
    asked = order(max_latency="p95<1ms")
    found = carried_out(asked)
    nearest = tried_rows(found, asked.latency_limit)[0]
    assert nearest["Found"] == "nearest, breaks the limit" and "% of p95 < 1 ms (" in nearest["Why"]
    traces = {trace.name for trace in front_figure(found, asked.latency_limit, EngineLooks()).data}
    assert "the nearest" in traces and "the best" not in traces


def test_what_crashed_says_so(asked):
    default = next(place for place, one in enumerate(points(asked).points) if one.is_default)
    crashed = carried_out(asked, refused=(default,))
    assert why(crashed, crashed.tried[default]) == "failed: it crashed"


def test_an_interval_that_tells_nothing_is_no_long_number(found):
    wide = replace(found.tried[found.runner_up], ratio=(3.0, 0.5, 1e300))
    assert why(found, wide) == "the best is 3.00× as good (0.50 to over 100)"
    endless = replace(wide, fate=Fate.LIMIT_NOT_TOLD, limit_share=((0.6, 0.0, None),))
    assert why(found, endless) == "60 % of p95 < 20 ms (0 to over 10000)"


def test_gains_are_over_the_default_of_each_engine(found):
    rows = gain_rows(found)
    assert {row["Engine"] for row in rows} == {"openvino", "torch"}
    assert all("× as good (" in row["Against its default"] for row in rows)
    assert {row["Known by"] for row in rows} <= {"measuring it", "its likes"}


def test_the_chart_names_the_model_where_several_were_tried(found):
    both = replace(found, tried=tuple(replace(one, model=("net", "other")[n % 2]) for n, one in enumerate(found.tried)))
    figure = front_figure(both, None, EngineLooks())
    names = [each[0] for trace in figure.data for each in trace.customdata or ()]
    assert names and all({"net", "other"} & set(name.split(", ")) for name in names)
    assert ", net, batch" in alternative(both, None) or ", other, batch" in alternative(both, None)


def test_the_front_has_one_colour_an_engine_the_limit_and_the_best(asked, found):
    figure = front_figure(found, asked.latency_limit, EngineLooks())
    traces = {trace.name: trace for trace in figure.data}
    looks = EngineLooks()
    for engine in ("openvino", "torch"):
        marker = traces[engine].marker
        assert (marker.color, marker.symbol) == (looks.of(engine).colour, looks.of(engine).symbol)
    assert set(traces["limit: p95 &lt; 20 ms"].x) == {20.0}
    front = traces["front: nothing is faster and does more"]
    assert list(front.x) == sorted(front.x) and list(front.y) == sorted(front.y)
    assert traces["the best"].x[0] == pytest.approx(found.best_point.limited_ns / 1e6)
    large = sum(size > 8 for engine in ("openvino", "torch") for size in traces[engine].marker.size)
    assert large == len(front.x) == sum(one.on_front for one in found.tried)
    told = alternative(found, asked.latency_limit)
    assert "p95 latency" in told and "The limit is p95 < 20 ms." in told


def test_latencies_that_span_much_stand_on_a_logarithmic_axis(asked, found):
    limit = replace(asked.latency_limit, limit_ns=1e11)
    assert front_figure(found, limit, EngineLooks()).layout.xaxis.type == "log"
    near = [one for one in found.tried if one.on_front][:1]
    alone = replace(found, tried=tuple(near), best=0, runner_up=None)
    assert front_figure(alone, None, EngineLooks()).layout.xaxis.type != "log"


def test_where_nothing_was_measured_there_is_nothing_to_draw(asked, found):
    silent = replace(found, tried=tuple(replace(one, median_ns=None) for one in found.tried))
    assert front_figure(silent, asked.latency_limit, EngineLooks()) is None


def test_a_rate_is_a_goal_that_needs_a_limit():
    wish = RecommendForm(("net",), goal=Goal.RATE)
    assert "--max-latency" in refusals(wish)["max_latency"]
    assert not refusals(replace(wish, max_latency="p99<50ms"))
    assert "--maximize=rate" in arguments(replace(wish, max_latency="p99<50ms"))
    assert set(GOALS) == set(Goal)
