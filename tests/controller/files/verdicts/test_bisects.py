"""A bisect is told with its answer first: in a sentence, as an issue for the engine's project, as a document."""

import pytest

from enginebench_controller.files.verdicts.bisects import bisect_document, bisect_markdown
from enginebench_controller.plan.bisect import BisectKind
from enginebench_controller.plan.plan import GateMetric
from enginebench_controller.verdicts.bisect.answer import Ratio
from enginebench_controller.verdicts.bisect.decision import BisectFinding, GatePurpose
from enginebench_controller.verdicts.bisect.words import headline, remarks, way_words
from enginebench_controller.verdicts.gate.results import LayerShare
from enginebench_controller.verdicts.gate.rule import GateOutcome
from invented_bisects import ANSWER, gate, search

DOUBTS = ({"would_tell": "40s"}, {"would_tell": "15m", "patience": 3})
"""A gate in doubt, and the longer one that followed."""

FOUND = (
    "onnxruntime 1.22.0 is 9.8 % slower (1.098×, 1.070 to 1.130) than 1.21.0, which explains 51 % of the difference "
    "between 1.20.0 and 1.22.0 (1.200×, 1.170 to 1.230)"
)


def test_the_sentence_names_the_culprit_and_what_it_explains() -> None:
    assert headline(ANSWER) == FOUND
    whole = ANSWER.model_copy(update={"share": 1.0})
    assert not any("further steps" in one for one in remarks(whole)), "it is the whole difference"
    assert "further steps: the rest of the difference, 49 %, came with other versions" in remarks(ANSWER)
    explained = ", which explains all of the difference between 1.20.0 and 1.22.0 (1.200×, 1.170 to 1.230)"
    assert headline(whole).endswith(explained)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"finding": BisectFinding.ONE_OF, "suspects": ("1.21.0", "1.22.0"), "before": "1.20.1"},
            "one of 1.21.0, 1.22.0 has made it slower: onnxruntime 1.22.0 is 9.8 % slower (1.098×, 1.070 to 1.130) "
            "than 1.20.1, and those between came to nothing",
        ),
        (
            {"finding": BisectFinding.NOT_APART, "whole": None, "reason": "noise hides whether there is a difference"},
            "cannot tell onnxruntime 1.20.0 and onnxruntime 1.22.0 apart by 5 %; noise hides whether there is a "
            "difference",
        ),
        (
            {"finding": BisectFinding.EXCHANGED},
            "good and bad are exchanged: onnxruntime 1.22.0 is better than onnxruntime 1.20.0 (1.200×, 1.170 to 1.230)",
        ),
        (
            {"finding": BisectFinding.CANNOT_TELL, "suspects": ("1.20.1", "1.21.0", "1.22.0"), "reason": "noise"},
            "cannot tell which: it is one of the 3 from 1.20.1 to 1.22.0; noise",
        ),
        (
            {"finding": BisectFinding.CANNOT_RUN, "reason": "bad came to nothing: no wheel"},
            "nothing can be bisected: bad came to nothing: no wheel",
        ),
        (
            {"bisected": BisectKind.OPTIONS, "option": "threads", "culprit": "4", "before": "2", "share": None},
            "onnxruntime.threads=4 is 9.8 % slower (1.098×, 1.070 to 1.130) than 2",
        ),
    ],
)
def test_what_is_no_culprit_is_told_as_what_it_is(changes: dict[str, object], sentence: str) -> None:
    assert headline(ANSWER.model_copy(update=changes)) == sentence


def test_the_way_is_a_line_of_verdicts_in_the_order_of_the_versions() -> None:
    assert way_words(ANSWER) == "1.20.0 good · 1.20.1 skipped · 1.21.0 as good · 1.22.0 culprit"


def test_the_issue_has_machine_versions_layers_verdicts_and_the_command() -> None:
    told = bisect_markdown(ANSWER)
    assert told.startswith(f"## onnxruntime 1.22.0 is slower since 1.21.0\n\n**{FOUND}.**\n")
    for part in (
        "| Conv&#95;4 | Conv | +0.310 ms | 62 % |",
        "\n- processor: a processor, 2 cores\n",
        "\n    enginebench bisect net.onnx --engine onnxruntime --good 1.20.0 --bad 1.22.0\n",
        "| 1.20.1 | 1.20.0 | – | – | – | skipped |  |",
        "take turns; a difference counts from 5 % on: 1.20.0 good",
        "\n- further steps: the rest of the difference, 49 %, came with other versions\n",
        "\n- skipped onnxruntime 1.20.1: no wheel\n",
    ):
        assert part in told


def test_what_is_as_good_is_told_with_how_much_worse_it_may_be() -> None:
    gates = [gate.model_copy(update={"difference": 0.0825}) for gate in ANSWER.gates]
    told = bisect_markdown(ANSWER.model_copy(update={"gates": tuple(gates)}))
    assert "| is | worse by less than |" in told
    assert "| 1.001× | 0.990 to 1.012 | – | as good (longer) | 8.25 % |" in told
    assert told.count("8.25 %") == 1


def test_figures_stand_beside_the_ratios_in_the_unit_of_the_metric() -> None:
    figures = {"base_figure": 86.6e6, "head_figure": 95.1e6}
    gates = (*ANSWER.gates[:-1], ANSWER.gates[-1].model_copy(update=figures))
    heavier = ANSWER.model_copy(update={"metric": GateMetric.MEMORY, "gates": gates})
    assert " is 9.8 % larger in memory (1.098×, 1.070 to 1.130; 86.6 MB → 95.1 MB) than 1.21.0" in headline(heavier)
    assert "| 1.098× | 1.070 to 1.130 | 86.6 MB → 95.1 MB | worse |" in bisect_markdown(heavier)


@pytest.mark.parametrize("finding", [BisectFinding.NOT_APART, BisectFinding.CANNOT_TELL])
def test_what_stayed_in_doubt_is_told_with_the_budget_that_would_tell(finding: BisectFinding) -> None:
    looks = [gate(GatePurpose.ENDS, "1.20.0", "1.22.0", GateOutcome.CANNOT_TELL, **told) for told in DOUBTS]
    doubt = {"finding": finding, "gates": tuple(looks), "reason": "noise hides it"}
    assert headline(ANSWER.model_copy(update=doubt)).endswith("; noise hides it; `--budget 15m` would tell")
    doubt["gates"] = (looks[0], looks[1].model_copy(update={"would_tell": None}))
    assert headline(ANSWER.model_copy(update=doubt)).endswith("; noise hides it"), "that of the shorter one was tried"
    doubt["gates"] = (looks[1], looks[1].model_copy(update={"would_tell": None}))
    assert headline(ANSWER.model_copy(update=doubt)).endswith("; noise hides it"), "an earlier gate decided nothing"


LONG_DOUBT = {"would_tell": "9m", "patience": 3}


def of_the_last_two(*looks):
    """The gates of 1.21.0 and 1.22.0: of the neighbours, and then of each with good once more."""
    places = {GatePurpose.NEIGHBOURS: "1.21.0", GatePurpose.STEP: "1.20.0"}
    return tuple(gate(purpose, places[purpose], head, outcome, **told) for purpose, head, outcome, told in looks)


def test_where_a_longer_gate_has_told_no_budget_is_promised():
    """That of the neighbours was in doubt before it."""
    gates = of_the_last_two(
        (GatePurpose.NEIGHBOURS, "1.22.0", GateOutcome.CANNOT_TELL, LONG_DOUBT),
        (GatePurpose.STEP, "1.22.0", GateOutcome.PASSES, {"patience": 3}),
    )
    reason = "a longer gate did not find bad worse again"
    told = {"finding": BisectFinding.NOT_APART, "gates": gates, "reason": reason}
    assert headline(ANSWER.model_copy(update=told)).endswith(f"; {reason}")


def test_where_noise_did_not_hide_it_no_budget_is_promised():
    """Both were told from good and not from each other; one of them is in doubt when it is looked at again."""
    reason = "each was told from good by its side, and the two not from each other"
    gates = of_the_last_two(
        (GatePurpose.NEIGHBOURS, "1.22.0", GateOutcome.PASSES, {}),
        (GatePurpose.STEP, "1.22.0", GateOutcome.CANNOT_TELL, LONG_DOUBT),
    )
    told = {"finding": BisectFinding.CANNOT_TELL, "gates": gates, "reason": reason}
    assert headline(ANSWER.model_copy(update=told)).endswith(f"; {reason}")


def test_neighbours_in_doubt_are_told_with_their_budget_though_those_that_led_there_were_looked_at_again():
    again = [(GatePurpose.STEP, "1.22.0", GateOutcome.WORSE, {}), (GatePurpose.STEP, "1.21.0", GateOutcome.PASSES, {})]
    doubt = (GatePurpose.NEIGHBOURS, "1.22.0", GateOutcome.CANNOT_TELL, LONG_DOUBT)
    told = {"finding": BisectFinding.CANNOT_TELL, "gates": of_the_last_two(doubt, *again), "reason": "noise hides it"}
    assert headline(ANSWER.model_copy(update=told)).endswith("; noise hides it; `--budget 9m` would tell")


def test_the_title_of_the_issue_has_the_metric_and_no_layer_is_more_than_all_in_per_cent() -> None:
    layers = (LayerShare("Conv_4", "Conv", 310_000, 2.12),)
    text = bisect_markdown(ANSWER.model_copy(update={"metric": GateMetric.FIRST_INFERENCE, "layers": layers}))
    assert "is slower to its first inference since 1.21.0" in text.partition("**")[0]
    assert "| more than all |" in text and "212 %" not in text


def test_the_document_begins_with_the_sentence_and_has_what_is_kept() -> None:
    told = bisect_document(search(), ANSWER)
    assert (told["kind"], told["sentence"], told["culprit"]) == ("enginebench-bisect", FOUND, "1.22.0")
    assert told["gates"][1]["outcome"] is None
    assert told["remarks"][0].startswith("further steps: ")


def test_of_a_very_wide_interval_what_it_is_at_the_least_is_told():
    wide = ANSWER.model_copy(update={"step": Ratio(ratio=2.013, low=1.087, high=3.73)})
    assert " is at least 8.7 % slower (2.013×, 1.087 to 3.730) than " in headline(wide)
