"""A profile in a real child: its layers and both latencies, and a failure for layers that cannot be."""

from collections.abc import Callable

import pytest

from enginebench_proto.v1 import configuration_pb2, run_pb2

pytestmark = pytest.mark.slow


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


@pytest.mark.fault(18)
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


@pytest.mark.parametrize(
    ("names", "times", "layers", "words"),
    [
        ("()", "iterations", [], "no layers"),
        ("('a', 'b')", "1", [], "1 times for the layer 'a'"),
        ("('a', 'b')", "iterations", ["a", "b"], ""),
    ],
)
def test_layers_of_a_generator_are_looked_at_and_kept(
    run_mine: Callable, names: str, times: str, layers: list[str], words: str
) -> None:
    given = f"(spec.LayerProfile(name, 'T', order, time_ns=(1,) * {times}) for order, name in enumerate({names}))"
    child = run_mine({"profile": f"return spec.ModelProfile({given})"}, kind=run_pb2.RUN_KIND_PROFILE)
    assert words in child.result.failure.detail
    assert [layer.name for layer in child.result.profile.layers] == layers


def test_a_profile_without_latencies_leaves_them_unknown(run_mine: Callable) -> None:
    layer = "spec.LayerProfile('a', 'T', 0, time_ns=(1,) * iterations)"
    child = run_mine({"profile": f"return spec.ModelProfile(({layer},))"}, kind=run_pb2.RUN_KIND_PROFILE)
    assert child.result.outcome == run_pb2.OUTCOME_OK
    assert not child.result.profile.HasField("profiled_latency_ns")


def means(options: str = "") -> dict[str, str]:
    formats = "frozenset({spec.ModelFormat.ONNX})"
    layer = "spec.LayerProfile('a', 'T', 0, time_ns=(5,) * iterations)"
    return {
        "info": f"return spec.EngineInfo('4.2', {formats}, profiling=True, mean_profiles=True)",
        "profile": f"return spec.ModelProfile(({layer},){options})",
    }


@pytest.mark.parametrize(("told", "inferences"), [("", 10), (", inferences=431", 431)])
def test_a_mean_is_told_once_with_the_number_of_its_inferences(run_mine: Callable, told: str, inferences: int) -> None:
    profile = run_mine(means(told), kind=run_pb2.RUN_KIND_PROFILE).result.profile
    assert list(profile.layers[0].time_ns) == [5]
    assert profile.iterations == inferences


def test_means_over_nothing_fail_the_profile(run_mine: Callable) -> None:
    child = run_mine(means(", inferences=0"), kind=run_pb2.RUN_KIND_PROFILE)
    assert "means over 0 inferences" in child.result.failure.detail


def test_a_bare_list_is_no_profile(run_mine: Callable) -> None:
    child = run_mine({"profile": "return []"}, kind=run_pb2.RUN_KIND_PROFILE)
    assert "instead of a ModelProfile" in child.result.failure.detail


WRITE = "import sys; sys.stderr.write({!r})"


def test_blocks_without_counters_lie_between_those_with_them(run_mine: Callable) -> None:
    profile = f"""
        {WRITE.format("[")}
        for _ in range(iterations):
            sys.stderr.write("P")
            between()
        sys.stderr.write("]")
    """
    child = run_mine({"infer": WRITE.format("u"), "profile": profile}, kind=run_pb2.RUN_KIND_PROFILE)
    during = child.stderr.partition("[")[2].partition("]")[0]
    # Two that count on either side, and one before them that does not, as caches and threads are the other side's.
    assert during == "PPuuu" + "PPPuuu" * 4


def test_the_first_profiled_inference_after_one_without_counters_does_not_count(run_mine: Callable) -> None:
    layer = "spec.LayerProfile('a', 'T', 0, time_ns=tuple(range(iterations)))"
    statement = f"return spec.ModelProfile(({layer},), tuple(range(iterations)))"
    profile = run_mine({"profile": statement}, kind=run_pb2.RUN_KIND_PROFILE).result.profile
    assert list(profile.layers[0].time_ns) == [0, 1, 3, 4, 6, 7, 9, 10, 12, 13]
    assert profile.profiled_latency_ns == 6
    assert profile.iterations == 10


def test_where_each_profiled_inference_is_compiled_anew_all_of_them_count(run_mine: Callable) -> None:
    profile = f"""
        {WRITE.format("[")}
        for _ in range(iterations):
            sys.stderr.write("P")
            between()
        sys.stderr.write("]")
        layer = spec.LayerProfile("a", "T", 0, time_ns=tuple(range(iterations)))
        return spec.ModelProfile((layer,))
    """
    create_request = "self.compiles_for_each_profiled_inference = True"
    statements = {"infer": WRITE.format("u"), "profile": profile, "create_request": create_request}
    child = run_mine(statements, kind=run_pb2.RUN_KIND_PROFILE)
    assert child.stderr.partition("[")[2].partition("]")[0] == "PPuuu" * 5
    assert list(child.result.profile.layers[0].time_ns) == list(range(10))


def test_an_engine_that_profiles_without_a_break_is_timed_without_counters_afterwards(run_mine: Callable) -> None:
    statements = {"infer": WRITE.format("u"), "profile": WRITE.format("[P]")}
    child = run_mine(statements, kind=run_pb2.RUN_KIND_PROFILE)
    assert child.stderr.partition("[")[2].strip() == "P]" + "u" * 11
    assert child.result.profile.unprofiled_latency_ns > 0


def test_who_is_profiled_beside_a_warm_network_is_warmed_briefly(run_mine: Callable) -> None:
    stop = configuration_pb2.StopRule(warmup_ns=1_500_000_000)
    child = run_mine({}, kind=run_pb2.RUN_KIND_PROFILE, stop=stop)
    without, with_counters = [one for one in child.result.profile.phases if one.name == "warm_up"]
    assert without.duration_ns >= 1_500_000_000 > with_counters.duration_ns


def test_an_engine_says_how_many_inferences_make_a_profile_unless_somebody_else_does(run_mine: Callable) -> None:
    statement = "self.usual_profile_iterations = 3"
    stop = configuration_pb2.StopRule(warmup_ns=1_000_000)
    child = run_mine({"create_request": statement}, kind=run_pb2.RUN_KIND_PROFILE, stop=stop)
    assert child.result.profile.iterations == 3


PROFILE_ONLY = {
    "info": """
        options = (spec.OptionSpec("imposed", float, "for profiles", profile_only=True),)
        formats = frozenset({spec.ModelFormat.ONNX})
        return spec.EngineInfo(version="4.2", formats=formats, profiling=True, options=options)
    """,
    "compile": "import sys; sys.stderr.write(f'profiling={settings.profiling} ')",
}


def test_what_runs_for_the_profile_only_has_no_latency_without_counters(run_mine: Callable) -> None:
    child = run_mine(PROFILE_ONLY, kind=run_pb2.RUN_KIND_PROFILE, options={"imposed": "0.5"})
    assert child.result.outcome == run_pb2.OUTCOME_OK, child.result.failure
    assert "profiling=True" in child.stderr and "profiling=False" not in child.stderr
    assert child.result.profile.unprofiled_latency_ns == 0, "0 is absent on this wire"
    assert child.result.profile.profiled_latency_ns == 5000
    assert child.result.profile.effective.streams.value == 1


def test_an_option_for_profiles_is_refused_in_a_benchmark(run_mine: Callable) -> None:
    child = run_mine(PROFILE_ONLY, options={"imposed": "0.5"})
    assert child.result.failure.kind == run_pb2.FAILURE_KIND_REFUSED
    assert "imposed of mine is for profiles only" in child.result.failure.detail


def test_counters_are_off_in_one_session_and_on_in_the_other(run_mine: Callable) -> None:
    statement = "import sys; sys.stderr.write(f'profiling={settings.profiling} ')"
    child = run_mine({"compile": statement}, kind=run_pb2.RUN_KIND_PROFILE)
    assert "profiling=False profiling=True" in child.stderr
