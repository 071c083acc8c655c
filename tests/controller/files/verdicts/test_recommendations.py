"""A recommendation as files: Markdown that begins with the answer, a plan that runs, and a chart with the limit."""

import base64
import re
from dataclasses import replace

import pytest

from enginebench_controller.errors import InputError
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.files.verdicts.recommendations import (
    in_order,
    recommendation_html,
    recommendation_markdown,
    recommendation_toml,
    write_front,
)
from enginebench_controller.plan.plan import read_plan
from enginebench_controller.verdicts.recommend.search import Fate, SearchOutcome
from invented_recommendations import carried_out, for_two_targets, order, points, search


def test_markdown_begins_with_the_answer_and_the_command_and_folds_what_was_tried() -> None:
    asked = order()
    found = carried_out(asked)
    text = recommendation_markdown(search(asked), found)
    assert text.startswith("## enginebench recommend: net\n\n**openvino, batch 4, 2 cores")
    assert text.index("```\nenginebench run net") < text.index("| default of |") < text.index("<details>")
    assert text.count("| openvino, batch") + text.count("| torch, batch") >= len(found.tried)


def test_where_nothing_holds_the_limit_no_file_calls_anything_the_best_or_has_a_plan() -> None:
    asked = order(max_latency="p95<1ms")
    found = carried_out(asked)
    assert recommendation_toml(found) is None
    assert recommendation_toml(replace(found, plan=carried_out(order()).plan)) is None, "as older answers have it"
    for text in (recommendation_markdown(search(asked), found), recommendation_html(search(asked), found)):
        assert "nearest, breaks the limit" in text and "× as good is the nearest" in text
        assert "the best" not in text.lower() and "enginebench run" not in text


def test_a_command_of_what_may_hold_the_limit_is_said_to_be_no_recommendation() -> None:
    asked = order()
    found = replace(carried_out(asked), outcome=SearchOutcome.CANNOT_TELL)
    for text in (recommendation_markdown(search(asked), found), recommendation_html(search(asked), found)):
        assert text.index("not a recommendation, but what measures it again:") < text.index("enginebench run")
    assert recommendation_toml(found) is None


@pytest.mark.parametrize(("limit", "heading"), [("p95<20ms", "p95 ms"), ("20ms", "median ms"), (None, "median ms")])
def test_the_column_of_latency_is_named_after_what_it_holds(limit, heading) -> None:
    asked = order(max_latency=limit)
    text = recommendation_markdown(search(asked), carried_out(asked))
    assert text.count(f"| {heading} |") == 2


def test_a_default_that_cannot_be_run_is_not_said_to_be_known_by_its_likes() -> None:
    asked = order()
    (torch,) = (place for place, one in enumerate(carried_out(asked).tried) if one.is_default and one.engine == "torch")
    text = recommendation_markdown(search(asked), carried_out(asked, refused=(torch,)))
    assert "| torch | – | it was refused |" in text


def test_the_front_names_the_model_where_several_were_tried() -> None:
    found = carried_out(order())
    both = replace(found, tried=tuple(replace(one, model=("net", "other")[n % 2]) for n, one in enumerate(found.tried)))
    front = recommendation_markdown(search(order()), both).partition("What is the fastest")[2]
    rows = [line for line in front.partition("<details>")[0].splitlines() if line.startswith("| openvino")]
    assert rows and all(row.startswith(("| openvino, net, ", "| openvino, other, ")) for row in rows)


def test_what_a_slow_model_does_in_a_second_is_no_zero() -> None:
    asked = order()
    found = carried_out(asked)
    slow = replace(found, tried=tuple(replace(one, throughput_items_per_s=0.041234) for one in found.tried))
    rows = [line for line in recommendation_markdown(search(asked), slow).splitlines() if "| openvino, " in line]
    assert len(rows) > 2
    assert all("| 0.04123 |" in line for line in rows)


def test_markdown_labels_how_far_outputs_are() -> None:
    asked = order()
    found = carried_out(asked, differences=lambda one: 0.0081 if one.case.engine.name == "torch" else None)
    text = recommendation_markdown(search(asked), found)
    assert "| outputs differ |" in text
    assert all(
        "| 0.81 % |" in line for line in text.splitlines() if line.startswith("| torch, ") and line.count("|") > 6
    )


def test_the_page_begins_with_the_answer_and_holds_its_picture_and_needs_no_net() -> None:
    asked = order()
    default = next(place for place, one in enumerate(points(asked).points) if one.is_default)
    found = carried_out(asked, refused=(default,))
    text = recommendation_html(replace(search(asked), name="<b>net</b>"), found)
    assert "&lt;b&gt;net" in text and "<b>net" not in text
    body = text[text.index("<main>") :]
    assert body.index("openvino, batch 4, 2 cores") < body.index("enginebench run") < body.index("What it gains")
    picture = base64.b64decode(re.search(r"base64,([^\"]+)", body)[1]).decode()
    assert picture.startswith("<?xml") and "p95 &lt; 20 ms" in picture
    assert body.count("<tr>") == 2 + len(found.gains) + len(found.tried)
    assert "it crashed" in body and "http" not in re.sub(r"base64,[^\"]+", "", body)


def test_the_plan_is_a_file_that_run_takes(tmp_path) -> None:
    found = carried_out(order())
    path = tmp_path / "plan.toml"
    path.write_text(recommendation_toml(found))
    assert read_plan(path).batch == (4,)


def test_of_several_targets_the_one_for_all_comes_first_and_its_plan_is_written(tmp_path) -> None:
    asked = order(targets=("nuc", "board"))
    found = for_two_targets(asked)
    text = recommendation_markdown(search(asked), found)
    assert text.startswith("## enginebench recommend: net\n\n**for all of nuc, board: openvino")
    assert text.index("| board | 1.12") < text.index("### nuc") < text.index("### board")
    path = tmp_path / "plan.toml"
    path.write_text(recommendation_toml(found))
    assert read_plan(path).targets == ("nuc", "board")


def test_the_best_comes_first_then_the_next_best() -> None:
    fates = [one.fate for one in in_order(carried_out(order()))]
    assert fates[:2] == [Fate.BEST, Fate.RUNNER_UP]


def test_the_chart_has_the_limit_and_one_colour_an_engine(tmp_path) -> None:
    asked = order()
    found = carried_out(asked)
    write_front(found, asked.document(), tmp_path / "front.svg", force=False)
    text = (tmp_path / "front.svg").read_text()
    assert "p95 &lt; 20 ms" in text
    for engine in ("openvino", "torch"):
        assert re.search(EngineLooks().of(engine).colour, text, re.IGNORECASE), engine


def test_a_chart_of_another_kind_is_refused(tmp_path) -> None:
    asked = order()
    with pytest.raises(InputError, match="a chart is written as"):
        write_front(carried_out(asked), asked.document(), tmp_path / "front.pdf", force=False)


def test_a_chart_replaces_another_file_only_by_force(tmp_path) -> None:
    asked, path = order(), tmp_path / "front.svg"
    path.write_text("mine")
    with pytest.raises(InputError, match="or replace it with --force"):
        write_front(carried_out(asked), asked.document(), path, force=False)
    assert path.read_text() == "mine"
    write_front(carried_out(asked), asked.document(), path, force=True)
    assert "<svg" in path.read_text() and list(tmp_path.iterdir()) == [path]
