"""What follows from the figures of a profile."""

import invented_profiles
from enginebench_controller.records import Phase


def of_phases(*phases):
    return invented_profiles.profile(phases=tuple(Phase(name, 1, peak) for name, peak in phases))


def test_the_peak_is_that_of_the_network_without_counters_where_there_is_one():
    without = (("read", 10), ("compile", 70), ("warm_up", 75))
    beside_it = (("compile", 120), ("warm_up", 290), ("steady_state", 300), ("teardown", 310))
    assert of_phases(*without, *beside_it).peak_rss_bytes == 75
    assert of_phases(*without, ("steady_state", 300)).peak_rss_bytes == 300, "it is the only one"
    assert of_phases(("compile", None), ("compile", 120)).peak_rss_bytes is None
    assert of_phases().peak_rss_bytes is None
