"""What earlier gates in the store tell of this machine."""

import pytest

import invented
from controller.verdicts.pairs import keep_gate
from enginebench_controller.home import Home
from enginebench_controller.plan.expand import Case
from enginebench_controller.records import EngineRef
from enginebench_controller.verdicts.gate.stored import Likeness, history

pytestmark = pytest.mark.slow

CASE = Case("local", EngineRef("fake", "default", "1.0"), invented.model(), invented.CONFIGURATION, ("cpu",))


def test_gates_of_another_machine_of_the_same_name_tell_nothing_of_this_one(tmp_path):
    home = Home(tmp_path)
    keep_gate(home.store, "b0000001", invented.model().digest, imported=True)
    assert history(home, [CASE]) is None

    keep_gate(home.store, "b0000002", invented.model().digest)
    known = history(home, [CASE])
    assert (known.pairs, known.likeness) == (20, Likeness.SAME)
