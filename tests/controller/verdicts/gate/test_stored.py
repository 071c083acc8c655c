"""What earlier gates in the store tell of this machine."""

from dataclasses import replace

import pytest

import invented
import invented_profiles
from controller.verdicts.pairs import keep_gate
from enginebench_controller.home import Home
from enginebench_controller.plan.expand import Case
from enginebench_controller.plan.plan import BASE, CONTROL, HEAD, GateMetric
from enginebench_controller.records import EngineRef
from enginebench_controller.verdicts.gate.stored import Likeness, explained, gate_of, history, stored_arms

pytestmark = pytest.mark.slow

CASE = Case("local", EngineRef("fake", "default", "1.0"), invented.model(), invented.CONFIGURATION, ("cpu",))


def test_gates_of_another_machine_of_the_same_name_tell_nothing_of_this_one(tmp_path):
    home = Home(tmp_path)
    keep_gate(home.store, "b0000001", invented.model().digest, imported=True)
    assert history(home, [CASE]) is None

    keep_gate(home.store, "b0000002", invented.model().digest)
    known = history(home, [CASE])
    assert (known.pairs, known.likeness) == (20, Likeness.SAME)


def test_one_gate_that_was_disturbed_says_little_of_the_next(tmp_path):
    home = Home(tmp_path)
    for place, scatter in enumerate((0.3, 0.01, 0.01)):
        keep_gate(home.store, f"b000000{place}", invented.model().digest, scatter=scatter)
    known = history(home, [CASE])
    assert known.pairs == 60 and known.spreads[GateMetric.LATENCY] < 0.02


def test_members_that_are_no_ids_are_none(tmp_path):
    home = Home(tmp_path)
    keep_gate(home.store, "b0000001", invented.model().digest)
    gate = home.store.benchmark("b0000001")
    told = {role: [id_] if role == BASE else id_ for role, id_ in gate.plan["members"].items()}
    assert stored_arms(home, replace(gate, plan={**gate.plan, "members": told})).keys() == {HEAD, CONTROL}


def test_imported_profiles_do_not_explain_a_gate_of_ones_own(tmp_path):
    home = Home(tmp_path)
    keep_gate(home.store, "b0000001", invented.model().digest, ratio=1.2)
    for place, role in enumerate((BASE, HEAD)):
        home.store.add_profile(invented_profiles.profile(f"p{place}", order_id=f"b0000001-{role}", imported=True))
    assert explained(home, gate_of(home, home.store.benchmark("b0000001"))) is None
