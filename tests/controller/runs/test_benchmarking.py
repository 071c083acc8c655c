"""What is stored of a benchmark before it begins, and what it is run again by."""

from dataclasses import replace

import pytest
from tiny_models import save, tiny_classifier

import invented
from enginebench_controller.errors import InputError
from enginebench_controller.home import Home
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.expand import Expansion
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.records.model import families
from enginebench_controller.runs.benchmarking import _record, order_again
from enginebench_controller.targets.session import TargetSession
from offered import CASE

BENCHMARK = invented.benchmark()


def again(**said):
    """The order that repeats a benchmark whose plan says this, as an import may have brought it."""
    return order_again(replace(BENCHMARK, plan={"models": ["net"], **said}))


def test_a_benchmark_is_run_again_with_the_versions_that_its_models_were():
    assert again(digests={"net": "ab" * 32}).digests == {"net": "ab" * 32}
    assert again().digests is None


@pytest.mark.parametrize("odd", [5, ["net"], "net", {"net": 5}])
def test_versions_in_a_form_that_is_not_ours_are_a_sentence(odd):
    with pytest.raises(InputError, match="plan of benchmark b0000001 names no versions of its models"):
        again(digests=odd)


def test_the_versions_between_a_model_and_its_original_are_stored_with_it(tmp_path):
    """Otherwise a version of a version would pass for another model, whose outputs are compared with nothing."""
    home, file = Home(tmp_path), tmp_path / "net.onnx"
    original = home.library.add(save(tiny_classifier(1), file))
    made = [original]
    for batch, derivation in ((2, invented.INT8), (3, invented.IR_FP16)):  # other files, whatever is in them
        other = save(tiny_classifier(batch), file)
        made.append(home.library.add(other, parent=made[-1].digest, derivation=derivation))
    cases = tuple(replace(CASE, model=one) for one in (original, made[-1]))
    plan = make_plan({"models": [one.digest for one in (original, made[-1])]}, "the plan")

    _record(
        home,
        BENCHMARK,
        Expansion(cases, ()),
        TargetSession({}, (invented.snapshot("edge"),)),
        Binder(home.library, home.inputs, plan),
    )

    assert families(home.store.models()) == {one.digest: original.digest for one in made}
