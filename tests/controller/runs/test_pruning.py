"""What the copies of a pruned model run as, beside the passes with zeros imposed."""

from dataclasses import replace

import pytest

import invented
import invented_profiles
from enginebench_controller.plan.plan import Plan
from enginebench_controller.runs.pruning import PruningOrder, _plan_of_copies


@pytest.mark.parametrize(("level", "given"), [("0", {"fake.optimization_level": "0"}), (None, {}), ("O2", {})])
def test_copies_run_at_the_level_of_the_passes_if_their_engine_has_levels(level: str | None, given: dict) -> None:
    options = {"imposed_sparsity": "0.5"} | ({} if level is None else {"optimization_level": level})
    configuration = replace(invented.CONFIGURATION, options=options)
    passes = [invented_profiles.profile(configuration=configuration)]
    assert passes[0].engine.name == "fake"
    order = PruningOrder(Plan(models=("net",), engines=("fake",), options={"fake.latency_us": "300"}))
    plan = _plan_of_copies(order, [invented.model()], passes)
    assert plan.options == {"fake.latency_us": "300", **given}
