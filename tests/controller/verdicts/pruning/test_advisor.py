"""The advisor: each rule speaks up where it should, with its numbers and layers, and is silent elsewhere."""

from dataclasses import replace

import pytest
from passes import conv, layer, one_pass, relu, sweep

from enginebench_controller.graph.roofline import Bound
from enginebench_controller.records import (
    Bystanders,
    Configuration,
    Coverage,
    Derivation,
    DerivationKind,
    Effective,
    EngineRef,
    HostFacts,
    MachineUse,
    ModelVersion,
    Peak,
    PeakKind,
    ProcessUse,
    ProfileNode,
    Rate,
    Readback,
    ReadbackSource,
)
from enginebench_controller.verdicts.layers.advice import Severity
from enginebench_controller.verdicts.layers.advisor import advise

NODES = tuple(conv(index) for index in range(8))
EVEN = tuple(layer(f"layer{index}", 10, index) for index in range(8))
VNNI = HostFacts(isa=("avx2", "avx512_vnni"))


def plain(layers=EVEN, nodes=NODES, **fields):
    """A profile about which there is nothing to say."""
    return one_pass(nodes, layers, identity="subject", **fields)


def only(rule, *arguments, **keywords):
    """The advice of one rule."""
    return [one for one in advise(*arguments, **keywords) if one.rule == rule]


def node(index, op_type, **fields):
    return ProfileNode(index, f"{op_type}{index}", op_type, group=index, **fields)


def peak(precision, per_s, kind=PeakKind.FLOPS, **fields):
    known = {"what": "products", "measured_at_unix_ns": 0, "rate": Rate(per_s, per_s, per_s, 9), "precision": precision}
    return Peak("local", EngineRef("invented", "default", "1.0"), "CPU", 2, kind, **known | fields)


def test_of_an_even_profile_there_is_nothing_to_say():
    assert advise(plain()) == ()


def test_of_a_profile_without_layers_there_is_nothing_to_say():
    assert advise(plain(layers=())) == ()


def test_int8_that_the_instructions_would_allow():
    (found,) = only("int8-unused", plain(host=VNNI))
    assert found.severity is Severity.GAIN
    assert found.evidence == {"instructions": "avx512_vnni", "floating_products_share": 1.0}
    assert len(found.layers) == 8
    assert "enginebench run" in found.remedy


def test_int8_that_was_measured_to_be_faster():
    peaks = (peak("f32", 1e9), peak("int8", 2e9))
    (found,) = only("int8-unused", plain(), peaks=peaks)
    assert found.evidence["int8_peak_to_f32_peak"] == 2.0
    assert not only("int8-unused", plain(), peaks=(peak("f32", 1e9), peak("int8", 1.1e9)))


@pytest.mark.parametrize("strange", [{"target": "other"}, {"cores": 1}, {"device": "GPU"}, {"cpu_model": "Other"}])
def test_peaks_of_other_runs_say_nothing(strange):
    peaks = [replace(one, **strange) for one in (peak("f32", 1e9), peak("int8", 2e9))]
    assert not only("int8-unused", plain(), peaks=peaks)


def test_int8_is_not_missed_where_it_is_used_or_would_bring_little():
    used = (replace(EVEN[0], precision="u8"), *EVEN[1:])
    assert not only("int8-unused", plain(used, host=VNNI))
    nodes = tuple(relu(index) for index in range(8))
    assert not only("int8-unused", plain(nodes=nodes, host=VNNI))
    silent = tuple(replace(one, precision="") for one in EVEN)
    assert not only("int8-unused", plain(silent, host=VNNI))


def test_floats_left_in_an_int8_model():
    mixed = (*(replace(one, precision="u8") for one in EVEN[:6]), *EVEN[6:])
    (found,) = only("float-in-int8", plain(mixed))
    assert [one.name for one in found.layers] == ["layer6", "layer7"]
    assert found.evidence == {"layers": 2, "time_share": 0.25}


def test_an_int8_model_is_known_by_its_graph_too():
    nodes = (node(0, "QuantizeLinear"), *NODES[1:])
    assert only("float-in-int8", plain(nodes=nodes))


def test_floats_whose_share_counters_make_too_large_are_no_reason():
    mixed = (layer("giant", 30, 0, precision="u8"), *(layer(f"short{at}", 2, at) for at in range(1, 8)))
    assert only("float-in-int8", plain(mixed))
    assert not only("float-in-int8", counted_dearly(mixed))


def test_no_floats_are_left_in_an_int8_model_without_any_or_in_a_floating_one():
    assert not only("float-in-int8", plain(tuple(replace(one, precision="int8") for one in EVEN)))
    assert not only("float-in-int8", plain())


def test_reorders_and_converts_beyond_ten_per_cent():
    moved = (layer("reorder", 5, None, category="reorder"), layer("convert", 5, None, category="convert"))
    (found,) = only("much-rearranging", plain((*EVEN, *moved)))
    assert found.evidence == {"layers": 2, "time_share": pytest.approx(10 / 90)}
    assert {one.position for one in found.layers} == {8, 9}
    assert not only("much-rearranging", plain((*EVEN, layer("reorder", 8, None, category="reorder"))))


def test_the_models_own_quantizers_are_converts_and_its_transposes_are_not():
    quantizers = (*NODES[:6], node(6, "QuantizeLinear"), node(7, "DequantizeLinear"))
    assert only("much-rearranging", plain(nodes=quantizers))
    assert not only("much-rearranging", plain(nodes=(*NODES[:6], node(6, "Transpose"), node(7, "Transpose"))))


def test_a_layer_far_below_its_roofline():
    layers = tuple(
        replace(one, flops=flops, data_bytes=1000) for one, flops in zip(EVEN, [10**6, *[10**7] * 7], strict=True)
    )
    memory = peak(None, 1e12, PeakKind.BANDWIDTH, working_set_bytes=1000)
    (found,) = only("far-below-roofline", plain(layers), peaks=(peak("f32", 1e9), memory))
    assert [one.name for one in found.layers] == ["layer0"]
    assert found.evidence["roofline_share"] == pytest.approx(0.1)
    assert f"bound by {Bound.COMPUTE}" in found.sentence
    assert not only("far-below-roofline", plain(layers))


def test_a_short_layer_far_below_its_roofline_is_not_worth_a_word():
    layers = (replace(EVEN[0], time_ns=(100_000,) * 3, flops=1, data_bytes=1), *EVEN[1:])
    memory = peak(None, 1e12, PeakKind.BANDWIDTH, working_set_bytes=1000)
    assert not only("far-below-roofline", plain(layers), peaks=(peak("f32", 1e9), memory))


def test_a_layer_that_takes_more_than_a_fifth_of_the_time():
    (found,) = only("dominant-layer", plain((layer("giant", 30, 0), *EVEN[1:])))
    assert found.layers[0].name == "giant"
    assert found.evidence == {"time_share": 0.3, "mean_ns": 30e6}
    assert not only("dominant-layer", plain((layer("large", 17, 0), *EVEN[1:])))


def counted_dearly(layers, **fields):
    """A profile of which counters make more than half of the layers' times."""
    total = sum(one.time_ns[0] for one in layers)
    return plain(layers, **{"profiled_latency_ns": 2 * total, "unprofiled_latency_ns": total // 2} | fields)


def test_where_counters_make_most_of_the_times_a_share_is_a_bound_and_those_of_short_layers_are_no_reason():
    (found,) = only("dominant-layer", counted_dearly((layer("giant", 30, 0), *EVEN[1:])))
    assert "takes at least 30.0 % of the time" in found.sentence
    short = tuple(layer(f"reorder{place}", 1, None, category="reorder") for place in range(30))
    assert only("much-rearranging", plain((*EVEN, *short)))
    assert not only("much-rearranging", counted_dearly((*EVEN, *short)))
    between = counted_dearly((layer("giant", 30, 0), *EVEN[1:]), unprofiled_latency_ns=100_000_000)
    assert "takes 30.0 % of the time" in only("dominant-layer", between)[0].sentence


def test_a_layer_that_counters_alone_may_have_put_far_below_its_roofline_is_let_be():
    layers = tuple(replace(one, flops=10**6, data_bytes=1000) for one in EVEN)
    peaks = (peak("f32", 1e9), peak(None, 1e12, PeakKind.BANDWIDTH, working_set_bytes=1000))
    assert len(only("far-below-roofline", plain(layers), peaks=peaks)) == 8
    assert not only("far-below-roofline", counted_dearly(layers), peaks=peaks)


def test_a_layer_whose_time_is_too_uneven_is_told_by_its_median_and_nothing_is_advised_on_it():
    held_up = replace(EVEN[0], time_ns=(1_000_000,) * 19 + (900_000_000,), flops=1, data_bytes=1)
    rest = tuple(replace(one, time_ns=(1_000_000,) * 20) for one in EVEN[1:])
    peaks = (peak("f32", 1e9), peak(None, 1e12, PeakKind.BANDWIDTH, working_set_bytes=1000))
    found = advise(plain((held_up, *rest)), peaks=peaks)
    assert not {one.rule for one in found} & {"dominant-layer", "far-below-roofline"}
    (uneven,) = (one for one in found if one.rule == "uneven-layer")
    assert (uneven.severity, [one.name for one in uneven.layers]) == (Severity.WARNING, ["layer0"])
    assert uneven.sentence.endswith("86.8 % of the time, by means, and 1.000 ms, 12.5 %, by medians")
    assert not only("uneven-layer", plain())


def test_of_several_dominant_layers_one_is_to_be_looked_at_first_and_each_is_told_with_node_and_roof():
    large = [layer(f"fused{group}", 40 - group, group, flops=10**6, data_bytes=1000) for group in range(2)]
    more = (replace(relu(8), group=0), replace(relu(9), group=0))
    peaks = (peak("f32", 1e9), peak(None, 1e12, PeakKind.BANDWIDTH, working_set_bytes=1000))
    first, second = only("dominant-layer", plain((*large, *EVEN[2:]), nodes=(*NODES, *more)), peaks=peaks)
    assert "the layer fused0 (Conv, of conv0 and 2 more nodes) alone takes" in first.sentence
    assert first.sentence.endswith(", and reaches 2.5 % of what its roofline allows")
    assert "(Conv, of conv1) alone" in second.sentence
    assert first.remedy.startswith("look at this layer first") and second.remedy == "then look at this one"


def test_low_coverage_names_the_layers_that_are_not_matched():
    stranger = layer("stranger", 10, None, category="engine_made")
    found = plain((*EVEN, stranger), coverage=Coverage(90, 80, 10, 0.1))
    (advice,) = only("low-coverage", found)
    assert (advice.severity, [one.name for one in advice.layers]) == (Severity.WARNING, ["stranger"])
    assert not only("low-coverage", plain(coverage=Coverage(100, 95, 5, 0.1)))


def test_a_model_without_a_graph_is_told_but_not_one_without_layers_in_time():
    (advice,) = only("low-coverage", plain(coverage=None, unmatched_reason="a .pt2 file has no ONNX graph"))
    assert "pt2" in advice.sentence
    assert not only("low-coverage", plain(coverage=None))


def test_settings_that_are_not_those_asked_for():
    asked = Configuration("CPU", batch=1, cores=2, precision="f32")
    effective = Effective(
        precision=Readback("bf16", ReadbackSource.ENGINE_API), threads=Readback(2, ReadbackSource.OBSERVED)
    )
    (advice,) = only("other-settings", plain(configuration=asked, effective=effective))
    assert "bf16" in advice.sentence
    same = replace(effective, precision=Readback("f32", ReadbackSource.ENGINE_API))
    assert not only("other-settings", plain(configuration=asked, effective=same))


def test_counters_that_distort():
    slow = plain(profiled_latency_ns=130, unprofiled_latency_ns=100)
    (found,) = only("distorted", slow)
    assert found.evidence == {"profiled_to_unprofiled": 1.3, "counters_ns_a_layer": 3.75}
    assert "shares of short layers for too large" in found.remedy
    assert not only("distorted", plain(profiled_latency_ns=115, unprofiled_latency_ns=100))
    assert not only("distorted", plain(profiled_latency_ns=130, unprofiled_latency_ns=None))


def test_counters_that_cost_time_between_layers_leave_shares_as_they_are():
    (found,) = only("distorted", plain(profiled_latency_ns=128_000_000))
    assert "shares as they are" in found.remedy and "too large" not in found.remedy


def test_what_a_pass_that_was_held_up_took_more_is_not_laid_on_counters():
    slow = {"profiled_latency_ns": 128_000_000}
    times = tuple(1_000_000 * one for one in (10, 10, 20, 20, 30, 30))
    uneven = plain(tuple(replace(one, time_ns=times) for one in EVEN), **slow)
    beside = plain(bystanders=Bystanders(meanwhile=MachineUse(10**8, 8, 4 * 10**8)), **slow)
    for profile in (uneven, beside):
        (found,) = only("distorted", profile)
        assert found.sentence.endswith("1.60 times as long as without")
        assert found.evidence == {"profiled_to_unprofiled": 1.6} and "counters need not be why" in found.remedy


@pytest.mark.parametrize(("latency_ms", "expected"), [(100, True), (80, False), (60, True), (None, False)])
def test_sums_that_are_off(latency_ms, expected):
    latency_ns = None if latency_ms is None else latency_ms * 1_000_000
    found = only("sum-is-off", plain(unprofiled_latency_ns=latency_ns, profiled_latency_ns=latency_ns))
    assert bool(found) is expected


def test_inferences_that_took_unlike_times():
    def of(*times_ms):
        times_ns = tuple(1_000_000 * one for one in times_ms)
        return plain(layers=tuple(replace(one, time_ns=times_ns) for one in EVEN))

    (found,) = only("uneven", of(10, 10, 20, 20, 30, 30))
    assert found.evidence == {"unevenness": pytest.approx(0.75)} and "differs by 75" in found.sentence
    assert "suffer less" not in found.remedy
    assert not only("uneven", of(10, 10, 11, 10, 10, 99)), "single ones that were held up"
    assert not only("uneven", of(10, 99, 10)), "too few"


def test_a_pass_beside_others_says_so_and_who_they_are():
    def beside(other_ms):
        used = MachineUse(
            100_000_000, 8, other_ms * 1_000_000, busiest=(ProcessUse("pip", 812, 1, other_ms * 900_000),)
        )
        return plain(bystanders=Bystanders(meanwhile=used))

    cores = plain().configuration.cores
    (found,) = only("disturbed", beside(40 * cores))
    assert found.sentence == (
        f"while it was profiled, other processes used {5 * cores} % of the machine, most of it `pip` (pid 812)"
    )
    assert found.remedy.startswith("close `pip`, or measure when it has ended, and profile again")
    assert "suffer less" not in found.remedy and "too large a share" in found.remedy
    assert not only("disturbed", beside(9 * cores)) and not only("disturbed", plain(bystanders=Bystanders()))


@pytest.mark.parametrize(
    ("profiled_ms", "reason"), [(72, "machine was slower without"), (100, "time outside of layers")]
)
def test_a_sum_below_the_latency_is_laid_on_the_machine_where_the_counters_saved_time(profiled_ms, reason):
    passes = {"unprofiled_latency_ns": 100_000_000, "profiled_latency_ns": profiled_ms * 1_000_000}
    (found,) = only("sum-is-off", plain(**passes))
    assert reason in found.sentence


def test_pruning_that_pays_goes_by_what_was_seen():
    passes = sweep((0.0, (10, 2, 20)), (0.9, (4, 2, 5)))
    (found,) = only("pruning-pays", plain(), imposed=passes)
    (dense,) = (one for one in passes if not one.imposed_sparsity)
    assert f"`enginebench prospects show {dense.id}`" in found.remedy
    assert found.evidence == {
        "sparsity": pytest.approx(0.9),
        "speedup": pytest.approx(32 / 11),
        "known_from": "with zeros imposed",
    }
    assert not only("pruning-pays", plain(), imposed=sweep((0.0, (10, 2, 20)), (0.9, (9, 2, 18))))
    assert not only("pruning-pays", plain(), imposed=sweep((0.9, (4, 2, 5))))
    assert not only("pruning-pays", plain())


def in_int8(ms, *more):
    layers = tuple(layer(f"q{index}", time, index, precision="u8") for index, time in enumerate(ms))
    return one_pass(NODES, (*layers, *more), identity="int8")


def test_layers_that_int8_made_slower_and_what_conversions_cost():
    convert = layer("convert", 4, None, category="convert", precision="u8")
    quantized = in_int8((5, 5, 14, 5, 5, 5, 10.2, 5), convert)
    (slower,) = only("slower-in-int8", quantized, plain())
    assert [one.name for one in slower.layers] == ["q2"]
    assert slower.evidence == {"layers": 1, "lost_ns": pytest.approx(4e6)}
    assert slower.sentence.startswith("1 layer takes longer")
    (cost,) = only("int8-conversions", quantized, plain())
    assert cost.evidence["cost_ns"] == pytest.approx(4e6) and "floating one, 6.9 % of its time" in cost.sentence
    assert [one.name for one in cost.layers] == ["convert"]


def test_where_counters_make_most_of_the_times_the_share_of_conversions_is_a_bound():
    converts = layer("convert", 40, None, category="convert", precision="u8")
    quantized = in_int8((5,) * 8, converts)
    (cost,) = only("int8-conversions", quantized, plain())
    assert "floating one, 50.0 % of its time" in cost.sentence
    (cost,) = only("int8-conversions", replace(quantized, unprofiled_latency_ns=40_000_000), plain())
    assert "floating one, at least 50.0 % of its time" in cost.sentence


def test_a_layer_that_is_slower_in_int8_within_noise_is_not_called_slower():
    quantized = in_int8((5,) * 8)
    shaky = replace(quantized.layers[2], time_ns=(5_000_000, 31_000_000, 6_000_000))
    quantized = replace(quantized, layers=(*quantized.layers[:2], shaky, *quantized.layers[3:]))
    assert not only("slower-in-int8", quantized, plain())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"engine": EngineRef("other", "default", "1.0")}, "another engine"),
        ({"target": "nuc"}, "another target"),
        ({"configuration": Configuration("GPU", 1, 2)}, "another device"),
        ({"configuration": Configuration("CPU", 4, 3)}, "another batch and another number of cores"),
        ({"nodes": tuple(relu(index) for index in range(8))}, "another model"),
    ],
)
def test_a_profile_that_is_not_the_floating_one_on_equal_terms_is_not_held_against_an_int8_model(change, said):
    slow = in_int8((14,) * 8)
    assert only("slower-in-int8", slow, plain())
    other = replace(plain(), **change)
    assert not only("slower-in-int8", slow, other)
    (why,) = only("against-unused", slow, other)
    assert why.severity is Severity.NOTE and said in why.sentence


def test_nothing_is_slower_in_int8_without_a_floating_side_or_without_slower_layers():
    quantized = in_int8((14,) * 8)
    assert not only("slower-in-int8", quantized)
    assert not only("slower-in-int8", quantized, quantized)
    assert not only("slower-in-int8", plain(), quantized)
    assert not only("slower-in-int8", in_int8((5,) * 8), plain())
    assert not only("int8-conversions", in_int8((5,) * 8), plain())


def test_advice_names_the_fifty_slowest_layers():
    layers = tuple(layer(f"layer{index}", 10 + index, index) for index in range(60))
    (found,) = only("int8-unused", plain(layers, tuple(map(conv, range(60))), host=VNNI))
    assert [one.name for one in found.layers] == [f"layer{index}" for index in range(59, 9, -1)]


def test_int8_is_measured_by_one_command_configured_as_the_profile_which_names_a_version_that_exists():
    known = ModelVersion("cd" * 32, "net-int8", "onnx", (), 1, "ab" * 32, Derivation(DerivationKind.QUANTIZED))
    profile = plain(host=VNNI)
    (plainly,) = only("int8-unused", profile)
    (with_version,) = only("int8-unused", profile, int8_versions=[known])

    name = profile.model_name
    command = f"`enginebench run {name} int8:{name} --engine invented --device CPU --cores 2 --name int8`"
    assert f"made where there is none): {command}, then `enginebench compare int8`" in plainly.remedy
    assert f"there is one already, net-int8): {command}" in with_version.remedy


def test_of_a_model_that_is_gone_no_command_is_advised_but_that_it_was_removed():
    (found,) = only("int8-unused", plain(host=VNNI), is_model_gone=True)
    assert "was removed" in found.remedy and "enginebench run" not in found.remedy


def test_a_profile_that_no_plan_can_ask_for_is_advised_on_as_well():
    strange = replace(plain(host=VNNI), configuration=Configuration("CPU", 1, 2, precision="odd"))
    (found,) = only("int8-unused", strange)
    assert "`enginebench run" in found.remedy


def test_a_model_that_is_quantized_dynamically_is_not_to_be_quantized():
    nodes = (node(0, "DynamicQuantizeLinear"), node(1, "MatMulInteger"), *NODES[2:])
    assert not only("int8-unused", plain(nodes=nodes, host=VNNI))


def test_a_model_that_takes_bytes_is_no_int8_model():
    nodes = (node(0, "Gather"), *NODES[1:])
    bytes_first = (replace(EVEN[0], type="Gather", precision="u8"), *EVEN[1:])
    assert only("int8-unused", plain(bytes_first, nodes=nodes, host=VNNI))
    assert not only("float-in-int8", plain(bytes_first, nodes=nodes))
