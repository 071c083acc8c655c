"""What a target said of itself, and which peak of a calibration stands for its precision or its working set."""

from dataclasses import replace

from enginebench_controller.records import (
    AvailableEngine,
    Device,
    EngineOption,
    EngineRef,
    HostFacts,
    Peak,
    PeakKind,
    Rate,
    TargetSnapshot,
    UnavailableEngine,
    UnavailableKind,
)
from enginebench_controller.records.fields import ENGINES, HOST
from enginebench_controller.records.target import best_peaks

SLOW = Peak(
    *("nuc", EngineRef("openvino", "default", "2026.4"), "CPU", 2, PeakKind.FLOPS, "MatMul", 10),
    precision="f32",
    rate=Rate(1e9, 1e9, 1e9, 9),
)
FAST = replace(SLOW, what="Conv", rate=Rate(2e9, 2e9, 2e9, 9))
WINOGRAD = replace(SLOW, what="Conv 3×3", may_be_winograd=True, rate=Rate(5e9, 5e9, 5e9, 9))
CANNOT = replace(SLOW, precision="int8", rate=None, failure="cannot")
SMALL = replace(SLOW, kind=PeakKind.BANDWIDTH, precision=None, working_set_bytes=1 << 10)


def test_the_fastest_of_each_precision_and_working_set_is_kept_and_winograd_apart():
    large = replace(SMALL, working_set_bytes=1 << 20)

    assert best_peaks([SLOW, FAST, WINOGRAD, CANNOT, SMALL, large]) == [FAST, WINOGRAD, CANNOT, SMALL, large]


def test_one_with_a_rate_stands_before_one_that_failed():
    assert best_peaks([replace(SLOW, rate=None, failure="no"), SLOW]) == [SLOW]


def test_host_facts_of_an_older_version_lack_some_and_those_of_a_newer_one_have_more():
    older = HOST.from_data({"cpu_model": "Invented CPU", "physical_cores": 2, "memory_bytes": None})
    assert older == HostFacts(cpu_model="Invented CPU", physical_cores=2)
    assert HOST.from_data({**HOST.to_data(older), "quantum_cores": 7}) == older


OFFERED = AvailableEngine(
    name="vino",
    environment="default",
    version="2026.1",
    formats=("onnx",),
    options=(EngineOption("level", "str", ("low", "high"), "How much.", profile_only=True),),
    devices=(Device("CPU", "Invented CPU", ("f32",), ("cpu",), {"instruction_set": "avx2"}),),
    more_devices=3,
)
MISSED = UnavailableEngine(
    name="torch", environment="old", kind=UnavailableKind.NOT_INSTALLED, reason="it is not there", hidden=True
)


def test_engines_are_kept_as_before_with_what_is_available_or_why_not_in_a_part():
    data = ENGINES.to_data((OFFERED, MISSED))
    listed = ["name", "environment", "python_version", "distribution", "hidden", "available", "unavailable"]
    assert [list(one) for one in data] == [listed, listed]
    assert data[0]["available"]["devices"][0]["properties"] == {"instruction_set": "avx2"}
    assert (data[0]["unavailable"], data[1]["available"]) == (None, None)
    assert data[1]["unavailable"] == {"kind": "not_installed", "reason": "it is not there", "detail": ""}
    assert ENGINES.from_data(data) == (OFFERED, MISSED)


def test_engines_of_an_older_version_lack_some_and_those_of_a_newer_one_have_more():
    older = {"name": "a", "environment": "default", "available": {"version": "1.0", "devices": [{"name": "CPU"}]}}
    newer = {**ENGINES.to_data((MISSED,))[0], "mood": "calm"}
    newer["unavailable"] |= {"kind": "haunted", "since_ns": 3}

    first, second = ENGINES.from_data([older, newer])
    assert first == AvailableEngine(name="a", environment="default", version="1.0", devices=(Device("CPU"),))
    assert second == replace(MISSED, kind=UnavailableKind.UNSPECIFIED)


def test_who_can_be_used_and_who_has_not_answered_yet():
    asked = replace(MISSED, kind=UnavailableKind.BEING_ASKED)
    snapshot = TargetSnapshot("nuc", "nuc:1", 1, HostFacts(), (OFFERED, MISSED, asked))
    assert (snapshot.available, snapshot.being_asked) == ((OFFERED,), (asked,))
