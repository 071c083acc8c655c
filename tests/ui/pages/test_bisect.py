"""A bisect shaped: what is typed as a command, and the way through the versions as a line of verdicts."""

import typer

from enginebench_controller.cli import make_app
from enginebench_controller.plan.plan import GateMetric
from enginebench_controller.verdicts.bisect.decision import GatePurpose
from enginebench_controller.verdicts.gate.rule import GateOutcome
from enginebench_ui.pages.bisect.shapes import BisectForm, arguments, gate_rows, layer_rows, refusals, way, way_html
from invented_bisects import ANSWER, VERSIONS, gate


def test_the_form_is_the_command_that_asks_for_the_same():
    wish = BisectForm("-odd", "onnxruntime", " 1.20.0", "1.22.0", "3%", "1m", GateMetric.MEMORY)
    command, *words = arguments(wish)
    parsed = typer.main.get_command(make_app()).commands[command].make_context(command, words).params
    assert [parsed[name] for name in ("model", "engine", "good", "bad", "worse", "budget", "metric")] == [
        *("-odd", "onnxruntime", "1.20.0", "1.22.0", "3%", "1m", "memory")
    ]
    assert arguments(BisectForm("net", "torch", "1", "2")) == (
        *("bisect", "--engine=torch", "--good=1", "--bad=2", "net"),
    )


def test_each_field_is_told_what_is_wrong_with_it_in_the_words_of_the_command():
    wrong = refusals(BisectForm("net", "fake", "1.0", "1.0", "much", "1s"))
    assert wrong["worse"].startswith("--worse")
    assert wrong["budget"].startswith("--budget")
    assert wrong["bad"] == "--good and --bad are both 1.0: there is nothing between them"
    assert "fake is built into enginebench" in wrong["engine"]
    whole = BisectForm("net", "onnxruntime", "1.20.0", "1.22.0", "5%", "2m")
    assert refusals(whole) == {} and whole.is_whole
    assert not BisectForm("net", "onnxruntime", "1.20.0").is_whole


def test_an_engine_that_the_form_offers_is_not_refused():
    wish = BisectForm("net", "somebodys", "1.0", "2.0")
    assert refusals(wish, {"somebodys"}) == {}
    assert "somebodys is no engine of ours" in refusals(wish)["engine"]


def test_the_way_has_each_version_in_its_order_with_verdict_and_ratio():
    steps = way(VERSIONS, ANSWER.gates, ANSWER.culprit)
    assert [one.name for one in steps] == list(VERSIONS)
    assert [(one.sign, one.words) for one in steps] == [
        *(("✓", "good"), ("–", "skipped"), ("✓", "as good"), ("◆", "culprit"))
    ]
    assert steps[2].ratio == "1.001×, 0.990 to 1.012"
    assert steps[3].ratio == "1.098×, 1.070 to 1.130 against 1.21.0"
    assert [one.tone for one in steps] == ["good", "open", "good", "culprit"]


def test_a_way_that_is_half_gone_says_what_was_not_measured():
    steps = way(VERSIONS, ANSWER.gates[:1], None)
    assert [one.words for one in steps] == ["good", "not measured", "not measured", "bad"]
    assert way(VERSIONS, (), None)[-1].words == "3 not measured"


def test_what_is_worse_on_the_way_and_in_doubt_is_said_so():
    gates = (
        gate(GatePurpose.ENDS, "1", "4", GateOutcome.CANNOT_TELL),
        gate(GatePurpose.STEP, "1", "2", GateOutcome.WORSE),
        gate(GatePurpose.STEP, "1", "3", GateOutcome.PASSES, better=True),
    )
    assert [(one.sign, one.words) for one in way(("1", "2", "3", "4"), gates, None)] == [
        *(("✓", "good"), ("✗", "worse"), ("✓", "better"), ("?", "cannot tell"))
    ]


def test_many_that_were_not_measured_stand_together():
    names = [str(place) for place in range(100)]
    (first, middle, last) = way(names, (gate(GatePurpose.ENDS, "0", "99", GateOutcome.WORSE),), None)
    assert (first.name, last.name) == ("0", "99")
    assert (middle.name, middle.words) == ("1 … 98", "98 not measured")


def test_names_of_others_are_only_text():
    drawn = way_html(way(("<b>1", "2"), (), "2"))
    assert "&lt;b&gt;1" in drawn and "<b>1" not in drawn.replace("<b>2", "")


def test_gates_and_layers_are_rows():
    rows = gate_rows(ANSWER.gates, ANSWER.metric)
    assert [row["Verdict"] for row in rows] == ["worse", "skipped", "as good", "worse"]
    assert (rows[1]["Why not"], rows[1]["Benchmark"]) == ("1.20.1: no wheel", None)
    without_good = gate(GatePurpose.STEP, "1.20.0", "1.20.1", None, base_reason="killed")
    (told,) = gate_rows([without_good], ANSWER.metric)
    assert (told["Verdict"], told["Why not"]) == ("not told, as 1.20.0 came to nothing", "1.20.0: killed")
    assert (rows[2]["Asked"], rows[3]["Asked"]) == ("halving, longer", "against the one before")
    (told,) = gate_rows([ANSWER.gates[2].model_copy(update={"difference": 0.1})], ANSWER.metric)
    assert told["Verdict"] == "as good, less than D = 10 % worse"
    figures = {"base_figure": 376e6, "head_figure": 381e6}
    (told,) = gate_rows([ANSWER.gates[0].model_copy(update=figures)], ANSWER.metric)
    assert told["From → to"] == "376.000 ms → 381.000 ms"
    (layer,) = layer_rows(ANSWER.layers)
    assert layer == {"Layer": "Conv_4", "Operator": "Conv", "Difference (ms)": 0.31, "Share of it (%)": 62.0}
