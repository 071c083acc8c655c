"""What was released of the wire stays: an older agent and a newer controller go on understanding each other."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from wire_listing import wire

RELEASED = Path(__file__).parents[2] / "proto" / "released" / "wire.txt"


@pytest.mark.fault(20)
def test_nothing_that_was_released_of_the_wire_was_changed_or_removed() -> None:
    gone = sorted(set(RELEASED.read_text(encoding="utf-8").splitlines()) - set(wire()))
    assert not gone, "what was released has to stay as it is: add with new names and numbers instead"


def test_a_line_tells_number_type_label_and_choice() -> None:
    lines = wire()
    assert "field enginebench.v1.RunSpec.run_id = 1 singular string" in lines
    assert "field enginebench.v1.HostFacts.memory_bytes = 10 optional uint64 of _memory_bytes" in lines
    assert "field enginebench.v1.FindMissingRequest.sha256 = 1 repeated string" in lines
    assert "field enginebench.v1.ResultPart.block = 3 optional enginebench.v1.Block of part" in lines
    assert "value enginebench.v1.Outcome.OUTCOME_OK = 1" in lines
    upload = "(stream enginebench.v1.UploadRequest) returns (enginebench.v1.UploadResponse)"
    assert f"method enginebench.v1.ModelService.Upload{upload}" in lines
