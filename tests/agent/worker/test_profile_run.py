"""A profile in a real child: its layers and both latencies, and a failure for layers that cannot be."""

from collections.abc import Callable

import pytest

from enginebench_proto.v1 import run_pb2


def test_a_profile_has_its_layers_and_both_latencies(run_mine: Callable) -> None:
    child = run_mine(kind=run_pb2.RUN_KIND_PROFILE)
    profile = child.result.profile
    assert child.result.outcome == run_pb2.OUTCOME_OK
    assert not child.result.HasField("measurement")
    assert profile.iterations == 10
    assert profile.profiled_latency_ns == 5000
    assert profile.unprofiled_latency_ns > 0
    assert [layer.name for layer in profile.layers] == ["scale", "gone"]
    assert [len(layer.time_ns) for layer in profile.layers] == [10, 0]
    assert child.phases.count("compile") == 2
    assert child.sample_parts == []


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ("[]", "no layers"),
        ("[spec.LayerProfile('a', 'T', 0, time_ns=(1,))]", "1 times for the layer 'a'"),
        ("[spec.LayerProfile('a', 'T', 0, time_ns=(-1,) * iterations)]", "-1 ns"),
        ("[spec.LayerProfile('a', 'T', 0, time_ns=(float('nan'),) * iterations)]", "nan ns"),
        ("[spec.LayerProfile('a', 'T', 0, time_ns=(1.5,) * iterations)]", "whole nanoseconds"),
        ("[spec.LayerProfile('a', 'T', 0, time_ns=(1,) * iterations)] * 2", "two layers named 'a'"),
        ("[spec.LayerProfile('a', 'T', 0, spec.LayerState.NOT_EXECUTED, (1,))]", "0 belong to it"),
        ("[spec.LayerProfile('a', 'T', 0, time_ns=(1,) * iterations)], (5,)", "1 latencies"),
    ],
)
def test_impossible_layers_fail_the_profile(run_mine: Callable, layers: str, words: str) -> None:
    child = run_mine({"profile": f"return spec.ModelProfile({layers})"}, kind=run_pb2.RUN_KIND_PROFILE)
    assert child.result.failure.kind == run_pb2.FAILURE_KIND_INFERENCE_FAILED
    assert words in child.result.failure.detail
    assert not child.result.HasField("profile")


def test_a_profile_without_latencies_leaves_them_unknown(run_mine: Callable) -> None:
    layer = "spec.LayerProfile('a', 'T', 0, time_ns=(1,) * iterations)"
    child = run_mine({"profile": f"return spec.ModelProfile(({layer},))"}, kind=run_pb2.RUN_KIND_PROFILE)
    assert child.result.outcome == run_pb2.OUTCOME_OK
    assert not child.result.profile.HasField("profiled_latency_ns")


def test_a_bare_list_is_no_profile(run_mine: Callable) -> None:
    child = run_mine({"profile": "return []"}, kind=run_pb2.RUN_KIND_PROFILE)
    assert "instead of a ModelProfile" in child.result.failure.detail


def test_counters_are_off_in_the_first_pass_and_on_in_the_second(run_mine: Callable) -> None:
    statement = "import sys; sys.stderr.write(f'profiling={settings.profiling} ')"
    child = run_mine({"compile": statement}, kind=run_pb2.RUN_KIND_PROFILE)
    assert "profiling=False profiling=True" in child.stderr
