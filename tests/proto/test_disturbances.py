"""What disturbs a block has a kind, an amount and a phrase; of before there are phrases alone."""

import pytest

from enginebench_proto.agreed.disturbances import Disturbance, DisturbanceKind
from enginebench_proto.v1 import measurement_pb2

PHRASES = {
    "steal 1.2 %": Disturbance(DisturbanceKind.STEAL, share=0.012),
    "steal 100 %": Disturbance(DisturbanceKind.STEAL, share=1.0),
    "other processes 12 %": Disturbance(DisturbanceKind.OTHER_PROCESSES, share=0.12),
    "other processes 150 %": Disturbance(DisturbanceKind.OTHER_PROCESSES, share=1.5),
    "throttled for 1.5 ms": Disturbance(DisturbanceKind.THROTTLED, duration_ns=1_500_000),
    "throttled for 1.23e+03 ms": Disturbance(DisturbanceKind.THROTTLED, duration_ns=1_230_000_000),
    "memory pressure 1.1 %": Disturbance(DisturbanceKind.MEMORY_PRESSURE, share=0.011),
    "frequency 1.00 GHz, 33 % of the highest seen": Disturbance(
        DisturbanceKind.FREQUENCY, share=0.33, frequency_hz=1_000_000_000
    ),
    "paused for 20 s": Disturbance(DisturbanceKind.PAUSED, duration_ns=20_000_000_000),
    "held back": Disturbance(DisturbanceKind.HELD_BACK),
}
"""As agents wrote them when the phrase was all that was told."""


@pytest.mark.parametrize(("phrase", "disturbance"), PHRASES.items())
def test_a_phrase_of_before_is_read_and_people_read_it_on(phrase: str, disturbance: Disturbance) -> None:
    found = Disturbance.from_phrase(phrase)
    assert (found.kind, found.duration_ns, found.frequency_hz) == (
        disturbance.kind,
        disturbance.duration_ns,
        disturbance.frequency_hz,
    )
    assert found.share == pytest.approx(disturbance.share)
    assert str(found) == str(disturbance) == phrase


@pytest.mark.parametrize("phrase", ["", "a ghost 3 %", "steal", "steal much %", "paused for 1e999 s", "steal 3 %\n"])
def test_a_phrase_that_nobody_wrote_is_kept_as_it_is(phrase: str) -> None:
    found = Disturbance.from_phrase(phrase)
    assert (found.kind, found.said) == (DisturbanceKind.SOMETHING_ELSE, phrase)
    assert str(found) == (phrase or "something else")


def test_every_kind_but_what_nobody_knows_has_a_number_on_the_wire() -> None:
    names = [f"DISTURBANCE_KIND_{kind.name}" for kind in DisturbanceKind if kind is not DisturbanceKind.SOMETHING_ELSE]
    assert names == [name for name, number in measurement_pb2.DisturbanceKind.items() if number]
