"""What a target said of itself, and which peak of a calibration stands for its precision or its working set."""

from dataclasses import replace

from enginebench_controller.records import EngineRef, HostFacts, Peak, PeakKind, Rate
from enginebench_controller.records.fields import HOST
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
