"""Which measurements' outputs are compared with which: the one that most engines agree with is the reference."""

from dataclasses import replace

import numpy as np
import pytest

import invented
from controller.verdicts.judged import INPUTS, check, measured, rounded, scores
from enginebench_controller.records import Configuration, EngineRef, Load
from enginebench_controller.verdicts.output_check import check_outputs


def test_an_engine_that_ignores_its_input_is_never_the_reference():
    ignored = np.repeat(scores()[:1], INPUTS, axis=0)

    checks = check(measured("onnxruntime", ignored), measured("openvino", scores()))

    assert checks["openvino"].problem == ""
    assert checks["openvino"].reference is None
    assert "ignored" in checks["onnxruntime"].problem


@pytest.mark.parametrize("wrong", ["onnxruntime", "openvino", "torch"])
def test_one_engine_against_all_others_is_the_wrong_one(wrong):
    engines = ("onnxruntime", "openvino", "torch")

    checks = check(*(measured(one, scores(1) if one == wrong else rounded(scores())) for one in engines))

    assert [one for one in engines if checks[one].problem] == [wrong]


def test_many_measurements_of_one_engine_are_no_majority():
    """A sweep repeats the same mistake: what counts is how many engines agree."""
    sweep = [
        replace(measured("wrong", scores(1)), id=f"wrong-{cores}", configuration=Configuration("CPU", 4, cores=cores))
        for cores in range(1, 6)
    ]
    right = [measured("onnxruntime", scores()), measured("openvino", rounded(scores()))]

    found = check_outputs([*sweep, *right])

    assert [bool(found[one.id].problem) for one in (*sweep, *right)] == [True] * 5 + [False] * 2


def test_the_reference_is_onnx_runtime_in_f32_under_sync_load():
    under = {
        load: replace(
            measured("onnxruntime", scores()), id=str(load), configuration=Configuration("CPU", 4, cores=2, load=load)
        )
        for load in (Load.ASYNC, Load.SYNC)
    }
    coarse = measured("onnxruntime", scores(), precision="bf16")

    found = check_outputs([measured("a", scores()), coarse, *under.values()])

    assert {id_: check.reference for id_, check in found.items()} == {
        "of-a": "sync",
        "of-onnxruntime": "sync",
        "async": "sync",
        "sync": None,
    }


def test_a_quantized_model_is_compared_with_the_model_it_was_made_from():
    source = invented.model("ab" * 32)
    quantized = invented.model("cd" * 32, "q", parent_digest=source.digest, derivation=invented.INT8)
    stored = invented.model("ef" * 32, "s", parent_digest=source.digest, derivation=invented.IR_FP16)
    measurements = [
        measured("onnxruntime", rounded(scores(), 0.15), model_digest=quantized.digest),
        measured("openvino", rounded(scores(), 0.001), model_digest=stored.digest),
        measured("torch", scores(), model_digest=source.digest),
    ]

    checks = check(*measurements, models=[source, quantized, stored])

    assert {one: check.reference for one, check in checks.items()} == {
        "onnxruntime": "of-torch",
        "openvino": "of-torch",
        "torch": None,
    }
    assert {one: check.tolerance for one, check in checks.items()} == {
        "onnxruntime": 0.2,
        "openvino": 0.05,
        "torch": None,
    }
    assert not any(check.problem for check in checks.values())


def test_a_pruned_model_is_another_model():
    source = invented.model("ab" * 32)
    pruned = invented.model("cd" * 32, "p", parent_digest=source.digest, derivation=invented.PRUNED_90)

    checks = check(
        measured("onnxruntime", scores()),
        measured("deepsparse", scores(1), model_digest=pruned.digest),
        models=[source, pruned],
    )

    assert [check.reference for check in checks.values()] == [None, None]


@pytest.mark.parametrize("difference", [{"input_set_sha256": "ef" * 32}, {"batch": 2}, {"model_digest": "cd" * 32}])
def test_other_work_is_not_compared(difference):
    checks = check(measured("onnxruntime", scores()), measured("x", scores(1), **difference))

    assert checks["x"].reference is None


def test_two_versions_of_an_engine_are_two_engines():
    new = replace(measured("onnxruntime", scores(1)), id="new", engine=EngineRef("onnxruntime", "next", "2.0"))
    others = [measured("onnxruntime", scores()), measured("openvino", rounded(scores()))]

    found = check_outputs([new, *others])

    assert found["new"].problem.startswith("the outputs differ from those of onnxruntime 1.0 by")
    assert found["of-openvino"].problem == ""
